"""The attack by who sees the file as it lies there: where a record stands, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding
from tacit.report.results import AnyResult

MAX_COMPARED = 8  # columns of a record that are compared with the next one's


@measurement("row_order", needs="a released table", place=10, required=True)
def row_order(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack with the place of a record in the file, what stands next to it, and the known labels nearby.

    For releases that are handed over as files or arrays, whose order somebody else chose; the order of a filter's
    releases is ours, and tells nothing. A certificate of the columns depends on it, so that every audit measures it.
    """
    knows = "where the record stands in the file, and its neighbors"
    return context.attacked("row order", knows, attack_order(trial, context.suite))


def attack_order(trial: Trial, suite: AttackSuite) -> dict[str, AnyResult]:
    """Infer sensitive attributes from the order of rows.

    Positions are those of the data set that both parts were taken from, or else of each part.
    """
    where = [np.asarray(d.rows) for d in trial.data]
    one_file = len(np.intersect1d(where[0], where[1])) == 0
    if not one_file:
        where = [np.arange(len(p)) for p in where]
    neighbours = _neighbours(trial.frames, where, one_file)
    results: dict[str, AnyResult] = {}
    for i, column in enumerate(trial.attack.sensitive.columns):
        near = _near(where, pd.factorize(trial.attack.sensitive[column])[0]) if one_file else ({}, {})
        tables = [
            beside.assign(position=rows, **{f"modulo {m}": rows % m for m in (2, 3, 4, 5)}, **labels)
            for beside, rows, labels in zip(neighbours, where, near, strict=True)
        ]
        results[column] = suite.measure_one(trial.showing(tables), "sensitive", i)
    return results


def _neighbours(frames: Any, where: list[np.ndarray], one_file: bool) -> list[pd.DataFrame]:
    """How records of both parts compare with those beside them, in one file or in two."""
    if not one_file:
        return [_beside(f).reset_index(drop=True) for f in frames]
    at = np.argsort(np.concatenate(where), kind="stable")
    both = pd.concat([f.set_axis(range(f.shape[1]), axis=1) for f in frames], ignore_index=True)
    beside = _beside(both.iloc[at]).iloc[np.argsort(at)]
    n = len(where[0])
    return [beside.iloc[:n].reset_index(drop=True), beside.iloc[n:].reset_index(drop=True)]


def _near(where: list[np.ndarray], labels: np.ndarray) -> Any:
    """The known labels nearby, for both parts; nothing where known rows lie together, far from the others."""
    near = [_labels_nearby(where[0], labels, rows, itself=rows is where[0]) for rows in where]
    far = np.median(near[1]["distance before"]) > 3 * np.median(near[0]["distance before"])
    return ({}, {}) if far else near


def _beside(frame: pd.DataFrame) -> pd.DataFrame:
    """How a record compares with the one before it and the one behind it in the file."""
    out = {}
    for name, step in (("before", 1), ("behind", -1)):
        other = frame.shift(step)
        same = frame.eq(other)
        out[f"equal {name}"] = same.mean(axis=1).to_numpy(float)
        for i in range(min(frame.shape[1], MAX_COMPARED)):
            out[f"equal {name}, {i}"] = same.iloc[:, i].to_numpy(float)
    return pd.DataFrame(out, index=frame.index)


def _labels_nearby(known: np.ndarray, labels: np.ndarray, rows: np.ndarray, itself: bool) -> dict[str, np.ndarray]:
    """Labels of the nearest known records before and behind each row, and how far away they are."""
    order = np.argsort(known, kind="stable")
    places, told = known[order], labels[order]
    out = {}
    before = np.searchsorted(places, rows, side="left") - 1
    behind = np.searchsorted(places, rows, side="right" if itself else "left")
    for name, at in (("before", before), ("behind", behind)):
        inside = (at >= 0) & (at < len(places))
        near = np.clip(at, 0, len(places) - 1)
        out[f"label {name}"] = np.where(inside, told[near], -1)
        out[f"distance {name}"] = np.where(inside, np.abs(places[near] - rows), len(rows))
    return out
