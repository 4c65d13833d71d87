"""Singling out: predicates found in a release that pick out exactly one person of the raw table.

A predicate ("job is baker and age is 41") is read off the released row of a person, and kept where it picks out one
person of the release. It is then asked of the raw table of the people who were released, and of a control: the raw
table of as many others. A rare predicate picks out one person of any table now and then; what counts is how much
more often it does so among those who were released. Records of one person count as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats as sps

from tacit.audit.breadth import raw_tables
from tacit.audit.linkability import person_units
from tacit.audit.stats import Measure, binomial_interval
from tacit.audit.trial import Trial
from tacit.errors import InputError
from tacit.report.results import SinglingOut

MAX_PEOPLE, MAX_GUESSES, TRIES = 4000, 400, 12
MAX_COLUMNS = 60  # of a table in which people are singled out without being asked for: that takes seconds
COLUMNS = {"one column": 1, "two columns": 2, "three columns": 3, "all columns": 1000}


@dataclass(frozen=True)
class People:
    """A table, and whose its rows are."""

    table: Mapping[str, np.ndarray]
    who: np.ndarray

    def one(self, asked: Mapping[str, tuple[str, object]]) -> bool:
        """Whether exactly one person fits."""
        chosen = np.ones(len(self.who), dtype=bool)
        for name, (form, value) in asked.items():
            column = self.table[name]
            chosen &= column == value if form == "is" else column >= value if form == "at least" else column <= value
        who = self.who[chosen]
        return len(who) > 0 and bool((who == who[0]).all())


def measure_singling_out(trial: Trial) -> SinglingOut | None:
    """How often the release singles people out; None where that is not wanted."""
    wanted, shape = trial.asked.singling_out, np.shape(trial.attack.X)
    if wanted is False or (wanted is None and (len(shape) != 2 or shape[1] > MAX_COLUMNS)):
        return None
    if len(shape) != 2:
        raise InputError(f"singling_out=True asks for a raw table, but a record of X has shape {shape[1:]}")
    raw = raw_tables(trial)[0]
    released = raw if trial.release is None else list(trial.frames)
    names = [str(c) for c in raw[0] if c in released[0] and _is_number(raw[0][c]) == _is_number(released[0][c])]
    if not names:
        return SinglingOut(none="the release has no column of the raw table")
    units = person_units(trial)[0]
    rng = np.random.default_rng(trial.asked.seed)
    n = min(MAX_PEOPLE, *(len(np.unique(u)) for u in units))
    rows = [np.flatnonzero(np.isin(u, rng.permutation(np.unique(u))[:n])) for u in units]
    others, own = (_people(raw[k][names], units[k], rows[k]) for k in (0, 1))
    seen = _people(released[1][names], units[1], rows[1])
    forms = {c: "is" if _as_they_are(released[0][c], raw[0][c]) else "beyond" for c in names}
    return single_out(seen, own, others, forms, trial.asked.level, rng)


def single_out(
    released: People,
    own: People,
    others: People,
    forms: Mapping[str, str],
    level: float,
    rng: np.random.Generator,
) -> SinglingOut:
    """Predicates of the released table, asked of its own people's raw table and of others'.

    Parameters
    ----------
    released, own, others : tables of the same columns; the first two of the same people
    forms : by column, whether its values are named ("is"), or what lies beyond them
    """
    sizes = {kind: min(k, len(forms)) for kind, k in COLUMNS.items()}
    kinds = {kind: k for kind, k in sizes.items() if list(sizes.values()).index(k) == list(sizes).index(kind)}
    each, found = 1 - (1 - level) / len(kinds), {}
    for kind, k in kinds.items():
        asked = _predicates(released, forms, k, rng)
        if asked:
            found[kind] = np.array([[own.one(p), others.one(p)] for p in asked], float)
    if not found:
        return SinglingOut(none="no predicate picks out one person of the release")
    attack, control = ({kind: _share(hits[:, side], each) for kind, hits in found.items()} for side in (0, 1))
    gain = {kind: _gain(hits[:, 0] - hits[:, 1], each) for kind, hits in found.items()}
    guesses = {kind: len(hits) for kind, hits in found.items()}
    return SinglingOut(attack, control, gain, guesses, len(np.unique(own.who)))


def _predicates(
    released: People, forms: Mapping[str, str], k: int, rng: np.random.Generator
) -> list[Mapping[str, tuple[str, object]]]:
    """For each of some people one that picks them out of the release, of k columns drawn at random, where one is."""
    names = list(forms)
    middle = {c: np.nanmedian(released.table[c].astype(float)) for c in names if forms[c] == "beyond"}
    out: list[Mapping[str, tuple[str, object]]] = []
    for person in rng.permutation(np.unique(released.who))[:MAX_GUESSES]:
        row = rng.choice(np.flatnonzero(released.who == person))
        for _ in range(TRIES if k < len(names) else 1):
            asked = {}
            for c in rng.permutation(names)[:k]:
                value = released.table[c][row]
                asked[c] = ("is", value) if c not in middle else (_beyond(value, middle[c]), value)
            if released.one(asked):
                out.append(asked)
                break
    return out


def _beyond(value: float, middle: float) -> str:
    return "at least" if value > middle else "at most"


def _people(table: pd.DataFrame, units: np.ndarray, rows: np.ndarray) -> People:
    """Some rows: numbers as numbers, everything else as words."""
    some = table.iloc[rows]
    columns = {c: v.to_numpy(float, na_value=np.nan) if _is_number(v) else _words(v) for c, v in some.items()}
    return People({str(c): values for c, values in columns.items()}, pd.factorize(units[rows])[0])


def _as_they_are(released: pd.Series, raw: pd.Series) -> bool:
    """Whether most released values are values of the raw column, so that they can be named."""
    return not _is_number(raw) or float(released.isin(raw.dropna().unique()).mean()) > 0.5


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
