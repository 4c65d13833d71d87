"""Columns of cells as Python's lists, under Arrow's names: what a CSV file needs where Arrow is not installed.

Only what Tacit calls is here, and it does what Arrow does (`tests/test_without_arrow.py` compares the two).
"""

from __future__ import annotations

import bz2
import datetime
import gzip
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit.errors import NotInstalled
from tacit.records.cells import is_gap

_EPOCH, _TICK = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)


class ArrowInvalid(ValueError):
    """A value that does not fit its type."""


class ArrowTypeError(TypeError):
    """A value of another type."""


class DataType(NamedTuple):
    name: str

    def __str__(self) -> str:
        return self.name


def string() -> DataType:
    return DataType("string")


def float64() -> DataType:
    return DataType("double")


def int64() -> DataType:
    return DataType("int64")


def bool_() -> DataType:
    return DataType("bool")


def date32() -> DataType:
    return DataType("date32[day]")


def timestamp(unit: str) -> DataType:
    return DataType(f"timestamp[{unit}]")


def duration(unit: str) -> DataType:
    return DataType(f"duration[{unit}]")


class types:
    """What a type is, by its name."""

    is_string = staticmethod(lambda t: t.name == "string")
    is_large_string = staticmethod(lambda t: False)
    is_floating = staticmethod(lambda t: t.name == "double")
    is_integer = staticmethod(lambda t: t.name == "int64")
    is_date = staticmethod(lambda t: t.name.startswith("date"))
    is_timestamp = staticmethod(lambda t: t.name.startswith("timestamp"))
    is_duration = staticmethod(lambda t: t.name.startswith("duration"))


class Scalar(NamedTuple):
    value: Any

    def as_py(self) -> Any:
        return self.value


class Array:
    """Cells of one type; None is a gap."""

    def __init__(self, values: list[Any], type: DataType) -> None:
        self.values, self.type = values, type

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> Scalar:
        return Scalar(self.values[i])

    def __iter__(self) -> Iterator[Scalar]:
        return map(Scalar, self.values)

    @property
    def null_count(self) -> int:
        return sum(v is None for v in self.values)

    def is_null(self) -> Array:
        return Array([v is None for v in self.values], bool_())

    def drop_null(self) -> Array:
        return Array([v for v in self.values if v is not None], self.type)

    def to_pylist(self) -> list[Any]:
        return list(self.values)

    def to_numpy(self, zero_copy_only: bool = True) -> np.ndarray:
        if self.type.name in ("double", "int64") and (self.type.name == "double" or self.null_count):
            return np.array([np.nan if v is None else v for v in self.values], dtype=np.float64)
        plain: dict[str, Any] = {"int64": np.int64, "bool": object if self.null_count else bool, "date32[day]": "M8[D]",
                 "timestamp[us]": "M8[us]", "duration[us]": "m8[us]"}  # fmt: skip
        return np.array(self.values, dtype=plain.get(self.type.name, object))

    def dictionary_encode(self) -> Dictionary:
        codes: dict[Any, int] = {}
        at = [codes.setdefault(v, len(codes)) for v in self.values]
        return Dictionary(Array(list(codes), self.type), Array(at, int64()))

    def take(self, at: Sequence[int]) -> Array:
        return Array([self.values[i] for i in at], self.type)

    def slice(self, first: int, n: int | None = None) -> Array:
        return Array(self.values[first : None if n is None else first + n], self.type)

    def cast(self, kind: DataType) -> Array:
        return array(self.values, kind) if self.type != kind else self


class ChunkedArray(Array):
    """Arrow's column of several pieces; none is made here."""


class Dictionary(NamedTuple):
    dictionary: Array
    indices: Array


class Field(NamedTuple):
    name: str
    type: DataType


class Schema(tuple[Field, ...]):
    """Fields in order."""

    @property
    def names(self) -> list[str]:
        return [field.name for field in self]


class RecordBatch:
    """Columns of one length."""

    def __init__(self, columns: Sequence[Array], names: Sequence[str]) -> None:
        self.columns, self.column_names = list(columns), list(names)
        self.schema = Schema(Field(n, c.type) for n, c in zip(names, columns, strict=True))
        self.num_rows = len(self.columns[0]) if self.columns else 0

    def __len__(self) -> int:
        return self.num_rows

    def column(self, which: int | str) -> Array:
        return self.columns[self.column_names.index(which) if isinstance(which, str) else which]

    def rename_columns(self, names: Sequence[str]) -> RecordBatch:
        return RecordBatch(self.columns, names)

    def drop_columns(self, names: Sequence[str]) -> RecordBatch:
        kept = [n for n in self.column_names if n not in names]
        return RecordBatch([self.column(n) for n in kept], kept)

    def set_column(self, i: int, field: Field, column: Array) -> RecordBatch:
        return RecordBatch([*self.columns[:i], column, *self.columns[i + 1 :]], self.column_names)

    def slice(self, first: int, n: int | None = None) -> RecordBatch:
        return RecordBatch([c.slice(first, n) for c in self.columns], self.column_names)

    def take(self, at: Array) -> RecordBatch:
        return RecordBatch([c.take(at.values) for c in self.columns], self.column_names)

    def filter(self, good: np.ndarray) -> RecordBatch:
        return self.take(Array(np.flatnonzero(good).tolist(), int64()))


