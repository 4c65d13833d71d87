"""Linkability: can two releases be told to be of the same person, by somebody who has never seen that person?

A score of pairs is learned on the people of `attack`, chosen on some of them, and measured on the people of `test`:
pairs of one person against pairs of two. What is paired are two records of one person, one of the earlier and one of
the later half of their records; or two releases of one record (`views=`); or the two halves of a row's columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from tacit.auditing.pair_scores import LIKE_SIDES, UNLIKE_SIDES, Learner, Pairs, Score, Side
from tacit.auditing.received import plain, plain_frame, received_pair, receiver_cells
from tacit.auditing.shaped_attackers import spectral_features
from tacit.auditing.trial import Trial, released_parts, stack_rows, take_rows
from tacit.auditing.verification import Verified, verify
from tacit.errors import InputError
from tacit.records.encoding import make_encoder
from tacit.report.results import Linkability

MIN_PEOPLE = 6  # of either part
MAX_PEOPLE, MAX_RECORDS = 3000, 8000  # of either part
LEARN, TEST = (3000, 6000), (6000, 40_000)  # pairs of one person, and of two
SEVERAL, TOGETHER = 5, (2000, 40)  # records of either side to be read together; pairs of two people, and of records
FOLDS, FEW_PEOPLE = 3, 60  # of people who judge scores
WIDE = 48  # columns; more are read by their principal components
MAX_VALUES = 4000  # of a record that is read without being asked for: that takes seconds
NOTHING = "there is nothing to link. Name whose the records are (units=), or another release (views=)"
TWO_RECORDS, TWO_RELEASES, TWO_HALVES = "two records of one person", "two releases of one record", "two halves of a row"

Table = Any  # as a receiver has it


@dataclass(frozen=True)
class Paired:
    """What is paired, of both parts: tables for either side, and by person where their records stand in them."""

    kind: str
    left: Sequence[Table]
    right: Sequence[Table]
    people: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]

    @property
    def alike(self) -> bool:
        """Whether both sides have the same columns."""
        names = [list(plain_frame(side[0]).columns) for side in (self.left, self.right)]
        return self.kind != TWO_HALVES and names[0] == names[1]


def measure_linkability(trial: Trial) -> Linkability | None:
    """The linkability of a trial's release; None where it is not wanted, or where there is nothing to pair."""
    wanted = trial.asked.linkability
    wide = max(int(np.prod(np.shape(Z)[1:])) for Z in (trial.Z[0], trial.attack.X))
    if wanted is False or (wanted is None and wide > MAX_VALUES):
        return None
    paired = pair_up(trial)
    if isinstance(paired, str):
        if wanted:
            raise InputError(f"linkability=True, but {paired}")
        return None
    if wanted is None and paired.kind == TWO_HALVES and not isinstance(trial.Z[0], pd.DataFrame):
        return None  # numbers without names are one thing, a code: nobody hands out halves of it
    level, seed = trial.asked.level, trial.asked.seed
    by, found, several = link(paired, level, seed)
    raw: list[Verified | None] = [None, None]
    if trial.release is not None and paired.kind != TWO_RELEASES:
        beside = pair_up(trial.showing([d.X for d in trial.data]))
        if not isinstance(beside, str):
            raw = list(link(beside, level, seed)[1:])
    more = (v._asdict() if v else {} for v in (raw[0], several, raw[1]))
    return Linkability(paired.kind, by, *found, len(paired.people[1]), *more)


def pair_up(trial: Trial) -> Paired | str:
    """What can be paired in this trial; or why nothing can."""
    rng = np.random.default_rng(trial.asked.seed)
    units, fine = person_units(trial)
    if trial.asked.views:
        other = received_pair(*released_parts(trial.asked.views[0], trial.data))
        return _enough(Paired(TWO_RELEASES, trial.frames, [*map(plain_frame, other)], _one_each(units, rng)))
    people = [_earlier_and_later(u, f, rng) for u, f in zip(units, fine, strict=True)]
    if all(len(p) >= MIN_PEOPLE for p in people):
        return Paired(TWO_RECORDS, trial.Z, trial.Z, people)
    if np.ndim(trial.Z[0]) != 2 or np.shape(trial.Z[0])[1] < 2:
        return f"people have one record each, of one column: {NOTHING}"
    halves = [[f.iloc[:, start::2] for f in trial.frames] for start in (0, 1)]
    if trial.cells is not None and all(
        len(f.drop_duplicates()) == trial.cells.max() + 1 for f in map(pd.concat, halves)
    ):
        return f"people have one record each, whose columns say one thing, a code: {NOTHING}"
    return _enough(Paired(TWO_HALVES, halves[0], halves[1], _one_each(units, rng)))


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


