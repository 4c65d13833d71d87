"""Named label columns as integer codes: targets and sensitive attributes, with missing values.

A column of numbers (an age, a progression) keeps its values, and has classes of about equal size beside them for
whatever works by classes: splits, codes of cells, certificates.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError

MISSING = -1  # the code of a missing label; the *value* -1 is an ordinary class
MAX_FLOAT_CLASSES = 10
MAX_INTEGER_CLASSES = 64
NUMBER_CLASSES = 4  # of about equal size, that a number has beside its values


@dataclass(frozen=True)
class Labels:
    """Several label columns of the same records.

    Attributes
    ----------
    names : column names
    classes : per column, the class values in sorted order
    codes : (n, columns) integers into `classes`; -1 marks a missing label
    numbers : per column, the values of a number (NaN where it is missing), or None for classes; empty where all columns
        are classes. The classes of a number are of about equal size
    """

    names: tuple[str, ...]
    classes: tuple[np.ndarray, ...]
    codes: np.ndarray
    numbers: tuple[np.ndarray | None, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_rows(self) -> int:
        return self.codes.shape[0]

    def n_classes(self, column: int) -> int:
        return len(self.classes[column])

    def number(self, column: int) -> np.ndarray | None:
        """The values of a column of numbers, NaN where one is missing; None of classes."""
        return self.numbers[column] if self.numbers else None

    @property
    def number_names(self) -> list[str]:
        """The columns that are numbers."""
        return [name for i, name in enumerate(self.names) if self.number(i) is not None]

    def take(self, rows: np.ndarray) -> Labels:
        numbers = tuple(None if v is None else v[rows] for v in self.numbers)
        return Labels(self.names, self.classes, self.codes[rows], numbers)

    def present(self) -> Labels:
        """The same without classes that no record has."""
        used = [np.unique(c[c != MISSING]) for c in self.codes.T]
        # MISSING, the last position, stays what it is
        places = [np.full(len(c) + 1, MISSING) for c in self.classes]
        for place, kept in zip(places, used, strict=True):
            place[kept] = np.arange(len(kept))
        codes = [place[c] for place, c in zip(places, self.codes.T, strict=True)]
        classes = tuple(c[kept] for c, kept in zip(self.classes, used, strict=True))
        return Labels(self.names, classes, np.column_stack(codes) if codes else self.codes, self.numbers)


def stacked(one: Labels, two: Labels) -> Labels:
    """The labels of two sets of records, one after the other, over all classes of both."""
    classes, codes, numbers = [], [], list[np.ndarray | None]()
    for i in range(len(one)):
        a, b = one.classes[i], two.classes[i]
        values = [labels.number(i) for labels in (one, two)]
        if all(v is not None for v in values):
            numbers.append(np.concatenate(values))  # type: ignore[arg-type]
            if a is not b:  # two tables, each with classes of its own
                known, cut = cut_number(numbers[-1])  # type: ignore[arg-type]
                classes.append(known)
                codes.append(cut)
                continue
        elif any(v is not None for v in values):
            raise InputError(
                f"{one.names[i]!r} is a number in one part and classes in the other; use parts of one data set, or say "
                f"which it is (Dataset(..., numeric=...))"
            )
        else:
            numbers.append(None)
        every = a if a is b else _sorted_classes(pd.concat([pd.Series(a), pd.Series(b)], ignore_index=True))
        sides = []
        for own, labels in ((a, one), (b, two)):
            place = np.append(np.arange(len(a)) if a is b else pd.Index(every).get_indexer(pd.Index(own)), MISSING)
            sides.append(place[labels.codes[:, i]])
        classes.append(every)
        codes.append(np.concatenate(sides))
    n = one.n_rows + two.n_rows
    every_code = np.column_stack(codes) if codes else np.empty((n, 0), dtype=np.int64)
    return Labels(one.names, tuple(classes), every_code, _if_any(numbers))


def label_frame(values: Any, what: str) -> pd.DataFrame:
    """One column, several columns or a DataFrame -> a DataFrame of named columns."""
    values = in_pandas(values)
    if isinstance(values, pd.DataFrame):
        return values.reset_index(drop=True)
    if isinstance(values, pd.Series):
        return values.reset_index(drop=True).to_frame(str(values.name if values.name is not None else what))
    if isinstance(values, dict):
        lengths = {name: len(column) for name, column in values.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns of {what} have different lengths: {lengths}; pass one label per row in each")
        return pd.DataFrame({name: _column(column) for name, column in values.items()}).infer_objects()
    array = np.asarray(values)
    if array.ndim == 1:
        return pd.DataFrame({what: array})
    if array.ndim == 2:
        names = [what] if array.shape[1] == 1 else [f"{what}{i}" for i in range(array.shape[1])]
        return pd.DataFrame(array, columns=names)
    raise InputError(f"{what} has {array.ndim} dimensions; pass one label per row, or a table of label columns")


def _column(values: Any) -> Any:
    """One column of a mapping; a column of pandas keeps its type where that says what it is."""
    known = isinstance(values, pd.Series) and declared_number(values)
    return values.reset_index(drop=True) if known else np.asarray(values, dtype=object)


def declared_number(column: pd.Series) -> bool:
    """Whether a column says that it is a number, whatever its values: by pandas' type "Float64"."""
    return isinstance(column.dtype, pd.Float64Dtype)


