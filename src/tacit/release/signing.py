"""Signatures: who vouches for a bundle, under which name and version. Ed25519 over these and the manifest.

The manifest holds the hash of every other member, and the last day of use. Whoever verifies remembers the highest
version of a name beside the trusted key, so that a signed bundle of yesterday does not come back in place of today's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tacit.errors import BundleError, InputError, TacitWarning
from tacit.files import locked, strict_json, write_whole

PURPOSE = b"tacit bundle signature 1\0"  # a signature made for something else does not count


def new_signing_key(path: str | Path) -> tuple[Path, Path]:
    """Make a key pair: the secret key in `path` (readable by its owner alone), the public one in `path`.pub."""
    secret, public = Path(path), Path(f"{path}.pub")
    key = Ed25519PrivateKey.generate()
    write_secret(secret, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return secret, public


def signature(manifest: bytes, secret_key: str | Path, name: str, version: int) -> bytes:
    """The signature of a manifest as this version of this name: the member signature.json."""
    key = read_secret_key(secret_key)
    told = {"name": name, "version": version}
    if not _sound(told):
        raise InputError(f"a signature has a name of 1 to 200 characters and a version from 1 on; found {told}")
    found = {
        "algorithm": "ed25519",
        "public_key": raw_bytes(key.public_key()).hex(),
        **told,
        "signature": key.sign(_message(manifest, told)).hex(),
    }
    return json.dumps(found).encode()


def require_signature(
    members: Mapping[str, bytes],
    called: str,
    trusted_key: str | Path | bytes,
    name: str,
    min_version: int | None = None,
) -> None:
    """Raise unless this key has signed these bytes under this name, as no older version than is asked for or was seen.

    What was seen is kept next to the key, in FILE.seen, where the key is a file.
    """
    key = read_public_key(trusted_key)
    if "signature.json" not in members:
        raise BundleError(f"{called} is not signed, and only bundles signed by the trusted key are loaded")
    try:
        found = strict_json(members["signature.json"])
        told = {k: found[k] for k in ("name", "version")}
        # the key inside the bundle is only a name; what counts is the trusted one
        key.verify(bytes.fromhex(found["signature"]), _message(members["manifest.json"], told))
    except (InvalidSignature, KeyError, TypeError, ValueError, AttributeError):
        raise BundleError(f"{called} is not signed by the trusted key {raw_bytes(key).hex()[:16]}...") from None
    if not _sound(told):
        raise BundleError(f"{called}: its signature has no sound name and version")
    if told["name"] != name:
        raise BundleError(f"{called} is signed as {told['name']!r}, and {name!r} is expected; if it is the right "
                          f"bundle, pass name={told['name']!r} (--signed-name)")  # fmt: skip
    state = None if isinstance(trusted_key, bytes) else Path(f"{trusted_key}.seen")
    version = told["version"]
    try:
        with contextlib.nullcontext() if state is None else locked(f"{state}.lock"):
            seen = _seen(state)
            _check_version(called, name, version, min_version or 0, seen.get(name, 0))
            if state is not None and version != seen.get(name):
                write_whole(state, json.dumps(seen | {name: version}, indent=1))
    except OSError as error:
        _check_version(called, name, version, min_version or 0, _seen(state).get(name, 0))
        warnings.warn(f"version {version} of {name!r} cannot be remembered in {state} ({error}); pass min_version, so "
                      f"that older bundles are refused", TacitWarning, stacklevel=4)  # fmt: skip


def _check_version(called: str, name: str, version: int, asked: int, seen: int) -> None:
    if version < max(asked, seen):
        why = "was seen before" if seen >= asked else "is asked for"
        raise BundleError(f"{called} is version {version} of {name!r}, and version {max(asked, seen)} {why}")


def _seen(state: Path | None) -> dict[str, int]:
    if state is None or not state.exists():
        return {}
    try:
        seen = strict_json(state.read_bytes())
        if isinstance(seen, dict) and all(type(v) is int for v in seen.values()):
            return seen
    except ValueError:
        pass
    raise InputError(f"{state} does not say which versions were seen; repair it, or delete it to begin anew")


def _sound(told: dict[str, Any]) -> bool:
    name, version = told.get("name"), told.get("version")
    return isinstance(name, str) and 0 < len(name) <= 200 and type(version) is int and 0 < version < 2**53


def read_secret_key(path: str | Path) -> Ed25519PrivateKey:
    """A secret key from the file that `new_signing_key` wrote."""
    try:
        key = load_pem_private_key(Path(path).read_bytes(), password=None)
    except FileNotFoundError:
        raise InputError(f"there is no key {path}; make one with: tacit release key signing FILE") from None
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} holds no secret key ({error}); make one with: tacit release key signing FILE"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds a key of another kind; make one with: tacit release key signing FILE")
    return key


def read_public_key(key: str | Path | bytes) -> Ed25519PublicKey:
    """A public key from its 32 bytes or from a file."""
    try:
        if isinstance(key, bytes) and len(key) == 32:
            return Ed25519PublicKey.from_public_bytes(key)
        found: Any = load_pem_public_key(key if isinstance(key, bytes) else Path(key).read_bytes())
    except FileNotFoundError:
        raise InputError(f"there is no key {key!s}; pass the file FILE.pub") from None
    except (ValueError, TypeError) as error:
        called = "these bytes" if isinstance(key, bytes) else str(key)
        raise InputError(f"no public key can be read from {called} ({error}); pass the file FILE.pub") from None
    if not isinstance(found, Ed25519PublicKey):
        raise InputError(f"{key!r} holds a key of another kind; make one with: tacit release key signing FILE")
    return found


def write_secret(path: Path, data: bytes) -> None:
    """A new file that its owner alone can read; an existing one is never overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} exists; a key is never overwritten, so choose another name") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _message(manifest: bytes, told: dict[str, Any]) -> bytes:
    return PURPOSE + json.dumps(told, sort_keys=True).encode() + hashlib.sha256(manifest).hexdigest().encode()


def raw_bytes(key: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)
