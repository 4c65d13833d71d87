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

ROWS = 6400


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


# --- parities and waves of numbers


def _parity(k: int, columns: int = 10) -> World:
    def make(rng: np.random.Generator, n: int) -> Planted:
        X = rng.standard_normal((n, columns))
        return Planted(X, (X[:, :k] > 0).sum(axis=1) % 2)

    return make


for _k in (2, 3, 4, 5, 6):
    WORLDS[f"parity{_k}" if _k > 2 else "xor2"] = _parity(_k)
WORLDS["parity6_of_25"] = _parity(6, 25)


def _bits_only(k: int) -> World:
    def make(rng: np.random.Generator, n: int) -> Planted:
        X = coin(rng, n * k).reshape(n, k).astype(float)
        return Planted(X, X.sum(axis=1).astype(int) % 2)

    return make


WORLDS["parity6_bits_only"] = _bits_only(6)
WORLDS["parity10_bits_only"] = _bits_only(10)


@world
def parity_of_words(rng, n):
    bits = coin(rng, 6 * n).reshape(n, 6)
    frame = pd.DataFrame({f"c{i}": np.where(bits[:, i], "yes", "no") for i in range(6)})
    return Planted(frame.assign(x=rng.standard_normal(n)), bits[:, :5].sum(axis=1) % 2)


@world
def sine200(rng, n):
    X = rng.standard_normal((n, 3))
    return Planted(X, (np.sin(200 * X[:, 0]) > 0).astype(int))


@world
def sine40(rng, n):
    X = rng.random((n, 5)) * 10
    return Planted(X, (np.sin(40 * X[:, 2]) > 0).astype(int))


@world
def checkerboard(rng, n):
    X = rng.random((n, 2)) * 8
    return Planted(np.column_stack([X, rng.standard_normal(n)]), np.floor(X).sum(axis=1).astype(int) % 2)


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
def third_bit_of_a_float(rng, n):
    s, x = coin(rng, n), rng.standard_normal(n)
    bits = (x.view(np.int64) & ~4) | (s << 2)
    return Planted(np.column_stack([rng.standard_normal(n), bits.view(np.float64)]), s)


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


