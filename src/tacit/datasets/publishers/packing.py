"""`prepare`: a publisher's own files -> what `tacit.load_dataset` reads."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tacit.datasets.publishers import (
    celeba_files,
    emodb_files,
    enterface_files,
    facescrub_files,
    fer2013_files,
    genki_files,
    har_files,
    mimic_files,
    motion_files,
    open_tables,
    pgm_faces,
)
from tacit.datasets.publishers.pack import Pack
from tacit.datasets.publishers.source import Source
from tacit.datasets.store import cache_folder
from tacit.errors import InputError
from tacit.files import replacing

PUBLISHERS: dict[str, Callable[[Source], Pack]] = {
    "adult": open_tables.pack_adult,
    "celeba": celeba_files.pack_celeba,
    "cmu_faces": pgm_faces.pack_cmu,
    "emodb": emodb_files.pack_emodb,
    "enterface": enterface_files.pack_enterface,
    "facescrub": facescrub_files.pack_facescrub,
    "fer_plus": fer2013_files.pack_fer2013,
    "genki": genki_files.pack_genki,
    "genki4k": genki_files.pack_genki4k,
    "mimic3": mimic_files.pack_mimic,
    "mimic_demo": open_tables.pack_mimic_demo,
    "mnist": open_tables.pack_mnist,
    "motionsense": motion_files.pack_motionsense,
    "orl_faces": pgm_faces.pack_orl,
    "titanic": open_tables.pack_titanic,
    "uci_har": har_files.pack_har,
}
OTHER_NAMES = {
    "att_faces": "orl_faces", "cmu": "cmu_faces", "emo_db": "emodb", "fer2013": "fer_plus", "ferplus": "fer_plus",
    "har": "uci_har", "mimic": "mimic3", "mimiciii": "mimic3", "olivetti": "orl_faces", "orl": "orl_faces",
}  # fmt: skip


@dataclass(frozen=True)
class Prepared:
    """What was written, where, and what is in it."""

    name: str
    folder: Path
    files: tuple[str, ...]
    rows: str
    notes: tuple[str, ...]


def prepare(name: str, folder: str | Path, out: str | Path | None = None) -> Prepared:
    """Pack a publisher's own files into what ``tacit.load_dataset`` reads.

    Parameters
    ----------
    name : of the data set, as ``tacit data list`` has it
    folder : what the publisher hands out: a folder (or the one above it), or the zip or tar file as it is
    out : where to write; the folder of TACIT_DATA by default, else the cache

    Every file is whole or not there. Damaged files are errors that name file and line.
    """
    known = OTHER_NAMES.get(name.lower().replace("-", "_"), name.lower().replace("-", "_"))
    if known not in PUBLISHERS:
        near = difflib.get_close_matches(known, [*PUBLISHERS, *OTHER_NAMES], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"no publisher's files are known of {name!r}; {hint}The names are {', '.join(sorted(PUBLISHERS))}"
        )
    root = Path(out) if out is not None else Path(os.environ.get("TACIT_DATA") or cache_folder())
    with Source(folder, known) as source:
        pack = PUBLISHERS[known](source)
        try:
            for relative, write in pack.files.items():
                _write(root / relative, write)
        except OSError as error:
            raise InputError(
                f"{root} cannot be written to ({error.strerror or error}); pass --out with another folder, and set "
                f"TACIT_DATA to it"
            ) from None
    return Prepared(known, root, tuple(pack.files), pack.rows, tuple(pack.notes))


def _write(path: Path, write: Callable[[Path], None]) -> None:
    if path.suffix:
        with replacing(path) as partial:
            write(partial)
        return
    partial, old = (path.with_name(f".{path.name}.{os.getpid()}.{what}") for what in ("part", "old"))
    try:
        partial.mkdir(parents=True)
        write(partial)
        if path.exists():
            path.rename(old)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
