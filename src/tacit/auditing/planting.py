"""Planted leaks of known size: labels drawn so that they depend on this very release in one known way.

Not a value of the release is changed. A planting draws new labels, which keep the shares of the classes and depend on
the released record through one statistic only. So the release keeps its ties, cells and correlations, the planting
leaves no trace that an attacker could read instead of the leak, there is no other leak in the labels, and the size is
exact: it is the balanced accuracy of the reader who knows that statistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

KINDS = ("one column", "a pair", "a smooth direction")
COMMON = 0.7  # share of a column's commonest value above which it hardly can carry a leak
BINS = 50  # of a record's statistic, where the leak is a property of its unit
TRIES = 20
LOOKED_AT = 2000  # records, to see how varied a column is


@dataclass(frozen=True)
class Planted:
    """Labels that leak, and how much of them the reader who knows where to look can tell."""

    labels: np.ndarray
    size: float  # balanced accuracy above guessing; of a rare group, the share of records named for sure
    limit: float  # the largest size that could have been planted here


@dataclass(frozen=True)
class Ground:
    """A release in which leaks are planted: its records, their units where a unit has one label, the class shares."""

    X: np.ndarray
    units: np.ndarray | None
    prior: np.ndarray

    @cached_property
    def varied(self) -> np.ndarray:
        """Columns that can carry a leak: no value of theirs is too common. All of them where none is so."""
        some = self.X[:: max(1, len(self.X) // LOOKED_AT)]
        common = [np.unique(column, return_counts=True)[1].max() for column in some.T]
        fine = np.flatnonzero(np.array(common) <= COMMON * len(some))
        return fine if len(fine) else np.arange(self.X.shape[1])


def plant(kind: str, ground: Ground, size: float, rng: np.random.Generator) -> Planted:
    """Labels with a leak of one kind: two halves of the classes are told apart by a statistic of the record.

    "one column": whether it is low or high. "a pair": whether two columns deviate from their medians to the same side,
    of which neither column alone says anything. "a smooth direction": the chances shift along a random direction.

    Parameters
    ----------
    size : balanced accuracy above guessing; cut to the largest that the statistic can carry
    """
    statistic = _STATISTICS[kind](ground, rng)
    carried = statistic if ground.units is None else _unit_means(statistic, ground.units)
    in_b = _halves(ground.prior, rng)
    share = float(ground.prior[in_b].sum())
    chance = _chance(carried, share, smooth=kind == "a smooth direction")
    seen = chance if ground.units is None else _bin_means(statistic, chance)
    gain = float(np.maximum(seen / share, (1 - seen) / (1 - share)).mean() - 1)
    m = len(ground.prior)
    weight = min(1.0, size * m / gain) if gain > 0 else 0.0
    is_b = _uniform(ground, rng) < (1 - weight) * share + weight * chance
    within = _uniform(ground, rng)
    labels = np.where(is_b, _draw(ground.prior * in_b, within), _draw(ground.prior * ~in_b, within))
    return Planted(labels, weight * gain / m, gain / m)


def plant_rare(ground: Ground, size: float, rng: np.random.Generator) -> Planted:
    """Labels in which everybody with one combination of two columns has the same class, and nobody else is known.

    `size` is the share of such people; where values repeat, the nearest that whole combinations give.
    """
    n = len(ground.X)
    best, inside = 0.0, np.zeros(n, dtype=bool)
    for _ in range(TRIES):
        columns, anchor = rng.permutation(ground.varied)[:2], rng.integers(n)
        ranks = np.column_stack([_middle_ranks(ground.X[:, j]) for j in columns])
        distance = np.abs(ranks - ranks[anchor]).max(1)
        reach = np.partition(distance, int(size * n))[int(size * n)]
        for region in (distance <= reach, distance < reach):
            if abs(region.mean() - size) < abs(best - size):
                best, inside = float(region.mean()), region
        if abs(best - size) < 0.1 * size:
            break
    able = np.flatnonzero(ground.prior > 1.5 * best)
    named = int(rng.choice(able)) if len(able) else int(ground.prior.argmax())
    rest = np.maximum(ground.prior - best * (np.arange(len(ground.prior)) == named), 0.0)
    labels = np.where(inside, named, _draw(rest, rng.random(n)))
    return Planted(labels, best, float(ground.prior.max()) / 2)


def _column(ground: Ground, rng: np.random.Generator) -> np.ndarray:
    values: np.ndarray = ground.X[:, rng.choice(ground.varied)]
    return values


def _pair(ground: Ground, rng: np.random.Generator) -> np.ndarray:
    columns = rng.permutation(ground.varied)[:2]
    agreement: np.ndarray = np.prod([np.sign(_middle_ranks(ground.X[:, k]) - 0.5) for k in columns], axis=0)
    return agreement


def _direction(ground: Ground, rng: np.random.Generator) -> np.ndarray:
    X = ground.X
    along: np.ndarray = X @ (rng.standard_normal(X.shape[1]) / np.maximum(X.std(0), 1e-9))
    return along


_STATISTICS = {"one column": _column, "a pair": _pair, "a smooth direction": _direction}


def _middle_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks between 0 and 1; equal values share theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: np.ndarray = ((ends - counts / 2) / len(values))[inverse.ravel()]
    return ranks


def _chance(statistic: np.ndarray, share: float, smooth: bool) -> np.ndarray:
    """How much each record belongs to the upper part, of mass `share`: a sharp cut, or rising along the statistic.

    Equal records have equal chances: a value that lies on the cut belongs to both sides in part.
    """
    _, inverse, counts = np.unique(statistic, return_inverse=True, return_counts=True)
    high = np.cumsum(counts) / len(statistic)
    low = high - counts / len(statistic)
    if smooth:  # u ** k with mean `share`; the mean of it between the two ends of a value
        k = (1 - share) / share
        level = (high ** (k + 1) - low ** (k + 1)) / (k + 1) / (high - low)
    else:
        level = np.clip((high - (1 - share)) / (high - low), 0, 1)
    chances: np.ndarray = level[inverse.ravel()]
    return chances


def _halves(prior: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which classes are in the second of two groups about equally common."""
    order = rng.permutation(len(prior))
    cut = int(np.argmin(np.abs(np.cumsum(prior[order])[:-1] - 0.5))) + 1
    second = np.zeros(len(prior), dtype=bool)
    second[order[cut:]] = True
    return second


def _uniform(ground: Ground, rng: np.random.Generator) -> np.ndarray:
    """A number for every record; one for all records of a unit where a unit has one label."""
    if ground.units is None:
        return rng.random(len(ground.X))
    _, inverse = np.unique(ground.units, return_inverse=True)
    numbers: np.ndarray = rng.random(inverse.max() + 1)[inverse.ravel()]
    return numbers


def _draw(shares: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """A class for every number between 0 and 1, in these shares."""
    ends = np.cumsum(shares) / shares.sum()
    return np.minimum(np.searchsorted(ends, uniform, side="right"), np.flatnonzero(shares).max())


def _unit_means(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    _, inverse = np.unique(units, return_inverse=True)
    means: np.ndarray = (np.bincount(inverse.ravel(), values) / np.bincount(inverse.ravel()))[inverse.ravel()]
    return means


def _bin_means(statistic: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """What a record's own statistic says about the chance of its unit."""
    bins = (_middle_ranks(statistic) * BINS).astype(int).clip(0, BINS - 1)
    means: np.ndarray = (np.bincount(bins, chance, BINS) / np.maximum(np.bincount(bins, minlength=BINS), 1))[bins]
    return means
