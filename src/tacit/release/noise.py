"""Noise that averaging cannot remove: the same record always gets the same draw.

The draw is a pseudo-random function of a secret key and the record, so repeating a query, or
releasing the table twice, tells nothing new. The key comes from the operating system, never from
`random_state`, and never travels in a bundle. Two records with equal values get equal noise.

This module needs numpy alone: the runtime of a bundle draws by the same lines as the filter.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

import numpy as np

GRID = 2.0**-12


def new_key() -> bytes:
    """A fresh 256-bit secret key."""
    return secrets.token_bytes(32)


def mechanism(*parts: object) -> bytes:
    """The public name of one mechanism: equal for equal numbers, unrelated for others."""
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        digest.update(np.ascontiguousarray(np.asarray(part, dtype=np.float64)).tobytes())
    return digest.digest()


def derived_key(key: bytes, name: bytes) -> bytes:
    """A key for one mechanism, from the owner's.

    The same draws at two sizes could be solved for the record, so noise of another size needs another key.
    """
    return hashlib.blake2b(name, key=key, digest_size=32).digest()


@dataclass(frozen=True)
class Noise:
    """The noise of a release: what is drawn for every record, and where it goes.

    Attributes
    ----------
    distribution : "normal" (of this standard deviation) or "laplace" (of this scale)
    scale : of the noise in every column
    columns : how many numbers are drawn for a record
    added : added to the code; else given to the filter beside the record
    mechanism : public name of what is released, so that another filter under the same key draws otherwise
    grid : noisy sums are rounded to this share of the scale
    """

    distribution: str
    scale: float
    columns: int
    added: bool
    mechanism: bytes
    grid: float = GRID

    def draw(self, key: bytes, records: np.ndarray) -> np.ndarray:
        """The noise of these records, (n, columns)."""
        return self.scale * DRAWS[self.distribution](derived_key(key, self.mechanism), records, self.columns)

    def add(self, key: bytes, code: np.ndarray, records: np.ndarray) -> np.ndarray:
        """The noisy code on a grid.

        The last digits of a floating-point sum tell which sums are possible at all: they are rounded away.
        """
        step = self.grid * self.scale
        noisy = code + self.draw(key, records).reshape(code.shape)
        return np.rint(noisy / step) * step + 0.0


def keyed_normal(key: bytes, records: np.ndarray, n_columns: int) -> np.ndarray:
    """Standard normal numbers, (n, n_columns): a function of the key and each record's bytes."""
    return normal_quantile(_keyed_uniform(key, records, n_columns))


def keyed_laplace(key: bytes, records: np.ndarray, n_columns: int) -> np.ndarray:
    """Laplace numbers of scale 1, (n, n_columns): a function of the key and each record's bytes."""
    u = _keyed_uniform(key, records, n_columns)
    return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


DRAWS = {"normal": keyed_normal, "laplace": keyed_laplace}


def _keyed_uniform(key: bytes, records: np.ndarray, n_columns: int) -> np.ndarray:
    # -0 and 0 are one number, and so one record
    rows = np.ascontiguousarray(np.asarray(records, dtype=np.float64).reshape(len(records), -1) + 0.0)
    blocks = -(-n_columns // 8)  # a 64-byte digest gives eight numbers
    digests = b"".join(
        hashlib.blake2b(row, key=key, salt=block.to_bytes(8, "little")).digest()
        for row in rows
        for block in range(blocks)
    )
    # 52 bits, shifted by a half so that neither 0 nor 1 occurs (with 53 the largest would be rounded to 1)
    words = np.frombuffer(digests, dtype="<u8").reshape(len(rows), blocks * 8)[:, :n_columns]
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


def normal_quantile(p: np.ndarray) -> np.ndarray:
    """The standard normal quantile by Wichura's rational functions (AS 241, PPND16): 16 digits.

    Examples
    --------
    >>> normal_quantile(np.array([0.5, 0.975])).round(6).tolist()
    [0.0, 1.959964]
    """
    q = p - 0.5
    central = np.abs(q) <= 0.425
    r = np.where(central, 0.180625 - q * q, 0.0)
    near = q * _ratio(_CENTRE, r)
    tail = np.sqrt(-np.log(np.where(central, 0.5, np.minimum(p, 1 - p))))
    far = np.where(tail <= 5.0, _ratio(_MIDDLE, tail - 1.6), _ratio(_TAIL, tail - 5.0))
    return np.where(central, near, np.copysign(far, q))


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], r: np.ndarray) -> np.ndarray:
    above, below = coefficients
    return np.polynomial.polynomial.polyval(r, above) / np.polynomial.polynomial.polyval(r, below)


_CENTRE = (
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_MIDDLE = (
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_TAIL = (
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)
