"""Statistics of numbers that were guessed: measures with intervals. Pure: arrays in, numbers out.

Every measure is a smooth function of means, so one formula serves all, as in `tacit.auditing.stats`: each record's
influence, summed by *unit* (records of one person are not independent), gives the variance. The degrees of freedom are
those of the units' squared influences, so that a few units that decide widen an interval. With units a measure is of
the average unit (per="unit").
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats as sps

from tacit.auditing.stats import record_weights
from tacit.report.results import Measure

LEAST = 1e-12  # of the variance: an error below it is none
UNSEEN = 3.0  # of n units that had no error, this many may have one (the rule of three, 95 %)


def r_squared(
    truth: np.ndarray, guess: np.ndarray, units: np.ndarray | None = None, level: float = 0.95, per: str = "unit"
) -> Measure:
    """The share of a number's variance that a guess explains: 1 is exact, 0 is what guessing the mean gives.

    The interval is made for log(1 - R²), the ratio of two variances, and mapped back.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 500))
    >>> found = r_squared(x + noise, x)
    >>> found.low < 0.5 < found.high, found.guessing
    (True, 0.0)
    """
    weight = record_weights(len(truth), units, per)
    weight = weight / weight.sum()
    away = truth - weight @ truth
    error, total = (truth - guess) ** 2, away**2
    lost, all_of_it = float(weight @ error), float(weight @ total)
    if all_of_it <= 0:
        return Measure(math.nan, -math.inf, 1.0, 0.0)
    value = 1 - lost / all_of_it
    n_units = len(truth) if units is None else len(np.unique(units))
    low = value - UNSEEN / n_units  # errors that no unit here had
    if lost <= LEAST * all_of_it:
        return Measure(value, low, 1.0, 0.0)
    half = _half_width(weight * ((error - lost) / lost - (total - all_of_it) / all_of_it), units, level)
    lower, upper = (1 - (1 - value) * math.exp(sign * min(half, 700.0)) for sign in (1, -1))
    return Measure(value, min(low, lower), upper, 0.0)


def r_squared_gain(
    truth: np.ndarray,
    guess: np.ndarray,
    before: np.ndarray,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """How much more variance one guess explains than another, on the same records; guessing gains nothing.

    Examples
    --------
    >>> truth = np.arange(9.0)
    >>> r_squared_gain(truth, truth, np.full(9, 4.0)).value
    1.0
    """
    weight = record_weights(len(truth), units, per)
    weight = weight / weight.sum()
    total = (truth - weight @ truth) ** 2
    all_of_it = float(weight @ total)
    gained = (truth - before) ** 2 - (truth - guess) ** 2
    if all_of_it <= 0 or not gained.any():
        return Measure(0.0, 0.0, 0.0, 0.0)
    value = float(weight @ gained) / all_of_it
    influence = gained / all_of_it - value - value * (total - all_of_it) / all_of_it
    half = _half_width(weight * influence, units, level)
    return Measure(value, value - half, value + half, 0.0)


def rank_correlation(
    truth: np.ndarray, guess: np.ndarray, units: np.ndarray | None = None, level: float = 0.95, per: str = "unit"
) -> Measure:
    """Spearman's: the correlation of the ranks of a number and of its guess, ties in the middle; guessing has 0.

    The interval is made for Fisher's z, from the influence of each record on both rankings, and mapped back.

    Examples
    --------
    >>> rank_correlation(np.arange(5.0), np.arange(5.0) ** 3).value
    1.0
    """
    weight = record_weights(len(truth), units, per)
    weight = weight / weight.sum()
    f, g = (_ranks(x, weight) - 0.5 for x in (truth, guess))
    moments = {"fg": float(weight @ (f * g)), "ff": float(weight @ (f * f)), "gg": float(weight @ (g * g))}
    if min(moments["ff"], moments["gg"]) < LEAST:  # one of the two is the same for everybody
        return Measure(0.0, 0.0, 0.0, 0.0) if moments["gg"] < LEAST else Measure(math.nan, -1.0, 1.0, 0.0)
    scale = math.sqrt(moments["ff"] * moments["gg"])
    value = moments["fg"] / scale
    both = f * g - moments["fg"] + _moved(truth, weight, g) + _moved(guess, weight, f)
    own = (f * f - moments["ff"] + 2 * _moved(truth, weight, f)) / moments["ff"]
    other = (g * g - moments["gg"] + 2 * _moved(guess, weight, g)) / moments["gg"]
    value = min(1.0, max(-1.0, value))
    z = math.atanh(min(1 - 1e-9, max(-1 + 1e-9, value)))
    half = _half_width(weight * (both / scale - value / 2 * (own + other)), units, level) / (1 - math.tanh(z) ** 2)
    n_units = len(truth) if units is None else len(np.unique(units))
    half = max(half, UNSEEN / n_units)  # ranks that are all alike show no spread
    low, high = math.tanh(z - half), math.tanh(z + half)
    return Measure(value, min(low, value), max(high, value), 0.0)


def mean_absolute_error(
    truth: np.ndarray,
    guess: np.ndarray,
    constant: float,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """How far a guess is off, on average; `guessing` is the same for always naming `constant` (a median).

    The interval is made for the logarithm, and mapped back.

    Examples
    --------
    >>> mean_absolute_error(np.array([0.0, 2.0]), np.array([1.0, 2.0]), 1.0).guessing
    1.0
    """
    weight = record_weights(len(truth), units, per)
    weight = weight / weight.sum()
    off = np.abs(truth - guess)
    value, blind = float(weight @ off), float(weight @ np.abs(truth - constant))
    n_units = len(truth) if units is None else len(np.unique(units))
    high = value + UNSEEN / n_units * blind  # errors that no unit here had
    if value <= LEAST * max(blind, LEAST):
        return Measure(value, 0.0, high, blind)
    half = min(_half_width(weight * (off - value) / value, units, level), 700.0)
    return Measure(value, value * math.exp(-half), max(high, value * math.exp(half)), blind)


def _half_width(influence: np.ndarray, units: np.ndarray | None, level: float) -> float:
    """Half of an interval of this level, from each record's influence."""
    sums = influence if units is None else np.bincount(np.unique(units, return_inverse=True)[1].ravel(), influence)
    squares, n = sums**2, len(sums)
    variance = float(squares.sum())
    if n < 2:
        return math.inf
    if variance <= 0:
        return 0.0
    # of n equal squares n, of normal ones n/3: as many as decide the variance
    freedom = min(n - 1.0, variance**2 / float((squares**2).sum()))
    return float(sps.t.ppf(1 - (1 - level) / 2, max(1.0, freedom))) * math.sqrt(variance * n / (n - 1))


def _ranks(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The share of weight below each value, half of that at it: 0 to 1, with the mean exactly one half."""
    _, at = np.unique(values, return_inverse=True)
    mass = np.bincount(at.ravel(), weight)
    return (np.cumsum(mass) - mass / 2)[at.ravel()]


def _moved(values: np.ndarray, weight: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What each record adds to a mean of products by raising the ranks above it, less what it adds on average."""
    _, at = np.unique(values, return_inverse=True)
    mass = np.bincount(at.ravel(), weight * other)
    above = (mass.sum() - np.cumsum(mass) + mass / 2)[at.ravel()]
    moved: np.ndarray = above - float(weight @ above)
    return moved
