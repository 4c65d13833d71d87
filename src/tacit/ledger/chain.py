"""The ledger's file: one line of JSON for whatever happened, chained by hashes and signed, never rewritten.

A line holds the hash of the line before it, so that none can be edited, removed or moved without breaking those after
it; `ledger.jsonl.head` holds the signed number and hash of the last one, so that none can be cut off the end. Whoever
puts back an older copy of *both* files is found only by who remembers a later head: `verify(head=...)`.

Appending is one write under a lock of the operating system, and reaches the disk before the call returns. A process
that is killed while writing leaves an unfinished last line, which nobody was told of: it is taken for none and cut off
by the next append.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.errors import InputError, TacitError
from tacit.files import strict_json, write_whole
from tacit.release.signing import new_signing_key, raw_bytes, read_public_key, read_secret_key

PURPOSE = b"tacit ledger line 1\0"  # so that a signature made for something else does not count
HEAD = b"tacit ledger head 1\0"
NOTE = b"tacit ledger note 1\0"
START = "0" * 64
SHORT = 16  # digits of a hash that name one line
KEY_VARIABLE = "TACIT_LEDGER_KEY"


class LedgerError(TacitError, ValueError):
    """A ledger was edited, shortened or reordered, or is not signed by its key; nothing may be added to it."""


@dataclass(frozen=True)
class Line:
    """One entry: its number from 0 on, the hash of the entry before, what happened, by whom it was signed, its hash."""

    number: int
    previous: str
    body: Mapping[str, Any]
    signer: str
    hash: str

    @property
    def kind(self) -> str:
        return str(self.body["kind"])


class Ledger:
    """What has been released, to whom, under which bound.

    Parameters
    ----------
    path : the file, ledger.jsonl
    key : the secret key that signs lines (a file made by `tacit ledger new`); needed to append, not to read

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ledger = Ledger.new(f"{folder}/ledger.jsonl", f"{folder}/ledger.key")
    >>> ledger.append({"kind": "note", "text": "the first"}).number
    1
    >>> [line.kind for line in ledger.verify()]
    ['ledger', 'note']
    """

    def __init__(self, path: str | Path, key: str | Path | None = None) -> None:
        self.path = Path(path)
        self._key = None if key is None else read_secret_key(key)

    @classmethod
    def new(cls, path: str | Path, key: str | Path) -> Ledger:
        """Begin a ledger. A key pair is made where `key` is not there; its public half stands in the first line."""
        if Path(path).exists():
            raise InputError(f"{path} exists; a ledger is never begun anew. Append to it, or choose another name")
        if not Path(key).exists():
            Path(key).parent.mkdir(parents=True, exist_ok=True)
            new_signing_key(key)
        ledger = cls(path, key)
        ledger.path.parent.mkdir(parents=True, exist_ok=True)
        ledger.append({"kind": "ledger", "format": 1, "public_key": ledger.signer})
        return ledger

    @classmethod
    def open(cls, path: str | Path, key: str | Path | None = None) -> Ledger:
        """A ledger to append to: the key that was named, else of the environment, else the file beside it."""
        path = Path(path)
        if not path.exists():
            raise InputError(f"there is no ledger {path}; begin one with: tacit ledger new {path.name}")
        beside = path.with_suffix(".key")
        found = key or os.environ.get(KEY_VARIABLE) or (beside if beside.exists() else None)
        if found is None:
            raise InputError(
                f"{path.name} is signed, and no key was named; pass --ledger-key FILE, or set {KEY_VARIABLE}"
            )
        return cls(path, found)

    @property
    def secret(self) -> bytes:
        """What people are fingerprinted under: it follows from the signing key, and never leaves."""
        return hashlib.blake2b(self._secret_key().private_bytes_raw(), person=b"tacit people").digest()[:32]

    @property
    def signer(self) -> str:
        """The public half of the key, as text."""
        return raw_bytes(self._secret_key().public_key()).hex()

    @property
    def folder(self) -> Path:
        """Where the fingerprints of people lie, beside the ledger."""
        return self.path.with_name(self.path.name + ".people")

    def append(self, body: Mapping[str, Any], admit: Callable[[list[Line]], Mapping[str, Any]] | None = None) -> Line:
        """Add a line; it is on the disk when this returns.

        Parameters
        ----------
        body : plain data with a "kind"; "when" is added
        admit : called with the lines that are there, while nobody else can append; raises to refuse, and gives what
            is to be added to the body
        """
        key = self._secret_key()
        with self._locked() as file:
            lines, end = self._read(file)
            if not lines and body["kind"] != "ledger":
                raise InputError(f"{self.path.name} is not a ledger yet; begin one with: tacit ledger new")
            if lines and self.signer != lines[0].body["public_key"]:
                raise InputError(
                    f"this is not the key of {self.path.name}, which was begun with {lines[0].signer[:16]}...; pass "
                    f"its own (--ledger-key FILE, or {KEY_VARIABLE}). Nothing was written"
                )
            if _check_head(self.path, lines) < len(lines) - 1:
                self._write_head(lines[-1], key)  # which a killed process did not come to
            if admit is not None:
                body = {**body, **admit(lines)}
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            previous = lines[-1].hash if lines else START
            content: dict[str, Any] = {
                "number": len(lines),
                "previous": previous,
                "body": {**body, "when": now},
                "signer": self.signer,
            }
            digest = _hash(content)
            told = {**content, "hash": digest, "signature": key.sign(PURPOSE + bytes.fromhex(digest)).hex()}
            file.seek(end)
            file.truncate()  # what a killed process left
            file.write(json.dumps(told, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            line = Line(hash=digest, **content)
            self._write_head(line, key)
            return line

    def lines(self) -> list[Line]:
        """Every line, after the chain and every signature were checked."""
        return self.verify()

    def verify(self, public_key: str | Path | bytes | None = None, head: str | None = None) -> list[Line]:
        """Raise `LedgerError` unless every line is as it was written.

        Parameters
        ----------
        public_key : the ledger's own must be this one; without it the one in the first line is believed
        head : a hash that was told earlier, or its first 16 digits or more: a line must have it, so that an older
            copy is found out
        """
        if head is not None and len(head) < SHORT:
            raise InputError(f"a head is told by at least {SHORT} of its digits; found {head!r}, which many lines fit")
        if not self.path.exists():
            raise InputError(f"there is no ledger {self.path}; begin one with: tacit ledger new {self.path.name}")
        with self.path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # the file and its head belong together
            lines, _ = self._read(file)
            _check_head(self.path, lines)
        if not lines:
            raise LedgerError(f"{self.path.name} has no whole line; a ledger begins with the one that names its key")
        if public_key is not None and raw_bytes(read_public_key(public_key)).hex() != lines[0].body["public_key"]:
            raise LedgerError(f"{self.path.name} was begun with another key than {_called(public_key)}")
        if head is not None and not any(line.hash.startswith(head) for line in lines):
            raise LedgerError(
                f"{self.path.name} has no line with the hash {head}: it is an older copy, or another ledger"
            )
        return lines

    def _read(self, file: Any) -> tuple[list[Line], int]:
        """The lines, checked, and where the last whole one ends."""
        file.seek(0)
        data = file.read()
        end = data.rfind(b"\n") + 1
        lines: list[Line] = []
        for at, text in enumerate(data[:end].splitlines()):
            lines.append(_line(text, at, lines, self.path.name))
        return lines, end

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Any]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # freed when the process ends, however it ends
            yield file

    @property
    def _head(self) -> Path:
        return self.path.with_name(self.path.name + ".head")

    def _write_head(self, line: Line, key: Ed25519PrivateKey) -> None:
        told = {"number": line.number, "hash": line.hash}
        write_whole(self._head, json.dumps({**told, "signature": key.sign(HEAD + _message(told)).hex()}))

    def _secret_key(self) -> Ed25519PrivateKey:
        if self._key is None:
            raise InputError(f"{self.path.name} was opened to be read; open it with its key to append")
        return self._key


def sign_note(body: Mapping[str, Any], key: str | Path) -> dict[str, Any]:
    """A body that somebody takes on themselves: with their public key, and their signature of all the rest."""
    secret = read_secret_key(key)
    told = {**body, "officer": raw_bytes(secret.public_key()).hex()}
    return {**told, "officer_signature": secret.sign(NOTE + _message(told)).hex()}


def check_note(body: Mapping[str, Any], officers: Sequence[str | Path]) -> bool:
    """Whether the officer that a note names has signed it, and is one of the officers, where there are any."""
    told = {k: v for k, v in body.items() if k not in ("when", "officer_signature")}
    known = {raw_bytes(read_public_key(o)).hex() for o in officers}
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(body["officer"]))
        key.verify(bytes.fromhex(body["officer_signature"]), NOTE + _message(told))
    except (InvalidSignature, KeyError, TypeError, ValueError):
        return False
    return not known or body["officer"] in known


def _line(text: bytes, at: int, before: list[Line], name: str) -> Line:
    """One line of the file, checked against the one before it."""
    broken = f"{name}, line {at + 1}"
    try:
        told = strict_json(text)
        signature = bytes.fromhex(told.pop("signature"))
        found = Line(**told)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LedgerError(f"{broken} is not a line of a ledger; it was edited or damaged") from None
    content = {k: told[k] for k in ("number", "previous", "body", "signer")}
    if not isinstance(found.body, dict) or _hash(content) != found.hash:
        raise LedgerError(f"{broken} was edited: its hash is not that of what it says")
    if found.number != at or found.previous != (before[-1].hash if before else START):
        raise LedgerError(f"{broken} does not follow the line before it: a line was removed, added or moved")
    owner = str(before[0].body["public_key"]) if before else str(found.body.get("public_key"))
    if found.signer != owner:
        raise LedgerError(f"{broken} is signed by {found.signer[:16]}..., and the ledger's key is {owner[:16]}...")
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(owner)).verify(signature, PURPOSE + bytes.fromhex(found.hash))
    except (InvalidSignature, ValueError):
        raise LedgerError(f"{broken} is not signed by the ledger's key; it was edited") from None
    return found


def _check_head(path: Path, lines: list[Line]) -> int:
    """The number of the line that the head file tells of, which must be there; a killed process may have written one
    line more.
    """
    head = path.with_name(path.name + ".head")
    if not head.exists():
        if lines:
            raise LedgerError(
                f"{head.name} is gone: nobody can tell whether lines were cut off the end. If the ledger was only "
                f"just begun and the process was killed, delete {path.name} and begin it again"
            )
        return -1
    try:
        told = strict_json(head.read_bytes())
        signature = bytes.fromhex(told.pop("signature"))
        number = int(told["number"])
        if lines:
            owner = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(lines[0].body["public_key"])))
            owner.verify(signature, HEAD + _message(told))
    except (ValueError, TypeError, KeyError, AttributeError, InvalidSignature):
        raise LedgerError(f"{head.name} was edited or damaged") from None
    if number >= len(lines) or lines[number].hash != told["hash"]:
        raise LedgerError(
            f"{path.name} has {len(lines)} lines, and line {number + 1} was written before: lines were cut off "
            f"the end, or all of them were exchanged"
        )
    if len(lines) > number + 2:
        raise LedgerError(f"{head.name} is older than {path.name}; it was put back")
    return number


def _called(key: str | Path | bytes) -> str:
    return "the one that was passed" if isinstance(key, bytes) else str(key)


def _message(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False).encode()


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_message(content)).hexdigest()
