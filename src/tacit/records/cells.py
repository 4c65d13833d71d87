"""What a cell means: gaps, booleans, numbers, words, spaces. One rule for every road in; numpy alone.

A cell of a text file loses its leading spaces, and is a gap where it is one of `GAPS` (`cell_value`). What is left, or
comes as a value from a table, JSON or Arrow, is then read as its column has it: `numbers` and `words`. Filters,
bundles, `apply`, `stream`, the client and engines call these; the page in a browser is told `GAPS` by its service.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InputError

# what pandas takes for a gap
GAPS = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null")  # fmt: skip
TRUTH = {"true": True, "false": False}  # in any case, in a column of booleans
MISSING_TEXT = "\ue000missing"  # stands for a gap in a column of text
OTHER_TEXT = "\ue000other"  # stands for any text that is not a category
_GAPS = frozenset(GAPS)
_BOOLEANS = {"True", "False"}  # the categories of booleans that had gaps


@dataclass(frozen=True)
class Problem:
    """What is wrong with one record."""

    row: int
    column: str
    problem: str

    def __str__(self) -> str:
        return f"{self.column}, row {self.row}: {self.problem}"


def cell_value(text: str) -> str | None:
    """A cell of a text file, quotes already off: None for a gap, else without leading spaces.

    Examples
    --------
    >>> cell_value(" nurse"), cell_value(" N/A")
    ('nurse', None)
    """
    text = text.lstrip(" ")
    return None if text in _GAPS else text


def header_names(cells: Sequence[str]) -> list[str]:
    """Names of columns: without leading spaces, each once; those without one are numbered (as pandas does).

    Examples
    --------
    >>> header_names(["", " age"])
    ['Unnamed: 0', 'age']
    """
    names = [cell.lstrip(" ") or f"Unnamed: {i}" for i, cell in enumerate(cells)]
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise InputError(f"the header names the column {twice[0]!r} twice; give every column a name of its own")
    return names


def is_gap(value: Any) -> bool:
    """Whether a value is unknown: None, NaN, NA or NaT. (Text is not: see `cell_value`.)"""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def text_number(text: str) -> float:
    """The number that a text is, with all its digits; a ValueError where it is none.

    Python's rule, without its underscores, other alphabets' digits and spellings of NaN.
    """
    found = float(text) if text.isascii() and "_" not in text else np.nan
    if found != found:
        raise ValueError(text)
    return found


def as_array(values: Any) -> np.ndarray:
    """A numpy array of a column's values, gaps as None or NaN. Arrow and pandas are known by their methods."""
    if hasattr(values, "to_pylist"):
        if str(values.type).startswith(("int", "uint", "float", "double", "halffloat")):
            return _arrow_numbers(values)
        out = np.empty(len(values), dtype=object)
        out[:] = values.to_pylist()
        return out
    # pandas knows categories by number or word; here all of them are words
    array = np.asarray(values, dtype=object if hasattr(values, "cat") else None)
    if array.dtype.kind in "US" and isinstance(values, list | tuple):
        array = np.asarray(values, dtype=object)  # of ["5", True] numpy would make two words
    if array.ndim != 1:
        raise InputError(f"a column must have one value for each record; found the shape {array.shape}")
    return array


def _arrow_numbers(values: Any) -> np.ndarray:
    # Arrow's chunked columns convert without options
    return np.asarray(values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=False))


def numbers(name: str, column: Any, boolean: bool = False, gaps: bool = True) -> tuple[np.ndarray, list[Problem]]:
    """A column of numbers, NaN for gaps, and the cells that are none (0 stands for them).

    Parameters
    ----------
    boolean : the column holds booleans, which may be spelled out
    gaps : whether a gap is allowed
    """
    values, remedy = as_array(column), "; pass a number" + ", or NaN for unknown" * gaps
    problems: list[Problem] = []
    if values.dtype.kind in "fiub":
        out = values.astype(np.float64)
    elif values.dtype.kind in "OUS":
        out = np.full(len(values), np.nan)
        for row, value in enumerate(values):
            try:
                out[row] = _number(value, boolean)
            except (TypeError, ValueError, OverflowError):
                problems.append(Problem(row, repr(name), f"{_kind(value)} is not a number{remedy}"))
                out[row] = 0.0
    else:
        raise InputError(f"column {name!r} has type {values.dtype}, but numbers are expected there")
    for at in np.flatnonzero(np.isinf(out) if gaps else ~np.isfinite(out)):
        problems.append(Problem(int(at), repr(name), f"{'infinity' if np.isinf(out[at]) else 'NaN'}{remedy}"))
    return out, problems


