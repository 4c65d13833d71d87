"""Releases as Arrow columns, and a bundle as a function for data engines."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.errors import InputError, InputTypeError, TacitWarning
from tacit.noise.keyed import new_key
from tacit.records.cells import is_gap
from tacit.release.bundle import Bundle
from tacit.release.keys import read_key
from tacit.release.runtime import NO_KEY, Release, load

VARIABLE, ENV = "TACIT_NOISE_KEY", "env"


def arrow_udf(
    bundle: str | Path | Release,
    trusted_key: Any = None,
    *,
    name: str | None = None,
    trust: bool = False,
    noise_key: bytes | str | Path | None = None,
    unit: str | None = None,
    keep: str | Sequence[str] = (),
    shuffle: bool = False,
) -> ArrowFunction:
    """A bundle as a function that engines can map over their data: what goes in says what comes out.

    A record batch gives a record batch, a table a table, a DataFrame a DataFrame (with its index), a reader a reader,
    an iterator of record batches an iterator, columns a column of structs. See docs/engines.md for DuckDB, Polars,
    Dask, Ray, Spark and Daft. The function can be pickled: it carries the bundle to other machines, and the noise key
    with it unless that is read there.

    Parameters
    ----------
    bundle, trusted_key, name, trust : as for `tacit.load`; or a loaded bundle
    noise_key : for releases with noise, the owner's secret: bytes or a file; "env" reads the environment variable
        TACIT_NOISE_KEY (hexadecimal text) wherever records are released, and the function does not carry it
    unit : with noise, the column of the data that says whose record a row is: engines cut data into batches as they
        like, and without it equal records of different batches share their noise
    keep : columns that pass through as they are, in front, such as a key; none that the bundle reads
    shuffle : give the rows of each batch in a random order, new at every call; kept columns move with their rows, an
        index of pandas is numbered anew. Batches stay in the engine's order

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
    keep = [keep] if isinstance(keep, str) else keep
    from_env = isinstance(noise_key, str) and noise_key == ENV
    found = bundle
    if not isinstance(found, Release):
        found = load(found, trusted_key, name=name, trust=trust, noise_key=None if from_env else noise_key)
    if from_env and found.manifest["noise"] is not None:
        given = os.environ.get(VARIABLE)
        return ArrowFunction(found, unit, keep, shuffle, b"" if given is None else _key_print(_env_key()))
    if found.manifest["noise"] is not None and found.noise_key is None:
        # every worker would draw a key of its own, and records that two of them see could be averaged
        warnings.warn(NO_KEY, TacitWarning, stacklevel=2)
        found = found.with_key(new_key())
    return ArrowFunction(found, unit, keep, shuffle)


