"""Whose records a release was of: fingerprints under the ledger's key, never values.

A release is remembered as pairs of 64-bit numbers, (person, record). Without the key they are random numbers; with it,
the owner can tell that the same person, or the very same record, was released before. They lie beside the ledger in
files that are named by their hash, which the ledger's line holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.files import write_whole
from tacit.ledger.chain import LedgerError
from tacit.noise.keyed import unit_name

NOBODY = np.empty((0, 2), dtype="<u8")


def people_of(prints: np.ndarray, units: Sequence[Any] | None, key: bytes) -> np.ndarray:
    """(n, 2) sorted pairs of person and record; a record without a unit is a person of its own.

    Parameters
    ----------
    prints : (n,) hashes of records (`tacit.load(...).prints`)
    units : whose record each is
    key : the ledger's `secret`

    Examples
    --------
    >>> len(people_of(np.array([7, 7, 9, 9], dtype="<u8"), ["a", "b", "a", "a"], b"k"))
    3
    """
    record = _keyed([p.tobytes() for p in prints], key, b"tacit record")
    person = record if units is None else _keyed([unit_name(u) for u in units], key, b"tacit person")
    return joined([np.column_stack([person, record])])


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """All pairs of several parts, each once."""
    return np.unique(np.concatenate([NOBODY, *parts]), axis=0)


def write_people(folder: Path, pairs: np.ndarray, by_unit: bool) -> dict[str, Any]:
    """Keep the pairs, and what a ledger's line says of them; without units, people are told apart by their records."""
    data = np.ascontiguousarray(pairs, dtype="<u8").tobytes()
    name = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).exists():
        write_whole(folder / name, data, private=True)
    by = "unit" if by_unit else "record"
    return {"count": len(np.unique(pairs[:, 0])), "records": len(pairs), "prints": name, "by": by}


def read_people(folder: Path, told: Mapping[str, Any] | None) -> np.ndarray | None:
    """The pairs that a line tells of; None where it does not know whose records they are.

    Another bundle reads other columns, so the same person without a unit has another fingerprint there.
    """
    return None if told is None or told["by"] != "unit" else read_prints(folder, told)


def read_prints(folder: Path, told: Mapping[str, Any]) -> np.ndarray:
    """The pairs that a line tells of, whoever they are."""
    name = str(told["prints"])
    try:
        data = (folder / Path(name).name).read_bytes()
    except OSError as error:
        raise LedgerError(f"the fingerprints {name[:16]}... of a line are gone from {folder.name} ({error})") from None
    if hashlib.sha256(data).hexdigest() != name or len(data) % 16:
        raise LedgerError(f"the fingerprints {name[:16]}... in {folder.name} were edited")
    return np.frombuffer(data, dtype="<u8").reshape(-1, 2)


def _keyed(values: Sequence[bytes], key: bytes, purpose: bytes) -> np.ndarray:
    known = {v: hashlib.blake2b(v, digest_size=8, key=key, person=purpose).digest() for v in set(values)}
    return np.frombuffer(b"".join(known[v] for v in values), dtype="<u8")