def standardized(labels: Labels) -> np.ndarray:
    """The numbers among label columns with mean 0 and variance 1; NaN of missing ones and of columns of classes."""
    out = np.full(labels.codes.shape, np.nan)
    for i in range(len(labels)):
        if (values := labels.number(i)) is not None:
            out[:, i] = (values - np.nanmean(values)) / max(float(np.nanstd(values)), np.finfo(float).tiny)
    return out


def is_number(column: pd.Series) -> bool:
    """Whether a label column is a number: it says so, or looks like a measurement.

    Examples
    --------
    >>> floors = pd.Series([1, 2, 3, 4])
    >>> is_number(floors), is_number(floors.astype("Float64"))
    (False, True)
    """
    return declared_number(column) or looks_continuous(column)


def as_said(frame: pd.DataFrame, numeric: Any, what: str) -> pd.DataFrame:
    """Label columns with the types that say which are numbers and which are classes.

    Parameters
    ----------
    numeric : names of columns that are numbers, or a mapping from names to whether they are
    """
    said, changed = said_numeric(numeric), {}
    for name in frame.columns:
        if said.get(name) is True:
            try:
                changed[name] = pd.to_numeric(frame[name]).astype("Float64")
            except (TypeError, ValueError):
                raise InputError(
                    f"numeric names {str(name)!r}, but {what} column {str(name)!r} holds values that are no numbers; "
                    f"leave it out of numeric, or correct them"
                ) from None
        elif said.get(name) is False and is_number(frame[name]):
            changed[name] = frame[name].astype(object).map(_as_word, na_action="ignore")
    return frame.assign(**changed) if changed else frame


def said_numeric(numeric: Any) -> dict[str, bool]:
    """By column whether it is a number, where somebody said so: by name, by names, or by a mapping."""
    if isinstance(numeric, Mapping):
        return {str(name): bool(said) for name, said in numeric.items()}
    return dict.fromkeys([numeric] if isinstance(numeric, str) else list(numeric or ()), True)


def _as_word(value: Any) -> str:
    """A number that is a name: 3 and 3.0 are the same one."""
    return f"{value:.0f}" if float(value).is_integer() else str(value)


def in_pandas(values: Any) -> Any:
    """A table or column of polars as one of pandas; anything else as it is."""
    if type(values).__module__.split(".")[0] != "polars":
        return values
    if hasattr(values, "collect"):  # a lazy one
        values = values.collect()
    try:
        return values.to_pandas()
    except ImportError as error:
        raise InputError(
            f"this polars table cannot be turned into one of pandas ({error}); pass table.to_pandas()"
        ) from None


