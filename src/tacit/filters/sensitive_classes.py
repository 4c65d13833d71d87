"""The sensitive columns of a release that looks at them, as one class a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.labels import MISSING, Labels, encode_labels, label_frame, looks_continuous
from tacit.records.people import Crowd

QUANTILES = 5  # classes of a sensitive measurement
SPARSE = 5  # times the people that anything needs: a class of fewer is pooled


@dataclass(frozen=True, eq=False)
class SensitiveClasses:
    """The combinations of all sensitive columns, sparse ones pooled.

    Attributes
    ----------
    names : of the columns
    levels : of each column, its classes
    edges : by column, where a measurement is cut
    numbers : the class of each combination of levels
    pooled : the class of sparse and unseen combinations; None where none was pooled
    shares : (classes,) how frequent each class is, everybody counted alike
    """

    names: tuple[str, ...]
    levels: tuple[np.ndarray, ...]
    edges: dict[str, np.ndarray]
    numbers: dict[tuple[int, ...], int]
    pooled: int | None
    shares: np.ndarray

    def __len__(self) -> int:
        return len(self.shares)

    def read(self, values: Any, n_rows: int) -> np.ndarray:
        """The class of each record, (n,); -1 where a sensitive column is missing."""
        frame = label_frame(values, "sensitive_features")
        if not set(self.names) <= set(map(str, frame.columns)) and frame.shape[1] == len(self.names):
            frame = frame.set_axis(list(self.names), axis=1)  # a list or an array has no names
        absent = [name for name in self.names if name not in frame.columns]
        if absent:
            raise InputError(f"sensitive_features has no column {absent[0]!r}; the fit had {', '.join(self.names)}")
        labels = encode_labels(
            _cut(frame[list(self.names)], self.edges), "sensitive_features", n_rows, self.levels, min_classes=0
        )
        return self.classes(labels)

    def classes(self, labels: Labels) -> np.ndarray:
        """The class of each record, from the codes of all columns."""
        found, which = np.unique(labels.codes, axis=0, return_inverse=True)
        out = np.empty(len(found), dtype=np.int64)
        for i, row in enumerate(found.tolist()):
            number = self.numbers.get(tuple(row), self.pooled)
            if MISSING in row:
                number = MISSING
            elif number is None:
                shown = ", ".join(str(c[at]) for c, at in zip(labels.classes, row, strict=True))
                raise InputError(
                    f"sensitive_features: the combination ({shown}) was not in the fit, so nothing is known of how "
                    f"to hide it; leave these rows out, or fit on rows that have it"
                )
            out[i] = number
        return out[which.ravel()]


def learn_sensitive(values: Any, n_rows: int, crowd: Crowd) -> tuple[SensitiveClasses, Labels, list[str]]:
    """The classes of the sensitive columns, their labels, and what the user should know of them."""
    if values is None:
        raise InputError(
            "CouplingFilter needs sensitive_features: the columns that nobody shall tell from the released table"
        )
    frame = label_frame(values, "sensitive_features")
    frame.columns = frame.columns.map(str)
    notes, edges = list[str](), dict[str, np.ndarray]()
    for name in map(str, frame.columns):
        if looks_continuous(frame[name]):
            at = np.quantile(frame[name].dropna().astype(float), np.arange(1, QUANTILES) / QUANTILES)
            edges[name] = np.unique(at)
            notes.append(
                f"sensitive column {name!r} is a measurement: it is hidden as {len(edges[name]) + 1} classes of about "
                f"equal size, cut at {', '.join(f'{e:g}' for e in edges[name])}; what differs within one is not hidden"
            )
    labels = encode_labels(_cut(frame, edges), "sensitive_features", n_rows)
    if len(labels) == 0:
        raise InputError("sensitive_features has no column; say what nobody shall tell from the released table")
    numbers, pooled, sparse = _pool(labels, crowd)
    known = SensitiveClasses(labels.names, labels.classes, edges, numbers, pooled, np.empty(0))
    classes = known.classes(labels)
    here = classes != MISSING
    shares = np.bincount(classes[here], weights=crowd.take(here).weights())
    if sparse:
        notes.append(f"{sparse}: too few people to learn how to hide each by itself; they are hidden as one class")
    return SensitiveClasses(labels.names, labels.classes, edges, numbers, pooled, shares), labels, notes


def _pool(labels: Labels, crowd: Crowd) -> tuple[dict[tuple[int, ...], int], int | None, str]:
    """The class of each combination, the class that sparse ones share, and their names."""
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
    if len(sparse) < 2:
        return {row: i for i, row in enumerate(found)}, None, ""
    kept = [row for row in found if row not in sparse]
    numbers = {row: i for i, row in enumerate(kept)} | dict.fromkeys(sparse, len(kept))
    spelled = ["/".join(str(c[at]) for c, at in zip(labels.classes, row, strict=True)) for row in sparse]
    return numbers, len(kept), ", ".join(spelled)


def _cut(frame: pd.DataFrame, edges: dict[str, np.ndarray]) -> pd.DataFrame:
    """Measurements as the number of their class."""
    cut = {}
    for name, at in edges.items():
        x = frame[name].astype(float)
        cut[name] = pd.Series(np.searchsorted(at, x), dtype="Int64").mask(x.isna().to_numpy())
    return frame.assign(**cut) if cut else frame
