"""Noise that averaging cannot remove, and that two people never share.

A draw is a pseudo-random function of a secret key and of a *name*: the record's values at a declared resolution,
together with the unit (the person) it belongs to, where the caller says so, and else with its occurrence number among
the equal records of its file. So the same person's record asked again gets the same draw, however its numbers were
stored or rounded on the way, and repeating a query or releasing the table twice tells nothing new; equal records of
different people get independent draws, so nobody's release can be looked up among the others'.

Without units, equal records in two *files* released under one key share their draw: name units to prevent it.

The key comes from the operating system, never from `random_state`, and never travels in a bundle. This module needs
numpy alone: the runtime of a bundle draws by the same lines as the filter.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

GRID = 2.0**-12
# Of encoded (standardized) values: records closer than this are one record to the noise. Coarse enough that numbers
# sent as single precision, or through text with six decimals, keep their draw; fine enough to tell people apart.
RESOLUTION = 2.0**-10
WHOLE = re.compile(r"[+-]?[0-9]{1,40}(\.0*)?")


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
    distribution : "normal" (of this standard deviation), "laplace" (of this scale) or "uniform" (from 0 to the scale)
    scale : of the noise in every column
    columns : how many numbers are drawn for a record
    added : added to the code; else given to the filter beside the record
    mechanism : public name of what is released, so that another filter under the same key draws otherwise
    grid : noisy sums are rounded to this share of the scale
    resolution : encoded values closer than this name the same draw
    """

    distribution: str
    scale: float
    columns: int
    added: bool
    mechanism: bytes
    grid: float = GRID
    resolution: float = RESOLUTION

    def resized(self, scale: float) -> Noise:
        """The same noise at another size, under another name: one draw at two sizes could be solved for the record."""
        name = hashlib.blake2b(np.float64(scale).tobytes(), key=self.mechanism, digest_size=32).digest()
        return self if scale == self.scale else replace(self, scale=scale, mechanism=name)

    def names(self, records: np.ndarray, units: Any = None, file: Numbers | None = None) -> list[bytes]:
        """What each record's draw is a function of, beside the key: two records of one name share their noise.

        Parameters
        ----------
        records : (n, ...) encoded records
        units : (n,) whose record each is; None where nobody says
        file : counts equal records from one batch of a file to the next; None: these records are a file of their own
        """
        flat = np.asarray(records, dtype=np.float64).reshape(len(records), -1)
        rows = canonical(flat, self.resolution)
        if units is not None:
            return [b"unit" + row.tobytes() + unit_name(u) for row, u in zip(rows, units, strict=True)]
        numbered = np.column_stack([rows, (file or Occurrences()).number(rows)]).astype("<i8")
        joined, width = numbered.tobytes(), numbered.shape[1] * 8
        return [b"file" + joined[at : at + width] for at in range(0, len(joined), width)]

    def draw(self, key: bytes, names: Sequence[bytes]) -> np.ndarray:
        """The noise of records of these names, (n, columns)."""
        return self.scale * DRAWS[self.distribution](derived_key(key, self.mechanism), names, self.columns)

    def add(self, code: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """The noisy code on a grid.

        The last digits of a floating-point sum tell which sums are possible at all: they are rounded away.
        """
        step = self.grid * self.scale
        return np.rint((code + drawn.reshape(code.shape)) / step) * step + 0.0


def canonical(records: np.ndarray, resolution: float) -> np.ndarray:
    """Encoded records (n, d) as whole multiples of the resolution."""
    return np.ascontiguousarray(np.rint(np.clip(records / resolution, -(2.0**62), 2.0**62)).astype(np.int64))


def unit_name(unit: Any) -> bytes:
    """A unit's name: 7, 7.0, "7" and "007" are one person, whatever type the column had."""
    if isinstance(unit, float | np.floating) and float(unit).is_integer():
        unit = int(unit)
    name = str(unit).strip()
    return (str(int(name.split(".")[0])) if WHOLE.fullmatch(name) else name).encode("utf-8", "surrogatepass")


class Numbers(Protocol):
    """Gives equal records of a file different numbers."""

    def number(self, rows: np.ndarray) -> np.ndarray:
        """The number of each of these rows."""


class Occurrences:
    """Counts how often each canonical record has come in a file: the first is 0, the next equal one 1.

    Holds 16 bytes for each distinct record seen. (Two records of one 64-bit hash would share a count; that leaves
    gaps in the numbers, and no draw is shared by it.)
    """

    def __init__(self) -> None:
        self._hashes, self._counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)

    def number(self, rows: np.ndarray) -> np.ndarray:
        """How many equal rows came before each of these, in earlier calls too."""
        hashes, place, counts = np.unique(_hash(rows), return_inverse=True, return_counts=True)
        order = np.argsort(place, kind="stable")
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        within = np.empty(len(rows), dtype=np.int64)
        within[order] = np.arange(len(rows)) - starts
        at = np.searchsorted(self._hashes, hashes)
        known = at < len(self._hashes)
        known[known] = self._hashes[at[known]] == hashes[known]
        before = np.zeros(len(hashes), dtype=np.int64)
        before[known] = self._counts[at[known]]
        self._counts[at[known]] += counts[known]
        self._hashes = np.insert(self._hashes, at[~known], hashes[~known])
        self._counts = np.insert(self._counts, at[~known], counts[~known])
        return before[place] + within


