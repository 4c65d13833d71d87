"""What a reader of a publisher's files hands over: what to write, and what to tell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Writer = Callable[[Path], None]


@dataclass
class Pack:
    """Files to be written below TACIT_DATA, by their paths there; what is in them; what was left out."""

    rows: str
    files: dict[str, Writer]
    notes: list[str] = field(default_factory=list)


def npz(**arrays: Any) -> Writer:
    """An npz file of these arrays; never a pickle."""

    def write(path: Path) -> None:
        np.savez_compressed(path, allow_pickle=False, **{k: np.asarray(v) for k, v in arrays.items()})

    return write


def csv_gz(table: pd.DataFrame) -> Writer:
    return lambda path: table.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})


def same_files(files: Sequence[tuple[Path, str]]) -> Writer:
    """A folder with these files under these names: linked where the disk is the same, else copied."""

    def write(folder: Path) -> None:
        for source, name in files:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source.resolve(), target)
            except OSError:
                shutil.copyfile(source, target)

    return write


def counted(values: Sequence[Any] | np.ndarray | pd.Series, most: int = 12) -> str:
    """How often each value occurs: "train 3, test 2"; only how many there are where they are many.

    Examples
    --------
    >>> counted(["train", "test", "train"])
    'train 2, test 1'
    """
    counts = pd.Series(values).value_counts()
    if len(counts) > most:
        return f"{len(counts):,} different"
    return ", ".join(f"{k} {v:,}" for k, v in counts.items())
