"""Arrow where it is installed (`tacit[arrow]`), and what stands in for it where it is not.

Columns travel as Arrow's from a CSV file to the release. `tacit.records.plain_columns` has the few words of Arrow's
that this needs, in Python alone: slower, and of CSV files only. What needs more, Parquet and Arrow files and engines,
says which extra brings it.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tacit.errors import NotInstalled, installed

__all__ = ["HERE", "PART", "arrow_csv", "batch_bytes", "need_arrow", "pa", "pc", "pq", "read_batch", "write_batch"]

HERE = installed("pyarrow")

if TYPE_CHECKING or HERE:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq
else:
    from tacit.records import plain_columns
    from tacit.records import plain_compute as pc

    class _Absent:
        """A part of Arrow: the names that have a stand-in, and a refusal for all others."""

        def __init__(self, what: str, stand_in: ModuleType | None = None) -> None:
            self.what, self.stand_in = what, stand_in

        def __getattr__(self, name: str) -> Any:
            if hasattr(self.stand_in, name):
                return getattr(self.stand_in, name)
            raise NotInstalled(self.what, "pyarrow")

    pa = _Absent("an Arrow file or table", plain_columns)
    pq = arrow_csv = _Absent("a Parquet file")

PART = ".arrow" if HERE else ".json"  # of a batch that is kept while a file is released


def need_arrow(what: str) -> None:
    """Refuse what cannot be done without Arrow."""
    if not HERE:
        raise NotInstalled(what, "pyarrow")


def write_batch(path: Path, batch: pa.RecordBatch) -> None:
    """Keep one batch in a file; `read_batch` gives it back."""
    if not HERE:
        path.write_bytes(batch_bytes(batch))
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)


def read_batch(path: Path) -> pa.RecordBatch:
    """The batch that was kept."""
    if not HERE:
        return pa.from_plain(json.loads(path.read_bytes()))
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).get_batch(0)


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes: the same of equal ones."""
    if not HERE:
        return json.dumps(pa.to_plain(batch)).encode()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as file:
        file.write_batch(batch)
    return bytes(sink.getvalue())
