"""Tables in, numbers out: the scaling and category encoding that belong to a fitted filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, InputTypeError
from tacit.records.people import Crowd, coarse_ends, middle_and_scale

# A category seen once is the mark of one training row; filters, which know whose rows they are, ask for more people.
RARE = 2


@dataclass(frozen=True)
class Column:
    """What a fitted filter knows of one input column."""

    name: str
    kind: str  # "number" or "category"
    mean: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    has_missing: bool = False
    type: str = "float"  # or "integer", "boolean": what decoded numbers are turned back into
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        # a category column has two more slots: "other" and missing
        return len(self.categories) + 2 if self.kind == "category" else 1 + self.has_missing

    def as_it_was(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers in the column's own type again."""
        if self.type == "boolean":
            return numbers >= 0.5
        return np.rint(numbers).astype(np.int64) if self.type == "integer" else numbers

    def encode(self, values: pd.Series) -> np.ndarray:
        if self.kind == "number":
            number = _as_number(values, self.name)
            missing = np.isnan(number)
            scaled = np.where(missing, 0.0, (number - self.mean) / self.scale)
            return np.column_stack([scaled, missing]) if self.has_missing else scaled[:, None]
        codes = pd.Index(self.categories).get_indexer(pd.Index(_as_text(values, self.name)))
        codes = np.where(codes < 0, len(self.categories), codes)
        codes = np.where(values.isna().to_numpy(), len(self.categories) + 1, codes)
        return np.eye(self.width)[codes]


class TableEncoder:
    """Standardises numbers and one-hot encodes categories; learned once, then fixed.

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
        return np.concatenate([c.encode(table.iloc[:, i]) for i, c in enumerate(self.columns)], axis=1)

    @property
    def n_out(self) -> int:
        return sum(c.width for c in self.columns)


class ArrayEncoder:
    """The same for numeric arrays: standardises each column, or each channel of windows and images."""

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
        number = _as_number(values, name)
        present = number[~np.isnan(number)]
        if len(present) == 0:
            raise InputError(f"column {name!r} has no value in any row; drop the column")
        if crowd is not None:
            here = ~np.isnan(number)
            some = crowd.take(here)
            mean, scale = middle_and_scale(present, some)
            low, high = coarse_ends(present, some, mean, scale)
            gaps = crowd.count(~here) >= crowd.min_people
            return Column(name, "number", mean, scale, low, high, gaps, _type(values))
        spread = float(present.std())
        return Column(
            name,
            "number",
            mean=float(present.mean()),
            scale=spread if spread > 1e-12 * (1 + abs(float(present.mean()))) else 1.0,
            low=float(present.min()),
            high=float(present.max()),
            has_missing=len(present) < len(number),
            type=_type(values),
        )
    if not _is_text(values):
        raise InputTypeError(
            f"column {name!r} has type {values.dtype}; filters take numbers, booleans and text, "
            f"so convert it first (a date, for example, to days since some day)"
        )
    text = _as_text(values, name)
    words = pd.DataFrame({"word": text, "unit": np.arange(len(text))})[values.notna().to_numpy()]
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


def _as_number(values: pd.Series, name: str) -> np.ndarray:
    try:
        number = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        bad = pd.to_numeric(values, errors="coerce").isna() & values.notna()
        row = int(np.flatnonzero(bad.to_numpy())[0]) if bad.any() else 0
        raise InputError(
            f"column {name!r}, row {row}: {values.iloc[row]!r} is text, but the filter was fitted on numbers there; "
            f"pass a number, or NaN for unknown"
        ) from None
    if np.isinf(number).any():
        row = int(np.flatnonzero(np.isinf(number))[0])
        raise InputError(f"column {name!r}, row {row}: infinity; replace it by a number, or by NaN for unknown")
    return number


def _as_text(values: pd.Series, name: str) -> np.ndarray:
    if _is_number(values) and not pd.api.types.is_bool_dtype(values) and values.notna().any():
        row = int(np.flatnonzero(values.notna().to_numpy())[0])
        raise InputError(
            f"column {name!r}, row {row}: {values.iloc[row]!r} is a number, but the filter was fitted on text there; "
            f"pass text (table[{name!r}].astype(str)), or None for unknown"
        )
    return np.array(values.astype(object).where(values.notna(), "").astype(str), dtype=object)
