"""What goes into a filter: its columns, or the shape of its arrays, in one JSON form. Numpy alone.

A manifest, a federation and a common start tell columns in the form of `Column.to_dict`. A schema checks raw records,
as inputs of a bundle's graph, by the rule of `tacit.records.cells`; and it makes up records that are nobody's.
Records come as an array, a dict of columns, a list of dicts, a DataFrame or an Arrow table; the latter two are known
by their methods, so that neither library is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.records.cells import MISSING_TEXT, OTHER_TEXT, Problem, numbers, times, words
from tacit.records.people import round_range

BLOCK = 4096  # rows that are turned from columns at a time, so that they stay in the cache
FAR = 1.0  # widths of the fit's range beyond its ends, from where on a number is far outside
UNSEEN = "a word that training did not have"
GAP_SHARE = 0.1  # of made-up numbers, where the fit had gaps
TIMES = {"day": "D", "time": "s", "duration": "s"}  # types of numbers that come as times, and their units


@dataclass(frozen=True)
class Column:
    """What a fitted filter knows of one input column."""

    name: str
    kind: str  # "number" or "category"
    mean: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    has_missing: bool = False
    type: str = "float"  # or "integer", "boolean", or one of `TIMES`: what decoded numbers are turned back into
    categories: tuple[str, ...] = ()
    role: str = "input"  # or "target"; or "sensitive": the release looks at it, and refuses what the fit did not have
    levels: tuple[float, ...] = ()  # of sensitive numbers that are classes: all that may come

    @property
    def width(self) -> int:
        # a category column has two more slots: "other" and missing
        return len(self.categories) + 2 if self.kind == "category" else 1 + self.has_missing

    def to_dict(self, scaling: bool = False) -> dict[str, Any]:
        """The column as JSON; its range goes outwards to round numbers. `scaling` adds mean and scale."""
        plain = self.role == "input"
        own = {} if plain else {"role": self.role, "levels": list(self.levels), "gaps": self.has_missing}
        if self.kind == "category":
            return {"name": self.name, "kind": self.kind, "categories": list(self.categories), **own}
        told = {"name": self.name, "kind": self.kind, "type": self.type, **own, "gaps": self.has_missing}
        more = {"mean": self.mean, "scale": self.scale} if scaling else {}
        return {**told, "range": list(round_range(self.low, self.high)), **more}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any], mean: float | None = None, scale: float | None = None) -> Column:
        """The column that `to_dict` told of; scaling that travels beside it is given."""
        own = {"role": told.get("role", "input"), "levels": tuple(told.get("levels", ()))}
        own["has_missing"] = told.get("gaps", False)
        if told["kind"] == "category":
            return cls(told["name"], "category", categories=tuple(told["categories"]), **own)
        low, high = told["range"]
        mean = told.get("mean", 0.0) if mean is None else mean
        scale = told.get("scale", 1.0) if scale is None else scale
        return cls(told["name"], "number", float(mean), float(scale), low, high, type=told["type"], **own)

    def as_it_was(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers in the column's own type again."""
        if self.type == "boolean":
            return numbers >= 0.5
        return np.rint(numbers).astype(np.int64) if self.type == "integer" else numbers

    def read(self, values: Any) -> tuple[np.ndarray, list[Problem]]:
        """Raw values as numbers or words, and what is wrong with which."""
        if self.kind == "category":
            read, problems = words(self.name, values, self.categories)
        elif self.type in TIMES:
            read, problems = times(self.name, values, TIMES[self.type])
        else:
            read, problems = numbers(self.name, values, self.type == "boolean")
        return read, [*problems, *self._refused(read)] if self.role == "sensitive" else problems

    def good(self, values: Any) -> np.ndarray:
        """The same where nothing is wrong; else an error that names the first wrong cell."""
        read, problems = self.read(values)
        if problems:
            more = f"; {len(problems) - 1:,} more rows of it are refused" if len(problems) > 1 else ""
            raise InputError(f"column {problems[0]}{more}")
        return read

    def _refused(self, read: np.ndarray) -> list[Problem]:
        """Records whose sensitive value is unknown, or was not in the fit: nothing is known of how to hide it."""
        text = self.kind == "category"
        gaps = read == MISSING_TEXT if text else np.isnan(read)
        strange = read == OTHER_TEXT if text else ~gaps & ~np.isin(read, self.levels or read)
        said = dict.fromkeys(np.flatnonzero(strange).tolist(), "this value was not in the fit, so nothing is known of "
                             "how to hide it; leave the row out, or fit on rows that have it")  # fmt: skip
        if not self.has_missing:
            said |= dict.fromkeys(np.flatnonzero(gaps).tolist(), "missing, and this release looks at it; leave the row "
                                  "out, or fit with unknown='draw' (--set unknown=draw): such rows are protected "
                                  "less")  # fmt: skip
        return [Problem(row, repr(self.name), what) for row, what in said.items()]

    def made_up(self, n: int, rng: np.random.Generator, odd: bool = True) -> np.ndarray:
        """Values that are nobody's: around the middle of the range, all categories; `odd`: gaps and unseen text too."""
        if self.kind == "category":
            strange = [UNSEEN, None] if odd and self.role != "sensitive" else []
            known = np.array([*self.categories, *strange] or [None], dtype=object)
            return known[rng.integers(len(known), size=n)]
        if self.levels:
            return np.array(self.levels)[rng.integers(len(self.levels), size=n)]
        found = self.low + (self.high - self.low) * rng.beta(2, 2, n)
        if self.type != "float":
            found = np.clip(np.rint(found), self.low, self.high)
        found = np.where(rng.random(n) < GAP_SHARE, np.nan, found) if odd and self.has_missing else found
        return found if self.type not in TIMES else as_times(found, self.type)


