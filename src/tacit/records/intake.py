"""Records on their way into a fitted filter: checked against those of the fit, then encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from tacit.errors import InputError, InputTypeError, TacitError
from tacit.labels import in_pandas
from tacit.records.encoding import ArrayEncoder, TableEncoder, array_to_frame, make_encoder
from tacit.records.people import Crowd, coarse_ends
from tacit.records.schema import ArraySchema, TableSchema

DEFAULT_REACH = 3.0  # standard deviations to each side of the mean, where nobody told a range
Refusal = Callable[[Any], Any]
_KEPT: ContextVar[dict[tuple[int, int], tuple[Any, ...]] | None] = ContextVar("encoded", default=None)


@dataclass(frozen=True)
class Intake:
    """What goes in: the shape, names and scaling that a fit has seen.

    Attributes
    ----------
    owner : the filter's name, for messages
    shape : of one record, as it comes
    names : of the columns, where all of them have one
    scaling : standardizes numbers and encodes words, as the fit learned it
    as_given : records go in as they come, not encoded
    ranges : of each column or channel of arrays; None where nobody told
    refuse : refuses what is not a window or an image, where the filter takes nothing else
    carried : columns that leave as they came, and their types; most releases carry none
    """

    owner: str
    shape: tuple[int, ...]
    names: tuple[str, ...] | None
    scaling: TableEncoder | ArrayEncoder | None
    as_given: bool = False
    ranges: tuple[tuple[float, float], ...] | None = None
    refuse: Refusal | None = field(default=None, repr=False)
    carried: Mapping[str, str] = field(default_factory=dict)

    @property
    def encoder(self) -> TableEncoder | ArrayEncoder | None:
        """What stands before the filter; None where records go in as they are."""
        return None if self.as_given else self.scaling

    @property
    def columns(self) -> list[str] | None:
        """The columns of a table; None for arrays."""
        return [c.name for c in self.scaling.columns] if isinstance(self.scaling, TableEncoder) else None

    @property
    def declared(self) -> TableSchema | ArraySchema:
        """What goes in, as a manifest tells it."""
        if isinstance(self.scaling, TableEncoder):
            return TableSchema(self.scaling.columns)
        ends: Any = self.ranges
        if ends is None and self.scaling is not None:  # fitted across nodes, which keep their extremes: the middle
            mean, reach = self.scaling.mean.ravel(), DEFAULT_REACH * self.scaling.scale.ravel()
            ends = zip((mean - reach).tolist(), (mean + reach).tolist(), strict=True)
        return ArraySchema(self.shape, list(ends or []))

    def possible(self, made: pd.DataFrame) -> pd.DataFrame:
        """Those of made-up records that could come."""
        return made

    def graph(self, g: Any) -> tuple[str, str]:
        """Raw records to encoded ones as a graph, and what of them names their noise: both values' names."""
        encoder = self.encoder
        encoded = g.table(encoder.columns) if isinstance(encoder, TableEncoder) else g.array(encoder, self.shape)
        return encoded, encoded

    def check(self, X: Any) -> pd.DataFrame | np.ndarray:
        """The records, where they are like those of the fit; else an error that says what is wrong."""
        like = type(self.owner, (BaseEstimator,), {})()  # messages name the filter
        like.n_features_in_ = self.shape[0]
        if self.names is not None:
            like.feature_names_in_ = np.array(self.names, dtype=object)
        return check_records(like, X, self)

    def encode(self, X: Any) -> np.ndarray:
        """The records as the filter's learned part takes them."""
        kept = _KEPT.get()
        if kept is not None and (id(self), id(X)) in kept:
            return kept[id(self), id(X)][-1]
        checked: Any = self.check(X)
        encoded = np.asarray(checked) if self.encoder is None else self.encoder.transform(checked)
        if kept is not None:
            kept[id(self), id(X)] = self, X, encoded  # held, so that no other object gets their numbers
        return encoded


@contextmanager
def encoded_once() -> Iterator[None]:
    """In here the same records are encoded once, for whoever changes none of them meanwhile."""
    token = _KEPT.set({} if _KEPT.get() is None else _KEPT.get())
    try:
        yield
    finally:
        _KEPT.reset(token)


