"""Training rows, each released by parts that were fitted without it (nor its unit)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.filters.base import Problem
from tacit.records.dataset import cross_folds

Release = Callable[[np.ndarray], np.ndarray]


def release_by_folds(
    problem: Problem, learn: Callable[[Problem], Release], n_folds: int = 5, like: Release | None = None
) -> np.ndarray:
    """Refit without each fold in turn and release the fold by that fit.

    Parameters
    ----------
    learn : learns a release from part of the problem
    like : the release of the whole fit. Codes of different fits are alike only up to a change of coordinates;
        with this, each is mapped back linearly, by least squares over the rows it was fitted on
    """
    codes = np.concatenate([problem.targets.codes, problem.sensitive.codes], axis=1)
    folds = cross_folds(codes, n_folds, problem.seed, problem.units)
    X, out = problem.X, np.empty(0)
    for f in range(int(folds.max()) + 1):
        inside, outside = folds == f, folds != f
        part = problem.take(outside)
        release = learn(part)
        Z = release(X[inside])
        if like is not None:
            there = np.column_stack([release(part.X), np.ones(len(part.X))])
            back = np.linalg.lstsq(there, like(part.X), rcond=None)[0]
            Z = np.column_stack([Z, np.ones(len(Z))]) @ back
        if f == 0:
            out = np.empty((len(X), *Z.shape[1:]))
        out[inside] = Z
    return out
