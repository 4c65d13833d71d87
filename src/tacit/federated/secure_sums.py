"""Sums of which a server sees nothing but the sum (Bonawitz et al., "Practical Secure Aggregation", CCS 2017).

Every two nodes agree on a mask (X25519, HKDF, AES-CTR) that one adds and the other takes away, and every node adds a
mask of its own. The seeds of both are shared out among the nodes (Shamir), so that the sum of those who are left can
be unmasked. Of one node the others give shares of its own mask or of its key for pairs, never of both. In four steps:

1. `advertise`: a node tells two public keys, one for masks, one for sealing shares;
2. `share`: it hears all keys, and gives every other node a sealed share of its two secrets;
3. `mask`: it hears who has shared, and sends its masked numbers;
4. `unmask`: it hears whose masked numbers came, and tells of these the shares of their own masks, of the rest the
   shares of their keys.

Numbers are fixed point with 64 bits before and 64 after the point, modulo 2^128: sums of them are exact. The server may
be curious; one that also invents nodes is stopped by `Identity`. A node cannot lie about another's numbers, but about
its own it can: nobody sees them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import InputError
from tacit.federated.protocol import ProtocolError

PRIME = 2**521 - 1  # of the field that secrets of 32 bytes are shared in
MIN_NODES = 2  # the server sees the sum of two; either of them knows the other's numbers from it
POINT = 2.0**64
LARGEST = 2.0**62  # of a sum
SEAL, MASK = "seal", "mask"
Keys = Mapping[str, Mapping[str, str]]  # by node, what it advertised


class Identity(Protocol):
    """Who a node is, to the other nodes; without one, whoever carries the messages is trusted to invent no node."""

    def sign(self, told: bytes) -> str: ...
    def check(self, name: str, told: bytes, signature: str) -> None: ...


def threshold(n: int) -> int:
    """How many of n nodes must stay to the end: up to a third may drop out.

    More than half of them, so that no two groups of nodes can be told different things of the same node.
    """
    return n - n // 3


# -- fixed point, modulo 2^128: (2, n) words, low ones first ----------------------------------------


def to_ring(values: np.ndarray, n_nodes: int) -> np.ndarray:
    """Numbers as ring elements, to 2^-64.

    Examples
    --------
    >>> from_ring(add(to_ring(np.array([1.5, -2.25]), 2), to_ring(np.array([-4.0, 1e-12]), 2)))
    array([-2.5 , -2.25])
    """
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(values).all() or np.abs(values).max(initial=0) * n_nodes >= LARGEST:
        raise InputError(
            f"a sum of {n_nodes} nodes holds numbers up to {LARGEST / n_nodes:.3g} each; found NaN, infinity or a "
            f"larger one: scale the records, or check them"
        )
    whole = np.floor(np.abs(values))
    words = np.stack([((np.abs(values) - whole) * POINT).astype(np.uint64), whole.astype(np.uint64)])
    return np.where(values < 0, negative(words), words)


def from_ring(words: np.ndarray) -> np.ndarray:
    """Ring elements as numbers; those in the upper half are negative."""
    below = words[1] >> np.uint64(63) == 1
    low, high = np.where(below, negative(words), words).astype(np.float64)
    return np.where(below, -1.0, 1.0) * (high + low / POINT)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low = a[0] + b[0]
    return np.stack([low, a[1] + b[1] + (low < a[0])])


def negative(a: np.ndarray) -> np.ndarray:
    low = ~a[0] + np.uint64(1)
    return np.stack([low, ~a[1] + (low == 0)])


# -- secrets -----------------------------------------------------------------------------------------


def split_secret(secret: bytes, needed: int, n: int) -> list[str]:
    """n shares of a secret (Shamir), of which `needed` give it back and fewer tell nothing of it.

    Examples
    --------
    >>> shares = split_secret(bytes(range(32)), 3, 5)
    >>> join_shares({5: shares[4], 1: shares[0], 2: shares[1]}) == bytes(range(32))
    True
    """
    polynomial = [int.from_bytes(secret), *(secrets.randbelow(PRIME) for _ in range(needed - 1))]
    return [f"{sum(c * pow(x, k, PRIME) for k, c in enumerate(polynomial)) % PRIME:x}" for x in range(1, n + 1)]


def join_shares(shares: Mapping[int, str]) -> bytes:
    """The secret whose shares these are, by place from 1 on."""
    total = 0
    for x, share in shares.items():
        others = [o for o in shares if o != x]
        top, bottom = (_product(numbers) for numbers in (others, [o - x for o in others]))
        total += int(share, 16) * top * pow(bottom, -1, PRIME)
    if (total := total % PRIME) >> 256:
        raise ProtocolError("shares that came do not belong together; one node sent another's, or made one up")
    return total.to_bytes(32)


def _product(numbers: Sequence[int]) -> int:
    out = 1
    for number in numbers:
        out = out * number % PRIME
    return out


def _key(secret: bytes, what: str) -> bytes:
    return HKDF(hashes.SHA256(), 32, None, f"tacit secure sum: {what}".encode()).derive(secret)


def _pair_key(private: str, public: str, what: str) -> bytes:
    own = X25519PrivateKey.from_private_bytes(bytes.fromhex(private))
    return _key(own.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public))), what)


def _public(private: str) -> str:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(private)).public_key().public_bytes_raw().hex()


def expand(key: bytes, n: int) -> np.ndarray:
    """n ring elements that nobody without the key can tell from chance."""
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(16 * n))
    return np.frombuffer(stream, dtype=np.uint64).reshape(2, n)


def _pair_mask(private: str, public: str, adds: bool, n: int, about: str) -> np.ndarray:
    mask = expand(_pair_key(private, public, f"{MASK} {about}"), n)
    return mask if adds else negative(mask)


# -- the two sides -----------------------------------------------------------------------------------


class SumNode:
    """One node's side of one sum. It answers each of the four questions once; `vars` of it are plain data."""

    def __init__(self, name: str) -> None:
        self.name, self.step = name, "advertise"
        self.private = {what: X25519PrivateKey.generate().private_bytes_raw().hex() for what in (SEAL, MASK)}
        self.seed = secrets.token_hex(32)
        self.keys: dict[str, dict[str, str]] = {}  # of all who advertised
        self.held: dict[str, list[str]] = {}  # by node: my shares of its seed and of its key for pairs

    def advertise(self, identity: Identity | None = None) -> dict[str, str]:
        self._at("advertise", "share")
        told = {what: _public(private) for what, private in self.private.items()}
        return told if identity is None else told | {"signature": identity.sign(_statement(self.name, told))}

    def share(self, keys: Keys, identity: Identity | None = None) -> dict[str, str]:
        """For every other node a sealed share of both secrets."""
        self._at("share", "mask")
        if len(keys) < MIN_NODES or keys.get(self.name, {}).get(MASK) != _public(self.private[MASK]):
            raise ProtocolError(
                f"node {self.name!r} shares its secrets among at least {MIN_NODES} nodes with itself among them; "
                f"found {', '.join(sorted(keys)) or 'none'}"
            )
        if len({told[what] for told in keys.values() for what in (SEAL, MASK)}) < 2 * len(keys):
            raise ProtocolError(f"node {self.name!r} was told of two nodes with one key; every node makes its own")
        for name, told in keys.items() if identity is not None else ():
            identity.check(name, _statement(name, told), told.get("signature", ""))  # type: ignore[union-attr]
        self.keys = {name: dict(told) for name, told in keys.items()}
        secret_bytes = bytes.fromhex(self.seed), bytes.fromhex(self.private[MASK])
        names, needed = sorted(keys), threshold(len(keys))
        shares = zip(*(split_secret(secret, needed, len(names)) for secret in secret_bytes), strict=True)
        sealed = {}
        for name, both in zip(names, shares, strict=True):
            if name == self.name:
                self.held[name] = list(both)
            else:
                box, context = self._box(name, self.name)
                sealed[name] = box.encrypt(bytes(12), json.dumps(both).encode(), context).hex()
        return sealed

    def mask(self, numbers: np.ndarray, sealed: Mapping[str, str], about: str = "") -> np.ndarray:
        """The masked numbers, once `sealed` (by node) has what the others gave this one to keep.

        `about` says what was asked. Masks of nodes that were asked different things do not go away: else a server could
        have all but one send nothing of note.
        """
        self._at("mask", "unmask")
        for name, closed in sealed.items():
            if name not in self.keys or name == self.name:
                raise ProtocolError(f"node {self.name!r} got shares of {name!r}, which is not among those it knows")
            box, context = self._box(name, name)
            try:
                told = box.decrypt(bytes(12), bytes.fromhex(closed), context)
            except InvalidTag:
                raise ProtocolError(f"what node {name!r} sealed for {self.name!r} was changed on its way") from None
            self.held[name] = json.loads(told)
        self._enough(self.held, "shared their secrets")
        masked = add(to_ring(numbers, len(self.held)), expand(_key(bytes.fromhex(self.seed), "own"), numbers.size))
        for name in self.held:
            if name != self.name:
                adds = self.name < name
                masked = add(masked, _pair_mask(self.private[MASK], self.keys[name][MASK], adds, numbers.size, about))
        return masked

    def unmask(self, survivors: Sequence[str]) -> dict[str, str]:
        """Of survivors my share of their own mask, of all others that of their key: of no node both."""
        self._at("unmask", "done")
        if not set(survivors) <= set(self.held) or self.name not in survivors:
            raise ProtocolError(
                f"node {self.name!r} tells shares of a sum of its own and of nodes that shared with it; found "
                f"{', '.join(sorted(survivors)) or 'none'}"
            )
        self._enough(set(survivors), "are in the sum")
        return {name: both[0 if name in survivors else 1] for name, both in self.held.items()}

    def _at(self, step: str, then: str) -> None:
        if self.step != step:
            raise ProtocolError(
                f"node {self.name!r} was asked to {step} a sum where it has to {self.step}; every question is answered "
                f"once: two answers could undo the masks"
            )
        self.step = then

    def _enough(self, names: Any, what: str) -> None:
        needed = threshold(len(self.keys))
        if len(names) < needed:
            self.step = "done"
            raise ProtocolError(f"node {self.name!r} refuses: {len(names)} nodes {what}, at least {needed} are needed")

    def _box(self, other: str, sender: str) -> tuple[AESGCM, bytes]:
        """What seals one message and no second one (so that its nonce may be zeros), and what else it vouches for."""
        key = _pair_key(self.private[SEAL], self.keys[other][SEAL], f"{SEAL} from {sender}")
        return AESGCM(key), json.dumps(sorted(self.keys)).encode()


