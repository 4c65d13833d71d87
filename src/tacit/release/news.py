"""What a file has that the fit did not know: new words, numbers far outside, columns that are not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from tacit.files import parquet_files
from tacit.records.csv_files import CsvFile
from tacit.records.schema import TableSchema, schema_of
from tacit.records.table_files import TEXT
from tacit.release.bundle import read_manifest
from tacit.release.record_files import open_reader

LARGEST = 2**30  # bytes of a file that is read a second time to count; of a larger one the first part tells
ROWS = 65536


def what_is_new(bundle: str | Path, source: str | Path, called: Mapping[str, str] | None = None) -> list[str]:
    """One sentence for each thing that is new in a table, with its count; none where a bundle takes no table.

    Parameters
    ----------
    bundle : the file NAME.tacit
    source : the table that it releases
    called : what columns are called there, where it is another name
    """
    manifest, source = read_manifest(bundle), Path(source)
    schema = schema_of(manifest["input"])
    if not isinstance(schema, TableSchema):
        return []
    small = source.is_dir() or source.stat().st_size <= LARGEST
    counts, rows = Counter[str](), 0
    for part in open_reader(source, manifest, ROWS, None, called):
        feeds, n, _ = schema.check(part)
        counts.update(schema.unusual(feeds))
        rows += n
        if not small:
            break
    kinds = {c.name: c.kind for c in schema.columns}
    found = []
    for name, n in counts.items():
        what = "words that the fit did not have" if kinds[name] == "category" else "numbers far outside the fit"
        found.append(f"{name}: {n:,} of {rows:,} rows have {what}")
    names = _columns(source)
    known = {*schema.names, *(called or {}).values(), *manifest["output"].get("carried", ())}
    if extra := [n for n in names if n not in known]:
        more = f" and {len(extra) - 5} more" if len(extra) > 5 else ""
        found.append(f"columns that the bundle does not take, left out: {', '.join(extra[:5])}{more}")
    if not small and counts:
        found.append("counted in the first rows alone: the file is large")
    return found


def _columns(source: Path) -> list[str]:
    if any(s.lower() in TEXT for s in source.suffixes[-2:]):
        return CsvFile(source).names
    files = parquet_files(source) if source.is_dir() else [source]
    return list(pq.read_schema(files[0]).names) if files and files[0].suffix == ".parquet" else []
