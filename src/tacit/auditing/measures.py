"""Measures of what an attacker got, beyond accuracy. Pure: arrays in, numbers with interval and baseline out.

Intervals follow `tacit.auditing.stats`: the variance is that of the sums of influences over *units*, and the interval
is exact-binomial at the sample size which that variance is worth (a number in another range is first put in 0..1).
With units every measure is of the average unit, with per="record" of the average record.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, special
from scipy import stats as sps

from tacit.auditing.stats import (
    Measure,
    binomial_interval,
    effective_size,
    equal_weights,
    record_weights,
    weighted_mean,
)
from tacit.errors import InputError, check_number
from tacit.report.results import advantage as advantage

TINY = 1e-12


def macro_f1(
    truth: np.ndarray,
    guess: np.ndarray,
    n_classes: int,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """Mean F1 over the classes that occur in truth or guess, as scikit-learn counts them.

    The interval is the delta method's. Guessing is 1/#classes: of all blind guesses, drawing from the prior is best,
    since the sum of 2 p_c q_c / (p_c + q_c) is largest at q = p, where it is 1.

    Parameters
    ----------
    truth, guess : (n,) classes, 0 .. n_classes - 1
    units : (n,) the independent unit of each record
    per : "unit" for the average unit, "record" for the average record

    Examples
    --------
    >>> round(macro_f1(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]), 2).value, 3)
    0.733
    """
    check_rows(truth=truth, guess=guess, units=units)
    right, weight = truth == guess, record_weights(len(truth), units, per)
    hits = np.bincount(truth[right], weight[right], minlength=n_classes)
    named = np.bincount(truth, weight, minlength=n_classes) + np.bincount(guess, weight, minlength=n_classes)
    present = named > 0
    m = int(present.sum())
    f1 = np.divide(2 * hits, named, out=np.zeros(len(named)), where=present)
    value = float(f1[present].mean())
    influence = np.zeros(len(truth))
    for column in (truth, guess):  # d(2 hits / named), from the record's own class and from the one it was given
        influence += (right - f1[column]) * weight / named[column] / m
    # a class found always or never has no visible variance: shrink its share of hits among the records
    # that have or are given it to the middle (Agresti); F1 = 2 s / (1 + s) of that share s
    trials = equal_weights(weight) / weight.sum()  # of a weight of one
    records = (named - hits)[present] * trials
    share = (hits[present] * trials + 1) / (records + 2)
    middle = float((2 * share / (1 + share)).mean())
    variance = float(((2 / (1 + share) ** 2) ** 2 * share * (1 - share) / records).sum() / m**2)
    who = np.arange(len(truth)) if units is None else units
    size = min(effective_size(value, influence, who, middle * (1 - middle) / variance, level))
    return Measure(value, *binomial_interval(value, size, level), 1 / m)


def top_k(
    truth: np.ndarray,
    probabilities: np.ndarray,
    k: int,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """Share of records whose class is among the attacker's k likeliest; guessing names the k commonest classes.

    Classes tied at the k-th place share it: each counts with the chance that a coin would have put it inside.

    Examples
    --------
    >>> p = np.array([[.5, .3, .2], [.5, .3, .2], [.1, .2, .7]])
    >>> round(top_k(np.array([0, 2, 1]), p, k=2).value, 3)
    0.667
    """
    check_rows(truth=truth, probabilities=probabilities, units=units)
    check_number("k", k, 1, probabilities.shape[1], whole=True)
    above, tied = _above_and_tied(truth, probabilities)
    inside = np.clip((k - above) / tied, 0, 1)
    weight = record_weights(len(truth), units, per)
    guessing = float(np.sort(np.bincount(truth, weight))[-k:].sum() / weight.sum())
    return mean_measure(inside, guessing, units, level, most=equal_weights(weight), per=per)


def calibrate(validation_probabilities: np.ndarray, validation_truth: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Learn to undo over-confidence and a wrong prior: q is proportional to p^a prior^b, with the least log-loss.

    b = 0 is temperature scaling (T = 1/a). The prior's power is there for attackers trained on balanced classes (right
    is a = b = 1) and for those who know nothing, who should fall back on the prior (a = 0), not on equal chances.

    Parameters
    ----------
    validation_probabilities, validation_truth : records on which the attacker was not trained, and not the test's

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=500)
    >>> sure = np.where(rng.random(500) < .7, y, 1 - y)[:, None] == np.arange(2)  # says 1, is right 7 times in 10
    >>> bool(abs(calibrate(sure, y)(sure).max() - .7) < .05)
    True
    """
    check_rows(validation_truth=validation_truth, validation_probabilities=validation_probabilities)
    n, m = validation_probabilities.shape
    log_prior = np.log((np.bincount(validation_truth, minlength=m) + 0.5) / (n + 0.5 * m))

    def tempered(probabilities: np.ndarray, a: float, b: float) -> np.ndarray:
        log_p = np.log(np.clip(np.asarray(probabilities, float), TINY, None))
        result: np.ndarray = special.log_softmax(a * log_p + b * log_prior, axis=1)
        return result

    def log_loss(ab: np.ndarray) -> float:
        return -float(tempered(validation_probabilities, *ab)[np.arange(n), validation_truth].mean())

    best = optimize.minimize(log_loss, [0.5, 0.5], method="L-BFGS-B", bounds=[(0, 20), (-3, 3)]).x
    return lambda probabilities: np.exp(tempered(probabilities, *best))


