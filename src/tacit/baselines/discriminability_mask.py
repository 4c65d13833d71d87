"""DiscriminabilityMask: dim the inputs that tell the sensitive attribute, keep those that tell the target (DDD).

Whitehill & Movellan, "Discriminately decreasing discriminability with learned image filters", with a filter that
multiplies each input by its own weight m in 0..1. How well a binary label can be told afterwards is its largest
Fisher criterion, in closed form for two classes,

    D(m) = d' M (M S M + ridge I)^-1 M d,       d = difference of class means, S = within-class covariance,

and the mask maximizes  ln D_target(m) - privacy_weight ln D_secret(m) - fidelity mean (1 - m)^2.
The ridge stands for an eye that cannot see below some contrast. A classifier can: a mask that is not zero can be
divided out, so against a re-trained attacker only the inputs that reach (nearly) zero are withheld.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.utils import ClassifierTags

from tacit.baselines.moments import moments_of
from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import Filter, Knob, Problem, release_by_folds
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels

TINY = 1e-12


@register_filter("discriminability-mask", offered=False)
@dataclass(eq=False, repr=False)
class DiscriminabilityMask(Filter):
    """A weight for every input that keeps one binary target discernible and one binary sensitive attribute not.

    Parameters
    ----------
    privacy_weight : the knob: weight of the sensitive attribute's Fisher criterion against the target's (1 in the
        paper)
    fidelity : pull of the mask towards 1, that is, of the release towards the record
    ridge : contrast, as a share of the mean within-class variance, below which nothing is discerned
    cut : weights below this are set to zero, so that they cannot be divided out
    max_iter : steps of L-BFGS
    random_state : decides the folds of `release_training_rows`; the solution itself draws nothing

    Attributes
    ----------
    mask_ : the weights, in the shape of one encoded record
    n_iter_ : steps taken

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.DiscriminabilityMask().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> f.mask_.round(2).tolist()
    [1.0, 0.0]
    """

    knob = Knob("privacy_weight", utility_rises=False, values=(0.0, 0.25, 0.5, 1.0, 2.0, 4.0))

    privacy_weight: float = 1.0
    _: KW_ONLY
    fidelity: float = 0.1
    ridge: float = 1.0
    cut: float = 0.1
    max_iter: int = 500
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)  # binary labels alone
        return tags

    def _learn(self, problem: Problem) -> Mechanism:
        for name in ("privacy_weight", "fidelity", "ridge"):
            check_number(name, getattr(self, name), 0)
        check_number("cut", self.cut, 0, 1)
        check_number("max_iter", self.max_iter, 1, whole=True)
        _refuse_many_classes(problem.targets, "y")
        _refuse_many_classes(problem.sensitive, "sensitive_features")
        self.mask_, self.n_iter_ = self._mask(problem)
        if not self.mask_.any():
            note(
                self,
                f"collapsed: every input is masked, so the release carries nothing; lower privacy_weight "
                f"(now {self.privacy_weight}) or cut (now {self.cut}), or raise fidelity (now {self.fidelity})",
                CollapseWarning,
            )
        return Mechanism(Dimmed(self.mask_), self.mask_.size)

    def _mask(self, problem: Problem) -> tuple[np.ndarray, int]:
        criteria = [_Fisher(problem.X, problem.targets.codes[:, 0], self.ridge)]
        criteria += [_Fisher(problem.X, codes, self.ridge) for codes in problem.sensitive.codes.T]
        signs = [1.0, -self.privacy_weight]

        def cost(mask: np.ndarray) -> tuple[float, np.ndarray]:
            away = 1 - mask
            value, slope = self.fidelity * np.mean(away**2), -2 * self.fidelity * away / len(mask)
            for sign, criterion in zip(signs, criteria, strict=False):
                log, gradient = criterion(mask)
                value, slope = value - sign * log, slope - sign * gradient
            return float(value), slope

        width = int(np.prod(problem.X.shape[1:]))
        found = minimize(
            cost,
            np.full(width, 0.5),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * width,
            options={"maxiter": self.max_iter},
        )
        mask = np.where(found.x < self.cut, 0.0, found.x)
        return mask.reshape(problem.X.shape[1:]), max(1, found.nit)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        return release_by_folds(problem, lambda part: Dimmed(self._mask(part)[0]))


@dataclass(frozen=True, eq=False)
class Dimmed:
    """Records times a mask, without negative zeros: -2 * 0 is -0.0, whose sign would give away the input's."""

    mask: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X * self.mask + 0.0

    def graph(self, g: Any, x: str) -> str:
        return g.op("Mul", x, g.constant("mask", self.mask[None]))


class _Fisher:
    """ln D(m) of one binary label, and its gradient."""

    def __init__(self, X: np.ndarray, codes: np.ndarray, ridge: float) -> None:
        known = codes != MISSING
        flat, codes = X.reshape(len(X), -1)[known], codes[known]
        parts = [moments_of(flat[codes == c])[0] for c in (0, 1) if (codes == c).any()]
        self.difference = parts[-1].mean - parts[0].mean
        self.within = np.sum([p.scatter for p in parts], axis=0) / max(1, len(flat))
        self.ridge = max(ridge * float(np.trace(self.within)) / len(self.within), TINY)

    def __call__(self, mask: np.ndarray) -> tuple[float, np.ndarray]:
        seen = mask * self.difference
        u = np.linalg.solve(mask[:, None] * self.within * mask + self.ridge * np.eye(len(mask)), seen)
        D = float(seen @ u) + TINY
        return np.log(D), 2 * u * (self.difference - self.within @ (mask * u)) / D


def _refuse_many_classes(labels: Labels, what: str) -> None:
    if len(labels) > 1:
        raise InputError(
            f"DiscriminabilityMask takes one column of {what}; found {len(labels)} ({', '.join(labels.names)}); "
            f"pass one of them"
        )
    for name, classes in zip(labels.names, labels.classes, strict=True):
        if len(classes) > 2:
            raise InputError(
                f"DiscriminabilityMask takes binary labels, but {what} column {name!r} has {len(classes)} classes; "
                f"merge them into two, or use LinearARL or PrivatePLS"
            )
