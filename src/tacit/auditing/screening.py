"""Which of many features say something about the labels that their columns' levels do not: a fast test of each."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

LEVEL_BINS = 32  # quantiles of a column: what they say is left to ordinary attackers
MAX_CELLS = 3_000_000  # numbers held at once
MAX_CONTRASTS = 4


def contrasts(y: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    """Labels as a few centered columns of numbers: each class against the rest, or random halves of many classes."""
    if n_classes <= MAX_CONTRASTS:
        columns = np.eye(n_classes)[y][:, : n_classes - 1]
    else:
        rng = np.random.default_rng(seed)
        sides = np.array([rng.permutation(n_classes) % 2 for _ in range(MAX_CONTRASTS)])
        columns = sides.T[y].astype(float)
    centred: np.ndarray = columns - columns.mean(axis=0)
    return centred


def quantile_codes(values: np.ndarray, bins: int = LEVEL_BINS) -> np.ndarray:
    """Each column of (n, k) cut at its quantiles, 0 to bins - 1; gaps are `bins`."""
    filled = np.where(np.isfinite(values), values, np.inf)
    order = np.argsort(filled, axis=0, kind="stable")
    codes = np.empty(values.shape, dtype=np.int64)
    n = len(values)
    for j in range(values.shape[1]):
        ranked = filled[order[:, j], j]
        first = np.concatenate([[True], ranked[1:] != ranked[:-1]])
        start = np.maximum.accumulate(np.where(first, np.arange(n), 0))  # equal values share a bin
        codes[order[:, j], j] = start * bins // n
    return np.where(np.isfinite(values), codes, bins)


def without_levels(targets: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Contrasts with the mean of each cell taken out: (n, c) and cells (n, k) -> (n, k, c)."""
    n, k = cells.shape
    levels = int(cells.max()) + 1
    flat = (cells + np.arange(k) * levels).ravel()
    counts = np.maximum(np.bincount(flat, minlength=k * levels), 1)
    out = np.empty((n, k, targets.shape[1]))
    for c in range(targets.shape[1]):
        repeated = np.repeat(targets[:, c], k)
        means = np.bincount(flat, repeated, k * levels) / counts
        out[:, :, c] = (repeated - means[flat]).reshape(n, k)
    return out


def evidence(codes: np.ndarray, targets: np.ndarray, cells: np.ndarray | None = None) -> np.ndarray:
    """How far each feature's classes stray from the mean, as a normal deviate; the highest of the contrasts.

    Parameters
    ----------
    codes : (n, k) whole numbers from 0, one column a feature
    targets : (n, c) contrasts
    cells : (n, k) the levels whose own share is taken out first; None takes out nothing
    """
    n, k = codes.shape
    step = max(1, MAX_CELLS // (n * targets.shape[1]))
    return np.concatenate(
        [_evidence(codes[:, i : i + step], targets, None if cells is None else cells[:, i : i + step])
         for i in range(0, k, step)]
    ) if k else np.empty(0)  # fmt: skip


def _evidence(codes: np.ndarray, targets: np.ndarray, cells: np.ndarray | None) -> np.ndarray:
    k = codes.shape[1]
    rest = np.repeat(targets[:, None, :], k, axis=1) if cells is None else without_levels(targets, cells)
    levels = int(codes.max()) + 1
    flat = (codes + np.arange(k) * levels).ravel()
    counts = np.bincount(flat, minlength=k * levels).reshape(k, levels)
    freedom = np.maximum((counts > 0).sum(axis=1) - 1, 1)
    best = np.full(k, -np.inf)
    for c in range(targets.shape[1]):
        sums = np.bincount(flat, rest[:, :, c].ravel(), k * levels).reshape(k, levels)
        spread = np.maximum((rest[:, :, c] ** 2).mean(axis=0), 1e-12)
        chi2 = (sums**2 / np.maximum(counts, 1)).sum(axis=1) / spread
        # Wilson and Hilferty: the cube root of a chi-square is nearly normal
        width = 2 / (9 * freedom)
        best = np.maximum(best, (np.cbrt(chi2 / freedom) - 1 + width) / np.sqrt(width))
    return np.where((counts > 0).sum(axis=1) > 1, best, -np.inf)


def threshold(n_tests: int, false_alarms: float = 0.01) -> float:
    """The deviate that the best of this many features exceeds by chance once in 1 / false_alarms."""
    return float(norm.isf(false_alarms / max(1, n_tests)))
