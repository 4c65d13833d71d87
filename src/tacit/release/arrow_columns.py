"""Releases as Arrow columns, and a bundle as a function for data engines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.errors import InputError, InputTypeError, TacitWarning
from tacit.noise.keyed import new_key
from tacit.records.cells import is_gap
from tacit.release.bundle import Bundle
from tacit.release.runtime import NO_KEY, Release, load


def arrow_udf(
    bundle: str | Path | Release,
    trusted_key: Any = None,
    *,
    noise_key: bytes | str | Path | None = None,
    unit: str | None = None,
) -> ArrowFunction:
    """A bundle as a function that engines can map over their data: what goes in says what comes out.

    A record batch gives a record batch, a table a table, a DataFrame a DataFrame (with its index), a reader a reader,
    an iterator of record batches an iterator, columns a column of structs. See docs/engines.md for DuckDB, Dask, Ray
    and Spark. The function can be pickled: it carries the bundle to other machines, and the noise key with it.

    With noise, name the column of the data that says whose record a row is (`unit`): engines cut data into batches as
    they like, and without it equal records of different batches share their noise.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release = tacit.release.arrow_udf(tacit.save(f, f"{folder}/plane.tacit"))
    >>> release(pa.record_batch({"a": [0.5, 1.0], "b": [1.0, 2.0]})).num_rows
    2
    """
    found = bundle if isinstance(bundle, Release) else load(bundle, trusted_key, noise_key=noise_key)
    if found.manifest["noise"] is not None and found.noise_key is None:
        # every worker would draw a key of its own, and records that two of them see could be averaged
        warnings.warn(NO_KEY, TacitWarning, stacklevel=2)
        found = found.with_key(new_key())
    return ArrowFunction(found, unit)


class ArrowFunction:
    """See `arrow_udf`. `schema` is that of the release."""

    def __init__(self, release: Release, unit: str | None = None) -> None:
        self.release, self.unit = release, unit
        self.__name__ = "release"  # by which engines call a step of a plan
        shape = release.manifest["output"]["shape"]
        output = release.manifest["output"]
        self.schema = as_columns(
            release, np.empty((0, *(shape if output["table"] is None else [len(output["names"])])))
        ).schema

    def __call__(self, *data: Any) -> Any:
        first = data[0] if data else None
        if isinstance(first, pa.Array | pa.ChunkedArray):
            return self._structs(data)
        if len(data) != 1:
            raise InputTypeError(f"pass one batch, table, reader or DataFrame, or Arrow columns; found {len(data)}")
        if isinstance(first, pa.RecordBatch):
            return self._batch(first)
        if isinstance(first, pa.Table):
            return pa.Table.from_batches([self._batch(b) for b in first.to_batches()], self.schema)
        if isinstance(first, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(self.schema, map(self._batch, first))
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(first, pandas.DataFrame):
            units = None if self.unit is None else units_of(self.unit, first.columns, lambda: first[self.unit])
            columns = as_columns(self.release, self._matrix(self.release.transform(first, units)))
            return columns.to_pandas().set_axis(first.index, axis=0)
        if isinstance(first, Iterator):
            return map(self._batch, first)
        raise InputTypeError(f"a bundle cannot be mapped over a {type(first).__name__}; pass Arrow data or a DataFrame")

    def __reduce__(self) -> Any:
        return _rebuild, (self.release._bundle, self.release.noise_key, self.unit)

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        part = Columns.of(batch, self.unit)
        return as_columns(self.release, self.release.transform(part, part.units))

    def _matrix(self, out: Any) -> np.ndarray:
        return out.to_numpy(dtype=object) if hasattr(out, "columns") else out

    def _structs(self, columns: tuple[Any, ...]) -> pa.Array:
        """For functions inside SQL: the columns in the bundle's order."""
        declared = self.release.manifest["input"]
        names = [c["name"] for c in declared["columns"]] if declared["kind"] == "table" else None
        width = len(names) if names else int(np.prod(declared["shape"]))
        if len(columns) != width:
            raise InputError(
                f"the bundle takes {width} columns ({', '.join(names or ['numbers'])}); {len(columns)} found"
            )
        flat = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
        out = self._batch(pa.record_batch(flat, names=names or [f"x{i}" for i in range(width)]))
        return pa.StructArray.from_arrays(out.columns, fields=list(self.schema))


