"""KernelARL: LinearARL in the feature space of a Gaussian kernel.

The paper solves an n x n eigenproblem. Here the kernel is approximated by random Fourier features
(Rahimi & Recht): with w ~ N(0, 1/sigma^2) and b uniform, E[2 cos(w'x + b) cos(w'x' + b)] is
exp(-|x - x'|^2 / 2 sigma^2). The problem is then that of LinearARL on the features, whose statistics are
summed up chunk by chunk: time grows with n, memory does not.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from tacit.baselines.linear_arl import Features, LinearARL, LinearCode, solve
from tacit.baselines.moments import CHUNK, moments_of
from tacit.errors import InputError, check_number
from tacit.filters.base import Knob, Problem
from tacit.filters.registry import register_filter


@register_filter("kernel-arl", examples=[{"n_features": 50}])
@dataclass(eq=False, repr=False)
class KernelARL(LinearARL):
    """A code in closed form, linear in the features of a Gaussian kernel: targets kept, sensitive attributes withheld.

    Parameters
    ----------
    n_components : columns of the code; None takes the useful rank, as in `LinearARL`
    lam : the knob, 0..1: the weight of the sensitive attributes; the targets weigh 1 - lam
    sigma : width of the kernel, on standardized numbers and one-hot categories; None takes the spread of the
        records, the root of their total variance
    n_features : random Fourier features; more come closer to the kernel
    features : another approximation instead: a scikit-learn transformer such as ``Nystroem(...)``, fitted on at
        most 8192 rows
    ridge : keeps features of little variance from being blown up, as a share of a feature's variance
    random_state : draws the features, and the folds of `release_training_rows`

    Attributes
    ----------
    useful_rank_, eigenvalues_, code_ : as in `LinearARL`

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("circles", n=400)
    >>> f = tacit.baselines.KernelARL(n_features=50, random_state=0)
    >>> f.fit(data.X, data.y, sensitive_features=data.sensitive).transform(data.X).shape
    (400, 1)
    """

    knob = Knob("lam", utility_rises=False, values=(0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99))

    n_components: int | None = None
    lam: float = 0.5
    _: KW_ONLY
    sigma: float | None = None
    n_features: int = 500
    features: Any = None
    ridge: float = 1e-3
    random_state: Any = None

    @property
    def partial_fit(self) -> Any:
        raise AttributeError("KernelARL chooses its features by all of its records, so it has no partial_fit; use fit")

    def _solve(self, problem: Problem) -> tuple[LinearCode, np.ndarray]:
        check_number("sigma", self.sigma, 1e-12, optional=True)
        check_number("n_features", self.n_features, 1, whole=True)
        check_number("ridge", self.ridge, 0)
        return solve(problem, self.lam, self._features(problem), self.ridge)

    def _features(self, problem: Problem) -> Features:
        rng = np.random.default_rng(problem.seed)
        flat = problem.X.reshape(len(problem.X), -1)
        if self.features is None:
            sigma = self.sigma or math.sqrt(np.trace(moments_of(flat)[0].covariance)) or 1.0
            return FourierFeatures(
                rng.standard_normal((flat.shape[1], self.n_features)) / sigma,
                rng.uniform(0, 2 * math.pi, self.n_features),
            )
        if not hasattr(self.features, "transform"):
            raise InputError(f"features has no transform; pass a scikit-learn transformer; found {self.features!r}")
        made = clone(self.features)
        if "random_state" in made.get_params() and made.random_state is None:
            made.set_params(random_state=problem.seed)
        some = flat if len(flat) <= CHUNK else flat[np.sort(rng.permutation(len(flat))[:CHUNK])]
        return made.fit(some).transform


@dataclass(frozen=True)
class FourierFeatures:
    """x -> sqrt(2 / D) cos(x @ frequencies + phases)."""

    frequencies: np.ndarray
    phases: np.ndarray

    def graph(self, g: Any, x: str) -> str:
        """The same in a graph."""
        angle = g.op("MatMul", x, g.constant("frequencies", self.frequencies))
        waves = g.op("Cos", g.op("Add", angle, g.constant("phases", self.phases[None])))
        return g.op("Mul", waves, g.number(math.sqrt(2 / len(self.phases))))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        out = X @ self.frequencies
        out += self.phases
        np.cos(out, out=out)
        out *= math.sqrt(2 / len(self.phases))
        return out
