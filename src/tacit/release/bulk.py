"""Release whole files in constant memory: CSV, Parquet, Arrow, npz and folders of images.

Records are read, released and written part by part, in one process or several. The output appears whole, once all of
it is released; a run that is killed leaves what was there before, and never a key.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tacit.callback import Callback, silent
from tacit.cores import safe_path
from tacit.errors import InputError, TacitError, TacitWarning, check_number
from tacit.files import parquet_files, replacing, replacing_folder
from tacit.noise.keyed import Numbers, Occurrences, new_key
from tacit.records.csv_files import CsvFile
from tacit.records.schema import TableSchema, schema_of
from tacit.records.table_files import TEXT
from tacit.release.arrow_columns import as_columns
from tacit.release.bundle import read_manifest
from tacit.release.keys import read_key
from tacit.release.pictures import Pictures, check_pictures_out, pictures_in, write_pictures
from tacit.release.record_files import FILE, FORMATS, Reader, check_writable, open_reader, write_parts
from tacit.release.runtime import NO_KEY, Release, load

PART_BYTES = 2**25  # of raw records in one part: a few parts are in memory at a time
TEXT_BYTES = 100  # of a cell of text, as Python holds it
LARGEST = 2**30  # bytes of a file that is read a second time to count; of a larger one the first part is counted
Instead = tuple[np.ndarray, pa.RecordBatch]  # rows whose release is known, and it


@dataclass(frozen=True)
class Applied:
    """What a bulk run did: rows read, released and set aside."""

    rows: int
    released: int
    quarantined: int
    quarantine: Path | None


def apply(
    bundle: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    trusted_key: Any = None,
    name: str | None = None,
    trust: bool = False,
    noise_key: bytes | str | Path | None = None,
    unit: str | None = None,
    sensitive: Sequence[str] = (),
    on_error: str = "raise",
    rows: int = 65536,
    n_jobs: int = 1,
    refuse_expired: bool = False,
    quote_formulas: bool = False,
    instead: Instead | None = None,
    callback: Callback = silent,
) -> Applied:
    """Release a file, or a folder of images.

    Parameters
    ----------
    bundle : the file NAME.tacit
    source : a file that ends in .csv, .parquet, .arrow or .npz (an array X), or a folder of Parquet files or images
    target : a file that ends so (in an .npz the release is called release). The release of a folder may be a new
        folder too, where the bundle releases images; in a file, its column ``file`` says which image a row is.
        The release of a folder of Parquet files may be a new folder of such files, one for each part
    trusted_key, noise_key : as in `tacit.load`. Without a noise_key a fresh one is drawn, which is kept in memory only
    unit : for releases with noise, the column that says whose each record is: people's noise is then independent,
        and a person's record gets the same noise in every file. Without it, equal records of this file are told
        apart by their order, and 16 bytes are held in memory for each distinct record
    sensitive : for releases that look at the sensitive columns, what these are called in the file, in the bundle's
        order, where they have other names there; they are dropped from the output either way
    on_error : "raise", or "quarantine": records that do not fit are written to TARGET.quarantine.jsonl instead
    rows : records at a time, at most; fewer where they are wide, so that a part stays under 32 MiB
    n_jobs : processes. The output does not depend on it. Scripts that ask for several must guard their own start by
        ``if __name__ == "__main__":``, since each process imports the script
    refuse_expired : as in `tacit.load`
    quote_formulas : put a quote before text in a CSV file that a spreadsheet would run: cells and names of columns
        that begin with =, +, - or @. Without it, a warning names the first
    instead : rows of the input, ascending, and a record batch of what is released in their place: those of the fit,
        by parts that never saw them
    callback : called with (what, rows done, all rows); all rows are None where they are not known

    Examples
    --------
    >>> import tempfile, numpy as np, tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bundle = tacit.save(f, f"{folder}/plane.tacit")
    ...     np.savez(f"{folder}/raw.npz", X=data.X)
    ...     tacit.release.apply(bundle, f"{folder}/raw.npz", f"{folder}/out.npz").released
    400
    """
    bundle, source, target = Path(bundle), Path(source), Path(target)
    if on_error not in ("raise", "quarantine"):
        raise InputError(f"on_error must be 'raise' or 'quarantine'; found {on_error!r}")
    check_number("rows", rows, 1, whole=True)
    check_number("n_jobs", n_jobs, 1, whole=True)
    _check_places(bundle, source, target)
    if instead is not None and (len(instead[0]) != instead[1].num_rows or (np.diff(instead[0]) <= 0).any()):
        raise InputError(
            f"instead needs ascending rows and a release for each; found {len(instead[0]):,} rows and "
            f"{instead[1].num_rows:,} releases"
        )
    given = None if noise_key is None else read_key(noise_key)
    release = load(bundle, trusted_key, name=name, trust=trust, noise_key=given, refuse_expired=refuse_expired)
    rows = min(rows, max(1, PART_BYTES // _record_bytes(release.manifest)))
    reader, into = _plan(source, target, release, rows, unit, sensitive_names(release, sensitive))
    if release.manifest["noise"] is not None and given is None:
        warnings.warn(NO_KEY, TacitWarning, stacklevel=2)
        release = release.with_key(new_key())
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        aside = stack.enter_context(tempfile.TemporaryFile(dir=target.parent))
        folder = None if into == "file" else stack.enter_context(replacing_folder(target))
        run = _Run(release, on_error, folder if into == "images" else None, unit is None, instead)
        counts = Counter[str]()
        parts = _counted(run.parts(reader, n_jobs), counts, aside, lambda n: callback("releasing", n, reader.rows))
        if folder is None:
            write_parts(target, parts, quote_formulas, release.manifest["output"]["shape"])
        else:
            for i, part in enumerate(parts):
                if into == "files":
                    write_parts(folder / f"part-{i:08d}.parquet", [part])
        quarantine = None
        if counts["quarantined"]:
            quarantine = target.with_name(f"{target.name}.quarantine.jsonl")
            aside.seek(0)
            with replacing(quarantine, private=True) as partial, open(partial, "wb") as kept:
                shutil.copyfileobj(aside, kept)
    return Applied(counts["rows"], counts["released"], counts["quarantined"], quarantine)


def _counted(parts: Iterator[_Part], counts: Counter[str], aside: BinaryIO, callback: Any) -> Iterator[pa.RecordBatch]:
    """What is released of each part; its rows are counted, and records that do not fit are written to `aside`."""
    for part in parts:
        counts["rows"] += part.rows
        counts["released"] += part.released.num_rows
        counts["quarantined"] += len(part.quarantine)
        aside.writelines(f"{line}\n".encode() for line in part.quarantine)
        callback(counts["rows"])
        yield part.released


def _check_places(bundle: Path, source: Path, target: Path) -> None:
    if not source.exists():
        raise InputError(f"no file or folder {source}; check the path")
    for place, what in ((source, "the input"), (bundle, "the bundle")):
        if target.exists() and place.exists() and os.path.samefile(place, target):
            raise InputError(f"{target} is {what} itself; write to another place")
    if source.is_dir() and source.resolve() in target.resolve().parents:
        raise InputError(f"{target} lies inside the input {source}; write to another place")


def _record_bytes(manifest: Mapping[str, Any]) -> int:
    declared, out = manifest["input"], 8 * math.prod(manifest["output"]["shape"])
    if declared["kind"] == "array":
        return max(8 * math.prod(declared["shape"]), out)
    return max(sum(8 if c["kind"] == "number" else TEXT_BYTES for c in declared["columns"]), out)


def sensitive_names(release: Release, names: Sequence[str]) -> dict[str, str]:
    """By sensitive column of a bundle, what it is called in a file, where that is another name."""
    own = release.sensitive_names
    if names and len(names) != len(own):
        looks = f"looks at {len(own)} sensitive columns ({', '.join(own)})" if own else "looks at no sensitive column"
        raise InputError(f"this bundle {looks}; found {len(names)} names for them: {', '.join(names)}")
    if names and set(names) == set(own):
        return {}
    return {ours: theirs for ours, theirs in zip(own, names, strict=False) if ours != theirs}


def _plan(
    source: Path, target: Path, release: Release, rows: int, unit: str | None, called: Mapping[str, str]
) -> tuple[Reader, str]:
    """How the input is read, and whether the output is a file, a folder of Parquet files or one of images."""
    if not source.is_dir() or (files := parquet_files(source)):
        reader = open_reader(source, release.manifest, rows, unit, called)
        if source.is_dir() and files and not target.suffix and not target.exists():
            return reader, "files"
        check_writable(target, release.manifest)
        return reader, "file"
    if unit is not None:
        raise InputError(f"{source} is a folder of images, which has no column {unit!r}; leave the unit out")
    pictures = pictures_in(source, release)
    reader = Reader(pictures.parts(rows), len(pictures))
    if target.suffix in FORMATS.split(", "):
        check_writable(target, release.manifest)
        return reader, "file"
    check_pictures_out(pictures.names, target, release)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"{target} is there and not an empty folder; name a new one")
    return reader, "images"


@dataclass(frozen=True)
class _Part:
    """What came of one part: releases, and its records that do not fit, as lines of JSON."""

    rows: int
    released: pa.RecordBatch
    quarantine: list[str]


@dataclass(frozen=True)
class _Run:
    """What releases the parts of a file. `images` is the folder to which released images are written."""

    release: Release
    on_error: str
    images: Path | None
    count_equal: bool
    instead: Instead | None

    def parts(self, reader: Reader, n_jobs: int) -> Iterator[_Part]:
        """The parts in order, released here or in several processes."""
        if n_jobs == 1:
            yield from (release_part(self.release, *task) for task in self._tasks(reader))
            return
        # a forked copy of onnxruntime's and Arrow's threads may hang
        how = (multiprocessing.get_context("spawn"), _open_release, (self.release._bundle, self.release.noise_key))
        waiting: deque[Future[_Part]] = deque()
        try:
            with safe_path(), ProcessPoolExecutor(n_jobs, *how) as pool:
                for task in self._tasks(reader):
                    waiting.append(pool.submit(_release_in_worker, *task))
                    if len(waiting) > n_jobs:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
        except BrokenExecutor:
            raise TacitError(
                "a working process died (killed, or out of memory). Run again, with fewer jobs if memory was short. In "
                'a script, several jobs need an `if __name__ == "__main__":` around the call'
            ) from None

    def _tasks(self, reader: Reader) -> Iterator[tuple[Any, ...]]:
        """The arguments of `release_part` for each part."""
        file = Occurrences() if self.release.noise is not None and self.count_equal else None
        first = 0
        for batch in _ahead(reader):
            numbers = None
            if file is not None:  # equal records are numbered over the whole file
                records = batch.read()[0] if isinstance(batch, Pictures) else batch
                numbers = self.release.count(records, file)
            known = None
            if self.instead is not None:
                rows, others = self.instead
                low, high = np.searchsorted(rows, [first, first + len(batch)])
                known = (rows[low:high] - first, others.slice(low, high - low)) if high > low else None
            yield batch, first, self.on_error, self.images, numbers, known
            first += len(batch)


def _ahead(parts: Reader) -> Iterator[Any]:
    """The same parts, each read by a thread while the one before is released."""
    rest = iter(parts)
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, rest, None)
        while (part := following.result()) is not None:
            following = thread.submit(next, rest, None)
            yield part


_release: Release  # of a working process


def _open_release(bundle: Any, key: bytes | None) -> None:
    global _release
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    _release = Release(bundle, key)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the first one was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _release_in_worker(*task: Any) -> _Part:
    return release_part(_release, *task)


def release_part(
    release: Release,
    batch: Any,
    first: int,
    on_error: str,
    images: Path | None,
    numbers: Numbers | None,
    instead: Instead | None,
) -> _Part:
    """Release one part, whose first record is number `first` of the file."""
    pictures = isinstance(batch, Pictures)
    if pictures:
        X, rows, problems = batch.read()
        out = release.transform(X, file=numbers)
    else:
        found = release.transform(batch, getattr(batch, "units", None), on_error="quarantine", file=numbers)
        out, rows, problems = found.release, found.rows, found.problems
    if problems and on_error == "raise":
        p, what = problems[0], "image" if pictures else "row"
        raise InputError(
            f"{p.column}{'' if pictures else f', row {first + p.row}'}: {p.problem}. Nothing was released; repair the "
            f"{what}, or set such {what}s aside (--on-error quarantine)"
        )
    bad = [_bad_record(batch, row, first, problems) for row in sorted({p.row for p in problems})]
    names = [batch.names[row] for row in rows] if pictures else []
    if images is not None:
        write_pictures(images, names, out)
        columns = pa.record_batch([pa.array(names, pa.string())], names=[FILE])
    else:
        columns = as_columns(release, out)
        if pictures:
            columns = pa.record_batch([pa.array(names, pa.string()), *columns.columns], [FILE, *columns.schema.names])
    if instead is not None:  # in some rows of the part, of which those that fit are released
        at, known = np.arange(columns.num_rows), np.isin(instead[0], rows)
        at[np.searchsorted(rows, instead[0][known])] = columns.num_rows + np.flatnonzero(known)
        columns = pa.concat_batches([columns, instead[1]]).take(pa.array(at))
    return _Part(len(batch), columns, [json.dumps(record, default=str) for record in bad])


def _bad_record(batch: Any, row: int, first: int, problems: list[Any]) -> dict[str, Any]:
    reasons = {p.column: p.problem for p in problems if p.row == row}
    if isinstance(batch, Pictures):
        return {"file": batch.names[row], "problems": reasons}
    if isinstance(batch, np.ndarray):
        record: Any = batch[row].tolist()
    else:
        record = {name: batch.column(i)[row].as_py() for i, name in enumerate(batch.column_names)}
    return {"row": int(first + row), "problems": reasons, "record": record}


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
    for part in open_reader(source, manifest, 65536, None, called):
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
