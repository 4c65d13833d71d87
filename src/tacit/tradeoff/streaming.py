"""Training rows that do not fit in memory: a Parquet file, encoded once into a file of numbers that is mapped.

The file is read a few thousand rows at a time; what stays in memory is the labels and eight bytes a row. Mini-batches
are then drawn from the mapped file by the operating system, page by page, in the same shuffled order as in memory:
a filter trained so is the filter it would have been in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.filters.base import Filter, Problem, classes_of, draw_seed, refuse_numbers
from tacit.filters.notes import note_dependence
from tacit.labels import Labels, as_said, encode_labels
from tacit.records.dataset import Dataset
from tacit.records.encoding import make_encoder
from tacit.records.fingerprints import Memory, fingerprints
from tacit.records.intake import check_records, learn_intake
from tacit.records.people import Crowd

AT_ONCE = 50_000  # rows in memory
SAMPLE = 200_000  # rows that scales, categories and reference curves are learned from


@dataclass(frozen=True)
class StreamedTable:
    """A Parquet file as training rows: see `stream`."""

    numbers: Path
    sample: Dataset
    targets: Labels
    sensitive: Labels
    known: np.ndarray  # fingerprints, sorted
    identity: str

    def __len__(self) -> int:
        return len(self.known)

    def prepare(self, f: Filter) -> Problem:
        """What `prepare` does, with the records left in their file."""
        checked = check_records(f, self.sample.X, None)
        for labels, what in ((self.targets, "y"), (self.sensitive, "sensitive_features")):
            refuse_numbers(f, labels, what)
        f.notes_ = []
        note_dependence(f, self.targets, self.sensitive)
        intake = learn_intake(f, checked, Crowd(len(checked)), False, None)
        # "c": pages are read when asked for, and never written back
        X = np.load(self.numbers, mmap_mode="c")
        known: Any = {"schema": intake, "memory": Memory(self.known), "classes": classes_of(self.sensitive)}
        return Problem(X, self.targets, self.sensitive, None, draw_seed(f), **known)


def stream(path: str | Path, like: Dataset, folder: Path) -> StreamedTable:
    """Encode a Parquet file with the columns of `like` into `folder`.

    Parameters
    ----------
    path : the Parquet file: the inputs, targets and sensitive attributes of `like`, by name; other columns are not read
    like : another part of the same table (`attack`)
    folder : where the encoded numbers are written: four bytes for each number of each row
    """
    import pyarrow.parquet as pq  # not loaded by `import tacit`

    path = Path(path)
    if not path.exists():
        raise InputError(f"no file {path}; check the path")
    if not isinstance(like.X, pd.DataFrame) or like.units is not None:
        raise InputError("a Parquet file can be streamed for tables without units; pass `train` as a Dataset instead")
    sides = [list(map(str, frame.columns)) for frame in (like.X, like.y, like.sensitive)]
    file = pq.ParquetFile(path)
    missing = [c for side in sides for c in side if c not in file.schema_arrow.names]
    if missing:
        raise InputError(f"{path.name} has no column {missing[0]!r}; its columns are {file.schema_arrow.names}")
    sample = _sample(file, sides, like.name)
    encoder: Any = make_encoder(sample.X, Crowd(len(sample)))
    numbers = folder / "train.npy"
    n = file.metadata.num_rows
    width = encoder.transform(sample.X.iloc[:2]).shape[1]
    out = np.lib.format.open_memmap(numbers, mode="w+", dtype=np.float32, shape=(n, width))
    labels: list[list[pd.DataFrame]] = [[], []]
    known, at, identity = [], 0, hashlib.sha256()
    for X, *rest in _parts(file, sides):
        out[at : at + len(X)] = encoder.transform(X)
        at += len(X)
        known.append(fingerprints(X))
        identity.update(known[-1].tobytes())
        for held, frame in zip(labels, rest, strict=True):
            held.append(frame)
            identity.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    out.flush()
    targets, sensitive = (
        encode_labels(as_said(pd.concat(held, ignore_index=True), _numbers(like), what), what, n, numbers=True)
        for held, what in zip(labels, ("y", "sensitive_features"), strict=True)
    )
    return StreamedTable(numbers, sample, targets, sensitive, np.sort(np.concatenate(known)), identity.hexdigest())


def _numbers(like: Dataset) -> dict[str, bool]:
    """By label column whether it is a number, as in another part of the same table."""
    return {c: like.is_number(c) for c in (*like.y.columns, *like.sensitive.columns)}


def _parts(file: Any, sides: Sequence[list[str]]) -> Iterator[list[pd.DataFrame]]:
    """Inputs, targets and sensitive attributes of a few rows at a time, in the order of the file."""
    for batch in file.iter_batches(AT_ONCE, columns=[c for side in sides for c in side]):
        table = batch.to_pandas()
        yield [table[side].reset_index(drop=True) for side in sides]


def _sample(file: Any, sides: Sequence[list[str]], name: str | None) -> Dataset:
    """Rows from all over the file: the same share of every part."""
    n = file.metadata.num_rows
    rng = np.random.default_rng(0)
    kept: list[list[pd.DataFrame]] = []
    for parts in _parts(file, sides):
        size = len(parts[0])
        some = np.sort(rng.permutation(size)[: -(-size * SAMPLE // n)]) if n > SAMPLE else np.arange(size)
        kept.append([part.iloc[some] for part in parts])
    X, y, s = (pd.concat(held, ignore_index=True) for held in zip(*kept, strict=True))
    return Dataset(X, y, s, name=name)
