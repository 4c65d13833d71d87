"""A release as its receiver has it: everything that can be told apart is a column, with all bits and all letters.

Tables say more than their values: 0.0 or -0.0, True or 1, None or NaN, an index, a mask, which zeros of a sparse matrix
are stored, how a number is spelled in a file. Each such difference becomes a column of its own here, so that attackers
read it and certificates count it. A release of ours has none of them (`tacit.filters.base.as_it_leaves`).

Encoders standardize numbers and one-hot words, and so hide bits, digits, endings and the sign of zero. Attackers that
read these are given `Columns` instead of a matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from tacit.errors import InputError
from tacit.labels import in_pandas

Source = tuple[str, int]  # what is read as a number, and in which column: ("number", 3), ("digits", 0)

FEW_WORDS = 40  # a column of so few words is one-hot encoded, and ordinary attackers read it
# a cell with its quotes, then what ends it
_CELL = r'((?:[^"{0}\r\n]|"(?:[^"]|"")*")*)(\r\n|\n|\r|[{0}]|$)'


def received_pair(Za: Any, Zt: Any) -> tuple[Any, Any]:
    """The releases of both parts as their receiver has them, with the same columns."""
    a, t = received(Za), received(Zt)
    if not (isinstance(a, pd.DataFrame) or isinstance(t, pd.DataFrame)):
        return a, t
    frames = [plain_frame(Z) for Z in (a, t)]
    names = [*frames[0].columns, *(c for c in frames[1].columns if c not in frames[0].columns)]
    kinds = {c: (frames[0] if c in frames[0] else frames[1])[c] for c in names}
    # what one part never says, it says nowhere
    blank = {c: 0.0 if pd.api.types.is_numeric_dtype(kinds[c]) else "" for c in names}
    return tuple(f.assign(**{c: blank[c] for c in names if c not in f})[names] for f in frames)  # type: ignore[return-value]


def received(Z: Any) -> Any:
    """A release as an array of numbers, where it is no more; else as a table of all that can be told apart."""
    Z = in_pandas(Z)
    if sparse.issparse(Z):
        return _with_columns(plain_frame(Z), _stored(Z))
    if isinstance(Z, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(Z).reshape(len(Z), -1)
        return _with_columns(plain_frame(Z.data), {f"z{i} (mask)": mask[:, i] for i in _varied(mask)})
    if isinstance(Z, pd.DataFrame):
        return _table(Z)
    if isinstance(Z, pd.Series):
        return _table(Z.to_frame())
    array = np.asarray(Z)
    if array.dtype.kind in "OUS":
        return _table(plain_frame(array))
    if array.ndim <= 2 and array.dtype.kind == "f":
        return _with_columns(array, _negative_zeros(plain_frame(array)))
    return array


def receiver_cells(Za: Any, Zt: Any) -> np.ndarray:
    """(n, columns) a number for every value of every column, over both parts: equal where no receiver can tell.

    Numbers count by their bits.
    """
    a, t = (plain_frame(Z) for Z in (Za, Zt))
    columns = []
    for i in range(a.shape[1]):
        values = [_codes_of(f.iloc[:, i]) for f in (a, t)]
        if values[0].dtype != values[1].dtype:
            values = [v.astype(object) for v in values]
        columns.append(pd.factorize(np.concatenate(values))[0])
    return np.column_stack(columns).astype(np.int64)


def plain_frame(Z: Any) -> pd.DataFrame:
    """A release, or records, as a table: one row a record."""
    if isinstance(Z, pd.DataFrame):
        return Z.reset_index(drop=True)
    array = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z)
    flat = array.reshape(len(array), -1)
    return pd.DataFrame(flat, columns=[f"z{i}" for i in range(flat.shape[1])])


def plain(Z: Any, what: str = "the release", remedy: str = "repair the filter") -> Any:
    """The same as what an encoder takes: a table, or an array of finite numbers."""
    if isinstance(Z, pd.DataFrame):
        named = Z.reset_index(drop=True).set_axis([str(c) for c in Z.columns], axis=1)
        times = named.select_dtypes(["datetime", "datetimetz", "timedelta"])
        return named.assign(**{str(c): _days(times[c]) for c in times}) if times.shape[1] else named
    array = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z)
    if array.dtype.kind in "OUS":
        return plain_frame(array)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"{what} has NaN or infinity in row {int(np.argwhere(~np.isfinite(array))[0][0])}; {remedy}")
    return array[:, None] if array.ndim == 1 else array


def _days(times: pd.Series) -> pd.Series:
    """Dates and durations as numbers, which is how an attacker reads them."""
    since: Any = times if pd.api.types.is_timedelta64_dtype(times) else times - pd.Timestamp(0, tz=times.dt.tz)
    return since / pd.Timedelta(days=1)


def read_cells(path: Path, table: pd.DataFrame, separator: str = ",") -> pd.DataFrame:
    """A CSV file's table with what its cells say beside their values: other spellings of one value, ends of lines.

    Columns whose values are each spelled in one way are left as they are.
    """
    text = path.read_bytes().decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    rows = list(_raw_rows(text, separator))[1:]
    if len(rows) != len(table) or any(len(cells) != table.shape[1] for cells, _ in rows):
        raise InputError(
            f"{path.name}: its cells cannot be told apart line by line ({len(rows):,} lines for {len(table):,} rows); "
            f"write it with one line a row and as many cells as the header names"
        )
    more: dict[str, Any] = {}
    for i, name in enumerate(table.columns):
        cells = pd.Series([cells[i] for cells, _ in rows])
        values = table.iloc[:, i]
        value = values.astype(object).where(values.notna(), "\0missing").astype(str)
        if (cells.groupby(value).nunique() > 1).any():
            more[f"{name} (spelling)"] = cells
    ends = pd.Series([end for _, end in rows])
    if ends.replace("", "\n").nunique() > 1:  # the last line may have no end
        more["(end of line)"] = ends.map(repr)
    return table.assign(**more)


def _raw_rows(text: str, separator: str) -> Iterator[tuple[list[str], str]]:
    """Lines as lists of cells, quotes and blanks as they stand, and what ends the line."""
    cells: list[str] = []
    for match in re.compile(_CELL.format(re.escape(separator))).finditer(text):
        cell, end = match.groups()
        cells.append(cell)
        if end == separator:
            continue
        if cells != [""]:
            yield cells, end
        cells = []
        if match.end() == len(text):
            return


def _table(Z: pd.DataFrame) -> pd.DataFrame:
    """A table with its index, kinds of values and signs of zero as columns, where they say anything."""
    more: dict[str, Any] = {}
    plain = Z.reset_index(drop=True).set_axis([str(c) for c in Z.columns], axis=1)
    if not (isinstance(Z.index, pd.RangeIndex) and Z.index.start == 0 and Z.index.step == 1):
        for i in range(Z.index.nlevels):
            more[f"index {i}"] = Z.index.get_level_values(i).to_numpy()
    for i, name in enumerate(plain.columns):
        values = plain.iloc[:, i]
        if values.dtype == object:
            kinds, gaps = values.map(lambda v: type(v).__name__), values.isna()
            if kinds[~gaps].nunique() > 1 or kinds[gaps].nunique() > 1:
                more[f"{name} (kind)"] = kinds
                plain = plain.assign(**{name: _as_text(values)})
    return _with_columns(plain, more | _negative_zeros(plain))


def _with_columns(Z: Any, more: dict[str, Any]) -> Any:
    if not more:
        return Z
    return pd.concat([plain_frame(Z), pd.DataFrame({k: np.asarray(v) for k, v in more.items()})], axis=1)


def _negative_zeros(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Columns in which some zeros are negative: which ones are."""
    found = {}
    for name in table.columns:
        if pd.api.types.is_float_dtype(table[name]):
            numbers = table[name].to_numpy(dtype=np.float64, na_value=np.nan)
            negative = (numbers == 0) & np.signbit(numbers)
            if negative.any():
                found[f"{name} (-0)"] = negative.astype(float)
    return found


