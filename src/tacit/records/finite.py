"""Columns of a table as finitely many values, and back: what a release that keeps the table's form is made of.

A number becomes one of at most `resolution` values: values that many people have (zero, forty hours) stay themselves,
others are gathered with their neighbors and stand as their median, or as a round number near it where few have it.
Dates are numbers of days or seconds. Words stay words; rare ones are gathered as "other". A gap is a value like any
other. Nothing stands for fewer than `min_people` people of the fit.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.records.cells import MISSING_TEXT, cell_value, is_gap
from tacit.records.people import Crowd, coarse_ends, middle_and_scale
from tacit.records.schema import TIMES, Column

NONE = -1  # the number of what is none of a column's values: an unseen word, a gap where the fit had none
OTHER = "other"
MIN_COVERED = 0.5  # of the known cells, by words that are frequent enough: below, a column holds names or free text
# Numbers name a record's draws by the logarithm at this grid: what is lost on the way through text or single precision
# does not matter, and no name depends on what a fit has learned.
NAME_STEPS = 1e5
GAP_NAME = -(2.0**51)
WRITTEN_TIMES = {  # how times stand in text, and how they are written back
    re.compile(r"\d{4}-\d\d-\d\d"): "%Y-%m-%d",
    re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"): "%Y-%m-%d %H:%M",
    re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"): "%Y-%m-%d %H:%M:%S",
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"): "%Y-%m-%dT%H:%M",
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"): "%Y-%m-%dT%H:%M:%S",
}


@dataclass(frozen=True, eq=False)
class FiniteColumn:
    """The values that one column is released at.

    Attributes
    ----------
    column : what goes in
    values : one row a value, in the column's own type; a gap stands last
    edges : of numbers, between neighboring values
    words : of words, the number of each that the fit knows
    gap, other : the numbers of the gap and of words that are none; -1 where there is no such value
    """

    column: Column
    values: pd.Series
    edges: np.ndarray
    words: dict[str, int]
    gap: int = NONE
    other: int = NONE

    @property
    def name(self) -> str:
        return self.column.name

    def __len__(self) -> int:
        return len(self.values)

    @property
    def only_gaps(self) -> bool:
        """Whether the fit knew nothing but gaps."""
        return len(self.values) == 1 and self.gap == 0

    @property
    def released_type(self) -> str:
        """What leaves: "text", or a type of numbers."""
        text = pd.api.types.is_object_dtype(self.values) or pd.api.types.is_string_dtype(self.values)
        return "text" if text or self.column.kind == "category" else self.column.type

    def codes(self, cells: pd.Series) -> np.ndarray:
        """The number of each raw cell's value, (n,); -1 for what is none of them."""
        return self.numbered(self.column.good(cells))

    def numbered(self, read: np.ndarray) -> np.ndarray:
        """The same of cells that were read as `Column.read` has them."""
        if self.column.kind == "category":
            known = {**self.words, MISSING_TEXT: self.gap}
            which, found = pd.factorize(read)
            return np.array([known.get(w, self.other) for w in found], dtype=np.int64)[which]
        gone = np.isnan(read)
        if self.only_gaps:
            return np.where(gone, 0, NONE)
        return np.where(gone, self.gap, np.searchsorted(self.edges, read))

    def named(self, read: np.ndarray) -> np.ndarray:
        """What each cell adds to the name of its record: a whole number that no fit decides."""
        if self.column.kind == "category":
            which, found = pd.factorize(read)
            return np.array([word_name(w) for w in found])[which]
        with np.errstate(invalid="ignore"):
            steps = np.rint(NAME_STEPS * np.sign(read) * np.log(1 + np.abs(read)))
        return np.where(np.isnan(read), GAP_NAME, steps)

    def cells(self, codes: np.ndarray) -> pd.Series:
        """Numbers of values as cells of the table again, in the column's own type."""
        return self.values.iloc[codes].reset_index(drop=True)


def word_name(word: str) -> float:
    """A word as a whole number of 50 bits, whatever words a fit knows."""
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return GAP_NAME if word == MISSING_TEXT else float(int.from_bytes(digest, "little") >> 14)


def learn_values(name: str, cells: pd.Series, resolution: int, crowd: Crowd) -> FiniteColumn | str:
    """The values of a column, or in words why it has too many.

    Examples
    --------
    >>> hours = learn_values("hours", pd.Series([40] * 50 + list(range(50))), 3, Crowd(100))
    >>> hours.cells(hours.codes(pd.Series([7, 40, 41, 99]))).tolist()
    [10, 40, 40, 40]
    """
    column = _column(name, cells)
    if column.kind == "category":
        return _learn_words(column, cells, resolution, crowd)
    return _learn_numbers(column, cells, resolution, crowd)


def type_of(cells: pd.Series) -> str:
    """The type in which a column leaves: "text", or a type of numbers."""
    column = _column(str(cells.name), cells)
    return "text" if column.kind == "category" or _written(cells) else column.type


def _column(name: str, cells: pd.Series) -> Column:
    """What kind of cells a column holds."""
    kinds = pd.api.types
    if kinds.is_datetime64_any_dtype(cells) or _written(cells):
        return Column(name, "number", type=_time_type(name, cells, "day", "time"))
    if kinds.is_timedelta64_dtype(cells):
        return Column(name, "number", type="duration")
    if not kinds.is_numeric_dtype(cells) or kinds.is_complex_dtype(cells):
        return Column(name, "category")
    whole = "integer" if kinds.is_integer_dtype(cells) else "float"
    return Column(name, "number", type="boolean" if kinds.is_bool_dtype(cells) else whole)


