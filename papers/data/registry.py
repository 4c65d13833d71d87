"""What each data set is called, where its files lie, and how a publisher's own files become them."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.datasets.registry import register as register_dataset
from tacit.errors import InputError
from tacit.files import replacing
from tacit.records.dataset import Dataset

# What a publisher's files become: a table, or the arrays of an npz file, by path below TACIT_DATA.
Packed = dict[str, pd.DataFrame | dict[str, Any]]


class Folder:
    """Files that a publisher hands out, found by the end of their path, whatever the case and at any depth."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = sorted(p for p in root.rglob("*") if p.is_file() and not p.name.startswith("."))

    def find(self, *ends: str) -> Path | None:
        """The file whose path ends in one of these (.gz may follow); the first wish, and the highest folder, wins."""
        for end in ends:
            found = [
                p for p in self.files if f"/{p.as_posix()}".lower().removesuffix(".gz").endswith(f"/{end.lower()}")
            ]
            if found:
                return min(found, key=lambda p: (len(p.parts), p))
        return None

    def need(self, *ends: str) -> Path:
        """As `find`; an error where there is none."""
        found = self.find(*ends)
        if found is None:
            raise InputError(f"{self.root} has no file {' or '.join(ends)}")
        return found

    def matches(self, form: str) -> list[tuple[Path, re.Match[str]]]:
        """Every file whose path has this form; an error where there is none."""
        found = [(p, m) for p in self.files if (m := re.search(form, p.as_posix(), re.IGNORECASE))]
        if not found:
            raise InputError(f"{self.root} has no file whose path has the form {form}")
        return found


@dataclass(frozen=True)
class Known:
    """Which files below TACIT_DATA (or in the cache) a data set reads, and where they come from."""

    files: tuple[str, ...]
    where: str
    prepare: Callable[[Folder], Packed] | None

    @property
    def present(self) -> bool:
        return all(locate(file) is not None for file in self.files)


REGISTRY: dict[str, Known] = {}


def dataset(
    where: str, *files: str, prepare: Callable[[Folder], Packed] | None = None
) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Let `tacit.load_dataset` find the decorated loader; `where` says what to ask the publisher for."""

    def register(load: Callable[..., Dataset]) -> Callable[..., Dataset]:
        REGISTRY[load.__name__] = Known(files, where, prepare)
        return register_dataset(load)

    return register


def locate(relative: str) -> Path | None:
    """The path of a file or folder in TACIT_DATA or in the cache, or None."""
    for root in _roots():
        for name in (relative, relative.removesuffix(".gz")):  # a table that was unpacked serves as well
            if (root / name).exists():
                return root / name
    return None


def require(relative: str, where: str) -> Path:
    """The file's path, or an error that says where to get it and where to put it."""
    found = locate(relative)
    if found is None:
        raise InputError(f"data file {relative} is not here. Get {where}. papers/README.md says how to prepare it; "
                         f"it belongs in a folder that the environment variable TACIT_DATA names")  # fmt: skip
    return found


def prepare(name: str, folder: str | Path, out: str | Path | None = None) -> list[Path]:
    """Pack a publisher's own files (a folder, or an archive as it is) into the files that `load_dataset` reads.

    Parameters
    ----------
    name : of the data set
    folder : what the publisher hands out; archives in it are unpacked into a temporary folder
    out : where to write; the folder of TACIT_DATA by default, else the cache
    """
    known = REGISTRY.get(name)
    if known is None or known.prepare is None:
        able = ", ".join(sorted(n for n, k in REGISTRY.items() if k.prepare))
        raise InputError(f"{name} is not a data set that is prepared; those are {able}")
    root, written = Path(out) if out else _roots()[0], []
    with _unpacked(Path(folder)) as home:
        for relative, content in known.prepare(Folder(home)).items():
            written.append(root / relative)
            with replacing(root / relative) as partial:
                if isinstance(content, pd.DataFrame):
                    packing = {"method": "gzip", "mtime": 0} if relative.endswith(".gz") else None
                    content.to_csv(partial, index=False, compression=packing)
                else:
                    np.savez_compressed(partial, allow_pickle=False, **content)
    return written


def pick_labels(
    name: str, labels: Any, target: str | Sequence[str], sensitive: str | Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labels to keep and those to hide, as a caller asked for them by name."""
    table = pd.DataFrame(labels)
    chosen = [[w] if isinstance(w, str) else list(w) for w in (target, sensitive)]
    for word in (*chosen[0], *chosen[1]):
        if word not in table:
            raise InputError(f"{name} has the labels {', '.join(map(str, table.columns))}; found {word!r}")
    return table[chosen[0]], table[chosen[1]]


def _roots() -> list[Path]:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("TACIT_CACHE") or Path(home) / "tacit")
    return [Path(os.environ["TACIT_DATA"]), cache] if os.environ.get("TACIT_DATA") else [cache]


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The folder itself, or a temporary one where there are archives, with what is in them beside its files."""
    if not path.exists():
        raise InputError(f"no folder or file {path}")
    endings = tuple(e for _, all_of, _ in shutil.get_unpack_formats() for e in all_of)
    archives = [p for p in ([path] if path.is_file() else sorted(path.rglob("*"))) if p.name.lower().endswith(endings)]
    if path.is_dir() and not archives:
        yield path
        return
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        for file in [path] if path.is_file() else (p for p in path.rglob("*") if p.is_file() and p not in archives):
            if file not in archives:
                target = home / file.relative_to(path if path.is_dir() else path.parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(file.resolve())
        for depth in range(2):  # an archive in an archive, as UCI hands its sets out
            for i, archive in enumerate(archives):
                try:
                    shutil.unpack_archive(archive, home / f"{depth}-{i}", **_safely(archive))
                except (shutil.ReadError, tarfile.TarError, OSError, EOFError, ValueError) as error:
                    raise InputError(f"{archive} cannot be unpacked ({error}); fetch it again") from error
            archives = [p for p in home.glob(f"{depth}-*/**/*") if p.is_file() and p.name.lower().endswith(endings)]
        yield home


def _safely(archive: Path) -> dict[str, Any]:
    """Of tar files only what stays below the folder; zip files are unpacked so anyway."""
    return {} if archive.name.lower().endswith(".zip") else {"filter": "data"}
