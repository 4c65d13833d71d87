"""Are two things of the same person? How well a score of pairs tells: statistics of verification. Pure.

Every pair touches one or two people, so people are drawn again, not pairs: a pair of persons i and j weighs as often
as i times as often as j were drawn. The spread of the figures over such draws says how many independent trials they
are worth, and the interval is exact-binomial at that number, as everywhere in the audit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.auditing.stats import NEARLY, Measure, binomial_interval, size_for_t

DRAWS = 200
RATES = (0.01, 0.001)  # of false positives
FIGURES = 4  # that are told of one score: they hold together, so each spends its share of the error


class Verified(NamedTuple):
    """The figures of one score: area under the curve, equal error rate, true positives at 1 % and .1 % false ones.

    A rate of true positives is None where there are fewer pairs of people than one false positive needs.
    """

    auc: Measure
    eer: Measure
    tpr_at_1: Measure | None
    tpr_at_01: Measure | None


def verify(
    score: np.ndarray, left: np.ndarray, right: np.ndarray, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> Verified:
    """The figures of a score of pairs, larger for pairs of one person, with intervals by person.

    Parameters
    ----------
    score : (n,) of each pair
    left, right : (n,) whose the two sides are, from 0 on; a pair is of one person where they are equal
    level : at which all figures hold together
    draws : of people, for the intervals; 0: the figures alone

    Examples
    --------
    >>> left, right = (x.ravel() for x in np.indices((40, 40)))
    >>> found = verify((left == right).astype(float), left, right)
    >>> found.auc.value, found.eer.value, found.tpr_at_1.value, found.tpr_at_01
    (1.0, 0.0, 1.0, Measure(value=1.0, low=0.869..., high=1.0, guessing=0.001))
    """
    people = np.unique(left[left == right])
    n, rank = len(people), np.unique(-score, return_inverse=True)[1].ravel()
    drawn = np.zeros((draws + 1, int(max(left.max(), right.max())) + 1))
    rng = np.random.default_rng(seed)
    everybody = np.unique(np.concatenate([left, right]))
    drawn[0, everybody] = 1
    drawn[1:, everybody] = rng.multinomial(len(everybody), np.full(len(everybody), 1 / len(everybody)), draws)
    found = np.array([_figures(rank, left, right, weight) for weight in drawn])
    each, spread = 1 - (1 - level) / FIGURES, found[1:].var(axis=0) if draws else np.zeros(len(found[0]))
    guessing = (0.5, 0.5, *RATES)
    told = [_measure(v, s, n, g, each) for v, s, g in zip(found[0].tolist(), spread, guessing, strict=True)]
    enough = [n * (n - 1) >= 1 / rate for rate in RATES]
    return Verified(*told[:2], *(m if e else None for m, e in zip(told[2:], enough, strict=True)))


def _figures(rank: np.ndarray, left: np.ndarray, right: np.ndarray, weight: np.ndarray) -> tuple[float, ...]:
    """Of pairs by the rank of their score, people weighing so much. Between tied scores the curve is a line."""
    same = left == right
    pairs = np.where(same, weight[left], weight[left] * weight[right])
    size = int(rank.max()) + 1
    curves = []
    for side in (~same, same):
        counted = np.bincount(rank[side], pairs[side], size)
        curves.append(np.concatenate([[0.0], np.cumsum(counted) / max(counted.sum(), 1e-12)]))
    false, true = curves
    equal = float(np.interp(1.0, false + true, false))
    return float(np.trapezoid(true, false)), equal, *(_at(rate, false, true) for rate in RATES)


def _at(rate: float, false: np.ndarray, true: np.ndarray) -> float:
    """True positives where so many are false; of a step straight up, its upper end."""
    after = int(np.searchsorted(false, rate, side="right"))
    if after == len(false):
        return 1.0
    share = (rate - false[after - 1]) / (false[after] - false[after - 1])
    return float(true[after - 1] + share * (true[after] - true[after - 1]))


def _measure(value: float, spread: float, n: int, guessing: float, level: float) -> Measure:
    """With the interval of so many trials as the spread is worth; near all or nothing, at most one for each person."""
    size = value * (1 - value) / spread if spread > 0 else float(n)
    size = min(size, float(n)) if min(value, 1 - value) < NEARLY else size
    return Measure(value, *binomial_interval(value, max(size * size_for_t(n, level), 1e-3), level), guessing)
