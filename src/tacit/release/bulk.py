"""Release whole files in constant memory: CSV, Parquet, Arrow, npz and folders of images.

Work goes part by part, in one process or several; what is finished is kept (`parts.py`), so that a run that was killed
resumes where it stopped and gives the same bytes. The output appears whole, when all parts are done.
"""

from __future__ import annotations

import hashlib
import math
import os
import queue
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.callback import Callback, silent
from tacit.errors import InputError, check_number
from tacit.files import parquet_files
from tacit.noise.keyed import Numbers, Occurrences
from tacit.release.keys import read_key
from tacit.release.parts import PART, PICTURES, Instead, Journal, batch_bytes, describe, release_part
from tacit.release.pictures import Pictures, check_pictures_out, pictures_in
from tacit.release.record_files import FOLDER, FORMATS, Reader, open_reader, open_writer
from tacit.release.runtime import Release, load
from tacit.release.workers import Workers, ahead

PART_BYTES = 2**25  # of raw records in one part: a few parts are in memory at a time
TEXT_BYTES = 100  # of a cell of text, as Python holds it


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
    trusted_key, noise_key : as in `tacit.load`. Without a noise_key a fresh one lasts until the output is complete
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
    quote_formulas : put a quote before text in a CSV file that a spreadsheet would run: cells that begin with =, +, -
        or @. Without it, such text is told of
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
    given = None if noise_key is None else read_key(noise_key)
    release = load(bundle, trusted_key, name=name, trust=trust, noise_key=given, refuse_expired=refuse_expired)
    rows = min(rows, max(1, PART_BYTES // _record_bytes(release.manifest)))
    called = sensitive_names(release, sensitive)
    reader, finish = _plan(
        source, target, release, rows, unit, called, quote_formulas
    )  # before the work: a wrong suffix is said at once
    key = None if given is None else hashlib.sha256(b"which key" + given).hexdigest()
    settings = {"target": target.name, "on_error": on_error, "rows": rows, "key": key, "unit": unit, "called": called}
    settings |= _known(instead)
    journal = Journal(target, describe(bundle, source, **settings), ".parquet" if finish == FOLDER else PART)
    journal.start()
    try:
        if release.manifest["noise"] is not None and given is None:
            release = release.with_key(journal.own_key())
        file = Occurrences() if release.noise is not None and unit is None else None
        work = _Work(journal, release, reader, on_error, finish is None, n_jobs, file, instead, callback)
        done = _finish(work, finish, target)
        quarantine = journal.join_quarantine(done.parts) if done.quarantined else None
    except InputError:
        journal.remove()
        raise
    finally:
        journal.close()
    journal.remove()
    return Applied(done.rows, done.released, done.quarantined, done.resumed, quarantine)


@dataclass
class _Done:
    parts: int = 0
    rows: int = 0
    released: int = 0
    quarantined: int = 0
    resumed: int = 0


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
    source: Path,
    target: Path,
    release: Release,
    rows: int,
    unit: str | None,
    called: Mapping[str, str],
    quote_formulas: bool = False,
) -> tuple[Reader, Any]:
    """How the input is read, and how the output is written; None: as a folder of images."""
    if not source.is_dir() or (files := parquet_files(source)):
        as_folder = source.is_dir() and files and not target.suffix and not target.exists()
        reader = open_reader(source, release.manifest, rows, unit, called)
        return reader, FOLDER if as_folder else open_writer(target, release, quote_formulas)
    if unit is not None:
        raise InputError(f"{source} is a folder of images, which has no column {unit!r}; leave the unit out")
    pictures = pictures_in(source, release)
    reader = Reader(pictures.parts(rows), len(pictures))
    if target.suffix in FORMATS.split(", "):
        return reader, open_writer(target, release, quote_formulas)
    check_pictures_out(pictures.names, target, release)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"{target} is there and not an empty folder; name a new one")
    return reader, None


