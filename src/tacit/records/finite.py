"""Columns of a table as finitely many values, and back: what a release that keeps the table's form is made of.

A number becomes one of at most `resolution` values: values that many people have (zero, forty hours) stay themselves,
others are gathered with their neighbours and stand as their median, or as a round number near it where few have it.
Dates are numbers of days or seconds. Words stay words; rare ones are gathered as "other". A gap is a value like any
other. Nothing stands for fewer than `min_people` people of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.records.cells import is_gap, numbers
from tacit.records.fingerprints import fingerprints
from tacit.records.people import Crowd

NONE = -1  # the number of what is none of a column's values: an unseen word, a gap where the fit had none
OTHER = "other"
MIN_COVERED = 0.5  # of the known cells, by words that are frequent enough: below, a column holds names or free text


@dataclass(frozen=True, eq=False)
class FiniteColumn:
    """The values that one column is released at.

    Attributes
    ----------
    name : of the column
    kind : "number", "date", "duration" or "word"
    values : one row a value, in the column's own type; a gap stands last
    edges : of numbers, between neighbouring values
    words : of words, the number of each spelling
    gap, other : the numbers of the gap and of words that are none; -1 where there is no such value
    unit : of dates and durations: "D" or "s"
    """

    name: str
    kind: str
    values: pd.Series
    edges: np.ndarray
    words: dict[str, int]
    gap: int = NONE
    other: int = NONE
    unit: str = "D"

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: pd.Series) -> np.ndarray:
        """The number of each cell's value, (n,); -1 for what is none of them."""
        if self.kind == "word":
            known: dict[Any, int] = {**self.words, None: self.gap}
            found, which = _spellings(column)
            return np.array([known.get(w, self.other) for w in found], dtype=np.int64)[which]
        x = _as_numbers(self.name, self.kind, self.unit, column)
        if len(self.values) == 1 and self.gap == 0:  # the fit knew gaps alone
            return np.where(np.isnan(x), 0, NONE)
        return np.where(np.isnan(x), self.gap, np.searchsorted(self.edges, x))

    def cells(self, codes: np.ndarray) -> pd.Series:
        """Numbers of values as cells of the table again, in the column's own type."""
        return self.values.iloc[codes].reset_index(drop=True)


def learn_values(name: str, column: pd.Series, resolution: int, crowd: Crowd) -> FiniteColumn | str:
    """The values of a column, or in words why it has too many.

    Examples
    --------
    >>> hours = learn_values("hours", pd.Series([40] * 50 + list(range(50))), 3, Crowd(100))
    >>> hours.cells(hours.codes(pd.Series([7, 40, 41, 99]))).tolist()
    [10, 40, 40, 40]
    """
    kind = _kind(column)
    return (_learn_words if kind == "word" else _learn_numbers)(name, kind, column, resolution, crowd)


def spelled(value: Any) -> str | None:
    """A word as it is compared; None for a gap."""
    return None if is_gap(value) else str(value)


def _spellings(column: pd.Series) -> tuple[list[str | None], np.ndarray]:
    """The different words of a column and a gap after them, and which of these each cell is."""
    raw = column.to_numpy(dtype=object)
    if pd.api.types.infer_dtype(raw, skipna=True) != "string":  # True and 1 are equal, but not spelled alike
        raw = np.array([spelled(v) for v in raw], dtype=object)
    which, found = pd.factorize(raw)
    return [*found.tolist(), None], which  # -1, the last, is the gap


def _kind(column: pd.Series) -> str:
    kinds = pd.api.types
    if kinds.is_datetime64_any_dtype(column):
        return "date"
    if kinds.is_timedelta64_dtype(column):
        return "duration"
    number = kinds.is_numeric_dtype(column) and not kinds.is_bool_dtype(column) and not kinds.is_complex_dtype(column)
    return "number" if number else "word"


# -- numbers and dates ------------------------------------------------------------------------------


