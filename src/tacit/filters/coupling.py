"""The coupling: a table in, the same table out, and nobody can tell the sensitive column from it.

Column by column, P(x_j | released columns before it, s) is learned, and values are replaced as rarely as possible such
that they follow one common target, the mixture over s. Where the conditionals are right the released table is
independent of s: every attacker who has nothing else is at guessing. The release looks at s, so whoever knows raw
values of a person learns something from what was changed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError, TacitWarning, check_number
from tacit.filters.base import Filter, Knob, Problem, check_units, classes_of, draw_seed
from tacit.filters.conditionals import Conditional, Laws, Samples, learn_laws
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels, encode_labels, in_pandas, is_number, label_frame
from tacit.noise.keyed import Noise
from tacit.records.cells import MISSING_TEXT, OTHER_TEXT
from tacit.records.dataset import cross_folds
from tacit.records.encoding import array_to_frame
from tacit.records.fingerprints import Memory
from tacit.records.finite import GAP_NAME, NAME_STEPS, NONE, FiniteColumn, learn_values, type_of, word_name
from tacit.records.intake import Intake, check_records
from tacit.records.people import Crowd
from tacit.records.schema import Column, TableSchema
from tacit.solvers.coupling import common_target, couple

MAXIMUM_ROWS = 60_000  # that models learn from; more are sampled
CHUNK = 2048  # records that are coupled at a time
QUANTILES = 5  # classes of a sensitive measurement
MAX_COMBINATIONS = 2**20
SPARSE = 5  # times the people that anything needs: a class of fewer is pooled
# One name for every fit: two releases of a record under one key share their draws, so that they cannot be averaged.
DRAWS = hashlib.blake2b(b"coupling", digest_size=32).digest()


@dataclass(frozen=True)
class CouplingMechanism(Mechanism):
    """A release that looks at the sensitive columns of the records it is given."""

    schema: TableIntake = None  # type: ignore[assignment]
    sees_sensitive: bool = True

    @property
    def columns(self) -> tuple[FiniteColumn, ...]:
        """The columns that leave, but for those that are carried."""
        return self.schema.values

    def release(
        self, X: Any, key: bytes | None = None, units: Any = None, sensitive: Any = None, y: Any = None
    ) -> pd.DataFrame:
        """Release records; which values are replaced is drawn under the owner's key."""
        encoded, carried = self.schema.read(X, sensitive, y)
        return self.schema.table(self.numbers(encoded, self.draw(encoded, key, units)), carried)

    def draw(self, encoded: np.ndarray, key: bytes | None, units: Any = None) -> np.ndarray | None:
        """The draws of encoded records, keyed by what they are and whose."""
        return super().draw(self.schema.names_of(encoded), key, units)

    def draw_names(self, X: Any, units: Any = None) -> list[bytes] | None:
        """What names the draws of each record, where X holds the targets of the fit too."""
        table = with_targets(self.schema.check(X), self.schema.targets, X, None)
        names = np.column_stack([v.named(v.column.good(table[v.name])) for v in self.schema.values])
        return None if self.noise is None else self.noise.names(names, units)

    def noiseless(self, X: Any) -> np.ndarray:
        """There is none: without draws nothing would be replaced."""
        raise InputError(
            "a coupling has no code before its noise: without its draws it would release the table as it is"
        )

    def with_noise(self, noise: Noise | None) -> Mechanism:
        """A coupling has no noise of another size."""
        raise InputError("a coupling has no noise that can be made larger or smaller; fit with another strength")


