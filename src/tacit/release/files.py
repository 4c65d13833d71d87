"""The file formats of bulk work, each read and written part by part."""

from __future__ import annotations

import csv
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tacit.errors import InputError
from tacit.release.columns import Columns
from tacit.release.runtime import Release

FORMATS = ".csv, .parquet, .arrow, .npz"
CSV_BLOCK = 2**22  # bytes
# what pandas, with which tables are fitted, takes for a gap
GAPS = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null"]  # fmt: skip
TRUTH = {"true": "1", "false": "0"}
NUMBER = {"kind": "number", "type": "float"}
Writer = Callable[[Iterator[pa.RecordBatch], int], None]


class Reader:
    """Parts of a file in order: the same parts in every run. `rows` is the number of records, where it is known."""

    def __init__(self, parts: Iterator[Any], rows: int | None) -> None:
        self.parts, self.rows = parts, rows

    def __iter__(self) -> Iterator[Any]:
        return self.parts


def open_reader(path: Path, declared: Mapping[str, Any], rows: int) -> Reader:
    """Read the columns that a bundle takes."""
    if path.suffix == ".npz":
        return _npz(path, rows)
    names = [c["name"] for c in declared["columns"]] if declared["kind"] == "table" else None
    if path.suffix == ".csv":
        return Reader(_csv(path, declared, names), None)
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        _need(names, file.schema_arrow.names, path)
        batches = file.iter_batches(batch_size=rows, columns=names)
        return Reader((Columns(b) for b in batches if b.num_rows), file.metadata.num_rows)
    if path.suffix == ".arrow":
        return Reader(_arrow(path, names), None)
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'!r}; the formats are {FORMATS}")


