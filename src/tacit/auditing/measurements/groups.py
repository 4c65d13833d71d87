"""Attacks by who holds several releases of the same unit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.suite import AttackSuite, measures
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.report.findings import Finding
from tacit.report.results import AnyResult, Result

MIN_UNITS = 30  # a class, for a pooled figure that is more than a range


@measurement("groups", needs="groups", place=20)
def groups(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack several releases of one group of rows, such as a person's: two side by side, and many pooled."""
    knows = "two releases of the same unit, side by side"
    context.attacked("joined", knows, attack_pairs(trial, context.suite))
    for m in trial.settings.pooled:
        context.attacked(f"pooled, {m}", f"{m} releases of the same unit", _pooled(trial, m, context.suite.seed))
    return []


def _pooled(trial: Trial, m: int, seed: int) -> dict[str, AnyResult]:
    """Infer from m releases of the same group: the sum of the chosen attacker's log-probabilities."""
    results: dict[str, AnyResult] = {}
    for outcome in trial.outcomes:
        t = outcome.task
        if not _constant_within(t.yt, t.ut):
            continue
        truth, p = _pool(t.yt, np.log(np.maximum(outcome.best, 1e-6)), t.ut, outcome.prior, m, seed)
        if len(truth) == 0 or len(truth) == len(t.yt):
            continue
        few = np.bincount(truth)[np.unique(truth)].min() < MIN_UNITS
        results[t.attribute] = Result(
            t.attribute,
            "balanced_accuracy",
            f"{outcome.chosen}, {m} pooled" + (" (few units: read the range)" if few else ""),
            **measures(truth, p, outcome.prior, None, trial.level),  # type: ignore[arg-type]
            n=len(truth),
            n_units=len(truth),
        )
    return results


def attack_pairs(trial: Trial, suite: AttackSuite) -> dict[str, AnyResult]:
    """Infer from two records of one group, read by one classifier: side by side, their differences, what is equal.

    For labels that are constant within a group; nothing where no label's groups have two records in both parts.
    """
    results: dict[str, AnyResult] = {}
    for i, column in enumerate(trial.attack.sensitive.columns):
        if trial.labels["sensitive"].number(i) is not None:
            continue  # of classes: two records of a number are a number's
        units: list[Any] = [d.units_of(column) for d in trial.data]
        codes = trial.codes("sensitive", i)
        pairs = [_pairs(u, c, suite.seed) for u, c in zip(units, codes, strict=True)]
        if any(len(p) < 2 for p in pairs):
            continue
        tables = [_compared(f, p) for f, p in zip(trial.frames, pairs, strict=True)]
        joined = trial.take(*(p[:, 0] for p in pairs)).showing(tables)
        try:
            results[column] = suite.measure_one(joined, "sensitive", i)
        except InputError:
            continue  # too few units with two records to say anything
    return results


def _pool(
    truth: np.ndarray, logs: np.ndarray, units: np.ndarray, prior: np.ndarray, m: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Units with at least m records: their class, and the probabilities after m random records each."""
    rng = np.random.default_rng(seed)
    kept, sums = [], []
    for u in np.unique(units):
        rows = np.flatnonzero(units == u)
        if len(rows) >= m:
            some = rng.permutation(rows)[:m]
            # the prior counts once, not m times
            total = logs[some].sum(axis=0) - (m - 1) * np.log(prior)
            kept.append(truth[rows[0]])
            sums.append(np.exp(total - total.max()))
    if not kept:
        return np.empty(0, dtype=np.int64), np.empty((0, logs.shape[1]))
    p = np.array(sums)
    return np.array(kept), p / p.sum(axis=1, keepdims=True)


def _pairs(units: np.ndarray, codes: np.ndarray, seed: int) -> np.ndarray:
    """(n, 2) two records of each unit that has two, in the file's order; none where a label varies within units."""
    known = codes >= 0
    if not known.any() or not _constant_within(codes[known], units[known]):
        return np.empty((0, 2), dtype=int)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    place = pd.Series(units[order]).groupby(units[order]).cumcount().to_numpy()
    chosen = np.sort(order[place < 2])
    chosen = chosen[np.lexsort((chosen, pd.factorize(units[chosen])[0]))]
    single = pd.Series(units[chosen]).groupby(units[chosen]).transform("size").to_numpy() < 2
    return chosen[~single].reshape(-1, 2)


def _compared(frame: pd.DataFrame, pairs: np.ndarray) -> pd.DataFrame:
    """Two records side by side, with differences of numbers and equality of everything."""
    one, two = (frame.iloc[pairs[:, k]].reset_index(drop=True) for k in (0, 1))
    out = pd.concat([one.add_prefix("first "), two.add_prefix("second ")], axis=1)
    more = {}
    for c in one.columns:
        same = one[c].to_numpy() == two[c].to_numpy()
        more[f"equal {c}"] = same.astype(float)
        if pd.api.types.is_numeric_dtype(one[c]) and pd.api.types.is_numeric_dtype(two[c]):
            more[f"difference {c}"] = one[c].to_numpy(float) - two[c].to_numpy(float)
    return pd.concat([out, pd.DataFrame(more)], axis=1)


def _constant_within(truth: np.ndarray, units: np.ndarray) -> bool:
    pairs = np.unique(np.column_stack([np.unique(units, return_inverse=True)[1].ravel(), truth]), axis=0)
    return len(pairs) == len(np.unique(units)) < len(units)
