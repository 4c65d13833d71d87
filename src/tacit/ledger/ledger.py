"""The ledger: an append-only file with one JSON line per release, chained by hashes.

A line holds the hash of the line before it, so that none can be edited, removed or moved without breaking those after
it. The file is not signed: whoever may write it can also write it anew. Keep the last hash (the head) elsewhere, in
version control for instance; `Ledger.verify(head=...)` then detects a rewritten, shortened or older file.

Appending is one write under a lock of the operating system, and reaches the disk before the call returns. A process
that is killed while writing leaves an unfinished last line, which the next append cuts off.

A release is remembered as pairs of 64-bit numbers, (person, record): hashes under the ledger's key, never values. With
the key, the owner can recognise that the same person, or the same record, was released before. The pairs lie in a
folder beside the ledger, in files that are named by their hash, which the ledger's line holds.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError, TacitError
from tacit.files import locked, strict_json, write_whole
from tacit.noise.keyed import unit_name

START = "0" * 64
SHORT = 16  # digits of a hash that identify one line
KEY_VARIABLE = "TACIT_LEDGER_KEY"
NOBODY = np.empty((0, 2), dtype="<u8")


class LedgerError(TacitError, ValueError):
    """A ledger was edited, shortened or reordered; nothing may be added to it."""


@dataclass(frozen=True)
class Line:
    """One entry: its number from 0 on, the hash of the entry before it, its content, and its own hash."""

    number: int
    previous: str
    body: Mapping[str, Any]
    hash: str

    @property
    def kind(self) -> str:
        return str(self.body["kind"])


class Ledger:
    """What has been released, to whom, under which bound.

    Parameters
    ----------
    path : the file, ledger.jsonl
    key : the file of the key under which people are hashed; by default the environment variable TACIT_LEDGER_KEY
        names it, or it lies beside the ledger (ledger.key). It is needed to record a release, not to read

    Examples
    --------
    >>> import tempfile
    >>> ledger = Ledger.new(tempfile.mkdtemp() + "/ledger.jsonl")
    >>> ledger.append({"kind": "note", "text": "the first"}).number
    1
    >>> [line.kind for line in ledger.verify()]
    ['ledger', 'note']
    """

    def __init__(self, path: str | Path, key: str | Path | None = None) -> None:
        self.path = Path(path)
        self._key = Path(key or os.environ.get(KEY_VARIABLE) or self.path.with_suffix(".key"))

    @classmethod
    def new(cls, path: str | Path, key: str | Path | None = None) -> Ledger:
        """Begin a ledger; its key is made where it does not exist yet."""
        ledger = cls(path, key)
        if ledger.path.exists():
            raise InputError(f"{path} exists; a ledger is never begun anew. Append to it, or choose another name")
        for place in (ledger.path, ledger._key):
            place.parent.mkdir(parents=True, exist_ok=True)
        if not ledger._key.exists():
            write_whole(ledger._key, secrets.token_hex(32) + "\n", private=True)
        write_whole(ledger.path, _text(_line(0, START, {"kind": "ledger", "format": 1, "key": ledger._key_hash()})))
        return ledger

    @property
    def secret(self) -> bytes:
        """The key under which people are hashed; raises where it is absent or belongs to another ledger."""
        if not self._key.exists():
            raise InputError(f"there is no key {self._key}; pass --ledger-key FILE, or set {KEY_VARIABLE}")
        if self._key_hash() != self.verify()[0].body["key"]:
            raise InputError(f"{self._key} is not the key of {self.path.name}; people would not be recognised under it")
        return self._key.read_bytes().strip()[:64]

    @property
    def folder(self) -> Path:
        """Where the hashes of people lie, beside the ledger."""
        return self.path.with_name(self.path.name + ".people")

    def append(self, body: Mapping[str, Any], admit: Callable[[list[Line]], Mapping[str, Any]] | None = None) -> Line:
        """Add a line; it is on the disk when this returns.

        Parameters
        ----------
        body : plain data with a "kind"; "when" is added
        admit : called with the existing lines, while nobody else can append; raises to refuse, and returns what is to
            be added to the body
        """
        self._check_there()
        with locked(self.path.with_name(self.path.name + ".lock")), self.path.open("r+b") as file:
            lines, end = self._read(file.read())
            line = _line(len(lines), lines[-1].hash, {**body, **(admit(lines) if admit is not None else {})})
            file.seek(end)
            file.truncate()  # the unfinished line of a killed process
            file.write(_text(line))
            file.flush()
            os.fsync(file.fileno())
            return line

    def verify(self, head: str | None = None) -> list[Line]:
        """Return every line; raise `LedgerError` unless the chain is whole.

        Parameters
        ----------
        head : the last line's hash at an earlier time, or its first 16 digits or more: a line must have it
        """
        if head is not None and len(head) < SHORT:
            raise InputError(f"a head has at least {SHORT} digits; found {head!r}, which many lines fit")
        self._check_there()
        lines, _ = self._read(self.path.read_bytes())
        if head is not None and not any(line.hash.startswith(head) for line in lines):
            raise LedgerError(f"{self.path.name} has no line with the hash {head}: it is an older or another file")
        return lines

    def _check_there(self) -> None:
        if not self.path.exists():
            raise InputError(f"there is no ledger {self.path}; begin one with: tacit ledger new {self.path.name}")

    def _read(self, data: bytes) -> tuple[list[Line], int]:
        """Return the lines, checked, and where the last whole one ends."""
        end = data.rfind(b"\n") + 1
        lines: list[Line] = []
        for number, text in enumerate(data[:end].splitlines()):
            try:
                line = Line(**strict_json(text))
                good = line.hash == _hash(line.number, line.previous, line.body)
            except (ValueError, TypeError, KeyError):
                good = False
            if not good:
                raise LedgerError(f"{self.path.name}, line {number + 1} was edited or damaged")
            if line.number != number or line.previous != (lines[-1].hash if lines else START):
                raise LedgerError(f"{self.path.name}, line {number + 1} does not follow the line before it")
            lines.append(line)
        if not lines or lines[0].kind != "ledger":
            raise LedgerError(f"{self.path.name} does not begin as a ledger does")
        return lines, end

    def _key_hash(self) -> str:
        return hashlib.blake2b(self._key.read_bytes().strip(), digest_size=16, person=b"tacit ledger").hexdigest()


def _line(number: int, previous: str, body: Mapping[str, Any]) -> Line:
    body = {**body, "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    return Line(number, previous, body, _hash(number, previous, body))


def _text(line: Line) -> bytes:
    return json.dumps(asdict(line), allow_nan=False).encode() + b"\n"


def _hash(number: int, previous: str, body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([number, previous, body], sort_keys=True, allow_nan=False).encode()).hexdigest()


# -- people ---------------------------------------------------------------------------------------


def people_of(prints: np.ndarray, units: Sequence[Any] | None, key: bytes) -> np.ndarray:
    """Return (n, 2) sorted pairs of person and record; without units each record is a person of its own.

    Parameters
    ----------
    prints : (n,) hashes of records (`tacit.load(...).prints`)
    units : the person of each record
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
    """Return all pairs of several parts, each once."""
    return np.unique(np.concatenate([NOBODY, *parts]), axis=0)


