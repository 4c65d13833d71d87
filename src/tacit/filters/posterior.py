"""Cross-fitted posteriors p(label | x): all that an optimal release needs to know about a record.

A model fitted on labels answers for the rows it was fitted on as if it knew them: an attacker who holds it can tell
those rows from others. The folds' models never leave the owner. A `Student` learns their *out-of-fold* answers, so the
label of a row reaches it only through what the row taught the models of other rows. It is kept small where there
are few people, cuts columns at points of a public grid (`tacit.records.people.edges`), and its leaves hold enough
people each and are rounded to what that many support.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np

from tacit.labels import MISSING, Labels
from tacit.records.dataset import cross_folds
from tacit.records.people import Crowd, edges, supported
from tacit.training.trees import boosted_regressor, boosted_trees

REMEMBERED = 3  # sets of rows whose posteriors are kept: a training, an attack and a test part
MIN_ROWS = 10  # below this no model is fitted, the class frequencies are used


class Posteriors:
    """Boosted-tree posteriors of several label columns, fitted fold by fold.

    Every training row has posteriors from models that did not see it (nor its unit): `out_of_fold`.
    New rows get the average over the folds' models; or, where a `crowd` is given to `fit` because the posteriors
    will leave the owner's hands, the answer of a student that learned the out-of-fold posteriors.
    """

    students: list[Student] | None = None

    def __init__(self, n_folds: int = 5, make: Any = boosted_trees) -> None:
        self.n_folds, self.make = n_folds, make
        self._told: dict[bytes, list[np.ndarray]] = {}  # for rows that are asked about again, as by every weight

    def fit(
        self, X: np.ndarray, labels: Labels, units: np.ndarray | None, seed: int, crowd: Crowd | None = None
    ) -> Posteriors:
        X = X.reshape(len(X), -1)
        self.folds = cross_folds(labels.codes, self.n_folds, seed, units)
        n_folds = int(self.folds.max()) + 1
        self.models: list[list[_FoldModel]] = [
            [_fit_one(self.make, X[self.folds != f], codes[self.folds != f], m, seed + f) for f in range(n_folds)]
            for codes, m in zip(labels.codes.T, map(len, labels.classes), strict=True)
        ]
        self.out_of_fold = []
        for models in self.models:
            p = np.empty((len(X), models[0].n_classes))
            for f, model in enumerate(models):
                p[self.folds == f] = model(X[self.folds == f])
            self.out_of_fold.append(p)
        if crowd is not None and crowd.min_people > 1 and self.make is boosted_trees:
            bins = Bins(X, crowd)
            self.students = [Student(bins).fit(X, p, crowd, seed) for p in self.out_of_fold]
            self.models = []  # they know the rows they were fitted on
        return self

    def predict(self, X: np.ndarray) -> list[np.ndarray]:
        """Per label column, p(class | x) of new rows."""
        X = np.ascontiguousarray(X.reshape(len(X), -1))
        name = hashlib.blake2b(X.data, digest_size=16).digest() if X.size else b""
        if name not in self._told:
            self._told = dict(list(self._told.items())[1 - REMEMBERED :])
            if self.students is not None:
                self._told[name] = [student(X) for student in self.students]
            else:
                self._told[name] = [np.mean([model(X) for model in models], axis=0) for models in self.models]
        return [p.copy() for p in self._told[name]]

    def graph(self, g: Any, x: str) -> list[str]:
        """The same in a graph: per label column, the name of p(class | x)."""
        flat = g.flat(x)
        if self.students is not None:
            return [g.student(flat, student) for student in self.students]
        return [g.posterior(flat, models, f"posterior{i}") for i, models in enumerate(self.models)]


class _FoldModel:
    """One classifier that answers for all classes, also those its rows did not have."""

    def __init__(self, model: Any, classes: np.ndarray, prior: np.ndarray) -> None:
        self.model, self.classes, self.prior = model, classes, prior
        self.n_classes = len(prior)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if self.model is None:
            return np.tile(self.prior, (len(X), 1))
        p = np.full((len(X), self.n_classes), 1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
            p[:, self.classes] += self.model.predict_proba(X)
        return p / p.sum(axis=1, keepdims=True)


def _fit_one(make: Any, X: np.ndarray, codes: np.ndarray, n_classes: int, seed: int) -> _FoldModel:
    known = codes != MISSING
    X, codes = X[known], codes[known]
    prior = (np.bincount(codes, minlength=n_classes) + 1) / (len(codes) + n_classes)
    classes = np.unique(codes)
    if len(classes) < 2 or len(codes) < MIN_ROWS:
        return _FoldModel(None, classes, prior)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(X.shape, len(classes), seed).fit(X, np.searchsorted(classes, codes))
    return _FoldModel(model, classes, prior)


SURE = 1e-3  # posteriors beyond this are taught as this
RATE = 0.1
REACH = 2.0  # how far the answer to one row usually lies from what the trees before have learned


class Bins:
    """Columns cut at points of a public grid: numbers in, the number of points below each out."""

    def __init__(self, X: np.ndarray, crowd: Crowd) -> None:
        self.edges = [edges(X[:, i], crowd) for i in range(X.shape[1])]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([np.searchsorted(e, X[:, i]) for i, e in enumerate(self.edges)]).astype(np.float64)


class Student:
    """p(class | x) as a softmax of boosted regression trees, one for each class (one in all for two classes).

    Parameters
    ----------
    bins : where columns may be cut
    """

    def __init__(self, bins: Bins) -> None:
        self.bins = bins

    def fit(self, X: np.ndarray, posterior: np.ndarray, crowd: Crowd, seed: int) -> Student:
        """Learn out-of-fold posteriors (n, classes) of these rows."""
        rows, per_person = _some_rows(crowd, seed)
        logs = np.log(np.clip(posterior[rows], SURE, 1))
        self.n_classes = logs.shape[1]
        scores = logs[:, 1:] - logs[:, :1] if self.n_classes == 2 else logs - logs.mean(axis=1, keepdims=True)
        binned = self.bins(X[rows])
        leaf = crowd.enough * per_person
        self.trees = [
            _grow(binned, column, leaf, per_person, len(rows) // per_person, seed + i)
            for i, column in enumerate(scores.T)
        ]
        return self

    def __call__(self, X: np.ndarray) -> np.ndarray:
        binned = self.bins(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
            scores = np.column_stack([trees.predict(binned) for trees in self.trees])
        if self.n_classes == 2:
            one = 1 / (1 + np.exp(-scores))
            return np.column_stack([1 - one, one])
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


def _some_rows(crowd: Crowd, seed: int) -> tuple[np.ndarray, int]:
    """Rows to learn from, and the most that any person has among them: many rows of one person count as a few."""
    if crowd.units is None:
        return np.arange(crowd.n_rows), 1
    most = int(np.median(np.bincount(crowd.units)))
    order = np.random.default_rng(seed).permutation(crowd.n_rows)
    order = order[np.argsort(crowd.units[order], kind="stable")]
    first = np.searchsorted(crowd.units[order], np.arange(crowd.n_people))
    place = np.arange(crowd.n_rows) - first[crowd.units[order]]
    return np.sort(order[place < most]), most


def _grow(binned: np.ndarray, scores: np.ndarray, leaf: int, per_person: int, people: int, seed: int) -> Any:
    trees = boosted_regressor(
        rounds=int(np.clip(people // 25, 60, 150)),
        rate=RATE,
        leaves=int(np.clip(people // 100, 8, 31)),
        smallest_leaf=max(leaf, min(20, len(binned) // 25)),
        seed=seed,
        n_columns=binned.shape[1],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees.fit(binned, scores)
    for tree in trees.booster_.dump_model()["tree_info"]:
        for at, value, count in _leaves(tree["tree_structure"]):
            behind = max(1.0, count / per_person)
            trees.booster_.set_leaf_output(
                tree["tree_index"], at, float(supported(np.array(value), behind, RATE * REACH))
            )
    return trees


def _leaves(node: dict[str, Any]) -> list[tuple[int, float, int]]:
    """Number, value and rows of each leaf."""
    if "split_feature" in node:
        return _leaves(node["left_child"]) + _leaves(node["right_child"])
    # a tree of one leaf has no count: all rows are in it
    return [(int(node.get("leaf_index", 0)), float(node["leaf_value"]), int(node.get("leaf_count", 0)))]