@register_filter("coupling", modality="people", examples=[{}, {"strength": 0.5, "resolution": 4}])
@dataclass(eq=False, repr=False)
class CouplingFilter(Filter):
    """Release a table as a table: same columns, few values changed, independent of the sensitive columns.

    Targets given as `y` are columns of the table that are treated first, so they are kept best; where X does not hold
    them they are released beside its columns, and `transform` needs them too. Sensitive columns among those of X are
    not released.

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
    takes_numbers = True
    knob = Knob("strength", utility_rises=False, values=(0.0, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0))
    needs_target = False
    grouping = "seed"
    sees_sensitive = True

    strength: float = 1.0
    _: KW_ONLY
    resolution: int = 32
    order: str | Sequence[str] = "auto"
    keep: Mapping[str, float] | None = None
    pass_through: Sequence[str] = ()
    unknown: str = "refuse"
    n_folds: int = 2
    random_state: Any = None

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
        mechanism: Any = self.mechanism_
        return mechanism.release(X, self.noise_key, whose, sensitive_features, y)

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
        schema: Any = self.mechanism_.schema
        return schema.table(self._out_of_fold(self._problem, drawn), self._carried)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the released columns."""
        check_is_fitted(self)
        schema: Any = self.mechanism_.schema
        return np.asarray(schema.released, dtype=object)

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        check_number("resolution", self.resolution, 2, 4096, whole=True)
        check_number("n_folds", self.n_folds, 2, whole=True)
        if self.unknown not in ("refuse", "draw"):
            raise InputError(f"unknown must be 'refuse' or 'draw'; found {self.unknown!r}")
        if isinstance(self.order, str) and self.order != "auto":
            raise InputError(f"order must be 'auto' or names of columns; found {self.order!r}")
        return table_problem(self, X, y, sensitive_features, units)

    def _learn(self, problem: Problem) -> Mechanism:
        check_number("strength", self.strength, 0, 1)
        intake: Any = problem.schema
        codes, s = intake.parts(problem.X)
        known = s != MISSING
        labels = np.column_stack([s[known], codes[known][:, intake.first]])
        folds = np.full(len(s), MISSING)
        folds[known] = cross_folds(labels, self.n_folds, problem.seed, _of(problem.units, known))
        some = np.sort(np.random.default_rng(problem.seed).permutation(np.flatnonzero(known))[:MAXIMUM_ROWS])
        data = Rows(codes[some], s[some], folds[some], _of(problem.units, some))
        coupling = learn_coupling(data, intake, float(self.strength), problem.seed)
        return self._learned(replace(coupling, folds=folds), codes.shape[1], intake)

    @staticmethod
    def _learned(coupling: Coupling, width: int, intake: Any) -> Mechanism:
        noise = Noise("uniform", 1.0, width + 1, added=False, mechanism=DRAWS, resolution=1.0)
        return CouplingMechanism(coupling, len(intake.released), noise)

    def _relearn(self, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Mechanism:
        intake: Any = problem.schema
        sizes = [len(v) for v in intake.values]
        coupling = coupling_of(arrays, intake, sizes, float(self.strength))
        return self._learned(coupling, len(sizes), intake)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        code: Any = self.mechanism_.code
        return code.noisy(problem.X, drawn, code.folds)

    @staticmethod
    def _learn_many(filters: Sequence[Any], problems: Sequence[Problem]) -> list[Mechanism]:
        """Filters of one seed that differ in strength share their models."""
        one = filters[0]._learn(problems[0])
        for f in filters:
            check_number("strength", f.strength, 0, 1)
        return [replace(one, code=replace(one.code, strength=float(f.strength))) for f in filters]


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
    models : for each of them in this order, a conditional without every fold, and at last one of all rows
    shares : of the sensitive classes
    strength : of the target
    posterior : the sensitive class given a whole raw record, for records that miss it
    folds : of the rows of the fit
    """

    order: tuple[int, ...]
    models: tuple[tuple[Laws, ...], ...]
    shares: np.ndarray
    strength: float
    posterior: Laws | None = None
    folds: np.ndarray | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        raise InputError("a coupling is drawn; it has no release without its draws")

    def graph(self, g: Any, x: str) -> str:
        """The release as a graph; -1 where the combination of sensitive values was not in the fit."""
        d, n_classes = len(self.order), len(self.shares)
        codes, s = [g.columns(x, [j]) for j in range(d)], g.columns(x, [d])
        uniform = [g.columns(g.noise, [j]) for j in range(d + 1)]
        if self.posterior is not None:
            s = self._completed(g, codes, s, uniform[d])
        place_of = g.whole(g.op("Max", s, g.number(0.0)))
        one = g.op("Add", g.op("Mul", place_of, g.tensor(np.array(0), "nothing")), g.tensor(np.array(1), "one"))
        row = g.op("Sub", g.op("CumSum", one, g.tensor(np.array(0), "axis")), one)
        own_class = g.op(
            "Concat", *(g.op("Unsqueeze", at, g.tensor(np.array([1]), "axis")) for at in (place_of, row)), axis=1
        )
        out, before = dict[int, str](), list[str]()
        for place, j in enumerate(self.order):
            model = self.models[place][-1]
            if place:
                laws = model.graph(g, before, f"column{j}")
                own = model.raised(g, g.op("GatherND", laws, own_class))
                flat = g.op("Reshape", laws, g.tensor(np.array([n_classes, -1]), "shape"))
                mixed = g.op("MatMul", g.tensor(self.shares[None].astype(np.float32), "shares"), flat)
                mixture = model.raised(g, g.op("Reshape", mixed, g.tensor(np.array([-1, model.shape[1]]), "shape")))
            else:  # nothing was released before
                [laws] = model.of(np.empty((1, 0)))
                own = g.op("Gather", g.tensor(laws, "laws"), place_of, axis=0)
                mixtures = np.tile(self.shares @ laws, (n_classes, 1))
                mixture = g.op("Gather", g.tensor(mixtures, "mixture"), place_of, axis=0)
            target = mixture
            if self.strength < 1:
                parts = g.op("Mul", mixture, g.number(self.strength)), g.op("Mul", own, g.number(1 - self.strength))
                target = g.op("Add", *parts)
            out[j] = couple_graph(g, codes[j], own, target, uniform[j], model.shape[1])
            before.append(g.whole(out[j]))
        released = g.join(*(out[j] for j in range(d)))
        return g.op("Where", g.op("Less", s, g.number(0.0)), g.number(-1.0), released)

    def _completed(self, g: Any, codes: Sequence[str], s: str, uniform: str) -> str:
        """The sensitive class, drawn where it is missing: `_complete` as a graph."""
        assert self.posterior is not None
        before = [g.whole(g.op("Add", c, g.number(1.0))) for c in codes]
        law = self.posterior.raised(g, g.total(self.posterior.graph(g, before, "posterior"), 0))
        upto = g.op("CumSum", law, g.tensor(np.array(1), "axis"))
        below = g.op("Cast", g.op("Less", upto, uniform), to=g.DOUBLE)
        drawn = g.op("Min", g.total(below, 1, keep=True), g.number(len(self.shares) - 1.0))
        return g.op("Where", g.op("Less", s, g.number(0.0)), drawn, s)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned, by name; `coupling_of` gives it back."""
        found = {"folds": np.empty(0) if self.folds is None else self.folds}
        laws = {f"{place}.{f}": m for place, models in enumerate(self.models) for f, m in enumerate(models)}
        for name, law in (laws | ({} if self.posterior is None else {"posterior": self.posterior})).items():
            for i, net in enumerate(law.nets):
                found |= {f"{name}.{i}/{k}": v for k, v in net.state_dict().items()}
        return found

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
        law = self.posterior.of(codes[gone] + 1)[:, 0]
        drawn = (law.cumsum(axis=1) < uniform[gone][:, None]).sum(axis=1)
        s = s.copy()
        s[gone] = np.minimum(drawn, len(self.shares) - 1)
        return s


def coupling_of(arrays: Mapping[str, np.ndarray], intake: Any, sizes: Sequence[int], strength: float) -> Coupling:
    """The coupling that gave these arrays."""

    def laws(name: str, around: Sequence[int]) -> Laws | None:
        nets = list[Conditional]()
        while f"{name}.{len(nets)}/logits" in arrays:
            start = f"{name}.{len(nets)}/"
            own = {k.removeprefix(start): np.asarray(v) for k, v in arrays.items() if k.startswith(start)}
            nets.append(Conditional(around, np.exp(own["logits"].astype(np.float64))))
            nets[-1].logits, nets[-1].weights = own["logits"], {k: own[k] for k in nets[-1].weights}
        return Laws(tuple(nets)) if nets else None

    models, shares = list[tuple[Laws, ...]](), intake.hidden.shares
    for place in range(len(intake.order)):
        around = [sizes[i] for i in intake.order[:place]]
        found = list[Laws]()
        while (law := laws(f"{place}.{len(found)}", around)) is not None:
            found.append(law)
        models.append(tuple(found))
    posterior = laws("posterior", [m + 1 for m in sizes])
    return Coupling(intake.order, tuple(models), shares, strength, posterior, arrays["folds"].astype(np.int64))


def couple_graph(g: Any, values: str, own: str, target: str, uniform: str, n_values: int) -> str:
    """`tacit.solvers.coupling.couple` as a graph: (n, 1) numbers of values and draws, (n, values) laws."""
    zero, one = g.number(0.0), g.number(1.0)
    known = g.op("Cast", g.op("GreaterOrEqual", values, zero), to=g.DOUBLE)
    at = g.op("Max", values, zero)
    place = g.op("Cast", at, to=g.INT64)
    ratio = g.op("Div", g.op("GatherElements", target, place, axis=1), g.op("GatherElements", own, place, axis=1))
    kept = g.op("Mul", known, g.op("Min", ratio, one))
    # where all is kept this divides by zero, and nobody asks for what comes of it
    rest = g.op("Div", g.op("Sub", uniform, kept), g.op("Sub", one, kept))
    excess = g.op("Max", g.op("Sub", target, g.op("Mul", own, known)), zero)
    upto = g.op("CumSum", excess, g.tensor(np.array(1), "axis"))
    mark = g.op("Mul", rest, g.columns(upto, [n_values - 1]))
    drawn = g.total(g.op("Cast", g.op("LessOrEqual", upto, mark), to=g.DOUBLE), 1, keep=True)
    return g.op("Where", g.op("Less", uniform, kept), at, g.op("Min", drawn, g.number(n_values - 1.0)))


def learn_coupling(data: Rows, intake: TableIntake, strength: float, seed: int) -> Coupling:
    """Learn column by column; what later columns learn from is what earlier ones release of the rows of the fit.

    Each row is released by the models of the other folds here too, under draws of the seed and not of the key: so a fit
    is a function of its seed. It is released at full strength whatever the strength will be, so that all strengths
    share their models. (Models learned at strength .7 gave the same curve on Adult.)
    """
    assert intake.sensitive is not None
    sizes, shares = [len(v) for v in intake.values], intake.sensitive.shares
    rng = np.random.default_rng(seed)
    out, models = np.zeros_like(data.codes), list[tuple[Laws, ...]]()
    whole = Coupling(intake.order, (), shares, 1.0)
    for place, j in enumerate(intake.order):
        before = list(intake.order[:place])
        around = [sizes[i] for i in before]
        column = Samples(out[:, before], around, data.s, len(shares), data.codes[:, j], sizes[j], data.units)
        # one model without each fold, and one of all rows, for records that nobody learned from
        parts = [np.flatnonzero(data.folds != f) for f in range(int(data.folds.max()) + 2)]
        learned = learn_laws([column.take(rows) for rows in parts], rng.integers(2**30, size=len(parts)).tolist())
        laws = by_fold(learned, column.before, data.folds)
        out[:, j] = whole.step(column.values, laws, data.s, rng.random(len(data.s)))
        models.append(learned)
    posterior = None
    if intake.draws_unknown:
        raw, nobody = data.codes + 1, np.zeros(len(data.s), dtype=np.int64)
        column = Samples(raw, [m + 1 for m in sizes], nobody, 1, data.s, len(shares), data.units)
        [posterior] = learn_laws([column], [seed])
    return Coupling(intake.order, tuple(models), shares, strength, posterior)


def by_fold(models: Sequence[Laws], before: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The laws of each record by the model of its fold, which did not see it; by the last, of all rows, without."""
    laws = np.empty((len(before), *models[-1].shape))
    for f, model in enumerate(models):
        rows = folds == (MISSING if f == len(models) - 1 else f)
        if rows.any():
            laws[rows] = model.of(before[rows])
    return laws


def _of(units: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if units is None else units[rows]


@dataclass(frozen=True)
class TableIntake(Intake):
    """A table on its way in, and out again.

    Attributes
    ----------
    given : the columns of X that are released or carried
    values : the finite values of each released column, in the table's order
    order : in which they are treated, as positions
    n_first : how many of these are treated first because they matter
    targets : columns that came as `y` and not in X
    released : all columns that leave, in their order
    sensitive : the classes of the sensitive columns
    draws_unknown : whether a missing sensitive value is drawn
    """

    given: tuple[str, ...] = ()
    values: tuple[FiniteColumn, ...] = ()
    order: tuple[int, ...] = ()
    n_first: int = 0
    targets: tuple[str, ...] = ()
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

    @property
    def declared(self) -> TableSchema:
        """What goes in: the released columns and the sensitive ones."""
        own = [replace(v.column, role="target") if v.name in self.targets else v.column for v in self.values]
        return TableSchema([*own, *self.hidden.columns])

    @property
    def hidden(self) -> SensitiveClasses:
        """The classes of the sensitive columns."""
        assert self.sensitive is not None
        return self.sensitive

    def check(self, X: Any) -> pd.DataFrame:
        """The records as a table like that of the fit; targets and sensitive columns may stand in it besides."""
        X = in_pandas(X)
        if isinstance(X, pd.DataFrame):
            if not len(X):
                raise InputError("X has no rows; pass at least one record")
            X = X.set_axis([str(c) for c in X.columns], axis=1)
            absent = [c for c in self.given if c not in X]
            if absent:
                raise InputError(
                    f"column {absent[0]!r} of the fit is not there; the columns are {', '.join(X.columns)}"
                )
            return X[list(self.given)].reset_index(drop=True)
        return _as_table(super().check(X))

    def read(self, X: Any, sensitive: Any, y: Any) -> tuple[np.ndarray, pd.DataFrame]:
        """Records as numbers (codes of the columns, the sensitive class, the record's name), and what is carried."""
        X = in_pandas(X)
        table = with_targets(self.check(X), self.targets, X, y)
        if sensitive is None and isinstance(X, pd.DataFrame) and set(self.hidden.names) <= set(X.columns):
            sensitive = X[list(self.hidden.names)]
        if sensitive is None:
            raise InputError(
                f"this release looks at the sensitive columns: pass sensitive_features= with "
                f"{', '.join(self.hidden.names)} of these records"
            )
        return self.encode_table(table, self.hidden.frame(sensitive, len(table))), table[list(self.carried)]

    def encode_table(self, table: pd.DataFrame, sensitive: pd.DataFrame) -> np.ndarray:
        """A checked table and its sensitive columns as numbers."""
        read = [v.column.good(table[v.name]) for v in self.values]
        s = self.hidden.classes([c.good(sensitive[c.name]) for c in self.hidden.columns])
        codes = [v.numbered(x) for v, x in zip(self.values, read, strict=True)]
        names = [v.named(x) for v, x in zip(self.values, read, strict=True)]
        return np.column_stack([*codes, s, *names]).astype(np.float64)

    def possible(self, made: pd.DataFrame) -> pd.DataFrame:
        """Records whose combination of sensitive values the fit had."""
        read = [c.good(made[c.name]) for c in self.hidden.columns]
        return made[self.hidden.known(read)].reset_index(drop=True)

    def names_of(self, encoded: np.ndarray) -> np.ndarray:
        """What names the draws of encoded records."""
        return encoded[:, len(self.values) + 1 :]

    def graph(self, g: Any) -> tuple[str, str]:
        """Raw cells to encoded records as a graph, and the part that names their draws."""
        cells = g.cells(self.declared.columns)
        codes, names = [], []
        for v in self.values:
            x = cells[v.name]
            if v.column.kind == "category":
                known = {**v.words, MISSING_TEXT: v.gap}
                codes.append(g.lookup(x, known, v.other))
                words = [*v.column.categories, MISSING_TEXT]
                names.append(g.lookup(x, {w: word_name(w) for w in words}, word_name(OTHER_TEXT)))
                continue
            codes.append(g.or_gap(x, g.number(NONE) if v.only_gaps else g.bins(x, v.edges), v.gap))
            size = g.op("Log", g.op("Add", g.op("Abs", x), g.number(1.0)))
            steps = g.op("Mul", g.op("Mul", g.op("Sign", x), size), g.number(NAME_STEPS))
            names.append(g.or_gap(x, g.op("Round", steps), GAP_NAME))
        named = g.join(*names)
        return g.join(*codes, self._class_graph(g, cells), named), named

    def _class_graph(self, g: Any, cells: Mapping[str, str]) -> str:
        """The sensitive class, -1 where it is missing."""
        hidden, place, gone = self.hidden, None, None
        for column, edges, size in zip(hidden.columns, hidden.edges, hidden.numbers.shape, strict=True):
            x = cells[column.name]
            if column.kind == "category":
                own = g.lookup(x, {w: i for i, w in enumerate(column.categories)}, MISSING)
            else:
                own = g.or_gap(x, g.bins(x, edges), MISSING)
            absent = g.op("Less", own, g.number(0.0))
            gone = absent if gone is None else g.op("Or", gone, absent)
            place = own if place is None else g.op("Add", g.op("Mul", place, g.number(float(size))), own)
        at = g.op("Cast", g.op("Max", place, g.number(0.0)), to=g.INT64)
        found = g.op("Gather", g.tensor(hidden.numbers.ravel().astype(np.float64), "classes"), at, axis=0)
        return g.op("Where", gone, g.number(float(MISSING)), found)

    def parts(self, encoded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The codes of the columns and the sensitive class."""
        d = len(self.values)
        return encoded[:, :d].astype(np.int64), encoded[:, d].astype(np.int64)

    def table(self, codes: np.ndarray, carried: pd.DataFrame) -> pd.DataFrame:
        """Codes as a table again, with what is carried beside them."""
        cells = {v.name: v.cells(codes[:, j]) for j, v in enumerate(self.values)}
        carried = carried.reset_index(drop=True)
        return pd.DataFrame({c: cells[c] if c in cells else carried[c] for c in self.released})


def counts_rows(column: pd.Series) -> bool:
    """Whether every row has a whole number of its own, nearly without a gap between them: a number of people or rows.

    Examples
    --------
    >>> counts_rows(pd.Series(range(70_000, 70_100))), counts_rows(pd.Series([31, 45] * 50))
    (True, False)
    """
    if len(column) < 50 or column.dtype.kind not in "iu" or not column.is_unique:
        return False
    return int(column.max()) - int(column.min()) < 3 * len(column)


def table_problem(f: Any, X: Any, y: Any, sensitive: Any, units: Any) -> Problem:
    """Check what a filter is to learn from, and learn the values of its columns."""
    X = in_pandas(X)
    checked: Any = check_records(f, X, None)
    given = _as_table(checked)
    n, unit = len(given), check_units(units, len(given))
    crowd = Crowd(n, unit, f.min_people)
    classes, labels, told = learn_sensitive(sensitive, n, crowd, f.unknown == "draw")
    wanted = [] if y is None else [str(c) for c in label_frame(y, "y").columns]
    own = [c for c in wanted if c not in given]
    table = with_targets(given, own, X, y)
    carried = [str(c) for c in f.pass_through]
    named = {"pass_through": carried, "keep": f.keep or {}, "order": () if f.order == "auto" else f.order}
    for parameter, name in ((p, name) for p, names in named.items() for name in names):
        if name not in table:
            raise InputError(f"{parameter} names {name!r}, but the columns are {', '.join(table.columns)}")
    values = list[FiniteColumn]()
    for name in (c for c in table.columns if c not in (*carried, *classes.names)):
        found = learn_values(name, table[name], f.resolution, crowd)
        if isinstance(found, str):
            carry = f"pass_through=[{name!r}] (--set pass_through={name}) carries it"
            told.append(f"column {name!r} is left out: {found}; {carry}")
        else:
            values.append(found)
            if counts_rows(table[name]):
                told.append(f"column {name!r} numbers the rows; leave it out (drop, --drop) if it says who somebody is")
    if not values:
        raise InputError("no column is left to release; every one is sensitive, passed through or has too many words")
    names = [v.name for v in values]
    first = [c for c in dict.fromkeys([*(f.order if f.order != "auto" else ()), *wanted]) if c in names]
    released = tuple(c for c in table.columns if c in names or c in carried)
    used = tuple(c for c in given.columns if c in released)
    intake = TableIntake(
        type(f).__name__, (given.shape[1],), tuple(given.columns) if isinstance(checked, pd.DataFrame) else None, None,
        True, given=used, values=tuple(values), n_first=len(first), targets=tuple(own), released=released,
        carried={c: type_of(table[c]) for c in carried}, sensitive=classes, draws_unknown=f.unknown == "draw",
    )  # fmt: skip
    encoded = intake.encode_table(table, classes.frame(sensitive, n))
    order = choose_order(names, first, f.keep or {}, *intake.parts(encoded), len(classes))
    intake = replace(intake, order=order)
    if n_gone := int((intake.parts(encoded)[1] == MISSING).sum()):
        told.append(
            f"{n_gone:,} records miss a sensitive value: it is drawn from what the record tells of it, and they are "
            f"protected less than others"
        )
    f.notes_ = []
    for text in told:
        note(f, text, TacitWarning)
    f._carried = table[carried]
    nothing = replace(labels, names=(), classes=(), codes=labels.codes[:, :0])
    memory, known = Memory.of(given[[*used]], unit), classes_of(labels)
    return Problem(encoded, nothing, labels, unit, draw_seed(f), f.min_people, None, intake, memory, known)


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
    if not set(targets) & set(given.columns) and given.shape[1] == len(targets):
        given = given.set_axis(list(targets), axis=1)  # a list or an array has no names
    found = {}
    for name in targets:
        held = given if name in given else X if isinstance(X, pd.DataFrame) and name in X else None
        if held is None:
            raise InputError(f"target {name!r} of the fit is a column of the table; pass it in X, or as y=")
        if len(held) != len(table):
            raise InputError(f"y has {len(held)} rows but X has {len(table)}; pass one value per row")
        found[name] = held[name].reset_index(drop=True)
    return table.assign(**found) if found else table


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
    cut = {}  # measurements as the number of their class
    for name, at in edges.items():
        x = frame[name].astype(float)
        cut[name] = pd.Series(np.searchsorted(at, x), dtype="Int64").mask(x.isna().to_numpy())
    labels = encode_labels(frame.assign(**cut) if cut else frame, "sensitive_features", n_rows)
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
