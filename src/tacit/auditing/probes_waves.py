"""Waves and parities: periods found by a Fourier transform, parities of bits by a Walsh-Hadamard transform."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import combinations

import numpy as np

from tacit.auditing.probes_numbers import scale_of

GRID = 8192  # steps over a column's range; half as many periods can be told apart
PAIR_GRID = 64
PHASES = 8
PEAKS = 2  # periods kept of each column


def find_periods(column: np.ndarray, targets: np.ndarray) -> list[float]:
    """The frequencies at which a column's waves go with the labels best, refined on the values themselves."""
    present = np.isfinite(column)
    x, r = column[present], targets[present]
    if len(x) < 50 or x.min() == x.max():
        return []
    low, high = x.min(), x.max()
    step = np.minimum(((x - low) / (high - low) * (GRID // 2)).astype(np.int64), GRID // 2)
    found = []
    for c in range(r.shape[1]):
        power = np.abs(np.fft.rfft(np.bincount(step, r[:, c], GRID))) ** 2
        power[:8] = 0  # slow waves are the column's level
        for k in np.argsort(-power)[:PEAKS]:
            near = (k + np.linspace(-1, 1, 41)) / (2 * (high - low))
            wave = np.abs(np.exp(2j * np.pi * np.outer(near, x - low)) @ r[:, c])
            found.append(float(near[wave.argmax()]))
    return found


def find_pair_periods(one: np.ndarray, two: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
    """The strongest wave over two columns together: its two frequencies, and its power as a multiple of chance."""
    present = np.isfinite(one) & np.isfinite(two)
    x, y, r = one[present], two[present], targets[present]
    if len(x) < 50 or x.min() == x.max() or y.min() == y.max():
        return 0.0, 0.0, 0.0
    at = [np.minimum(((v - v.min()) / np.ptp(v) * PAIR_GRID / 2).astype(np.int64), PAIR_GRID // 2) for v in (x, y)]
    best = (0.0, 0.0, 0.0)
    for c in range(r.shape[1]):
        grid = np.bincount(at[0] * PAIR_GRID + at[1], r[:, c], PAIR_GRID**2).reshape(PAIR_GRID, PAIR_GRID)
        power = np.abs(np.fft.rfft2(grid)) ** 2 / max(float((r[:, c] ** 2).sum()), 1e-12)
        power[:2, :2] = power[-1:, :2] = 0  # slow waves are left to ordinary attackers
        i, j = np.unravel_index(power.argmax(), power.shape)
        if power[i, j] > best[2]:
            k = int(i) if i <= PAIR_GRID // 2 else PAIR_GRID - int(i)  # the mirrored wave has the same cells
            best = (k / (2 * np.ptp(x)), int(j) / (2 * np.ptp(y)), float(power[i, j]))
    return best


PairWave = Callable[[np.ndarray, np.ndarray], np.ndarray]


def align_pair(one: np.ndarray, two: np.ndarray, r: np.ndarray, f: float, g: float) -> dict[str, PairWave]:
    """Near these frequencies, the product of two waves and the plane wave that go with r best, and their phases."""
    present = np.isfinite(one) & np.isfinite(two)
    x, y, r = one[present], two[present], r[present]
    steps = [np.linspace(-0.5, 0.5, 7) / np.ptp(v) for v in (x, y)]

    def sums(f: float, g: float) -> tuple[complex, complex]:
        a, b = np.exp(2j * np.pi * f * x), np.exp(2j * np.pi * g * y)
        return complex((r * a * b).sum()), complex((r * a * b.conj()).sum())

    for finer in (1, 6, 36):
        near = [(f + i / finer, g + j / finer) for i in steps[0] for j in steps[1]]
        f, g = max(near, key=lambda at: sum(abs(c) for c in sums(*at)))
    plus, minus = sums(f, g)
    # sin(a + u) sin(b + v) = (cos(a - b + u - v) - cos(a + b + u + v)) / 2
    total, difference = -np.angle(-plus), -np.angle(minus)
    u, v = (total + difference) / 2, (total - difference) / 2
    sign, turn = (1, -np.angle(plus)) if abs(plus) > abs(minus) else (-1, -np.angle(minus))

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _known(np.sin(2 * np.pi * f * x + u) * np.sin(2 * np.pi * g * y + v))

    def plane(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _known(np.cos(2 * np.pi * (f * x + sign * g * y) + turn))

    return {"product": product, "plane": plane, "x": lambda x, y: phase(x, f), "y": lambda x, y: phase(y, g)}


def _known(wave: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(np.isfinite(wave), wave, 0.0)
    return found


def phase(values: np.ndarray, frequency: float) -> np.ndarray:
    """Where in its period each value lies, 0 to 1."""
    found: np.ndarray = np.mod(np.where(np.isfinite(values), values, 0.0) * frequency, 1.0)
    return found


class Bits:
    """Columns turned into bits of one kind, the most even first; learned once, then read from any rows.

    Kinds: "sign" (above 0), "half" (above the median, or the larger of two values), "odd" (of whole numbers),
    "low" (last bit of a float), "gap".
    """

    def __init__(self, kind: str, values: np.ndarray, maximum: int) -> None:
        self.kind = kind
        self.median = np.array([np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0.0 for c in values.T])
        largest = np.array([c[np.isfinite(c)].max(initial=0.0) for c in values.T])
        self.median = np.where(self.median == largest, np.nextafter(self.median, -np.inf), self.median)
        self.power = np.array([scale_of(c) or 1.0 for c in values.T])
        self.which = np.arange(values.shape[1])
        share = self.read(values).mean(axis=0)
        order = np.argsort(np.abs(share - 0.5), kind="stable")
        self.which = np.sort(order[np.abs(share[order] - 0.5) < 0.48][:maximum])

    def signs(self) -> Bits:
        """The same columns by their sign, which needs no median."""
        other = copy(self)
        other.kind = "sign"
        return other

    def read(self, values: np.ndarray) -> np.ndarray:
        v = values[:, self.which]
        if self.kind == "gap":
            return ~np.isfinite(v)
        v = np.where(np.isfinite(v), v, 0.0)
        if self.kind == "half":
            bits: np.ndarray = v > self.median[self.which]
            return bits
        if self.kind == "sign":
            above: np.ndarray = v > 0
            return above
        if self.kind == "odd":
            odd: np.ndarray = np.mod(np.rint(v * self.power[self.which]), 2) == 1
            return odd
        low: np.ndarray = (np.ascontiguousarray(v).view(np.int64) & 1) == 1
        return low


def find_parities(bits: np.ndarray, targets: np.ndarray, best: int) -> list[tuple[int, ...]]:
    """The sets of two or more bits whose parity goes with the labels best: all sets are tried at once."""
    k = bits.shape[1]
    if k < 2:
        return []
    place = bits.astype(np.int64) @ (1 << np.arange(k))
    total = np.zeros(1 << k)
    for c in range(targets.shape[1]):
        total = np.maximum(total, np.abs(_walsh_hadamard(np.bincount(place, targets[:, c], 1 << k))))
    size = np.bitwise_count(np.arange(1 << k))
    total[size < 2] = 0
    top = np.argpartition(-total, min(best, len(total) - 1))[:best]
    return [tuple(int(b) for b in range(k) if mask >> b & 1) for mask in top[np.argsort(-total[top])].tolist()]


def find_large_parities(bits: np.ndarray, targets: np.ndarray, best: int) -> list[tuple[int, ...]]:
    """Of more bits than all sets can be tried of: those of up to six, as products of two triples."""
    k = bits.shape[1]
    signs = np.where(bits, 1.0, -1.0).astype(np.float32)
    triples = np.array(list(combinations(range(k), 3)))
    products = signs[:, triples[:, 0]] * signs[:, triples[:, 1]] * signs[:, triples[:, 2]]
    found: dict[tuple[int, ...], float] = {}
    for c in range(targets.shape[1]):
        gram = np.abs((products * targets[:, [c]].astype(np.float32)).T @ products)
        for flat in np.argpartition(-gram, best * 20, axis=None)[: best * 20]:  # a set of six is ten products
            i, j = divmod(int(flat), len(triples))
            odd = tuple(sorted(set(triples[i].tolist()) ^ set(triples[j].tolist())))
            if len(odd) >= 2:
                found[odd] = max(found.get(odd, 0.0), float(gram[i, j]))
    return sorted(found, key=lambda bits: -found[bits])[:best]


def parity(bits: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    odd: np.ndarray = bits[:, list(chosen)].sum(axis=1) % 2
    return odd


def _walsh_hadamard(table: np.ndarray) -> np.ndarray:
    """The sum over rows of a table, signed by each parity of the row number's bits."""
    out = table.astype(np.float64)
    half = 1
    while half < len(out):
        pair = out.reshape(-1, 2, half)
        out = np.stack([pair[:, 0] + pair[:, 1], pair[:, 0] - pair[:, 1]], axis=1).reshape(-1)
        half *= 2
    return out
