"""The coupling: a table in, the same table out, and nobody can tell the sensitive column from it.

Column by column, P(x_j | released columns before it, s) is learned, and values are replaced as rarely as possible such
that they follow one common target, the mixture over s. Where the conditionals are right the released table is
independent of s: every attacker who has nothing else is at guessing. The release looks at s, so whoever knows raw
values of a person learns something from what was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError, TacitWarning, check_number
from tacit.filters.base import Filter, Knob, Preparation, Problem, check_units, classes_of, draw_seed, settle
from tacit.filters.conditionals import Column, Conditional, learn_conditional
from tacit.filters.mechanism import Learned, Mechanism
from tacit.filters.notes import note
from tacit.filters.sensitive_classes import SensitiveClasses, learn_sensitive
from tacit.labels import MISSING, label_frame
from tacit.noise.keyed import Noise
from tacit.records.dataset import cross_folds
from tacit.records.encoding import array_to_frame
from tacit.records.fingerprints import Memory
from tacit.records.finite import FiniteColumn, learn_values, record_names
from tacit.records.intake import Intake, check_records
from tacit.records.people import Crowd
from tacit.solvers.couple import common_target, couple

CHUNK = 8192  # records that are coupled at a time
NAME = 2  # numbers that name a record's draws
# One name for every fit: two releases of a record under one key share their draws, so that they cannot be averaged.
DRAWS = hashlib.blake2b(b"coupling", digest_size=32).digest()


class CouplingFilter(Filter):
    """Release a table as a table: same columns, few values changed, independent of the sensitive columns.

    Parameters
    ----------
    strength : 1: the release shall tell nothing of the sensitive columns; 0: nothing is changed
    resolution : how many different values a column has at most
    order : "auto", or names of columns that are treated first, in this order; early columns are kept best
    keep : by column, how much it matters (1 where nothing is said): what matters more is treated earlier
    pass_through : columns that are carried along as they are, such as a key; nothing is hidden in them
    unknown : a record whose sensitive value is missing is an error ("refuse"), or its value is drawn from what the
        record tells of it ("draw"): such records are protected less
    n_folds : parts of the rows; each is released by models that learned from the others
    random_state : of the learning; what is replaced is drawn under a secret key

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(2, size=400)
    >>> height, eyes = 165 + 12 * s + rng.integers(-9, 9, 400), rng.choice(["blue", "brown"], 400)
    >>> X = pd.DataFrame({"height": height, "eyes": eyes})
    >>> f = CouplingFilter(random_state=0).fit(X, sensitive_features=s)
    >>> list(f.release_training_rows().columns)
    ['height', 'eyes']
    """

    __metadata_request__transform = {"units": True, "sensitive_features": True}
    knob = Knob("strength", utility_rises=False, values=(0.0, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0))
    needs_target = False
    mechanism_: CouplingMechanism

    def __init__(
        self,
        strength: float = 1.0,
        *,
        resolution: int = 32,
        order: str | Sequence[str] = "auto",
        keep: Mapping[str, float] | None = None,
        pass_through: Sequence[str] = (),
        unknown: str = "refuse",
        n_folds: int = 2,
        random_state: Any = None,
    ) -> None:
        self.strength = strength
        self.resolution = resolution
        self.order = order
        self.keep = keep
        self.pass_through = pass_through
        self.unknown = unknown
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None) -> Self:
        """Learn how values of a table depend on the sensitive columns.

        Parameters
        ----------
        X : the table; sensitive columns among its columns are not released
        y : columns that matter most, treated first; they become columns of the table where X does not have them
        sensitive_features : what nobody shall tell from the release; one column or several
        units : which records belong together
        """
        self._check_parameters()
        self.notes_: list[str] = []
        intake, problem, preparation = _prepare(self, X, y, sensitive_features, units)
        settle(self, problem, self._learn_from(problem, intake), preparation)
        self.mechanism_ = CouplingMechanism(**{**vars(self.mechanism_), "sees_sensitive": True})
        return self

    def transform(  # type: ignore[override]
        self, X: Any, units: Any = None, sensitive_features: Any = None, y: Any = None
    ) -> pd.DataFrame:
        """Release records. For rows of the fit use `release_training_rows`.

        Parameters
        ----------
        X : the table, as in `fit`
        units : whose record each is; see `Filter.transform`
        sensitive_features : the sensitive columns of these records, where X does not hold them
        y : targets of the fit, where X does not hold them
        """
        check_is_fitted(self)
        whose = None if units is None else check_units(units, len(X))
        return self.mechanism_.release(X, self.noise_key, whose, sensitive_features, y)

    def fit_transform(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None
    ) -> pd.DataFrame:
        """Fit, and release the training rows, each by models that did not see it."""
        return self.fit(X, y, sensitive_features=sensitive_features, units=units).release_training_rows()

    def release_training_rows(self) -> pd.DataFrame:  # type: ignore[override]
        """Release the training rows, each by models that learned from neither it nor its unit."""
        check_is_fitted(self)
        encoded = self._problem.X
        drawn = self.mechanism_.draw(encoded, self.noise_key, self._problem.units)
        return self.mechanism_.schema.table(self._out_of_fold(self._problem, drawn), self._carried)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the released columns."""
        check_is_fitted(self)
        return np.asarray(self.mechanism_.schema.released, dtype=object)

    def _learn_from(self, problem: Problem, intake: TableIntake) -> Learned:
        codes, s = intake.parts(problem.X)
        known = s != MISSING
        labels = np.column_stack([s[known], codes[known][:, intake.first]])
        self._folds = np.full(len(s), MISSING)
        self._folds[known] = cross_folds(labels, self.n_folds, problem.seed, _of(problem.units, known))
        data = Rows(codes[known], s[known], self._folds[known], _of(problem.units, known))
        coupling = learn_coupling(data, intake, float(self.strength), problem.seed, self.unknown == "draw")
        noise = Noise("uniform", 1.0, codes.shape[1] + 1, added=False, mechanism=DRAWS, resolution=1.0)
        return Learned(coupling, len(intake.released), noise)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        return self.mechanism_.learned.code.noisy(problem.X, drawn, self._folds)  # type: ignore[attr-defined]

    def _check_parameters(self) -> None:
        check_number("strength", self.strength, 0, 1)
        check_number("resolution", self.resolution, 2, 4096, whole=True)
        check_number("n_folds", self.n_folds, 2, whole=True)
        if self.unknown not in ("refuse", "draw"):
            raise InputError(f"unknown must be 'refuse' or 'draw'; found {self.unknown!r}")
        if isinstance(self.order, str) and self.order != "auto":
            raise InputError(f"order must be 'auto' or names of columns; found {self.order!r}")


