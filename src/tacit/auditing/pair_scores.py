"""Scores of pairs of releases: the larger, the likelier they are of one person. Learned on people, used on others.

Two sides with the same columns are compared cell by cell (differences, equality, how rare what is equal is). Of any two
sides there are the canonical variables (a Gaussian likelihood ratio) and, for few distinct releases, a count of pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tacit.training.trees import boosted_trees

ROUNDS = 60
FEW_CELLS = 400  # pairs of distinct releases that are counted
MAX_MODELS, MAX_CLASSES = 12, 12  # columns of which each has a model, and their values
RIDGE = 0.1  # of the variance of canonical variables, added where people are few


@dataclass(frozen=True)
class Side:
    """Releases as an attacker reads them.

    Attributes
    ----------
    numbers : (n, d) standardized
    cells : (n, c) a number for each distinct value of a column
    rarity : (n, c) the bits by which each value is rare among those learned from
    whole : (n,) a number for each distinct release
    row : (n,) where the record stands: one record stands in many pairs
    kinds : how many distinct releases there are
    """

    numbers: np.ndarray
    cells: np.ndarray
    rarity: np.ndarray
    whole: np.ndarray
    row: np.ndarray
    kinds: int

    def __getitem__(self, rows: np.ndarray | slice) -> Side:
        parts = (self.numbers[rows], self.cells[rows], self.rarity[rows], self.whole[rows], self.row[rows])
        return Side(*parts, self.kinds)


@dataclass(frozen=True)
class Pairs:
    """Pairs of records: where they stand on either side, and whose they are."""

    at: tuple[np.ndarray, np.ndarray]
    who: tuple[np.ndarray, np.ndarray]

    @property
    def same(self) -> np.ndarray:
        """Whether a pair is of one person."""
        return self.who[0] == self.who[1]


Score = Callable[[Side, Side], np.ndarray]  # of pairs, row by row
Learner = Callable[[Side, Side, Pairs, int], "Score | None"]


def compared(a: Side, b: Side) -> np.ndarray:
    """What two sides with the same columns have in common, and how they differ."""
    equal = a.cells == b.cells
    rare = np.where(equal, a.rarity, 0.0)
    gap = np.abs(a.numbers - b.numbers)
    blocks = [gap, a.numbers * b.numbers, equal, rare] if gap.shape[1] <= 2 * a.cells.shape[1] else [gap, equal, rare]
    sums = [equal.sum(1), rare.sum(1), rare.max(1, initial=0), np.linalg.norm(gap, axis=1), gap.max(1, initial=0)]
    return np.column_stack([*blocks, *sums]).astype(float)


def beside(a: Side, b: Side) -> np.ndarray:
    """Sides of different columns."""
    return np.column_stack([a.numbers, b.numbers])


def learned(make: Callable[[tuple[int, int], int], Any], read: Callable[[Side, Side], np.ndarray]) -> Learner:
    """A classifier of pairs as a score."""

    def learn(a: Side, b: Side, pairs: Pairs, seed: int) -> Score:
        X, same = read(a, b), pairs.same
        weight = np.where(same, 1 / max(same.sum(), 1), 1 / max((~same).sum(), 1)) * len(same) / 2
        model = make(X.shape, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
            last = {} if not hasattr(model, "steps") else {f"{model.steps[-1][0]}__sample_weight": weight}
            model.fit(X, same, **(last or {"sample_weight": weight}))

        def score(a: Side, b: Side) -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p: np.ndarray = model.predict_proba(read(a, b))[:, 1]
            return np.log(np.maximum(p, 1e-9) / np.maximum(1 - p, 1e-9))

        return score

    return learn


def count_pairs(a: Side, b: Side, pairs: Pairs, seed: int) -> Score | None:
    """How much more often a pair of distinct releases is of one person than by chance; None where there are many."""
    k, same = (a.kinds, b.kinds), pairs.same
    if k[0] * k[1] > FEW_CELLS:
        return None
    seen, chance = (
        np.bincount(a.whole[side] * k[1] + b.whole[side], minlength=k[0] * k[1]) / max(side.sum(), 1)
        for side in (same, ~same)
    )
    doubt = 1 / len(np.unique(pairs.who[0][same]))  # one person more or less: pairs of a person are one observation
    ratio = np.log((seen + doubt) / (chance + doubt)).reshape(k)
    return lambda a, b: ratio[a.whole, b.whole]


def likelihood(a: Side, b: Side, pairs: Pairs, seed: int) -> Score | None:
    """How likely each column of the one side is given the other side, against how common it is, weighed together.

    One half of the people teaches the models of the columns, the other how much to trust each.
    """
    same, first = pairs.same, pairs.who[0] % 2 == 0
    told = [_told(x[same & first], y[same & first]) for x, y in ((a, b), (b, a))]

    def read(a: Side, b: Side) -> np.ndarray:
        return np.column_stack([told[0](a, b), told[1](b, a)])

    if not read(a[:1], b[:1]).size:
        return None
    held = ~first & (same | (pairs.who[1] % 2 == 1))
    both = Pairs((pairs.at[0][held], pairs.at[1][held]), (pairs.who[0][held], pairs.who[1][held]))
    return learned(_logistic, read)(a[held], b[held], both, seed)


def _told(x: Side, y: Side) -> Score:
    """(n, columns) the log of how much likelier the value of each column of `y` is, given `x`."""
    seen, asked = Coarse(x), Coarse(y)
    X, models = seen.indicators(x), {}
    for k, label in enumerate(asked.read(y)):
        classes, codes = np.unique(label, return_inverse=True)
        if len(classes) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # near enough
                model = LogisticRegression(C=0.3, max_iter=60).fit(X, codes)
            models[k] = model, classes, np.bincount(codes) / len(codes)

    def score(x: Side, y: Side) -> np.ndarray:
        _, first, back = np.unique(x.row, return_index=True, return_inverse=True)  # a record stands in many pairs
        X, labels, out = seen.indicators(x[first]), asked.read(y), np.zeros((len(y.row), len(models)))
        for i, (k, (model, classes, share)) in enumerate(models.items()):
            ratio = np.log(np.maximum(model.predict_proba(X), 1e-4) / share)
            out[:, i] = ratio[back.ravel(), np.searchsorted(classes, labels[k]).clip(max=len(classes) - 1)]
        return out

    return score


class Coarse:
    """Columns at few classes: the most frequent values and the others; numbers of many values also by sixths."""

    def __init__(self, side: Side) -> None:
        self.cuts = {}
        for k, x in enumerate(side.numbers.T):
            if len(np.unique(x)) > 2 * MAX_CLASSES:
                self.cuts[k] = np.quantile(x, np.arange(1, 6) / 6)
        self.values = []
        for column in side.cells.T[:MAX_MODELS]:
            values, counts = np.unique(column, return_counts=True)
            self.values.append(np.sort(values[np.argsort(-counts)[: MAX_CLASSES - 1]]))

    def read(self, side: Side) -> list[np.ndarray]:
        """The class of every record, column by column."""
        out = [np.searchsorted(cut, side.numbers[:, k]) for k, cut in self.cuts.items()]
        for k, values in enumerate(self.values):
            at = np.searchsorted(values, side.cells[:, k]).clip(max=len(values) - 1)
            out.append(np.where(values[at] == side.cells[:, k], at, len(values)))
        return out

    def indicators(self, side: Side) -> np.ndarray:
        """The numbers, and for those of many values whether they lie in each sixth."""
        sixths = [np.searchsorted(cut, side.numbers[:, k])[:, None] == np.arange(6) for k, cut in self.cuts.items()]
        return np.column_stack([side.numbers, *sixths])


def canonical(n_variables: int) -> Learner:
    """The Gaussian likelihood ratio of one person against two, in the canonical variables of pairs of one person."""

    def learn(a: Side, b: Side, pairs: Pairs, seed: int) -> Score:
        sides, same = [a.numbers, b.numbers], pairs.same
        middle = [x.mean(0) for x in sides]
        ridge = min(RIDGE, a.numbers.shape[1] / len(np.unique(pairs.who[0])))
        whiten = [_whitening(x - m, ridge) for x, m in zip(sides, middle, strict=True)]

        def standard(x: np.ndarray, i: int) -> np.ndarray:
            return (x - middle[i]) @ whiten[i]

        u, rho, v = np.linalg.svd(standard(sides[0][same], 0).T @ standard(sides[1][same], 1) / max(same.sum(), 1))
        k = min(n_variables, len(rho))
        r = np.clip(rho[:k], 0, 0.99)

        def score(a: Side, b: Side) -> np.ndarray:
            p, q = standard(a.numbers, 0) @ u[:, :k], standard(b.numbers, 1) @ v[:k].T
            told: np.ndarray = ((2 * r * p * q - r**2 * (p**2 + q**2)) / (2 * (1 - r**2))).sum(1)
            return told

        return score

    return learn


def common_values(a: Side, b: Side, pairs: Pairs, seed: int) -> Score:
    """The bits of all that is equal, learned from nobody."""
    return lambda a, b: np.where(a.cells == b.cells, a.rarity, 0.0).sum(1)


def near(a: Side, b: Side, pairs: Pairs, seed: int) -> Score:
    """How near they are, learned from nobody."""
    return lambda a, b: -np.linalg.norm(a.numbers - b.numbers, axis=1)


def _whitening(x: np.ndarray, ridge: float) -> np.ndarray:
    """What makes columns uncorrelated, of like variance; those that hardly vary are left small."""
    values, vectors = np.linalg.eigh(np.cov(x.T).reshape(x.shape[1], -1))
    made: np.ndarray = vectors / np.sqrt(np.maximum(values, 0) + ridge * max(values.mean(), 1e-12))
    return made


def _trees(shape: tuple[int, int], seed: int) -> Any:
    return boosted_trees(shape, 2, seed, ROUNDS)


def _logistic(shape: tuple[int, int], seed: int) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))


ANY_SIDES: dict[str, Learner] = {
    "counted pairs": count_pairs,
    "canonical variables (2)": canonical(2),
    "canonical variables (8)": canonical(8),
    "canonical variables (all)": canonical(1000),
}
LIKE_SIDES: dict[str, Learner] = {
    "common values": common_values,
    "distance": near,
    **ANY_SIDES,
    "trees": learned(_trees, compared),
    "logistic": learned(_logistic, compared),
}
UNLIKE_SIDES: dict[str, Learner] = {**ANY_SIDES, "trees": learned(_trees, beside), "likelihood": likelihood}
