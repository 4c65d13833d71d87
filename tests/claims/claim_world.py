"""Worlds whose truth is known, and how often a claim about them is violated.

A world draws the records of one data set, has the library make its claim, and gives (bound, truth). It is run many
times; the claim may fail in a share delta of the runs. To add one, append a `World` to a list of a `claim_*.py` module
that `test_claims.py` reads. A *control* is a world whose bound is made naively, in the test: it must be violated.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binom

Run = Callable[[np.random.Generator], tuple[float, float]]
ROUNDING = 1e-9


@dataclass(frozen=True)
class World:
    """One claim in one known world.

    Attributes
    ----------
    name : says the world; also the seed
    section : of issue 9 (A to F), or the kind of claim
    run : draws one data set; gives the claimed upper bound and the truth
    delta : share of runs in which the claim may fail
    runs, slow : how often it is run, and whether only by make test-all
    """

    name: str
    section: str
    run: Run = field(repr=False)
    delta: float = 0.05
    runs: int = 300
    slow: bool = False


def violations(world: World) -> int:
    """In how many of its runs the truth lies above the claim; the same in every session."""
    rng = np.random.default_rng(zlib.crc32(world.name.encode()))
    return sum(bound < truth - ROUNDING for bound, truth in (world.run(rng) for _ in range(world.runs)))


def chance(world: World, violated: int) -> float:
    """Probability of at least so many violations when each run fails with probability delta, independently."""
    return float(binom.sf(violated - 1, world.runs, world.delta))


# -- records of independent draws, and of units of several kinds ------------------------------------


def best_attacker(law: np.ndarray) -> float:
    """Balanced accuracy of the best attacker on the (classes, cells) laws."""
    return float(law.max(axis=0).sum() / len(law))


def draw_cells(law: np.ndarray, counts: Sequence[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cells and classes of independent records, so many of each class."""
    secret = np.repeat(np.arange(len(law)), counts)
    return pick(law[secret], rng), secret


def pick(law: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw from each row of probabilities."""
    upper = law.cumsum(axis=1)
    drawn = (rng.random((len(law), 1)) * upper[:, -1:] >= upper).sum(axis=1)
    return np.minimum(drawn, law.shape[1] - 1)


@dataclass(frozen=True)
class Kind:
    """A kind of unit: how common, how large, and the law of (class, cell) of one of its records.

    `alike` says what the records of a unit share: "nothing", their "class", or "all" (they are equal).
    `sizes` are equally likely and independent of everything else within the kind.
    """

    share: float
    sizes: Sequence[int]
    law: np.ndarray
    alike: str = "class"


def draw_units(
    kinds: Sequence[Kind], n_units: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells, classes and units of the records of independent units."""
    kind = rng.choice(len(kinds), n_units, p=[k.share for k in kinds])
    size = np.zeros(n_units, dtype=int)
    for t, of_kind in enumerate(kinds):
        size[kind == t] = rng.choice(of_kind.sizes, int((kind == t).sum()))
    unit = np.repeat(np.arange(n_units), size)
    k = kinds[0].law.shape[1]
    flat = np.array([t.law.ravel() for t in kinds])
    one, each = pick(flat[kind], rng), pick(flat[kind[unit]], rng)  # (class, cell) of a unit, of a record
    alike = np.array([("nothing", "class", "all").index(t.alike) for t in kinds])[kind[unit]]
    secret = np.where(alike == 0, each // k, one[unit] // k)
    given = np.array([t.law for t in kinds])[kind[unit], secret]  # cells given the class
    cells = np.where(alike == 2, one[unit] % k, np.where(alike == 1, pick(given, rng), each % k))
    return cells, secret, unit


def truth_of(kinds: Sequence[Kind], per: str = "unit") -> tuple[float, float]:
    """Balanced and plain accuracy of the best attacker on one record of the average unit, or the average record."""
    weight = [k.share * (float(np.mean(k.sizes)) if per == "record" else 1.0) for k in kinds]
    joint = sum(w * k.law for w, k in zip(weight, kinds, strict=True)) / sum(weight)
    return best_attacker(joint / joint.sum(axis=1, keepdims=True)), float(joint.max(axis=0).sum())


def response(k: int, keep: float) -> np.ndarray:
    """Randomised response: the code stays with probability `keep`, else any other symbol."""
    return np.full((k, k), (1 - keep) / (k - 1)) + np.eye(k) * (keep - (1 - keep) / (k - 1))


def two_cells(read: float, prior: Sequence[float] = (0.5, 0.5)) -> np.ndarray:
    """Law of (class, cell): the cell names the class with probability `read`."""
    return np.diag(prior) @ np.array([[read, 1 - read], [1 - read, read]])


def pareto(shape: float, largest: int) -> list[int]:
    """Sizes at 1,000 even quantiles of a Pareto law, at least 1, cut off at the largest."""
    quantile = (np.arange(1000) + 0.5) / 1000
    return np.minimum((1 - quantile) ** (-1 / shape), largest).astype(int).tolist()
