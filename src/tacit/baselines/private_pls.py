"""PrivatePLS: partial least squares that maximizes covariance with the target less that with the sensitive attribute.

Enev et al., "SensorSift", Algorithm 1 as the minimax-filter paper compares with it (PPLS). With C the covariance
of the records, A and B their covariances with the one-hot targets and sensitive attributes, and S = A at first:

    w = top eigenvector of  S S' - lam B B',    p = C w / (w' C w),    S <- A less its projection on the p so far.

The release is x' w for each w. Covariance is all that it looks at. The authors of the minimax filter take second
moments about zero, of records as they come (`PrivatePLS.as_printed`).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd

from tacit.baselines.linear_arl import LinearCode
from tacit.baselines.moments import ByChunks, ClassMeans, Moments, moments_of, whitening
from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.filters.base import Knob, Problem, Release, release_by_folds
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter

DEFAULT_WIDTH = 10
WORTHLESS = 1e-12  # of the largest squared covariance: no direction is left that covaries more with the target


@register_filter("private-pls")
class PrivatePLS(ByChunks):
    """Directions that covary with the targets and not with the sensitive attributes, one after the other.

    Parameters
    ----------
    n_components : columns of the code; None takes 10, or as many as the records have directions for
    lam : the knob: weight of the squared covariance with the sensitive attributes (1 in the paper)
    centre : False takes moments about zero instead of covariances
    standardise : False takes arrays of numbers unchanged
    random_state : decides the folds of `release_training_rows`; the solution itself draws nothing

    Attributes
    ----------
    code_ : the `LinearCode`, an affine map: what is released depends on nothing else

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("octants", n=400)
    >>> f = tacit.baselines.PrivatePLS(2).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> f.transform(data.X).shape
    (400, 2)
    """

    takes_numbers = True
    knob = Knob("lam", utility_rises=False, values=(0.0, 0.3, 1.0, 3.0, 10.0, 30.0))

    def __init__(
        self,
        n_components: int | None = None,
        lam: float = 1.0,
        *,
        centre: bool = True,
        standardise: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.centre = centre
        self.standardise = standardise
        self.random_state = random_state

    @classmethod
    def as_printed(cls, n_components: int | None = None) -> Self:
        """As the minimax paper's authors compute it: records unchanged, moments about zero, lam 1.

        Examples
        --------
        >>> import tacit
        >>> tacit.baselines.PrivatePLS.as_printed(2).centre
        False
        """
        return cls(n_components, 1.0, centre=False, standardise=False)

    def _as_given(self, checked: Any) -> bool:
        if not self.standardise and isinstance(checked, pd.DataFrame):
            raise InputError("standardise=False takes an array of numbers; found a table, pass X.to_numpy()")
        return not self.standardise

    def _learn(self, problem: Problem) -> Mechanism:
        moments, (targets, sensitive) = moments_of(problem.X, problem.targets, problem.sensitive)
        return self._from_moments(moments, targets, sensitive, problem.scaling)

    def _from_moments(self, moments: Moments, targets: ClassMeans, sensitive: ClassMeans, scaling: Any) -> Mechanism:
        check_number("lam", self.lam, 0)
        check_number("n_components", self.n_components, 1, whole=True, optional=True)
        width = self.n_components or DEFAULT_WIDTH
        code, rank = private_pls(moments, targets, sensitive, width, self.lam, self.centre)
        if self.n_components is not None and self.n_components > rank:
            raise InputError(
                f"n_components is {self.n_components}, but the records have only {rank} independent directions (of "
                f"{len(code.mean)} columns); pass at most {rank}, or None"
            )
        found = code.directions.shape[1]
        if found == 0:
            note(
                self,
                f"collapsed: no direction covaries more with the targets than with what is sensitive at "
                f"lam={self.lam}, so the release is constant; lower lam",
                CollapseWarning,
            )
        elif self.n_components is not None and found < self.n_components:
            note(
                self,
                f"n_components is {self.n_components}, but after {found} no direction is left that covaries more with "
                f"the targets than with the sensitive attributes; the other columns are zero",
                TacitWarning,
            )
        width = self.n_components or max(1, found)
        self.code_ = code.first(found, width)
        return Mechanism(self.code_, width)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        width = self.mechanism_.width

        def learn(part: Problem) -> Release:
            moments, (targets, sensitive) = moments_of(part.X, part.targets, part.sensitive)
            return private_pls(moments, targets, sensitive, width, self.lam, self.centre)[0].first(width, width)

        return release_by_folds(problem, learn, like=self.code_)


def private_pls(
    moments: Moments, targets: ClassMeans, sensitive: ClassMeans, n_components: int, lam: float, centre: bool = True
) -> tuple[LinearCode, int]:
    """At most this many directions that are worth it, and the rank of the records."""
    C, A, B = moments.covariance, targets.cross_covariance(), sensitive.cross_covariance()
    if not centre:
        C = C + np.outer(moments.mean, moments.mean)
        A, B = (of.cross_covariance(centre=False) for of in (targets, sensitive))
    rank = len(whitening(moments)[0])
    S, weights, loadings = A, np.empty((len(C), 0)), np.empty((len(C), 0))
    least = WORTHLESS * max((A**2).sum(), lam * (B**2).sum())
    while weights.shape[1] < min(n_components, rank):
        value, w = _top_eigenvector(S, B, lam)
        variance = w @ C @ w
        if value <= least or variance <= 0:
            break
        weights = np.column_stack([weights, w])
        loadings = np.column_stack([loadings, C @ w / variance])
        span, _ = np.linalg.qr(loadings)
        S = A - span @ (span.T @ A)
    return LinearCode(moments.mean, weights), rank


def _top_eigenvector(S: np.ndarray, B: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
    """Of S S' - lam B B', inside the span of S and B, which has few dimensions."""
    span, R = np.linalg.qr(np.column_stack([S, B]))
    sign = np.concatenate([np.ones(S.shape[1]), np.full(B.shape[1], -lam)])
    values, vectors = np.linalg.eigh((R * sign) @ R.T)
    w = span @ vectors[:, -1]
    return float(values[-1]), w * (1 if w[np.abs(w).argmax()] > 0 else -1)
