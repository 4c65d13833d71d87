"""What can be read off the letters of released words: beginnings, endings, case, blanks, pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd

from tacit.auditing.received_columns import FEW_WORDS, WIDTH, Columns

BUCKETS = 61  # for hashes of pieces
POSITIONS, THOROUGH_POSITIONS = 8, 20
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-_. "

Read = Callable[[Columns], np.ndarray]


def word_probes(columns: Columns, thorough: bool) -> Iterator[tuple[str, Read]]:
    """Named readings of the columns of many words: rows -> whole numbers from 0."""
    for at in range(columns.width):
        if columns.is_number(at) or len(pd.unique(columns.words(at))) <= FEW_WORDS:
            continue
        for name, read in _letters_of(thorough):
            yield f"{name}, column {at}", lambda c, at=at, read=read: read(c.letters(at))  # type: ignore[misc]
        for start in (True, False):
            for k in (2, 3, 4) if thorough else (2, 3):
                side = "first" if start else "last"
                yield f"{side} {k} letters, column {at}", _piece(at, k, start)


def _letters_of(thorough: bool) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    yield "case of the first letter", lambda m: _upper(m[:, :1]).sum(axis=1)
    yield "number of capitals", lambda m: np.minimum(_upper(m).sum(axis=1), 15)
    yield "number of blanks", lambda m: np.minimum((m == 32).sum(axis=1), 7)
    yield "blanks at the ends", lambda m: (m[:, 0] == 32) + 2 * (_from_end(m, 0) == 32)
    yield "letters beyond ASCII", lambda m: np.minimum((m > 127).sum(axis=1), 3)
    for k in range(THOROUGH_POSITIONS if thorough else POSITIONS):
        yield f"letter {k + 1}", partial(_letter, k=k)
        yield f"letter {k + 1} from the end", partial(_letter_from_end, k=k)
    for letter in ALPHABET if thorough else "":
        yield f"how often {letter!r}", partial(_count, code=ord(letter))


def _letter(m: np.ndarray, k: int) -> np.ndarray:
    return m[:, k] % 128


def _letter_from_end(m: np.ndarray, k: int) -> np.ndarray:
    return _from_end(m, k) % 128


def _count(m: np.ndarray, code: int) -> np.ndarray:
    """How often a letter stands in each word, in either case."""
    capital = (m == code - 32) & (97 <= code <= 122)
    found: np.ndarray = np.minimum(((m == code) | capital).sum(axis=1), 3)
    return found


def _upper(m: np.ndarray) -> np.ndarray:
    found: np.ndarray = (m >= 65) & (m <= 90)
    return found


def _from_end(m: np.ndarray, k: int) -> np.ndarray:
    """The k-th letter from the end; 0 in words that are shorter."""
    at = (m > 0).sum(axis=1) - 1 - k
    found: np.ndarray = np.where(at >= 0, m[np.arange(len(m)), np.clip(at, 0, WIDTH - 1)], 0)
    return found


def _piece(at: int, k: int, start: bool) -> Read:
    def read(columns: Columns) -> np.ndarray:
        m = columns.letters(at)
        piece = [m[:, i] if start else _from_end(m, i) for i in range(k)]
        total = np.zeros(len(m), dtype=np.uint64)
        for letter in piece:
            total = total * np.uint64(1_000_003) + letter.astype(np.uint64)
        return (pd.util.hash_array(total) % np.uint64(BUCKETS)).astype(np.int64)

    return read
