"""Numbers that many people stand behind: what a bundle says of the table it was learned from.

Whoever has two bundles, fitted with and without one person, sees everything that the person moves. So a word, an
edge or an end of a range is kept only where `min_people` people share it, and a number is rounded to a step several
times as wide as what one person can move it by. Rounding is deterministic: a number that happens to lie near
the border of two steps still flips, with a probability of about influence / step, and then tells one bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MIN_PEOPLE = 10
FURTHEST = 64.0  # standard deviations from the middle that a record may lie in training: who lies beyond moves nothing
OUTER = 2.5  # standard deviations from the middle: how far out a person usually lies at most
FINEST = 24  # levels of the grid of edges: steps from 8 standard deviations down to 2**-20 of one
SUPPORT = 4.0  # a rounded number's step, in units of what one person can move it by


@dataclass(frozen=True)
class Crowd:
    """Who the rows of a table belong to, and how many people must stand behind what is kept.

    Parameters
    ----------
    n_rows : number of rows
    units : the person of each row; None: every row is a person of its own
    min_people : how many people a word, an end of a range or an edge needs

    Examples
    --------
    >>> crowd = Crowd(6, np.array(["a", "a", "a", "b", "b", "c"]), min_people=2)
    >>> crowd.n_people, crowd.count(np.array([True, True, True, False, False, False]))
    (3, 1)
    """

    n_rows: int
    units: np.ndarray | None = None
    min_people: int = MIN_PEOPLE

    def __post_init__(self) -> None:
        if self.units is not None:
            found = np.unique(np.asarray(self.units).astype(str), return_inverse=True)[1].ravel()
            object.__setattr__(self, "units", found)

    @property
    def n_people(self) -> int:
        return self.n_rows if self.units is None else int(self.units.max()) + 1

    @property
    def enough(self) -> int:
        """People behind a leaf, a cell or a scale: `min_people`, or a quarter of all where there are few."""
        return max(1, min(self.min_people, self.n_people // 4))

    def count(self, rows: np.ndarray) -> int:
        """How many people these rows (a mask) are of."""
        return int(rows.sum()) if self.units is None else len(np.unique(self.units[rows]))

    def take(self, rows: np.ndarray) -> Crowd:
        """The crowd of some of the rows."""
        units = None if self.units is None else self.units[rows]
        n = int(rows.sum()) if rows.dtype == bool else len(rows)
        return Crowd(n, units, self.min_people)

    def weights(self) -> np.ndarray:
        """Each row's share, such that every person weighs the same; they sum to 1."""
        if self.units is None:
            return np.full(self.n_rows, 1 / self.n_rows)
        rows = np.bincount(self.units)
        return 1 / rows[self.units] / len(rows)

    def ends(self, low: np.ndarray, high: np.ndarray, beyond: int) -> tuple[float, float]:
        """Values that at least `beyond` people lie at or below, and at or above; rows come with their ends."""
        if self.units is not None:
            people = self.units.max() + 1
            lows, highs = np.full(people, np.inf), np.full(people, -np.inf)
            np.minimum.at(lows, self.units, low)
            np.maximum.at(highs, self.units, high)
            here = np.isfinite(lows)
            low, high = lows[here], highs[here]
        k = min(beyond, len(low))
        return float(np.partition(low, k - 1)[k - 1]), float(np.partition(high, len(high) - k)[len(high) - k])


def middle_and_scale(values: np.ndarray, crowd: Crowd) -> tuple[float, float]:
    """A mean and a scale for standardizing that one person cannot move visibly.

    Values are clipped to where the crowd lies and every person weighs the same. Both numbers are then rounded to a step
    that is sixteen times what a person far from the middle moves them by, a quarter of the scale at most.
    `values` has a row for each of the crowd's rows.

    Examples
    --------
    >>> middle_and_scale(np.arange(1000.0), Crowd(1000))
    (496.0, 288.0)
    """
    flat = values.reshape(len(values), -1)
    low, high = crowd.ends(flat.min(axis=1), flat.max(axis=1), crowd.enough)
    if not high - low > 1e-9 * (1 + abs(high)):
        return low, 2.0 ** round(math.log2(max(abs(low), 1.0)))  # nearly everybody has this value
    by_row = np.clip(flat, low, high)
    share = crowd.weights()
    mean = float(share @ by_row.mean(axis=1))
    spread = math.sqrt(max(float(share @ ((by_row - mean) ** 2).mean(axis=1)), 0.0))
    unit = 2.0 ** math.floor(math.log2(max(spread, 1e-12 * (1 + abs(mean)))))
    step = unit * min(0.25, float(step_of(4 * OUTER / crowd.n_people)))
    return rounded(mean, step), rounded(spread, step)