class ArrowFunction:
    """See `arrow_udf`. `schema` is that of the release, without the columns that are kept: see `schema_of`."""

    def __init__(
        self,
        release: Release,
        unit: str | None = None,
        keep: Sequence[str] = (),
        shuffle: bool = False,
        key_print: bytes | None = None,
    ) -> None:
        self._release, self.unit, self.keep, self.shuffle = release, unit, tuple(dict.fromkeys(keep)), shuffle
        self._key_print = key_print  # of the key that is read where records are released, b"" for any; None: not there
        self.__name__ = "release"  # by which engines call a step of a plan
        output = release.manifest["output"]
        width = [len(output["names"])] if output["table"] is not None else output["shape"]
        self.schema = as_columns(release, np.empty((0, *width))).schema
        declared = release.manifest["input"]
        read = [c["name"] for c in declared["columns"]] if declared["kind"] == "table" else []
        for what, names in (("reads", read), ("releases", self.schema.names)):
            if wrong := [k for k in self.keep if k in names]:
                raise InputError(
                    f"keep passes a column through as it is, but {wrong[0]!r} is one that the bundle {what}; keep a "
                    f"key, and rename it where it has the name of a released column"
                )

    @cached_property
    def release(self) -> Release:
        """The bundle, with its key; one that stays with the workers is read at the first record."""
        if self._key_print is None:
            return self._release
        key = _env_key()
        if self._key_print not in (b"", _key_print(key)):
            raise InputError(
                f"the noise key in {VARIABLE} here is another one than where the function was made: one record would "
                f"get two draws of noise, which can be averaged; give every worker the same key"
            )
        return self._release.with_key(key)

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """The schema of what comes out where data of this schema go in: the kept columns, then the release."""
        return pa.schema([*(schema.field(_place(k, schema.names)) for k in self.keep), *self.schema])

    def __call__(self, *data: Any) -> Any:
        first = data[0] if data else None
        if isinstance(first, pa.Array | pa.ChunkedArray):
            return self._structs(data)
        if len(data) != 1:
            raise InputTypeError(f"pass one batch, table, reader or DataFrame, or Arrow columns; found {len(data)}")
        if isinstance(first, pa.RecordBatch):
            return self._batch(first)
        if isinstance(first, pa.Table):
            return pa.Table.from_batches([self._batch(b) for b in first.to_batches()], self.schema_of(first.schema))
        if isinstance(first, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(self.schema_of(first.schema), map(self._batch, first))
        frames = {name: sys.modules.get(name) for name in ("pandas", "polars")}  # who passes one has imported it
        if (pandas := frames["pandas"]) is not None and isinstance(first, pandas.DataFrame):
            return self._pandas(pandas, first)
        if (polars := frames["polars"]) is not None and isinstance(first, polars.DataFrame):
            return polars.from_arrow(self(first.to_arrow()))
        if isinstance(first, Iterator):
            return map(self._batch, first)
        raise InputTypeError(f"a bundle cannot be mapped over a {type(first).__name__}; pass Arrow data or a DataFrame")

    def __reduce__(self) -> Any:
        key = self._release.noise_key if self._key_print is None else None
        return _rebuild, (self._release._bundle, key, self.unit, self.keep, self.shuffle, self._key_print)

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        schema = self.schema_of(batch.schema)
        part = Columns.of(batch, self.unit)
        out = as_columns(self.release, self.release.transform(part, part.units))
        whole = pa.record_batch([*(batch.column(k) for k in self.keep), *out.columns], schema=schema)
        return whole.take(pa.array(self._order(len(whole)))) if self.shuffle else whole

    def _pandas(self, pandas: Any, frame: Any) -> Any:
        kept = frame.iloc[:, [_place(k, list(frame.columns)) for k in self.keep]]
        units = None if self.unit is None else units_of(self.unit, frame.columns, lambda: frame[self.unit])
        out = self.release.transform(frame, units)
        out = out.to_numpy(dtype=object) if hasattr(out, "columns") else out
        columns = as_columns(self.release, out).to_pandas().set_axis(frame.index, axis=0)
        whole = pandas.concat([kept, columns], axis=1) if self.keep else columns
        return whole.iloc[self._order(len(whole))].reset_index(drop=True) if self.shuffle else whole

    @staticmethod
    def _order(n: int) -> np.ndarray:
        return np.random.default_rng(secrets.randbits(128)).permutation(n)

    def _structs(self, columns: tuple[Any, ...]) -> pa.Array:
        """For functions inside SQL: the columns in the bundle's order."""
        if self.keep or self.shuffle:
            raise InputError(
                "a function inside SQL gives one release for each of its rows, in their order: select the kept columns "
                "beside it, order by random(), and make the function without keep and shuffle"
            )
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


def _rebuild(bundle: Bundle, key: bytes | None, *options: Any) -> ArrowFunction:
    return ArrowFunction(Release(bundle, key), *options)


def _env_key() -> bytes:
    """The noise key of this machine."""
    given = os.environ.get(VARIABLE)
    try:
        return read_key(bytes.fromhex((given or "").strip()))
    except ValueError:  # whose text may hold the key: it is not repeated
        found = "is not set" if given is None else "does not hold 16 to 64 bytes as hexadecimal text"
        raise InputError(
            f"the noise key is read from the environment variable {VARIABLE}, which {found} here; set it, on every "
            f"worker, to the content of a file that `tacit release key noise FILE` made"
        ) from None


def _key_print(key: bytes) -> bytes:
    """By which two machines know that they have the same key; it does not tell the key."""
    return hashlib.blake2b(key, digest_size=8, person=b"tacit key print").digest()


def _place(name: str, names: Sequence[Any]) -> int:
    if names.count(name) != 1:
        found = "no column" if name not in names else "more than one column"
        raise InputError(f"there is {found} {name!r} to keep; the columns are {', '.join(map(str, names))}")
    return names.index(name)


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
        turned = str if pa.types.is_string(kind) else int if pa.types.is_integer(kind) else None
        return pa.array([None if is_gap(c) else turned(c) if turned else c for c in cells], type=kind)
