"""Release whole files in constant memory: CSV, Parquet, Arrow and npz in and out.

Work goes part by part; finished parts lie in a folder beside the output, so that a run that was killed goes on where it
stopped and gives the same bytes. The output appears whole, when all parts are done.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.errors import InputError, TacitWarning
from tacit.release.columns import Columns, as_columns
from tacit.release.files import Reader, open_reader, open_writer
from tacit.release.noise import new_key
from tacit.release.runtime import NO_KEY, Release, load, read_key


@dataclass(frozen=True)
class Applied:
    """What a bulk run did: rows read, released and set aside; parts that were there from an earlier run."""

    rows: int
    released: int
    quarantined: int
    resumed_parts: int
    quarantine: Path | None


def apply(
    bundle: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    trusted_key: Any = None,
    noise_key: bytes | str | Path | None = None,
    on_error: str = "raise",
    rows: int = 65536,
    tell: Callable[[int, int | None], None] | None = None,
) -> Applied:
    """Release a file.

    Parameters
    ----------
    bundle : the file NAME.tacit
    source, target : files that end in .csv, .parquet, .arrow or .npz (an array X; the release is called release)
    trusted_key, noise_key : as in `tacit.load`. Without a noise_key a fresh one lasts until the output is complete
    on_error : "raise", or "quarantine": records that do not fit are written to TARGET.quarantine.jsonl instead
    rows : records at a time, at most
    tell : called with the number of rows done and of all rows (None where it is not known)
    """
    source, target = Path(source), Path(target)
    if on_error not in ("raise", "quarantine"):
        raise InputError(f"on_error must be 'raise' or 'quarantine'; found {on_error!r}")
    given = None if noise_key is None else read_key(noise_key)
    release = load(bundle, trusted_key, noise_key=given)
    reader = open_reader(source, release.manifest["input"], rows)
    writer = open_writer(target, release)  # before the work: a wrong suffix is said at once
    job = _Job(bundle, source, target, on_error, rows, given)
    job.start()
    if release.manifest["noise"] is not None and given is None:
        release = release.with_key(job.own_key())
    try:
        done = job.release_parts(release, reader, tell)
    except InputError:
        job.remove()
        raise
    writer(job.parts(done.parts), done.released)
    quarantine = job.join_quarantine(done.parts) if done.quarantined else None
    job.remove()
    return Applied(done.rows, done.released, done.quarantined, done.resumed, quarantine)


@dataclass
class _Done:
    parts: int = 0
    rows: int = 0
    released: int = 0
    quarantined: int = 0
    resumed: int = 0


class _Job:
    """The folder of finished parts, and what they are parts of."""

    def __init__(self, bundle: Any, source: Path, target: Path, on_error: str, rows: int, key: bytes | None) -> None:
        self.target, self.on_error = target, on_error
        self.folder = target.with_name(f".{target.name}.parts")
        stat = source.stat()
        self.about = {
            "bundle": hashlib.sha256(Path(bundle).read_bytes()).hexdigest(),
            "source": [source.name, stat.st_size, stat.st_mtime_ns],
            "on_error": on_error,
            "rows": rows,
            "key": None if key is None else hashlib.sha256(b"which key" + key).hexdigest(),
        }

    def start(self) -> None:
        if not self._same():
            self.remove()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(self.folder / "job.json", json.dumps(self.about).encode())

    def _same(self) -> bool:
        try:
            return json.loads((self.folder / "job.json").read_text()) == self.about
        except (OSError, ValueError):
            return False

    def own_key(self) -> bytes:
        """A key for this run, which must outlive a kill for the parts to fit together; it goes with the folder."""
        path = self.folder / "noise.key"
        if path.exists():
            return bytes.fromhex(path.read_text())
        warnings.warn(NO_KEY, TacitWarning, stacklevel=3)
        key = new_key()
        _write(path, key.hex().encode())  # the folder itself is closed to others
        return key

    def release_parts(self, release: Release, reader: Reader, tell: Any) -> _Done:
        done = _Done()
        for i, batch in enumerate(reader):
            n = len(batch)
            path = self.folder / f"{i:08d}.arrow"
            if path.exists():
                with pa.memory_map(str(path)) as file:
                    count = pa.ipc.open_file(file).get_batch(0).num_rows
                done.resumed += 1
            else:
                count = self._release_part(release, batch, done.rows, path)
            done.parts, done.rows, done.released = done.parts + 1, done.rows + n, done.released + count
            done.quarantined += n - count
            if tell is not None:
                tell(done.rows, reader.rows)
        return done

    def _release_part(self, release: Release, batch: Any, first: int, path: Path) -> int:
        found = release.transform(batch, on_error="quarantine")
        if found.problems:
            p = found.problems[0]
            if self.on_error == "raise":
                raise InputError(
                    f"{p.column}, row {first + p.row}: {p.problem}. Nothing was released; repair the row, or set such "
                    f"rows aside (--on-error quarantine)"
                )
            lines = [json.dumps(_bad_row(batch, row, first, found.problems), default=str) for row in found.bad_rows]
            _write(path.with_suffix(".jsonl"), "".join(f"{line}\n" for line in lines).encode())
        out = as_columns(release, found.release)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, out.schema) as file:
            file.write_batch(out)
        _write(path, sink.getvalue())
        return out.num_rows

    def parts(self, n: int) -> Iterator[pa.RecordBatch]:
        for i in range(n):
            with pa.memory_map(str(self.folder / f"{i:08d}.arrow")) as file:
                yield pa.ipc.open_file(file).get_batch(0)

    def join_quarantine(self, n: int) -> Path:
        path = self.target.with_name(f"{self.target.name}.quarantine.jsonl")
        partial = path.with_name(f".{path.name}.part")
        with open(partial, "wb") as out:
            for i in range(n):
                part = self.folder / f"{i:08d}.jsonl"
                if part.exists():
                    out.write(part.read_bytes())
        os.replace(partial, path)
        return path

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _bad_row(batch: Any, row: int, first: int, problems: list[Any]) -> dict[str, Any]:
    record = batch[row] if isinstance(batch, np.ndarray) else _record(batch, row)
    told = {p.column: p.problem for p in problems if p.row == row}
    return {"row": int(first + row), "problems": told, "record": record}


def _record(batch: Columns, row: int) -> dict[str, Any]:
    return {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.column_names)}


def _write(path: Path, data: Any) -> None:
    """A file that is whole, or not there, whenever this process is killed."""
    partial = path.with_name(path.name + ".part")
    with open(partial, "wb") as file:
        file.write(data)
    os.replace(partial, path)
