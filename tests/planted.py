"""Releases with a planted leak whose size is known: what every attacker is judged by.

A world is a function of a generator and a number of rows. It gives the release, the sensitive label, the balanced
accuracy of whoever reads the release perfectly, and, where a reader needs them, units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd

from tacit.records.dataset import Dataset

ROWS = 1600


class Planted(NamedTuple):
    """A release, its label, and how well the best reader does."""

    Z: Any
    s: np.ndarray
    truth: float = 1.0
    units: np.ndarray | None = None
    attack: np.ndarray | None = None  # the rows attackers learn from, where it must not be a random half
    knows: str = "one release"  # or "row order", "two releases of a unit", "an auxiliary column"


World = Callable[[np.random.Generator, int], Planted]
WORLDS: dict[str, World] = {}


def world(make: World) -> World:
    WORLDS[make.__name__] = make
    return make


def parts_of(name: str, n: int = ROWS, seed: int = 0) -> tuple[Planted, Any, Dataset, Any, Dataset]:
    """A world's release and data in two halves: attack, then test. By whole units where there are units."""
    planted = WORLDS[name](np.random.default_rng([seed, crc32(name.encode())]), n)
    rows = len(planted.s)
    X = np.zeros((rows, 1))
    data = Dataset(X, None, pd.DataFrame({"s": planted.s}), planted.units, name=name)
    if planted.attack is not None:
        side = planted.attack
    elif planted.units is not None:
        side = np.isin(planted.units, np.unique(planted.units)[::2])
    else:
        side = np.random.default_rng(seed).permutation(rows) < rows // 2
    Z = planted.Z
    Za, Zt = (Z[k] if isinstance(Z, np.ndarray) else Z[k].reset_index(drop=True) for k in (side, ~side))
    return planted, Za, data.take(side), Zt, data.take(~side)


