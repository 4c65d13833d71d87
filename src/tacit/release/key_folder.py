"""Where the owner's keys lie: in a folder of their own, never beside what is handed over.

A key is called by the bundle that it belongs to, and is written before that bundle gets its name. So wherever a run is
stopped, the bundle that is there has its own key, and an earlier bundle still has the one that it was released with.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import write_whole
from tacit.release.bundle import Bundle, read_bundle


def key_folder(place: str | Path, asked: str | Path | None = None) -> Path:
    """The folder for the keys of what is handed over at `place`, a folder or NAME.tacit; beside it unless asked for.

    Examples
    --------
    >>> key_folder("/srv/handover").name, key_folder("/srv/digits.tacit").name
    ('handover-keys', 'digits-keys')
    """
    place = Path(place) if Path(place).name not in ("", "..") else Path(os.path.abspath(place))
    folder = place.with_name(f"{place.name.removesuffix('.tacit')}-keys") if asked is None else Path(asked)
    handed_over = place.parent if place.suffix == ".tacit" else place
    real = folder.resolve()
    if handed_over.resolve() == real or (place.suffix != ".tacit" and handed_over.resolve() in real.parents):
        raise InputError(f"{folder} is handed over with {place.name}, and keys never are; name another folder (--keys)")
    return folder


def write_keys(folder: Path, bundle: str | Path, **keys: bytes | None) -> None:
    """Write keys of a bundle that has no name yet, by kind, readable by their owner alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = read_bundle(bundle)
    for kind, key in keys.items():
        if key is not None:
            write_whole(key_path(folder, found, kind), key.hex(), private=True)


def key_path(folder: Path, bundle: Bundle, kind: str) -> Path:
    """Where the key of a bundle lies, by kind (noise or owner)."""
    # the sketch of the rows is made with a fresh key at every fit: no two fits have one identity; signing keeps it
    told: list[Any] = [bundle.manifest["members"]["model.onnx"]["sha256"], bundle.manifest.get("sketch")]
    identity = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
    return folder / f"{identity}.{kind}.key"
