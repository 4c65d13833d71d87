"""Linkability: can an attacker recognise that two releases are of one person, whom it has never seen?

One classifier of pairs learns from the people of `attack` and is tested on the people of `test`: pairs of one person
against pairs of two. A pair is a record of the earlier half of a person's records and one of the later half; or two
releases of one record (`views=`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain, plain_frame, received_pair, receiver_cells
from tacit.auditing.shaped_attackers import spectral_features
from tacit.auditing.stats import NEARLY, Measure, binomial_interval, size_for_t
from tacit.auditing.trial import Trial, released_parts, stack_rows, take_rows
from tacit.errors import InputError
from tacit.records.encoding import make_encoder
from tacit.report.findings import Finding
from tacit.training.trees import boosted_trees

MIN_PEOPLE = 6  # of either part
MAX_PEOPLE, MAX_RECORDS = 3000, 8000  # of either part
LEARN, TEST = (3000, 6000), (6000, 40_000)  # pairs of one person, and of two
ROUNDS = 60  # of trees
WIDE = 48  # columns; more are read by their principal components
MAX_VALUES = 4000  # of a record that is read without being asked for: that takes seconds
DRAWS = 200  # of people, for the intervals
RATE = 0.01  # of false positives
LINKED = "share linked at 1 % false positives"
TWO_RECORDS, TWO_RELEASES = "two records of one person", "two releases of one record"


@dataclass(frozen=True)
class Part:
    """Two tables of the same people, and by row the number of its person, from 0 on and sorted."""

    tables: tuple[Any, Any]
    who: tuple[np.ndarray, np.ndarray]

    @property
    def n_people(self) -> int:
        """How many people the tables are of."""
        return len(np.unique(self.who[0]))


@dataclass(frozen=True)
class Features:
    """Records as the classifier reads them: numbers, codes of equal values, and the bits by which each is rare."""

    numbers: np.ndarray
    cells: np.ndarray
    rarity: np.ndarray

    def __getitem__(self, rows: np.ndarray | slice) -> Features:
        return Features(self.numbers[rows], self.cells[rows], self.rarity[rows])


def _takes_seconds(trial: Trial) -> bool:
    """Whether records are small enough, and enough people are in both parts."""
    wide = max(int(np.prod(np.shape(Z)[1:])) for Z in (trial.Z[0], trial.attack.X))
    return wide <= MAX_VALUES and _fewest(pair_up(trial)) >= MIN_PEOPLE


@measurement("linkability", auto=_takes_seconds, place=220)
def linkability(trial: Trial, context: Context | None = None) -> list[Finding]:
    """Link two records of one person, or two releases of one record (with ``views=``).

    Raw records are measured next to the release where they say something.
    """
    parts = pair_up(trial)
    if (few := _fewest(parts)) < MIN_PEOPLE:
        raise InputError(
            f"linkability was named, but a part has {few} people with two records, and {MIN_PEOPLE} are needed. "
            f"Name the person of each record (units=), or another release of the same records (views=)"
        )
    level, seed = trial.settings.level, trial.settings.seed
    pair = TWO_RELEASES if trial.settings.views else TWO_RECORDS
    findings = _findings(pair, *link(parts, level, seed))
    if trial.release is not None and not trial.settings.views:
        raw = link(pair_up(trial.showing([d.X for d in trial.data])), level, seed)
        findings += _findings(f"{pair}, raw", *raw)
    return findings


def _findings(pair: str, auc: Measure, linked: Measure | None) -> list[Finding]:
    """The share of pairs that is linked comes first: limits are held against it."""
    by = "boosted trees of pairs"
    if linked is None:
        first = Finding("linkability", pair, RATE, 0.0, 1.0, RATE, "too few people to say", LINKED)
    else:
        first = Finding("linkability", pair, *linked, by, LINKED)
    return [first, Finding("linkability", pair, *auc, by, "AUC")]


def _fewest(parts: Sequence[Part]) -> int:
    """The number of people in the smaller part."""
    return min(part.n_people for part in parts)


def pair_up(trial: Trial) -> list[Part]:
    """What is paired, in both parts."""
    rng = np.random.default_rng(trial.settings.seed)
    units, fine = person_units(trial)
    if not trial.settings.views:
        return [_earlier_and_later(*part, rng) for part in zip(trial.Z, units, fine, strict=True)]
    parts = []
    for table, other, u in zip(
        trial.frames, received_pair(*released_parts(trial.settings.views[0], trial.data)), units, strict=True
    ):
        rows = rng.permutation(np.unique(u, return_index=True)[1])[:MAX_PEOPLE]
        parts.append(Part((take_rows(table, rows), take_rows(plain_frame(other), rows)), (np.arange(len(rows)),) * 2))
    return parts


def person_units(trial: Trial) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of both parts the coarsest units that do not stand in both, and the finest; without units every record is one."""
    if any(d.units is None for d in trial.data):
        each = [np.arange(len(d)) for d in trial.data]
        return each, each
    by = {k: [d.units[k] for d in trial.data] for k in trial.attack.units}
    sizes = {k: len(np.unique(u[1])) for k, u in by.items()}
    apart = [k for k, u in by.items() if not len(np.intersect1d(*u))] or list(by)
    coarse, fine = min(apart, key=lambda k: sizes[k]), max(by, key=lambda k: sizes[k])
    return by[coarse], by[fine]


