"""LinearARL: the linear code that keeps the targets and withholds the sensitive attributes, in closed form.

Sadeghi & Boddeti, "Imparting fairness to pre-trained biased representations" (2020). With centered records
X = U S V', one-hot targets Y and sensitive attributes S (centered), the code is X V S^-1 G, G the eigenvectors of

    lam U' S S' U - (1 - lam) U' Y Y' U

with *negative* eigenvalues: only these directions tell more of the targets than of the sensitive attributes. Both
players are linear regressions, so an attacker who is not linear may read more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.baselines.moments import CHUNK, ByChunks, ClassMeans, Moments, moments_of, noisy_moments, whitening
from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.filters.base import Knob, Problem, Release, release_by_folds
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.public_intake import refuse_second_fit
from tacit.filters.registry import register_filter
from tacit.noise.accounting import DP

# Eigenvalues are squared canonical correlations, 0..1; nearer to zero than this they are rounding.
ZERO = 1e-10
Features = Callable[[np.ndarray], np.ndarray]


@register_filter("linear-arl")
class LinearARL(ByChunks):
    """A linear code, in closed form, that serves linear regression on the targets, not on what is sensitive.

    Parameters
    ----------
    n_components : columns of the code; None takes the useful rank, the number of directions that tell more of
        the targets than of the sensitive attributes (1 for a binary target). More are allowed with a warning: they
        carry nothing for linear models, and plenty for attackers who are not linear
    lam : the knob, 0..1: the weight of the sensitive attributes; the targets weigh 1 - lam
    random_state : decides the folds of `release_training_rows`; the solution itself draws nothing
    dp : a `tacit.DP`: the statistics it is solved from carry noise, so that the fit is differentially private for its
        people (`dp_` says what was spent)

    Attributes
    ----------
    useful_rank_ : the number of negative eigenvalues
    eigenvalues_ : ascending; the first `useful_rank_` are worth their directions
    code_ : the `LinearCode`, an affine map: what is released depends on nothing else

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> f.transform(data.X).shape
    (400, 1)
    """

    takes_numbers = True
    knob = Knob("lam", utility_rises=False, values=(0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99))

    def __init__(
        self, n_components: int | None = None, lam: float = 0.5, *, random_state: Any = None, dp: DP | None = None
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.random_state = random_state
        self.dp = dp

    def _learn(self, problem: Problem) -> Mechanism:
        self._check()
        if self.dp is not None:
            moments, (targets, sensitive) = noisy_moments(self, problem, self.dp)
            return self.take(*solve_moments(moments, targets, sensitive, self.lam))
        return self.take(*self._solve(problem))

    def _from_moments(self, moments: Moments, targets: ClassMeans, sensitive: ClassMeans, scaling: Any) -> Mechanism:
        self._check()
        return self.take(*solve_moments(moments, targets, sensitive, self.lam))

    def _check(self) -> None:
        check_number("lam", self.lam, 0, 1)
        check_number("n_components", self.n_components, 1, whole=True, optional=True)

    def take(self, every: LinearCode, eigenvalues: np.ndarray) -> Mechanism:
        """Choose the useful ones of all directions."""
        self.eigenvalues_ = eigenvalues
        self.useful_rank_ = int((self.eigenvalues_ < -ZERO).sum())
        asked = self.n_components or max(1, self.useful_rank_)
        self._check_rank(asked, len(self.eigenvalues_), len(every.mean))
        self.code_ = every.first(self.n_components or self.useful_rank_, asked)
        return Mechanism(self.code_, asked)

    def _check_rank(self, asked: int, rank: int, width: int) -> None:
        if self.n_components is not None and asked > rank:
            raise InputError(
                f"n_components is {asked}, but the records have only {rank} independent "
                f"direction{'s' * (rank != 1)} (of {width} columns); pass at most {rank}, or None"
            )
        if self.useful_rank_ == 0:
            note(
                self,
                f"collapsed: no direction tells more of the targets than of what is sensitive at lam={self.lam}, so "
                f"{'what is released serves no target' if self.n_components else 'the release is constant'}; "
                f"lower lam",
                CollapseWarning,
            )
        elif (extra := asked - self.useful_rank_) > 0:
            note(
                self,
                f"n_components is {asked}, but the number of directions that tell more of the targets than of what "
                f"is sensitive (negative eigenvalues) is {self.useful_rank_}; the other {extra} help no linear analyst "
                f"but can be read by attackers who are not linear. Pass n_components=None",
                TacitWarning,
            )

    def _solve(self, problem: Problem) -> tuple[LinearCode, np.ndarray]:
        return solve(problem, self.lam)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        refuse_second_fit(self)
        width = self.mechanism_.width

        def learn(part: Problem) -> Release:
            code, _ = self._solve(part)
            return code.first(self.n_components or self.useful_rank_, width)

        return release_by_folds(problem, learn, like=self.code_)


@dataclass(frozen=True)
class LinearCode:
    """The result: x -> (features(x) - mean) @ directions; zeros where there is no direction to fill a column.

    Attributes
    ----------
    mean : (d,) of the features of the records it was learned from
    directions : (d, r), best first
    features : what stands for a record; None for the record itself
    """

    mean: np.ndarray
    directions: np.ndarray
    features: Features | None = None

    def first(self, n: int, width: int) -> LinearCode:
        """The n best directions, in a code of this width."""
        kept = self.directions[:, :n]
        return replace(self, directions=np.pad(kept, [(0, 0), (0, width - kept.shape[1])]))

    def graph(self, g: Any, x: str) -> str:
        """The same in a graph."""
        flat = g.flat(x)
        if self.features is not None:
            write = getattr(self.features, "graph", None)
            if write is None:
                raise InputError(
                    "features that were fitted on records (such as Nystroem's) hold some of them, which must not "
                    "travel in a bundle; use features=None (random Fourier features)"
                )
            flat = write(g, flat)
        centred = g.op("Sub", flat, g.constant("mean", self.mean[None]))
        return g.op("MatMul", centred, g.constant("directions", self.directions))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        flat = X.reshape(len(X), -1)
        if self.features is None:
            return (flat - self.mean) @ self.directions + 0.0  # a column of zeros has no signs to read
        return np.concatenate(
            [(self.features(flat[i : i + CHUNK]) - self.mean) @ self.directions for i in range(0, len(flat), CHUNK)]
        )


def solve(
    problem: Problem, lam: float, features: Features | None = None, ridge: float = 0.0
) -> tuple[LinearCode, np.ndarray]:
    """All directions of the records (or of their features), those worth most first, and their eigenvalues."""
    moments, (targets, sensitive) = moments_of(problem.X, problem.targets, problem.sensitive, features=features)
    return solve_moments(moments, targets, sensitive, lam, features, ridge)


def solve_moments(
    moments: Moments,
    targets: ClassMeans,
    sensitive: ClassMeans,
    lam: float,
    features: Features | None = None,
    ridge: float = 0.0,
) -> tuple[LinearCode, np.ndarray]:
    """The same from statistics, wherever they come from."""
    W, _ = whitening(moments, ridge=ridge)  # S^-1 V', so that U' Y is the whitened cross-covariance
    keep, hide = W @ targets.cross_covariance(), W @ sensitive.cross_covariance()
    values, G = np.linalg.eigh(lam * hide @ hide.T - (1 - lam) * keep @ keep.T)
    return LinearCode(moments.mean, _signed(W.T @ G), features), values


def _signed(directions: np.ndarray) -> np.ndarray:
    """Directions that point to one side of a fixed, uneven plane: an eigenvector's sign is chance.

    It is set where the records live; in the whitened basis, whose own signs are chance too, it would stay so. The
    largest entry would not do: the two columns of a word have equal entries of opposite signs.
    """
    uneven = 1 + np.modf(np.arange(1, len(directions) + 1) * (5**0.5 - 1) / 2)[0]
    return directions * np.where(uneven @ directions < 0, -1.0, 1.0)
