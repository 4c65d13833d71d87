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
        return Measure(value, *binomial_interval(value, len(right), level), prior)
    n, spread = effective_size(value, (right - value) / len(right), units, len(right), level)
    return Measure(value, *binomial_interval(value, min(n, spread), level), prior)


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
    shrunk = ((hits + 1) / (counts + 2))[present]
    middle = float(shrunk.mean())
    n = middle * (1 - middle) / float((shrunk * (1 - shrunk) / counts[present]).sum() / m**2)
    if units is not None:
        n = min(n, *effective_size(value, (right - recall[truth]) / counts[truth] / m, units, n, level))
    return Measure(value, *binomial_interval(value, n, level), 1 / m)


def macro_auc(truth: np.ndarray, scores: np.ndarray, units: np.ndarray | None = None, level: float = 0.95) -> Measure:
    """Area under the ROC curve, one class against the rest, averaged over classes; guessing is .5."""
    n = len(truth)
    present = [c for c in range(scores.shape[1]) if 0 < np.count_nonzero(truth == c) < n]
    if not present:
        return Measure(float("nan"), 0.0, 1.0, 0.5)
    influence, areas, rarest = np.zeros(n), [], n
    for c in present:
        positive = truth == c
        n1 = int(positive.sum())
        rarest = min(rarest, n1, n - n1)
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
    # the rarest class decides how much is known: it stands for the number of independent things
    independent = rarest * (1 if len(present) == 2 else len(present))
    size, spread = effective_size(value, influence, np.arange(n) if units is None else units, independent, level)
    few = size_for_t(independent, level)
    return Measure(value, *binomial_interval(value, min(size, spread) * few, level), 0.5)


def binomial_interval(value: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Exact (Clopper-Pearson) interval of a share seen in n trials; n need not be whole."""
    tail = (1 - level) / 2
    hits = value * n
    low = float(sps.beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(sps.beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return min(low, value), max(high, value)


def effective_size(
    value: float, influence: np.ndarray, units: np.ndarray, most: float, level: float
) -> tuple[float, float]:
    """How many independent trials a measure is worth, given that only units are independent.

    Twice: from the spread of the units' influences (Korn-Graubard, with the correction for few units),
    and the limit where that spread cannot be seen: almost all or almost none right, in a few units.
    """
    sums = np.bincount(np.unique(units, return_inverse=True)[1].ravel(), influence)
    n = len(sums)
    if n < 2:
        return 1.0, 1.0
    variance = n / (n - 1) * float((sums**2).sum())
    erring = int(np.count_nonzero(np.abs(sums) > np.abs(sums).max() / 4)) if variance > 0 else 0
    limit = float(n) if min(value, 1 - value) < 0.1 and erring < 5 else np.inf
    if variance <= 0:
        return min(most, float(n)), limit
    return min(most, value * (1 - value) / variance) * size_for_t(n, level), limit


def size_for_t(n_units: int, level: float) -> float:
    """The share of the sample size that is left when its variance was estimated from few units."""
    tail = 1 - (1 - level) / 2
    return float((sps.norm.ppf(tail) / sps.t.ppf(tail, max(1, n_units - 1))) ** 2)
