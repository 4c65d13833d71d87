"""What a bundle takes in: raw records checked against its schema, as the inputs of its graph. Numpy alone.

Records come as an array, a dict of columns, a DataFrame or an Arrow table; the latter two are known by
their methods, so that neither library is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InputError

MISSING_TEXT = "\ue000missing"  # stands for a gap in a column of text
BLOCK = 4096  # rows that are turned from columns at a time, so that they stay in the cache
OTHER_TEXT = "\ue000other"  # stands for any text that is no category
FAR = 1.0  # widths of the fit's range beyond its ends, from where on a number is far outside


@dataclass(frozen=True)
class Problem:
    """What is wrong with one record."""

    row: int
    column: str
    problem: str

    def __str__(self) -> str:
        return f"{self.column}, row {self.row}: {self.problem}"


class ArraySchema:
    """Numeric arrays: rows, windows or images of one shape."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.shape = tuple(int(n) for n in declared["shape"])
        self.ranges = declared.get("ranges")  # format 1 told none

    def check(self, X: Any) -> tuple[dict[str, np.ndarray], int, list[Problem]]:
        """The graph's inputs, the number of records, and what is wrong with which."""
        if hasattr(X, "column_names") or isinstance(X, Mapping) or hasattr(X, "columns"):
            columns = _columns(X)
            if (len(columns),) != self.shape:
                raise InputError(f"found {len(columns)} columns, but a record has shape {self.shape}; pass an array")
            values, problems = _number_columns(list(columns.items()), False)
            return {"X": values}, len(values), problems
        try:
            values = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"the records are no numbers ({error}); pass a numeric array") from None
        if values.ndim == 0 or values.shape[1:] != self.shape:
            raise InputError(f"a record has shape {values.shape[1:]}, but the bundle takes {self.shape}")
        problems = []
        bad = ~np.isfinite(values)
        if bad.any():
            for where in np.argwhere(bad):
                place = f"column {where[1]}" if len(where) == 2 else f"place {tuple(int(i) for i in where[1:])}"
                word = "NaN" if np.isnan(values[tuple(where)]) else "infinity"
                problems.append(Problem(int(where[0]), place, f"{word}; pass a number"))
        return {"X": values}, len(values), problems

    def unusual(self, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
        """How many records lie far outside the fit, by column or channel."""
        if self.ranges is None:
            return {}
        X = feeds["X"]
        counts = {f"column {i}": _far(X[:, i].reshape(len(X), -1), ends) for i, ends in enumerate(self.ranges)}
        return {name: n for name, n in counts.items() if n}


class TableSchema:
    """Columns of numbers and text, by name; columns beyond those of the schema are not read."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.names = [c["name"] for c in declared["columns"]]
        self.is_number = [c["kind"] == "number" for c in declared["columns"]]
        self.ranges = [c["range"] if c["kind"] == "number" else None for c in declared["columns"]]
        self.categories = [set(c["categories"]) if c["kind"] == "category" else None for c in declared["columns"]]

    def check(self, X: Any) -> tuple[dict[str, np.ndarray], int, list[Problem]]:
        if hasattr(X, "column_names") or isinstance(X, Mapping) or hasattr(X, "columns"):
            named = _by_name(_columns(X), self.names)
        else:
            table = np.asarray(X)
            if table.ndim != 2 or table.shape[1] != len(self.names):
                raise InputError(
                    f"the array has shape {table.shape}, but a record has the {len(self.names)} columns "
                    f"{', '.join(self.names)}"
                )
            named = list(zip(self.names, table.T, strict=True))
        feeds: dict[str, np.ndarray] = {}
        problems: list[Problem] = []
        numbers = [c for c, number in zip(named, self.is_number, strict=True) if number]
        n = len(named[0][1])
        if numbers:
            feeds["numbers"], found = _number_columns(numbers, True)
            problems += found
        texts = [(c, known) for c, known in zip(named, self.categories, strict=True) if known is not None]
        if texts:
            feeds["texts"] = np.empty((n, len(texts)), dtype=object)
            for i, ((name, values), known) in enumerate(texts):
                feeds["texts"][:, i], found = _text(name, values, known)
                problems += found
        return feeds, n, problems

    def unusual(self, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
        """How many records have a number far outside the fit, or a word that it did not have, by column."""
        counts, number, text = {}, 0, 0
        for name, ends in zip(self.names, self.ranges, strict=True):
            if ends is not None:
                counts[name] = _far(feeds["numbers"][:, number : number + 1], ends)
                number += 1
            else:
                counts[name] = int((feeds["texts"][:, text] == OTHER_TEXT).sum())
                text += 1
        return {name: n for name, n in counts.items() if n}


def _far(values: np.ndarray, ends: Any) -> int:
    low, high = ends
    reach = FAR * max(high - low, 1e-9 * (1 + abs(high)))
    with np.errstate(invalid="ignore"):  # a gap is not far
        return int(((values < low - reach) | (values > high + reach)).any(axis=1).sum())


def schema_of(declared: Mapping[str, Any]) -> ArraySchema | TableSchema:
    return TableSchema(declared) if declared["kind"] == "table" else ArraySchema(declared)


def _columns(X: Any) -> dict[str, Any]:
    """Name to values. Arrow tables have `column_names`, DataFrames `columns`."""
    if isinstance(X, Mapping):
        columns = {str(k): v for k, v in X.items()}
        lengths = {len(v) if hasattr(v, "__len__") and not isinstance(v, str) else -1 for v in columns.values()}
        if len(lengths) != 1 or -1 in lengths:
            raise InputError("a dict of columns needs lists or arrays of one length; found " + _lengths(columns))
        return columns
    if hasattr(X, "column_names"):
        return {str(name): X.column(i) for i, name in enumerate(X.column_names)}
    return {str(name): X.iloc[:, i] for i, name in enumerate(X.columns)}


def _lengths(columns: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}: {len(v) if hasattr(v, '__len__') else type(v).__name__}" for k, v in columns.items())


def _by_name(columns: Mapping[str, Any], names: list[str]) -> list[tuple[str, Any]]:
    absent = [n for n in names if n not in columns]
    if absent:
        raise InputError(
            f"column {absent[0]!r} is not there (and {len(absent) - 1} more); the bundle takes {', '.join(names)}"
            if len(absent) > 1
            else f"column {absent[0]!r} is not there; the bundle takes {', '.join(names)}"
        )
    return [(n, columns[n]) for n in names]


def _plain(values: Any) -> np.ndarray:
    """A numpy array of a column's values, gaps as None or NaN."""
    if hasattr(values, "to_pylist"):  # Arrow: with gaps or of text
        kind = str(values.type)
        simple = values.null_count == 0 and kind.startswith(("int", "uint", "float", "double", "halffloat"))
        if simple:
            return np.asarray(values.to_numpy(zero_copy_only=False) if _is_array(values) else values.to_numpy())
        out = np.empty(len(values), dtype=object)
        out[:] = values.to_pylist()
        if kind.startswith(("int", "uint", "float", "double")):
            return np.array([np.nan if v is None else v for v in out], dtype=np.float64)
        return out
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"a column must have one value for each record; found the shape {array.shape}")
    return array


