"""Attackers: classifiers trained afresh on released data. Any scikit-learn classifier can join.

An attacker's entry is given the shape of the data, the number of classes and a seed, and returns a classifier
with ``fit`` and ``predict_proba``. Adding one is a function and a line in `ATTACKERS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from tacit.auditing.ensemble import Ensemble
from tacit.auditing.lookup import Lookup
from tacit.auditing.perceptrons import Perceptron
from tacit.auditing.probes import QUICK, STRONG, Probing
from tacit.auditing.shaped_attackers import SHAPED
from tacit.auditing.weighing import softmax_link
from tacit.cores import threads
from tacit.errors import InputError, TacitWarning, installed
from tacit.training.trees import boosted_trees

Shape = tuple[int, int]
Attacker = Callable[[Shape, int, int], Any]  # (shape of the data, n_classes, seed) -> classifier
EXACT_KERNEL_ROWS = 10_000
TELLING = 8  # columns whose products and differences are read
WIDTHS = (1.0, 2.5)  # of the kernel: gamma times the number of columns


def _neighbors(shape: Shape, n_classes: int, seed: int) -> Any:
    # with many classes a vote of many neighbors drowns the small ones
    many = np.sqrt(shape[0]) / 2 if n_classes <= 4 else shape[0] / n_classes / 20
    return KNeighborsClassifier(n_neighbors=int(np.clip(many, 3, 50)), weights="distance")


def _forest(shape: Shape, n_classes: int, seed: int) -> Any:
    # leaves of one row know more of many classes, and only noise of few
    leaf = 3 if n_classes <= 4 else 1
    return ExtraTreesClassifier(200, min_samples_leaf=leaf, random_state=seed, n_jobs=threads())


def _rbf(shape: Shape, n_classes: int, seed: int) -> Any:
    if shape[0] <= EXACT_KERNEL_ROWS:
        return KernelMachine(seed)
    return make_pipeline(
        Nystroem(gamma=1 / shape[1], n_components=400, random_state=seed), LogisticRegression(C=10, max_iter=200)
    )


class KernelMachine:
    """An RBF support vector machine: its width is chosen, and its margins turned into probabilities, on held rows."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> KernelMachine:
        self.classes_ = np.unique(y)
        held = np.random.default_rng(self.seed).random(len(y)) < 0.2
        if any(np.unique(y[part]).size < len(self.classes_) for part in (held, ~held)):
            held = np.zeros(len(y), dtype=bool)  # too few rows to hold any back
        judge = held if held.any() else ~held
        machines = [SVC(C=3.0, gamma=g / X.shape[1], cache_size=500).fit(X[~held], y[~held]) for g in WIDTHS]
        links = [softmax_link(self._margins(m, X[judge]), np.searchsorted(self.classes_, y[judge])) for m in machines]
        (self.slope, self.offsets, _), self.machine = min(
            zip(links, machines, strict=True), key=lambda pair: pair[0][2]
        )
        if held.any():
            self.machine = clone(self.machine).fit(X, y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return softmax(self.slope * self._margins(self.machine, X) + self.offsets, axis=1)

    def _margins(self, machine: SVC, X: np.ndarray) -> np.ndarray:
        margins = machine.decision_function(X)
        return np.column_stack([-margins, margins]) / 2 if margins.ndim == 1 else margins


class Counting:
    """Counts which class each distinct release had: the best attacker on a finite release."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Counting:
        self.classes_ = np.unique(y)
        table: dict[bytes, np.ndarray] = {}
        for row, c in zip(np.ascontiguousarray(X), np.searchsorted(self.classes_, y), strict=True):
            table.setdefault(row.tobytes(), np.zeros(len(self.classes_)))[c] += 1
        self.prior = np.bincount(np.searchsorted(self.classes_, y)) / len(y)
        self.table = {key: (n + self.prior) / (n.sum() + 1) for key, n in table.items()}
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.array([self.table.get(row.tobytes(), self.prior) for row in np.ascontiguousarray(X)])


class PairTrees:
    """Boosted trees that also read products and differences of the columns that told most at first."""

    def __init__(self, seed: int, rounds: int = 200) -> None:
        self.seed, self.rounds = seed, rounds

    def fit(self, X: np.ndarray, y: np.ndarray) -> PairTrees:
        n_classes = len(np.unique(y))
        first = boosted_trees(X.shape, n_classes, self.seed, 40).fit(X, y)
        told = getattr(first, "feature_importances_", X.std(axis=0))
        best = np.argsort(-told, kind="stable")[:TELLING]
        self.pairs = np.array(list(combinations(best, 2)), dtype=int).reshape(-1, 2)
        table = self._table(X)
        self.model = boosted_trees(table.shape, n_classes, self.seed, self.rounds).fit(table, y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.model.predict_proba(self._table(X))
        return found

    def _table(self, X: np.ndarray) -> np.ndarray:
        one, two = X[:, self.pairs[:, 0]], X[:, self.pairs[:, 1]]
        return np.column_stack([X, one * two, one - two])


ATTACKERS: dict[str, Attacker] = {
    "logistic": lambda shape, m, seed: LogisticRegression(max_iter=300),
    "trees": lambda shape, m, seed: boosted_trees(shape, m, seed, rounds=100),
    "mlp": lambda shape, m, seed: Perceptron(seed),
    "neighbors": _neighbors,
    "rbf": _rbf,
    "forest": _forest,
    "ensemble": lambda shape, m, seed: Ensemble(seed),
    "pairs": lambda shape, m, seed: PairTrees(seed),
    "lookup": lambda shape, m, seed: Lookup(),
    "probing": lambda shape, m, seed: Probing(STRONG, m, seed),
}
# whoever is clearly behind those before it is stopped on its way
STRONGEST_FIRST = (
    "trees", "pairs", "probing", "ensemble", "mlp", "rbf", "forest", "neighbors", "logistic", "lookup",
)  # fmt: skip
PRESETS: dict[str, dict[str, Attacker]] = {
    "quick": {
        **{name: ATTACKERS[name] for name in ("trees", "mlp", "logistic", "neighbors", "lookup")},
        "probing": lambda shape, m, seed: Probing(QUICK, m, seed, abstain=True),
    },
    "strong": {
        **{name: ATTACKERS[name] for name in STRONGEST_FIRST},
        "trees": lambda shape, m, seed: boosted_trees(shape, m, seed, rounds=250),
        "mlp": lambda shape, m, seed: Perceptron(seed, width=128, epochs=50),
        "probing": lambda shape, m, seed: Probing(STRONG, m, seed, abstain=True),
    },
}
PRESETS["all"] = PRESETS["strong"]  # also on releases of a few cells, where counting is the best there is


def resolve(attackers: str | Sequence[Any]) -> dict[str, Attacker | None]:
    """A preset's name, or a list of attackers' names and scikit-learn classifiers -> attackers by name.

    Attackers that need to know a record's shape (`SHAPED`) have None: the suite makes them.
    """
    names = [*ATTACKERS, *SHAPED]
    if isinstance(attackers, str):
        if attackers in PRESETS:
            return _runnable(PRESETS[attackers], attackers)
        if attackers not in names:
            known = ", ".join([*PRESETS, *names])
            raise InputError(
                f"no attackers are called {attackers!r}; the names are {known}, or pass a list of classifiers"
            )
        attackers = (attackers,)
    found: dict[str, Attacker | None] = {}
    for attacker in attackers:
        if isinstance(attacker, str):
            if attacker not in names:
                raise InputError(f"no attacker is called {attacker!r}; the names are {', '.join(names)}")
            found[attacker] = ATTACKERS.get(attacker)
        elif hasattr(attacker, "predict_proba"):
            name = type(attacker).__name__
            name = next(n for n in (name, *(f"{name}-{i}" for i in range(2, 100))) if n not in found)
            found[name] = lambda n, m, seed, a=attacker: clone(a)  # type: ignore[misc]
        else:
            raise InputError(f"{attacker!r} cannot attack: it has no predict_proba; wrap it in CalibratedClassifierCV")
    return found


def _runnable(preset: dict[str, Attacker], name: str) -> dict[str, Attacker | None]:
    """A preset without the one attacker that is a network of torch, where torch is not installed."""
    if "ensemble" not in preset or installed("torch"):
        return dict(preset)
    told = f"the attackers {name!r} are one fewer here: an ensemble of networks needs torch; pip install 'tacit[train]'"
    warnings.warn(told, TacitWarning, stacklevel=3)
    return {n: a for n, a in preset.items() if n != "ensemble"}
