"""Attackers: classifiers trained afresh on released data. Any scikit-learn classifier can join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from tacit.errors import InputError
from tacit.trees import boosted_trees

Shape = tuple[int, int]
Maker = Callable[[Shape, int, int], Any]  # (shape of the data, n_classes, seed) -> classifier


def _logistic(shape: Shape, n_classes: int, seed: int) -> Any:
    return LogisticRegression(max_iter=300)


def _trees(shape: Shape, n_classes: int, seed: int) -> Any:
    return boosted_trees(shape, n_classes, seed, rounds=100)


def _mlp(shape: Shape, n_classes: int, seed: int) -> Any:
    batch = int(np.clip(shape[0] // 40, 32, 512))
    return MLPClassifier(
        (64, 64),
        batch_size=batch,
        learning_rate_init=2e-3,
        max_iter=30,
        alpha=1e-3,
        tol=1e-5,
        random_state=seed,
    )


def _neighbours(shape: Shape, n_classes: int, seed: int) -> Any:
    return KNeighborsClassifier(n_neighbors=int(np.clip(np.sqrt(shape[0]) / 2, 3, 50)))


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


ATTACKERS: dict[str, Maker] = {
    "logistic": _logistic,
    "trees": _trees,
    "mlp": _mlp,
    "neighbours": _neighbours,
}
PRESETS: dict[str, tuple[str, ...]] = {"quick": ("logistic", "trees", "mlp", "neighbours")}


def resolve(attackers: str | Sequence[Any]) -> dict[str, Maker]:
    """A preset's name, or a list of attackers' names and scikit-learn classifiers -> makers by name."""
    if isinstance(attackers, str):
        if attackers not in PRESETS and attackers not in ATTACKERS:
            known = ", ".join([*PRESETS, *ATTACKERS])
            raise InputError(
                f"no attackers are called {attackers!r}; the names are {known}, or pass a list of classifiers"
            )
        attackers = PRESETS.get(attackers, (attackers,))
    makers: dict[str, Maker] = {}
    for attacker in attackers:
        if isinstance(attacker, str):
            if attacker not in ATTACKERS:
                raise InputError(f"no attacker is called {attacker!r}; the names are {', '.join(ATTACKERS)}")
            makers[attacker] = ATTACKERS[attacker]
        elif hasattr(attacker, "predict_proba"):
            name = type(attacker).__name__
            name = next(n for n in (name, *(f"{name}-{i}" for i in range(2, 100))) if n not in makers)
            makers[name] = lambda n, m, seed, a=attacker: clone(a)  # type: ignore[misc]
        else:
            raise InputError(f"{attacker!r} cannot attack: it has no predict_proba; wrap it in CalibratedClassifierCV")
    return makers
