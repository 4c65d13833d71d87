"""The sensitive columns of a release that looks at them, as one class a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.labels import MISSING, Labels, encode_labels, is_number, label_frame
from tacit.records.people import Crowd
from tacit.records.schema import Column

QUANTILES = 5  # classes of a sensitive measurement
MAX_COMBINATIONS = 2**20
SPARSE = 5  # times the people that anything needs: a class of fewer is pooled


@dataclass(frozen=True, eq=False)
class SensitiveClasses:
    """The combinations of all sensitive columns, sparse ones pooled.

    Attributes
    ----------
    columns : what comes in; what the fit did not have is refused
    edges : of each column of numbers, between its classes; empty for words
    numbers : the class of each combination, one axis a column; -1 for what the fit did not have
    shares : (classes,) how frequent each class is, everybody counted alike
    """

    columns: tuple[Column, ...]
    edges: tuple[np.ndarray, ...]
    numbers: np.ndarray
    shares: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    def __len__(self) -> int:
        return len(self.shares)

    def frame(self, values: Any, n_rows: int) -> pd.DataFrame:
        """The sensitive columns of these records by name."""
        frame = label_frame(values, "sensitive_features")
        frame.columns = frame.columns.map(str)
        if not set(self.names) <= set(frame.columns) and frame.shape[1] == len(self.names):
            frame = frame.set_axis(list(self.names), axis=1)  # a list or an array has no names
        absent = [name for name in self.names if name not in frame.columns]
        if absent:
            raise InputError(f"sensitive_features has no column {absent[0]!r}; the fit had {', '.join(self.names)}")
        if len(frame) != n_rows:
            raise InputError(f"sensitive_features has {len(frame)} rows but X has {n_rows}; pass one value per row")
        return frame[list(self.names)]

    def classes(self, read: Sequence[np.ndarray]) -> np.ndarray:
        """The class of each record, from its columns as `Column.read` has them; -1 where one is missing."""
        out, known = self._numbered(read), self.known(read)
        if not known.all():
            row = int(np.flatnonzero(~known)[0])
            shown = ", ".join(str(x[row]) for x in read)
            raise InputError(
                f"sensitive_features, row {row}: the combination ({shown}) was not in the fit, so nothing is known of "
                f"how to hide it; leave these rows out, or fit on rows that have it"
            )
        return out

    def known(self, read: Sequence[np.ndarray]) -> np.ndarray:
        """Which records have a combination that the fit had, or miss a value."""
        gaps = [_place(c, at, x) == MISSING for c, at, x in zip(self.columns, self.edges, read, strict=True)]
        return np.any(gaps, axis=0) | (self._numbered(read) != MISSING)

    def _numbered(self, read: Sequence[np.ndarray]) -> np.ndarray:
        """The class of each record, -1 where it has none."""
        places = [_place(c, at, x) for c, at, x in zip(self.columns, self.edges, read, strict=True)]
        known = np.all([place != MISSING for place in places], axis=0)
        out = np.full(len(known), MISSING)
        out[known] = self.numbers[tuple(place[known] for place in places)]
        return out


def _place(column: Column, edges: np.ndarray, read: np.ndarray) -> np.ndarray:
    """The class of one column's cells; -1 where it is missing."""
    if column.kind == "category":
        return pd.Index(column.categories, dtype=object).get_indexer(pd.Index(read, dtype=object))
    return np.where(np.isnan(read), MISSING, np.searchsorted(edges, read))


