"""The journal of a bulk run: finished parts in a folder beside the output, and what they are parts of.

A run that was killed finds them there, resumes, and gives the same bytes; parts of another input are thrown away.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tacit.errors import InputError, TacitWarning
from tacit.files import replacing, write_whole
from tacit.noise.keyed import Numbers, new_key
from tacit.release.arrow_columns import as_columns
from tacit.release.pictures import Pictures, write_pictures
from tacit.release.record_files import FILE, parquet_options
from tacit.release.runtime import NO_KEY, Release

PICTURES = "pictures"
PART = ".arrow"


def write_batch(path: Path, batch: pa.RecordBatch) -> None:
    """Keep one batch in a file; `read_batch` gives it back."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)


def read_batch(path: Path) -> pa.RecordBatch:
    """The batch that was kept."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).get_batch(0)


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes: the same of equal ones."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as file:
        file.write_batch(batch)
    return bytes(sink.getvalue())


Instead = tuple[np.ndarray, pa.RecordBatch]  # rows of a part whose release is known, and it


class Journal:
    """The folder of finished parts. One run at a time may write to it."""

    def __init__(self, target: Path, about: dict[str, Any], suffix: str = PART) -> None:
        self.target, self.about, self.suffix = target, about, suffix
        self.folder = target.with_name(f".{target.name}.parts")
        self._lock: int | None = None

    def start(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._claim()
        if not self._same():
            self._empty()
        write_whole(self.folder / "job.json", json.dumps(self.about).encode())

    def _claim(self) -> None:
        """Make the folder ours alone: a noise key lies in it, and nobody else may have put one there."""
        self.folder.mkdir(exist_ok=True, mode=0o700)
        found = os.lstat(self.folder)
        ours = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
        if self.folder.is_symlink() or not ours:
            raise InputError(f"{self.folder} is there, but is not a private folder of this user; remove it first")
        if os.name == "posix":
            import fcntl

            self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it ends with this process, however that ends
            except OSError:
                os.close(self._lock)
                self._lock = None
                raise InputError(f"another run is writing {self.target}; wait for it, or stop it first") from None

    def _same(self) -> bool:
        try:
            return json.loads((self.folder / "job.json").read_text()) == json.loads(json.dumps(self.about))
        except (OSError, ValueError):
            return False

    def _empty(self) -> None:
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()

    def own_key(self) -> bytes:
        """A key for this run, which must outlive a kill for the parts to fit together; it goes with the folder."""
        path = self.folder / "noise.key"
        if path.exists():
            return bytes.fromhex(path.read_text())
        warnings.warn(NO_KEY, TacitWarning, stacklevel=3)
        key = new_key()
        write_whole(path, key.hex(), private=True)
        return key

    def forget_key(self) -> None:
        """Once every part is there no key is needed; it is gone before the output, which it would lie beside."""
        (self.folder / "noise.key").unlink(missing_ok=True)

    def path(self, i: int) -> Path:
        return self.folder / f"{i:08d}{self.suffix}"

    def released(self, i: int) -> int | None:
        """How many records of a part were released; None where it is not finished."""
        if not self.path(i).exists():
            return None
        if self.suffix == ".parquet":
            return int(pq.read_metadata(self.path(i)).num_rows)
        return next(self.parts([i])).num_rows

    def parts(self, which: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for i in which:
            yield read_batch(self.path(i))

    def join_quarantine(self, n: int) -> Path:
        path = self.target.with_name(f"{self.target.name}.quarantine.jsonl")
        with replacing(path, private=True, folder=self.folder) as partial, open(partial, "wb") as out:
            for i in range(n):
                part = self.path(i).with_suffix(".jsonl")
                if part.exists():
                    out.write(part.read_bytes())
        return path

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close()

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def release_part(
    release: Release,
    batch: Any,
    first: int,
    path: Path,
    on_error: str,
    as_pictures: bool,
    numbers: Numbers | None,
    instead: Instead | None = None,
) -> int:
    """Release one part and write it at `path`, its bad records beside it; how many were released.

    The part's own file is written last: where it is, the part is finished.
    """
    if isinstance(batch, Pictures):
        X, rows, problems = batch.read()
        out = release.transform(X, file=numbers)
    else:
        found = release.transform(batch, getattr(batch, "units", None), on_error="quarantine", file=numbers)
        out, rows, problems = found.release, found.rows, found.problems
    if problems:
        _set_aside(batch, first, path, on_error, problems)
    if as_pictures:
        names = [batch.names[row] for row in rows]
        write_pictures(path.parent / PICTURES, names, out)
        columns = pa.record_batch([pa.array(names, pa.string())], names=[FILE])
    else:
        columns = as_columns(release, out)
        if isinstance(batch, Pictures):
            names = pa.array([batch.names[row] for row in rows], pa.string())
            columns = pa.record_batch([names, *columns.columns], names=[FILE, *columns.schema.names])
    _write_part(path, columns if instead is None else _replaced(columns, np.asarray(rows), *instead))
    return columns.num_rows


def _set_aside(batch: Any, first: int, path: Path, on_error: str, problems: list[Any]) -> None:
    """Write down the records that do not fit, or refuse them."""
    if on_error == "raise":
        p = problems[0]
        where = p.column if isinstance(batch, Pictures) else f"{p.column}, row {first + p.row}"
        what = "image" if isinstance(batch, Pictures) else "row"
        raise InputError(
            f"{where}: {p.problem}. Nothing was released; repair the {what}, or set such "
            f"{what}s aside (--on-error quarantine)"
        )
    bad = sorted({p.row for p in problems})
    lines = [json.dumps(_bad_record(batch, row, first, problems), default=str) for row in bad]
    write_whole(path.with_suffix(".jsonl"), "".join(f"{line}\n" for line in lines).encode())


def _write_part(path: Path, columns: pa.RecordBatch) -> None:
    with replacing(path) as partial:
        if path.suffix == ".parquet":
            pq.write_table(pa.table(columns), partial, **parquet_options(columns.schema))
            return
        write_batch(partial, columns)


def _replaced(columns: pa.RecordBatch, kept: np.ndarray, rows: np.ndarray, others: pa.RecordBatch) -> pa.RecordBatch:
    """The same with other values in some rows of the part, of which `kept` are released."""
    at, known = np.arange(columns.num_rows), np.isin(rows, kept)
    at[np.searchsorted(kept, rows[known])] = columns.num_rows + np.flatnonzero(known)
    return pa.concat_batches([columns, others]).take(pa.array(at))


def describe(bundle: Path, source: Path, **settings: Any) -> dict[str, Any]:
    """What a run is about: parts are only good for a run of the same bundle, input and settings."""
    return {"bundle": hashlib.sha256(bundle.read_bytes()).hexdigest(), "source": _about(source), **settings}


def _about(source: Path) -> list[Any]:
    if not source.is_dir():
        stat = source.stat()
        return [source.name, stat.st_size, stat.st_mtime_ns]
    digest = hashlib.sha256()
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        stat = path.stat()
        digest.update(
            f"{path.relative_to(source)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode(errors="surrogateescape")
        )
    return [source.name, digest.hexdigest()]


def _bad_record(batch: Any, row: int, first: int, problems: list[Any]) -> dict[str, Any]:
    told = {p.column: p.problem for p in problems if p.row == row}
    if isinstance(batch, Pictures):
        return {"file": batch.names[row], "problems": told}
    if isinstance(batch, np.ndarray):
        record: Any = batch[row].tolist()
    else:
        record = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.column_names)}
    return {"row": int(first + row), "problems": told, "record": record}