def _learn_numbers(name: str, kind: str, column: pd.Series, resolution: int, crowd: Crowd) -> FiniteColumn:
    unit = "D"
    if kind != "number":
        days = _as_numbers(name, kind, unit, column)
        unit = "D" if (days[~np.isnan(days)] % 1 == 0).all() else "s"
    x = _as_numbers(name, kind, unit, column)
    here = ~np.isnan(x)
    has_gap = crowd.count(~here) >= crowd.enough
    found, which = np.unique(x[here], return_inverse=True)
    cell = _gather(which, max(1, resolution - has_gap), crowd.take(here)) if len(found) else np.empty(0, dtype=int)
    rows = cell[which] if len(found) else cell
    own = crowd.take(here)
    middles = [_middle(x[here][rows == c], own.take(rows == c)) for c in range(len(np.unique(cell)))]
    last = np.flatnonzero(np.diff(cell)) if len(found) else np.empty(0, dtype=int)
    edges = (found[last] + found[last + 1]) / 2
    gap = len(middles) if has_gap else NONE
    values = _as_column(middles, has_gap, kind, unit, column)
    return FiniteColumn(name, kind, values, edges, {}, gap=gap, unit=unit)


def _gather(which: np.ndarray, maximum: int, crowd: Crowd) -> np.ndarray:
    """The cell of each distinct value: frequent ones alone, others with their neighbours, at most `maximum` cells."""
    counts = np.bincount(which)
    heavy, free = np.zeros(len(counts), dtype=bool), maximum
    # a value that fills a cell alone leaves fewer people for the cells of the others, so that another may fill one
    while free > 0 and (full := ~heavy & (counts * free >= counts[~heavy].sum())).any():
        heavy |= full
        free = maximum - int(heavy.sum())
    size = 0.0 if len(counts) <= maximum else counts[~heavy].sum() / max(1, free)
    cell, now, filled = np.empty(len(counts), dtype=np.int64), 0, 0.0
    for i, count in enumerate(counts):
        if filled and (heavy[i] or filled >= size):
            now, filled = now + 1, 0.0
        cell[i] = now
        if heavy[i]:
            now += 1
        else:
            filled += count
    cell = np.unique(cell, return_inverse=True)[1].ravel()
    return _enough_people(cell, which, maximum, crowd)


def _enough_people(cell: np.ndarray, which: np.ndarray, maximum: int, crowd: Crowd) -> np.ndarray:
    """Cells merged with a neighbour, the smaller one, until none is of too few people and there are few enough."""
    people = [crowd.count(cell[which] == c) for c in range(int(cell.max()) + 1)]
    while len(people) > 1 and (min(people) < crowd.enough or len(people) > maximum):
        small = int(np.argmin(people))
        beside = [c for c in (small - 1, small + 1) if 0 <= c < len(people)]
        into = min(beside, key=lambda c: people[c])
        first = min(small, into)
        cell = np.where(cell > first, cell - 1, cell)
        people[first : first + 2] = [crowd.count(cell[which] == first)]
    return cell


def _middle(x: np.ndarray, crowd: Crowd) -> float:
    """The median of these where enough people have it; else the number of fewest digits near it, in the middle half."""
    low, middle, high = np.quantile(x, (0.25, 0.5, 0.75), method="lower").tolist()
    if crowd.count(x == middle) >= crowd.min_people:
        return middle
    size = int(np.ceil(np.log10(max(abs(low), abs(high), 1e-12))))
    for digits in range(-size, 18):
        if low <= (near := round(middle, digits)) <= high:
            return near + 0.0
    return middle


def _as_numbers(name: str, kind: str, unit: Any, column: pd.Series) -> np.ndarray:
    if kind == "number":
        read, problems = numbers(name, column.to_numpy(dtype=object) if column.dtype == object else _floats(column))
        if problems:
            raise InputError(f"column {problems[0]}")
        return read
    try:
        times: Any = pd.to_datetime(column) if kind == "date" else pd.to_timedelta(column)
        times = times - pd.Timestamp(0, tz=times.dt.tz) if kind == "date" else times
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"column {name!r} held a {kind} in the fit, and now something else: {error}") from None
    return (times / pd.Timedelta(1, unit)).to_numpy(dtype=np.float64, na_value=np.nan)