def unmasked(
    masked: Mapping[str, np.ndarray], keys: Keys, shared: Sequence[str], told: Mapping[str, Any], about: str = ""
) -> np.ndarray:
    """The sum of the survivors' numbers.

    Parameters
    ----------
    masked : by survivor, what it sent
    keys : what all nodes advertised
    shared : the nodes whose shares were given out: those of them that are not in `masked` dropped out since
    told : by node that answered to the end, its shares by node
    about : what all of them were asked
    """
    names, needed = sorted(keys), threshold(len(keys))
    if len(told) < needed:
        raise ProtocolError(f"{len(told)} nodes told their shares, at least {needed} are needed to unmask the sum")
    places = {names.index(node) + 1: shares for node, shares in sorted(told.items())[:needed]}
    total = np.zeros_like(next(iter(masked.values())))
    n = total.shape[1]
    for words in masked.values():
        total = add(total, words)
    for node in shared:
        secret = join_shares({x: shares[node] for x, shares in places.items()})
        if node in masked:
            total = add(total, negative(expand(_key(secret, "own"), n)))
            continue
        if _public(secret.hex()) != keys[node][MASK]:
            raise ProtocolError(f"the shares of {node!r}, which dropped out, do not give its key; the sum is lost")
        for other in masked:  # what these added for the one that is gone
            total = add(total, _pair_mask(secret.hex(), keys[other][MASK], node < other, n, about))
    return from_ring(total)


def _statement(name: str, keys: Mapping[str, str]) -> bytes:
    return hashlib.sha256(json.dumps([name, keys[SEAL], keys[MASK]]).encode()).digest()