def coarse_ends(values: np.ndarray, crowd: Crowd, middle: float, scale: float) -> tuple[float, float]:
    """The range of a column as a bundle tells it: at least `min_people` people lie at or beyond each end.

    Ends go outwards to round numbers. Where there are too few people the range is told from the rounded mean and scale.
    """
    flat = values.reshape(len(values), -1)
    if crowd.n_people < 2 * crowd.min_people:
        return round_range(middle - 4 * scale, middle + 4 * scale)
    low, high = crowd.ends(flat.min(axis=1), flat.max(axis=1), crowd.min_people)
    return round_range(min(low, high), max(low, high))


def round_range(low: float, high: float) -> tuple[float, float]:
    """A range outwards to round numbers.

    Examples
    --------
    >>> round_range(17, 73), round_range(0.013, 0.25)
    ((10.0, 80.0), (0.0, 0.3))
    """
    step = 10.0 ** math.floor(math.log10(max(high - low, abs(high) * 1e-6, 1e-12)))
    return round(math.floor(low / step) * step, 12), round(math.ceil(high / step) * step, 12)


def edges(values: np.ndarray, crowd: Crowd, maximum: int = 127) -> np.ndarray:
    """Where trees may cut a column: points of a public grid with enough people between any two of them.

    Points are multiples of powers of two, coarse ones first; a finer one is added where at least `min_people` people
    lie on either side before the next; twice as many as often as there would be more than `maximum` points. A person
    who joins or leaves can add or remove points beside their value alone, and only where a count stood at its limit.

    Examples
    --------
    >>> edges(np.repeat([0.0, 1.0], 50), Crowd(100)).tolist()
    [0.0]
    """
    order = np.argsort(values, kind="stable")
    x = values[order]
    units = None if crowd.units is None else crowd.units[order]
    need = crowd.enough
    while len(found := _points(x, units, need)) > maximum:
        need *= 2
    return found


def _points(x: np.ndarray, units: np.ndarray | None, need: int) -> np.ndarray:
    """Of sorted values, with `need` people between any two points."""

    def people(first: int, last: int) -> int:
        return last - first if units is None else len(np.unique(units[first:last]))

    kept: list[float] = []
    parts = [(0, len(x))]  # runs of sorted rows that no point separates yet
    for level in range(FINEST):
        step = 2.0 ** (3 - level)
        divided = []
        for first, last in parts:
            start = first
            if people(first, last) >= 2 * need and x[first] < x[last - 1]:
                # a point p separates x <= p from x > p
                points = np.unique(np.ceil(x[first:last] / step)) * step
                for point, end in zip(points, first + np.searchsorted(x[first:last], points, "right"), strict=True):
                    if people(start, int(end)) >= need and people(int(end), last) >= need:
                        kept.append(float(point))
                        divided.append((start, int(end)))
                        start = int(end)
            divided.append((start, last))
        parts = divided
    return np.array(sorted(kept))


def rounded(value: float, step: float) -> float:
    """The multiple of `step` next to a number."""
    return float(np.round(value / step) * step)


def step_of(influence: float | np.ndarray) -> np.ndarray:
    """The power of two that is at least `SUPPORT` times what one person moves a number by."""
    return 2.0 ** np.ceil(np.log2(SUPPORT * np.asarray(influence, dtype=np.float64)))


def supported(values: np.ndarray, people: np.ndarray | float, reach: float = 1.0) -> np.ndarray:
    """Means of `people` people's numbers, which lie within `reach`, rounded to what that many support.

    Examples
    --------
    >>> supported(np.array([0.123456, 0.123456]), np.array([100, 10_000])).tolist()
    [0.125, 0.12353515625]
    """
    step = step_of(reach / np.maximum(people, 1))
    return np.asarray(np.round(values / step) * step)