def _stored(Z: Any) -> dict[str, np.ndarray]:
    """Which entries of a sparse matrix are stored although they are zero."""
    coordinates = Z.tocoo()
    zeros = coordinates.data == 0
    stored = np.zeros(Z.shape, dtype=bool)
    stored[coordinates.row[zeros], coordinates.col[zeros]] = True
    return {f"z{i} (stored zero)": stored[:, i] for i in _varied(stored)}


def _varied(mask: np.ndarray) -> np.ndarray:
    return np.flatnonzero(mask.any(axis=0))


def _as_text(values: pd.Series) -> pd.Series:
    return values.astype(object).where(values.notna(), None).map(lambda v: None if v is None else str(v))


def _codes_of(values: pd.Series) -> np.ndarray:
    """What tells values of one column apart: the bits of numbers, kind and spelling of everything else."""
    kind = values.dtype
    if isinstance(kind, np.dtype) and kind.kind == "f":
        return np.ascontiguousarray(values.to_numpy()).view(f"i{kind.itemsize}")
    if isinstance(kind, np.dtype) and kind.kind in "iub":
        return values.to_numpy()
    if pd.api.types.is_float_dtype(kind):  # pandas' own kind of numbers, with gaps
        bits = values.to_numpy(dtype=np.float64, na_value=0.0).view(np.int64).astype(object)
        return np.where(values.isna().to_numpy(), "missing", bits)
    return np.array([f"{type(v).__name__} {v!r}" for v in values.astype(object)], dtype=object)


