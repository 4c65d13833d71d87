"""Named label columns as integer codes: targets and sensitive attributes, with missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError

MISSING = -1  # the code of a missing label; the *value* -1 is an ordinary class
MAX_FLOAT_CLASSES = 10
MAX_INTEGER_CLASSES = 64


@dataclass(frozen=True)
class Labels:
    """Several label columns of the same records.

    Attributes
    ----------
    names : column names
    classes : per column, the class values in sorted order
    codes : (n, columns) integers into `classes`; -1 marks a missing label
    """

    names: tuple[str, ...]
    classes: tuple[np.ndarray, ...]
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_rows(self) -> int:
        return self.codes.shape[0]

    def n_classes(self, column: int) -> int:
        return len(self.classes[column])

    def take(self, rows: np.ndarray) -> Labels:
        return Labels(self.names, self.classes, self.codes[rows])

    def present(self) -> Labels:
        """The same without classes that no record has."""
        used = [np.unique(c[c != MISSING]) for c in self.codes.T]
        # MISSING, the last position, stays what it is
        places = [np.full(len(c) + 1, MISSING) for c in self.classes]
        for place, kept in zip(places, used, strict=True):
            place[kept] = np.arange(len(kept))
        codes = [place[c] for place, c in zip(places, self.codes.T, strict=True)]
        classes = tuple(c[kept] for c, kept in zip(self.classes, used, strict=True))
        return Labels(self.names, classes, np.column_stack(codes) if codes else self.codes)


def stacked(one: Labels, two: Labels) -> Labels:
    """The labels of two sets of records, one after the other, over all classes of both."""
    classes, codes = [], []
    for i in range(len(one)):
        a, b = one.classes[i], two.classes[i]
        every = a if a is b else _sorted_classes(pd.concat([pd.Series(a), pd.Series(b)], ignore_index=True))
        sides = []
        for own, labels in ((a, one), (b, two)):
            place = np.append(np.arange(len(a)) if a is b else pd.Index(every).get_indexer(pd.Index(own)), MISSING)
            sides.append(place[labels.codes[:, i]])
        classes.append(every)
        codes.append(np.concatenate(sides))
    n = one.n_rows + two.n_rows
    return Labels(one.names, tuple(classes), np.column_stack(codes) if codes else np.empty((n, 0), dtype=np.int64))


def label_frame(values: Any, what: str) -> pd.DataFrame:
    """One column, several columns or a DataFrame -> a DataFrame of named columns."""
    if isinstance(values, pd.DataFrame):
        return values.reset_index(drop=True)
    if isinstance(values, pd.Series):
        return values.reset_index(drop=True).to_frame(str(values.name if values.name is not None else what))
    if isinstance(values, dict):
        lengths = {name: len(column) for name, column in values.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns of {what} have different lengths: {lengths}; pass one label per row in each")
        return pd.DataFrame({name: np.asarray(column, dtype=object) for name, column in values.items()}).infer_objects()
    array = np.asarray(values)
    if array.ndim == 1:
        return pd.DataFrame({what: array})
    if array.ndim == 2:
        names = [what] if array.shape[1] == 1 else [f"{what}{i}" for i in range(array.shape[1])]
        return pd.DataFrame(array, columns=names)
    raise InputError(f"{what} has {array.ndim} dimensions; pass one label per row, or a table of label columns")


def looks_continuous(column: pd.Series) -> bool:
    """A numeric column with so many values that it is a measurement, not a class."""
    if column.dtype == object:
        column = column.infer_objects()
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    values = column.dropna().unique()
    if pd.api.types.is_float_dtype(column) and not np.all(np.mod(values.astype(float), 1) == 0):
        return len(values) > MAX_FLOAT_CLASSES
    return len(values) > MAX_INTEGER_CLASSES


def encode_labels(
    values: Any,
    what: str,
    n_rows: int,
    classes: Sequence[np.ndarray] | None = None,
    min_classes: int = 2,
) -> Labels:
    """Check label columns and turn them into codes.

    `classes` fixes the known classes (labels outside them are an error);
    without it they are learned from the values.
    """
    if values is None:
        return Labels((), (), np.empty((n_rows, 0), dtype=np.int64))
    frame = label_frame(values, what)
    if frame.shape[1] == 0:
        return encode_labels(None, what, n_rows)
    if frame.columns.has_duplicates:
        raise InputError(
            f"{what} has two columns called {str(frame.columns[frame.columns.duplicated()][0])!r}; rename one"
        )
    if len(frame) != n_rows:
        raise InputError(
            f"{what} has {len(frame)} rows but X has {n_rows}; pass one label per row (use NaN for unknown)"
        )
    columns, found = [], []
    for i, name in enumerate(frame.columns):
        column = frame[name]
        if column.map(lambda v: isinstance(v, (list, dict, set, np.ndarray))).any():
            raise InputError(f"{what} column {str(name)!r} holds lists; pass one value per row")
        if looks_continuous(column):
            raise InputError(
                f"{what} column {str(name)!r} is numeric with {column.nunique()} distinct values, which looks "
                f"like a measurement rather than classes; bin it (tacit.read_table(..., bins={{{str(name)!r}: 4}}) "
                f"or pandas.qcut), or turn it into text if the numbers are names"
            )
        known = _sorted_classes(column) if classes is None else classes[i]
        if classes is None and len(known) < min_classes:
            shown = f"only {str(known[0])!r}" if len(known) else "no value at all"
            raise InputError(
                f"{what} column {str(name)!r} has one class ({shown}); at least {min_classes} classes are needed, "
                f"so leave the column out or pass rows of another class"
            )
        codes = pd.Index(known).get_indexer(pd.Index(column))
        codes = np.where(column.isna().to_numpy(), MISSING, codes)
        unknown = (codes < 0) & ~column.isna().to_numpy()
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"{what} column {str(name)!r}, row {row}: its value is not among the known classes "
                f"{[str(v) for v in known[:8]]}; use one of these, or NaN for unknown"
            )
        columns.append(codes.astype(np.int64))
        found.append(known)
    return Labels(tuple(str(c) for c in frame.columns), tuple(found), np.column_stack(columns))


def _sorted_classes(column: pd.Series) -> np.ndarray:
    values = column.dropna().unique()
    values = np.asarray(values, dtype=object if values.dtype.kind not in "biuf" else None)
    try:
        return np.sort(values)
    except TypeError:  # mixed types have no order of their own
        return np.array(sorted(values, key=str), dtype=object)


def joint_codes(codes: np.ndarray) -> np.ndarray:
    """One code per distinct row of label codes (their product), numbered from 0."""
    if codes.shape[1] == 0:
        return np.zeros(len(codes), dtype=np.int64)
    return np.unique(codes, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
