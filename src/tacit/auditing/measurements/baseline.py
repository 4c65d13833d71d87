"""What every release is measured against: the predicted labels alone, and the estimated limit of any release.

There is one floor for one pair of parts, whatever is audited on them: labels are predicted on the attackers' own rows,
out of fold. These are rows that no filter has seen, and an audit always has them. (Labels predicted by a model of the
training rows would make a second floor, different for every filter's rows, which the audit of a bundle or of a table of
releases could not compute.) The limit is learned there too, except in a frontier: its points were fitted on the
training rows, and what is to lie above them all must know as much.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from tacit.auditing.certification import Terms, certify_cells
from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain
from tacit.auditing.stats import balanced_accuracy
from tacit.auditing.suite import AttackSuite, counting
from tacit.auditing.trial import Trial, TrialSettings
from tacit.filters.posterior import Posteriors
from tacit.labels import MISSING
from tacit.records.dataset import Dataset, cross_folds
from tacit.records.encoding import array_to_frame, make_encoder
from tacit.records.people import Crowd
from tacit.report.findings import Finding
from tacit.report.results import AnyResult, LimitPoint
from tacit.training.trees import number_trees

SLOPES = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.17, 0.22, 0.3, 0.5, 1.0)  # along the limit curve
WIDE = 1_000_000  # numbers in the data, above which three folds must do
MAX_FOR_RULE = 6000  # rows that place one point of the curve
MAX_FOR_LIMIT = 20_000_000  # rows x columns x classes; above it, posteriors of the sensitive attribute take minutes


class Floor(NamedTuple):
    """Results of releasing the predicted labels alone; the estimated limit curves, or why there is none."""

    label_only_utility: dict[str, AnyResult]
    label_only: dict[str, AnyResult]
    limit: dict[str, tuple[Any, ...]]  # of `LimitPoint`
    note: str | None


@measurement("baseline", needs="a target", place=150)
def baseline(trial: Trial, context: Context) -> Iterable[Finding]:
    """Measure utility and leakage of the predicted label alone."""
    found = floor_of(trial, context)
    context.report |= {"label_only": found.label_only, "label_only_utility": found.label_only_utility}
    return []


def floor_of(trial: Trial, context: Context) -> Floor:
    """Return the label-only baseline and the limit of this trial, computed once."""
    if "floor" not in context.cache:
        context.cache["floor"] = measure_floor(trial, context.suite)
    found: Floor = context.cache["floor"]
    return found


def measure_floor(
    trial: Trial,
    suite: AttackSuite,
    level: float | None = None,
    train: Dataset | None = None,
    terms: Terms | None = None,
) -> Floor:
    """Label-only, predicted out of fold on `attack` and attacked by counting; and the limit where it is cheap.

    Parameters
    ----------
    trial : its parts, what was asked (`limit`: None estimates the curve where that takes seconds); not its release
    level : of each statement; None: the trial's
    train : rows that the limit is learned from instead, and `terms` that it is certified under, for a frontier
    """
    known = trial.attack.labels("y").codes != MISSING
    trial = trial.take(known.all(axis=1), np.ones(len(trial.test), dtype=bool)) if not known.all() else trial
    # as a filter's fit would draw it
    seed = int(check_random_state(suite.seed).randint(2**31 - 1))
    tree = _Trees(trial.attack, "y", 5 if np.size(trial.attack.X) <= WIDE else 3, seed)
    alone = [np.column_stack([p.argmax(axis=1) for p in ps]) for ps in (tree.own, tree.of(trial.test.X))]
    if tree.labels.number_names:
        alone = _with_numbers(alone, tree, trial, seed)
    utility, leakage = labels_alone(
        alone[0], trial.attack, alone[1], trial.test, level or trial.level, suite.seed, trial.settings.per
    )
    if train is not None:
        labelled = (train.labels("y").codes != MISSING).all(axis=1)
        train = train.take(labelled)
        if trial.settings.wanted("limit") is not False and train.y.shape[1] == 1:
            tree = _Trees(train, "y", 3, seed)
    note = _why_not(trial, tree, train or trial.attack)
    return Floor(utility, leakage, {} if note else _curves(trial, suite, tree, train, terms), note)


def labels_alone(
    own_labels: np.ndarray,
    own: Dataset,
    test_labels: np.ndarray,
    test: Dataset,
    level: float = 0.95,
    seed: int = 0,
    per: str = "unit",
) -> tuple[dict[str, AnyResult], dict[str, AnyResult]]:
    """What predicted labels (one column per target) keep and leak by themselves, read by counting.

    They must come from a model that has seen neither these rows nor, for `own`, their labels.
    """
    trial = Trial((own, test), (own_labels, test_labels), settings=TrialSettings(per=per))
    numbers = any(own.is_number(c) for c in own.y)  # a predicted number is no cell that could be counted
    suite = AttackSuite(("logistic", "trees"), seed) if numbers else counting(seed)
    return suite.measure(trial, "y", level), suite.measure(trial, "sensitive", level)


class _Trees:
    """What boosted trees learn of some rows' labels; these rows are told by models that did not see them."""

    def __init__(self, data: Dataset, side: str, n_folds: int, seed: int, like: _Trees | None = None) -> None:
        # nothing of this leaves anybody's hands: as good as labels can be predicted
        crowd = Crowd(len(data), data.units_of(), min_people=1)
        self.encoder: Any = like.encoder if like else make_encoder(_table(data.X), crowd)
        self.X: np.ndarray = like.X if like else self.encoder.transform(_table(data.X))
        self.labels = data.labels(side).present()
        self.posteriors = Posteriors(n_folds).fit(self.X, self.labels, data.units_of(), seed)
        self.own = self.posteriors.out_of_fold

    def of(self, X: Any) -> list[np.ndarray]:
        """Per label column, the probabilities for other rows."""
        return self.posteriors.predict(self.encoder.transform(_table(X)))


