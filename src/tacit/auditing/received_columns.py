"""Released columns as a receiver sees them: numbers with all their bits, words with all their letters.

Encoders standardize numbers and one-hot words, and so hide bits, digits, endings and the sign of zero. Attackers that
read these are given `Columns` instead of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

Source = tuple[str, int]  # what is read as a number, and in which column: ("number", 3), ("digits", 0)

FEW_WORDS = 40  # a column of so few words is one-hot encoded, and ordinary attackers read it
WIDTH = 32  # letters of a word that are looked at
TIME_FORMATS = (
    "ISO8601", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y",
    "%Y/%m/%d %H:%M:%S", "%Y%m%d%H%M%S", "%d %b %Y", "%b %d %Y", "%H:%M:%S", "%H:%M",
)  # fmt: skip


class Columns:
    """Released records: their encoding `X` and, beside it, the columns as they were handed over.

    Examples
    --------
    >>> both = Columns(np.zeros((2, 1)), pd.DataFrame({"code": ["A-17", "B-20"]}))
    >>> both.number(("digits", 0)).tolist()
    [17.0, 20.0]
    """

    def __init__(self, X: np.ndarray, frame: pd.DataFrame) -> None:
        self.X = X
        self._table = frame
        self._rows: np.ndarray | None = None
        self._read_before: dict[Any, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> Columns:
        rows = np.arange(len(self))[rows]
        part = Columns(self.X[rows], self._table)
        part._rows = rows if self._rows is None else self._rows[rows]
        # what was read of all rows is not read again of some
        part._read_before = {key: values[rows] for key, values in self._read_before.items()}
        part._numeric = self._numeric
        return part

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def width(self) -> int:
        """How many columns were handed over."""
        return self._table.shape[1]

    @property
    def gaps(self) -> np.ndarray:
        return self.once("gaps", lambda: self.frame.isna().to_numpy())

    @cached_property
    def frame(self) -> pd.DataFrame:
        return self._table if self._rows is None else self._table.iloc[self._rows]

    @cached_property
    def _numeric(self) -> list[bool]:
        return [bool(pd.api.types.is_numeric_dtype(kind)) for kind in self._table.dtypes]

    def is_number(self, at: int) -> bool:
        return self._numeric[at]

    def once(self, key: Any, read: Callable[[], np.ndarray]) -> np.ndarray:
        """What `read` gives, one value or row a record, remembered under this key."""
        if key not in self._read_before:
            self._read_before[key] = read()
        return self._read_before[key]

    def sources(self) -> list[Source]:
        """Everything here that can be read as a number, also inside of words."""
        found: list[Source] = []
        for at in range(self.width):
            if self.is_number(at):
                found.append(("number", at))
                continue
            distinct = len(pd.unique(self.words(at)))
            if distinct <= FEW_WORDS:
                found += [("hash", at)] if distinct == 2 else []  # a bit, for parities
                continue
            kinds = ["length", "sum of letters", "digits", "first digits", "last digits", *self._time_format(at)]
            read = {kind: self.number((kind, at)) for kind in kinds}
            seen: list[np.ndarray] = []
            for kind, values in read.items():
                present = np.isfinite(values).mean() > 0.5 and np.nanmin(values) < np.nanmax(values)
                if present and not any(np.array_equal(values, other, equal_nan=True) for other in seen):
                    found.append((kind, at))
                    seen.append(values)
        return found

    def matrix(self, sources: list[Source]) -> np.ndarray:
        if all(kind == "number" for kind, _ in sources) and len(sources) == self.width:
            return self.once("matrix", lambda: self.frame.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.column_stack([self.number(s) for s in sources]) if sources else np.empty((len(self), 0))

    def number(self, source: Source) -> np.ndarray:
        return self.once(source, lambda: self._read(*source))

    def words(self, at: int) -> np.ndarray:
        """A column as text; a gap is the empty word."""

        def read() -> np.ndarray:
            column = self.frame.iloc[:, at].astype(object)
            return np.where(column.isna(), "", column.astype(str).to_numpy(dtype=object))

        return self.once(("words", at), read)

    def letters(self, at: int) -> np.ndarray:
        """The code of each of a word's first letters, (n, WIDTH); 0 behind the end."""

        def read() -> np.ndarray:
            fixed = np.ascontiguousarray(self.words(at).astype(f"<U{WIDTH}"))
            return fixed.view(np.uint32).reshape(len(self), WIDTH).astype(np.int64)

        return self.once(("letters", at), read)

    def _read(self, kind: str, at: int) -> np.ndarray:
        if kind == "number":
            column = self.frame.iloc[:, at]
            column = column if self._numeric[at] else pd.to_numeric(column, errors="coerce")
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        if kind == "length":
            return np.array([len(w) for w in self.words(at)], dtype=np.float64)
        if kind == "sum of letters":
            return self.letters(at).sum(axis=1).astype(np.float64)
        if kind == "hash":
            return (pd.util.hash_array(self.words(at)) >> np.uint64(12)).astype(np.float64)
        words = pd.Series(self.words(at), dtype=object).astype(str)
        if kind.startswith("time "):
            read = pd.to_datetime(words, errors="coerce", format=kind.removeprefix("time "), utc=True)
            seconds = (read - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
            # 400 years later the calendar repeats, weekdays too: so no time lies before 1970
            return seconds.to_numpy(dtype=np.float64) + 400 * 365.2425 * 86400
        pattern = {"digits": None, "first digits": r"(\d{1,15})", "last digits": r"(\d{1,15})\D*$"}[kind]
        digits = words.str.replace(r"\D", "", regex=True).str[:15] if pattern is None else words.str.extract(pattern)[0]
        return pd.to_numeric(digits, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)

    def _time_format(self, at: int) -> list[str]:
        """How this column writes times, if it does: asked of a few words first."""
        some = self[:20]
        for written in TIME_FORMATS:
            if np.isfinite(some.number((f"time {written}", at))).mean() >= 0.9:
                return [f"time {written}"]
        return []


def as_columns(X: Any) -> Columns:
    """Columns of a bare matrix, for an attacker that is used without a suite."""
    return X if isinstance(X, Columns) else Columns(np.asarray(X), pd.DataFrame(np.asarray(X)))