def open_writer(path: Path, release: Release) -> Writer:
    """A function that writes all parts: the whole file or none."""
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".arrow": _write_arrow, ".npz": _write_npz}
    if path.suffix not in writers:
        raise InputError(
            f"{path.name}: cannot write {path.suffix or 'a file without suffix'!r}; the formats are {FORMATS}"
        )
    shape = tuple(release.manifest["output"]["shape"])
    if path.suffix == ".npz" and release.manifest["output"]["table"] is not None:
        raise InputError(f"{path.name}: this bundle releases text, which .npz does not hold; write .parquet or .csv")

    def write(parts: Iterator[pa.RecordBatch], n: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        first = next(parts, None)
        if first is None:
            raise InputError("the input has no rows, so there is nothing to release")
        with open(partial, "wb") as file:
            writers[path.suffix](file, _chain(first, parts), first.schema, (n, *shape))
        os.replace(partial, path)

    return write


def _need(names: list[str] | None, found: list[str], path: Path) -> None:
    absent = [n for n in names or [] if n not in found]
    if absent:
        raise InputError(f"{path.name} has no column {absent[0]!r}; the bundle takes {', '.join(names or [])}")


def _csv(path: Path, declared: Mapping[str, Any], names: list[str] | None) -> Iterator[Columns]:
    """Cells are read as text, so that one bad cell is one bad row and not a file that cannot be read."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        header = {name.lstrip(" "): name for name in next(csv.reader(file), [])}
    names = names or list(header)
    _need(names, list(header), path)
    kinds = {c["name"]: c for c in declared["columns"]} if declared["kind"] == "table" else {}
    taken = [header[n] for n in names]
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(taken, pa.string()), include_columns=taken)
    try:
        reader = pyarrow.csv.open_csv(path, pyarrow.csv.ReadOptions(block_size=CSV_BLOCK), convert_options=options)
        for batch in reader:
            if batch.num_rows:
                columns = [_typed(c, kinds.get(n, NUMBER)) for n, c in zip(names, batch.columns, strict=True)]
                yield Columns(pa.record_batch(columns, names=names))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path.name} cannot be read as CSV: {error}") from None


def _typed(text: pa.Array, kind: Mapping[str, Any]) -> pa.Array:
    """A column of cells as the schema has it; spaces after a comma do not count, as in `tacit.read_table`."""
    text = pc.utf8_ltrim(text, " ")
    text = pc.if_else(pc.is_in(text, value_set=pa.array(GAPS)), pa.scalar(None, pa.string()), text)
    if kind["kind"] == "category":
        return text
    if kind["type"] == "boolean":
        text = pa.array([None if v is None else TRUTH.get(v.lower(), v) for v in text.to_pylist()], type=pa.string())
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return text  # the schema finds the cell and names it


def _arrow(path: Path, names: list[str] | None) -> Iterator[Columns]:
    with pa.memory_map(str(path)) as source:
        try:
            file = pa.ipc.open_file(source)
            batches: Any = (file.get_batch(i) for i in range(file.num_record_batches))
            schema = file.schema
        except pa.ArrowInvalid:
            source.seek(0)
            batches = pa.ipc.open_stream(source)
            schema = batches.schema
        _need(names, schema.names, path)
        for batch in batches:
            if batch.num_rows:
                yield Columns(batch.select(names) if names else batch)


def _npz(path: Path, rows: int) -> Reader:
    """Rows of the array X of an npz, read as they come: the file may be larger than memory."""
    with zipfile.ZipFile(path) as archive:
        found = [n for n in archive.namelist() if n.endswith(".npy")]
        member = "X.npy" if "X.npy" in found else found[0] if len(found) == 1 else None
        if member is None:
            raise InputError(f"{path.name} has the arrays {', '.join(n[:-4] for n in found)}; call the records X")
        with archive.open(member) as file:
            shape, dtype = _header(file, path)
            start = file.tell()
        info = archive.getinfo(member)
    size = math.prod(shape[1:]) * dtype.itemsize

    def mapped() -> Iterator[np.ndarray]:
        """Not compressed: the array lies in the file as it is."""
        with open(path, "rb") as file:
            file.seek(info.header_offset + 26)
            lengths = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
        first = info.header_offset + 30 + lengths + start
        if first + shape[0] * size > path.stat().st_size:
            raise InputError(f"{path.name} is cut off")
        X = np.memmap(path, dtype, "r", first, shape)
        for at in range(0, shape[0], rows):
            yield X[at : at + rows]

    def unpacked() -> Iterator[np.ndarray]:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            _header(file, path)
            for at in range(0, shape[0], rows):
                n = min(rows, shape[0] - at)
                data = file.read(n * size)
                if len(data) != n * size:
                    raise InputError(f"{path.name} is cut off at row {at + len(data) // size}")
                yield np.frombuffer(data, dtype=dtype).reshape(n, *shape[1:])

    return Reader(mapped() if info.compress_type == zipfile.ZIP_STORED else unpacked(), shape[0])


def _header(file: Any, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if fortran or dtype.hasobject or not shape:
        raise InputError(f"{path.name}: X must be a C-ordered array of numbers; save np.ascontiguousarray(X)")
    return shape, dtype


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _write_csv(file: Any, parts: Iterator[pa.RecordBatch], schema: pa.Schema, shape: tuple[int, ...]) -> None:
    with pyarrow.csv.CSVWriter(file, schema) as writer:
        for part in parts:
            writer.write_batch(part)


def _write_parquet(file: Any, parts: Iterator[pa.RecordBatch], schema: pa.Schema, shape: tuple[int, ...]) -> None:
    with pq.ParquetWriter(file, schema) as writer:
        for part in parts:
            writer.write_batch(part)  # one row group each


def _write_arrow(file: Any, parts: Iterator[pa.RecordBatch], schema: pa.Schema, shape: tuple[int, ...]) -> None:
    with pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            writer.write_batch(part)


def _write_npz(file: Any, parts: Iterator[pa.RecordBatch], schema: pa.Schema, shape: tuple[int, ...]) -> None:
    # no time stamp in the archive: the same release gives the same bytes
    info = zipfile.ZipInfo("release.npy")
    with zipfile.ZipFile(file, "w") as archive, archive.open(info, "w", force_zip64=True) as member:
        about = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, about)
        for part in parts:
            member.write(np.column_stack([c.to_numpy() for c in part.columns]).astype("<f8").tobytes())
