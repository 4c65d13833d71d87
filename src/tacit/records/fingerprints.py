"""Which rows were seen before: fingerprints of records, and a sketch of them that only the owner can read.

A fingerprint that anybody can compute can be guessed: whoever thinks of a record finds out whether it was in the
fit. So a bundle carries fingerprints under a key that stays with the owner; without it they are random bytes.

A training row is known again when one column of many values (a time stamp, an identifier) or the last digits were
changed: it has a fingerprint for each such look, as far as the look still tells the rows of the fit apart.
Numpy and the standard library alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.records.cells import as_array, is_gap
from tacit.records.schema import columns_of

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio, the step of splitmix64
DIGITS = (5, 3)  # significant ones, of the looks at rounded numbers
CELLS = 2**22  # that are hashed at a time
MAX_DROPPED = 8  # columns that are left out one at a time
MERGED = 0.001  # of the different rows that a look may take for equal
ENTRY = 5  # bytes of a sketched fingerprint: one in 10**12 strangers is taken for a member
MAX_ENTRIES = 2**18
PADDING = 256  # sketches come in multiples of this many entries, so that they do not tell the number of rows
EXACT = -1  # stands for "all digits" among the looks
ALL = -1  # and for "no column left out"


@dataclass(frozen=True)
class Looks:
    """Ways to look at a record that forgive a change, and the fingerprints of the fit's rows under each.

    Attributes
    ----------
    kinds : pairs of digits kept (-1: all) and column left out (-1: none)
    prints : of all rows under all kinds, sorted
    """

    kinds: tuple[tuple[int, int], ...]
    prints: np.ndarray

    def seen(self, X: Any, names: Sequence[str] | None = None) -> np.ndarray:
        """Which records look like one of the fit's under some look."""
        table = _table(X, names)
        found = np.zeros(len(table[0]), dtype=bool)
        for prints in _looked(table, self.kinds).values():
            found |= np.isin(prints, self.prints)
        return found


@dataclass(frozen=True)
class Memory:
    """The rows of a fit, as the owner's copy of a filter knows them again. It never travels as it is.

    Attributes
    ----------
    prints : fingerprints of the rows, sorted
    looks : the same under looks that forgive a change; None where the rows are on other machines
    units : names of the units, where they are known
    """

    prints: np.ndarray
    looks: Looks | None = None
    units: np.ndarray | None = None

    @classmethod
    def of(cls, X: Any, units: np.ndarray | None) -> Memory:
        """The memory of checked records."""
        known = None if units is None else np.unique(units.astype(str))
        return cls(np.sort(fingerprints(X)), learn_looks(X), known)

    def joined(self, X: Any, units: np.ndarray | None) -> Memory:
        """The same with more rows. (Looks that forgive a change stay those of the first.)"""
        more = [] if units is None else [np.unique(units.astype(str))]
        known = [*([] if self.units is None else [self.units]), *more]
        prints = np.union1d(self.prints, fingerprints(X))
        return Memory(prints, self.looks, np.unique(np.concatenate(known)) if known else None)

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these checked records belong to a unit of the fit, or look like one of its rows."""
        if units is not None and self.units is not None:
            return np.isin(np.asarray(units).astype(str), self.units)
        found = np.isin(fingerprints(X), self.prints)
        return found if self.looks is None else found | self.looks.seen(X)

    def sketch(self, key: bytes) -> tuple[list[list[int]], bytes] | None:
        """The looks, and all fingerprints under the owner's key; None where no row is known, or under no look."""
        if self.looks is None or not len(self.prints):
            return None
        prints = np.concatenate([self.prints, self.looks.prints])
        return [list(kind) for kind in self.looks.kinds], sketch(prints, self.units, key)


def fingerprints(X: Any, names: Sequence[str] | None = None) -> np.ndarray:
    """A 64-bit hash per record, equal for equal records, to notice rows that were seen before.

    Numbers count by value, whatever their type, and whether they come in a table or an array.

    Examples
    --------
    >>> a, b, c = fingerprints(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    >>> bool(a == b), bool(a == c)
    (True, False)
    """
    return _looked(_table(X, names), ((EXACT, ALL),))[EXACT, ALL]


def learn_looks(X: Any) -> Looks:
    """The looks under which these rows can still be told apart, with their fingerprints."""
    table = _table(X, None)
    if len(table[0]) == 0:
        return Looks((), np.empty(0, dtype=np.uint64))
    n_rows = len(np.unique(fingerprints(X)))
    rounded = _telling(_looked(table, tuple((d, ALL) for d in DIGITS)), n_rows)
    columns, dropped = _many_valued(table), dict[tuple[int, int], np.ndarray]()
    for digits in (*sorted(d for d, _ in rounded), EXACT):  # the more digits are forgiven the better
        left = [c for c in columns if c not in {column for _, column in dropped}]
        dropped |= _telling(_looked(table, tuple((digits, c) for c in left)), n_rows)
    kept = {**rounded, **dropped}
    return Looks(tuple(kept), np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *kept.values()])))


def sketch(prints: np.ndarray, units: np.ndarray | None, key: bytes) -> bytes:
    """Fingerprints, and names of units, under the owner's key: sorted entries of `ENTRY` bytes.

    A table of very many rows is sketched by those whose entries are smallest: a fair sample.
    """
    entries = {_entry(p.tobytes(), key) for p in prints} | {
        _unit_entry(u, key) for u in ([] if units is None else units)
    }
    entries = set(sorted(entries)[:MAX_ENTRIES])
    short = -len(entries) % PADDING
    entries |= {_entry(b"nobody" + i.to_bytes(4, "little"), key) for i in range(short)}
    return b"".join(sorted(entries))


