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
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError, check_number
from tacit.filters.base import Filter, Knob, Problem, check_units
from tacit.filters.conditionals import Column, Conditional, Laws, learn_laws
from tacit.filters.coupled_table import CouplingMechanism, TableIntake, table_problem
from tacit.filters.mechanism import Learned
from tacit.filters.registry import register_filter
from tacit.labels import MISSING
from tacit.noise.keyed import Noise
from tacit.records.dataset import cross_folds
from tacit.solvers.couple import common_target, couple

MAXIMUM_ROWS = 60_000  # that models learn from; more are sampled
CHUNK = 2048  # records that are coupled at a time
# One name for every fit: two releases of a record under one key share their draws, so that they cannot be averaged.
DRAWS = hashlib.blake2b(b"coupling", digest_size=32).digest()


@register_filter("coupling", modality="people", examples=[{}, {"strength": 0.5, "resolution": 4}])
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
    mechanism_type = CouplingMechanism
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

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        check_number("resolution", self.resolution, 2, 4096, whole=True)
        check_number("n_folds", self.n_folds, 2, whole=True)
        if self.unknown not in ("refuse", "draw"):
            raise InputError(f"unknown must be 'refuse' or 'draw'; found {self.unknown!r}")
        if isinstance(self.order, str) and self.order != "auto":
            raise InputError(f"order must be 'auto' or names of columns; found {self.order!r}")
        return table_problem(self, X, y, sensitive_features, units)

    def _learn(self, problem: Problem) -> Learned:
        check_number("strength", self.strength, 0, 1)
        intake: Any = self._prepared.intake
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
    def _learned(coupling: Coupling, width: int, intake: Any) -> Learned:
        noise = Noise("uniform", 1.0, width + 1, added=False, mechanism=DRAWS, resolution=1.0)
        return Learned(coupling, len(intake.released), noise)

    def _relearn(self, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Learned:
        intake: Any = self._prepared.intake
        sizes = [len(v) for v in intake.values]
        coupling = coupling_of(arrays, intake, sizes, float(self.strength))
        return self._learned(coupling, len(sizes), intake)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        code: Any = self.mechanism_.learned.code
        return code.noisy(problem.X, drawn, code.folds)

    @staticmethod
    def _learn_many(filters: Sequence[Any], problems: Sequence[Problem]) -> list[Learned]:
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
    """`tacit.solvers.couple.couple` as a graph: (n, 1) numbers of values and draws, (n, values) laws."""
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
        column = Column(out[:, before], around, data.s, len(shares), data.codes[:, j], sizes[j], data.units)
        # one model without each fold, and one of all rows, for records that nobody learned from
        parts = [np.flatnonzero(data.folds != f) for f in range(int(data.folds.max()) + 2)]
        learned = learn_laws([column.take(rows) for rows in parts], rng.integers(2**30, size=len(parts)).tolist())
        laws = by_fold(learned, column.before, data.folds)
        out[:, j] = whole.step(column.values, laws, data.s, rng.random(len(data.s)))
        models.append(learned)
    posterior = None
    if intake.draws_unknown:
        raw, nobody = data.codes + 1, np.zeros(len(data.s), dtype=np.int64)
        column = Column(raw, [m + 1 for m in sizes], nobody, 1, data.s, len(shares), data.units)
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
