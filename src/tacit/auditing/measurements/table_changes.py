"""Measure what a release that is a table did to the table: see `tacit.report.table_changes`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.measurements.breadth import ROUNDS, few_classes, raw_tables, some_rows, take_rows
from tacit.auditing.received import plain
from tacit.auditing.trial import Trial
from tacit.filters.mechanism import mechanism_of
from tacit.records.encoding import make_encoder
from tacit.records.finite import FiniteColumn
from tacit.report.findings import Finding
from tacit.report.table_changes import ColumnChange, Question, TableChange
from tacit.training.trees import boosted_trees

MAXIMUM_QUESTIONS = 12
SHOWN = 12  # values of a column in the report


def _whole_table(trial: Trial) -> bool:
    """Whether the release is a table of a fitted filter."""
    return getattr(mechanism_of(trial.release), "columns", None) is not None and not trial.settings.alongside


@measurement("table_changes", needs=_whole_table, place=230)
def table_changes(trial: Trial, context: Context) -> Iterable[Finding]:
    """Measure what became of the table; models learn targets, and other columns where breadth was measured."""
    columns = mechanism_of(trial.release).columns
    raw = [pd.concat(tables, axis=1) for tables in zip(*raw_tables(trial), strict=True)]
    targets, every = [str(c) for c in trial.test.y.columns], "breadth" in context.done
    context.report["change"] = changed_table(columns, raw, trial.Z, targets, trial.settings.seed, every)
    return []


def changed_table(
    columns: Sequence[FiniteColumn],
    raw: Sequence[pd.DataFrame],
    released: Sequence[pd.DataFrame],
    targets: Sequence[str] = (),
    random_state: int = 0,
    every_column: bool = True,
) -> TableChange:
    """What became of a table, of two parts: models learn from the first; everything is measured on the second.

    Parameters
    ----------
    columns : the released columns
    raw, released : the raw tables, with the targets among their columns, and their releases
    targets : columns that are targets
    every_column : models learn other columns too, not the targets alone
    """
    after = [c.codes(released[1][c.name]) for c in columns]
    before = [c.codes(raw[1][c.name]) for c in columns]
    changes = {c.name: _change(c, b, a) for c, b, a in zip(columns, before, after, strict=True)}
    names = [c.name for c in columns]
    others = [n for n in names if n not in targets] if every_column else []
    learned = [*(n for n in names if n in targets), *others][:MAXIMUM_QUESTIONS]
    rows = [some_rows(len(d), random_state) for d in raw]
    learn, unseen = take_rows([d[names] for d in raw], rows)
    [out] = take_rows([released[0][names]], rows)
    found = {n: _question(n, [learn, unseen, out], n in targets, random_state) for n in learned}
    questions = {n: q for n, q in found.items() if q is not None}
    return TableChange(changes, questions, associations(before), associations(after))


def _change(column: FiniteColumn, before: np.ndarray, after: np.ndarray) -> ColumnChange:
    known = before >= 0
    shares = [np.bincount(x[x >= 0], minlength=len(column)) / max(1, len(x)) for x in (before, after)]
    top = np.argsort(-shares[0], kind="stable")[:SHOWN]
    words = ["gap" if i == column.gap else str(v) for i, v in enumerate(column.values)]
    listed = [tuple(np.round(s[top], 5).tolist()) for s in shares]
    return ColumnChange(float((before == after)[known].mean()) if known.any() else 0.0,
                        tuple(words[i] for i in top), *listed)  # fmt: skip


def _question(name: str, tables: Sequence[pd.DataFrame], declared: bool, seed: int) -> Question | None:
    """Trees that learn one column from the others: of the raw table, and of the released one.

    The tables are raw rows to learn from, raw rows to be asked, and the release of the first.
    """
    codes = few_classes(tables, name)
    if codes is None or tables[0].shape[1] < 2:
        return None
    unseen, truth, right = plain(tables[1].drop(columns=name)), codes[1], []
    for table, y in ((tables[0], codes[0]), (tables[2], codes[2])):
        X = plain(table.drop(columns=name))[y >= 0].reset_index(drop=True)
        if len(np.unique(y[y >= 0])) < 2:
            return None
        encoder = make_encoder(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
            learned = encoder.transform(X)
            trees = boosted_trees(learned.shape, len(np.unique(y[y >= 0])), seed, ROUNDS).fit(learned, y[y >= 0])
            answer = trees.predict(encoder.transform(unseen))
        right.append(float((answer == truth)[truth >= 0].mean()))
    guessing = float(np.bincount(truth[truth >= 0]).max() / max(1, (truth >= 0).sum()))
    return Question(right[1], right[0], guessing, declared)


def associations(codes: Sequence[np.ndarray]) -> tuple[tuple[float, ...], ...]:
    """Cramer's V of every pair of columns, 0 (independent) to 1 (one tells the other)."""
    d, out = len(codes), np.eye(len(codes))
    for i in range(d):
        for j in range(i):
            both = (codes[i] >= 0) & (codes[j] >= 0)
            table = np.zeros((codes[i].max(initial=0) + 1, codes[j].max(initial=0) + 1))
            np.add.at(table, (codes[i][both], codes[j][both]), 1)
            table = table[table.any(axis=1)][:, table.any(axis=0)]
            out[i, j] = out[j, i] = _cramer(table)
    return tuple(tuple(np.round(row, 4).tolist()) for row in out)


def _cramer(table: np.ndarray) -> float:
    """Cramer's V without the part that chance gives (Bergsma's correction)."""
    n, (r, c) = table.sum(), table.shape
    if min(r, c) < 2 or n < 2:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / n
    phi = max(0.0, float(((table - expected) ** 2 / expected).sum() / n) - (r - 1) * (c - 1) / (n - 1))
    room = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(phi / room)) if room > 0 else 0.0