def _time_type(name: str, cells: pd.Series, days: str, finer: str) -> str:
    read = Column(name, "number", type=days).read(cells)[0]
    return days if (read[~np.isnan(read)] % 1 == 0).all() else finer


def _written(cells: pd.Series) -> str | None:
    """How times are written in a column of text; None where it holds other words, or no word at all."""
    if pd.api.types.is_numeric_dtype(cells) or isinstance(cells.dtype, pd.CategoricalDtype):
        return None
    known = [v for v in pd.unique(cells) if not is_gap(v)]
    texts = [cell_value(v) for v in known if isinstance(v, str)]
    if not texts or len(texts) < len(known) or None in texts:
        return None
    for form, written in WRITTEN_TIMES.items():
        if all(form.fullmatch(t) for t in texts if t):
            return written if not Column("", "number", type="time").read(np.array(texts, dtype=object))[1] else None
    return None


# -- numbers and times ------------------------------------------------------------------------------


def _learn_numbers(column: Column, cells: pd.Series, resolution: int, crowd: Crowd) -> FiniteColumn:
    x = column.good(cells)
    here = ~np.isnan(x)
    own, has_gap = crowd.take(here), crowd.count(~here) >= crowd.enough
    found, which = np.unique(x[here], return_inverse=True)
    cell = _gather(which, max(1, resolution - has_gap), own) if len(found) else np.empty(0, dtype=int)
    rows = cell[which] if len(found) else cell
    middles = [_middle(x[here][rows == c], own.take(rows == c)) for c in range(len(np.unique(cell)))]
    last = np.flatnonzero(np.diff(cell)) if len(found) else np.empty(0, dtype=int)
    edges = (found[last] + found[last + 1]) / 2
    gap = len(middles) if has_gap else NONE
    ends = coarse_ends(x[here], own, *middle_and_scale(x[here], own)) if len(found) else (0.0, 0.0)
    known = Column(column.name, "number", 0.0, 1.0, *ends, has_gap or not len(found), column.type)
    return FiniteColumn(known, _as_column(middles, has_gap, column.type, cells), edges, {}, gap)


def _gather(which: np.ndarray, maximum: int, crowd: Crowd) -> np.ndarray:
    """The cell of each distinct value: frequent ones alone, others with their neighbors, at most `maximum` cells."""
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
    """Cells merged with a neighbor, the smaller one, until none is of too few people and there are few enough."""
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


def _as_column(middles: list[float], has_gap: bool, type: str, like: pd.Series) -> pd.Series:
    """Numbers, and a gap after them, as a column of this type."""
    x = pd.Series([*middles, *([np.nan] if has_gap else [])], dtype=np.float64)
    if type not in TIMES:
        return (x >= 0.5 if type == "boolean" and not has_gap else x).astype(like.dtype)
    unit: Any = TIMES[type]
    ticks = pd.to_timedelta(x, unit=unit)
    if type == "duration":
        return ticks.astype(like.dtype)
    written = _written(like)
    if written is not None:
        texts = (pd.Timestamp(0) + ticks).dt.strftime(written)
        return texts.astype(object).where(texts.notna(), _gap_of(like)).astype(like.dtype)
    return (pd.Timestamp(0, tz=like.dt.tz) + ticks).astype(like.dtype)


def _gap_of(cells: pd.Series) -> Any:
    return next((v for v in cells if is_gap(v)), None)


# -- words ------------------------------------------------------------------------------------------


def _learn_words(column: Column, cells: pd.Series, resolution: int, crowd: Crowd) -> FiniteColumn | str:
    raw = cells.to_numpy(dtype=object)
    spelling = np.array([None if is_gap(v) else str(v) for v in raw], dtype=object)
    here = np.array([s is not None for s in spelling], dtype=bool)
    has_gap = crowd.count(~here) >= crowd.enough
    said = pd.DataFrame({"word": spelling[here], "person": _persons(crowd)[here]})
    people = said.groupby("word")["person"].nunique().sort_index().sort_values(ascending=False, kind="stable")
    known = [w for w in people.index if people[w] >= crowd.enough]
    common = known
    if len(known) < len(people) or len(known) > resolution - has_gap:
        common = known[: max(1, resolution - has_gap - 1)]
    common = sorted(common)
    covered = said["word"].isin(common)
    if here.any() and covered.mean() < MIN_COVERED:
        return f"{len(people):,} different words, most of them rare (names, free text or an identifier)"
    rest = crowd.take(here).count(~covered.to_numpy()) >= crowd.enough
    names = [*common, *([OTHER] if rest and OTHER not in common else [])]
    first = {s: v for s, v in zip(spelling[::-1], raw[::-1], strict=True)}
    values = [first.get(w, OTHER) for w in names] + ([first[None]] if has_gap else [])
    codes = {w: i for i, w in enumerate(names)}
    gap, other = (len(names) if has_gap else NONE), (codes.get(OTHER, NONE) if rest else NONE)
    read = Column(column.name, "category", categories=tuple(sorted(known)), has_missing=has_gap)
    words = {w: codes.get(w, other) for w in known}
    return FiniteColumn(read, _typed(values, cells), np.empty(0), words, gap, other)


def _persons(crowd: Crowd) -> np.ndarray:
    return np.arange(crowd.n_rows) if crowd.units is None else crowd.units


def _typed(values: list[Any], like: pd.Series) -> pd.Series:
    """Words in the column's own type, which learns the word "other" where that is released."""
    kind: Any = like.dtype
    if isinstance(kind, pd.CategoricalDtype):
        more = [v for v in values if not is_gap(v) and v not in kind.categories]
        kind = pd.CategoricalDtype([*kind.categories, *more], kind.ordered) if more else kind
    return pd.Series(values, dtype=kind)
