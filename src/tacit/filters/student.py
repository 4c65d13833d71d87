"""One small model that repeats posteriors which no row's own label took part in: what a bundle carries.

A model fitted on labels answers for the rows it was fitted on as if it knew them: whoever holds it tells those rows
from others. The folds' models never leave the owner. A student learns their *out-of-fold* answers, so the
label of a row reaches it only through what the row taught the models of other rows. It is kept small where there
are few people, cuts columns at points of a public grid (`tacit.records.people.edges`), and its leaves hold enough
people each and are rounded to what that many support.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tacit.records.people import Crowd, edges, supported
from tacit.training.trees import boosted_regressor

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
    if hasattr(trees, "booster_"):
        _round_lightgbm(trees.booster_, per_person)
    else:
        _round_sklearn(trees, per_person, people)
    return trees


def _round_lightgbm(booster: Any, per_person: int) -> None:
    for tree in booster.dump_model()["tree_info"]:
        for leaf, value, count in _leaves(tree["tree_structure"]):
            people = max(1.0, count / per_person)
            booster.set_leaf_output(tree["tree_index"], leaf, float(supported(np.array(value), people, RATE * REACH)))


def _leaves(node: dict[str, Any]) -> list[tuple[int, float, int]]:
    """Number, value and rows of each leaf."""
    if "split_feature" in node:
        return _leaves(node["left_child"]) + _leaves(node["right_child"])
    # a tree of one leaf has no count: all rows are in it
    return [(int(node.get("leaf_index", 0)), float(node["leaf_value"]), int(node.get("leaf_count", 0)))]


def _round_sklearn(trees: Any, per_person: int, people: int) -> None:
    trees._baseline_prediction = supported(np.asarray(trees._baseline_prediction), people, REACH)
    for (tree,) in trees._predictors:
        tree.nodes["value"] = supported(tree.nodes["value"], tree.nodes["count"] / per_person, RATE * REACH)