def _floats(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _as_column(middles: list[float], has_gap: bool, kind: str, unit: Any, like: pd.Series) -> pd.Series:
    """Numbers, and a gap after them, as a column of this type."""
    x = pd.Series([*middles, *([np.nan] if has_gap else [])], dtype=np.float64)
    if kind == "number":
        return x.astype(like.dtype)
    ticks = pd.to_timedelta(x, unit=unit)
    if kind == "duration":
        return ticks.astype(like.dtype)
    return (pd.Timestamp(0, tz=like.dt.tz) + ticks).astype(like.dtype)


# -- words ------------------------------------------------------------------------------------------


def _learn_words(name: str, kind: str, column: pd.Series, resolution: int, crowd: Crowd) -> FiniteColumn | str:
    raw = column.to_numpy(dtype=object)
    found, which = _spellings(column)
    spelling = np.array(found, dtype=object)[which]
    here = np.array([s is not None for s in spelling], dtype=bool)
    has_gap = crowd.count(~here) >= crowd.enough
    said = pd.DataFrame({"word": spelling[here], "person": _persons(crowd)[here]})
    people = said.groupby("word")["person"].nunique().sort_index().sort_values(ascending=False, kind="stable")
    common = [w for w in people.index if people[w] >= crowd.enough]
    if len(common) < len(people) or len(common) > resolution - has_gap:
        common = common[: max(1, resolution - has_gap - 1)]
    common = sorted(common)
    covered = said["word"].isin(common)
    if here.any() and covered.mean() < MIN_COVERED:
        return f"{len(people):,} different words, most of them rare (names, free text or an identifier)"
    text = not pd.api.types.is_bool_dtype(column)
    rest = text and crowd.take(here).count(~covered.to_numpy()) >= crowd.enough
    names = [*common, *([OTHER] if rest and OTHER not in common else [])]
    first = {s: v for s, v in zip(spelling[::-1], raw[::-1], strict=True)}
    values = [first.get(w, OTHER) for w in names] + ([first[None]] if has_gap else [])
    codes = {w: i for i, w in enumerate(names)}
    gap, other = (len(names) if has_gap else NONE), (codes.get(OTHER, NONE) if rest else NONE)
    words = {w: codes[w] for w in common}
    return FiniteColumn(name, kind, _typed(values, column), np.empty(0), words, gap, other)


def _persons(crowd: Crowd) -> np.ndarray:
    return np.arange(crowd.n_rows) if crowd.units is None else crowd.units


def _typed(values: list[Any], like: pd.Series) -> pd.Series:
    """Words in the column's own type, which learns the word "other" where that is released."""
    kind: Any = like.dtype
    if isinstance(kind, pd.CategoricalDtype):
        more = [v for v in values if not is_gap(v) and v not in kind.categories]
        kind = pd.CategoricalDtype([*kind.categories, *more], kind.ordered) if more else kind
    return pd.Series(values, dtype=kind)


# -- the name of a record ---------------------------------------------------------------------------


def record_names(columns: Sequence[FiniteColumn], table: pd.DataFrame) -> np.ndarray:
    """Two whole numbers that name each record by its cells, numbers at five digits, whatever values were learned.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [0.1, 0.1000001, 0.2]})
    >>> a, b, c = record_names([learn_values("x", table["x"], 2, Crowd(3))], table).tolist()
    >>> a == b, a == c
    (True, False)
    """
    cells = {}
    for c in columns:
        if c.kind == "word":
            found, which = _spellings(table[c.name])
            cells[c.name] = np.array(found, dtype=object)[which]
        else:
            x = _as_numbers(c.name, c.kind, "s", table[c.name])
            cells[c.name] = _significant(x) if c.kind == "number" else x
    prints = fingerprints(pd.DataFrame(cells, index=table.index))
    return np.column_stack([prints >> np.uint64(32), prints & np.uint64(2**32 - 1)]).astype(np.float64)


def _significant(x: np.ndarray, digits: int = 5) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(x))))
        return np.where((x == 0) | np.isnan(x), x, np.rint(x * scale) / scale)
