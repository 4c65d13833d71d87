"""A table on its way into a release that keeps its form, and out again; the mechanism of such a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError, TacitWarning
from tacit.filters.base import Preparation, Problem, check_units, classes_of, draw_seed, prepared
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.sensitive_classes import SensitiveClasses, learn_sensitive
from tacit.labels import MISSING, in_pandas, label_frame
from tacit.noise.keyed import Noise
from tacit.records.cells import MISSING_TEXT, OTHER_TEXT
from tacit.records.encoding import array_to_frame
from tacit.records.fingerprints import Memory
from tacit.records.finite import GAP_NAME, NAME_STEPS, NONE, FiniteColumn, learn_values, type_of, word_name
from tacit.records.intake import Intake, check_records
from tacit.records.people import Crowd
from tacit.records.schema import TableSchema


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


@dataclass(frozen=True)
class CouplingMechanism(Mechanism):
    """A release that looks at the sensitive columns of the records it is given."""

    schema: TableIntake
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
        return self.schema.table(self.code(encoded, self.draw(encoded, key, units)), carried)

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
    check_names(table, {"pass_through": carried, "keep": f.keep or {}, "order": () if f.order == "auto" else f.order})
    values = list[FiniteColumn]()
    for name in (c for c in table.columns if c not in (*carried, *classes.names)):
        found = learn_values(name, table[name], f.resolution, crowd)
        if isinstance(found, str):
            told.append(f"column {name!r} is left out: {found}; pass_through=[{name!r}] (--pass-through) carries it")
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
    problem = Problem(encoded, nothing, labels, unit, draw_seed(f), f.min_people)
    return prepared(f, problem, Preparation(intake, Memory.of(given[[*used]], unit), classes_of(labels)))


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


def check_names(table: pd.DataFrame, asked: Mapping[str, Any]) -> None:
    """Refuse parameters that name columns which are not there."""
    for parameter, names in asked.items():
        for name in names:
            if name not in table:
                raise InputError(f"{parameter} names {name!r}, but the columns are {', '.join(table.columns)}")


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