def _is_array(values: Any) -> bool:
    return not hasattr(values, "chunks")  # Arrow's chunked columns convert without options


def _number_columns(named: list[tuple[str, Any]], gaps: bool) -> tuple[np.ndarray, list[Problem]]:
    arrays, problems = [], []
    for name, values in named:
        array, found = _numbers(name, _plain(values), gaps)
        arrays.append(array)
        problems += found
    out = np.empty((len(arrays[0]), len(arrays)))
    for at in range(0, len(out), BLOCK):
        for i, array in enumerate(arrays):
            out[at : at + BLOCK, i] = array[at : at + BLOCK]
    return out, problems


def _numbers(name: str, values: np.ndarray, gaps: bool) -> tuple[np.ndarray, list[Problem]]:
    problems: list[Problem] = []
    shown = repr(name)
    if values.dtype.kind in "fiub":
        out = values.astype(np.float64)
    elif values.dtype.kind in "OUS":
        out = np.full(len(values), np.nan)
        for row, value in enumerate(values):
            if _missing(value):
                continue
            try:
                out[row] = float(value)
            except (TypeError, ValueError, OverflowError):
                problems.append(
                    Problem(row, shown, f"{_short(value)} is no number; pass a number" + ", or NaN for unknown" * gaps)
                )
                out[row] = 0.0
    else:
        raise InputError(f"column {shown} has type {values.dtype}, but the bundle takes numbers there")
    bad = np.isinf(out) if gaps else ~np.isfinite(out)
    for at in np.flatnonzero(bad):
        word = "infinity" if np.isinf(out[at]) else "NaN"
        problems.append(Problem(int(at), shown, f"{word}; pass a number" + ", or NaN for unknown" * gaps))
    return out, problems


def _text(name: str, column: Any, known: set[str]) -> tuple[np.ndarray, list[Problem]]:
    values = _plain(column)
    problems: list[Problem] = []
    if values.dtype.kind in "fiuc":
        for at in np.flatnonzero(values == values):  # NaN is a gap
            found = f"{_short(values[at].item())} is a number; pass text, or None for unknown"
            problems.append(Problem(int(at), repr(name), found))
        return np.full(len(values), MISSING_TEXT, dtype=object), problems
    if values.dtype.kind not in "OUSb":
        raise InputError(f"column {name!r} has type {values.dtype}, but the bundle takes text there")
    # text that is no category all means "other": it need not reach the graph
    out = np.empty(len(values), dtype=object)
    out[:] = [v if type(v) is str and v in known else _category(v, known) for v in values]
    return out, problems


def _category(value: Any, known: set[str]) -> str:
    if _missing(value):
        return MISSING_TEXT
    text = str(value)
    return text if text in known else OTHER_TEXT


def _missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
