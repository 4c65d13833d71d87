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
from tacit.labels import MISSING, label_frame
from tacit.noise.keyed import Noise
from tacit.records.encoding import array_to_frame
from tacit.records.fingerprints import Memory
from tacit.records.finite import FiniteColumn, learn_values, record_names
from tacit.records.intake import Intake, check_records
from tacit.records.people import Crowd

NAME = 2  # numbers that name a record's draws


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


@dataclass(frozen=True)
class CouplingMechanism(Mechanism):
    """A release that looks at the sensitive columns of the records it is given."""

    schema: TableIntake
    sees_sensitive: bool = True

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


def table_problem(f: Any, X: Any, y: Any, sensitive: Any, units: Any) -> Problem:
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
    f.notes_ = []
    for text in told:
        note(f, text, TacitWarning)
    f._carried = table[carried]
    encoded = intake.encode_table(table, s)
    nothing = replace(labels, names=(), classes=(), codes=labels.codes[:, :0])
    problem = Problem(encoded, nothing, labels, unit, draw_seed(f), f.min_people)
    return prepared(f, problem, Preparation(intake, Memory.of(given, unit), classes_of(labels)))


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
