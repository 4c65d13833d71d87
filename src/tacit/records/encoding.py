"""Tables in, numbers out: the scaling and category encoding that belong to a fitted filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, InputTypeError
from tacit.records.cells import MISSING_TEXT, is_gap
from tacit.records.people import Crowd, coarse_ends, middle_and_scale
from tacit.records.schema import Column

# A category seen once is the mark of one training row; filters, which know whose rows they are, ask for more people.
RARE = 2


class TableEncoder:
    """Standardizes numbers and one-hot encodes categories; learned once, then fixed.

    Numbers that are missing take the column's mean, with an indicator column where training had
    gaps. A category that training did not have (or had once) becomes "other". With a `Crowd`, as filters
    learn it, nothing is kept that fewer than its `min_people` people share.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [30, 40, 50, 60], "job": ["nurse", "nurse", "cook", "cook"]})
    >>> TableEncoder().fit(table).transform(table).shape
    (4, 5)
    """

    columns: tuple[Column, ...]

    def fit(self, table: pd.DataFrame, crowd: Crowd | None = None) -> TableEncoder:
        self.columns = tuple(_learn(str(name), table.iloc[:, i], crowd) for i, name in enumerate(table.columns))
        return self

    def transform(self, table: pd.DataFrame) -> np.ndarray:
        return np.concatenate([encode_column(c, table.iloc[:, i]) for i, c in enumerate(self.columns)], axis=1)

    @property
    def n_out(self) -> int:
        return sum(c.width for c in self.columns)


class ArrayEncoder:
    """The same for numeric arrays: standardizes each column, or each channel of windows and images."""

    mean: np.ndarray
    scale: np.ndarray

    def fit(self, X: np.ndarray, crowd: Crowd | None = None) -> ArrayEncoder:
        # rows: one mean per column; windows (n, channels, length) and images (n, c, h, w): per channel
        if crowd is not None:
            found = np.array([middle_and_scale(X[:, i], crowd) for i in range(X.shape[1])])
            shape = (1, X.shape[1], *[1] * (X.ndim - 2))
            self.mean, self.scale = found[:, 0].reshape(shape), found[:, 1].reshape(shape)
            return self
        axes = (0, *range(2, X.ndim))
        self.mean = X.mean(axis=axes, keepdims=True)
        scale = X.std(axis=axes, keepdims=True)
        self.scale = np.where(scale > 1e-12 * (1 + np.abs(self.mean)), scale, 1.0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean) / self.scale


def make_encoder(X: Any, crowd: Crowd | None = None) -> TableEncoder | ArrayEncoder:
    """Learn the encoder that fits X: a checked DataFrame or a checked float array.

    What leaves the owner's hands is learned with a `crowd`; attackers and comparisons do without.
    """
    return TableEncoder().fit(X, crowd) if isinstance(X, pd.DataFrame) else ArrayEncoder().fit(X, crowd)


def encode_column(c: Column, values: Any) -> np.ndarray:
    """Raw values of one column as numbers, (n, `c.width`). `GraphBuilder.table` writes the same as a graph."""
    read = c.good(values)
    if c.kind == "number":
        missing = np.isnan(read)
        scaled = np.where(missing, 0.0, (read - c.mean) / c.scale)
        return np.column_stack([scaled, missing]) if c.has_missing else scaled[:, None]
    codes = pd.Index([*c.categories, MISSING_TEXT], dtype=object).get_indexer(pd.Index(read, dtype=object))
    other, missing = len(c.categories), codes == len(c.categories)
    return np.eye(c.width)[np.where(missing, other + 1, np.where(codes < 0, other, codes))]


def array_to_frame(X: np.ndarray, names: list[str]) -> pd.DataFrame:
    """A numpy array of mixed objects -> typed columns; numbers stay numbers, text stays text."""
    table = pd.DataFrame(X, columns=names)
    for name in names:
        column = table[name]
        if column.dtype == object:
            bad = column[[not isinstance(v, (str, bytes, int, float, np.number, bool, type(None))) for v in column]]
            if len(bad):
                raise InputTypeError(
                    f"column {name!r}, row {bad.index[0]}: found a {type(bad.iloc[0]).__name__}; "
                    f"argument must be a string or a number"
                )
            table[name] = column.infer_objects()
    return table


def _learn(name: str, values: pd.Series, crowd: Crowd | None) -> Column:
    if _is_number(values):
        number = Column(name, "number", type=_type(values)).good(values)
        here = ~np.isnan(number)
        present = number[here]
        if len(present) == 0:
            raise InputError(f"column {name!r} has no value in any row; drop the column")
        if crowd is not None:
            some = crowd.take(here)
            mean, scale = middle_and_scale(present, some)
            low, high = coarse_ends(present, some, mean, scale)
            gaps = crowd.count(~here) >= crowd.min_people
            return Column(name, "number", mean, scale, low, high, gaps, _type(values))
        mean, scale = float(present.mean()), float(present.std())
        scale = scale if scale > 1e-12 * (1 + abs(mean)) else 1.0
        ends = float(present.min()), float(present.max())
        return Column(name, "number", mean, scale, *ends, not here.all(), _type(values))
    if not _is_text(values):
        raise InputTypeError(
            f"column {name!r} has type {values.dtype}; filters take numbers, booleans and text, "
            f"so convert it first (a date, for example, to days since some day)"
        )
    text = [None if is_gap(v) else str(v) for v in np.asarray(values, dtype=object)]
    words = pd.DataFrame({"word": text, "unit": np.arange(len(text))}).dropna()
    if crowd is not None and crowd.units is not None:
        words["unit"] = crowd.units[words["unit"]]
    counts = words.groupby("word")["unit"].nunique()
    common = counts.index[counts >= (RARE if crowd is None else crowd.min_people)]
    return Column(name, "category", categories=tuple(sorted(common)))


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values)


def _type(values: pd.Series) -> str:
    if pd.api.types.is_bool_dtype(values):
        return "boolean"
    return "integer" if pd.api.types.is_integer_dtype(values) else "float"


def _is_text(values: pd.Series) -> bool:
    return (
        isinstance(values.dtype, pd.CategoricalDtype)
        or pd.api.types.is_object_dtype(values)
        or pd.api.types.is_string_dtype(values)
    )