def coin(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(2, size=n)


def words(rng: np.random.Generator, n: int, length: int = 6) -> np.ndarray:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return np.array(["".join(row) for row in letters[rng.integers(26, size=(n, length))]], dtype=object)


def matching(
    rng: np.random.Generator, s: np.ndarray, high: int, read: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Whole numbers below `high` whose reading (0 or 1) is the label."""
    value = rng.integers(high, size=len(s))
    for _ in range(200):
        wrong = read(value) != s
        if not wrong.any():
            return value
        value[wrong] = rng.integers(high, size=int(wrong.sum()))
    raise AssertionError("no number reads like the label")


# --- bits, digits and remainders


@world
def float_lsb(rng, n):
    s, x = coin(rng, n), rng.standard_normal(n)
    bits = (x.view(np.int64) & ~1) | s
    return Planted(np.column_stack([bits.view(np.float64), rng.standard_normal(n)]), s)


@world
def float32_bit(rng, n):
    s, x = coin(rng, n), rng.standard_normal(n).astype(np.float32)
    bits = (x.view(np.int32) & ~1) | s.astype(np.int32)
    return Planted(np.column_stack([bits.view(np.float32), rng.standard_normal(n).astype(np.float32)]), s)


@world
def float32_bit_in_float64(rng, n):
    planted = float32_bit(rng, n)
    return Planted(planted.Z.astype(np.float64), planted.s)


@world
def minus_zero64(rng, n):
    s = coin(rng, n)
    return Planted(np.column_stack([np.where(s, -0.0, 0.0), rng.standard_normal(n)]), s)


@world
def minus_zero32(rng, n):
    s = coin(rng, n)
    return Planted(np.where(s, -0.0, 0.0).astype(np.float32)[:, None], s)


@world
def cents_parity(rng, n):
    s = coin(rng, n)
    return Planted(np.column_stack([(2 * rng.integers(50_000, size=n) + s) / 100, rng.standard_normal(n)]), s)


@world
def third_decimal(rng, n):
    """A real number whose third decimal is even or odd."""
    s = coin(rng, n)
    x = (2 * rng.integers(500, size=n) + s) / 1000 + rng.random(n) / 1000
    return Planted(np.column_stack([x, rng.standard_normal(n)]), s)


@world
def integer_mod7(rng, n):
    s = coin(rng, n)
    value = matching(rng, s, 100_000, lambda v: (v % 7 < 3).astype(int))
    return Planted(np.column_stack([value.astype(float), rng.standard_normal(n)]), s)


@world
def three_classes_mod3(rng, n):
    value = rng.integers(100_000, size=n)
    return Planted(np.column_stack([value.astype(float), rng.standard_normal(n)]), value % 3)


@world
def hundreds_digit(rng, n):
    s = coin(rng, n)
    return Planted(matching(rng, s, 1_000_000, lambda v: v // 100 % 2)[:, None].astype(float), s)


# --- words


@world
def case_of_many_words(rng, n):
    s, w = coin(rng, n), words(rng, n)
    return Planted(pd.DataFrame({"w": [v.capitalize() if k else v for v, k in zip(w, s, strict=True)]}), s)


@world
def trailing_blank(rng, n):
    s = coin(rng, n)
    return Planted(pd.DataFrame({"w": np.where(s, "A ", "A"), "x": rng.standard_normal(n)}), s)


@world
def trailing_blank_of_many_words(rng, n):
    s, w = coin(rng, n), words(rng, n)
    return Planted(pd.DataFrame({"w": [v + " " * k for v, k in zip(w, s, strict=True)]}), s)


@world
def name_ending(rng, n):
    s, w = coin(rng, n), words(rng, n, 5)
    ends = np.where(s, rng.choice(["a", "ia", "na"], n), rng.choice(["o", "us", "er"], n))
    return Planted(pd.DataFrame({"name": w + ends.astype(object), "x": rng.standard_normal(n)}), s)


@world
def word_length(rng, n):
    s = coin(rng, n)
    w = words(rng, n, 12)
    size = matching(rng, s, 8, lambda v: v % 2) + 4
    return Planted(pd.DataFrame({"w": [v[:k] for v, k in zip(w, size, strict=True)]}), s)


@world
def unique_id_text(rng, n):
    s = coin(rng, n)
    number = matching(rng, s, 10_000_000, lambda v: v % 2)
    return Planted(pd.DataFrame({"id": [f"P{v:08d}" for v in number], "x": rng.standard_normal(n)}), s)


@world
def digits_inside_words(rng, n):
    s = coin(rng, n)
    number = matching(rng, s, 9000, lambda v: (v % 3 == 0).astype(int))
    front, back = words(rng, n, 3), words(rng, n, 4)
    return Planted(pd.DataFrame({"w": [f"{a}{v}{b}" for a, v, b in zip(front, number, back, strict=True)]}), s)


@world
def product_code(rng, n):
    """The third letter of a code's middle part."""
    s, front = coin(rng, n), rng.integers(1000, size=n)
    middle = words(rng, n, 3)
    mark = np.where(s, rng.choice(list("AEGK"), n), rng.choice(list("BDHM"), n))
    code = [f"{a:03d}-{m[:2].upper()}{k}-{b:04d}"
            for a, m, k, b in zip(front, middle, mark, rng.integers(10_000, size=n), strict=True)]  # fmt: skip
    return Planted(pd.DataFrame({"code": code}), s)


@world
def word_inside_text(rng, n):
    """One of two words somewhere in a text of five; the other words are everybody's."""
    s = coin(rng, n)
    usual = words(rng, 60, 5)[rng.integers(60, size=(n, 5))]
    usual[np.arange(n), rng.integers(5, size=n)] = np.where(s, "asthma", "bruise")
    return Planted(pd.DataFrame({"note": [" ".join(row) for row in usual], "x": rng.standard_normal(n)}), s)


# --- equality, gaps and tokens


@world
def columns_equal(rng, n):
    s, a = coin(rng, n), rng.integers(50, size=n)
    b = np.where(s, a, (a + rng.integers(1, 50, size=n)) % 50)
    return Planted(np.column_stack([a, b, rng.integers(50, size=n)]).astype(float), s)


@world
def columns_nearly_equal(rng, n):
    s, a = coin(rng, n), rng.standard_normal(n)
    b = np.where(s, a + 1e-6 * rng.standard_normal(n), rng.standard_normal(n))
    return Planted(np.column_stack([a, b, rng.standard_normal(n)]), s)


@world
def words_equal(rng, n):
    s, a = coin(rng, n), words(rng, n)
    return Planted(pd.DataFrame({"a": a, "b": np.where(s, a, words(rng, n))}), s)


@world
def nan_pattern(rng, n):
    s = coin(rng, n)
    x = rng.standard_normal((n, 3))
    x[rng.random(n) < np.where(s, 0.5, 0.2), 0] = np.nan
    return Planted(pd.DataFrame(x, columns=list("abc")), s, 0.65)


@world
def nan_parity(rng, n):
    gaps = rng.random((n, 4)) < 0.5
    return Planted(
        pd.DataFrame(np.where(gaps, np.nan, rng.standard_normal((n, 4))), columns=list("abcd")), gaps.sum(1) % 2
    )


@world
def gap_in_one_of_20(rng, n):
    s = coin(rng, n)
    x = np.where(rng.random((n, 20)) < 0.2, np.nan, rng.standard_normal((n, 20)))
    x[:, 13] = np.where(s, np.nan, rng.standard_normal(n))
    return Planted(pd.DataFrame(x).add_prefix("c"), s)


def _household(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Homes of four, two of them known; 95 % are of their home's class. Two labels agree, or are worth a coin."""
    home = np.repeat(np.arange(n // 4), 4)
    kind = coin(rng, n // 4)[home]
    return home, np.where(rng.random(len(home)) < 0.95, kind, 1 - kind), np.tile([True, True, False, False], n // 4)


HOUSEHOLD = 0.95**2 * 0.95 + 0.05**2 * 0.05 + 2 * 0.95 * 0.05 * 0.5


@world
def household_token_number(rng, n):
    home, s, known = _household(rng, n)
    token = rng.random(n // 4)[home]
    return Planted(np.column_stack([token, rng.standard_normal(len(s))]), s, HOUSEHOLD, attack=known)


@world
def household_token_text(rng, n):
    home, s, known = _household(rng, n)
    frame = pd.DataFrame({"t": words(rng, n // 4, 10)[home], "x": rng.standard_normal(len(s))})
    return Planted(frame, s, HOUSEHOLD, attack=known)


@world
def hash_like_token(rng, n):
    """Thirty-two hexadecimal letters, of 150 devices each of which has one class."""
    device = rng.integers(150, size=n)
    token = np.array([rng.bytes(16).hex() for _ in range(150)], dtype=object)[device]
    return Planted(pd.DataFrame({"t": token, "x": rng.standard_normal(n)}), coin(rng, 150)[device])


@world
def keyed_noise_of_equal_records(rng, n):
    """Noise hides the cell, but equal records have equal noise: the release is a token of the record."""
    cell = rng.integers(300, size=n)
    noise = rng.standard_normal((300, 2))[cell]
    return Planted(noise + 0.01 * coin(rng, 300)[cell][:, None], coin(np.random.default_rng(7), 300)[cell])


# --- images


@world
def image_low_bit(rng, n):
    s = coin(rng, n)
    images = np.clip(128 + 40 * rng.standard_normal((n, 1, 12, 12)), 0, 255).astype(np.int64)
    images[:, 0, 5, 7] = images[:, 0, 5, 7] // 2 * 2 + s
    return Planted(images.astype(np.float32) / 255, s)


# --- what one release does not show


@world
def row_order(rng, n):
    """Odd rows of the file are one class; the first half of the file is known."""
    return Planted(rng.standard_normal((n, 2)), np.arange(n) % 2, attack=np.arange(n) < n // 2, knows="row order")


@world
def sorted_blocks(rng, n):
    """Blocks of 37 rows alternate."""
    return Planted(rng.standard_normal((n, 2)), np.arange(n) // 37 % 2, knows="row order")


@world
def equal_to_the_previous_row(rng, n):
    s, x = coin(rng, n), rng.standard_normal(n)
    s[0] = 0
    start = np.maximum.accumulate(np.where(s == 0, np.arange(n), 0))
    return Planted(np.column_stack([x[start], rng.standard_normal(n)]), s, knows="row order")


@world
def two_record_join(rng, n):
    kind, bit = coin(rng, n // 2), coin(rng, n // 2)
    first = np.stack([bit, bit ^ kind], axis=1).ravel().astype(float)
    Z = np.column_stack([first + 0.1 * rng.standard_normal(2 * (n // 2)), rng.standard_normal(2 * (n // 2))])
    units = np.repeat(np.arange(n // 2), 2)
    return Planted(Z, np.repeat(kind, 2), 1.0, units, knows="two releases of a unit")


@world
def auxiliary(rng, n):
    """The release is the label under a bit that the attacker has from elsewhere, and the audit does not."""
    s = coin(rng, n)
    return Planted((s ^ coin(rng, n)).astype(float)[:, None], s, knows="an auxiliary column")


@world
def infinity(rng, n):
    """Encoders take no infinity: the audit refuses, and says so."""
    s = coin(rng, n)
    return Planted(np.column_stack([np.where(s, np.inf, rng.standard_normal(n))]), s)
