"""API keys: who may ask the service, for what, and until when. The file holds their hashes alone.

A key is 256 random bits, so that its SHA-256 cannot be searched back; slow password hashes are for secrets that people
choose. Keys are compared in constant time. The file is read again when it changes: a revoked key ends at once.

Every change is made under a lock, to what the file holds at that moment, and replaces the file whole: none is lost.
Revocations are only ever added: a key among them is dead, whatever else the file says of it.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import ipaddress
import json
import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import locked, write_whole

PREFIX = "tacit_"  # so that a key that was published by mistake is recognized
SCHEMA = 2
SCOPES = ("analyze", "describe", "metrics")  # ask; see schema, filter and audit; count requests
USUAL = SCOPES[:2]
ENTRY = {"name", "sha256", "created", "expires", "scope"}


def add_key(path: str | Path, name: str, expires: str | None = None, scope: Sequence[str] = USUAL) -> str:
    """Make a key for `name` and return it: it is shown once and stored nowhere.

    Parameters
    ----------
    path : the keys file, made where it is not there
    expires : how long it is good: 90d, 12h, 30m, a last day such as 2027-02-01; None for ever
    scope : what it is good for, of "analyze", "describe" and "metrics"

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key = add_key(f"{folder}/keys.json", "clinic", expires="90d")
    ...     KeyFile(f"{folder}/keys.json").name_of(key), KeyFile(f"{folder}/keys.json").name_of("tacit_x")
    ('clinic', None)
    """
    if not re.fullmatch(r"[\w .@-]{1,100}", name):
        raise InputError(f"a key's name is made of letters, digits and ' .@-_'; found {name!r}")
    if not scope or not set(scope) <= set(SCOPES):
        raise InputError(f"a key's scope is made of {', '.join(SCOPES)}; found {', '.join(scope) or 'nothing'}")
    until = None if expires is None else moment(expires)
    with _changed(path, new=True) as found:
        if any(e["name"] == name and is_valid(e) for e in found["keys"]):
            raise InputError(f"{path} has a key called {name!r}; rotate or revoke it, or choose another name")
        key, entry = _made(name, until, scope)
        found["keys"].append(entry)
    return key


def rotate_key(path: str | Path, name: str, overlap: str = "7d", expires: str | None = None) -> str:
    """A new key for `name`, of the same scope; the old one stays good for the time of the overlap, and no longer."""
    last, until = moment(overlap), None if expires is None else moment(expires)
    with _changed(path) as found:
        own = [e for e in _named(path, found, name) if is_valid(e)]
        if not own:
            raise InputError(f"{path} has no key called {name!r} that is still good; make one with: tacit keys add")
        for entry in own:
            entry["expires"] = min(last, entry["expires"] or last)
        key, entry = _made(name, until, own[-1]["scope"])
        found["keys"].append(entry)
    return key


def revoke_key(path: str | Path, name: str) -> None:
    """End all keys of `name`; a running service refuses them from then on, and for ever."""
    with _changed(path) as found:
        for entry in _named(path, found, name):
            found["keys"].remove(entry)
            found["revoked"].append({"name": name, "sha256": entry["sha256"], "when": _now()})


def read_keys(path: str | Path) -> list[dict[str, Any]]:
    """The entries of a keys file: name, SHA-256 of the key, day it was made, its end and its scope."""
    return _read(path)["keys"]


def is_valid(entry: dict[str, Any]) -> bool:
    """Whether the end of a key is not over."""
    return entry["expires"] is None or _now() < entry["expires"]


def moment(text: str) -> str:
    """A point in time, in UTC, from a length of time from now or a last day.

    Examples
    --------
    >>> moment("2999-12-31")
    '3000-01-01T00:00:00Z'
    """
    length = re.fullmatch(r"(\d{1,5})([mhd])", text)
    try:
        if length:
            units = {"m": "minutes", "h": "hours", "d": "days"}
            end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(**{units[length[2]]: int(length[1])})
        else:
            day = datetime.date.fromisoformat(text) + datetime.timedelta(days=1)
            end = datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        raise InputError(f"a time is such as 90d, 12h, 30m or a last day 2027-02-01; found {text!r}") from None
    return end.strftime(FORM)


class KeyFile:
    """A keys file as a running service sees it. What was revoked once stays so, even if an older file is put back."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._entries: list[dict[str, Any]] = []
        self._revoked: set[str] = set()
        self._fresh()

    def name_of(self, key: str, scope: str = SCOPES[0]) -> str | None:
        """Whose key this is; None if it is nobody's, over, or not for this."""
        found = self.find(key)
        return found["name"] if found is not None and scope in found["scope"] else None

    def find(self, key: str) -> dict[str, Any] | None:
        """The entry of a key that is good. A file that cannot be read any more lets nobody in."""
        asked = _hash(key)
        found = None
        for entry in self._fresh():  # all of them: the time taken does not tell which one fits
            if hmac.compare_digest(entry["sha256"], asked):
                found = entry
        return found if found is not None and is_valid(found) else None

    def _fresh(self) -> list[dict[str, Any]]:
        with self._lock:
            try:
                now = self.path.stat()
                seen = (now.st_mtime_ns, now.st_size, now.st_ino)
            except OSError:
                seen = None
            if seen is None or seen != self._seen:
                self._entries = []
                found = _read(self.path)
                self._revoked |= {e["sha256"] for e in found["revoked"]}
                self._entries = [e for e in found["keys"] if e["sha256"] not in self._revoked]
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


