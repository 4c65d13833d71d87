"""Leakage per subgroup: a mean over everybody hides the people it is worst for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.bench import Outcome
from tacit.audit.released import plain_frame
from tacit.audit.stats import Measure, balanced_accuracy
from tacit.errors import InputError
from tacit.records.dataset import Dataset

MOST_CLASSES = 12  # columns with more make groups too small to read
FEWEST_ROWS = 40
FEWEST_A_CLASS = 10
MINIMUM_UNITS = 10  # fewer people would make a group that points at them
MAXIMUM_SCANNED = 30  # columns of a table by which people are grouped when nobody says which
MAXIMUM_VALUES = 50  # of a scanned column of words


def subgroups(outcome: Outcome, test: Dataset, columns: Sequence[str], level: float) -> dict[str, Measure]:
    """The chosen attacker's balanced accuracy within each group, most exposed first.

    Groups are the classes of every other label column and of the raw columns named; where none is named, of every
    column of a table that has few. Intervals are widened for the number of groups shown, so that the worst one can be
    read off.
    """
    c = outcome.contest
    guess = (outcome.best / outcome.prior).argmax(1)
    found = []
    for column, values in _columns(test, columns or _everyday(test.X)).items():
        if column == c.attribute:
            continue
        here = values.iloc[c.rows].reset_index(drop=True)
        for group in pd.unique(here.dropna()):
            rows = (here == group).to_numpy()
            counts = np.bincount(c.yt[rows], minlength=c.n_classes)
            units = rows.sum() if c.ut is None else len(np.unique(c.ut[rows]))
            enough = rows.sum() >= FEWEST_ROWS and np.sum(counts >= FEWEST_A_CLASS) >= 2 and units >= MINIMUM_UNITS
            if enough and not rows.all():
                found.append((group if isinstance(group, Range) else f"{column} = {group}", rows))
    wide = 1 - (1 - level) / max(1, len(found))
    measured = {
        name: balanced_accuracy(c.yt[rows], guess[rows], c.n_classes, None if c.ut is None else c.ut[rows], wide)
        for name, rows in found
    }
    return dict(sorted(measured.items(), key=lambda item: item[1].guessing - item[1].value))


def _columns(test: Dataset, named: Sequence[str]) -> dict[str, pd.Series]:
    """Label columns of few classes, and the raw columns asked for (numbers as quarters)."""
    labels = {**dict(test.y.items()), **dict(test.sensitive.items())}
    out = {str(n): v.reset_index(drop=True) for n, v in labels.items() if 2 <= v.nunique() <= MOST_CLASSES}
    raw = plain_frame(test.X) if named else None
    for name in named:
        if raw is None or name not in raw:
            raise InputError(f"groups names {name!r}, which is no column of X")
        values = raw[name]
        if pd.api.types.is_numeric_dtype(values) and values.nunique() > MOST_CLASSES:
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
    if not isinstance(X, pd.DataFrame) or len(X.columns) > MAXIMUM_SCANNED:
        return []
    return [str(c) for c in X.columns if pd.api.types.is_numeric_dtype(X[c]) or X[c].nunique() <= MAXIMUM_VALUES]