def _with_numbers(alone: list[np.ndarray], tree: _Trees, trial: Trial, seed: int) -> list[np.ndarray]:
    """Predictions of both parts, with numbers where the target is one; of own rows by models that did not see them."""
    own, other = (part.astype(float) for part in alone)
    data, Xt = trial.attack, tree.encoder.transform(_table(trial.test.X))
    fold = cross_folds(tree.labels.codes, 5, seed, data.units_of())
    for i in range(len(tree.labels)):
        y = tree.labels.number(i)
        if y is None:
            continue

        def learned(rows: np.ndarray, y: np.ndarray = y) -> Any:
            flat = tree.X.reshape(len(tree.X), -1)
            return number_trees(flat.shape, seed).fit(flat[rows], y[rows])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
            for k in np.unique(fold):
                own[fold == k, i] = learned(fold != k).predict(tree.X.reshape(len(tree.X), -1)[fold == k])
            other[:, i] = learned(np.ones(len(y), dtype=bool)).predict(Xt.reshape(len(Xt), -1))
    return [own, other]


def _table(X: Any) -> Any:
    """Records as an encoder takes them; an array of mixed objects has columns of numbers and of words."""
    if not isinstance(X, pd.DataFrame) and np.asarray(X).dtype.kind in "OUS":
        return array_to_frame(np.asarray(X), [f"x{i}" for i in range(np.shape(X)[1])])
    return plain(X, "X", "fill the gap, or pass a DataFrame")


def _why_not(trial: Trial, tree: _Trees, learned: Dataset) -> str | None:
    """Why the limit is not estimated; None where it is."""
    if trial.settings.wanted("limit") is False:
        return "the limit was not asked for"
    if learned.y.shape[1] != 1:
        return "the limit is known for one target only"
    if any(learned.is_number(c) for c in (*learned.y.columns, *learned.sensitive.columns)):
        return "the limit is known for classes only, not for numbers"
    for side in ("y", "sensitive"):
        own, test = getattr(learned, side), getattr(trial.test, side)
        for c in own:
            if not test[c].dropna().isin(own[c].dropna().unique()).all():
                where = "`attack`" if learned is trial.attack else "`train`"
                return f"the limit curve was not estimated: `test` has a class of {str(c)!r} that {where} does not have"
    if trial.settings.wanted("limit") is None:
        classes = sum(map(len, learned.labels("sensitive").present().classes))
        if tree.X.size * classes > MAX_FOR_LIMIT:
            return 'the limit curve was not estimated: it takes minutes here; measurements=["auto", "limit"] does'
    return None


