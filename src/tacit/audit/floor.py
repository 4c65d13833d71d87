"""What every release is measured against: the predicted labels alone, and the estimated limit of any release."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tacit.audit.attackers import Counting
from tacit.audit.bench import Bench
from tacit.audit.stats import balanced_accuracy
from tacit.labels import MISSING, Labels, encode_labels
from tacit.records.dataset import Dataset
from tacit.report.results import LimitPoint, Result

SLOPES = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.17, 0.22, 0.3, 0.5, 1.0)  # along the limit curve
WIDE = 1_000_000  # numbers in the data, above which three folds must do
MOST_FOR_RULE = 6000  # rows that place one point of the curve
MOST_FOR_LIMIT = 20_000_000  # rows x columns x classes; above it, posteriors of the secret take minutes


class Floor(NamedTuple):
    """Results of releasing the predicted labels alone, and by secret the estimated limit curve."""

    utility: dict[str, Result]
    leakage: dict[str, Result]
    limit: dict[str, tuple[LimitPoint, ...]]
    note: str | None


NO_FLOOR = Floor({}, {}, {}, None)


def measure_floor(bench: Bench, attack: Dataset, test: Dataset, limit: bool | None) -> Floor:
    """Label-only, predicted out of fold on `attack` and attacked by counting; and the limit where it is cheap.

    `limit` None estimates the curve where that takes seconds, True always, False never.
    """
    from tacit.baselines import LabelOnly  # slow to import, and not every audit has a floor

    known = attack.y.notna().all(axis=1).to_numpy()
    own = attack.take(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = 5 if np.size(own.X) <= WIDE else 3
        label = LabelOnly(n_folds=folds, random_state=bench.seed)
        label.min_people = 1  # it is compared with, and leaves nobody's hands: as good as labels can be predicted
        label.fit(own.X, own.y, units=own.units_of())
    utility, leakage = labels_alone(label.release_training_rows(), own, label.transform(test.X), test, bench)
    if limit is False or len(own.y.columns) != 1:
        return Floor(utility, leakage, {}, None)
    if alien := [c for side in ("y", "sensitive") for c in _only_in_test(getattr(own, side), getattr(test, side))]:
        note = f"the limit curve was not estimated: `test` has a class of {alien[0]!r} that `attack` does not have"
        return Floor(utility, leakage, {}, note)
    X = label.mechanism_.schema.encode(own.X)
    secrets = encode_labels(own.sensitive, "sensitive", len(own))
    if limit is None and X.size * sum(map(len, secrets.classes)) > MOST_FOR_LIMIT:
        return Floor(utility, leakage, {}, "the limit curve was not estimated: it takes minutes here; limit=True does")
    return Floor(utility, leakage, _curves(bench, label, X, secrets, own, test), None)


def labels_alone(
    own_labels: np.ndarray, own: Dataset, test_labels: np.ndarray, test: Dataset, bench: Bench | None = None
) -> tuple[dict[str, Result], dict[str, Result]]:
    """What predicted labels (one column per target) keep and leak by themselves, read by counting.

    They must come from a model that has seen neither these rows nor, for `own`, their labels.
    """
    level, seed = (bench.level, bench.seed) if bench else (0.95, 0)
    counting = Bench({"counting": lambda n, m, s: Counting()}, level, seed)
    rows = own_labels, own, test_labels, test
    return counting.run(*rows, "y", "accuracy"), counting.run(*rows, "sensitive", "balanced_accuracy")


def _only_in_test(own: pd.DataFrame, test: pd.DataFrame) -> list[str]:
    """Columns with a class that the attackers' rows do not have."""
    return [str(c) for c in own if not test[c].dropna().isin(own[c].dropna().unique()).all()]


def _curves(
    bench: Bench, label: Any, X: np.ndarray, secrets: Labels, own: Dataset, test: Dataset
) -> dict[str, tuple[LimitPoint, ...]]:
    """By secret, the best accuracy at every leakage, as far as boosted-tree posteriors know it (NOTES section 6).

    One cell per class of the target; cells are chosen on the out-of-fold posteriors of `attack` and both axes are
    measured on `test`. An estimate: with better posteriors the curve would lie higher.
    """
    from tacit.filters.posterior import Posteriors  # slow to import, and not every audit has a floor
    from tacit.solvers.exact import closed_code

    X_test = label.mechanism_.schema.encode(test.X)
    p_own, p_test = label.posteriors_.out_of_fold[0], label.posteriors_.predict(X_test)[0]
    target = encode_labels(test.y, "y", len(test), label.classes_).codes[:, 0]
    bench.tell("limit curve")
    posteriors = Posteriors(3).fit(X, secrets, own.units_of(), bench.seed)
    posteriors_test = posteriors.predict(X_test)
    some = np.random.default_rng(bench.seed).permutation(len(own))[:MOST_FOR_RULE]
    out = {}
    for i, name in enumerate(secrets.names):
        codes, m = secrets.codes[:, i], len(secrets.classes[i])
        shares = np.bincount(codes[codes != MISSING], minlength=m) / max(1, int((codes != MISSING).sum()))
        scale = 1 / (m * np.maximum(shares, 1e-9))
        own_secret, test_secret = posteriors.out_of_fold[i] * scale, posteriors_test[i] * scale
        truth = encode_labels(test.sensitive[[name]], name, len(test), (secrets.classes[i],)).codes[:, 0]
        points = []
        for slope in SLOPES:
            rule = closed_code(p_own[some], [own_secret[some]], slope)
            cells = [
                (np.column_stack([p, s, np.ones(len(p))]) @ rule).argmax(1)
                for p, s in ((p_own, own_secret), (p_test, test_secret))
            ]
            points.append(_point(cells, target, codes, truth, m, p_own.shape[1]))
        out[name] = _upper_left(points)
    return out


def _point(
    cells: list[np.ndarray], target: np.ndarray, codes: np.ndarray, truth: np.ndarray, m: int, n_cells: int
) -> LimitPoint:
    """Accuracy of the cell's class, and of an attacker who counted classes per cell on the other part."""
    counts = np.zeros((n_cells, m))
    known = codes != MISSING
    np.add.at(counts, (cells[0][known], codes[known]), 1)
    answer = (counts / np.maximum(counts.sum(0), 1)).argmax(1)
    told, asked = target != MISSING, truth != MISSING
    leak = balanced_accuracy(truth[asked], answer[cells[1][asked]], m).value
    return LimitPoint(float((cells[1][told] == target[told]).mean()), max(leak, 1 / m))


def _upper_left(points: list[LimitPoint]) -> tuple[LimitPoint, ...]:
    """Only points that no other beats on both axes, from most leaking to least."""
    kept = [
        p for p in points if not any(q != p and q.accuracy >= p.accuracy and q.leakage <= p.leakage for q in points)
    ]
    return tuple(sorted(set(kept), key=lambda p: -p.leakage))