def learn_sensitive(values: Any, n_rows: int, crowd: Crowd, gaps: bool) -> tuple[SensitiveClasses, Labels, list[str]]:
    """The classes of the sensitive columns, their labels, and what the user should know of them.

    `gaps` says whether a record may come without.
    """
    if values is None:
        raise InputError(
            "CouplingFilter needs sensitive_features: the columns that nobody shall tell from the released table"
        )
    frame = label_frame(values, "sensitive_features")
    frame.columns = frame.columns.map(str)
    notes, edges = list[str](), dict[str, np.ndarray]()
    for name in map(str, frame.columns):
        if is_number(frame[name]):
            at = np.quantile(frame[name].dropna().astype(float), np.arange(1, QUANTILES) / QUANTILES)
            edges[name] = np.unique(at[at < frame[name].max()])
            notes.append(
                f"sensitive column {name!r} is a measurement: it is hidden as {len(edges[name]) + 1} classes of about "
                f"equal size, cut at {', '.join(f'{e:g}' for e in edges[name])}; what differs within one is not hidden"
            )
    labels = encode_labels(_cut(frame, edges), "sensitive_features", n_rows)
    if len(labels) == 0:
        raise InputError("sensitive_features has no column; say what nobody shall tell from the released table")
    if math.prod(labels.n_classes(i) for i in range(len(labels))) > MAX_COMBINATIONS:
        raise InputError(f"the sensitive columns have more than {MAX_COMBINATIONS:,} combinations; hide fewer columns")
    numbers, sparse = _pool(labels, crowd)
    read = [_sensitive_column(labels, i, edges, gaps) for i in range(len(labels))]
    here = (labels.codes != MISSING).all(axis=1)
    classes = numbers[tuple(labels.codes[here].T)]
    shares = np.bincount(classes, weights=crowd.take(here).weights())
    if sparse:
        notes.append(f"{sparse}: too few people to learn how to hide each by itself; they are hidden as one class")
    columns, between = zip(*read, strict=True)
    return SensitiveClasses(columns, between, numbers, shares), labels, notes


def _sensitive_column(labels: Labels, i: int, edges: dict[str, np.ndarray], gaps: bool) -> tuple[Column, np.ndarray]:
    """One column as it comes in, and what lies between its classes."""
    name, classes, none = labels.names[i], labels.classes[i], np.empty(0)
    if name in edges:
        at = edges[name]
        return Column(name, "number", low=at[0], high=at[-1], has_missing=gaps, role="sensitive"), at
    kinds = {type(c) for c in classes.tolist()}
    if kinds <= {int, float, bool}:
        levels = np.array([float(c) for c in classes.tolist()])
        kind = "boolean" if kinds == {bool} else "integer" if kinds == {int} else "float"
        ends = float(levels.min()), float(levels.max())
        column = Column(name, "number", 0.0, 1.0, *ends, gaps, kind, role="sensitive", levels=tuple(levels.tolist()))
        return column, (levels[1:] + levels[:-1]) / 2
    words = tuple(str(c) for c in classes)
    return Column(name, "category", categories=words, has_missing=gaps, role="sensitive"), none


def _pool(labels: Labels, crowd: Crowd) -> tuple[np.ndarray, str]:
    """The class of each combination, one axis a column, and the names of the sparse ones that share a class."""
    complete = labels.codes[(labels.codes != MISSING).all(axis=1)]
    found = [tuple(row) for row in np.unique(complete, axis=0).tolist()]
    people = {row: crowd.count((labels.codes == row).all(axis=1)) for row in found}
    need = min(SPARSE * crowd.enough, crowd.n_people // 4)
    order = sorted(found, key=lambda row: people[row])
    sparse: list[tuple[int, ...]] = []
    while len(order) - len(sparse) > 1 and people[order[len(sparse)]] < need:
        sparse.append(order[len(sparse)])
    if sparse and sum(people[row] for row in sparse) < crowd.enough and len(order) - len(sparse) > 1:
        sparse.append(order[len(sparse)])  # together still too few: the next joins them
    shape = [labels.n_classes(i) for i in range(len(labels))]
    if len(sparse) < 2:
        sparse = []
    kept = [row for row in found if row not in sparse]
    numbers = np.full(shape, len(kept) if sparse else MISSING)  # what was never seen is sparse too
    for i, row in enumerate(kept):
        numbers[row] = i
    spelled = ["/".join(str(c[at]) for c, at in zip(labels.classes, row, strict=True)) for row in sparse]
    return numbers, ", ".join(spelled)


def _cut(frame: pd.DataFrame, edges: dict[str, np.ndarray]) -> pd.DataFrame:
    """Measurements as the number of their class."""
    cut = {}
    for name, at in edges.items():
        x = frame[name].astype(float)
        cut[name] = pd.Series(np.searchsorted(at, x), dtype="Int64").mask(x.isna().to_numpy())
    return frame.assign(**cut) if cut else frame