def _rebuild(bundle: Bundle, key: bytes | None, unit: str | None) -> ArrowFunction:
    return ArrowFunction(Release(bundle, key), unit)


def units_of(unit: str, names: Any, column: Callable[[], Any]) -> list[Any]:
    """The column that says whose record each is; every record needs one."""
    if unit not in list(names):
        raise InputError(f"there is no column {unit!r} (the unit); the columns are {', '.join(map(str, names))}")
    values = list(column())
    missing = [i for i, v in enumerate(values) if v is None or v != v]
    if missing:
        raise InputError(f"column {unit!r}, row {missing[0]}: missing; every record needs its unit")
    return values


class Columns:
    """A record batch with the two words by which the schema knows an Arrow table, and whose its records are."""

    def __init__(self, batch: pa.RecordBatch, units: list[Any] | None = None) -> None:
        self.batch, self.units = batch, units
        self.column_names = batch.schema.names

    @classmethod
    def of(cls, batch: pa.RecordBatch, unit: str | None) -> Columns:
        """A batch whose unit, where there is one, is a column beside the records."""
        if unit is None:
            return cls(batch)
        units = units_of(unit, batch.schema.names, lambda: batch.column(unit).to_pylist())
        return cls(batch.drop_columns([unit]), units)

    def __len__(self) -> int:
        return self.batch.num_rows

    def renamed(self, names: dict[str, str]) -> Columns:
        """The same with some columns under other names."""
        given = [names.get(n, n) for n in self.column_names]
        return Columns(pa.record_batch(self.batch.columns, names=given), self.units)

    def column(self, i: int) -> Any:
        return self.batch.column(i)


def as_columns(release: Release, out: np.ndarray) -> pa.RecordBatch:
    """What was released, one column for each number; windows and images are laid out flat."""
    names = [str(n) for n in release.get_feature_names_out()]
    if release.manifest["output"]["table"] is None:
        flat = np.ascontiguousarray(out.reshape(len(out), len(names)).T, dtype=np.float64)
        return pa.record_batch([pa.array(column) for column in flat], names=names)
    output = release.manifest["output"]
    if output.get("types") is not None:
        own = iter(output["types"])
        types = [ARROW[output["carried"].get(n) or next(own)] for n in names]
        return pa.record_batch([_column(out[:, i], t) for i, t in enumerate(types)], names=names)
    # the types of the bundle's own table, so that a batch of gaps has the type of the others
    types = [pa.array(values).type for values in output["table"]]
    return pa.record_batch([pa.array(list(out[:, i]), type=t) for i, t in enumerate(types)], names=names)


ARROW = {"text": pa.string(), "float": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(),
         "day": pa.date32(), "time": pa.timestamp("us"), "duration": pa.duration("us")}  # fmt: skip


def _column(cells: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Cells of a released table in Arrow's type; times may come as text of ISO 8601, durations as seconds."""
    known = next((c for c in cells if not is_gap(c)), None)
    if isinstance(known, str) and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return pa.array(cells, type=pa.string(), from_pandas=True).cast(pa.timestamp("us")).cast(kind)
    if isinstance(known, int | float) and pa.types.is_duration(kind):
        return pa.array([None if is_gap(c) else round(1e6 * c) for c in cells], type=pa.int64()).cast(kind)
    try:
        found = pa.array(np.asarray(cells, dtype=object), type=kind, from_pandas=True)  # pandas' gaps are gaps
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers where text, or whole numbers, should be
        turned = str if pa.types.is_string(kind) else int if pa.types.is_integer(kind) else _same
        return pa.array([None if is_gap(c) else turned(c) for c in cells], type=kind)


def _same(cell: Any) -> Any:
    return cell
