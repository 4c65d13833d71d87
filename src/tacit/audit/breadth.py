"""Breadth: how much of every column, asked for or not, can still be told from a release.

For each column of the raw table a model learns it from the release and is measured on other rows. 0: the release tells
as little as guessing. 1: it tells the column as the raw table does, which holds it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tacit.audit.received import plain
from tacit.records.encoding import make_encoder
from tacit.records.finite import learn_values
from tacit.records.people import Crowd
from tacit.training.trees import boosted_trees

CLASSES = 6  # that a column is read at: numbers by quantiles, words by the most frequent and the rest
MAXIMUM_ROWS = 5_000
ROUNDS = 40


@dataclass(frozen=True)
class Breadth:
    """By column, the share of it that a release still tells.

    Attributes
    ----------
    columns : from 0 (guessing) to 1 (as in the raw table)
    """

    columns: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Over all columns."""
        return float(np.mean(list(self.columns.values()))) if self.columns else 0.0


def breadth(released: tuple[pd.DataFrame, ...], raw: tuple[pd.DataFrame, ...], random_state: int = 0) -> Breadth:
    """How much of each raw column a release tells: of two parts, one to learn from and one to measure on.

    A column is read as one of few classes. What is told is the share of the errors of guessing that are gone, and the
    raw table, which holds the column itself, has none left. Columns of one class, or of words that are all rare, say
    nothing and are not counted.

    Parameters
    ----------
    released : the releases of both parts, as tables
    raw : the raw tables of the same rows
    random_state : same seed, same models and rows

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> raw = [pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y"], 300)}) for _ in range(2)]
    >>> told = breadth(tuple(d[["b"]] for d in raw), tuple(raw)).columns
    >>> told["b"], told["a"] < 0.2
    (1.0, True)
    """
    rows = [_some(len(d), random_state) for d in raw]
    Z = [plain(z).iloc[r] for z, r in zip(released, rows, strict=True)]
    encoder = make_encoder(Z[0].reset_index(drop=True))
    known, asked = (encoder.transform(z.reset_index(drop=True)) for z in Z)
    told = {}
    for name in raw[0].columns:
        values = learn_values(str(name), raw[0][name], CLASSES, Crowd(len(raw[0])))
        if isinstance(values, str) or len(values) < 2:
            continue
        a, b = (values.codes(d[name].iloc[r].reset_index(drop=True)) for d, r in zip(raw, rows, strict=True))
        told[str(name)] = _told(known[a >= 0], a[a >= 0], asked[b >= 0], b[b >= 0], random_state)
    return Breadth(told)


def _told(X: np.ndarray, y: np.ndarray, Xt: np.ndarray, yt: np.ndarray, seed: int) -> float:
    """The share of guessing's errors that are gone, classes weighing alike."""
    classes = np.unique(y)
    here = np.isin(yt, classes)
    if len(classes) < 2 or not here.any():
        return 0.0
    weight = 1 / np.bincount(y, minlength=classes.max() + 1)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
        trees = boosted_trees(X.shape, len(classes), seed, ROUNDS).fit(X, y, sample_weight=weight * len(y))
        answer = trees.predict(Xt[here])
    right = np.mean([(answer[yt[here] == c] == c).mean() for c in np.unique(yt[here])])
    guessing = 1 / len(np.unique(yt[here]))
    return float(np.clip((right - guessing) / max(1 - guessing, 1e-12), 0, 1))


def _some(n: int, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).permutation(n)[:MAXIMUM_ROWS])
