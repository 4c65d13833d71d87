"""The contract of a filter: a scikit-learn transformer that learns to keep targets and to withhold secrets."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tacit.callback import whole_trainings
from tacit.errors import InputError, InputTypeError, check_number
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note_copies, note_dependence, note_numbers
from tacit.filters.registry import registered_filters
from tacit.labels import MISSING, Labels, encode_labels
from tacit.noise.keyed import new_key
from tacit.records.dataset import PRODUCT, cross_folds, unit_columns
from tacit.records.encoding import ArrayEncoder, TableEncoder
from tacit.records.fingerprints import Memory
from tacit.records.intake import Intake, check_records, learn_intake
from tacit.records.people import FURTHEST, MIN_PEOPLE, Crowd


@dataclass(frozen=True)
class Knob:
    """The parameter that trades utility for privacy: its name, its direction, its default values."""

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
    fold: int | None = None  # where these records are what is left without a fold: its number
    schema: Intake | None = None  # how records come in
    memory: Memory | None = None  # the rows, to know them again
    classes: Mapping[str, list[Any]] = field(default_factory=dict)  # by sensitive attribute

    def take(self, rows: np.ndarray) -> Problem:
        """The same problem with some of the records."""
        units = None if self.units is None else self.units[rows]
        targets, sensitive = self.targets.take(rows), self.sensitive.take(rows)
        return replace(self, X=self.X[rows], targets=targets, sensitive=sensitive, units=units)

    @property
    def scaling(self) -> TableEncoder | ArrayEncoder | None:
        """How records were standardized, for filters that release in the records' own units."""
        return None if self.schema is None else self.schema.scaling

    @property
    def crowd(self) -> Crowd:
        return Crowd(len(self.X), self.units, self.min_people)

    @property
    def n_in(self) -> int | tuple[int, ...]:
        """The width of a row, or the shape of a window or an image: what network factories are given."""
        return self.X.shape[1] if self.X.ndim == 2 else self.X.shape[1:]


if TYPE_CHECKING:  # scikit-learn has no types, and a class with an unknown base would take any parameter

    class Estimator:
        def get_feature_names_out(self, input_features: Any = None) -> np.ndarray: ...
        def __sklearn_tags__(self) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
else:

    class Estimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
        """What scikit-learn knows of a filter."""