class ArraySchema:
    """Numeric arrays: rows, windows or images of one shape."""

    def __init__(self, shape: Sequence[int], ranges: Sequence[Sequence[float]] | None) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.ranges = None if ranges is None else [list(ends) for ends in ranges]

    def to_dict(self) -> dict[str, Any]:
        ranges = None if self.ranges is None else [list(round_range(*ends)) for ends in self.ranges]
        return {"kind": "array", "shape": list(self.shape), "ranges": ranges}

    def check(self, X: Any) -> tuple[dict[str, np.ndarray], int, list[Problem]]:
        """The graph's inputs, the number of records, and what is wrong with which."""
        columns = columns_of(X)
        if columns is not None:
            if (len(columns),) != self.shape:
                raise InputError(f"found {len(columns)} columns, but a record has shape {self.shape}; pass an array")
            values, problems = _side_by_side([numbers(name, c, gaps=False) for name, c in columns.items()])
            return {"X": values}, len(values), problems
        try:
            values = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"the records are no numbers ({error}); pass a numeric array") from None
        if values.ndim == 0 or values.shape[1:] != self.shape:
            raise InputError(f"a record has shape {values.shape[1:]}, but the bundle takes {self.shape}")
        problems = []
        for where in np.argwhere(~np.isfinite(values)):
            place = f"column {where[1]}" if len(where) == 2 else f"place {tuple(int(i) for i in where[1:])}"
            word = "NaN" if np.isnan(values[tuple(where)]) else "infinity"
            problems.append(Problem(int(where[0]), place, f"{word}; pass a number"))
        return {"X": values}, len(values), problems

    def unusual(self, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
        """How many records lie far outside the fit, by column or channel."""
        X = feeds["X"]
        ranges = enumerate(self.ranges or [])
        counts = {f"column {i}": _far(X[:, i].reshape(len(X), -1), ends) for i, ends in ranges}
        return {name: n for name, n in counts.items() if n}

    def made_up(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Records that are nobody's: in the middle of the ranges; windows are waves, as of something that moves."""
        ends = np.array(self.ranges or [[0, 1]] * self.shape[0], dtype=float)
        low, high = ends.T.reshape(2, 1, -1, *[1] * (len(self.shape) - 1))
        if len(self.shape) != 2:
            return np.asarray(low + (high - low) * rng.beta(2, 2, (n, *self.shape)))
        each, waves = (n, self.shape[0], 1), np.zeros((n, *self.shape))
        for k in (1, 2, 3):
            turns = k * rng.uniform(1, 4, each) * np.linspace(0, 1, self.shape[1]) + rng.random(each)
            waves += rng.uniform(0.1, 0.5, each) / k * np.sin(2 * np.pi * turns)
        return np.clip((low + high) / 2 + (high - low) / 2 * 0.6 * waves, low, high)


class TableSchema:
    """Columns of numbers and text, by name; columns beyond those of the schema are not read."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.names = [c.name for c in columns]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "table", "columns": [c.to_dict() for c in self.columns]}

    def check(self, X: Any) -> tuple[dict[str, np.ndarray], int, list[Problem]]:
        """The graph's inputs, the number of records, and what is wrong with which."""
        named = columns_of(X)
        if named is None:
            table = np.asarray(X)
            if table.ndim != 2 or table.shape[1] != len(self.names):
                raise InputError(
                    f"the array has shape {table.shape}, but a record has the {len(self.names)} columns "
                    f"{', '.join(self.names)}"
                )
            named = dict(zip(self.names, table.T, strict=True))
        absent = [n for n in self.names if n not in named]
        if absent:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise InputError(f"column {absent[0]!r} is not there{more}; the bundle takes {', '.join(self.names)}")
        feeds, problems = dict[str, np.ndarray](), list[Problem]()
        for kind, feed in (("number", "numbers"), ("category", "texts")):
            found = [c.read(named[c.name]) for c in self.columns if c.kind == kind]
            if found:
                feeds[feed], wrong = _side_by_side(found)
                problems += wrong
        return feeds, len(next(iter(feeds.values()))), problems

    def unusual(self, feeds: Mapping[str, np.ndarray]) -> dict[str, int]:
        """How many records have a number far outside the fit, or a word that it did not have, by column."""
        counts = {}
        for i, c in enumerate(c for c in self.columns if c.kind == "number"):
            counts[c.name] = _far(feeds["numbers"][:, i : i + 1], (c.low, c.high))
        for i, c in enumerate(c for c in self.columns if c.kind == "category"):
            counts[c.name] = int((feeds["texts"][:, i] == OTHER_TEXT).sum())
        return {name: counts[name] for name in self.names if counts[name]}

    def made_up(self, n: int, rng: np.random.Generator, odd: bool = True) -> dict[str, np.ndarray]:
        """Records that are nobody's, as columns: see `Column.made_up`."""
        return {c.name: c.made_up(n, rng, odd) for c in self.columns}


def schema_of(declared: Mapping[str, Any]) -> ArraySchema | TableSchema:
    """The schema that a manifest declares."""
    if declared["kind"] == "table":
        return TableSchema([Column.from_dict(c) for c in declared["columns"]])
    return ArraySchema(declared["shape"], declared.get("ranges"))


def as_times(numbers: np.ndarray, type: str) -> np.ndarray:
    """Days or seconds as numpy's times; NaN is no time."""
    unit, here = TIMES[type], ~np.isnan(numbers)
    ticks = np.where(here, numbers, 0) * (1e9 if unit == "s" else 1)
    dtype = f"{'m' if type == 'duration' else 'M'}8[{'ns' if unit == 's' else unit}]"
    found = np.rint(ticks).astype(np.int64).astype(dtype)
    return np.where(here, found, found.dtype.type("NaT"))


def columns_of(X: Any) -> dict[str, Any] | None:
    """Name to values; None of an array. Arrow tables have `column_names`, DataFrames `columns`."""
    if isinstance(X, list) and X and all(isinstance(record, Mapping) for record in X):
        odd = next((i for i, record in enumerate(X) if record.keys() != X[0].keys()), None)
        if odd is not None:
            raise InputError(f"record {odd} has other fields than record 0; give every record all of them")
        return {str(name): [record[name] for record in X] for name in X[0]}
    if isinstance(X, Mapping):
        columns = {str(k): v for k, v in X.items()}
        lengths = {k: len(v) if hasattr(v, "__len__") and not isinstance(v, str) else -1 for k, v in columns.items()}
        if len(set(lengths.values())) != 1 or -1 in lengths.values():
            found = ", ".join(f"{k}: {lengths[k] if lengths[k] >= 0 else type(v).__name__}" for k, v in columns.items())
            raise InputError(f"a dict of columns needs lists or arrays of one length; found {found}")
        return columns
    if hasattr(X, "column_names"):
        return {str(name): X.column(i) for i, name in enumerate(X.column_names)}
    if type(X).__module__.startswith("polars"):
        return {
            str(name): X[name].to_numpy() if X[name].dtype.is_numeric() else X[name].to_list() for name in X.columns
        }
    if hasattr(X, "columns"):
        return {str(name): X.iloc[:, i] for i, name in enumerate(X.columns)}
    return None


def _side_by_side(read: Sequence[tuple[np.ndarray, list[Problem]]]) -> tuple[np.ndarray, list[Problem]]:
    """Columns as a table, and all their problems."""
    arrays = [array for array, _ in read]
    out = np.empty((len(arrays[0]), len(arrays)), dtype=arrays[0].dtype)
    for at in range(0, len(out), BLOCK):
        for i, array in enumerate(arrays):
            out[at : at + BLOCK, i] = array[at : at + BLOCK]
    return out, [problem for _, problems in read for problem in problems]


def _far(values: np.ndarray, ends: Sequence[float]) -> int:
    low, high = ends
    reach = FAR * max(high - low, 1e-9 * (1 + abs(high)))
    with np.errstate(invalid="ignore"):  # a gap is not far
        return int(((values < low - reach) | (values > high + reach)).any(axis=1).sum())
