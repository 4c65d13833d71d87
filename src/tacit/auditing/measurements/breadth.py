"""Breadth: how much of every column, asked for or not, can still be told from a release.

For each column of the raw table a model learns it from the release and is measured on other rows. 0: the release tells
as little as guessing. 1: it tells the column as the raw table does, which holds it; a target that the raw table does
not hold is told by it as far as the same model learns it from there.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain, plain_frame
from tacit.auditing.stats import balanced_accuracy
from tacit.auditing.trial import Trial
from tacit.records.encoding import make_encoder
from tacit.records.finite import learn_values
from tacit.records.people import Crowd
from tacit.report.findings import Finding
from tacit.report.results import Measure, advantage
from tacit.training.trees import boosted_trees

CLASSES = 6  # that a column is read at: numbers by quantiles, words by the most frequent and the rest
MAXIMUM_ROWS = 5_000
ROUNDS = 40
MAX_COLUMNS = 40  # of a table whose breadth is measured without being asked for: that takes seconds
TREES, SHARE = "boosted trees", "share of what the raw table tells"
FAINT = 0.02  # a target of which the raw table tells no more has no breadth


def is_table(trial: Trial) -> bool:
    """Whether records of X are rows of a table."""
    return len(np.shape(trial.attack.X)) == 2


def in_seconds(trial: Trial) -> bool:
    """Whether X is a table of few columns, so that its breadth takes seconds."""
    return is_table(trial) and np.shape(trial.attack.X)[1] <= MAX_COLUMNS


@measurement("breadth", needs=is_table, auto=in_seconds, place=200)
def report_breadth(trial: Trial, context: Context | None = None) -> list[Finding]:
    """Measure how much of every column of X, and of the targets, can be inferred from the release."""
    columns = measure_breadth(trial)
    found = [Finding("breadth", f"mean of {len(columns)} columns", *mean_breadth(columns), TREES, SHARE)]
    each = sorted(columns.items(), key=lambda item: -item[1].value)
    return found + [Finding("breadth", name, *m, TREES, SHARE) for name, m in each]


def measure_breadth(trial: Trial) -> dict[str, Measure]:
    """Measure the breadth of a trial's release: all columns of X but sensitive ones, and the targets."""
    raw, targets = raw_tables(trial)
    settings, hidden = trial.settings, list(trial.attack.sensitive.columns)
    return breadth(
        trial.frames, raw, settings.seed, targets, hidden, trial.test.units_of(), settings.level, settings.per
    )


def mean_breadth(columns: Mapping[str, Measure]) -> Measure:
    """Return the mean over columns; of the ends too, since the columns are of the same people."""
    if not columns:
        return Measure(0.0, 0.0, 0.0, 0.0)
    value, low, high = (sum(m[i] for m in columns.values()) / len(columns) for i in range(3))
    return Measure(value, low, high, 0.0)


def raw_tables(trial: Trial) -> tuple[list[pd.DataFrame], list[pd.DataFrame]]:
    """The raw records of both parts as tables, and the targets that they do not hold."""
    raw = [plain_frame(d.X).set_axis([str(c) for c in _names(d.X)], axis=1) for d in trial.data]
    return raw, [d.y.reset_index(drop=True).drop(columns=[c for c in d.y if c in raw[0]]) for d in trial.data]


def breadth(
    released: Sequence[pd.DataFrame],
    raw: Sequence[pd.DataFrame],
    random_state: int = 0,
    targets: Sequence[pd.DataFrame] | None = None,
    hidden: Sequence[str] = (),
    units: np.ndarray | None = None,
    level: float = 0.95,
    per: str = "unit",
) -> dict[str, Measure]:
    """How much of each raw column a release tells: of two parts, one to learn from and one to measure on.

    A column is read as one of few classes. What is told is the share of the errors of guessing that are gone, and the
    raw table, which holds the column itself, has none left. Columns of one class, or of words that are all rare, say
    nothing and are not counted; nor are targets of which the raw table tells nothing.

    Parameters
    ----------
    released : the releases of both parts, as tables
    raw : the raw tables of the same rows
    random_state : same seed, same models and rows
    targets : labels of the same rows that the raw tables do not hold
    hidden : columns of the raw tables that nobody should be able to tell: they are not asked for
    units : of the rows that are measured on, the unit of each
    level, per : of the intervals, and whose average is meant

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> raw = [pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y"], 300)}) for _ in range(2)]
    >>> told = breadth([d[["b"]] for d in raw], raw)
    >>> told["b"].value, told["a"].value < 0.2
    (1.0, True)
    """
    rows = [some_rows(len(d), random_state) for d in raw]
    released, raw, targets = (take_rows(tables, rows) for tables in (released, raw, targets or ()))
    seen, whole = _numbers(released), _numbers(raw)
    units = None if units is None else units[rows[1]]

    def read(X: tuple[np.ndarray, ...], codes: list[np.ndarray]) -> Measure:
        return _told(X, codes, units, random_state, level, per)

    told = {}
    for name in (c for c in raw[0].columns if c not in hidden):
        if (codes := few_classes(raw, name)) is not None:
            told[str(name)] = read(seen, codes)
    for name in targets[0].columns if targets else ():
        if (codes := few_classes(targets, name)) is not None:
            most = read(whole, codes).value
            if most > FAINT:
                told[str(name)] = Measure(*(min(1.0, x / most) for x in read(seen, codes)))
    return told


def _told(
    X: tuple[np.ndarray, ...], codes: list[np.ndarray], units: np.ndarray | None, seed: int, level: float, per: str
) -> Measure:
    """The share of guessing's errors that are gone, classes weighing alike."""
    y, truth = codes
    known, tested = np.flatnonzero(y >= 0), np.flatnonzero(np.isin(truth, y[y >= 0]))
    y, truth = y[known], truth[tested]
    classes = np.unique(y)
    if len(classes) < 2 or len(np.unique(truth)) < 2:
        return Measure(0.0, 0.0, 1.0, 0.0)
    weight = len(y) / np.bincount(y)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
        trees = boosted_trees(X[0].shape, len(classes), seed, ROUNDS).fit(X[0][known], y, sample_weight=weight)
        answer = trees.predict(X[1][tested])
    who = None if units is None else units[tested]
    return advantage(balanced_accuracy(truth, answer, int(classes.max()) + 1, who, level, per))


def take_rows(tables: Sequence[pd.DataFrame], rows: list[np.ndarray]) -> list[pd.DataFrame]:
    """Some rows of each table."""
    return [table.iloc[r].reset_index(drop=True) for table, r in zip(tables, rows, strict=False)]


def _numbers(tables: Sequence[pd.DataFrame]) -> tuple[np.ndarray, ...]:
    """Both tables as numbers, by an encoder of the first."""
    encoder = make_encoder(plain(tables[0]))
    return tuple(encoder.transform(plain(table)) for table in tables)


def few_classes(tables: Sequence[pd.DataFrame], name: str) -> list[np.ndarray] | None:
    """One column of both tables as few classes, learned from the first; None where it has none."""
    values = learn_values(str(name), tables[0][name], CLASSES, Crowd(len(tables[0])))
    return None if isinstance(values, str) or len(values) < 2 else [values.codes(table[name]) for table in tables]


def _names(X: pd.DataFrame | np.ndarray) -> list[str]:
    return [str(c) for c in X.columns] if isinstance(X, pd.DataFrame) else [f"x{i}" for i in range(np.shape(X)[1])]


def some_rows(n: int, seed: int) -> np.ndarray:
    """So many rows as a model of one column learns from, or is measured on."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:MAXIMUM_ROWS])