def link(parts: Sequence[Part], level: float = 0.95, seed: int = 0) -> tuple[Measure, Measure | None]:
    """How well a classifier that learned from pairs of the first part tells the pairs of the second: see `verify`."""
    rng = np.random.default_rng(seed)
    (rows, people), (drawn, tested) = draw_pairs(parts[0], *LEARN, rng), draw_pairs(parts[1], *TEST, rng)
    learn, test = read(parts)
    features = compare if alike(parts[0]) else _beside
    X, same = features(learn[0][rows[0]], learn[1][rows[1]]), people[0] == people[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
        model = boosted_trees(X.shape, 2, seed, ROUNDS)
        model.fit(X, same, sample_weight=np.where(same, len(same) / same.sum(), len(same) / (~same).sum()))
        score = model.predict_proba(features(test[0][drawn[0]], test[1][drawn[1]]))[:, 1]
    return verify(score, tested[0], tested[1], level, seed)


def draw_pairs(
    part: Part, same: int, other: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pairs of one person, as many of each, and pairs of two people: by side the rows, and the people.

    People of pairs of two, and records of people, are drawn at random.
    """
    n = part.n_people
    one = np.repeat(np.arange(n), max(1, same // n))
    left, away = rng.integers(n, size=other), rng.integers(1, n, size=other)
    people = [np.concatenate([one, left]), np.concatenate([one, (left + away) % n])]
    rows = []
    for who, of in zip(part.who, people, strict=True):
        first, end = (np.searchsorted(who, of, side) for side in ("left", "right"))
        rows.append(first + (rng.random(len(of)) * (end - first)).astype(int))
    return rows, people


def alike(part: Part) -> bool:
    """Whether both sides have the same columns."""
    left, right = (list(plain_frame(table).columns) for table in part.tables)
    return left == right


def read(parts: Sequence[Part]) -> list[list[Features]]:
    """By part and side what the classifier reads; sides with the same columns are read in the same way."""
    if alike(parts[0]):
        both = _read([table for part in parts for table in part.tables], 2)
        return [both[:2], both[2:]]
    left, right = (_read([part.tables[side] for part in parts], 1) for side in (0, 1))
    return [[left[p], right[p]] for p in (0, 1)]


def _read(tables: Sequence[Any], n_learn: int) -> list[Features]:
    """Tables of the same columns, by readers that are fitted on the first ones."""
    ends, whole = np.cumsum([len(t) for t in tables]), stack_rows(list(tables))
    n = int(ends[n_learn - 1])
    cells = receiver_cells(*(plain_frame(take_rows(whole, r)) for r in (np.arange(n), np.arange(n, len(whole)))))
    kinds = np.array([len(np.unique(c)) for c in cells[:n].T])
    varied = np.flatnonzero(kinds > 1)
    cells = cells[:, varied[np.argsort(kinds[varied], kind="stable")][:WIDE]]  # those with few values can be equal
    rarity = np.empty(cells.shape)
    for i, column in enumerate(cells.T):
        rarity[:, i] = np.log2((n + 1) / (np.bincount(column[:n], minlength=int(column.max()) + 1) + 1)[column])
    found = Features(_numbers(whole, n), cells, rarity)
    return [found[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _numbers(whole: Any, n: int) -> np.ndarray:
    """Standardized numbers; of windows their spectra; of many columns their principal components."""
    if np.ndim(whole) == 3 and not isinstance(whole, pd.DataFrame):
        whole = spectral_features(np.asarray(whole))
    numbers = make_encoder(plain(take_rows(whole, np.arange(n)))).transform(plain(whole)).reshape(len(whole), -1)
    if numbers.shape[1] <= WIDE:
        return numbers
    return PCA(min(WIDE, n - 1), whiten=True, random_state=0).fit(numbers[:n]).transform(numbers)


def compare(a: Features, b: Features) -> np.ndarray:
    """Of each pair of records how they differ, what is equal in both and how rare that is."""
    equal = a.cells == b.cells
    rare, gap = np.where(equal, a.rarity, 0.0), np.abs(a.numbers - b.numbers)
    sums = [equal.sum(1), rare.sum(1), rare.max(1, initial=0), np.linalg.norm(gap, axis=1)]
    return np.column_stack([gap, a.numbers * b.numbers, equal, rare, *sums]).astype(float)


def _beside(a: Features, b: Features) -> np.ndarray:
    """Records of different columns."""
    return np.column_stack([a.numbers, b.numbers])


def verify(
    score: np.ndarray, left: np.ndarray, right: np.ndarray, level: float = 0.95, seed: int = 0
) -> tuple[Measure, Measure | None]:
    """AUC of a score of pairs, and the true positives at 1 % false positives, with intervals by person.

    Every pair touches one or two people, so people are drawn again, not pairs: a pair of persons i and j weighs as
    often as i times as often as j were drawn. The spread over such draws says how many independent trials a figure is
    worth, and the interval is exact-binomial at that number.

    Parameters
    ----------
    score : (n,) of each pair, larger for pairs of one person
    left, right : (n,) whose the two sides are, from 0 on; a pair is of one person where they are equal
    level : at which both figures hold together

    Returns
    -------
    both measures; the second is None where there are fewer pairs of people than one false positive needs

    Examples
    --------
    >>> left, right = (x.ravel() for x in np.indices((40, 40)))
    >>> auc, linked = verify((left == right).astype(float), left, right)
    >>> auc.value, linked.value
    (1.0, 1.0)
    """
    n, people = len(np.unique(left[left == right])), np.unique(np.concatenate([left, right]))
    rank = np.unique(-score, return_inverse=True)[1].ravel()
    drawn = np.zeros((DRAWS + 1, int(people.max()) + 1))
    drawn[0, people] = 1
    shares = np.full(len(people), 1 / len(people))
    drawn[1:, people] = np.random.default_rng(seed).multinomial(len(people), shares, DRAWS)
    found = np.array([_figures(rank, left, right, weight) for weight in drawn])
    each = 1 - (1 - level) / 2
    auc, linked = (
        _measure(value, spread, n, guessing, each)
        for value, spread, guessing in zip(found[0].tolist(), found[1:].var(axis=0), (0.5, RATE), strict=True)
    )
    return auc, linked if n * (n - 1) >= 1 / RATE else None


def _figures(rank: np.ndarray, left: np.ndarray, right: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Of pairs by the rank of their score, people weighing so much. Between tied scores the curve is a line."""
    same = left == right
    pairs = np.where(same, weight[left], weight[left] * weight[right])
    curves = []
    for side in (~same, same):
        counted = np.bincount(rank[side], pairs[side], int(rank.max()) + 1)
        curves.append(np.concatenate([[0.0], np.cumsum(counted) / max(counted.sum(), 1e-12)]))
    false, true = curves
    after = int(np.searchsorted(false, RATE, side="right"))  # of a step straight up, its upper end
    share = (RATE - false[after - 1]) / (false[after] - false[after - 1])
    return float(np.trapezoid(true, false)), float(true[after - 1] + share * (true[after] - true[after - 1]))


def _measure(value: float, spread: float, n: int, guessing: float, level: float) -> Measure:
    """With the interval of so many trials as the spread is worth; near all or nothing, at most one for each person."""
    near = float(np.clip(value, RATE, 1 - RATE))  # a rate of 0 whose draws vary is worth some trials, not none
    size = near * (1 - near) / spread if spread > 0 else float(n)
    size = min(size, float(n)) if min(value, 1 - value) < NEARLY else size
    return Measure(value, *binomial_interval(value, max(size * size_for_t(n, level), 1e-3), level), guessing)


def _earlier_and_later(table: Any, units: np.ndarray, fine: np.ndarray, rng: np.random.Generator) -> Part:
    """Of people who have two records, those of the earlier half and those of the later one; a recording is not cut."""
    bouts = pd.factorize(fine)[0]
    rows = pd.Series(np.arange(len(units))).groupby(pd.factorize(units)[0]).indices
    kept = [rows[u] for u in rng.permutation(len(rows)) if len(rows[u]) > 1][:MAX_PEOPLE]
    most = max(1, MAX_RECORDS // (2 * max(len(kept), 1)))
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for own in kept:
        place = pd.factorize(bouts[own])[0]
        place = place if place.max() else np.arange(len(own))
        early = place < (place.max() + 1) // 2
        for side, half in zip(sides, (own[early], own[~early]), strict=True):
            side.append(rng.permutation(half)[:most])
    at = [np.concatenate([*side, []]).astype(int) for side in sides]
    who = [np.repeat(np.arange(len(kept)), [len(half) for half in side]) for side in sides]
    return Part((take_rows(table, at[0]), take_rows(table, at[1])), (who[0], who[1]))
