"""Attackers of numbers: regressors trained afresh on released data. Any scikit-learn regressor can join.

An entry is given the shape of the data and a seed, and returns a regressor with ``fit`` and ``predict``. Adding one is
a function and a line in `REGRESSORS`. What it is given was standardized, the number too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline

from tacit.cores import threads
from tacit.errors import InputError
from tacit.training.trees import number_trees

Shape = tuple[int, int]
Regressor = Callable[[Shape, int], Any]  # (shape of the data, seed) -> regressor
RIDGES = np.logspace(-2, 5, 8)


class CellValues:
    """The mean (or the median) of a number among the records of each distinct release: the best of a finite release."""

    def __init__(self, middle: Callable[[np.ndarray], Any] = np.mean) -> None:
        self.middle = middle

    def fit(self, X: np.ndarray, y: np.ndarray) -> CellValues:
        self.otherwise = float(self.middle(y))
        found: dict[bytes, list[float]] = {}
        for row, value in zip(np.ascontiguousarray(X), y, strict=True):
            found.setdefault(row.tobytes(), []).append(value)
        # a cell of few records knows little: one more record of the whole joins it
        self.table = {key: float(self.middle(np.array([*v, self.otherwise]))) for key, v in found.items()}
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.array([self.table.get(row.tobytes(), self.otherwise) for row in np.ascontiguousarray(X)])


def _network(shape: Shape, seed: int) -> Any:
    many = shape[0] >= 1000  # few rows cannot spare any to stop by
    return MLPRegressor(
        hidden_layer_sizes=(64, 64),
        alpha=1e-3,
        early_stopping=many,
        n_iter_no_change=5,
        max_iter=60 if many else 150,
        random_state=seed,
    )


def _forest(shape: Shape, seed: int) -> Any:
    return ExtraTreesRegressor(200, min_samples_leaf=3, random_state=seed, n_jobs=threads())


REGRESSORS: dict[str, Regressor] = {
    "trees": lambda shape, seed: number_trees(shape, seed),
    "median trees": lambda shape, seed: number_trees(shape, seed, median=True),
    "mlp": _network,
    "ridge": lambda shape, seed: RidgeCV(RIDGES),
    "neighbors": lambda shape, seed: KNeighborsRegressor(
        n_neighbors=int(np.clip(np.sqrt(shape[0]) / 2, 3, 50)), weights="distance"
    ),
    "forest": _forest,
    "rbf": lambda shape, seed: make_pipeline(
        Nystroem(gamma=1 / shape[1], n_components=min(400, shape[0]), random_state=seed), RidgeCV(RIDGES)
    ),
}
COUNTING: dict[str, Regressor] = {
    "counting": lambda shape, seed: CellValues(),
    "counting medians": lambda shape, seed: CellValues(np.median),
}
COUNTED = {"counting", "counting medians"}
# what reads a number as an attacker of classes reads classes; others have no regressor
ALIKE = {
    "logistic": ("ridge",),
    "ridge": ("ridge",),
    "trees": ("trees", "median trees"),
    "mlp": ("mlp",),
    "neighbors": ("neighbors",),
    "forest": ("forest",),
    "rbf": ("rbf",),
}
QUICK = ("trees", "median trees", "mlp", "ridge", "neighbors")
PRESETS = {"quick": QUICK, "strong": tuple(REGRESSORS), "all": tuple(REGRESSORS)}


def regressors_for(attackers: Any) -> dict[str, Regressor]:
    """Who reads numbers, where these attackers were asked for: those of the same name, and regressors among them.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso
    >>> list(regressors_for(["logistic", Lasso()])), list(regressors_for("trees"))
    (['ridge', 'Lasso'], ['trees', 'median trees'])
    """
    if isinstance(attackers, str) and attackers in PRESETS:
        return {name: REGRESSORS[name] for name in PRESETS[attackers]}
    if isinstance(attackers, Mapping) and set(attackers) == {"counting"}:
        return dict(COUNTING)
    given = [attackers] if isinstance(attackers, str) else list(attackers)
    found: dict[str, Regressor] = {}
    for attacker in given:
        if isinstance(attacker, str):
            found |= {name: REGRESSORS[name] for name in ALIKE.get(attacker, ())}
        elif _guesses_numbers(attacker):
            found[type(attacker).__name__] = lambda shape, seed, a=attacker: clone(a)  # type: ignore[misc]
    return found or {name: REGRESSORS[name] for name in QUICK}


def only_classifiers(attackers: Any) -> Any:
    """The same without regressors and their names, which read numbers alone."""
    if isinstance(attackers, str):
        return "logistic" if attackers == "ridge" else attackers
    kept = [a for a in attackers if not (a == "ridge" if isinstance(a, str) else _guesses_numbers(a))]
    if not kept and not list(attackers):
        raise InputError("no attacker was given; pass a preset such as 'quick', or a list of names")
    return kept or ["logistic", "trees"]


def _guesses_numbers(attacker: Any) -> bool:
    """Whether it is one of scikit-learn's regressors; whatever has no tags is none."""
    try:
        return bool(is_regressor(attacker))
    except AttributeError:
        return False