def sketched(prints: np.ndarray, written: bytes, key: bytes) -> np.ndarray:
    """Which fingerprints are in a sketch."""
    known = _entries(written)
    return np.array([_entry(p.tobytes(), key) in known for p in prints], dtype=bool)


def sketched_units(units: Sequence[Any], written: bytes, key: bytes) -> np.ndarray:
    """Which units are in a sketch."""
    known = _entries(written)
    return np.array([_unit_entry(str(u), key) in known for u in units], dtype=bool)


def looked(X: Any, names: Sequence[str] | None, kinds: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """The fingerprints of records under each of these looks, the exact one first."""
    return list(_looked(_table(X, names), ((EXACT, ALL), *kinds)).values())


def _entries(written: bytes) -> set[bytes]:
    return {written[at : at + ENTRY] for at in range(0, len(written), ENTRY)}


def _entry(data: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=ENTRY, key=key, person=b"tacit rows").digest()


def _unit_entry(unit: str, key: bytes) -> bytes:
    return hashlib.blake2b(
        str(unit).encode("utf-8", "surrogatepass"), digest_size=ENTRY, key=key, person=b"tacit units"
    ).digest()


def _telling(found: dict[tuple[int, int], np.ndarray], n_rows: int) -> dict[tuple[int, int], np.ndarray]:
    return {kind: prints for kind, prints in found.items() if n_rows - len(np.unique(prints)) <= MERGED * n_rows}


def _table(X: Any, names: Sequence[str] | None) -> list[np.ndarray]:
    """Records as blocks of numbers (n, k), and columns of objects (n,)."""
    columns = columns_of(X)
    if columns is not None:
        plain = [as_array(columns[name]) for name in (columns if names is None else names)]
    else:
        array = np.asarray(X)
        if array.dtype.kind in "fiub":
            return [array.reshape(len(array), -1)]
        plain = list(array.T)
    return [c.astype(np.float64)[:, None] if c.dtype.kind in "fiub" else c.astype(object) for c in plain]


def _many_valued(table: Sequence[np.ndarray]) -> list[int]:
    """Columns in which at least half of the rows differ."""
    found, at = [], 0
    for block in table:
        columns = block.T if block.ndim == 2 else [block]
        if block.ndim == 2 and block.shape[1] > 1000:  # windows and images: no column is a name or a time
            at += block.shape[1]
            continue
        for column in columns:
            values = len(np.unique(column)) if column.dtype != object else len(set(map(str, column)))
            if values >= max(2, len(column) / 2):
                found.append((-values, at))
            at += 1
    return [column for _, column in sorted(found)[:MAX_DROPPED]] if at > 1 else []


def _looked(table: Sequence[np.ndarray], kinds: Sequence[tuple[int, int]]) -> dict[tuple[int, int], np.ndarray]:
    n = len(table[0])
    out = {kind: np.zeros(n, dtype=np.uint64) for kind in kinds}
    words: dict[Any, int] = {}
    first = 0
    for block in table:
        width = block.shape[1] if block.ndim == 2 else 1
        places = mixed(np.arange(first, first + width, dtype=np.uint64))
        step = max(1, CELLS // width)
        for at in range(0, n, step):
            part = block[at : at + step]
            for digits in {d for d, _ in kinds}:
                cells = mixed((_bits(part, digits) if part.ndim == 2 else _word_bits(part, digits, words)) + places)
                total = cells.sum(axis=1, dtype=np.uint64)
                for kind in kinds:
                    if kind[0] == digits:
                        inside = first <= kind[1] < first + width
                        out[kind][at : at + step] += total - cells[:, kind[1] - first] if inside else total
        first += width
    # the look is part of the print: a row under one look is never taken for a row under another
    return {
        kind: mixed(p + mixed(np.array([kind[0] + 2, kind[1] + 2], dtype=np.uint64)).sum()) for kind, p in out.items()
    }


def _bits(numbers: np.ndarray, digits: int) -> np.ndarray:
    """Numbers as 64 bits each, rounded to n significant digits; zeros are one number, and so are gaps."""
    x = numbers.astype(np.float64)
    if digits != EXACT:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            unit = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(x))))
            round_ = np.round(x * unit) / unit
        x = np.where(np.isfinite(round_), round_, x)
    x = x + 0.0
    x[np.isnan(x)] = np.nan
    return np.ascontiguousarray(x).view(np.uint64)


def _word_bits(column: np.ndarray, digits: int, known: dict[Any, int]) -> np.ndarray:
    out = np.empty(len(column), dtype=np.uint64)
    for i, value in enumerate(column):
        if type(value) is not str:
            if is_gap(value):
                value = np.nan
            if isinstance(value, bool | int | float | np.number | np.bool_):
                out[i] = _bits(np.array([float(value)]), digits)[0]
                continue
            value = str(value)
        if value not in known:
            digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            known[value] = int.from_bytes(digest, "little")
        out[i] = known[value]
    return out[:, None]


def mixed(x: np.ndarray) -> np.ndarray:
    """Every bit of a number depends on every other afterwards (splitmix64)."""
    x = (x + GOLDEN).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