def write_people(folder: Path, pairs: np.ndarray, by_unit: bool) -> dict[str, Any]:
    """Store the pairs, and return what a ledger's line says of them."""
    data = np.ascontiguousarray(pairs, dtype="<u8").tobytes()
    name = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).exists():
        write_whole(folder / name, data, private=True)
    by = "unit" if by_unit else "record"
    return {"count": len(np.unique(pairs[:, 0])), "records": len(pairs), "prints": name, "by": by}


def read_people(folder: Path, stored: Mapping[str, Any]) -> np.ndarray:
    """Return the pairs that a line refers to."""
    name = str(stored["prints"])
    try:
        data = (folder / Path(name).name).read_bytes()
    except OSError as error:
        raise LedgerError(f"the people {name[:16]}... of a line are gone from {folder.name} ({error})") from None
    if hashlib.sha256(data).hexdigest() != name or len(data) % 16:
        raise LedgerError(f"the people {name[:16]}... in {folder.name} were edited")
    return np.frombuffer(data, dtype="<u8").reshape(-1, 2)


def _keyed(values: Sequence[bytes], key: bytes, purpose: bytes) -> np.ndarray:
    known = {v: hashlib.blake2b(v, digest_size=8, key=key, person=purpose).digest() for v in set(values)}
    return np.frombuffer(b"".join(known[v] for v in values), dtype="<u8")
