"""Statistics of the audit: measures with intervals. Pure: arrays in, numbers out.

A measure here is a mean of per-record influences, so one formula serves all: the variance is the
sum over *units* of the squared sum of their records' influences (records of one person are not
independent), and the interval is exact-binomial at the sample size that variance is worth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats as sps


class Measure(NamedTuple):
    """A number, its interval, and what guessing would give."""

    value: float
    low: float
    high: float
    guessing: float


def accuracy(truth: np.ndarray, guess: np.ndarray, units: np.ndarray | None = None, level: float = 0.95) -> Measure:
    """Share of right answers; guessing always names the commonest class."""
    right = (truth == guess).astype(float)
    value = float(right.mean())
    prior = float(np.bincount(truth).max() / len(truth))
    if units is None:
        return Measure(value, *binomial_interval(int(right.sum()), len(right), level), prior)
    return Measure(
        value, *interval(value, influence_variance((right - value) / len(right), units, value), level), prior
    )


def balanced_accuracy(
    truth: np.ndarray, guess: np.ndarray, n_classes: int, units: np.ndarray | None = None, level: float = 0.95
) -> Measure:
    """Mean over the classes present of the share of right answers; guessing is one over that number."""
    counts = np.bincount(truth, minlength=n_classes)
    right = (truth == guess).astype(float)
    hits = np.bincount(truth, right, minlength=n_classes)
    present = counts > 0
    m = int(present.sum())
    recall = np.divide(hits, counts, out=np.zeros(n_classes), where=present)
    value = float(recall[present].mean())
    # a class recalled always or never has no visible variance: shrink its recall to the middle (Agresti)
    shrunk = (hits + 1) / (counts + 2)
    least = float((shrunk * (1 - shrunk) / np.maximum(counts, 1))[present].sum() / m**2)
    if units is None:
        return Measure(value, *interval(value, least, level), 1 / m)
    influence = (right - recall[truth]) / counts[truth] / m
    return Measure(value, *interval(value, max(least, influence_variance(influence, units, value)), level), 1 / m)


def macro_auc(truth: np.ndarray, scores: np.ndarray, units: np.ndarray | None = None, level: float = 0.95) -> Measure:
    """Area under the ROC curve, one class against the rest, averaged over classes; guessing is .5."""
    n = len(truth)
    present = [c for c in range(scores.shape[1]) if 0 < np.count_nonzero(truth == c) < n]
    if not present:
        return Measure(float("nan"), 0.0, 1.0, 0.5)
    influence, areas = np.zeros(n), []
    for c in present:
        positive = truth == c
        n1 = int(positive.sum())
        ranks = sps.rankdata(scores[:, c])
        within = np.empty(n)
        within[positive] = sps.rankdata(scores[positive, c])
        within[~positive] = sps.rankdata(scores[~positive, c])
        # DeLong: the share of the other class that each record is on the right side of
        share = np.where(positive, (ranks - within) / (n - n1), 1 - (ranks - within) / n1)
        area = float(share[positive].mean())
        areas.append(area)
        influence += (share - area) / np.where(positive, n1, n - n1) / len(present)
    value = float(np.mean(areas))
    units = np.arange(n) if units is None else units
    return Measure(value, *interval(value, influence_variance(influence, units, value), level), 0.5)


def binomial_interval(hits: int, n: float, level: float = 0.95) -> tuple[float, float]:
    """Exact (Clopper-Pearson) interval of a share."""
    tail = (1 - level) / 2
    low = float(sps.beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(sps.beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high


def interval(value: float, variance: float, level: float = 0.95) -> tuple[float, float]:
    """Exact-binomial interval at the effective sample size (Korn-Graubard); stays within 0..1."""
    inner = min(max(value, 1e-6), 1 - 1e-6)
    if variance <= 0:
        return value, value
    n = max(1.0, inner * (1 - inner) / variance)
    tail = (1 - level) / 2
    hits = value * n
    low = float(sps.beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(sps.beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return min(low, value), max(high, value)


def influence_variance(influence: np.ndarray, units: np.ndarray, value: float) -> float:
    """Variance of a sum of influences whose units are independent; never below what one unit could hide."""
    sums = np.bincount(np.unique(units, return_inverse=True)[1].ravel(), influence)
    n = len(sums)
    if n < 2:
        return 0.25
    middle = (value * n + 1) / (n + 2)
    return max(float(n / (n - 1) * (sums**2).sum()), middle * (1 - middle) / n * 1e-3)
