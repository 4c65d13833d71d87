"""The file formats of bulk work, each read and written part by part, whatever the sizes of its own blocks."""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from tacit.errors import InputError, NoColumn, TacitWarning
from tacit.files import parquet_files, replacing_stream
from tacit.records.csv_files import CsvFile
from tacit.records.spelling import declared_column
from tacit.records.table_files import TEXT
from tacit.release.arrow_columns import Columns

FORMULA, PLAIN_NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?[0-9.,]*([eE][+\-]?[0-9]+)?$"
FORMATS = ".csv, .parquet, .arrow, .npz"  # that are written; .tsv, .txt and .feather are read too
BUFFER = 2**18  # bytes of a Parquet column that are read at a time
FILE = "file"  # beside the release of a folder of images: which image
NUMBER = {"kind": "number", "type": "float"}


class Reader:
    """Parts of a file in order: the same parts in every run. `rows` is the number of records, where it is known."""

    def __init__(self, parts: Iterator[Any], rows: int | None) -> None:
        self.parts, self.rows = parts, rows

    def __iter__(self) -> Iterator[Any]:
        return self.parts


def open_reader(
    path: Path,
    manifest: Mapping[str, Any],
    rows: int,
    unit: str | None = None,
    called: Mapping[str, str] | None = None,
) -> Reader:
    """Read the columns that a bundle takes, and the one that says whose each record is.

    `called` says of columns that have another name in the file which one.
    """
    if called:
        columns = [{**c, "name": called.get(c["name"], c["name"])} for c in manifest["input"].get("columns", [])]
        renamed = {**manifest, "input": {**manifest["input"], "columns": columns}}
        found = open_reader(path, renamed, rows, unit)
        back = {theirs: ours for ours, theirs in called.items()}
        return Reader((part.renamed(back) for part in found), found.rows)
    declared = manifest["input"]
    if path.suffix == ".npz":
        if unit is not None:
            raise InputError(f"{path.name}: an npz has no column {unit!r}; name units in .csv, .parquet or .arrow")
        return _npz(path, rows)
    names = [c["name"] for c in declared["columns"]] if declared["kind"] == "table" else None
    names = None if names is None else [*names, *manifest["output"].get("carried", ())]
    if names is not None and unit in names:
        raise InputError(f"column {unit!r} is an input of the bundle; a unit is a column beside the inputs")
    if any(s.lower() in TEXT for s in path.suffixes[-2:]):
        return Reader(_csv(path, manifest, names, unit), None)
    if path.suffix == ".parquet" or path.is_dir():
        words = {c["name"] for c in declared.get("columns", ()) if c["kind"] == "category"}
        files = [
            _parquet(p, names, rows, unit, words) for p in parquet_files(path) or [path]
        ]  # all are checked at once
        return Reader(itertools.chain.from_iterable(files), sum(f.rows or 0 for f in files))
    if path.suffix in (".arrow", ".feather", ".ipc"):
        return Reader(_arrow(path, names, rows, unit), None)
    raise InputError(f"{path.name}: cannot read {path.suffix or 'a file without suffix'!r}; the formats are {FORMATS}")