class Numbered:
    """Numbers that were counted elsewhere, handed out in the order of the rows of one part of a file."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._left = numbers

    def number(self, rows: np.ndarray) -> np.ndarray:
        """The numbers of the next rows."""
        given, self._left = self._left[: len(rows)], self._left[len(rows) :]
        return given


def _hash(rows: np.ndarray) -> np.ndarray:
    """64 bits a row, equal for equal rows."""
    multipliers = np.random.default_rng(7).integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + 1
    mixed = rows.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return (mixed * multipliers.astype(np.uint64)).sum(axis=1, dtype=np.uint64)


def keyed_normal(key: bytes, names: Sequence[bytes], n_columns: int) -> np.ndarray:
    """Standard normal numbers, (n, n_columns): a function of the key and each name."""
    return normal_quantile(keyed_uniform(key, names, n_columns))


def keyed_laplace(key: bytes, names: Sequence[bytes], n_columns: int) -> np.ndarray:
    """Laplace numbers of scale 1, (n, n_columns): a function of the key and each name."""
    u = keyed_uniform(key, names, n_columns)
    return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def keyed_uniform(key: bytes, names: Sequence[bytes], n_columns: int) -> np.ndarray:
    """Numbers between 0 and 1, neither of them included, (n, n_columns): a function of the key and each name."""
    blocks = -(-n_columns // 8)  # a 64-byte digest gives eight numbers
    keyed = [hashlib.blake2b(key=key, salt=block.to_bytes(8, "little")) for block in range(blocks)]

    def digest(start: Any, name: bytes) -> bytes:
        own = start.copy()
        own.update(name)
        return own.digest()

    digests = b"".join([digest(start, name) for name in names for start in keyed])
    # 52 bits, shifted by a half so that neither 0 nor 1 occurs (with 53 the largest would be rounded to 1)
    words = np.frombuffer(digests, dtype="<u8").reshape(len(names), blocks * 8)[:, :n_columns]
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


DRAWS = {"normal": keyed_normal, "laplace": keyed_laplace, "uniform": keyed_uniform}


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


@dataclass(frozen=True)
class Finite:
    """The release is one of finitely many things, so a certificate counts them.

    Attributes
    ----------
    codes : how many code numbers there are, where the release is such a number; else None
    cells : how many different releases there are, where that is known
    """

    codes: int | None = None
    cells: int | None = None


@dataclass(frozen=True)
class Bounded:
    """A bounded code under noise that is added to it.

    Attributes
    ----------
    radius : of the L1 ball the code is clipped into, where that gives every release local privacy
    """

    radius: float | None = None

    def epsilon(self, scale: float) -> float | None:
        """Under Laplace noise of this scale no release is more than e^epsilon times as likely for another record."""
        return None if self.radius is None else 2 * self.radius / scale


Support = Finite | Bounded | None