def link(paired: Paired, level: float = 0.95, seed: int = 0) -> tuple[str, Verified, Verified | None]:
    """The score chosen on people of `attack`, how well it tells pairs of `test`, and how well many records together.

    Of many records of either side, the scores of some pairs of them are averaged.
    """
    rng = np.random.default_rng(seed)
    sides, (attack, test) = _read(paired)
    learners = LIKE_SIDES if paired.alike else UNLIKE_SIDES
    chosen = _choose(learners, sides[0], attack, seed)
    score = _learned(learners[chosen], sides[0], draw_pairs(attack, *LEARN, rng), seed)
    assert score is not None  # it was learned before, from fewer people
    asked = draw_pairs(test, *TEST, rng)
    found, several = verify(_scored(score, sides[1], asked), *asked.who, level, seed), None
    if np.median([min(len(a), len(b)) for a, b in test]) >= SEVERAL:
        asked = draw_pairs(test, len(test), TOGETHER[0], rng, TOGETHER[1])
        mean = _scored(score, sides[1], asked).reshape(-1, TOGETHER[1]).mean(axis=1)
        several = verify(mean, asked.who[0][:: TOGETHER[1]], asked.who[1][:: TOGETHER[1]], level, seed)
    return chosen, found, several


def _choose(
    learners: Mapping[str, Learner], sides: Sequence[Side], people: Sequence[tuple[np.ndarray, np.ndarray]], seed: int
) -> str:
    """The score that tells best on people it was not learned from; of few people all take their turn as judges."""
    rng = np.random.default_rng(seed)
    turn = rng.permutation(len(people)) % FOLDS
    worth: dict[str, float] = dict.fromkeys(learners, 0.0)
    for fold in range(FOLDS if len(people) < FEW_PEOPLE else 1):
        rest, held = ([p for p, t in zip(people, turn, strict=True) if (t == fold) == side] for side in (False, True))
        learn, judged = draw_pairs(rest, *LEARN, rng), draw_pairs(held, *LEARN, rng)
        for name, learner in learners.items():
            if (score := _learned(learner, sides, learn, seed)) is None:
                worth[name] = -1.0
                continue
            seen = verify(_scored(score, sides, judged), *judged.who, draws=0)
            worth[name] += seen.auc.value + (seen.tpr_at_1.value if seen.tpr_at_1 else 0)
    return max(worth, key=lambda name: worth[name])


