"""Singling out: predicates found in a release that pick out exactly one person of the raw table.

A predicate ("job is baker and age is 41") is read off the released row of a person, and kept where it picks out one
person of the release. Where the release has no column of the raw table, models guess the raw columns from it first. The
predicate is then asked of the raw table of the people who were released, and of a control: the raw
table of as many others. A rare predicate picks out one person of any table now and then; what counts is how much
more often it does so among those who were released. Records of one person count as one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as sps

from tacit.auditing.likeness import reconstruction
from tacit.auditing.measurements import Context, measurement
from tacit.auditing.measurements.breadth import ROUNDS, is_table, raw_tables
from tacit.auditing.measurements.linkability import person_units
from tacit.auditing.stats import Measure, binomial_interval
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding
from tacit.training.trees import boosted_trees

MAX_PEOPLE, MAX_GUESSES, TRIES = 4000, 400, 12
MAX_COLUMNS = 60  # of a table in which people are singled out without being asked for: that takes seconds
MAX_GUESSED = 12  # raw columns that are guessed where the release has none of them
COLUMNS = {"one column": 1, "two columns": 2, "three columns": 3, "all columns": 1000}


GAIN, RELEASED, OTHERS = "gain by the release", "share of people released", "share of other people"
Predicate = tuple[Any, Any]  # of a column: the least and the most it may be; a word twice


@dataclass(frozen=True)
class People:
    """A table, and whose its rows are."""

    table: Mapping[str, np.ndarray]
    who: np.ndarray

    def one(self, predicate: Mapping[str, Predicate]) -> bool:
        """Whether exactly one person fits."""
        chosen = np.ones(len(self.who), dtype=bool)
        for name, (low, high) in predicate.items():
            column = self.table[name]
            chosen &= column == low if low is high or low == high else (column >= low) & (column <= high)
        who = self.who[chosen]
        return len(who) > 0 and bool((who == who[0]).all())


@measurement(
    "singling_out",
    needs=is_table,
    auto=lambda trial: np.shape(trial.attack.X)[1] <= MAX_COLUMNS,
    place=210,
)
def singling_out(trial: Trial, context: Context | None = None) -> list[Finding]:
    """Count how often a predicate found in the release picks out exactly one person of the raw table."""
    raw, rng = raw_tables(trial)[0], np.random.default_rng(trial.settings.seed)
    released = raw if trial.release is None else list(trial.frames)
    names = [str(c) for c in raw[0] if c in released[0] and _is_number(raw[0][c]) == _is_number(released[0][c])]
    units = person_units(trial)[0]
    control = np.ones(len(units[0]), dtype=bool)
    if not names:  # then what the release tells of the raw columns, by models that half of the people taught
        control = np.isin(units[0], rng.permutation(np.unique(units[0]))[::2])
        released = guess_columns(trial.encoded, raw, ~control, trial.settings.seed)
        names = [str(c) for c in released[0]]
    raw, released = ([tables[0][control], tables[1]] for tables in (raw, released))
    units = [units[0][control], units[1]]
    n = min(MAX_PEOPLE, *(len(np.unique(u)) for u in units))
    rows = [np.flatnonzero(np.isin(u, rng.permutation(np.unique(u))[:n])) for u in units]
    others, own = (_people(raw[k][names], units[k], rows[k]) for k in (0, 1))
    seen = _people(released[1][names], units[1], rows[1])
    within = {c: _tolerance(released[0][c], raw[0][c]) for c in names}
    return single_out(seen, own, others, within, trial.settings.level, rng)


def guess_columns(
    encoded: Sequence[np.ndarray], raw: Sequence[pd.DataFrame], learn: np.ndarray, seed: int
) -> list[pd.DataFrame]:
    """What models tell of the raw columns from the release, in both parts; they learn from some rows of the first."""
    names = [c for c in list(raw[0])[:MAX_GUESSED] if raw[0][c][learn].nunique() > 1]
    numbers = [c for c in names if _is_number(raw[0][c])]
    Z, n = np.concatenate(encoded), len(raw[0])
    out = {}
    if numbers:
        known = pd.concat([table[numbers] for table in raw]).astype(float)
        truth = known.fillna(known[:n][learn].median()).to_numpy()
        guess = reconstruction(encoded[0][learn], truth[:n][learn], Z, truth, nonlinear=True, seed=seed).guess
        out = dict(zip(numbers, guess.T, strict=True))
    for name in (c for c in names if c not in numbers):
        words, codes = np.unique(_words(raw[0][name][learn]), return_inverse=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM asks for names that arrays do not have
            trees = boosted_trees(encoded[0].shape, len(words), seed, ROUNDS).fit(encoded[0][learn], codes)
            out[name] = words[trees.predict(Z)]
    table = pd.DataFrame(out)
    return [table[:n], table[n:].reset_index(drop=True)]


def single_out(
    released: People,
    own: People,
    others: People,
    within: Mapping[str, float],
    level: float,
    rng: np.random.Generator,
) -> list[Finding]:
    """Predicates of the released table, asked of its own people's raw table and of others'.

    Parameters
    ----------
    released, own, others : tables of the same columns; the first two of the same people
    within : by column, how near to the released value a raw one may lie; infinity: beyond it, away from the middle
    """
    sizes = {kind: min(k, len(within)) for kind, k in COLUMNS.items()}
    kinds = {kind: k for kind, k in sizes.items() if list(sizes.values()).index(k) == list(sizes).index(kind)}
    each, found = 1 - (1 - level) / len(kinds), {}
    for kind, k in kinds.items():
        predicates = _predicates(released, within, k, rng)
        if predicates:
            found[kind] = np.array([[own.one(p), others.one(p)] for p in predicates], float)
    findings = []
    for kind, hits in found.items():
        subject, by = f"predicates of {kind}", f"{len(hits)} predicates"
        findings.append(Finding("singling_out", subject, *_gain(hits[:, 0] - hits[:, 1], each), by, GAIN))
        for side, which in ((0, RELEASED), (1, OTHERS)):
            share = _share(hits[:, side], each)
            findings.append(Finding("singling_out", subject, *share[:3], None, by, which))
    return sorted(findings, key=lambda f: (f.kind != GAIN, -(f.high or 0)))  # the largest gain first: limits hold it


def _predicates(
    released: People, within: Mapping[str, float], k: int, rng: np.random.Generator
) -> list[Mapping[str, Predicate]]:
    """For each of some people one that picks them out of the release, of k columns drawn at random, where one is."""
    names = list(within)
    middle = {c: float(np.nanmedian(released.table[c])) for c in names if within[c] == np.inf}
    out: list[Mapping[str, Predicate]] = []
    for person in rng.permutation(np.unique(released.who))[:MAX_GUESSES]:
        row = rng.choice(np.flatnonzero(released.who == person))
        for _ in range(TRIES if k < len(names) else 1):
            predicate: dict[str, Predicate] = {}
            for c in rng.permutation(names)[:k]:
                value = released.table[c][row]
                if c in middle:
                    predicate[c] = (value, np.inf) if value > middle[c] else (-np.inf, value)
                else:
                    predicate[c] = (value - within[c], value + within[c]) if within[c] else (value, value)
            if released.one(predicate):
                out.append(predicate)
                break
    return out


def _people(table: pd.DataFrame, units: np.ndarray, rows: np.ndarray) -> People:
    """Some rows: numbers as numbers, everything else as words."""
    some = table.iloc[rows]
    columns = {c: v.to_numpy(float, na_value=np.nan) if _is_number(v) else _words(v) for c, v in some.items()}
    return People({str(c): values for c, values in columns.items()}, pd.factorize(units[rows])[0])


def _tolerance(released: pd.Series, raw: pd.Series) -> float:
    """How near nine of ten raw numbers lie to the released ones; infinity where that says little. Words must agree."""
    if not _is_number(raw):
        return 0.0
    gap = np.abs(released.to_numpy(float, na_value=np.nan) - raw.to_numpy(float, na_value=np.nan))
    known = gap[np.isfinite(gap)]
    if not len(known) or np.mean(known == 0) > 0.5:
        return 0.0
    tolerance = float(np.quantile(known, 0.9))
    return tolerance if tolerance < raw.astype(float).std() / 2 else np.inf


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _words(values: pd.Series) -> np.ndarray:
    words: np.ndarray = values.astype(object).where(values.notna(), "missing").astype(str).to_numpy()
    return words


def _share(hits: np.ndarray, level: float) -> Measure:
    value = float(hits.mean())
    return Measure(value, *binomial_interval(value, len(hits), level), 0.0)


def _gain(difference: np.ndarray, level: float) -> Measure:
    """The mean difference; one guess more is taken to have changed either way, so that no change is no certainty."""
    n, value = len(difference), float(difference.mean())
    spread = (float(((difference - value) ** 2).sum()) + 2) / n**2
    half = float(sps.t.ppf((1 + level) / 2, max(1, n - 1)) * np.sqrt(spread))
    return Measure(value, max(-1.0, value - half), min(1.0, value + half), 0.0)
