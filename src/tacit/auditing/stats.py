"""Statistics of the audit: measures with intervals. Pure: arrays in, numbers out.

A measure here is a mean of per-record influences, so one formula serves all: the variance is the
sum over *units* of the squared sum of their records' influences (records of one person are not
independent), and the interval is exact-binomial at the sample size that variance is worth.

With units a measure is of the average unit (per="unit"): a record weighs one over its unit's number of records,
so that sizes do not matter. per="record" weighs records alike; where a few units hold most records its interval
is too narrow (units of Pareto sizes: missed in 15 to 28 %), and no interval can help that did not see such units.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats as sps

from tacit.auditing.population import check_per
from tacit.report.results import Measure as Measure

DECIDES = 0.3  # the share of a measure's variance from which on a class is taken exactly
DETECTED = 0.9  # of audits in which the smallest detectable leakage is found
NEARLY, FEW_ERRING = 0.1, 5  # so near to all or nothing, with so few units that err, no spread can be seen


def accuracy(
    truth: np.ndarray, guess: np.ndarray, units: np.ndarray | None = None, level: float = 0.95, per: str = "unit"
) -> Measure:
    """Share of right answers; guessing always names the commonest class.

    Examples
    --------
    >>> truth, guess, units = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), np.array([7, 7, 7, 8])
    >>> accuracy(truth, guess, units).value, accuracy(truth, guess, units, per="record").value
    (0.5, 0.75)
    """
    right, weight = (truth == guess).astype(float), record_weights(len(truth), units, per)
    value = weighted_mean(right, weight)
    prior = float(np.bincount(truth, weight).max() / weight.sum())
    if units is None:
        return Measure(value, *binomial_interval(value, len(right), level), prior)
    size = min(effective_size(value, (right - value) * weight / weight.sum(), units, equal_weights(weight), level))
    return Measure(value, *binomial_interval(value, size, level), prior)


def balanced_accuracy(
    truth: np.ndarray,
    guess: np.ndarray,
    n_classes: int,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """Mean over the classes present of the share of right answers; guessing is one over that number.

    Where one class has most of the variance, the interval is the wider of two: exact-binomial at the sample size of
    the whole, and one that takes this class exactly and the others by their variances. The first alone fails where
    a few records decide (classes of 2000 and 5: missed in 8 %).
    """
    weight = record_weights(len(truth), units, per)
    present, label = np.unique(truth, return_inverse=True)
    label, m = label.ravel(), len(present)
    mass, right = np.bincount(label, weight), (truth == guess).astype(float)
    recall = np.bincount(label, weight * right) / mass
    value = float(recall.mean())
    trials = mass**2 / np.bincount(label, weight**2)  # a class's records where they weigh alike
    # a class recalled always or never has no visible variance: shrink its recall to the middle (Agresti)
    shrunk = (recall * trials + 1) / (trials + 2)
    variance = shrunk * (1 - shrunk) / trials
    middle = float(shrunk.mean())
    size = middle * (1 - middle) / float(variance.sum() / m**2)
    if units is not None:
        influence = (right - recall[label]) * weight / mass[label]
        held, between, alone, unseen = _between_units(recall, influence, units, label)
        variance = np.where(unseen > 0, unseen, np.maximum(variance, between))
        worth = np.clip(shrunk * (1 - shrunk) / variance, np.minimum(held, trials), trials)
        trials = np.where(unseen > 0, np.minimum(held, trials), worth)
        hidden = float(alone.sum()) / m**2
        size = min(size, *effective_size(value, influence / m, units, size, level, label, hidden))
    low, high = binomial_interval(value, size, level)
    decides = int(variance.argmax())
    if variance[decides] > DECIDES * variance.sum():
        others = float(sps.norm.ppf(1 - (1 - level) / 2)) ** 2 * float(variance.sum() - variance[decides])
        ends = binomial_interval(float(recall[decides]), float(trials[decides]), level)
        below, above = (math.sqrt((end - recall[decides]) ** 2 + others) / m for end in ends)
        low, high = max(0.0, min(low, value - below)), min(1.0, max(high, value + above))
    return Measure(value, low, high, 1 / m)


def paired_gain(
    truth: np.ndarray,
    guess: np.ndarray,
    before: np.ndarray,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """How much more balanced accuracy one guess has than another on the same records; guessing gains nothing.

    What both guess alike does not vary. In each class one record more is taken to have changed either way, so that
    few changes do not look like certainty. The same guesses twice gain exactly nothing.

    Examples
    --------
    >>> truth, guess = np.repeat([0, 1], 50), np.repeat([0, 1], 50)
    >>> gain = paired_gain(truth, guess, np.r_[guess[:90], np.zeros(10, int)])
    >>> round(gain.value, 3), gain.low > 0, gain.guessing
    (0.1, True, 0.0)
    """
    if np.array_equal(guess, before):
        return Measure(0.0, 0.0, 0.0, 0.0)
    weight = record_weights(len(truth), units, per)
    label = np.unique(truth, return_inverse=True)[1].ravel()
    mass, m = np.bincount(label, weight), int(label.max()) + 1
    change = ((truth == guess).astype(float) - (truth == before)) / 2
    mean = np.bincount(label, weight * change) / mass
    influence = (change - mean[label]) * weight / mass[label] / m
    value = 0.5 + float(mean.mean())  # from 0 (all lost) to 1 (all gained)
    hidden = float((np.bincount(label, weight**2) / mass**3).sum() / 2 / m**2)  # two changes of a half, in each class
    who = np.arange(len(truth)) if units is None else units
    size = min(effective_size(value, influence, who, math.inf, level, label, hidden))
    low, high = binomial_interval(value, size, level)
    return Measure(2 * value - 1, 2 * low - 1, 2 * high - 1, 0.0)


def macro_auc(
    truth: np.ndarray, scores: np.ndarray, units: np.ndarray | None = None, level: float = 0.95, per: str = "unit"
) -> Measure:
    """Area under the ROC curve, one class against the rest, averaged over classes; guessing is .5."""
    n = len(truth)
    present = [c for c in range(scores.shape[1]) if 0 < np.count_nonzero(truth == c) < n]
    if not present:
        return Measure(float("nan"), 0.0, 1.0, 0.5)
    weight = record_weights(n, units, per)
    influence, areas, rarest = np.zeros(n), [], float(n)
    for c in present:
        positive = truth == c
        # DeLong: the share of the other class that each record is on the right side of
        share = np.empty(n)
        share[positive] = _share_below(scores[positive, c], scores[~positive, c], weight[~positive])
        share[~positive] = _share_below(-scores[~positive, c], -scores[positive, c], weight[positive])
        for side in (positive, ~positive):
            area = weighted_mean(share[side], weight[side])
            influence[side] += (share[side] - area) * weight[side] / weight[side].sum() / len(present)
            rarest = min(rarest, equal_weights(weight[side]))
        areas.append(area)  # the same from both sides
    value = float(np.mean(areas))
    # the rarest class decides how much is known: it stands for the number of independent things
    independent = rarest * (1 if len(present) == 2 else len(present))
    size, spread = effective_size(value, influence, np.arange(n) if units is None else units, independent, level)
    few = size_for_t(independent, level)
    return Measure(value, *binomial_interval(value, min(size, spread) * few, level), 0.5)


def smallest_detectable(measure: Measure, level: float = 0.95) -> float:
    """Return the smallest true leakage whose interval would exclude chance in 9 of 10 audits of this size.

    Parameters
    ----------
    measure : an attacker's success with its interval
    level : confidence of that interval

    Examples
    --------
    >>> round(smallest_detectable(Measure(0.51, 0.49, 0.53, 0.5)), 3)
    0.533
    """
    reach = 1 + sps.norm.ppf(DETECTED) / sps.norm.ppf((1 + level) / 2)
    return min(1.0, measure.guessing + float(reach) * (measure.high - measure.low) / 2)


def record_weights(n: int, units: np.ndarray | None, per: str = "unit") -> np.ndarray:
    """The weight of each record: one, or one over the records of its unit."""
    check_per(per)
    if units is None or per == "record":
        return np.ones(n)
    _, unit, size = np.unique(units, return_inverse=True, return_counts=True)
    weight: np.ndarray = 1 / size[unit.ravel()]
    return weight


def weighted_mean(values: np.ndarray, weight: np.ndarray) -> float:
    """Mean with weights; of ones it is exactly one, because both sums are taken alike."""
    return float((weight * values).sum() / weight.sum())


def equal_weights(weight: np.ndarray) -> float:
    """How many equal weights these are worth (Kish): their number where they are equal."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def binomial_interval(value: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Exact (Clopper-Pearson) interval of a share seen in n trials; n need not be whole."""
    tail = (1 - level) / 2
    hits = value * n
    low = float(sps.beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(sps.beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return min(low, value), max(high, value)


def effective_size(
    value: float,
    influence: np.ndarray,
    units: np.ndarray,
    most: float,
    level: float,
    classes: np.ndarray | None = None,
    hidden: float = 0.0,
) -> tuple[float, float]:
    """How many independent trials a measure is worth, given that only units are independent.

    Twice: from the spread of the units' influences (Korn-Graubard, with the correction for few units),
    and the limit where that spread cannot be seen: almost all or almost none right, in a few units.

    Parameters
    ----------
    influence : (n,) of each record
    most : at most this many
    classes : (n,) given when influences are from the mean of the record's own class: each class then loses a degree of
        freedom, and the degrees are those of the sum of variances (Satterthwaite)
    hidden : variance to add, of classes whose spread cannot be seen
    """
    unit = np.unique(units, return_inverse=True)[1].ravel()
    n = int(unit.max()) + 1
    if n < 2:
        return 1.0, 1.0
    label = np.zeros(len(unit), dtype=int) if classes is None else classes
    held = _units_held(unit, label)
    scaled = influence * np.sqrt(held / np.maximum(held - 1, 1))[label]
    sums = np.bincount(unit, scaled)
    by_class = np.maximum(np.bincount(label, scaled * sums[unit]), 0)
    variance = float((sums**2).sum()) + hidden
    erring = int(np.count_nonzero(np.abs(sums) > np.abs(sums).max() / 4)) if variance > 0 else 0
    limit = float(n) if min(value, 1 - value) < NEARLY and erring < FEW_ERRING else np.inf
    if variance <= 0:
        return min(most, float(n)), limit
    known = (by_class > 0) & (held > 1)
    freedom = variance**2 / float((by_class[known] ** 2 / (held - 1)[known]).sum()) if known.any() else 1.0
    return min(most, value * (1 - value) / variance) * size_for_t(1 + min(freedom, n - 1), level), limit


def size_for_t(n_units: float, level: float) -> float:
    """The share of the sample size that is left when its variance was estimated from few units."""
    tail = 1 - (1 - level) / 2
    return float((sps.norm.ppf(tail) / sps.t.ppf(tail, max(1, n_units - 1))) ** 2)


def _between_units(
    recall: np.ndarray, influence: np.ndarray, units: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the units tell of the variance of each class's recall.

    Returns
    -------
    how many units a class has; the variance seen between them; what to take where there is one unit only; and where
    almost all of its units are right, or almost none, the variance of as many yes-or-no trials (elsewhere 0)
    """
    unit = np.unique(units, return_inverse=True)[1].ravel()
    held, m = _units_held(unit, label), len(recall)
    pair, at = np.unique(unit * m + label, return_inverse=True)
    sums, of = np.bincount(at.ravel(), influence), pair % m
    seen = np.bincount(of, sums**2) * held / np.maximum(held - 1, 1)
    one = (recall + 1) / 3  # a single unit is a single trial; shrunk, as it is right always or never
    alone = np.where(held == 1, one * (1 - one), 0.0)
    largest = np.zeros(m)
    np.maximum.at(largest, of, np.abs(sums))
    erring = np.bincount(of, np.abs(sums) > largest[of] / 4)
    shrunk = (recall * held + 1) / (held + 2)
    unanimous = (np.minimum(recall, 1 - recall) < NEARLY) & (erring < FEW_ERRING)
    return held, seen + alone, alone, np.where(unanimous, shrunk * (1 - shrunk) / held, 0.0)


def _units_held(unit: np.ndarray, label: np.ndarray) -> np.ndarray:
    """How many units have records of each class."""
    m = int(label.max()) + 1
    return np.bincount(np.unique(unit * m + label) % m, minlength=m)


def _share_below(scores: np.ndarray, others: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The weighted share of the others that each score exceeds; ties count half."""
    order = np.argsort(others, kind="stable")
    cumulated = np.concatenate([[0.0], np.cumsum(weight[order])])
    first, last = (np.searchsorted(others[order], scores, side) for side in ("left", "right"))
    share: np.ndarray = (cumulated[first] + cumulated[last]) / 2 / cumulated[-1]
    return share