def array(values: Any, type: DataType | None = None, from_pandas: bool = False) -> Array:
    """Values as a column; without a type, of that of its first known value."""
    from_pandas = from_pandas or (isinstance(values, np.ndarray) and values.dtype.kind == "M")
    plain = [None if v is None or ((from_pandas or not isinstance(v, float)) and is_gap(v)) else _python(v)
             for v in (values.tolist() if isinstance(values, np.ndarray) else values)]  # fmt: skip
    if type is None:
        type = _type_of(plain)
    return Array([None if v is None else _FITS[type.name](v) for v in plain], type)


def scalar(value: Any, type: DataType) -> Scalar:
    return Scalar(value)


def chunked_array(parts: Sequence[Array], type: DataType | None = None) -> Array:
    found = type or parts[0].type
    return Array(list(itertools.chain.from_iterable(part.values for part in parts)), found)


def record_batch(columns: Any, names: Sequence[str] | None = None) -> RecordBatch:
    if isinstance(columns, Mapping):
        return record_batch(list(columns.values()), list(columns))
    return RecordBatch([c if isinstance(c, Array) else array(c) for c in columns], names or [])


def concat_batches(parts: Sequence[RecordBatch]) -> RecordBatch:
    joined = [chunked_array(columns) for columns in zip(*(part.columns for part in parts), strict=True)]
    return RecordBatch(joined, parts[0].column_names)


def input_stream(path: str, compression: str = "detect") -> Any:
    """The bytes of a file, unpacked by what its name says."""
    if path.endswith((".zst", ".lz4", ".br")):
        raise NotInstalled(f"a file compressed as {path.rpartition('.')[2]}", "pyarrow")
    packed: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open}
    return packed.get(path.rpartition(".")[2], open)(path, "rb")


def to_plain(batch: RecordBatch) -> dict[str, Any]:
    """A batch as JSON has it; times are whole microseconds."""
    told = [[_ticks(v) for v in c.values] for c in batch.columns]
    return {"names": batch.column_names, "types": [f.type.name for f in batch.schema], "columns": told}


def from_plain(told: Mapping[str, Any]) -> RecordBatch:
    """The batch that `to_plain` told."""
    kinds = [DataType(name) for name in told["types"]]
    columns = [Array([_from_ticks(v, kind.name) for v in c], kind) for c, kind in
               zip(told["columns"], kinds, strict=True)]  # fmt: skip
    return RecordBatch(columns, told["names"])


def _ticks(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return value // _TICK
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _TICK
    return value.toordinal() if isinstance(value, datetime.date) else value


def _from_ticks(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("date"):
        return datetime.date.fromordinal(value)
    if kind.startswith("timestamp"):
        return _EPOCH + value * _TICK
    return value * _TICK if kind.startswith("duration") else value


def _python(value: Any) -> Any:
    """A value of numpy or pandas as Python's."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value.astype(f"{value.dtype.kind}8[us]").item()
    for turn in ("to_pydatetime", "to_pytimedelta", "item"):
        if hasattr(value, turn):
            return getattr(value, turn)()
    return value


def _type_of(values: Sequence[Any]) -> DataType:
    known = [v for v in values if v is not None]
    for kinds, found in (((str,), string()), ((bool,), bool_()), ((int,), int64()), ((int, float), float64()),
                         ((datetime.datetime,), timestamp("us")), ((datetime.date,), date32()),
                         ((datetime.timedelta,), duration("us"))):  # fmt: skip
        if all(isinstance(v, kinds) for v in known):
            return found
    raise ArrowInvalid("values of several types")


def _only(*kinds: type) -> Any:
    def fit(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ArrowTypeError(f"a {type(value).__name__}")
        return value

    return fit


def _whole(value: Any) -> int:
    if isinstance(value, bool | str) or int(value) != value or not -(2**63) <= value < 2**63:
        raise ArrowInvalid("no whole number")
    return int(value)


def _time(value: Any) -> datetime.datetime:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(_only(datetime.date)(value), datetime.time())
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _span(value: Any) -> datetime.timedelta:
    return value * _TICK if isinstance(value, int) else _only(datetime.timedelta)(value)


_FITS = {
    "string": _only(str), "double": lambda v: float(_only(int, float)(v)), "int64": _whole, "bool": _only(bool),
    "date32[day]": lambda v: _time(v).date(), "timestamp[us]": _time, "duration[us]": _span,
}  # fmt: skip
