"""Fresh attackers for every point, with equal budgets; codes are counted. The training adversary has no part in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.certification import Terms
from tacit.auditing.measurements.baseline import Floor, measure_floor
from tacit.auditing.measurements.breadth import in_seconds, mean_breadth, measure_breadth
from tacit.auditing.regression import number_result
from tacit.auditing.suite import HEADLINE, AttackSuite, Outcome, counting
from tacit.auditing.trial import Trial, TrialSettings
from tacit.records.dataset import Dataset
from tacit.report.plain_data import plain, read
from tacit.report.results import LimitPoint, Result
from tacit.tradeoff.checkpoint import Folder, unpacked

MAX_ROWS = 10_000  # that an attacker learns from


def audit_points(
    numbers: Sequence[int],
    attack: Dataset,
    test: Dataset,
    folder: Folder,
    attackers: str | Sequence[Any],
    candidates: int,
    level: float,
    device: str = "cpu",
    seed: int = 0,
) -> list[int]:
    """Attack these points' releases, which lie in the folder; the results go there too."""
    left = [number for number in numbers if not folder.has("audited", number)]
    trials = {number: _trial(folder, number, attack, test) for number in left}
    counted = counting(seed), [n for n in left if _is_code(trials[n])]
    attacked = AttackSuite(attackers, seed, max_rows=MAX_ROWS, device=device), [n for n in left if n not in counted[1]]
    for suite, some in (counted, attacked):
        began = time.perf_counter()
        fresh = {n: trials[n].unseen() for n in some}
        tasks = [(n, side, task) for n in some for side in HEADLINE for task in fresh[n].tasks(side)]
        outcomes = suite.run_many([(task, HEADLINE[side]) for _, side, task in tasks])
        by_point = groupby(zip(tasks, outcomes, strict=True), key=lambda pair: pair[0][0])
        for n, own in by_point if tasks else ((n, ()) for n in some):  # numbers alone have no such task
            arrays, told = _results(
                suite, trials[n], fresh[n], [(side, o) for (_, side, _), o in own], candidates, level
            )
            broad = (
                measure_breadth(fresh[n]) if isinstance(trials[n].Z[0], pd.DataFrame) and in_seconds(fresh[n]) else None
            )
            told["breadth"] = None if broad is None else mean_breadth(broad).value
            told["seconds"] = round(time.perf_counter() - began, 1)
            folder.write("audited", n, arrays, told)
            began = time.perf_counter()
    return list(numbers)


def _is_code(trial: Trial) -> bool:
    """Whether a release is counted: columns say more than their row."""
    return trial.cells is not None and not isinstance(trial.Z[0], pd.DataFrame)


def _results(
    suite: AttackSuite,
    trial: Trial,
    fresh: Trial,
    outcomes: Sequence[tuple[str, Outcome]],
    candidates: int,
    level: float,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """One point's measures by role, and which rows of `test` were answered right: 1 right, 0 wrong, 2 unknown.

    Of a number, the squared error of each row.
    """
    rows_of = np.flatnonzero(~trial.seen[1])
    right: dict[str, np.ndarray] = {}
    out: dict[str, Any] = {"utility": {}, "leakage": {}}
    for side, outcome in outcomes:
        role, task = "utility" if side == "y" else "leakage", outcome.task
        # every statement of the curve holds together with the others
        share = (1 - level) / candidates / max(1, getattr(trial.test, side).shape[1])
        out[role][task.attribute] = plain(suite.result(outcome, HEADLINE[side], 1 - share))
        answers = outcome.best.argmax(1) if side == "y" else outcome.balanced
        rows = np.full(len(trial.test), 2, dtype=np.uint8)
        rows[rows_of[task.rows]] = answers == task.yt
        right[f"{role}/{task.attribute}"] = rows
    for side, role in (("y", "utility"), ("sensitive", "leakage")):
        share = (1 - level) / candidates / max(1, getattr(trial.test, side).shape[1])
        for number in fresh.number_tasks(side):
            read = suite.run_number(number)
            out[role][number.attribute] = plain(number_result(read, 1 - share))
            errors = np.full(len(trial.test), np.nan)
            errors[rows_of[number.rows]] = (number.yt - read.best) ** 2
            right[f"{role}/{number.attribute}"] = errors
        names = getattr(trial.test, side).columns
        out[role] = {name: out[role][name] for name in names}
    return right, out


def _trial(folder: Folder, number: int, attack: Dataset, test: Dataset) -> Trial:
    """What was released for a point, once: `tacit.tradeoff.fitting` left it in the folder."""
    arrays, _ = folder.read("trained", number)
    seen = tuple(arrays[f"seen/{part}"].astype(bool) for part in ("attack", "test"))
    Z: Any = tuple(unpacked(arrays.get(part)) for part in ("attack", "test"))
    if "cells" in arrays:
        cells = arrays["cells"][:, None].astype(np.float64)
        Z = cells[: len(attack)], cells[len(attack) :]
    return Trial((attack, test), Z, seen=seen)


def write_reference(
    train: Dataset, attack: Dataset, test: Dataset, folder: Folder, terms: Terms, limit: bool | None
) -> None:
    """The floor and the limit of the curve's rows; intervals share the error of all points."""
    if folder.has("done", "reference"):
        return
    settings = TrialSettings(
        level=terms.level, measurements=("auto",) if limit is None else ("limit",) if limit else ()
    )
    trial = Trial((attack, test), (attack.X, test.X), settings=settings)
    level = 1 - (1 - terms.level) / terms.candidates
    found = measure_floor(trial, counting(0), level, train, terms)
    told = {
        "utility": plain(found.label_only_utility),
        "leakage": plain(found.label_only),
        "limit": found.limit,
        "note": found.note,
    }
    folder.write("done", "reference", {}, told)


def read_reference(folder: Folder) -> Floor:
    _, told = folder.read("done", "reference")
    utility, leakage = (read(Mapping[str, Result], told[side], side) for side in ("utility", "leakage"))
    curves = {s: tuple(LimitPoint(*p) for p in curve) for s, curve in told["limit"].items()}
    return Floor(utility, leakage, curves, told["note"])
