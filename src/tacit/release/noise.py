"""Noise that averaging cannot remove: the same record always gets the same draw.

The draw is a pseudo-random function of a secret key and the record, so repeating a query, or
releasing the table twice, tells nothing new. The key comes from the operating system, never from
`random_state`. Two records with equal values get equal noise.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
from scipy.special import ndtri


def new_key() -> bytes:
    """A fresh 256-bit secret key."""
    return secrets.token_bytes(32)


def derived_key(key: bytes, *mechanism: object) -> bytes:
    """A key for one mechanism: equal for equal numbers, unrelated for others.

    The same draws at two sizes could be solved for the record, so noise of another size needs another key.
    """
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in mechanism:
        digest.update(np.ascontiguousarray(np.asarray(part, dtype=np.float64)).tobytes())
    return digest.digest()


def keyed_normal(key: bytes, records: np.ndarray, n_columns: int) -> np.ndarray:
    """Standard normal numbers, (n, n_columns): a function of the key and each record's bytes."""
    return ndtri(_keyed_uniform(key, records, n_columns))


def keyed_laplace(key: bytes, records: np.ndarray, n_columns: int) -> np.ndarray:
    """Laplace numbers of scale 1, (n, n_columns): a function of the key and each record's bytes."""
    u = _keyed_uniform(key, records, n_columns)
    return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def _keyed_uniform(key: bytes, records: np.ndarray, n_columns: int) -> np.ndarray:
    rows = np.ascontiguousarray(np.asarray(records, dtype=np.float64).reshape(len(records), -1))
    blocks = -(-n_columns // 8)  # a 64-byte digest gives eight numbers
    digests = b"".join(
        hashlib.blake2b(row, key=key, salt=block.to_bytes(8, "little")).digest()
        for row in rows
        for block in range(blocks)
    )
    # 53 bits, shifted by a half so that neither 0 nor 1 occurs
    words = np.frombuffer(digests, dtype="<u8").reshape(len(rows), blocks * 8)[:, :n_columns]
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
