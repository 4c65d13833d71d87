"""Signatures: who vouches for a bundle. Ed25519 over the manifest, which holds the hash of every other member."""

from __future__ import annotations

import json
import os
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

from tacit.errors import BundleError, InputError
from tacit.release.bundle import Bundle, digest, read_bundle, write_members
from tacit.release.first_load import trust

PURPOSE = b"tacit bundle signature 1\0"  # so that a signature made for something else does not count


def new_signing_key(path: str | Path) -> tuple[Path, Path]:
    """Make a key pair: the secret key in `path` (readable by its owner alone), the public one in `path`.pub."""
    secret, public = Path(path), Path(f"{path}.pub")
    key = Ed25519PrivateKey.generate()
    write_secret(secret, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return secret, public


def sign(path: str | Path, secret_key: str | Path) -> Path:
    """Sign a bundle, in place; an earlier signature is replaced."""
    bundle = read_bundle(path)
    key = read_secret_key(secret_key)
    signature = {
        "algorithm": "ed25519",
        "public_key": raw_bytes(key.public_key()).hex(),
        "signature": key.sign(_message(bundle)).hex(),
    }
    return write_members(path, {**bundle.members, "signature.json": json.dumps(signature).encode()})


def require_signature(bundle: Bundle, trusted_key: str | Path | bytes) -> None:
    """Raise unless this key has signed the bundle."""
    key = read_public_key(trusted_key)
    found = bundle.signature
    if found is None:
        raise BundleError(f"{bundle.name} is not signed, and only bundles signed by the trusted key are loaded")
    try:
        # the key inside the bundle is only a name; what counts is the trusted one
        key.verify(bytes.fromhex(found["signature"]), _message(bundle))
    except (InvalidSignature, KeyError, TypeError, ValueError, AttributeError):
        raise BundleError(f"{bundle.name} is not signed by the trusted key {raw_bytes(key).hex()[:16]}...") from None
    trust(bundle)


def read_secret_key(path: str | Path) -> Ed25519PrivateKey:
    """A secret key from the file that `new_signing_key` wrote."""
    try:
        key = load_pem_private_key(Path(path).read_bytes(), password=None)
    except FileNotFoundError:
        raise InputError(f"there is no key {path}; make one with: tacit release keys FILE") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} holds no secret key ({error}); make one with: tacit release keys FILE") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds a key of another kind; make one with: tacit release keys FILE")
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
        raise InputError(f"{key!r} holds a key of another kind; make one with: tacit release keys FILE")
    return found


def write_secret(path: Path, data: bytes) -> None:
    """A new file that its owner alone can read; an existing one is never overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} exists; a key is never overwritten, so choose another name") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _message(bundle: Bundle) -> bytes:
    return PURPOSE + digest(bundle.members["manifest.json"]).encode()


def raw_bytes(key: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)
