"""API keys of the service. The keys file holds SHA-256 hashes, so the file alone lets nobody in.

A key is 256 random bits, so its SHA-256 cannot be searched; slow password hashes are for secrets that people choose.
Every change happens under a lock and replaces the file whole. A running service reads the file again when it changes.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import locked, write_whole

PREFIX = "tacit_"  # so that a key that was published by mistake is recognized
SCOPES = ("analyze", "metrics")  # send releases and see the schema; read /metrics
FORM = "%Y-%m-%dT%H:%M:%SZ"  # sorts as time does


def add_key(path: str | Path, name: str, expires: str | None = None, scope: str = SCOPES[0]) -> str:
    """Make a key for `name` and return it. The file stores only its hash.

    Parameters
    ----------
    path : the keys file, created if it does not exist, readable by its owner alone
    name : the client that the key is for; unique within the file
    expires : lifetime such as 90d, 12h or 30m, or a last day such as 2027-02-01; None for no end
    scope : "analyze" or "metrics"

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key = add_key(f"{folder}/keys.json", "clinic", expires="90d")
    ...     KeyFile(f"{folder}/keys.json").find(key)["name"], KeyFile(f"{folder}/keys.json").find("tacit_x")
    ('clinic', None)
    """
    if not re.fullmatch(r"[\w .@-]{1,100}", name):
        raise InputError(f"the name of a key consists of letters, digits and ' .@-_'; found {name!r}")
    if scope not in SCOPES:
        raise InputError(f"the scope of a key is one of {', '.join(SCOPES)}; found {scope!r}")
    key = PREFIX + secrets.token_urlsafe(32)
    entry = {"name": name, "sha256": _hash(key), "expires": expires and expiry(expires), "scope": scope}
    with _changed(path, create=True) as entries:
        if any(e["name"] == name and is_valid(e) for e in entries):
            raise InputError(f"{path} has a key called {name!r}; revoke it, or choose another name")
        entries.append(entry)
    return key


def revoke_key(path: str | Path, name: str) -> None:
    """Remove all keys of `name`. A running service rejects them from the next request on."""
    with _changed(path) as entries:
        known = sorted({e["name"] for e in entries})
        if name not in known:
            raise InputError(f"{path} has no key called {name!r}; its keys are: {', '.join(known) or 'none'}")
        entries[:] = [e for e in entries if e["name"] != name]


def read_keys(path: str | Path) -> list[dict[str, Any]]:
    """Return the entries of a keys file: name, hash, end and scope of each key."""
    try:
        entries: list[dict[str, Any]] = json.loads(Path(path).read_text())["keys"]
        sound = all(
            set(e) == {"name", "sha256", "expires", "scope"}
            and re.fullmatch("[0-9a-f]{64}", e["sha256"])
            and e["scope"] in SCOPES
            and (e["expires"] is None or datetime.datetime.strptime(e["expires"], FORM))
            for e in entries
        )
    except FileNotFoundError:
        raise InputError(f"there is no keys file {path}; make one with: tacit serve keys add {path} NAME") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a keys file ({type(error).__name__})") from None
    if not sound:
        raise InputError(f"{path} is not a keys file, or is damaged; make one with: tacit serve keys add FILE NAME")
    return entries


def is_valid(entry: dict[str, Any]) -> bool:
    """Return whether a key has not expired."""
    return entry["expires"] is None or now() < entry["expires"]


def expiry(text: str) -> str:
    """Return the end of a key, in UTC, from a lifetime or a last day.

    Examples
    --------
    >>> expiry("2999-12-31")
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
        raise InputError(f"give a lifetime such as 90d, 12h or 30m, or a last day 2027-02-01; found {text!r}") from None
    return end.strftime(FORM)


def now() -> str:
    """Return the current time in the form of the keys file."""
    return datetime.datetime.now(datetime.UTC).strftime(FORM)


class KeyFile:
    """A keys file as a running service sees it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._entries: list[dict[str, Any]] = []
        self.find("")

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the entry of a valid key, or None. Raises `InputError` if the file cannot be read."""
        try:
            stat = self.path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError:
            seen = None
        if seen is None or seen != self._seen:
            self._seen = None  # an unreadable file lets nobody in
            self._entries = read_keys(self.path)
            self._seen = seen
        digest, found = _hash(key), None
        for entry in self._entries:  # all of them: the time does not depend on which entry matches
            if hmac.compare_digest(entry["sha256"], digest):
                found = entry
        return found if found is not None and is_valid(found) else None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

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


@contextlib.contextmanager
def _changed(path: str | Path, create: bool = False) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries for a change and write the file back whole, readable by its owner alone."""
    path = Path(path)
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        read_keys(path)  # so that a missing file leaves no lock file behind
    with locked(path.with_name(f".{path.name}.lock")):
        entries = read_keys(path) if path.exists() or not create else []
        yield entries
        write_whole(path, json.dumps({"keys": entries}, indent=1), private=True)