def check_writable(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse, before the work, a file that cannot be written."""
    if path.suffix not in WRITERS:
        raise InputError(
            f"{path.name}: cannot write {path.suffix or 'a file without suffix'!r}; the formats are {FORMATS}"
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    if path.suffix == ".npz" and manifest["output"]["table"] is not None:
        raise InputError(f"{path.name}: this bundle releases text, which .npz does not hold; write .parquet or .csv")


def write_parts(
    path: Path, parts: Iterable[pa.RecordBatch], quote_formulas: bool = False, shape: Sequence[int] = ()
) -> None:
    """Write a file of columns, whole or not at all. `shape` is that of a record of an npz."""
    parts = iter(parts)
    first = next(parts, None)
    if first is None:
        raise InputError("the input has no rows, so there is nothing to release")
    parts = itertools.chain([first], parts)
    if path.suffix == ".csv":
        parts = _without_formulas(parts, path.name, quote_formulas)
    with replacing_stream(path) as file:
        if path.suffix == ".npz":
            _write_npz(file, parts, tuple(shape), path.parent)
            return
        first = next(parts)
        with WRITERS[path.suffix](file, first.schema) as writer:
            for part in itertools.chain([first], parts):
                writer.write_batch(part)  # in Parquet one row group each


def _without_formulas(parts: Iterator[pa.RecordBatch], called: str, quote: bool) -> Iterator[pa.RecordBatch]:
    """Parts of a CSV file: cells and names that a spreadsheet would run get a quote, or a warning names the first."""
    warned = quote
    for part in parts:
        found = []
        for name, column in zip(part.schema.names, part.columns, strict=True):
            text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            cells = pa.array([name]) if not text else pa.concat_arrays([pa.array([name], column.type), column])
            runs = pc.fill_null(pc.match_substring_regex(cells, FORMULA), False)
            runs = pc.and_not(runs, pc.fill_null(pc.match_substring_regex(cells, PLAIN_NUMBER), False))
            if not warned and pc.any(runs).as_py():
                warned = True
                warnings.warn(
                    f"{called}: the name or cells of {name!r} begin with =, +, - or @, which a spreadsheet runs as "
                    f"formulas; --quote-formulas puts a quote before them",
                    TacitWarning,
                    stacklevel=2,
                )
            quoted = pc.binary_join_element_wise(pa.scalar("'", cells.type), cells, pa.scalar("", cells.type))
            cells = pc.if_else(runs, quoted, cells) if quote else cells
            found.append((cells[0].as_py(), cells.slice(1) if text else column))
        yield pa.record_batch([column for _, column in found], names=[name for name, _ in found])


def shuffle_parquet(source: Path, target: Path, rows: int = 2**20) -> None:
    """Write the rows of a Parquet file in an order that is drawn afresh; about so many rows are held at a time.

    Every row goes to a pile that is drawn for it, and every pile is shuffled: all orders are equally likely.
    """
    rng, file = np.random.default_rng(), pq.ParquetFile(source)
    n_piles = 1 + file.metadata.num_rows // rows
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, contextlib.ExitStack() as stack:
        places = [Path(folder, f"{i}.arrow") for i in range(n_piles)]
        piles = [stack.enter_context(pa.ipc.new_file(str(p), file.schema_arrow)) for p in places]
        for batch in file.iter_batches():
            drawn = rng.integers(n_piles, size=batch.num_rows)
            for i, pile in enumerate(piles):
                pile.write_batch(batch.filter(pa.array(drawn == i)))
        for pile in piles:
            pile.close()

        def shuffled() -> Iterator[pa.RecordBatch]:
            for place in places:
                with pa.memory_map(str(place)) as source:
                    pile = pa.ipc.open_file(source).read_all()
                    yield from pile.take(pa.array(rng.permutation(pile.num_rows))).to_batches(2**16)

        write_parts(target, shuffled())


def _need(names: list[str] | None, found: list[str], path: Path) -> None:
    absent = [n for n in names or [] if n not in found]
    if absent:
        more = f" ({len(absent) - 1} more of the bundle's are missing too)" if len(absent) > 1 else ""
        raise NoColumn(path.name, absent[0], found, more)


def _with(names: list[str] | None, unit: str | None) -> list[str] | None:
    return names if names is None or unit is None else [*names, unit]


def _with_words(batch: pa.RecordBatch, words: set[str]) -> pa.RecordBatch:
    """Numbers as text where the fit had words: another month's file may have kept codes as numbers."""
    for i, field in enumerate(batch.schema):
        column, floats = batch.column(i), pa.types.is_floating(field.type)
        if field.name not in words or not (floats or pa.types.is_integer(field.type)):
            continue
        if floats:
            with contextlib.suppress(pa.ArrowInvalid):  # not all are whole
                column = pc.cast(column, pa.int64())
        batch = batch.set_column(i, field.name, pc.cast(column, pa.string()))
    return batch


def _parquet(path: Path, names: list[str] | None, rows: int, unit: str | None, words: set[str]) -> Reader:
    """Row groups may be of any size: columns are read through small buffers and decoded some rows at a time."""
    try:
        file = pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path.name} cannot be read as Parquet: {error}") from None
    _need(_with(names, unit), file.schema_arrow.names, path)

    def parts() -> Iterator[Columns]:
        try:
            for batch in file.iter_batches(batch_size=rows, columns=_with(names, unit), use_threads=False):
                if batch.num_rows:
                    yield Columns.of(_with_words(batch, words), unit)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path.name} cannot be read to its end: {error}") from None

    return Reader(parts(), file.metadata.num_rows)


