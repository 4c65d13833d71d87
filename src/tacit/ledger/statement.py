"""A signed statement about files: in-toto's Statement (version 1) in a DSSE envelope, under an Ed25519 key.

Tools that read in-toto attestations check it without Tacit: the signature is over the payload's bytes as they stand.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature

from tacit.errors import InputError, TacitError
from tacit.files import strict_json
from tacit.release.signing import raw_bytes, read_public_key, read_secret_key

PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:tacit:evidence:1"


class EvidenceError(TacitError, ValueError):
    """Evidence was edited, is not complete, or is not signed by the key that was asked for."""


def make_statement(digests: Mapping[str, str], predicate: Mapping[str, Any], key: str | Path | None) -> dict[str, Any]:
    """An envelope with a statement about files.

    Parameters
    ----------
    digests : SHA-256 by name
    predicate : what is said of them, as plain data
    key : the secret key that signs; None leaves the statement unsigned, and nobody can verify it
    """
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digests[name]}} for name in sorted(digests)],
        "predicateType": PREDICATE,
        "predicate": dict(predicate),
    }
    payload = json.dumps(statement, sort_keys=True, allow_nan=False).encode()
    signatures = []
    if key is not None:
        secret = read_secret_key(key)
        signed = base64.b64encode(secret.sign(encoding(PAYLOAD, payload))).decode()
        signatures = [{"keyid": raw_bytes(secret.public_key()).hex(), "sig": signed}]
    return {"payloadType": PAYLOAD, "payload": base64.b64encode(payload).decode(), "signatures": signatures}


def read_statement(envelope: bytes, trusted_key: str | Path | bytes) -> dict[str, Any]:
    """The statement in an envelope; raises `EvidenceError` unless the trusted key has signed it."""
    key = read_public_key(trusted_key)
    name = raw_bytes(key).hex()
    try:
        told = strict_json(envelope)
        payload = base64.b64decode(told["payload"], validate=True)
        signatures = [base64.b64decode(s["sig"], validate=True) for s in told["signatures"]]
        kind = str(told["payloadType"])
    except (ValueError, TypeError, KeyError, binascii.Error):
        raise EvidenceError("statement.json is not a signed statement (a DSSE envelope); it was edited") from None
    if not signatures:
        raise EvidenceError("the statement is not signed; make the evidence again with --key FILE")
    for signature in signatures:
        try:
            key.verify(signature, encoding(kind, payload))  # the key named beside it is only a name
        except InvalidSignature:
            continue
        return _checked(kind, payload)
    raise EvidenceError(f"the statement is not signed by the trusted key {name[:16]}..., or it was edited")


def encoding(kind: str, payload: bytes) -> bytes:
    """What a DSSE signature is over: the pre-authentication encoding of the type and the payload.

    Examples
    --------
    >>> encoding("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(payload), payload)


def _checked(kind: str, payload: bytes) -> dict[str, Any]:
    try:
        statement = strict_json(payload)
        digests = {s["name"]: s["digest"]["sha256"] for s in statement["subject"]}
        known = kind == PAYLOAD and statement["_type"] == STATEMENT and statement["predicateType"] == PREDICATE
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise InputError(f"the statement is signed, but it is not evidence of Tacit (expected {PREDICATE})")
    return {**statement, "digests": digests}