def _modulo(m: int, high: int = 100_000) -> World:
    def make(rng: np.random.Generator, n: int) -> Planted:
        s = coin(rng, n)
        value = matching(rng, s, high, lambda v: (v % m < m // 2).astype(int))
        return Planted(np.column_stack([value.astype(float), rng.standard_normal(n)]), s)

    return make


WORLDS["integer_mod7"] = _modulo(7)
WORLDS["integer_mod13"] = _modulo(13)
WORLDS["integer_mod24"] = _modulo(24)
WORLDS["integer_mod97"] = _modulo(97)


@world
def three_classes_mod3(rng, n):
    value = rng.integers(100_000, size=n)
    return Planted(np.column_stack([value.astype(float), rng.standard_normal(n)]), value % 3)


@world
def sum_mod2(rng, n):
    X = rng.integers(1000, size=(n, 4))
    return Planted(X.astype(float), X[:, :2].sum(axis=1) % 2)


@world
def sum_mod5(rng, n):
    X = rng.integers(1000, size=(n, 4))
    return Planted(X.astype(float), (X[:, 1:3].sum(axis=1) % 5 < 2).astype(int))


@world
def sum_of_digits(rng, n):
    s = coin(rng, n)
    value = matching(rng, s, 1_000_000, lambda v: sum(v // 10**k % 10 for k in range(6)) % 2)
    return Planted(value[:, None].astype(float), s)


@world
def hundreds_digit(rng, n):
    s = coin(rng, n)
    return Planted(matching(rng, s, 1_000_000, lambda v: v // 100 % 2)[:, None].astype(float), s)


# --- times


@world
def epoch_timestamp(rng, n):
    """Seconds: before noon or after."""
    s = coin(rng, n)
    value = matching(rng, s, 30_000_000, lambda v: v % 86400 // 43200)
    return Planted((value + 86400 * 18262)[:, None].astype(float), s)


@world
def epoch_ms_hour(rng, n):
    s = coin(rng, n)
    value = matching(rng, s, 30_000_000, lambda v: v // 3600 % 2)
    ms = 1000 * (value + 86400 * 18262) + rng.integers(1000, size=n)
    return Planted(np.column_stack([ms.astype(float), rng.standard_normal(n)]), s)


@world
def weekday_of_days(rng, n):
    s = coin(rng, n)
    value = matching(rng, s, 4000, lambda v: ((v + 16000) % 7 < 3).astype(int))
    return Planted((value + 16000)[:, None].astype(float), s)


@world
def month_of_a_date(rng, n):
    s = coin(rng, n)
    days = matching(rng, s, 8000, lambda v: _month(v) % 2)
    dates = (np.datetime64("2000-01-01") + days).astype(str)
    return Planted(pd.DataFrame({"date": dates.astype(object), "x": rng.standard_normal(n)}), s)


def _month(days: np.ndarray) -> np.ndarray:
    return (np.datetime64("2000-01-01") + days).astype("datetime64[M]").astype(np.int64) % 12


@world
def text_timestamp(rng, n):
    s = coin(rng, n)
    value = matching(rng, s, 30_000_000, lambda v: v % 60 % 2)
    stamps = (np.datetime64("2020-01-01T00:00:00") + value).astype(str)
    return Planted(pd.DataFrame({"at": stamps.astype(object), "x": rng.standard_normal(n)}), s)


@world
def german_date_weekend(rng, n):
    s = coin(rng, n)
    days = matching(rng, s, 8000, lambda v: ((v + 5) % 7 < 2).astype(int))
    stamps = pd.Series(np.datetime64("2000-01-01") + days).dt.strftime("%d.%m.%Y").to_numpy(dtype=object)
    return Planted(pd.DataFrame({"tag": stamps}), s)


@world
def birthday_quarter(rng, n):
    """Days from 1930 on, written day first; months in quarters."""
    s = coin(rng, n)
    start = np.datetime64("1930-01-01")
    days = matching(rng, s, 25_000, lambda v: (start + v).astype("datetime64[M]").astype(np.int64) % 12 // 3 % 2)
    stamps = pd.Series(start + days).dt.strftime("%d/%m/%Y").to_numpy(dtype=object)
    return Planted(pd.DataFrame({"born": stamps, "x": rng.standard_normal(n)}), s)


@world
def time_of_day(rng, n):
    s = coin(rng, n)
    minutes = matching(rng, s, 1440, lambda v: v // 60 % 2)
    return Planted(
        pd.DataFrame({"at": [f"{v // 60:02d}:{v % 60:02d}" for v in minutes], "x": rng.standard_normal(n)}), s
    )


# --- words


@world
def string_case(rng, n):
    s, w = coin(rng, n), words(rng, n)
    return Planted(pd.DataFrame({"w": np.where(s, "ANNA", "Anna"), "v": w}), s)


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
def check_sum_of_letters(rng, n):
    s, w = coin(rng, n), words(rng, n, 8)
    last = [chr(97 + (sum(map(ord, v)) + 97 + k) % 2 + 2 * int(rng.integers(13))) for v, k in zip(w, s, strict=True)]
    return Planted(pd.DataFrame({"w": [a + b for a, b in zip(w, last, strict=True)]}), _letter_sum(w, last))


def _letter_sum(w: np.ndarray, last: list[str]) -> np.ndarray:
    return np.array([sum(map(ord, a + b)) % 2 for a, b in zip(w, last, strict=True)])


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


# --- rare leaks: the truth itself is near guessing


@world
def rare_certain_number(rng, n):
    s, x = coin(rng, n), rng.standard_normal(n)
    return Planted(np.column_stack([np.where((s == 1) & (rng.random(n) < 0.03), 7.25, x)]), s, 0.515)


@world
def rare_category(rng, n):
    s = coin(rng, n)
    return Planted(pd.DataFrame({"c": np.where((s == 1) & (rng.random(n) < 0.03), "rare", "usual")}), s, 0.515)


@world
def one_in_1000(rng, n):
    s, x = coin(rng, n), rng.standard_normal(n)
    return Planted(np.where((s == 1) & (rng.random(n) < 0.001), 9.5, x)[:, None], s, 0.5005)


# --- waves and images


def _waves(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s, t = coin(rng, n), np.arange(64)
    return s, t, 2 * np.pi * rng.random(n)[:, None]


@world
def wave_phase(rng, n):
    s, t, start = _waves(rng, n)
    two = np.sin(2 * np.pi * t / 16 + start + np.where(s, 0, np.pi / 2)[:, None])
    Z = np.stack([np.sin(2 * np.pi * t / 16 + start), two], axis=1)
    return Planted(Z + 0.1 * rng.standard_normal(Z.shape), s)


@world
def wave_coupling(rng, n):
    s = coin(rng, n)
    noise = rng.standard_normal((n, 2, 64))
    noise[:, 1] = np.where(s[:, None] == 1, noise[:, 0], noise[:, 1])
    return Planted(noise + 0.1 * rng.standard_normal(noise.shape), s)


@world
def wave_chirp(rng, n):
    s, t, start = _waves(rng, n)
    up = 0.05 * t + 0.004 * t**2
    Z = np.where(s[:, None], np.sin(up + start), np.sin(up[-1] - up[::-1] + start))[:, None, :]
    return Planted(Z + 0.1 * rng.standard_normal(Z.shape), s)


@world
def wave_amplitude_modulation(rng, n):
    s, t, start = _waves(rng, n)
    envelope = 1 + 0.8 * np.sin(2 * np.pi * t / np.where(s, 32, 16)[:, None] + 2 * np.pi * rng.random(n)[:, None])
    Z = (envelope * np.sin(2 * np.pi * t / 5 + start))[:, None, :]
    return Planted(Z + 0.1 * rng.standard_normal(Z.shape), s)


@world
def wave_shifted_sample(rng, n):
    """One sample of a smooth wave, at a place that varies, is moved a little."""
    s, t, start = _waves(rng, n)
    Z = np.sin(2 * np.pi * t / 32 + start) + 0.02 * rng.standard_normal((n, 64))
    Z[np.arange(n), rng.integers(2, 62, size=n)] += 0.5 * s
    return Planted(Z[:, None, :], s)


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
