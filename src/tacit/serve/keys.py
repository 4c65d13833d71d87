"""API keys: who may ask the service. The file holds their hashes alone.

A key is 256 random bits, so that its SHA-256 cannot be searched back; slow password hashes are for secrets that people
choose. Keys are compared in constant time. The file is read again when it changes: a revoked key ends at once.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import json
import re
import secrets
import threading
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import write_whole

PREFIX = "tacit_"  # so that a key that was published by mistake is recognized
SCHEMA = 1


def add_key(path: str | Path, name: str) -> str:
    """Make a key for `name` and return it: it is shown once and stored nowhere.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key = add_key(f"{folder}/keys.json", "clinic")
    ...     KeyFile(f"{folder}/keys.json").name_of(key), KeyFile(f"{folder}/keys.json").name_of("tacit_x")
    ('clinic', None)
    """
    if not re.fullmatch(r"[\w .@-]{1,100}", name):
        raise InputError(f"a key's name is made of letters, digits and ' .@-_'; found {name!r}")
    entries = read_keys(path) if Path(path).exists() else []
    if any(e["name"] == name for e in entries):
        raise InputError(f"{path} has a key called {name!r}; revoke it first, or choose another name")
    key = PREFIX + secrets.token_urlsafe(32)
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    _write(path, [*entries, {"name": name, "sha256": _hash(key), "created": today}])
    return key


def revoke_key(path: str | Path, name: str) -> None:
    """Take a key out; a running service refuses it from then on."""
    entries = read_keys(path)
    kept = [e for e in entries if e["name"] != name]
    if len(kept) == len(entries):
        known = ", ".join(e["name"] for e in entries) or "none"
        raise InputError(f"{path} has no key called {name!r}; its keys are: {known}")
    _write(path, kept)


def read_keys(path: str | Path) -> list[dict[str, str]]:
    """The entries of a keys file: name, SHA-256 of the key, day it was made."""
    try:
        found: Any = json.loads(Path(path).read_text())
        entries = found["keys"]
        sound = found["schema"] == SCHEMA and all(
            set(e) == {"name", "sha256", "created"} and re.fullmatch("[0-9a-f]{64}", e["sha256"]) for e in entries
        )
    except FileNotFoundError:
        raise InputError(f"there is no keys file {path}; make one with: tacit keys add {path} NAME") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a keys file ({type(error).__name__})") from None
    if not sound:
        raise InputError(f"{path} is not a keys file of Tacit, or damaged; make one with: tacit keys add FILE NAME")
    return entries


class KeyFile:
    """A keys file as a running service sees it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._entries: list[dict[str, str]] = []
        self._fresh()

    def name_of(self, key: str) -> str | None:
        """Whose key this is; None if it is nobody's. A file that cannot be read any more lets nobody in."""
        asked = _hash(key)
        found = None
        for entry in self._fresh():  # all of them: the time taken does not tell which one fits
            if hmac.compare_digest(entry["sha256"], asked):
                found = entry["name"]
        return found

    def _fresh(self) -> list[dict[str, str]]:
        with self._lock:
            try:
                now = self.path.stat()
                seen = (now.st_mtime_ns, now.st_size, now.st_ino)
            except OSError:
                seen = None
            if seen is None or seen != self._seen:
                self._entries = []
                self._entries = read_keys(self.path)
                self._seen = seen
            return self._entries


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address, so that keys and TLS protect from nobody.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _write(path: str | Path, entries: list[dict[str, str]]) -> None:
    """The whole file or none, readable by its owner alone."""
    write_whole(path, json.dumps({"schema": SCHEMA, "keys": entries}, indent=1), private=True)
