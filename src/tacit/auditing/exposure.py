"""What a mean over everybody hides: the people an attacker can name, and the groups it is worst for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as sps

from tacit.auditing.measures import mean_measure
from tacit.auditing.received import plain_frame
from tacit.auditing.stats import Measure, balanced_accuracy, binomial_interval, effective_size
from tacit.auditing.suite import NAMING, Outcome
from tacit.errors import InputError
from tacit.records.dataset import Dataset
from tacit.report.results import Exposure

SURE = 0.9  # what "named" means: the answer is right at least this often, all classes being equally common
# Error of each of the two ends that decide about a threshold: together they are as strict as an exact lower end of 80 %
# (16 of 16 right will do). More would hide a leak of 1 %; what is named is counted afresh on test rows anyway.
DOUBT = 0.25
ALIKE = 4.0  # classes are about equally common up to this factor
MAX_CLASSES = 12  # columns with more make groups too small to read
MIN_ROWS = 40
MIN_A_CLASS = 10
MIN_UNITS = 10  # fewer people would make a group that points at them
MAX_SCANNED = 30  # columns of a table by which people are grouped when nobody says which
MAX_VALUES = 50  # of a scanned column of words
Validation = tuple[np.ndarray, np.ndarray]  # an attacker's probabilities on rows it did not learn from, and the truth


def exposure(outcome: Outcome, level: float, groups: Mapping[str, Measure] | None = None) -> Exposure:
    """The share of people an attacker names with 90 % confidence, with its interval.

    Confidence is the posterior when all classes are equally common, so that nobody is "named" by the frequency of
    a class. What an attacker calls 90 % is not believed: on validation rows of the attackers' own part the score is
    found from which answers are right at least 90 % of the time (the lower end of it, classes weighing alike), and the
    test people above that score are counted where the answer is right. Where no score qualifies nobody is named, and
    the upper end of that 0 is the share that could have hidden among so few validation rows.

    Parameters
    ----------
    outcome : of `AttackSuite.run`
    level : confidence of the intervals
    groups : accuracy within subgroups, of which the most exposed is kept

    Examples
    --------
    >>> import tacit
    >>> from tacit.auditing.suite import AttackSuite
    >>> from tacit.auditing.trial import Trial
    >>> _, attack, test = tacit.load_dataset("quadrants", n=2000).split()
    >>> [task] = Trial.of(None, attack, test).tasks("sensitive")
    >>> exposure(AttackSuite("trees").run(task), 0.95).named.value > 0.5
    True
    """
    t, prior = outcome.task, outcome.prior
    told = validations(outcome)
    best, attacker, limits = 0.0, outcome.chosen, np.full(t.n_classes, np.inf)
    for name, (p, truth) in told.items():
        share, found = _limits(*_scores(p, prior), truth, t.n_classes)
        if share > best:
            best, attacker, limits = share, name, found
    group, within = most_exposed(groups or {})
    if not best:
        rows = max((len(truth) for _, truth in told.values()), default=0)
        units = len(t.ya) if t.ua is None else len(np.unique(t.ua))
        high = _could_hide(rows * units / len(t.ya), level)
        empty = mean_measure(np.zeros(len(t.yt)), 0.0, t.ut, level, most=len(t.yt))
        return Exposure(Measure(0.0, 0.0, max(high, empty.high), 0.0), None, attacker, group, within)
    answer, score = _scores(outcome.probabilities[attacker], prior)
    sure = score >= limits[answer]
    right = answer == t.yt
    named = mean_measure((sure & right).astype(float), 0.0, t.ut, level, most=len(t.yt))
    precision = _precision(right, sure, t.yt, t.ut, t.n_classes, level)
    return Exposure(named, precision, attacker, group, within)


def validations(outcome: Outcome) -> dict[str, Validation]:
    """Attackers' probabilities on validation rows: the chosen one's, and those of the one that names best."""
    if outcome.validation is None:
        return {}
    name = naming(outcome.held)
    more = {} if name is None else {name: (outcome.held[name], outcome.validation[1])}
    return {outcome.chosen: outcome.validation, **more}


def naming(names: Collection[str]) -> str | None:
    """Which of these attackers names best."""
    return next((n for n in NAMING if n in names), None)


def most_exposed(groups: Mapping[str, Measure]) -> tuple[str | None, Measure | None]:
    """The group that is surely furthest above guessing: by the lower end, so that a small group needs more."""
    if not groups:
        return None, None
    return max(groups.items(), key=lambda item: item[1].low - item[1].guessing)


def _scores(p: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The answer to every row and its posterior, had all classes been equally common."""
    equal = p / prior
    equal = equal / np.maximum(equal.sum(1, keepdims=True), 1e-300)
    answer = equal.argmax(1)
    return answer, np.take_along_axis(equal, answer[:, None], 1)[:, 0]