# -- what goes in and what comes out ----------------------------------------------------------------


@dataclass(frozen=True)
class TableIntake(Intake):
    """A table on its way in, and out again.

    Attributes
    ----------
    given : the columns of X in the fit
    values : the finite values of each released column, in the table's order
    order : in which they are treated, as positions
    n_first : how many of these are treated first because they matter
    targets : columns that came as `y` and not in X
    carried : columns that are passed through
    released : all columns that leave, in their order
    sensitive : the classes of the sensitive columns
    unknown : whether a missing sensitive value is drawn
    """

    given: tuple[str, ...] = ()
    values: tuple[FiniteColumn, ...] = ()
    order: tuple[int, ...] = ()
    n_first: int = 0
    targets: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    sensitive: SensitiveClasses | None = None
    draws_unknown: bool = False

    @property
    def columns(self) -> list[str]:
        return list(self.given)

    @property
    def first(self) -> list[int]:
        """The columns that matter most, as positions."""
        return list(self.order[: self.n_first])

    def check(self, X: Any) -> pd.DataFrame:
        """The records as a table like that of the fit; targets and sensitive columns may stand in it besides."""
        if isinstance(X, pd.DataFrame):
            X = X.drop(columns=[c for c in X if c not in self.given and str(c) in (*self.targets, *self._hidden)])
        return _as_table(super().check(X))

    @property
    def _hidden(self) -> tuple[str, ...]:
        return () if self.sensitive is None else self.sensitive.names

    def read(self, X: Any, sensitive: Any, y: Any) -> tuple[np.ndarray, pd.DataFrame]:
        """Records as numbers (a code for each column, the sensitive class, the record's name), and what is carried."""
        table = with_targets(self.check(X), self.targets, X, y)
        if sensitive is None and isinstance(X, pd.DataFrame) and set(self._hidden) <= set(X.columns):
            sensitive = X[list(self._hidden)]
        if sensitive is None or self.sensitive is None:
            raise InputError(
                f"this release looks at the sensitive columns: pass sensitive_features= with "
                f"{', '.join(self._hidden)} of these records"
            )
        s = self.sensitive.read(sensitive, len(table))
        refuse_unknown(s, self.draws_unknown)
        return self.encode_table(table, s), table[list(self.carried)]

    def encode_table(self, table: pd.DataFrame, s: np.ndarray) -> np.ndarray:
        """A checked table and its sensitive classes as numbers."""
        codes = [v.codes(table[v.name]) for v in self.values]
        return np.column_stack([*codes, s, record_names(self.values, table)]).astype(np.float64)

    def parts(self, encoded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The codes of the columns and the sensitive class."""
        d = len(self.values)
        return encoded[:, :d].astype(np.int64), encoded[:, d].astype(np.int64)

    def table(self, codes: np.ndarray, carried: pd.DataFrame) -> pd.DataFrame:
        """Codes as a table again, with what is carried beside them."""
        cells = {v.name: v.cells(codes[:, j]) for j, v in enumerate(self.values)}
        carried = carried.reset_index(drop=True)
        return pd.DataFrame({c: cells[c] if c in cells else carried[c] for c in self.released})


class CouplingMechanism(Mechanism):
    """A release that looks at the sensitive columns of the records it is given."""

    schema: TableIntake

    def release(
        self, X: Any, key: bytes | None = None, units: Any = None, sensitive: Any = None, y: Any = None
    ) -> pd.DataFrame:
        """Release records; which values are replaced is drawn under the owner's key."""
        encoded, carried = self.schema.read(X, sensitive, y)
        return self.schema.table(self.code(encoded, self.draw(encoded, key, units)), carried)

    def draw(self, encoded: np.ndarray, key: bytes | None, units: Any = None) -> np.ndarray | None:
        """The draws of encoded records, keyed by what they are and whose."""
        return super().draw(encoded[:, -NAME:], key, units)

    def draw_names(self, X: Any, units: Any = None) -> list[bytes] | None:
        """What names the draws of each record, where X holds the targets of the fit too."""
        table = with_targets(self.schema.check(X), self.schema.targets, X, None)
        names = record_names(self.schema.values, table)
        return None if self.noise is None else self.noise.names(names, units)

    def noiseless(self, X: Any) -> np.ndarray:
        """There is none: without draws nothing would be replaced."""
        raise InputError(
            "a coupling has no code before its noise: without its draws it would release the table as it is"
        )

    def with_noise(self, noise: Noise | None) -> Mechanism:
        """A coupling has no noise of another size."""
        raise InputError("a coupling has no noise that can be made larger or smaller; fit with another strength")


def _prepare(f: CouplingFilter, X: Any, y: Any, sensitive: Any, units: Any) -> tuple[TableIntake, Problem, Preparation]:
    """Check what a filter is to learn from, and learn the values of its columns."""
    checked: Any = check_records(f, X, None)
    given = _as_table(checked)
    n, unit = len(given), check_units(units, len(given))
    crowd = Crowd(n, unit, f.min_people)
    classes, labels, told = learn_sensitive(sensitive, n, crowd)
    s = classes.classes(labels)
    refuse_unknown(s, f.unknown == "draw")
    wanted = [] if y is None else [str(c) for c in label_frame(y, "y").columns]
    own = [c for c in wanted if c not in given]
    table = with_targets(given, own, X, y)
    carried = [str(c) for c in f.pass_through]
    check_names(table, {"pass_through": carried, "keep": f.keep or {}, "order": () if f.order == "auto" else f.order})
    values = list[FiniteColumn]()
    for name in (c for c in table.columns if c not in (*carried, *classes.names)):
        found = learn_values(name, table[name], f.resolution, crowd)
        if isinstance(found, str):
            told.append(f"column {name!r} is left out: {found}; pass_through=[{name!r}] carries it as it is")
        else:
            values.append(found)
    if not values:
        raise InputError("no column is left to release; every one is sensitive, passed through or has too many words")
    names = [v.name for v in values]
    first = [c for c in dict.fromkeys([*(f.order if f.order != "auto" else ()), *wanted]) if c in names]
    codes = np.column_stack([v.codes(table[v.name]) for v in values])
    order = choose_order(names, first, f.keep or {}, codes, s, len(classes))
    released = tuple(c for c in table.columns if c in names or c in carried)
    intake = TableIntake(
        type(f).__name__, (given.shape[1],), tuple(given.columns) if isinstance(checked, pd.DataFrame) else None, None,
        True, given=tuple(given.columns), values=tuple(values), order=order, n_first=len(first), targets=tuple(own),
        carried=tuple(carried), released=released, sensitive=classes, draws_unknown=f.unknown == "draw",
    )  # fmt: skip
    for text in told:
        note(f, text, TacitWarning)
    f._carried = table[carried]
    encoded = intake.encode_table(table, s)
    nothing = replace(labels, names=(), classes=(), codes=labels.codes[:, :0])
    problem = Problem(encoded, nothing, labels, unit, draw_seed(f), f.min_people)
    return intake, problem, Preparation(intake, Memory.of(given, unit), classes_of(labels))


def _as_table(checked: Any) -> pd.DataFrame:
    """Checked records as a table whose columns have names."""
    if not isinstance(checked, pd.DataFrame):
        if np.ndim(checked) != 2:
            raise InputError(f"X has {np.ndim(checked)} dimensions; a coupling takes a table")
        return array_to_frame(checked, [f"x{i}" for i in range(checked.shape[1])])
    return checked.set_axis([str(c) for c in checked.columns], axis=1)


def with_targets(table: pd.DataFrame, targets: Sequence[str], X: Any, y: Any) -> pd.DataFrame:
    """The table with the targets that are not among its columns, from X or from y."""
    given = pd.DataFrame(index=table.index) if y is None else label_frame(y, "y")
    found = {}
    for name in targets:
        held = given if name in given else X if isinstance(X, pd.DataFrame) and name in X else None
        if held is None:
            raise InputError(f"target {name!r} of the fit is a column of the table; pass it in X, or as y=")
        if len(held) != len(table):
            raise InputError(f"y has {len(held)} rows but X has {len(table)}; pass one value per row")
        found[name] = held[name].reset_index(drop=True)
    return table.assign(**found) if found else table


def check_names(table: pd.DataFrame, asked: Mapping[str, Any]) -> None:
    """Refuse parameters that name columns which are not there."""
    for parameter, names in asked.items():
        for name in names:
            if name not in table:
                raise InputError(f"{parameter} names {name!r}, but the columns are {', '.join(table.columns)}")


def refuse_unknown(s: np.ndarray, drawn: bool) -> None:
    """Refuse records whose sensitive class is missing, unless it may be drawn."""
    if not drawn and (s == MISSING).any():
        raise InputError(
            f"sensitive_features is missing in row {int(np.flatnonzero(s == MISSING)[0])} "
            f"({int((s == MISSING).sum()):,} in all); leave these rows out, or pass unknown='draw' to draw it from "
            f"what the record tells of it (such records are protected less)"
        )


def choose_order(
    names: Sequence[str],
    first: Sequence[str],
    keep: Mapping[str, float],
    codes: np.ndarray,
    s: np.ndarray,
    n_classes: int,
) -> tuple[int, ...]:
    """Which column is treated when: those that matter first, then those that tell least of the sensitive class."""
    tells = [association(codes[:, j], s, n_classes) for j in range(len(names))]
    rest = [j for j, name in enumerate(names) if name not in first]
    rest.sort(key=lambda j: (-float(keep.get(names[j], 1.0)), tells[j]))
    return (*(names.index(name) for name in first), *rest)


def association(values: np.ndarray, s: np.ndarray, n_classes: int) -> float:
    """How much a column tells of the sensitive class: the mean total variation between a class and all of them."""
    known = (values >= 0) & (s >= 0)
    table = np.zeros((n_classes, int(values.max(initial=0)) + 1))
    np.add.at(table, (s[known], values[known]), 1)
    share = table.sum(axis=1) / max(1, known.sum())
    laws = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return float(share @ np.abs(laws - share @ laws).sum(axis=1) / 2)


# -- learning and releasing -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """Records to learn from: codes of their columns, sensitive class, fold and unit."""

    codes: np.ndarray
    s: np.ndarray
    folds: np.ndarray
    units: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Coupling:
    """The learned part of the release.

    Attributes
    ----------
    order : the columns in the order of their treatment
    models : for each of them in this order, a conditional for every fold
    shares : of the sensitive classes
    strength : of the target
    posterior : the sensitive class given a whole raw record, for records that miss it
    """

    order: tuple[int, ...]
    models: tuple[tuple[Conditional, ...], ...]
    shares: np.ndarray
    strength: float
    posterior: Conditional | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        raise InputError("a coupling is drawn; it has no release without its draws")

    def graph(self, g: Any, x: str) -> str:
        raise InputError("a CouplingFilter cannot be written to a bundle yet")

    def noisy(self, encoded: np.ndarray, drawn: np.ndarray, folds: np.ndarray | None = None) -> np.ndarray:
        """Encoded records to codes of what leaves; `folds` says whose fold's model alone releases a record."""
        d = len(self.order)
        folds = np.full(len(encoded), MISSING) if folds is None else folds
        out = np.empty((len(encoded), d), dtype=np.int64)
        for at in range(0, len(encoded), CHUNK):
            rows = slice(at, at + CHUNK)
            codes, s = encoded[rows, :d].astype(np.int64), encoded[rows, d].astype(np.int64)
            s = self._complete(codes, s, drawn[rows, d])
            for place, j in enumerate(self.order):
                laws = by_fold(self.models[place], out[rows][:, self.order[:place]], folds[rows])
                out[rows, j] = self.step(codes[:, j], laws, s, drawn[rows, j])
        return out

    def step(self, values: np.ndarray, laws: np.ndarray, s: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """One column: values that follow the target."""
        own = laws[np.arange(len(s)), s]
        return couple(values, own, common_target(laws, self.shares, own, self.strength), uniform)

    def _complete(self, codes: np.ndarray, s: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        gone = s == MISSING
        if self.posterior is None or not gone.any():
            return s
        law = self.posterior.laws(codes[gone] + 1)[:, 0]
        drawn = (law.cumsum(axis=1) < uniform[gone][:, None]).sum(axis=1)
        s = s.copy()
        s[gone] = np.minimum(drawn, len(self.shares) - 1)
        return s


def learn_coupling(data: Rows, intake: TableIntake, strength: float, seed: int, posterior: bool) -> Coupling:
    """Learn column by column; what later columns learn from is what earlier ones release of the rows of the fit.

    Each row is released by the models of the other folds here too, under draws of the seed and not of the key: so a fit
    is a function of its seed.
    """
    assert intake.sensitive is not None
    sizes, shares = [len(v) for v in intake.values], intake.sensitive.shares
    rng = np.random.default_rng(seed)
    out, models = np.zeros_like(data.codes), list[tuple[Conditional, ...]]()
    coupling = Coupling(intake.order, (), shares, strength)
    for place, j in enumerate(intake.order):
        before = list(intake.order[:place])
        around = [sizes[i] for i in before]
        column = Column(out[:, before], around, data.s, len(shares), data.codes[:, j], sizes[j], data.units)
        learned = tuple(
            learn_conditional(column.take(np.flatnonzero(data.folds != f)), int(rng.integers(2**31)))
            for f in range(int(data.folds.max()) + 1)
        )
        laws = by_fold(learned, column.before, data.folds)
        out[:, j] = coupling.step(column.values, laws, data.s, rng.random(len(data.s)))
        models.append(learned)
    if posterior:
        whole, nobody = data.codes + 1, np.zeros(len(data.s), dtype=np.int64)
        column = Column(whole, [m + 1 for m in sizes], nobody, 1, data.s, len(shares), data.units)
        return replace(coupling, models=tuple(models), posterior=learn_conditional(column, seed))
    return replace(coupling, models=tuple(models))


def by_fold(models: Sequence[Conditional], before: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The laws of each record by the model of its fold, which did not see it; by all of them where it has none."""
    laws: Any = None
    for f, model in enumerate(models):
        for rows, share in ((folds == f, 1.0), (folds == MISSING, 1 / len(models))):
            if rows.any():
                found = share * model.laws(before[rows])
                laws = np.zeros((len(before), *found.shape[1:])) if laws is None else laws
                laws[rows] += found
    return laws


def _of(units: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if units is None else units[rows]
