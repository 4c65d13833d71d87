"""The look-up attacker: whoever shares a value, or the whole release, may share what is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from tacit.auditing.received import Columns, as_columns
from tacit.auditing.weighing import MAX_ROWS, weigh

WHOLE = -1  # the key that is the whole release
MAX_KEYS = 24
MAX_LOOK = 2000  # rows that say which columns are worth a key


class Lookup:
    """Counts the classes of equal releases, and of equal values in any one column, and weighs these counts.

    Each key's counts, the record itself left out, give log-probabilities; a key's weight, never below 0, is learned
    from them. A value that nobody had before says nothing, so the attacker falls back to how common classes are.
    It finds tokens that a household shares, and noise that equal records share.

    Examples
    --------
    >>> token, label = np.array([[7.0], [7.0], [7.0], [9.0], [9.0], [9.0]]), np.array([0, 0, 0, 1, 1, 1])
    >>> Lookup().fit(token, label).predict_proba([[7.0], [9.0]]).argmax(1).tolist()
    [0, 1]
    """

    reads_columns = True

    def fit(self, X: Any, y: np.ndarray) -> Lookup:
        columns = as_columns(X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        m = len(self.classes_)
        self.prior = np.bincount(codes, minlength=m) / len(codes)
        self.tables: dict[int, tuple[pd.Index, np.ndarray]] = {}
        some = np.arange(len(codes))[:: max(1, len(codes) // MAX_ROWS)]
        logs = []
        for at in self._keys(columns, codes):
            group, values = pd.factorize(_key(columns, at))
            counts = np.bincount(group * m + codes, minlength=len(values) * m).reshape(-1, m)
            self.tables[at] = pd.Index(values), counts
            logs.append(self._others(group, codes, some))
        self.weights = weigh(np.array(logs), codes[some], np.log(self.prior)) if logs else np.empty(0)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        columns = as_columns(X)
        total = np.tile(np.log(self.prior), (len(columns), 1))
        for weight, (at, (values, counts)) in zip(self.weights, self.tables.items(), strict=True):
            if weight > 0:
                found = values.get_indexer(pd.Index(_key(columns, at)))
                total += weight * self._log_ratio(np.where(found[:, None] < 0, 0, counts[found]))
        return softmax(total, axis=1)

    @property
    def silent(self) -> bool:
        """Whether no value came twice with anything to tell."""
        return not (self.weights > 0).any()

    def _keys(self, columns: Columns, codes: np.ndarray) -> list[int]:
        """The whole release, and the columns whose equal values share a class most."""
        look, said = columns[:MAX_LOOK], codes[:MAX_LOOK]
        worth = {}
        for at in range(columns.width):
            group, values = pd.factorize(_key(look, at))
            if 1 < len(values) <= 0.98 * len(look):
                worth[at] = self._others(group, said, np.arange(len(said)))[np.arange(len(said)), said].mean()
        return [WHOLE, *sorted(worth, key=lambda at: -worth[at])[:MAX_KEYS]]

    def _others(self, group: np.ndarray, codes: np.ndarray, some: np.ndarray) -> np.ndarray:
        """For some records, the log-ratio by the others of their group: a record must not look itself up."""
        m = len(self.prior)
        counts = np.bincount(group * m + codes).astype(float)
        counts = np.pad(counts, (0, -len(counts) % m)).reshape(-1, m)[group[some]]
        counts[np.arange(len(some)), codes[some]] -= 1
        return self._log_ratio(counts)

    def _log_ratio(self, counts: np.ndarray) -> np.ndarray:
        """log p(class | key) / p(class), with one record's worth of doubt."""
        shares = (counts + self.prior) / (counts.sum(axis=1, keepdims=True) + 1)
        return np.log(shares / self.prior)


def _key(columns: Columns, at: int) -> np.ndarray:
    """One value a record, equal where the bytes of the column (or of the whole release) are equal."""
    if at == WHOLE:
        return columns.once("whole", lambda: _whole(columns))
    if columns.is_number(at):
        return np.ascontiguousarray(columns.number(("number", at))).view(np.int64)
    return columns.words(at)


def _whole(columns: Columns) -> np.ndarray:
    """A hash of each whole release."""
    every = [_key(columns, i) for i in range(columns.width)]
    same = all(k.dtype == np.int64 for k in every)  # then one call hashes them all
    hashed = pd.util.hash_array(np.concatenate(every)) if same else np.concatenate([*map(pd.util.hash_array, every)])
    odd = 2 * np.random.default_rng(0).integers(2**63, size=len(every), dtype=np.uint64) + np.uint64(1)
    total: np.ndarray = odd @ hashed.reshape(len(every), -1)
    return total
