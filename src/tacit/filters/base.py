"""The contract of a filter: a scikit-learn transformer that keeps targets and withholds secrets."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit.errors import DependenceWarning, InputError, InputTypeError, TacitError, TacitWarning
from tacit.labels import MISSING, Labels, encode_labels
from tacit.noise.keyed import Noise, new_key
from tacit.records.dataset import PRODUCT, unit_columns
from tacit.records.encoding import array_to_frame, make_encoder
from tacit.records.fingerprints import Looks, fingerprints, learn_looks
from tacit.records.people import FURTHEST, MIN_PEOPLE, Crowd, coarse_ends

# Above this share of the target's entropy explained, "keep the target" and "hide the secret" collide.
NEARLY_A_FUNCTION = 0.9


@dataclass(frozen=True)
class Knob:
    """The parameter that trades utility for privacy: its name, its direction, its usual values."""

    name: str
    utility_rises: bool
    values: tuple[float, ...]


@dataclass(frozen=True)
class Problem:
    """What a filter learns from: encoded records, what to keep, what to withhold."""

    X: np.ndarray
    targets: Labels
    sensitive: Labels
    units: np.ndarray | None
    seed: int
    min_people: int = MIN_PEOPLE

    @property
    def crowd(self) -> Crowd:
        return Crowd(len(self.X), self.units, self.min_people)

    @property
    def n_in(self) -> int | tuple[int, ...]:
        """The width of a row, or the shape of a window or an image: what network factories are given."""
        return self.X.shape[1] if self.X.ndim == 2 else self.X.shape[1:]


class Filter(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all filters. A subclass writes `_learn`, `_release` and `_release_out_of_fold`."""

    # so that Pipeline and GridSearchCV pass these on without further requests
    __metadata_request__fit = {"sensitive_features": True, "units": True}
    __metadata_request__transform = {"units": True}

    knob: ClassVar[Knob]
    needs_target: ClassVar[bool] = True  # False: `fit` works without y
    # what a bundle tells of its training people (words, ranges, edges of trees, tables) is shared by this many of them;
    # set it on a filter or on its class before `fit` to change it; 1 coarsens nothing, for filters that never leave
    min_people: int = MIN_PEOPLE
    streams: ClassVar[bool] = False  # True: `_learn` reads its records batch by batch, so they may lie in a file
    encoder_: Any  # set by fit
    random_state: Any

    @property
    def frontier_parameter(self) -> str:
        """The name of the parameter that trades utility for privacy."""
        return self.knob.name

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None) -> Self:
        """Learn the filter.

        Parameters
        ----------
        X : records: a DataFrame (text, booleans, numbers, missing values) or a numeric array
        y : what must keep working; one column or a table of several
        sensitive_features : what must not be recoverable; one column or a table of several
        units : which records belong together (a person, a bout); parts that must not see
            a record see none of its unit
        """
        self.__dict__.pop("report_", None)  # the audit of an earlier fit, left by `Frontier.choose`
        problem = self._prepare(X, y, sensitive_features, units)
        self._learn(problem)
        return self

    def transform(self, X: Any, units: Any = None) -> np.ndarray:
        """Release records. Rows the filter was fitted on leak more than others: see `release_training_rows`.

        Parameters
        ----------
        X : records, as in `fit`
        units : for releases with noise, whose record each is: people's draws are then independent of each other's,
            and the same record of the same person always gets the same draw. Without units, equal records of one
            call are told apart by their order, but share their draws with equal records of another call
        """
        check_is_fitted(self)
        encoded = self._encode(X)
        drawn = self._draw(encoded, check_units(units, len(encoded)))
        return as_it_leaves(self._release(encoded) if drawn is None else self._release_noisy(encoded, drawn))

    def release_training_rows(self) -> np.ndarray:
        """Release the training rows, each by parts that were fitted without it (out of fold).

        Use this, not ``transform``, to publish the very table the filter was fitted on.
        """
        check_is_fitted(self)
        return as_it_leaves(self._release_out_of_fold())

    @property
    def noise_(self) -> Noise | None:
        """The noise that releases really carry; None where they carry none.

        What is claimed of a release is read from here, never from a parameter, which may have been set after `fit`.
        """
        check_is_fitted(self)
        return self._noise

    def draw_names(self, X: Any, units: Any = None) -> list[bytes] | None:
        """What names the noise of each record: two records of one name share their draw. None without noise."""
        check_is_fitted(self)
        encoded = self._encode(X)
        return None if self._noise is None else self._noise.names(encoded, check_units(units, len(encoded)))

    @property
    def noise_key(self) -> bytes | None:
        """The secret under which the noise of releases is drawn; None without noise.

        Whoever has it can take the noise off. `tacit.load(path, noise_key=f.noise_key)` draws as the filter does,
        so that a record released by both tells nothing new.
        """
        check_is_fitted(self)
        return self._key if self._noise is not None else None

    @property
    def owner_key(self) -> bytes:
        """The owner's secret, by which a bundle of this filter knows the rows it was fitted on.

        Keep it where the training table is kept: `tacit.load(path, owner_key=f.owner_key)` can tell which records
        it was fitted on, as `seen` does; without the key nobody can.
        """
        check_is_fitted(self)
        self._owner = self._owner or new_key()
        return self._owner

    def redraw(self) -> Self:
        """The same filter under a new key: other noise for every record. Releasing both lets noise be averaged."""
        check_is_fitted(self)
        twin = copy.copy(self)
        twin._key = new_key()
        return twin

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these records belong to a unit of the fit; where units are not known, which equal a record of it.

        A record whose numbers were rounded, or in which one column of many values (a time stamp, an identifier) was
        changed, counts as equal where the rest still tells the records of the fit apart.
        """
        check_is_fitted(self)
        if units is not None and self._units is not None:
            return np.isin(np.asarray(units).astype(str), self._units)
        checked = self._check_records(X, reset=False)
        seen = _among(fingerprints(checked), self._fingerprints)
        return seen if self._looks is None else seen | self._looks.seen(checked)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.needs_target
        return tags

    # -- what subclasses write ------------------------------------------------------------------

    def _learn(self, problem: Problem) -> None:
        raise NotImplementedError

    def _release(self, X: np.ndarray) -> Any:
        """Release encoded records, without noise."""
        raise NotImplementedError

    def _release_noisy(self, X: np.ndarray, drawn: np.ndarray) -> Any:
        """Release encoded records with this noise; by default it is added to the code."""
        assert self._noise is not None
        return self._noise.add(self._before_noise(X), drawn)

    def _release_out_of_fold(self) -> Any:
        raise NotImplementedError

    def _graph(self, g: Any, x: str) -> str:
        """Write the release before its noise as a graph: `x` names the encoded records; returns the result's name.

        `g` is a `tacit.release.onnx.GraphBuilder`. Noise that is not added at the end is its value `g.noise`.
        """
        raise InputError(f"{type(self).__name__} does not say how it is exported, so it cannot be saved as a bundle")

    def _encoding(self) -> Any:
        """The encoder that stands before the graph; None where records go in as they are."""
        return self.encoder_

    def _before_noise(self, X: np.ndarray) -> Any:
        """What the graph gives for encoded records: the release, or the code that noise is added to."""
        return self._release(X)

    def cloud_half(self) -> Any:
        """Where a filter has a cloud half: the network that answers from releases, and each target's classes."""
        raise InputError(
            f"{type(self).__name__} has no cloud half of its own; pass analyzer=tacit.serve.fit_analyzer(f, data)"
        )

    _n_codes: int | None = None  # how many code numbers there are, where each release is one

    _finite: bool = False  # True: the release is one of a few things, so an export may differ in few records only

    def _released_table(self) -> pd.DataFrame | None:
        """Where cells are released as rows of a table that is no array: that table."""
        return None

    # -- many at once, for `tacit.frontier` ------------------------------------------------------

    def _grouping(self) -> str:
        """Which points of a frontier learn together: "alone", all knob values "per seed", or any as a "stack"."""
        return "alone"

    @staticmethod
    def _learn_many(filters: Sequence[Any], problems: Sequence[Problem]) -> None:
        """Learn filters that differ in knob and seed only; each ends as it would have alone."""
        for f, problem in zip(filters, problems, strict=True):
            f._learn(problem)

    def _state(self) -> dict[str, np.ndarray] | None:
        """What was learned, as named arrays; None where learning again is how it is got back."""
        return None

    def _adopt(self, problem: Problem, state: Mapping[str, np.ndarray]) -> None:
        """Be the filter that gave `state`, without learning."""
        raise NotImplementedError

    # -- noise ----------------------------------------------------------------------------------

    _looks: Looks | None = None  # None: learned on other machines
    _owner: bytes | None = None
    _learned_noise: Noise | None = None  # set by `_learn` of filters that add noise
    _key: bytes | None = None

    @property
    def _noise(self) -> Noise | None:
        """The noise of a release; none while the parameter ``noise`` is off, also where it was turned off after fit."""
        return self._learned_noise if getattr(self, "noise", True) else None

    def _set_noise(self, noise: Noise | None) -> None:
        self._learned_noise = noise
        # refitted alike, the same object draws alike: two fits of a table cannot be averaged either
        self._key = self._key or new_key()

    def _draw(self, X: np.ndarray, units: Any) -> np.ndarray | None:
        """The noise of encoded records, keyed by what they are and whose, never by random_state; None without noise."""
        noise = self._noise
        return None if noise is None or self._key is None else noise.draw(self._key, noise.names(X, units))

    def _with_noise(self, code: np.ndarray, X: np.ndarray, units: Any) -> np.ndarray:
        """A code that was made elsewhere, under the noise of these encoded records."""
        drawn = self._draw(X, units)
        return code if drawn is None or self._noise is None else self._noise.add(code, drawn)

    # -- checking what comes in -----------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        checked = self._check_records(X, reset=True)
        n = len(checked)
        if y is None and self.needs_target:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: "
                f"say what must keep working, or the best release is an empty one"
            )
        targets = encode_labels(y, "y", n)
        if len(targets) == 0 and y is not None:
            raise InputError("y has no column; say what must keep working")
        sensitive = encode_labels(sensitive_features, "sensitive_features", n)
        columns = unit_columns(units, n)
        unit = None if columns is None else next(iter(columns.values()))
        self.sensitive_classes_ = _classes_of(sensitive)
        self.notes_: list[str] = []
        self._note_copies(checked, sensitive)
        self._note_dependence(targets, sensitive)
        crowd = Crowd(n, unit, self.min_people)
        self.encoder_ = make_encoder(checked, crowd)
        if not self._fitted_on_table:  # of each column or channel, for the schema of a bundle
            scaling = zip(self.encoder_.mean.ravel().tolist(), self.encoder_.scale.ravel().tolist(), strict=True)
            self._ranges = [coarse_ends(np.asarray(checked)[:, i], crowd, *pair) for i, pair in enumerate(scaling)]
        self._fingerprints, self._looks = np.sort(fingerprints(checked)), learn_looks(checked)
        self._owner = self._owner or new_key()
        self._units = None if unit is None else np.unique(unit.astype(str))
        encoded = np.clip(self.encoder_.transform(checked), -FURTHEST, FURTHEST)
        return Problem(encoded, targets, sensitive, unit, self._seed(), self.min_people)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _encode(self, X: Any) -> np.ndarray:
        return self.encoder_.transform(self._check_records(X, reset=False))

    def _check_records(self, X: Any, reset: bool) -> pd.DataFrame | np.ndarray:
        """A DataFrame or a float array whose shape, names and values are fit for use."""
        try:
            if isinstance(X, pd.DataFrame):
                return self._check_frame(X, reset)
            if not sparse.issparse(X):
                plain = np.asarray(X)
                if plain.ndim == 2 and plain.dtype.kind in "OUS" and plain.size:
                    return self._check_objects(plain, reset)
                _refuse_gaps(plain)
            checked = validate_data(
                self,
                X,
                reset=reset,
                dtype=np.float64,
                allow_nd=True,
                ensure_min_samples=2 if reset else 1,
            )
            if reset:
                self._record_shape = checked.shape[1:]
            elif checked.shape[1:] != self._record_shape:
                raise InputError(f"a record has shape {checked.shape[1:]}, but the filter knows {self._record_shape}")
            return checked if reset or not self._fitted_on_table else self._as_fitted_table(checked)
        except TacitError:
            raise
        except TypeError as error:
            raise InputTypeError(str(error)) from error
        except ValueError as error:
            raise InputError(str(error)) from error

    def _check_frame(self, X: pd.DataFrame, reset: bool) -> pd.DataFrame | np.ndarray:
        if len(X) < (2 if reset else 1) or X.shape[1] == 0:
            validate_data(self, X.to_numpy(dtype=object), reset=reset, dtype=None, ensure_min_samples=2 if reset else 1)
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            raise InputError(
                f"{str(error).rstrip()}\nPass the columns of the fit, with their names, in their order"
            ) from error
        if reset:
            if X.columns.has_duplicates:
                name = X.columns[X.columns.duplicated()][0]
                raise InputError(f"X has two columns called {name!r}; rename one")
            self._record_shape = (X.shape[1],)
        if reset or self._fitted_on_table:
            return X.reset_index(drop=True)
        numbers = X.to_numpy(dtype=np.float64)
        _refuse_gaps(numbers, names=list(X.columns))
        return numbers

    def _check_objects(self, X: np.ndarray, reset: bool) -> pd.DataFrame:
        validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=2 if reset else 1)
        if reset:
            self._record_shape = X.shape[1:]
        return array_to_frame(X, [f"x{i}" for i in range(X.shape[1])])

    def _as_fitted_table(self, X: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(X, columns=[c.name for c in self.encoder_.columns])

    @property
    def _fitted_on_table(self) -> bool:
        return hasattr(self, "encoder_") and hasattr(self.encoder_, "columns")

    # -- what the user should know --------------------------------------------------------------

    def _note_copies(self, X: pd.DataFrame | np.ndarray, sensitive: Labels) -> None:
        for i, name in enumerate(sensitive.names):
            copies = _copies(X, sensitive.codes[:, i])
            if copies:
                self._note(
                    f"sensitive column {name!r} is also among the inputs (as {', '.join(copies)}); that is allowed, "
                    f"but the filter then has to unlearn what dropping the column would withhold for free",
                    TacitWarning,
                )

    def _note_dependence(self, targets: Labels, sensitive: Labels) -> None:
        for i, target in enumerate(targets.names):
            for j, secret in enumerate(sensitive.names):
                share, reverse = dependence(targets.codes[:, i], sensitive.codes[:, j])
                if share >= NEARLY_A_FUNCTION:
                    self._note(
                        f"target {target!r} is (nearly) a function of sensitive {secret!r}: knowing {secret!r} "
                        f"removes {share:.0%} of the uncertainty about {target!r}, so any useful release gives part "
                        f"of {secret!r} away; compare with the label-only release",
                        DependenceWarning,
                    )
                elif reverse >= NEARLY_A_FUNCTION:
                    self._note(
                        f"sensitive {secret!r} is (nearly) a function of target {target!r}: knowing {target!r} "
                        f"removes {reverse:.0%} of the uncertainty about {secret!r}, so keeping {target!r} means "
                        f"giving {secret!r} away; choose another target or accept the leak",
                        DependenceWarning,
                    )

    def _note(self, text: str, kind: type[Warning]) -> None:
        self.notes_.append(text)
        warnings.warn(text, kind, stacklevel=5)


def _classes_of(labels: Labels) -> dict[str, list[Any]]:
    """The classes of every sensitive column of the fit, and the combinations of all of them that occur."""
    classes = {name: known.tolist() for name, known in zip(labels.names, labels.classes, strict=True)}
    known = np.unique(labels.codes[(labels.codes != MISSING).all(axis=1)], axis=0)
    both = [tuple(c[i] for c, i in zip(classes.values(), row, strict=True)) for row in known.tolist()]
    return {**classes, PRODUCT: both} if len(classes) > 1 else classes


def check_units(units: Any, n: int) -> np.ndarray | None:
    """One unit per record, by name; None where the caller has none."""
    columns = unit_columns(units, n)
    return None if columns is None else next(iter(columns.values()))


def as_it_leaves(Z: Any) -> Any:
    """A release in its one form: no index, no name but the columns', and 0.0 for -0.0, which a receiver can tell apart.

    Whatever a release could say beside its values it would say about a person.
    """
    if isinstance(Z, pd.DataFrame):
        Z = Z.reset_index(drop=True)
        Z.attrs.clear()
        floats = [c for c in Z.columns if pd.api.types.is_float_dtype(Z[c])]
        return Z.assign(**{c: Z[c] + 0.0 for c in floats}) if floats else Z
    array = np.ascontiguousarray(Z)
    return array + 0.0 if array.dtype.kind == "f" else array


def _among(found: np.ndarray, known: np.ndarray) -> np.ndarray:
    if not len(known):  # a filter that was learned on other machines
        return np.zeros(len(found), dtype=bool)
    return known[np.minimum(np.searchsorted(known, found), len(known) - 1)] == found


def dependence(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Share of a's entropy that b explains, and of b's that a explains (both 0..1, bias removed)."""
    both = (a != MISSING) & (b != MISSING)
    n = int(both.sum())
    if n == 0:
        return 0.0, 0.0
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a[both], b[both]), 1 / n)
    entropies = [_entropy(table.sum(1)), _entropy(table.sum(0)), _entropy(table.ravel())]
    bias = (np.count_nonzero(table.sum(1)) - 1) * (np.count_nonzero(table.sum(0)) - 1) / (2 * n)
    shared = max(0.0, entropies[0] + entropies[1] - entropies[2] - bias)
    return tuple(min(1.0, (shared + bias * (shared > 0)) / h) if h > 0 and bias < h / 4 else 0.0 for h in entropies[:2])  # type: ignore[return-value]


def _entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def _copies(X: pd.DataFrame | np.ndarray, codes: np.ndarray) -> list[str]:
    """Inputs that are one-to-one with a label: constant within each class, different between classes."""
    if not isinstance(X, pd.DataFrame) and X.ndim != 2:
        return []
    known = codes != MISSING
    if isinstance(X, pd.DataFrame):
        values = np.column_stack(
            [pd.factorize(X[c].astype(str) if X[c].dtype == object else X[c])[0] for c in X.columns]
        )[known]
        names = [repr(str(c)) for c in X.columns]
    else:
        values, names = X[known], [f"column {i}" for i in range(X.shape[1])]
    levels, constant = [], np.ones(values.shape[1], dtype=bool)
    for c in np.unique(codes[known]):
        part = values[codes[known] == c]
        constant &= (part == part[0]).all(axis=0)
        levels.append(part[0])
    table = np.array(levels)
    return [names[j] for j in np.flatnonzero(constant) if len(np.unique(table[:, j])) == len(table)]


def _refuse_gaps(X: np.ndarray, names: list[Any] | None = None) -> None:
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