class Filter(Estimator):
    """Base of all filters: learners whose `fit` leaves a `mechanism_`.

    A subclass writes `_learn` and `_out_of_fold`.
    """

    # so that Pipeline and GridSearchCV pass these on without further requests
    __metadata_request__fit = {"sensitive_features": True, "units": True}
    __metadata_request__transform = {"units": True}

    knob: ClassVar[Knob]
    needs_target: ClassVar[bool] = True  # False: `fit` works without y
    takes_numbers: ClassVar[bool] = False  # True: a target or sensitive column may be a number, as it is or in classes
    # what a bundle tells of its training people (words, ranges, edges of trees, tables) is shared by this many of them;
    # set it on a filter or on its class before `fit` to change it; 1 coarsens nothing, for filters that never leave
    min_people: int = MIN_PEOPLE
    streams: ClassVar[bool] = False  # True: `_learn` reads its records batch by batch, so they may lie in a file
    grouping: ClassVar[str] = "alone"  # which points of a frontier learn together: all of a "seed", any as a "stack"
    sees_sensitive: ClassVar[bool] = False  # True: a release looks at the sensitive columns of its records
    refuse: ClassVar[Any] = None  # refuses records that are not windows, or not images
    mechanism_: Mechanism  # set by fit: all that is released, and all that is claimed of it
    random_state: Any

    @property
    def frontier_parameter(self) -> str:
        """The name of the parameter that trades utility for privacy."""
        return self.knob.name

    def fit(self, X: Any, y: Any = None, *others: Any, sensitive_features: Any = None, units: Any = None) -> Self:
        """Learn the filter.

        Parameters
        ----------
        X : records: a DataFrame (text, booleans, numbers, missing values) or a numeric array
        y : what must keep working; one column or a table of several
        sensitive_features : what must not be recoverable; one column or a table of several
        units : which records belong together (a person, a bout); parts that must not see
            a record see none of its unit
        """
        refuse_positions(self, others)
        problem = prepare(self, X, y, sensitive_features, units)
        finish_fit(self, problem, self._learn(problem))
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
        return self.mechanism_.release(X, self.noise_key, None if units is None else check_units(units, len(X)))

    def release_training_rows(self) -> np.ndarray:
        """Release the training rows, each by parts that were fitted without it (out of fold).

        Use this, not ``transform``, to publish the very table the filter was fitted on.
        """
        check_is_fitted(self)
        problem: Problem | None = getattr(self, "_problem", None)
        if problem is None:
            raise InputError(
                "release_training_rows needs the training rows, which this filter did not keep (it was learned from "
                "chunks, or at other nodes); use fit, or transform rows that took no part in the fit"
            )
        noise = self.mechanism_.noise
        drawn = self.mechanism_.draw(problem.X, self.noise_key, problem.units)
        out = self._out_of_fold(problem, drawn)
        if noise is not None and drawn is not None and noise.added:
            out = noise.add(out, drawn)
        return self.mechanism_.leave(out)

    def with_noise(self, noise: float | None) -> Self:
        """The same fitted filter with noise of another size, or none; what is claimed of it changes alike.

        Setting the parameter after `fit` changes nothing: it is for the next fit.
        """
        check_is_fitted(self)
        held = self.mechanism_.noise
        if noise is not None and held is None:
            raise InputError(f"{type(self).__name__} was fitted without noise; fit it with noise={noise:g}")
        other = held.resized(float(noise)) if noise and held is not None else None
        return copy_with(self, self.mechanism_.with_noise(other))

    def noiseless(self, X: Any) -> np.ndarray:
        """The code before its noise: for certificates and comparisons, never for release."""
        check_is_fitted(self)
        return self.mechanism_.noiseless(X)

    @property
    def noise_key(self) -> bytes | None:
        """The secret under which the noise of releases is drawn; None without noise.

        Whoever has it can take the noise off. `tacit.load(path, noise_key=f.noise_key)` draws as the filter does,
        so that a record released by both tells nothing new.
        """
        check_is_fitted(self)
        return self._key if self.mechanism_.noise is not None else None

    @property
    def owner_key(self) -> bytes:
        """The owner's secret, by which a bundle of this filter knows the rows it was fitted on.

        Keep it where the training table is kept: `tacit.load(path, owner_key=f.owner_key)` can tell which records
        it was fitted on, as `seen` does; without the key nobody can.
        """
        check_is_fitted(self)
        return self._owner

    def redraw(self, key: bytes | None = None) -> Self:
        """The same filter under a new key: other noise for every record. Releasing both lets noise be averaged."""
        check_is_fitted(self)
        other = copy_with(self, self.mechanism_)
        other._key = key or new_key()
        return other

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these records belong to a unit of the fit; where units are not known, which equal a record of it.

        A record whose numbers were rounded, or in which one column of many values (a time stamp, an identifier) was
        changed, counts as equal where the rest still tells the records of the fit apart.
        """
        check_is_fitted(self)
        return self.mechanism_.seen(X, units)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the released columns: a table's own, where the release is a row of it; or the filter's own."""
        check_is_fitted(self)
        table = self.mechanism_.table
        if table is not None:
            return np.asarray(table.columns, dtype=object)
        if (own := getattr(self, "_names_out", None)) is not None:
            return np.asarray(own, dtype=object)
        return super().get_feature_names_out(input_features)

    @property
    def _n_features_out(self) -> int:
        return self.mechanism_.width

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.needs_target
        return tags

    # -- what subclasses write ------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        """Check and encode what is to be learned from."""
        return encode_problem(self, X, y, sensitive_features, units)

    def _learn(self, problem: Problem) -> Mechanism:
        """Learn the code that is released, its noise and its support."""
        raise NotImplementedError

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """The code of the training rows, each by parts fitted without it; noise that is added is added afterwards."""
        raise NotImplementedError

    def _as_given(self, checked: Any) -> bool:
        """Whether records go in as they come, not encoded."""
        return False

    @staticmethod
    def _learn_many(filters: Sequence[Any], problems: Sequence[Problem]) -> list[Mechanism]:
        """Learn filters that differ in knob and seed only; each ends as it would have alone."""
        return [f._learn(problem) for f, problem in zip(filters, problems, strict=True)]

    def _relearn(self, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Mechanism:
        """What `_learn` gave, from the arrays of its code."""
        raise NotImplementedError

    _key: bytes | None = None
    _owner: bytes = b""


@dataclass(eq=False, repr=False)
class TrainedFilter(Filter):
    """A filter that is trained epoch by epoch: `tacit.filters.base` reads these parameters."""

    _: KW_ONLY
    epochs: int = 20
    batch_size: int | None = None
    learning_rate: float = 1e-3
    random_state: Any = None
    device: str = "auto"
    verbose: bool = False
    checkpoint: str | Path | None = None


def prepare(f: Filter, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
    """Check and encode what a filter is to learn from."""
    return f._prepare(X, y, sensitive_features, units)


def encode_problem(f: Filter, X: Any, y: Any, sensitive_features: Any, units: Any, *, chunk: bool = False) -> Problem:
    """The problem of most filters: records as numbers, labels as codes. A chunk of more may lack labels."""
    refuse = type(f).refuse
    checked: Any = check_records(f, X, None, refuse)
    n = len(checked)
    if y is None and f.needs_target and not chunk:
        raise InputError(
            f"{type(f).__name__} requires y to be passed, but the target y is None: "
            f"say what must keep working, or the best release is an empty one"
        )
    targets = filter_labels(f, y, "y", n)
    if len(targets) == 0 and y is not None:
        raise InputError("y has no column; say what must keep working")
    sensitive = filter_labels(f, sensitive_features, "sensitive_features", n)
    unit = check_units(units, n)
    f.notes_ = []
    note_numbers(f, targets, sensitive)
    note_copies(f, checked, sensitive)
    note_dependence(f, targets, sensitive)
    intake = learn_intake(f, checked, Crowd(n, unit, f.min_people), f._as_given(checked), refuse)
    encoded = np.asarray(checked) if intake.encoder is None else intake.encoder.transform(checked)
    if intake.encoder is not None:
        encoded = np.clip(encoded, -FURTHEST, FURTHEST)
    memory, classes = Memory.of(checked, unit), classes_of(sensitive)
    seed = draw_seed(f)
    return Problem(encoded, targets, sensitive, unit, seed, f.min_people, None, intake, memory, classes)


def filter_labels(f: Filter, values: Any, what: str, n: int) -> Labels:
    """Label columns of a fit; a number is an error where the filter cannot take one."""
    return refuse_numbers(f, encode_labels(values, what, n, numbers=True), what)


def refuse_numbers(f: Filter, labels: Labels, what: str) -> Labels:
    """The labels, if the filter can take them."""
    if labels.number_names and not f.takes_numbers:
        name = labels.number_names[0]
        takes = [r.make.__name__ for r in registered_filters().values() if r.make.takes_numbers]
        raise InputError(
            f"{what} column {name!r} is a number (it looks like a measurement, or says so), which "
            f"{type(f).__name__} cannot take; {', '.join(sorted(takes))} can. Or cut it into classes: "
            f"tacit.read_table(..., bins={{{name!r}: 4}}), --set bins=4, or pandas.qcut; or turn it into text if the "
            f"numbers are names"
        )
    return labels


def refuse_positions(f: Any, others: Sequence[Any]) -> None:
    """Say how sensitive attributes are passed, to who passed them by position."""
    if others:
        raise InputTypeError(
            f"{type(f).__name__}.fit takes X and y by position, and {len(others)} more came; say what the others are: "
            f"fit(X, y, sensitive_features=s), and units=u for whose record each is"
        )


def finish_fit(f: Filter, problem: Problem | None, learned: Mechanism) -> None:
    """End a fit: complete the mechanism by what the problem says of its records, unless it is complete.

    Refitted alike, the same object draws alike: fits cannot be averaged.
    """
    if problem is not None and problem.schema is not None:
        memory, classes = problem.memory, problem.classes
        learned = replace(learned, schema=problem.schema, memory=memory, sensitive_classes=classes)
    f.__dict__.pop("report_", None)  # the audit of an earlier fit, left by `Frontier.choose`
    f._problem, f._key, f._owner = problem, f._key or new_key(), f._owner or new_key()
    f.encoder_ = learned.schema.scaling
    f.mechanism_ = replace(learned, filter=type(f).__name__)


def learn_many(filters: Sequence[Filter], problems: Sequence[Problem]) -> None:
    """Fit filters of one class on problems that were prepared for them."""
    for f, problem, learned in zip(filters, problems, type(filters[0])._learn_many(filters, problems), strict=True):
        finish_fit(f, problem, learned)


def relearn(f: Filter, problem: Problem, arrays: Mapping[str, np.ndarray]) -> None:
    """Be the filter whose mechanism gave these arrays, without learning."""
    finish_fit(f, problem, f._relearn(problem, arrays))


def draw_seed(f: Filter) -> int:
    """A seed by the filter's random_state."""
    return int(check_random_state(f.random_state).randint(2**31 - 1))


def copy_with(f: Any, mechanism: Mechanism) -> Any:
    """The same fitted filter with another mechanism."""
    other = copy.copy(f)
    other.mechanism_ = mechanism
    return other


def classes_of(labels: Labels) -> dict[str, list[Any]]:
    """The classes of every sensitive column of the fit, and the combinations of all of them that occur."""
    if labels.number_names:  # whose classes others cut elsewhere
        kept = [i for i in range(len(labels)) if labels.number(i) is None]
        return {labels.names[i]: labels.classes[i].tolist() for i in kept}
    classes = {name: known.tolist() for name, known in zip(labels.names, labels.classes, strict=True)}
    known = np.unique(labels.codes[(labels.codes != MISSING).all(axis=1)], axis=0)
    both = [tuple(c[i] for c, i in zip(classes.values(), row, strict=True)) for row in known.tolist()]
    return {**classes, PRODUCT: both} if len(classes) > 1 else classes


def check_units(units: Any, n: int) -> np.ndarray | None:
    """One unit per record, by name; None where the caller has none."""
    columns = unit_columns(units, n)
    return None if columns is None else next(iter(columns.values()))


Release = Callable[..., Any]  # records, and their noise where there is some -> what is released of them
Align = Callable[[np.ndarray, np.ndarray], Release]  # a fold's release and the whole fit's, of the same rows -> map

FEW_FOLDS = 3  # where one training takes minutes


def release_by_folds(
    problem: Problem,
    learn: Callable[[Problem], Release],
    n_folds: int = 5,
    like: Release | None = None,
    align: Align | None = None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Refit without each fold in turn and release the fold by that fit.

    Parameters
    ----------
    learn : learns a release from part of the problem
    like : the release of the whole fit. Codes of different fits are alike only up to a change of coordinates;
        with this, each is mapped back by what `align` finds over the rows it was fitted on
    align : least squares unless given
    noise : per row, handed to the releases beside the records
    """
    codes = np.concatenate([problem.targets.codes, problem.sensitive.codes], axis=1)
    folds = cross_folds(codes, n_folds, problem.seed, problem.units)
    out = np.empty(0)

    def of(release: Release, rows: np.ndarray) -> np.ndarray:
        return release(problem.X[rows]) if noise is None else release(problem.X[rows], noise[rows])

    for f in range(int(folds.max()) + 1):
        inside, outside = folds == f, folds != f
        with whole_trainings():
            release = learn(replace(problem.take(outside), fold=f))
        Z = of(release, inside)
        if like is not None:
            Z = (align or least_squares)(of(release, outside), of(like, outside))(Z)
        if f == 0:
            out = np.empty((len(folds), *Z.shape[1:]), dtype=Z.dtype)
        out[inside] = Z
    return out


def least_squares(there: np.ndarray, main: np.ndarray) -> Release:
    """The affine map from one release onto the other."""
    back = np.linalg.lstsq(_with_ones(there), main.reshape(len(main), -1), rcond=None)[0]
    return lambda Z: (_with_ones(Z) @ back).reshape(Z.shape)


def ridge(there: np.ndarray, main: np.ndarray) -> Release:
    """The same where a release has more columns than rows say anything about."""
    known = _with_ones(there)
    penalty = 1e-3 * np.trace(known.T @ known) / known.shape[1] * np.eye(known.shape[1])
    back = np.linalg.solve(known.T @ known + penalty, known.T @ main.reshape(len(main), -1))
    return lambda Z: (_with_ones(Z) @ back).reshape(Z.shape)


def _with_ones(Z: np.ndarray) -> np.ndarray:
    return np.column_stack([Z.reshape(len(Z), -1), np.ones(len(Z))])


UNSHAPED = ("checkpoint", "verbose", "device", "random_state")  # parameters that change no result of a known seed


def check_training(f: Any, min_batch: int = 1) -> None:
    """Refuse parameters with which no training could begin."""
    check_number("epochs", f.epochs, 1, whole=True)
    check_number("batch_size", f.batch_size, min_batch, whole=True, optional=True)
    check_number("learning_rate", f.learning_rate, 1e-12)


def training_settings(f: Any, problem: Any, unread: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `Training` needs to know of a filter with `epochs`, `checkpoint` and `verbose`, on this problem.

    A fold of the problem is kept in a file of its own, beside the checkpoint. `unread` are parameters that training
    does not read: a training resumes where they have changed.
    """
    checkpoint = f.checkpoint
    if checkpoint is not None and f.random_state is None:
        raise InputError(
            "checkpoint needs random_state: a training that resumes must draw what the one that stopped would "
            "have drawn; pass a number, such as random_state=0"
        )
    if checkpoint is not None and problem.fold is not None:
        checkpoint = f"{checkpoint}.fold{problem.fold}"
    return {
        "epochs": f.epochs,
        "seed": problem.seed,
        "checkpoint": checkpoint,
        "identity": "" if checkpoint is None else _identity(f, problem, (*UNSHAPED, *unread)),
        "verbose": f.verbose,
    }


def _identity(f: Any, problem: Any, skip: tuple[str, ...]) -> str:
    """Settings, seed and data in words: a checkpoint of another training is refused."""
    told = {k: _told(v) for k, v in f.get_params(deep=False).items() if k not in skip}
    data = [_told(a) for a in (problem.X, problem.targets.codes, problem.sensitive.codes)]
    data += [_told(a) for labels in (problem.targets, problem.sensitive) for a in labels.numbers if a is not None]
    return json.dumps({"filter": type(f).__name__, **told, "seed": problem.seed, "data": data}, sort_keys=True)


def _told(value: Any) -> str:
    """A setting in words that are the same in another process."""
    if hasattr(value, "state_dict"):  # a network; torch may not be here
        return " ".join([str(value), *(_told(v.detach().cpu().numpy()) for v in value.state_dict().values())])
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
        return f"{value.shape} {digest}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value))
    return re.sub(" at 0x[0-9a-f]+", "", str(getattr(value, "__qualname__", value)))