class Columns:
    """Released records: their encoding `X` and, beside it, the columns as they were handed over.

    Examples
    --------
    >>> both = Columns(np.zeros((2, 1)), pd.DataFrame({"code": ["A-17", "B-20"]}))
    >>> both.number(("digits", 0)).tolist()
    [17.0, 20.0]
    """

    def __init__(self, X: np.ndarray, frame: pd.DataFrame) -> None:
        self.X = X
        self._table = frame
        self._rows: np.ndarray | None = None
        self._read_before: dict[Any, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> Columns:
        rows = np.arange(len(self))[rows]
        part = Columns(self.X[rows], self._table)
        part._rows = rows if self._rows is None else self._rows[rows]
        # what was read of all rows is not read again of some
        part._read_before = {key: values[rows] for key, values in self._read_before.items()}
        part._numeric = self._numeric
        return part

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def width(self) -> int:
        """How many columns were handed over."""
        return self._table.shape[1]

    @property
    def gaps(self) -> np.ndarray:
        return self.once("gaps", lambda: self.frame.isna().to_numpy())

    @cached_property
    def frame(self) -> pd.DataFrame:
        return self._table if self._rows is None else self._table.iloc[self._rows]

    @cached_property
    def _numeric(self) -> list[bool]:
        return [bool(pd.api.types.is_numeric_dtype(kind)) for kind in self._table.dtypes]

    def is_number(self, at: int) -> bool:
        return self._numeric[at]

    def once(self, key: Any, read: Callable[[], np.ndarray]) -> np.ndarray:
        """What `read` gives, one value or row a record, remembered under this key."""
        if key not in self._read_before:
            self._read_before[key] = read()
        return self._read_before[key]

    def has_many_words(self, at: int) -> bool:
        """Whether encoders give most words of this column one value."""
        return not self.is_number(at) and len(pd.unique(self.words(at))) > FEW_WORDS

    def sources(self) -> list[Source]:
        """Everything here that can be read as a number, also inside of words."""
        found: list[Source] = []
        for at in range(self.width):
            if self.is_number(at):
                found.append(("number", at))
            elif self.has_many_words(at):
                for source in (("length", at), ("digits", at)):
                    values = self.number(source)
                    if np.isfinite(values).mean() > 0.5 and np.nanmin(values) < np.nanmax(values):
                        found.append(source)
        return found

    def number(self, source: Source) -> np.ndarray:
        return self.once(source, lambda: self._read(*source))

    def words(self, at: int) -> np.ndarray:
        """A column as text; a gap is the empty word."""

        def read() -> np.ndarray:
            column = self.frame.iloc[:, at].astype(object)
            return np.where(column.isna(), "", column.astype(str).to_numpy(dtype=object))

        return self.once(("words", at), read)

    def _read(self, kind: str, at: int) -> np.ndarray:
        if kind == "number":
            column = self.frame.iloc[:, at]
            column = column if self._numeric[at] else pd.to_numeric(column, errors="coerce")
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        if kind == "length":
            return np.array([len(w) for w in self.words(at)], dtype=np.float64)
        digits = ["".join(re.findall(r"[0-9]", w))[:15] for w in self.words(at)]
        return np.array([float(d) if d else np.nan for d in digits])


def as_columns(X: Any) -> Columns:
    """Columns of a bare matrix, for an attacker that is used without a suite."""
    return X if isinstance(X, Columns) else Columns(np.asarray(X), pd.DataFrame(np.asarray(X)))