def bits_leaked(
    truth: np.ndarray,
    probabilities: np.ndarray,
    prior: np.ndarray | None = None,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """Lower bound of what a release tells, in bits: H(prior) - the attacker's cross-entropy.

    It is the variational bound of DPFE's lemma 1 and theorem 2, L = H(z) + E log q(z|f) with the attacker's q.
    True for any probabilities, tight for the right ones: `calibrate` them first. The attacker is made to hedge, with
    weight 1/(units + 1) on the prior: still an attacker, and now a surprise has a bounded price. The interval leaves
    room for one such unit in units + 1 that was not seen, so that a perfect attack on few people is not a point.

    Parameters
    ----------
    prior : (m,) the population's class shares where they are known; None takes (and pays for) those of `truth`

    Examples
    --------
    >>> y = np.arange(1000) % 2
    >>> round(bits_leaked(y, np.eye(2)[y]).value, 2), bits_leaked(y, np.full((1000, 2), .5)).value
    (1.0, 0.0)
    """
    check_rows(truth=truth, probabilities=probabilities, units=units)
    m = probabilities.shape[1]
    weight = record_weights(len(truth), units, per)
    shares = np.bincount(truth, weight, minlength=m) / weight.sum() if prior is None else np.asarray(prior, float)
    if shares.shape != (m,) or abs(shares.sum() - 1) > 1e-6 or (shares[truth] <= 0).any():
        raise InputError(f"prior must be {m} shares that add to 1, none of them 0 for a class in truth; found {prior}")
    n_units = len(truth if units is None else np.unique(units))
    hedge = 1 / (n_units + 1)
    own = (probabilities[np.arange(len(truth)), truth] + TINY) / (probabilities.sum(axis=1) + m * TINY)
    log_own = np.log2((1 - hedge) * own + hedge * shares[truth])
    entropy, rarest = float(special.entr(shares).sum() / np.log(2)), float(shares[shares > 0].min())
    if prior is None:  # the influence of the estimated entropy is - log share: paired, it cancels most of the noise
        terms, bounds = log_own - np.log2(shares[truth]), (np.log2(hedge), -np.log2(rarest))
    else:
        terms, bounds = entropy + log_own, (entropy + np.log2(hedge * rarest), entropy)
    height = (weighted_mean(terms, weight) - float(bounds[0])) / (bounds[1] - bounds[0])
    most = n_units * max(1.0, height * (1 - height) / hedge)  # trials whose variance is that of the unseen surprise
    value, low, high, _ = mean_measure(terms, 0.0, units, level, bounds, most, per)
    value, low, high = (min(max(0.0, x), entropy) for x in (value, low, high))
    return Measure(value, low, high, 0.0)


class RankPrivacy(NamedTuple):
    """DPFE's rank measures; ranks are 1 (the attacker's first guess) .. n_classes, and high is private.

    Attributes
    ----------
    log_rank : mean of log(rank) / log(n_classes)
    rank_mean, rank_sd : of rank / n_classes; .5 and .29 for a uniform rank among many classes
    ranks : (n,) rank / n_classes of each record, for `rank_statement`
    """

    log_rank: Measure
    rank_mean: Measure
    rank_sd: Measure
    ranks: np.ndarray
    n_classes: int


def log_rank(
    truth: np.ndarray,
    probabilities: np.ndarray,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> RankPrivacy:
    """Log-rank privacy (DPFE, definition 10) of any attacker's probabilities; ties get the average rank.

    Guessing is a uniformly random rank. With unequal classes a blind attacker who ranks by the prior does better than
    that, so compare such releases with `log_rank` of the prior itself.

    Examples
    --------
    >>> log_rank(np.array([0, 1]), np.array([[.6, .3, .1], [.6, .3, .1]])).ranks.round(2).tolist()
    [0.33, 0.67]
    """
    check_rows(truth=truth, probabilities=probabilities, units=units)
    m = probabilities.shape[1]
    check_number("number of classes", m, 2)
    above, tied = _above_and_tied(truth, probabilities)
    ranks = above + (tied + 1) / 2
    blind = float(special.gammaln(m + 1) / m / np.log(m))
    of_logs = mean_measure(np.log(ranks) / np.log(m), blind, units, level, per=per)
    of_ranks = mean_measure(ranks / m, (m + 1) / (2 * m), units, level, bounds=(1 / m, 1.0), per=per)
    # a mean square, so that it has the interval of a mean
    squares = mean_measure((ranks / m - of_ranks.value) ** 2, (m * m - 1) / (12 * m * m), units, level, per=per)
    return RankPrivacy(of_logs, of_ranks, Measure(*(math.sqrt(x) for x in squares)), ranks / m, m)


def rank_statement(
    ranks: np.ndarray,
    quantile: float,
    n_classes: int | None = None,
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> Measure:
    """DPFE's (epsilon, delta) sentence without its normal law: all but a share `quantile` have at least this rank.

    The interval is that of order statistics and holds for any law; with units its sample size is the effective one
    (Woodruff), which is approximate. Guessing is the same quantile of a uniformly random rank.

    Parameters
    ----------
    ranks : (n,) ranks divided by the number of classes, as `log_rank(...).ranks`
    n_classes : of the uniform rank; None for very many

    Examples
    --------
    >>> rank_statement(np.arange(1, 101) / 100, quantile=.1)
    Measure(value=0.1, low=0.05, high=0.17, guessing=0.1)
    """
    check_number("quantile", quantile, TINY, 1 - TINY)
    check_rows(ranks=ranks, units=units)
    order, weight = np.argsort(ranks, kind="stable"), record_weights(len(ranks), units, per)
    ordered, reached = np.asarray(ranks)[order], np.cumsum(weight[order]) / weight.sum()
    value = _quantile(ordered, reached, quantile)
    size = float(len(ranks))
    if units is not None:
        below = (ranks <= value).astype(float)
        share, trials = weighted_mean(below, weight), equal_weights(weight)
        size = min(trials, *effective_size(share, (below - share) * weight / weight.sum(), units, trials, level))
    # the count of records under the true quantile is binomial: its limits are the places of the two ends,
    # each place a block of 1 / trials of the weight, taken at its outer end
    blocks = max(1, int(size))
    first, last = sps.binom.ppf([(1 - level) / 2, (1 + level) / 2], blocks, quantile)
    low = float(ordered[np.searchsorted(reached, (first - 1) / blocks + TINY, "right")]) if first >= 1 else 0.0
    high = _quantile(ordered, reached, (last + 1) / blocks) if last < blocks else 1.0
    guessing = quantile if n_classes is None else max(1, math.ceil(quantile * n_classes - 1e-9)) / n_classes
    return Measure(value, low, high, guessing)


def mean_measure(
    values: np.ndarray,
    guessing: float,
    units: np.ndarray | None,
    level: float,
    bounds: tuple[float, float] = (0.0, 1.0),
    most: float = 1e9,
    per: str = "unit",
) -> Measure:
    """Mean of one number a record, each within `bounds`; worth at most `most` yes-or-no trials.

    With units it is the mean over units of their means; with per="record" records weigh alike.
    """
    bottom, width = bounds[0], bounds[1] - bounds[0]
    scaled = np.clip((values - bottom) / width, 0, 1)
    weight = record_weights(len(scaled), units, per)
    value = weighted_mean(scaled, weight)
    if units is None and ((scaled == 0) | (scaled == 1)).all():
        size = float(len(scaled))  # plain trials: exact
    else:
        who = np.arange(len(scaled)) if units is None else units
        spread = np.where(np.ptp(scaled) > TINY, scaled - value, 0.0)  # rounding is not variance
        size = min(effective_size(value, spread * weight / weight.sum(), who, most, level))
    low, high = binomial_interval(value, size, level)
    value, low, high = (float(bottom + width * x) for x in (value, low, high))
    return Measure(value, low, high, guessing)


def check_rows(**arrays: np.ndarray | None) -> None:
    """Refuse arrays that are empty, do not have one row a record, or hold something that is not a number."""
    lengths = {name: len(a) for name, a in arrays.items() if a is not None}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        found = ", ".join(f"{name} has {n} rows" for name, n in lengths.items())
        raise InputError(f"{found}; pass one row per record in each, and at least one")
    for name, a in arrays.items():
        if a is not None and np.issubdtype(np.asarray(a).dtype, np.floating) and not np.isfinite(a).all():
            raise InputError(f"{name} holds NaN or infinity; drop those records or fill them in")


def _above_and_tied(truth: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many classes the attacker thinks likelier than the true one, and how many as likely (itself included)."""
    own = np.take_along_axis(probabilities, truth[:, None], axis=1)
    return (probabilities > own).sum(axis=1), (probabilities == own).sum(axis=1)


def _quantile(ordered: np.ndarray, reached: np.ndarray, share: float) -> float:
    """The smallest value up to which this share of the weight lies; not one more because .1 * 30 is a hair above 3."""
    return float(ordered[min(len(ordered) - 1, int(np.searchsorted(reached, share - TINY, "left")))])
