"""What can be read off the digits, bits, remainders, time parts and waves of released numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

REMAINDERS = (9, 10, 11, 12, 13, 14, 15, 16)  # with their divisors: all moduli from 2 to 16
MORE_REMAINDERS = (17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 31, 32, 60)
MAX_EXACT = 2.0**53  # whole numbers that a float holds exactly
MAX_DECIMALS = 6
NEARLY = 2e-4  # of 1: so near to a whole number a number is one
# seconds in one of the unit, and the medians for which a number may be a time in that unit
TIME_UNITS = ((1.0, 1e8, 3e10), (1e-3, 1e11, 1e13), (1e-6, 1e14, 1e16), (1e-9, 1e17, 1e19), (86400.0, 1e3, 1e5))


@dataclass(frozen=True)
class Family:
    """One way of reading many columns at once.

    `read` takes a matrix with the columns of one feature (1, or 2 for pairs) each and gives whole numbers from 0.
    """

    name: str
    which: np.ndarray  # (k, 1) or (k, 2): the sources each feature is read from
    read: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (values (n, k[, 2]), at (k,)) -> codes (n, k)

    def codes(self, values: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        at = np.arange(len(self.which)) if at is None else at
        chosen = values[:, self.which[at]]
        missing = ~np.isfinite(chosen).all(axis=2)
        found = self.read(np.where(np.isfinite(chosen), chosen, 0.0), at)
        return np.where(missing, 0, found.astype(np.int64) + 1)


def single_families(values: np.ndarray, thorough: bool) -> Iterator[Family]:
    """Readings of one column: bits, remainders, digits, times. `values` (n, d) are rows to learn formats from."""
    d = values.shape[1]
    every = np.arange(d)[:, None]
    zeros = every[((values == 0).mean(axis=0) > 0.01)]
    if len(zeros):
        yield Family("sign of zero", zeros, lambda v, at: np.where(v[..., 0] == 0, 1 + np.signbit(v[..., 0]), 0))
    shift = np.array([_trailing_zeros(values[:, j]) for j in range(d)])
    yield Family("last bits", every, lambda v, at: (_bits(v[..., 0]) >> shift[at]) & 7)
    yield Family("last bit", every, lambda v, at: (_bits(v[..., 0]) >> shift[at]) & 1)
    yield Family("last bits as float32", every, lambda v, at: v[..., 0].astype(np.float32).view(np.int32) & 7)
    scale = np.array([scale_of(values[:, j]) for j in range(d)])
    whole = np.flatnonzero(scale)
    if len(whole):
        power = scale[whole]
        for m in (*REMAINDERS, *(MORE_REMAINDERS if thorough else ())):
            yield Family(f"remainder {m}", whole[:, None], _remainder(power, m))
        largest = np.nanmax(np.abs(values[:, whole]) * power, axis=0)
        for k in range(1, 13 if thorough else 7):
            long = largest >= 10**k
            if long.any():
                yield Family(f"digit {k}", whole[long][:, None], _remainder(power[long] / 10**k, 10))
        yield Family("sum of digits", whole[:, None], _digit_sum(power))
    fractions = np.flatnonzero(scale == 0)
    if len(fractions):
        for k in range(1, 7 if thorough else 5):
            yield Family(f"decimal {k}", fractions[:, None], _remainder(np.full(len(fractions), 10.0**k), 10))
    yield from _times(values)


def pair_families(values: np.ndarray, thorough: bool) -> Iterator[Family]:
    """Readings of two columns: equality, order, and remainders of sums and differences of whole numbers."""
    d = values.shape[1]
    if d < 2:
        return
    pairs = np.array(list(combinations(range(d), 2)))
    spread = np.nanstd(values, axis=0)
    width = np.maximum(spread[pairs].mean(axis=1), 1e-12) / 1000
    yield Family("equality", pairs, lambda v, at: _compare(v, width[at]))
    scale = np.array([scale_of(values[:, j]) for j in range(d)])
    whole = pairs[(scale[pairs] > 0).all(axis=1)]
    if len(whole):
        power = scale[whole].max(axis=1)
        for m in REMAINDERS if thorough else (9, 10, 11, 12, 14, 16):
            yield Family(f"remainder of the sum, {m}", whole, _pair_remainder(power, m, 1))
        for m in REMAINDERS if thorough else ():
            yield Family(f"remainder of the difference, {m}", whole, _pair_remainder(power, m, -1))


def scale_of(column: np.ndarray) -> float:
    """What makes these numbers whole: a power of ten, or one divided by their step; 0 where nothing does."""
    present = np.unique(column[np.isfinite(column)])
    if len(present) < 2:
        return 0.0
    largest = np.abs(present).max()
    if largest >= MAX_EXACT:
        return float(largest < 2.0**63 and (present == np.rint(present)).all())
    step = np.diff(present).min()
    for power in (*10.0 ** np.arange(MAX_DECIMALS + 1), 1 / step):
        scaled = present * power
        # a decimal fraction is off by an ulp or two, a real one by a share of 1
        if np.abs(scaled).max() < 1e15 and (np.abs(scaled - np.rint(scaled)) <= NEARLY).all():
            return float(power)
    return 0.0


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.int64)


def _trailing_zeros(column: np.ndarray) -> int:
    """The bits at the end that no number uses: those of a float32 stored as float64, for one."""
    used = int(np.bitwise_or.reduce(_bits(column[np.isfinite(column)]), initial=0))
    return (used & -used).bit_length() - 1 if used else 0


def _remainder(power: np.ndarray, m: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def read(v: np.ndarray, at: np.ndarray) -> np.ndarray:
        scaled = v[..., 0] * power[at]
        near = np.rint(scaled)
        # nearly whole: a decimal that a float cannot hold; otherwise the digits above the point
        found: np.ndarray = np.mod(np.where(np.abs(scaled - near) <= NEARLY, near, np.floor(scaled)), m)
        return found

    return read


def _pair_remainder(power: np.ndarray, m: int, sign: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def read(v: np.ndarray, at: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.mod(np.rint(v[..., 0] * power[at]) + sign * np.rint(v[..., 1] * power[at]), m)
        return found

    return read


def _digit_sum(power: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def read(v: np.ndarray, at: np.ndarray) -> np.ndarray:
        rest = np.rint(np.abs(v[..., 0] * power[at]))
        total = np.zeros_like(rest)
        for _ in range(16):
            rest, digit = np.floor(rest / 10), np.mod(rest, 10)
            total += digit
        return np.mod(total, 10)

    return read


def _compare(v: np.ndarray, width: np.ndarray) -> np.ndarray:
    difference = v[..., 0] - v[..., 1]
    near = np.abs(difference) <= width
    return np.select([difference == 0, near], [0, 1], default=2)


def _times(values: np.ndarray) -> Iterator[Family]:
    middle = np.array([np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0.0 for c in values.T])
    for unit, low, high in TIME_UNITS:
        which = np.flatnonzero((middle >= low) & (middle < high))[:, None]
        if not len(which):
            continue
        parts: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "weekday": lambda s: np.floor(s / 86400 + 3) % 7,
            "month": lambda s: s.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64) % 12,
            "day of the month": _day_of_month,
            "year": lambda s: s.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) % 50,
        }
        if unit < 86400:
            parts |= {
                "hour": lambda s: np.floor(s / 3600) % 24,
                "minute": lambda s: np.floor(s / 60) % 60,
                "second": lambda s: np.floor(s) % 60,
                "half hour": lambda s: np.floor(s / 1800) % 2,
            }
        for name, part in parts.items():
            yield Family(f"{name} (unit {unit:g} s)", which, _in_seconds(part, unit))


def _in_seconds(
    part: Callable[[np.ndarray], np.ndarray], unit: float
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda v, at: part(v[..., 0] * unit)


def _day_of_month(seconds: np.ndarray) -> np.ndarray:
    days = seconds.astype("datetime64[s]").astype("datetime64[D]")
    return (days - days.astype("datetime64[M]")).astype(np.int64)
