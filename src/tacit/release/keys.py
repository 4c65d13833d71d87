"""The owner's keys: how they are read, where they lie, and which noise is drawn under them.

**Noise belongs to one bundle.** Two releases of a record under one draw can be solved for the record:
2 (c + n) - (c + 2 n) = c. So what is drawn is a function of everything that decides what it is added to. The filter
that wrote the bundle draws the same, and a proof under its key says so: only with it are the draws the filter's.

**Keys lie in a folder of their own**, never next to what is handed over. A key is named by the bundle that it belongs
to, and is written before that bundle gets its name: wherever a run is stopped, every bundle there has its own key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import write_whole
from tacit.noise.keyed import Noise


class Key(bytes):
    """The bytes of a key, which no message, log or traceback shows."""

    def __repr__(self) -> str:
        return "Key(***)"

    __str__ = __repr__


def read_key(key: bytes | str | Path, option: str = "noise_key") -> Key:
    """A key of the owner: 16 to 64 bytes, or a file that holds them as hexadecimal text.

    Text that names no file is never repeated in a message: it may be the key itself.
    """
    if isinstance(key, bytes):
        found = Key(key)
    else:
        make = "make one with: tacit release key noise FILE"
        try:
            text = Path(key).read_text()
        except OSError as error:
            raise InputError(f"{option}: there is no such file ({type(error).__name__}); pass the bytes of the key, or "
                             f"the path of a file that holds it ({make})") from None  # fmt: skip
        except ValueError:
            text = "not text"
        try:
            found = Key.fromhex(text.strip())
        except ValueError:
            raise InputError(f"{option}: the file does not hold a key as hexadecimal text; {make}") from None
    if not 16 <= len(found) <= 64:
        raise InputError(f"{option} must have 16 to 64 bytes; found {len(found)}")
    if not any(found):
        raise InputError(f"{option} is all zero, which is no secret; make one with: tacit release key noise FILE")
    return found


# -- which noise is drawn ---------------------------------------------------------------------------


def binding(manifest: Mapping[str, Any], model_sha256: str, encoder_sha256: str) -> bytes:
    """A hash of what is run: the graphs, their noise and what goes in."""
    noise = {name: value for name, value in manifest["noise"].items() if name != "proof"}
    what = json.dumps([model_sha256, encoder_sha256, noise, manifest["input"]], sort_keys=True, allow_nan=False)
    return hashlib.blake2b(what.encode(), digest_size=32, person=b"tacit bundle").digest()


def proof(key: bytes, bound: bytes) -> str:
    """What only a holder of the key can write: that this bundle is the filter's of this key."""
    # `person` keeps it apart from the keys that noise is drawn under, which are made of the same key
    return hashlib.blake2b(bound, key=key, digest_size=32, person=b"tacit proof").hexdigest()


def is_key_of_fit(manifest: Mapping[str, Any], key: bytes) -> bool:
    """Whether this is the key of the filter that wrote the bundle, by the proof in the manifest."""
    return hmac.compare_digest(manifest["noise"]["proof"], proof(key, _bound(manifest)))


def bound_noise(noise: Noise, manifest: Mapping[str, Any], key: bytes) -> Noise:
    """The noise as it is drawn under this key: the filter's own, where it proves so; else the bundle's own."""
    return noise if is_key_of_fit(manifest, key) else replace(noise, mechanism=_bound(manifest))


def _bound(manifest: Mapping[str, Any]) -> bytes:
    members = manifest["members"]
    return binding(manifest, members["model.onnx"]["sha256"], members["encoder.onnx"]["sha256"])


# -- where keys lie ---------------------------------------------------------------------------------


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


def write_keys(folder: Path, manifest: Mapping[str, Any], **keys: bytes | None) -> None:
    """Write keys of a bundle that has no name yet, by kind, readable by their owner alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for kind, key in keys.items():
        if key is not None:
            write_whole(key_path(folder, manifest, kind), key.hex(), private=True)


def key_path(folder: Path, manifest: Mapping[str, Any], kind: str) -> Path:
    """Where the key of a bundle lies, by kind (noise or owner)."""
    # the sketch of the rows is made with a fresh key at every fit: no two fits have one identity; signing keeps it
    told: list[Any] = [manifest["members"]["model.onnx"]["sha256"], manifest["sketch"]]
    identity = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
    return folder / f"{identity}.{kind}.key"


def own_key(bundle: Path, folder: Path, kind: str) -> Path | None:
    """Find the key of a bundle in a folder of keys; None where it is not there."""
    from tacit.release.bundle import read_manifest  # which needs this module

    place = key_path(folder, read_manifest(bundle), kind)
    return place if place.exists() else None