def cut_number(values: np.ndarray, n_classes: int = NUMBER_CLASSES) -> tuple[np.ndarray, np.ndarray]:
    """Classes of about equal size of a number: their names, and the class of each value (-1 where it is missing).

    Examples
    --------
    >>> names, codes = cut_number(np.arange(8.0))
    >>> names.tolist(), codes.tolist()
    (['up to 1.75', '1.75 to 3.5', '3.5 to 5.25', 'over 5.25'], [0, 0, 1, 1, 2, 2, 3, 3])
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return np.array([], dtype=object), np.full(len(values), MISSING, dtype=np.int64)
    at = np.unique(np.quantile(known, np.arange(1, n_classes) / n_classes))
    at = at[at < known.max()]
    ends = [f"{e:.6g}" for e in at]
    ends = ends if len(set(ends)) == len(ends) else [repr(float(e)) for e in at]
    middle = [f"{a} to {b}" for a, b in itertools.pairwise(ends)]
    names = [f"up to {ends[0]}", *middle, f"over {ends[-1]}"] if ends else ["one value"]
    codes = np.where(np.isnan(values), MISSING, np.searchsorted(at, values)).astype(np.int64)
    return np.array(names, dtype=object), codes


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
    numbers: bool = False,
    looked: bool = False,
) -> Labels:
    """Check label columns and turn them into codes.

    `classes` fixes the known classes (labels outside them are an error);
    without it they are learned from the values. `numbers` says whether a column may be a number,
    and `looked` that its type says so already.
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
    columns, found, values_of = [], [], list[np.ndarray | None]()
    for i, name in enumerate(frame.columns):
        column = frame[name]
        if column.map(lambda v: isinstance(v, (list, dict, set, np.ndarray))).any():
            raise InputError(f"{what} column {str(name)!r} holds lists; pass one value per row")
        number = declared_number(column) if looked else is_number(column)
        if number and numbers and classes is None:
            values_of.append(_values(column, what))
            known, codes = cut_number(values_of[-1])  # type: ignore[arg-type]
            _check_classes(known, column, what, min_classes)
            columns.append(codes)
            found.append(known)
            continue
        if number:
            raise InputError(
                f"{what} column {str(name)!r} is numeric with {column.nunique()} distinct values, which looks "
                f"like a measurement rather than classes, and numbers cannot be taken here; bin it "
                f"(tacit.read_table(..., bins={{{str(name)!r}: 4}}) or pandas.qcut), or turn it into text if the "
                f"numbers are names"
            )
        known = _sorted_classes(column) if classes is None else classes[i]
        if classes is None:
            _check_classes(known, column, what, min_classes)
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
        values_of.append(None)
    names = tuple(str(c) for c in frame.columns)
    return Labels(names, tuple(found), np.column_stack(columns), _if_any(values_of))


def _values(column: pd.Series, what: str) -> np.ndarray:
    """A column of numbers as floats, NaN where one is missing."""
    values = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise InputError(f"{what} column {str(column.name)!r}, row {row}: infinite; pass a number, or NaN for unknown")
    return values


def _check_classes(known: np.ndarray, column: pd.Series, what: str, least: int) -> None:
    """Refuse a column of too few classes."""
    if len(known) < least:
        shown = f"only {str(known[0])!r}" if len(known) else "no value at all"
        raise InputError(
            f"{what} column {str(column.name)!r} has one class ({shown}); at least {least} classes are needed, "
            f"so leave the column out or pass rows of another class"
        )


def _if_any(numbers: Sequence[np.ndarray | None]) -> tuple[np.ndarray | None, ...]:
    """Nothing where no column is a number."""
    return tuple(numbers) if any(v is not None for v in numbers) else ()


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