def _limits(answer: np.ndarray, score: np.ndarray, truth: np.ndarray, n_classes: int) -> tuple[float, np.ndarray]:
    """The share of the rows that is named (classes weighing alike), and by answered class the score it takes.

    Either each answer has its own score, for a leak that names one class only would drown among over-confident answers
    of others; or classes about equally common share one, for each of many classes has few rows. (A rare class would
    lend its credit to a common one: its few rows weigh so much.) The one that names more is taken.
    """
    weight = _weights(truth, n_classes)
    right = answer == truth
    best = 0.0, np.full(n_classes, np.inf)
    for family in (np.arange(n_classes), _alike(np.bincount(truth, minlength=n_classes))):
        limits, total = np.full(n_classes, np.inf), 0.0
        for kin in np.unique(family[answer]):
            rows = family[answer] == kin
            others = weight if np.count_nonzero(family == kin) > 1 else weight[family[truth] != kin]
            share, limit = _lowest(score, right, weight, rows, float(others.max(initial=0.0)))
            limits[family == kin], total = limit, total + share
        best = max(best, (total, limits), key=lambda found: found[0])
    return best


def _alike(counts: np.ndarray) -> np.ndarray:
    """A number for every class, equal for classes about equally common."""
    family, first, number = np.zeros(len(counts), dtype=int), counts.max(), 0
    for c in np.argsort(-counts):
        if counts[c] * ALIKE < first:
            first, number = counts[c], number + 1
        family[c] = number
    return family


def _lowest(
    score: np.ndarray, right: np.ndarray, weight: np.ndarray, rows: np.ndarray, largest: float
) -> tuple[float, float]:
    """The share that is named by the highest scores, and the lowest of these.

    Everybody named is to be a sure case, not only their average: the scores end where a further answer is right less
    often than SURE, which is where hits less misses, nine to one, are most. What lies above must be right at least
    SURE of the time by the lower end, or nobody is named.
    """
    order = np.flatnonzero(rows)[np.argsort(-score[rows], kind="stable")]
    w, r, ordered = weight[order], right[order].astype(float), score[order]
    hits, hits2, misses, misses2 = (np.cumsum(x) for x in (w * r, w**2 * r, w * (1 - r), w**2 * (1 - r)))
    last = np.append(ordered[1:] < ordered[:-1], True)[: len(order)]  # equal scores stand or fall together
    at = np.flatnonzero(last & (hits > 0))
    if not len(at):
        return 0.0, np.inf
    # ends of two weighted Poisson counts (Fay and Feuer): one more miss might come from the rarest class
    low = sps.gamma.ppf(DOUBT, hits[at] ** 2 / hits2[at]) * hits2[at] / hits[at]
    more, more2 = misses[at] + largest, misses2[at] + largest**2
    high = sps.gamma.ppf(1 - DOUBT, more**2 / more2) * more2 / more if largest else np.zeros(len(at))
    sure = at[low >= SURE * (low + high)]
    if not len(sure):
        return 0.0, np.inf
    end = sure[np.argmax((1 - SURE) * hits[sure] - SURE * misses[sure])]
    return float(hits[end]), float(ordered[end])


def _weights(truth: np.ndarray, n_classes: int) -> np.ndarray:
    """Of every row, so that each class present weighs the same and all add to 1."""
    counts = np.bincount(truth, minlength=n_classes)
    weights: np.ndarray = 1 / (counts[truth] * np.count_nonzero(counts))
    return weights


