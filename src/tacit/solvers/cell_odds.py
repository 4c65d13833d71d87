"""How far any one cell can move anybody's belief: an upper bound on max_z max_{s,s'} P(z|s) / P(z|s'), from counts.

Given how many of n_s people of class s and of n_t of class t share a cell, N together, the number x of class s among
them follows Fisher's noncentral hypergeometric law, whose one parameter is the cell's odds ratio

    w = p (1 - q) / (q (1 - p)),  p = P(z|s),  q = P(z|t).

Its exact upper end at level a (the w under which so few would come with probability a) fails with probability at most
a, whatever p and q are. Where the number of cells is known beforehand each has the same level. Else a cell with a share
N / (n_s + n_t) of the people has this share of the pair's error: given N the level is fixed, and the shares of all
cells add to one, so the error is spent once *however many cells there are or might have been*. The m (m - 1) ordered
pairs of classes share nine tenths of delta. The last tenth pays for lower ends q_L of every P(z|t), at levels in
proportion to P(z|t) itself, which add to one as well. They make ratios of odds ratios: p / q <= w / (1 + (w - 1) q_L).

A cell in which a class was not seen has no lower end, and no bound. Clopper-Pearson ends of p and q, each at delta /
(2 cells classes), would be valid as well, but add errors that partly cancel here.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc

FOR_PAIRS = 0.9  # of delta; the rest is for lower ends
FAR = 6.0  # in units of sqrt(N), twelve standard deviations or more: what lies beyond is below e^-70


class WorstOdds(NamedTuple):
    """The largest upper end of P(z|s) / P(z|s'), the ratio that was counted there, the cell z, and (s, s')."""

    bound: float
    plugin: float
    cell: int
    classes: tuple[int, int]


def worst_odds(table: np.ndarray, delta: float, all_cells: bool = True) -> WorstOdds:
    """With probability 1 - delta no cell's ratio exceeds the bound.

    Parameters
    ----------
    table : (cells, classes) independent people, whole ones; a row of zeros is a cell that nobody was seen in
    all_cells : the rows are all cells there are, known beforehand; else those that happened to be seen

    Examples
    --------
    >>> found = worst_odds(np.array([[500, 300], [500, 700]]), 0.05)
    >>> round(found.bound, 2), round(found.plugin, 2), found.cell, found.classes
    (1.96, 1.67, 0, (0, 1))
    >>> worst_odds(np.array([[500, 300], [500, 700], [3, 0]]), 0.05).bound
    inf
    """
    table = np.asarray(table, dtype=np.int64)
    counts, m = table.sum(axis=0), table.shape[1]
    law = table / np.maximum(counts, 1)
    empty = np.flatnonzero((table == 0).any(axis=1))
    nothing = m < 2 or (all_cells and len(table) == 1)
    if nothing or len(empty):
        cell = 0 if nothing else int(empty[table[empty].sum(axis=1).argmax()])
        end = 1.0 if nothing else math.inf
        return WorstOdds(end, end, cell, (int(law[cell].argmax()), int(law[cell].argmin())))
    low = _lower_ends(table, counts, (1 - FOR_PAIRS) * delta / m)
    pairs = [(z, s, t) for s, t in permutations(range(m), 2) for z in range(len(table))]
    error = np.sqrt(1 / table)
    guess = [math.log(law[z, s] / law[z, t]) + 3 * math.hypot(error[z, s], error[z, t]) for z, s, t in pairs]
    best, worst = 1.0, (0, 0, 1)
    for i in np.argsort(guess)[::-1]:  # the worst first: of most others one look says that they are below it
        z, s, t = pairs[i]
        share = 1 / len(table) if all_cells else (table[z, s] + table[z, t]) / (counts[s] + counts[t])
        alpha = FOR_PAIRS * delta / (m * (m - 1)) * share
        end = _ratio_above(best, _Pair(table[z, s], table[z, t], counts[s], counts[t]), low[z, t], alpha)
        if end > best:
            best, worst = end, (z, s, t)
        if math.isinf(best):
            break
    z, s, t = worst
    return WorstOdds(float(best), float(law[z, s] / law[z, t]), z, (s, t))


class _Pair:
    """The law of how many of a cell's people are of the first class, for every odds ratio; known but for a factor."""

    def __init__(self, x: int, y: int, n_x: int, n_y: int) -> None:
        both = x + y
        least, most = max(0, both - n_y), min(n_x, both)
        reach = int(FAR * math.sqrt(both)) + 60
        self.all_there_can_be = x == most
        first, last = max(least, x - reach), min(most, x + reach)
        self.start = math.log((x + 0.5) * (n_y - y + 0.5) / ((n_x - x + 0.5) * (y + 0.5)))
        j = np.arange(first, last, dtype=float)
        steps = np.log((n_x - j) * (both - j) / ((j + 1) * (n_y - both + j + 1)))
        self.log_weight = np.concatenate([[0.0], np.cumsum(steps)])
        self.steps, self.upto = np.arange(last - first + 1), x - first + 1

    def tail(self, log_odds: float) -> float:
        """Probability of x or fewer; what is left out above can only make it smaller."""
        exponent = self.log_weight + log_odds * self.steps
        mass = np.exp(exponent - exponent.max())
        return float(mass[: self.upto].sum() / mass.sum())

    def upper_end(self, alpha: float) -> float:
        """The odds ratio above which x or fewer would come with a probability below alpha."""
        if self.all_there_can_be:
            return math.inf
        low = high = self.start
        while self.tail(low) <= alpha:
            low -= 1
        while self.tail(high) > alpha:
            high += 1
        log_end = brentq(lambda w: math.log(max(self.tail(w), 1e-300) / alpha), low, high, xtol=1e-9)
        return math.exp(log_end + 1e-8)


def _ratio_above(best: float, pair: _Pair, low: float, alpha: float) -> float:
    """The pair's upper end where it exceeds `best`, else anything below."""
    if best * low < 1:
        as_odds_ratio = best * (1 - low) / (1 - best * low)
        if not pair.all_there_can_be and pair.tail(math.log(as_odds_ratio)) <= alpha:
            return 0.0
    end = pair.upper_end(alpha)
    return 1 / low if math.isinf(end) and low > 0 else end / (1 + (end - 1) * low) if math.isfinite(end) else end


def _lower_ends(table: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    """Below which probability p so many or more would come with a probability below share * p; bisected."""
    low, high = np.zeros(table.shape), table / counts
    for _ in range(50):
        middle = (low + high) / 2
        rare = betainc(table, counts - table + 1, middle) <= share * middle
        low, high = np.where(rare, middle, low), np.where(rare, high, middle)
    return np.where(table > 1, low, 0.0)
