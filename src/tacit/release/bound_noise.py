"""Noise that belongs to one bundle: another graph, or noise of another size, never draws the same under one key.

Two releases of a record under one draw can be solved for the record: 2 (c + n) - (c + 2 n) = c. So what is drawn is a
function of everything that decides what it is added to, and not of what a manifest says of itself. The filter that
wrote the bundle draws alike, and says so by a proof under its own key: only with it are its draws the filter's.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tacit.noise.keyed import Noise


def binding(manifest: Mapping[str, Any], model_sha256: str) -> bytes:
    """A hash of what is run: the graph, its noise and what goes in."""
    noise = {name: value for name, value in manifest["noise"].items() if name != "proof"}
    what = json.dumps([model_sha256, noise, manifest["input"]], sort_keys=True, allow_nan=False)
    return hashlib.blake2b(what.encode(), digest_size=32, person=b"tacit bundle").digest()


def proof(key: bytes, bound: bytes) -> str:
    """What only a holder of the key can write: that this bundle is the filter's of this key."""
    # `person` keeps it apart from the keys that noise is drawn under, which are made of the same key
    return hashlib.blake2b(bound, key=key, digest_size=32, person=b"tacit proof").hexdigest()


def bound_noise(noise: Noise, bound: bytes, key: bytes, said: str | None) -> Noise:
    """The noise as it is drawn under this key: the filter's own, where it proves so; else the bundle's own."""
    own = said is not None and hmac.compare_digest(said, proof(key, bound))
    return noise if own else replace(noise, mechanism=bound)