def _precision(
    right: np.ndarray, sure: np.ndarray, truth: np.ndarray, units: np.ndarray | None, n_classes: int, level: float
) -> Measure | None:
    """How often sure answers were right, classes weighing alike."""
    if not sure.any():
        return None
    w = _weights(truth, n_classes)[sure]
    w = w / w.sum()
    value = min(1.0, float(w @ right[sure]))
    who = np.flatnonzero(sure) if units is None else units[sure]
    size = min(effective_size(value, w * (right[sure] - value), who, float(1 / (w**2).sum()), level))
    return Measure(value, *binomial_interval(value, size, level), 1 / n_classes)


def minimum_named() -> int:
    """How many validation rows must be named, all of them rightly, before anybody is."""
    count = 1
    while sps.gamma.ppf(DOUBT, count) < SURE / (1 - SURE) * sps.gamma.ppf(1 - DOUBT, 1):
        count += 1
    return count


def _could_hide(rows: float, level: float) -> float:
    """Upper end of the share that is named for sure and still too small to be noticed among so many rows."""
    count = minimum_named()
    return 1.0 if rows <= count else binomial_interval((count - 1) / rows, rows, level)[1]


def subgroups(outcome: Outcome, test: Dataset, columns: Sequence[str], level: float) -> dict[str, Measure]:
    """The chosen attacker's balanced accuracy within each group, most exposed first.

    Groups are the classes of every other label column and of the raw columns named; where none is named, of every
    column of a table that has few. Intervals are widened for the number of groups shown, so that the worst one can be
    read off.
    """
    t = outcome.task
    guess = outcome.balanced
    found = []
    for column, values in _columns(test, columns or _everyday(test.X)).items():
        if column == t.attribute:
            continue
        here = values.iloc[t.rows].reset_index(drop=True)
        for group in pd.unique(here.dropna()):
            rows = (here == group).to_numpy()
            counts = np.bincount(t.yt[rows], minlength=t.n_classes)
            units = rows.sum() if t.ut is None else len(np.unique(t.ut[rows]))
            enough = rows.sum() >= MIN_ROWS and np.sum(counts >= MIN_A_CLASS) >= 2 and units >= MIN_UNITS
            if enough and not rows.all():
                found.append((group if isinstance(group, Range) else f"{column} = {group}", rows))
    wide = 1 - (1 - level) / max(1, len(found))
    measured = {
        name: balanced_accuracy(t.yt[rows], guess[rows], t.n_classes, None if t.ut is None else t.ut[rows], wide)
        for name, rows in found
    }
    return dict(sorted(measured.items(), key=lambda item: item[1].guessing - item[1].value))


def _columns(test: Dataset, named: Sequence[str]) -> dict[str, pd.Series]:
    """Label columns of few classes, and the raw columns asked for (numbers as quarters)."""
    labels = {**dict(test.y.items()), **dict(test.sensitive.items())}
    out = {str(n): v.reset_index(drop=True) for n, v in labels.items() if 2 <= v.nunique() <= MAX_CLASSES}
    raw = plain_frame(test.X) if named else None
    for name in named:
        if raw is None or name not in raw:
            raise InputError(f"groups names {name!r}, which is not a column of X")
        values = raw[name]
        if pd.api.types.is_numeric_dtype(values) and values.nunique() > MAX_CLASSES:
            values = _quarters(str(name), values)
        out[name] = values
    return out


class Range(str):
    """The name of a group that says its column itself: "age over 28 to 37"."""


def _quarters(name: str, values: pd.Series) -> pd.Series:
    """Numbers as four ranges of about as many people; the outer ends, single people's values, are not told."""
    edges = np.unique(values.quantile([0.25, 0.5, 0.75]))
    words = [Range(f"{name} ≤ {edges[0]:.6g}")]
    words += [Range(f"{name} over {low:.6g} to {high:.6g}") for low, high in pairwise(edges)]
    words += [Range(f"{name} over {edges[-1]:.6g}")]
    codes = np.searchsorted(edges, values.to_numpy(dtype=float), side="left")
    return pd.Series([words[k] for k in codes], index=values.index, dtype=object).where(values.notna())


def _everyday(X: Any) -> list[str]:
    """Columns of a table by which people can be grouped without being asked: few, with few words or with numbers."""
    if not isinstance(X, pd.DataFrame) or len(X.columns) > MAX_SCANNED:
        return []
    return [str(c) for c in X.columns if pd.api.types.is_numeric_dtype(X[c]) or X[c].nunique() <= MAX_VALUES]