def learn_intake(
    owner: Any, checked: pd.DataFrame | np.ndarray, crowd: Crowd, as_given: bool, refuse: Refusal | None
) -> Intake:
    """The intake of records that `check_records` let in, nothing in it shared by too few people."""
    scaling = make_encoder(checked, crowd)
    ranges = None
    if isinstance(scaling, ArrayEncoder):  # of each column or channel, for the schema of a bundle
        middle = zip(scaling.mean.ravel().tolist(), scaling.scale.ravel().tolist(), strict=True)
        ranges = tuple(coarse_ends(np.asarray(checked)[:, i], crowd, *pair) for i, pair in enumerate(middle))
    names = getattr(owner, "feature_names_in_", None)
    shape = (checked.shape[1],) if isinstance(checked, pd.DataFrame) else checked.shape[1:]
    return Intake(
        type(owner).__name__, shape, None if names is None else tuple(names), scaling, as_given, ranges, refuse
    )


def check_records(
    owner: Any, X: Any, fitted: Intake | None, refuse: Refusal | None = None
) -> pd.DataFrame | np.ndarray:
    """A DataFrame or a float array whose shape, names and values are fit for use.

    `owner` is the estimator that is fitted (it learns its number of features) where nothing was `fitted` before.
    """
    reset, X = fitted is None, in_pandas(X)
    refuse = refuse if fitted is None else fitted.refuse
    try:
        if refuse is not None:
            X = refuse(X)
        if isinstance(X, pd.DataFrame):
            return _check_frame(owner, X, fitted)
        if not sparse.issparse(X):
            plain = np.asarray(X)
            if plain.ndim == 2 and plain.dtype.kind in "OUS" and plain.size:
                return _check_objects(owner, plain, reset)
            refuse_gaps(plain)
        checked = validate_data(
            owner, X, reset=reset, dtype=np.float64, allow_nd=True, ensure_min_samples=2 if reset else 1
        )
        if fitted is None:
            return checked
        if checked.shape[1:] != fitted.shape:
            raise InputError(f"a record has shape {checked.shape[1:]}, but the filter knows {fitted.shape}")
        return checked if fitted.columns is None else pd.DataFrame(checked, columns=fitted.columns)
    except TacitError:
        raise
    except TypeError as error:
        raise InputTypeError(str(error)) from error
    except ValueError as error:
        raise InputError(str(error)) from error


def _check_frame(owner: Any, X: pd.DataFrame, fitted: Intake | None) -> pd.DataFrame | np.ndarray:
    reset = fitted is None
    if len(X) < (2 if reset else 1) or X.shape[1] == 0:
        validate_data(owner, X.to_numpy(dtype=object), reset=reset, dtype=None, ensure_min_samples=2 if reset else 1)
    try:
        validate_data(owner, X, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise InputError(
            f"{str(error).rstrip()}\nPass the columns of the fit, with their names, in their order"
        ) from error
    if reset and X.columns.has_duplicates:
        name = X.columns[X.columns.duplicated()][0]
        raise InputError(f"X has two columns called {name!r}; rename one")
    if fitted is None or fitted.columns is not None:
        return X.reset_index(drop=True)
    numbers = X.to_numpy(dtype=np.float64)
    refuse_gaps(numbers, names=list(X.columns))
    return numbers


def _check_objects(owner: Any, X: np.ndarray, reset: bool) -> pd.DataFrame:
    validate_data(owner, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=2 if reset else 1)
    return array_to_frame(X, [f"x{i}" for i in range(X.shape[1])])


def refuse_gaps(X: np.ndarray, names: list[Any] | None = None) -> None:
    """NaN and infinity in an array are an error that says where (in a DataFrame NaN means unknown)."""
    if X.dtype.kind != "f" or X.ndim < 2 or np.isfinite(X).all():
        return
    where = np.argwhere(~np.isfinite(X))[0]
    word = "NaN" if np.isnan(X[tuple(where)]) else "inf"
    column = repr(names[where[1]]) if names else str(where[1])
    raise InputError(
        f"X contains {word} in row {where[0]}, column {column}; replace it by a number, or fit on a DataFrame, "
        f"where NaN means unknown"
    )