def _csv(path: Path, manifest: Mapping[str, Any], names: list[str] | None, unit: str | None) -> Iterator[Columns]:
    """Cells are read as text, so that one bad cell is one bad row and not a file that cannot be read."""
    file, declared = CsvFile(path), manifest["input"]
    names = _with(names, unit) or file.names
    _need(names, file.names, path)
    kinds = {c["name"]: c for c in declared["columns"]} if declared["kind"] == "table" else {}
    for name, kind in manifest["output"].get("carried", {}).items():
        kinds[name] = {"kind": "category"} if kind == "text" else {"kind": "number", "type": kind}
    kinds |= {} if unit is None else {unit: {"kind": "category"}}
    for batch in file.batches(names):
        columns = [
            declared_column(c, kinds.get(n, NUMBER), file.decimal) for n, c in zip(names, batch.columns, strict=True)
        ]
        yield Columns.of(pa.record_batch(columns, names=names), unit)


def _arrow(path: Path, names: list[str] | None, rows: int, unit: str | None) -> Iterator[Columns]:
    with pa.memory_map(str(path)) as source:
        try:
            try:
                file = pa.ipc.open_file(source)
                batches: Any = (file.get_batch(i) for i in range(file.num_record_batches))
                schema = file.schema
            except pa.ArrowInvalid:
                source.seek(0)
                batches = pa.ipc.open_stream(source)
                schema = batches.schema
            wanted = _with(names, unit)
            _need(wanted, schema.names, path)
            for batch in batches:
                taken = batch.select(wanted) if wanted else batch
                for at in range(0, taken.num_rows, rows):
                    yield Columns.of(taken.slice(at, rows), unit)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path.name} cannot be read as Arrow: {error}") from None


def _npz(path: Path, rows: int) -> Reader:
    """Rows of the array X of an npz, read as they come: the file may be larger than memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [n for n in archive.namelist() if n.endswith(".npy")]
            member = "X.npy" if "X.npy" in found else found[0] if len(found) == 1 else None
            if member is None:
                has = f"the arrays {', '.join(n[:-4] for n in found)}" if found else "no array"
                raise InputError(f"{path.name} has {has}; call the records X")
            with archive.open(member) as file:
                shape, dtype = _header(file, path)
    except zipfile.BadZipFile:
        raise InputError(f"{path.name} is not an npz file; save one with np.savez(path, X=X)") from None
    size = math.prod(shape[1:]) * dtype.itemsize

    def parts() -> Iterator[np.ndarray]:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            _header(file, path)
            for at in range(0, shape[0], rows):
                n = min(rows, shape[0] - at)
                try:
                    data = file.read(n * size)
                except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                    raise InputError(f"{path.name} is damaged: {error}") from None
                if len(data) != n * size:
                    raise InputError(f"{path.name} is cut off at row {at + len(data) // size}")
                yield np.frombuffer(data, dtype=dtype).reshape(n, *shape[1:])

    return Reader(parts(), shape[0])


def _header(file: Any, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path.name} holds no numpy array: {error}") from None
    if fortran or dtype.hasobject or not shape:
        raise InputError(f"{path.name}: X must be a C-ordered array of numbers; save np.ascontiguousarray(X)")
    return shape, dtype


def _parquet_writer(file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    # floats are nearly all different: looking them up in a dictionary takes longer than computing them
    words = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return pq.ParquetWriter(file, schema, use_dictionary=words or False)


WRITERS: dict[str, Any] = {
    ".csv": arrow_csv.CSVWriter, ".parquet": _parquet_writer, ".arrow": pa.ipc.new_file, ".npz": None
}  # fmt: skip


def _write_npz(file: BinaryIO, parts: Iterator[pa.RecordBatch], shape: tuple[int, ...], folder: Path) -> None:
    """An npz begins with the number of its rows, so these are kept in a file without a name until they are counted."""
    names: list[str] = []
    with tempfile.TemporaryFile(dir=folder) as rows, zipfile.ZipFile(file, "w") as archive:
        n = 0
        for part in parts:
            fields = zip(part.schema.names, part.columns, strict=True)
            rows.write(np.column_stack([c.to_numpy() for name, c in fields if name != FILE]).astype("<f8").tobytes())
            names += part.column(FILE).to_pylist() if FILE in part.schema.names else []
            n += part.num_rows
        rows.seek(0)
        # no time stamp in the archive: the same release gives the same bytes
        with archive.open(zipfile.ZipInfo("release.npy"), "w", force_zip64=True) as member:
            header = {"descr": "<f8", "fortran_order": False, "shape": (n, *shape)}
            np.lib.format.write_array_header_1_0(member, header)
            shutil.copyfileobj(rows, member)
        if names:
            with archive.open(zipfile.ZipInfo(f"{FILE}.npy"), "w") as member:
                np.lib.format.write_array(member, np.array(names), allow_pickle=False)