def _curves(
    trial: Trial, suite: AttackSuite, tree: _Trees, train: Dataset | None, terms: Terms | None
) -> dict[str, tuple[LimitPoint, ...]]:
    """For each sensitive attribute the best accuracy at every leakage, as far as boosted trees know it.

    One cell per class of the target; cells are chosen on out-of-fold posteriors and both axes are measured on `test`.
    An estimate: with better posteriors the curve would lie higher.
    """
    from tacit.solvers.exact import closed_code  # torch takes a second to import: only the limit pays

    suite.callback("limit curve", None, None)
    learned = train or trial.attack
    secret = _Trees(learned, "sensitive", 3, suite.seed, like=tree)
    some = np.random.default_rng(suite.seed).permutation(len(learned))[:MAX_FOR_RULE]
    rows = [(tree.own, secret.own) if train is None else (tree.of(trial.attack.X), secret.of(trial.attack.X))]
    rows.append((tree.of(trial.test.X), secret.of(trial.test.X)))
    target = _codes(trial.test.y, 0, tree.labels.classes[0])
    out = {}
    for i, name in enumerate(trial.test.sensitive.columns):
        classes, own = secret.labels.classes[i], secret.labels.codes[:, i]
        shares = np.bincount(own[own != MISSING], minlength=len(classes)) / max(1, int((own != MISSING).sum()))
        scale = 1 / (len(classes) * np.maximum(shares, 1e-9))
        codes, truth = (_codes(d.sensitive, i, classes) for d in trial.data)
        points = []
        for slope in SLOPES:
            rule = closed_code(tree.own[0][some], [secret.own[i][some] * scale], slope)
            cells = [(np.column_stack([p[0], s[i] * scale, np.ones(len(p[0]))]) @ rule).argmax(1) for p, s in rows]
            point = _point(cells, target, codes, truth, len(classes), len(tree.labels.classes[0]))
            bound = None if terms is None else certify_cells(trial, i, np.concatenate(cells), terms)
            points.append(point._replace(bound=bound))
        out[name] = _upper_left(points)
    return out


def _codes(frame: pd.DataFrame, column: int, classes: np.ndarray) -> np.ndarray:
    """A label column by these classes; MISSING where it has none of them."""
    return pd.Index(classes).get_indexer(pd.Index(frame.iloc[:, column]))


def _point(
    cells: list[np.ndarray], target: np.ndarray, codes: np.ndarray, truth: np.ndarray, m: int, n_cells: int
) -> LimitPoint:
    """Accuracy of the cell's class, and of an attacker who counted classes per cell on the other part."""
    counts = np.zeros((n_cells, m))
    known = codes != MISSING
    np.add.at(counts, (cells[0][known], codes[known]), 1)
    answer = (counts / np.maximum(counts.sum(0), 1)).argmax(1)
    has_target, has_label = target != MISSING, truth != MISSING
    leak = balanced_accuracy(truth[has_label], answer[cells[1][has_label]], m).value
    return LimitPoint(float((cells[1][has_target] == target[has_target]).mean()), max(leak, 1 / m))


def _upper_left(points: list[LimitPoint]) -> tuple[LimitPoint, ...]:
    """Only points that no other beats on both axes, from most leaking to least."""
    kept = {p[:2]: p for p in points}.values()
    best = [p for p in kept if not any(q != p and q.accuracy >= p.accuracy and q.leakage <= p.leakage for q in kept)]
    return tuple(sorted(best, key=lambda p: -p.leakage))
