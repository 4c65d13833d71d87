"""Training rows, each released by parts that were fitted without it (nor its unit)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.filters.base import Problem
from tacit.records.dataset import cross_folds
from tacit.training.interrupts import whole_trainings

Release = Callable[..., Any]  # records, and their noise where there is some -> what is released of them
Align = Callable[[np.ndarray, np.ndarray], Release]  # a fold's release and the whole fit's, of the same rows -> map

FEW_FOLDS = 3  # where one training takes minutes


def release_by_folds(
    problem: Problem,
    learn: Callable[[Problem], Release],
    n_folds: int = 5,
    like: Release | None = None,
    align: Align | None = None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Refit without each fold in turn and release the fold by that fit.

    Parameters
    ----------
    learn : learns a release from part of the problem
    like : the release of the whole fit. Codes of different fits are alike only up to a change of coordinates;
        with this, each is mapped back by what `align` finds over the rows it was fitted on
    align : least squares unless given
    noise : per row, handed to the releases beside the records
    """
    codes = np.concatenate([problem.targets.codes, problem.sensitive.codes], axis=1)
    folds = cross_folds(codes, n_folds, problem.seed, problem.units)
    out = np.empty(0)

    def of(release: Release, rows: np.ndarray) -> np.ndarray:
        return release(problem.X[rows]) if noise is None else release(problem.X[rows], noise[rows])

    for f in range(int(folds.max()) + 1):
        inside, outside = folds == f, folds != f
        with whole_trainings():
            release = learn(replace(problem.take(outside), fold=f))
        Z = of(release, inside)
        if like is not None:
            Z = (align or least_squares)(of(release, outside), of(like, outside))(Z)
        if f == 0:
            out = np.empty((len(folds), *Z.shape[1:]), dtype=Z.dtype)
        out[inside] = Z
    return out


def least_squares(there: np.ndarray, main: np.ndarray) -> Release:
    """The affine map from one release onto the other."""
    back = np.linalg.lstsq(_with_ones(there), main.reshape(len(main), -1), rcond=None)[0]
    return lambda Z: (_with_ones(Z) @ back).reshape(Z.shape)


def ridge(there: np.ndarray, main: np.ndarray) -> Release:
    """The same where a release has more columns than rows say anything about."""
    known = _with_ones(there)
    penalty = 1e-3 * np.trace(known.T @ known) / known.shape[1] * np.eye(known.shape[1])
    back = np.linalg.solve(known.T @ known + penalty, known.T @ main.reshape(len(main), -1))
    return lambda Z: (_with_ones(Z) @ back).reshape(Z.shape)


def _with_ones(Z: np.ndarray) -> np.ndarray:
    return np.column_stack([Z.reshape(len(Z), -1), np.ones(len(Z))])
