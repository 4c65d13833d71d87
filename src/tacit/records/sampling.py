"""A sample of a table that is too large to hold: whole units, chosen by a hash, in one pass and little memory.

A unit is in the sample where the keyed hash of its name is small enough, so that all of its rows are, wherever they
lie, and the choice depends neither on their order nor on how the table is cut into files. Where there is no unit the
number of the row is hashed, not what it holds: tables of few different rows would else lose some kinds of row whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, NoColumn, check_number
from tacit.files import parquet_files
from tacit.records.fingerprints import GOLDEN, mixed
from tacit.records.table_files import kind_of

DEFAULT_ROWS = 1_000_000
BATCH = 65536  # rows that are read at a time
FEWEST_BYTES = 2  # of a row of a CSV file


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a table, in its order.

    Attributes
    ----------
    table : the rows
    rows : where they stand in the whole
    total : how many rows the whole has
    """

    table: pd.DataFrame
    rows: np.ndarray
    total: int

    @property
    def whole(self) -> bool:
        return len(self.rows) == self.total


def may_exceed(path: Path, most: int) -> bool:
    """Whether a table may have more rows than this; only a pass over it can tell of a CSV file."""
    if path.is_dir():
        return True
    if not path.exists() or ".csv" in path.suffixes[:-1]:
        return path.exists()
    if kind_of(path) not in ("text", "parquet"):
        return False  # held whole
    if kind_of(path) == "parquet":
        import pyarrow as pa  # not loaded by `import tacit`
        import pyarrow.parquet as pq

        try:
            return int(pq.read_metadata(path).num_rows) > most
        except (pa.ArrowInvalid, OSError):
            return False  # whoever reads it says what is wrong
    return path.stat().st_size > FEWEST_BYTES * most


def read_sample(path: str | Path, unit: str | None = None, most: int = DEFAULT_ROWS, random_state: int = 0) -> Sample:
    """Read at most so many rows of a CSV file, a Parquet file, or a folder of Parquet files, by whole units.

    Parameters
    ----------
    unit : column whose values are hashed; None: the number of the row is
    most : rows. All are read where there are no more
    random_state : same seed, same sample. Whoever knows it and a unit's name can tell whether it is in the sample

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "visits.csv"
    >>> _ = path.write_text("who,hour\\n" + "".join(f"p{i % 50},{i}\\n" for i in range(1000)))
    >>> sample = read_sample(path, "who", most=200)
    >>> len(sample.table) == sample.table["who"].nunique() * 20 == 200, sample.total
    (True, 1000)
    """
    check_number("most", most, 1, whole=True)
    path, key = Path(path), int(random_state).to_bytes(16, "little", signed=True)
    batches, gathered = _batches(path)
    kept: list[tuple[Any, np.ndarray, np.ndarray]] = []
    total, held, limit = 0, 0, np.uint64(2**64 - 1)
    for batch in batches:
        if unit is not None and unit not in batch.schema.names:
            raise NoColumn(path.name, unit, batch.schema.names, " (unit)")
        rows = np.arange(total, total + batch.num_rows)
        hashes = _of_rows(rows, key) if unit is None else _of_units(batch.column(unit), key, total)
        total += batch.num_rows
        kept.append(_where(batch, rows, hashes, hashes <= limit))
        held += len(kept[-1][1])
        if held > 2 * most:
            limit = _limit(np.concatenate([h for _, _, h in kept]), most)
            kept = [_where(*part, part[2] <= limit) for part in kept]
            held = sum(len(r) for _, r, _ in kept)
    if not total:
        raise InputError(f"{path.name} has no rows; pass a table with some")
    limit = _limit(np.concatenate([h for _, _, h in kept]), most)
    kept = [_where(*part, part[2] <= limit) for part in kept]
    rows = np.concatenate([r for _, r, _ in kept])
    if not len(rows):
        raise InputError(f"no unit of {path.name} has at most {most:,} rows; allow more rows in the sample")
    return Sample(gathered([batch for batch, _, _ in kept]), rows, total)


def _limit(hashes: np.ndarray, most: int) -> np.uint64:
    """The largest hash up to which there are at most so many rows, those of equal hashes together."""
    if len(hashes) <= most:
        return np.uint64(2**64 - 1)
    ordered = np.sort(hashes)
    smaller = ordered[: most + 1][ordered[: most + 1] < ordered[most]]
    return smaller[-1] if len(smaller) else np.uint64(0)


def _where(batch: Any, rows: np.ndarray, hashes: np.ndarray, good: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    return (batch, rows, hashes) if good.all() else (batch.filter(good), rows[good], hashes[good])


def _of_rows(rows: np.ndarray, key: bytes) -> np.ndarray:
    """Numbers of rows as numbers that look drawn at random (splitmix64, from a place that the key chooses)."""
    start = int.from_bytes(hashlib.blake2b(b"rows", digest_size=8, key=key).digest(), "little")
    with np.errstate(over="ignore"):
        return mixed((rows.astype(np.uint64) + np.uint64(start) - np.uint64(1)) * GOLDEN)


def _of_units(column: Any, key: bytes, first: int) -> np.ndarray:
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"units, row {row}: missing; every record needs its unit")
    words = column if hasattr(column, "dictionary") else column.dictionary_encode()
    each = [hashlib.blake2b(str(u).encode(), digest_size=8, key=key).digest() for u in words.dictionary.to_pylist()]
    return np.frombuffer(b"".join(each), "<u8")[words.indices.to_numpy()]


def _batches(path: Path) -> tuple[Iterator[Any], Any]:
    """Record batches of a table, and what makes a DataFrame of some of them, as reading all of it would."""
    import pyarrow as pa  # not loaded by `import tacit`
    import pyarrow.parquet as pq

    if kind_of(path) == "text":
        from tacit.records.csv_files import CsvFile, frame_columns  # the same

        file = CsvFile(path)
        return file.batches(), lambda parts: pd.DataFrame(frame_columns(file.names, parts, file.decimal))
    files = parquet_files(path) if path.is_dir() else [path]
    if not files:
        raise InputError(
            f"{path} has no Parquet file; name a table, or a folder of Parquet files (recordings: --sensors, photos: "
            f"--images)"
        )

    def read() -> Iterator[Any]:
        names: set[str] = set()
        for each in files:
            try:
                file = pq.ParquetFile(each, pre_buffer=False)
                names = names or set(file.schema_arrow.names)
                if odd := names ^ set(file.schema_arrow.names):
                    what = "has" if odd & set(file.schema_arrow.names) else "lacks"
                    raise InputError(f"{each.name} {what} the column {min(odd)!r}, unlike {files[0].name}; give all "
                                     f"files of a folder the same columns")  # fmt: skip
                yield from (b for b in file.iter_batches(BATCH, use_threads=False) if b.num_rows)
            except (pa.ArrowInvalid, OSError) as error:
                raise InputError(f"{each.name} cannot be read as Parquet: {error}") from None

    def gathered(parts: list[Any]) -> pd.DataFrame:
        tables = [pa.table(p) for p in parts if p.num_rows]
        return pa.concat_tables(tables, promote_options="permissive").to_pandas()

    return read(), gathered
