"""Signs that records repeat people although nobody said so: figures would then count one person many times."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tacit.records.dataset import Dataset

MIN_VALUES = 10  # of a column that could name people
MIN_SIZE = 3.0  # records a value, on average
PURE = 0.98  # share of values whose records have one class
BY_CHANCE = 0.5  # share that would have, if classes had nothing to do with the column: above it purity says nothing
ALIKE = 0.5  # neighbors in the file this much nearer than others are windows of one recording


def forgotten_units(data: Dataset) -> str | None:
    """Why these records look like several records of the same people; None where nothing does, or units are given."""
    if data.units is not None:
        return None
    found = _naming_column(data) if isinstance(data.X, pd.DataFrame) else _adjacent(data)
    if found is None:
        return None
    return (
        f"records may repeat people: {found}. Say whose each record is (units=, --unit), or intervals and "
        f"certificates count one person many times"
    )


def _naming_column(data: Dataset) -> str | None:
    """A column with many values, each of which goes with one class of a sensitive attribute."""
    for column in data.X.columns:
        value = pd.factorize(data.X[column])[0]
        size = np.bincount(value[value >= 0])
        if len(size) < MIN_VALUES or size.mean() < MIN_SIZE:
            continue
        for name in data.sensitive.columns:
            label = pd.factorize(data.sensitive[name])[0]
            known = (label >= 0) & (value >= 0)
            table = np.zeros((len(size), label.max() + 1))
            np.add.at(table, (value[known], label[known]), 1)
            several = table.sum(axis=1) >= 2
            if several.sum() < MIN_VALUES:
                continue
            pure = (table.max(axis=1) == table.sum(axis=1))[several].mean()
            share = table.sum(axis=0) / table.sum()
            by_chance = np.mean([(share**n).sum() for n in table.sum(axis=1)[several]])
            if pure >= PURE and by_chance < BY_CHANCE:
                return f"column {str(column)!r} has {len(size):,} values, and {name!r} is the same within each"
    return None


def _adjacent(data: Dataset) -> str | None:
    """Windows or images that resemble the next one in the file far more than any other."""
    if np.ndim(data.X) < 3 or len(data) < 50:
        return None
    flat = np.asarray(data.X, dtype=float).reshape(len(data), -1)
    at = np.flatnonzero(np.diff(data.rows) == 1)[:2000]
    if len(at) < 20:
        return None
    others = np.random.default_rng(0).integers(len(flat), size=len(at))
    near, far = (np.median(np.linalg.norm(flat[at] - flat[b], axis=1)) for b in (at + 1, others))
    return "records resemble the next one in the file far more than others" if near < ALIKE * far else None