def _number(value: Any, boolean: bool) -> float:
    if isinstance(value, str):
        text = cell_value(value)
        if text is not None and boolean and text.lower() in TRUTH:
            return float(TRUTH[text.lower()])
        return np.nan if text is None else text_number(text)
    return np.nan if is_gap(value) else float(value)


def times(name: str, column: Any, unit: str) -> tuple[np.ndarray, list[Problem]]:
    """A column of times as days ("D") or seconds ("s"), NaN for gaps, and the cells that are none (0 stands for them).

    Points in time count from 1970 in universal time; they come as such, or as text of the form of ISO 8601.

    Examples
    --------
    >>> times("born", ["1970-01-02", None], "D")[0].tolist()
    [1.0, nan]
    """
    arrow = hasattr(column, "to_pylist") and str(column.type).startswith(("date", "timestamp", "duration"))
    values = _arrow_numbers(column) if arrow else as_array(column)
    if values.dtype.kind in "mM":
        # in nanoseconds a date beyond the year 2262 would wrap around
        tick, ticks = ("ns", 1e9) if np.datetime_data(values.dtype)[0] == "ns" else ("us", 1e6)
        found = values.astype(f"{values.dtype.kind}8[{tick}]").astype(np.int64)
        seconds = np.where(np.isnat(values), np.nan, found / ticks)
        return seconds / _SECONDS[unit], []
    out, problems = np.full(len(values), np.nan), list[Problem]()
    for row, value in enumerate(values.tolist()):
        try:
            out[row] = _seconds(value) / _SECONDS[unit]
        except (TypeError, ValueError, OverflowError):
            problems.append(Problem(row, repr(name), f"{_kind(value)} is not a time; pass one, or None for unknown"))
            out[row] = 0.0
    return out, problems


_SECONDS = {"D": 86400.0, "s": 1.0}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        text = cell_value(value)
        value = None if text is None else datetime.datetime.fromisoformat(text.strip())
    if is_gap(value):
        return np.nan
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, datetime.datetime):
        if not isinstance(value, datetime.date):
            raise TypeError(value)
        value = datetime.datetime(value.year, value.month, value.day)
    return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _EPOCH).total_seconds()


def words(name: str, column: Any, categories: Iterable[str]) -> tuple[np.ndarray, list[Problem]]:
    """A column of categories as text, `MISSING_TEXT` and `OTHER_TEXT`, and the cells of a column of numbers instead.

    A word that is a category is that; else leading spaces do not count, nor the case of booleans.
    """
    values = as_array(column)
    if values.dtype.kind in "fiu":  # NaN is a gap
        said = "a number; pass text, or None for unknown"
        wrong = [Problem(int(at), repr(name), said) for at in np.flatnonzero(values == values)]
        return np.full(len(values), MISSING_TEXT, dtype=object), wrong
    if values.dtype.kind not in "OUSb":
        raise InputError(f"column {name!r} has type {values.dtype}, but text is expected there")
    known = {c: c for c in categories}
    boolean = bool(known) and set(known) <= _BOOLEANS
    known |= {c.lower(): c for c in known} if boolean else {}

    def meaning(value: Any) -> str:
        text = None if is_gap(value) else cell_value(str(value))
        return MISSING_TEXT if text is None else known.get(text.lower() if boolean else text, OTHER_TEXT)

    out = np.empty(len(values), dtype=object)
    out[:] = [known[v] if type(v) is str and v in known else meaning(v) for v in values.tolist()]
    return out, []


def _kind(value: Any) -> str:
    """What a value is, never which: messages end up in logs."""
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    return f"a {type(value.item() if isinstance(value, np.generic) else value).__name__}"