def draw_pairs(
    people: Sequence[tuple[np.ndarray, np.ndarray]], same: int, other: int, rng: np.random.Generator, times: int = 1
) -> Pairs:
    """Pairs of one person, as many of each, and pairs of two people drawn at random; records drawn at random.

    With `times` every pair of people comes so often, one after the other, each time with records drawn anew.
    """
    n = len(people)
    one = np.repeat(np.arange(n), max(1, same // n))
    left, away = rng.integers(n, size=other), rng.integers(1, n, size=other)
    both = np.concatenate([one, left]), np.concatenate([one, (left + away) % n])
    who = np.repeat(both[0], times), np.repeat(both[1], times)
    at = []
    for k in (0, 1):
        size = np.array([len(p[k]) for p in people])
        every, start = np.concatenate([p[k] for p in people]), np.cumsum(size) - size
        at.append(every[start[who[k]] + (rng.random(len(who[k])) * size[who[k]]).astype(int)])
    return Pairs((at[0], at[1]), who)


def _learned(learner: Learner, sides: Sequence[Side], pairs: Pairs, seed: int) -> Score | None:
    return learner(sides[0][pairs.at[0]], sides[1][pairs.at[1]], pairs, seed)


def _scored(score: Score, sides: Sequence[Side], pairs: Pairs) -> np.ndarray:
    return score(sides[0][pairs.at[0]], sides[1][pairs.at[1]])


def _enough(paired: Paired) -> Paired | str:
    few = min(map(len, paired.people))
    return paired if few >= MIN_PEOPLE else f"there are {few} people in a part; linking needs {MIN_PEOPLE}"


def _one_each(units: Sequence[np.ndarray], rng: np.random.Generator) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """One record of each person, on both sides."""
    some = [rng.permutation(np.unique(u, return_index=True)[1])[:MAX_PEOPLE, None] for u in units]
    return [[(row, row) for row in rows] for rows in some]


def _earlier_and_later(
    units: np.ndarray, fine: np.ndarray, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """By person who has two records, those of the earlier half and those of the later one; a recording is not cut."""
    codes = pd.factorize(units)[0]
    bouts = pd.factorize(fine)[0]
    rows = pd.Series(np.arange(len(codes))).groupby(codes).indices
    kept = [rows[u] for u in rng.permutation(len(rows)) if len(rows[u]) > 1][:MAX_PEOPLE]
    most, out = max(1, MAX_RECORDS // (2 * max(len(kept), 1))), []
    for own in kept:
        place = pd.factorize(bouts[own])[0]
        place = place if place.max() else np.arange(len(own))
        early = place < (place.max() + 1) // 2
        out.append((rng.permutation(own[early])[:most], rng.permutation(own[~early])[:most]))
    return out


def _read(paired: Paired) -> tuple[list[list[Side]], list[list[tuple[np.ndarray, np.ndarray]]]]:
    """By part and side what an attacker reads there, by readers of the first part; and where people stand in it."""
    rows = [[np.unique(np.concatenate([p[k] for p in people])) for k in (0, 1)] for people in paired.people]
    tables = [[take_rows(side[p], rows[p][k]) for k, side in enumerate((paired.left, paired.right))] for p in (0, 1)]
    if paired.alike:
        read = read_sides([t for part in tables for t in part], 2)
    else:
        both = [read_sides([part[k] for part in tables], 1) for k in (0, 1)]
        read = [both[k][p] for p in (0, 1) for k in (0, 1)]
    place = [
        [(np.searchsorted(r[0], a), np.searchsorted(r[1], b)) for a, b in people]
        for r, people in zip(rows, paired.people, strict=True)
    ]
    return [read[:2], read[2:]], place


def read_sides(tables: Sequence[Table], n_learn: int) -> list[Side]:
    """Tables of the same columns as an attacker reads them, who learns from the first ones how."""
    ends = np.cumsum([len(t) for t in tables])
    whole = stack_rows(list(tables))
    n = int(ends[n_learn - 1])
    numbers = _numbers(whole, n)
    cells = receiver_cells(*(plain_frame(take_rows(whole, r)) for r in (np.arange(n), np.arange(n, len(whole)))))
    kinds = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
    cells = cells[:, _screened(cells[:n])]
    rarity = np.empty(cells.shape)
    for i, column in enumerate(cells.T):
        rarity[:, i] = np.log2((n + 1) / (np.bincount(column[:n], minlength=int(column.max()) + 1) + 1)[column])
    read = Side(numbers, cells, rarity, kinds, np.arange(len(kinds)), int(kinds.max()) + 1)
    return [read[np.arange(start, end)] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _numbers(whole: Table, n: int) -> np.ndarray:
    """Standardized numbers; of windows what does not depend on where they begin; of many their principal components."""
    if np.ndim(whole) == 3 and not isinstance(whole, pd.DataFrame):
        whole = np.concatenate([spectral_features(np.asarray(whole)), _cadence(np.asarray(whole))], axis=1)
    learn = take_rows(whole, np.arange(n))
    numbers = make_encoder(plain(learn)).transform(plain(whole)).reshape(len(whole), -1)
    if numbers.shape[1] <= WIDE:
        return numbers
    return PCA(WIDE, whiten=True, random_state=0).fit(numbers[:n]).transform(numbers)


def _cadence(windows: np.ndarray) -> np.ndarray:
    """The autocorrelation of each channel, up to half a window."""
    length = windows.shape[-1]
    power = np.abs(np.fft.rfft(windows - windows.mean(-1, keepdims=True), 2 * length, axis=-1)) ** 2
    moved = np.fft.irfft(power, axis=-1)[..., : length // 2]
    return (moved / np.maximum(moved[..., :1], 1e-9)).reshape(len(windows), -1)


def _screened(cells: np.ndarray) -> np.ndarray:
    """Columns whose equality can tell anything: those that vary, the ones with fewest values first."""
    kinds = np.array([len(np.unique(c)) for c in cells.T])
    varied = np.flatnonzero(kinds > 1)
    return varied[np.argsort(kinds[varied], kind="stable")][:WIDE]
