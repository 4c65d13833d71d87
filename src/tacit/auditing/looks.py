"""How often certificates were made on the same rows: whoever tries releases until one looks good must pay for it.

A certificate fails with probability delta when its release was fixed beforehand. Refitting until the report looks good
on the same rows breaks that: after 50 tries 24 % of the best-looking certificates were false. So looks are counted. The
t-th release that is certified on (mostly) the same rows gets delta_t = 6 delta / (pi^2 t^2); these sum to delta, so all
certificates of a project hold together, however many are made and whichever is kept. Auditing the same release again
is the same look.

Looks are kept in `.tacit/looks.json` of the project: the nearest folder upwards that has a `.tacit`, else the current
one. The environment variable TACIT_LOOKS names another file. It holds keyed hashes alone, readable by its owner only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.cores import environment
from tacit.errors import InputError
from tacit.files import write_whole
from tacit.records.dataset import Dataset
from tacit.records.fingerprints import fingerprints

SKETCH = 256  # hashes kept of a part's rows: enough to see an overlap of a few percent
NAMES = 2**18  # that are hashed at a time
OVERLAP = 0.2  # of two sets of rows, above which a certificate on one is a look at the other
_memory: dict[str, Any] = {}  # where no file can be written: looks of this process


def count_look(attack: Dataset, test: Dataset, release: bytes) -> int:
    """Which look at these rows this is: 1 for the first release that is certified on them.

    Parameters
    ----------
    attack, test : the rows that certificates are counted on
    release : digest of what was released (`release_digest`), or of settings that fix it
    """
    return _count(lambda salt: _sketch(attack, test, salt), release)


def count_look_at(names: Any, release: bytes) -> int:
    """The same of rows that are known by the names of their units alone."""
    return _count(lambda salt: _sketch_names(names, salt), release)


def _count(sketch: Callable[[bytes], list[int]], release: bytes) -> int:
    with _looks() as kept:
        salt = bytes.fromhex(kept.setdefault("salt", secrets.token_hex(16)))
        rows, name = sketch(salt), hashlib.blake2b(release, key=salt, digest_size=16).hexdigest()
        parts = kept.setdefault("parts", [])
        alike = [p for p in parts if overlap(p["rows"], rows) >= OVERLAP]
        known = [p["looks"][name] for p in alike if name in p["looks"]]
        if known:
            return int(min(known))
        look = 1 + sum(len(p["looks"]) for p in alike)
        own = next((p for p in alike if p["rows"] == rows), None)
        if own is None:
            own = {"rows": rows, "looks": {}}
            parts.append(own)
        own["looks"][name] = look
        return look


@contextlib.contextmanager
def new_project() -> Iterator[None]:
    """Looks that begin anew inside, and are forgotten after.

    For benchmarks and experiments, whose releases are all fixed beforehand: each of their certificates holds by itself.
    """
    with tempfile.TemporaryDirectory() as folder, environment("TACIT_LOOKS", str(Path(folder) / "looks.json")):
        yield


def release_digest(*parts: Any) -> bytes:
    """A digest of released arrays and tables; equal for equal releases."""
    digest = hashlib.blake2b(digest_size=32)
    for Z in parts:
        if isinstance(Z, pd.DataFrame):
            digest.update(repr(list(Z.columns)).encode())
            digest.update(pd.util.hash_pandas_object(Z.astype(str), index=False).to_numpy().tobytes())
        else:
            array = np.ascontiguousarray(Z)
            digest.update(f"{array.shape} {array.dtype}".encode())
            digest.update(array.astype(str).tobytes() if array.dtype == object else array.tobytes())
    return digest.digest()


def overlap(a: list[int], b: list[int]) -> float:
    """The share of two sets' union that is in both, estimated from the smallest hashes of each."""
    smallest = np.union1d(a, b)[:SKETCH]
    return float(np.isin(smallest, np.intersect1d(a, b)).mean()) if len(smallest) else 0.0


def looks_file() -> Path:
    """Where the looks of this project are kept."""
    if named := os.environ.get("TACIT_LOOKS"):
        return Path(named)
    here = Path.cwd()
    project = next((p for p in (here, *here.parents) if (p / ".tacit").is_dir()), here)
    return project / ".tacit" / "looks.json"


def _sketch(attack: Dataset, test: Dataset, salt: bytes) -> list[int]:
    rows = np.unique(np.concatenate([fingerprints(d.X) for d in (attack, test)]))
    mixed = [int.from_bytes(hashlib.blake2b(r.tobytes(), key=salt, digest_size=6).digest(), "little") for r in rows]
    return sorted(mixed)[:SKETCH]


def _sketch_names(names: Any, salt: bytes) -> list[int]:
    smallest = np.empty(0, dtype=np.uint64)
    for start in range(0, len(names), NAMES):
        texts = np.asarray(names[start : start + NAMES]).astype(str).astype(object)
        mixed = pd.util.hash_array(texts, hash_key=salt.hex()[:16], categorize=False) >> np.uint64(16)
        smallest = np.unique(np.concatenate([smallest, mixed]))[:SKETCH]
    return smallest.tolist()


@contextlib.contextmanager
def _looks() -> Iterator[dict[str, Any]]:
    """The looks so far, to be changed; written back whole, by one process at a time."""
    path = looks_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name("looks.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        yield _memory
        return
    try:
        with contextlib.suppress(ImportError):  # Windows has no such lock
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            kept = json.loads(path.read_text()) if path.exists() else {}
        except ValueError:
            raise InputError(
                f"{path} is damaged, so it is not known how often these rows were looked at; restore it, or certify "
                f"on new rows"
            ) from None
        yield kept
        write_whole(path, json.dumps(kept), private=True)
    finally:
        os.close(lock)