@dataclass(frozen=True)
class _Work:
    """A run: where its parts go, what releases them, and from where they come."""

    journal: Journal
    release: Release
    reader: Reader
    on_error: str
    as_pictures: bool
    n_jobs: int
    file: Occurrences | None
    instead: Instead | None
    callback: Callback

    def parts(self, ready: queue.SimpleQueue[int | None]) -> _Done:
        """Release all parts; the number of each is put into `ready`."""
        done = _Done()
        with Workers(self.release, self.n_jobs) as workers:
            for n, part in self._started(workers):
                if isinstance(part, Future):
                    count = workers.result(part)
                else:
                    count, done.resumed = part, done.resumed + 1
                ready.put(done.parts)
                done.parts, done.rows, done.released = done.parts + 1, done.rows + n, done.released + count
                done.quarantined += n - count
                self.callback("releasing", done.rows, self.reader.rows)
        return done

    def _started(self, workers: Workers) -> Iterator[tuple[int, Future[int] | int]]:
        """Parts in order, each with its number of records: what comes of it, or what an earlier run released of it."""
        waiting: deque[tuple[int, Future[int] | int]] = deque()
        first = 0
        for i, batch in enumerate(ahead(self.reader)):
            found = self.journal.released(i)
            # equal records are numbered over the whole file: also those of parts that are done, or done elsewhere
            numbers: Numbers | None = self.file
            if self.file is not None and (found is not None or workers.most):
                records = batch.read()[0] if isinstance(batch, Pictures) else batch
                numbers = workers.release.count(records, self.file)
            arguments = (batch, first, self.journal.path(i), self.on_error, self.as_pictures, numbers)
            known = _of_part(self.instead, first, len(batch))
            waiting.append((len(batch), workers.submit(release_part, *arguments, known) if found is None else found))
            first += len(batch)
            while len(waiting) > workers.most:
                yield waiting.popleft()
        yield from waiting


def _finish(work: _Work, finish: Any, target: Path) -> _Done:
    """Release all parts, and put them together; a file is written while later parts are released."""
    ready: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    if finish is None or finish == FOLDER or target.suffix == ".npz":  # an npz begins with the number of its rows
        done = work.parts(ready)
        work.journal.forget_key()
        if finish is None:
            _finish_pictures(work.journal, target)
        elif finish == FOLDER:
            _finish_folder(work.journal, target, done.parts)
        else:
            finish(work.journal.parts(range(done.parts)), done.released, work.journal.folder)
        return done
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(finish, work.journal.parts(_until(ready)), 0, work.journal.folder)
        try:
            done = work.parts(ready)
            work.journal.forget_key()
            ready.put(None)
        except BaseException:
            ready.put(STOPPED)
            raise
        written.result()
    return done


STOPPED = -1


def _until(ready: queue.SimpleQueue[int | None]) -> Iterator[int]:
    """Numbers of parts as they are finished; an error where the run stopped, so that nothing is left of the output."""
    while (i := ready.get()) is not None:
        if i == STOPPED:
            raise InterruptedError("the run was stopped")
        yield i


def _known(instead: Instead | None) -> dict[str, Any]:
    """What is released in place of some rows, for the journal."""
    if instead is None:
        return {}
    rows, columns = instead
    if len(rows) != columns.num_rows or (np.diff(rows) <= 0).any():
        raise InputError(
            f"instead needs ascending rows and a release for each; found {len(rows):,} rows and "
            f"{columns.num_rows:,} releases"
        )
    digest = hashlib.sha256(np.ascontiguousarray(rows).tobytes())
    digest.update(batch_bytes(columns))
    return {"instead": digest.hexdigest()}


def _of_part(instead: Instead | None, first: int, n: int) -> Instead | None:
    if instead is None:
        return None
    low, high = np.searchsorted(instead[0], [first, first + n])
    return (instead[0][low:high] - first, instead[1].slice(low, high - low)) if high > low else None


def _finish_folder(journal: Journal, target: Path, n: int) -> None:
    made = journal.folder / FOLDER
    made.mkdir(exist_ok=True)
    for i in range(n):
        journal.path(i).replace(made / f"part-{i:08d}.parquet")
    made.replace(target)


def _finish_pictures(journal: Journal, target: Path) -> None:
    made = journal.folder / PICTURES
    made.mkdir(exist_ok=True)  # where every image was set aside
    made.replace(target)