FORM = "%Y-%m-%dT%H:%M:%SZ"  # sorts as time does


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime(FORM)


def _made(name: str, until: str | None, scope: Sequence[str]) -> tuple[str, dict[str, Any]]:
    key = PREFIX + secrets.token_urlsafe(32)
    return key, {"name": name, "sha256": _hash(key), "created": _now()[:10], "expires": until, "scope": list(scope)}


def _named(path: str | Path, found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    own = [e for e in found["keys"] if e["name"] == name]
    if not own:
        known = ", ".join(sorted({e["name"] for e in found["keys"]})) or "none"
        raise InputError(f"{path} has no key called {name!r}; its keys are: {known}")
    return own


@contextlib.contextmanager
def _changed(path: str | Path, new: bool = False) -> Iterator[dict[str, Any]]:
    """What the file holds now, to be changed; it is written back whole, readable by its owner alone."""
    path = Path(path)
    if new:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        _read(path)  # says how to make one
    with locked(path.with_name(f".{path.name}.lock")):
        found = _read(path) if path.exists() or not new else {"keys": [], "revoked": []}
        yield found
        write_whole(path, json.dumps({"schema": SCHEMA, **found}, indent=1), private=True)


def _read(path: str | Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(Path(path).read_text())
        if found["schema"] == 1:  # keys without an end, good for what there was
            plain = {"expires": None, "scope": list(USUAL)}
            found = {"schema": SCHEMA, "keys": [{**e, **plain} for e in found["keys"]], "revoked": []}
        entries = found["keys"] + found["revoked"]
        sound = found["schema"] == SCHEMA and all(re.fullmatch("[0-9a-f]{64}", e["sha256"]) for e in entries)
        sound = sound and all(set(e) == ENTRY and set(e["scope"]) <= set(SCOPES) for e in found["keys"])
    except FileNotFoundError:
        raise InputError(f"there is no keys file {path}; make one with: tacit keys add {path} NAME") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a keys file ({type(error).__name__})") from None
    if not sound:
        raise InputError(f"{path} is not a keys file of Tacit, or damaged; make one with: tacit keys add FILE NAME")
    dead = {e["sha256"] for e in found["revoked"]}
    return {"keys": [e for e in found["keys"] if e["sha256"] not in dead], "revoked": found["revoked"]}
