"""Fresh attackers for every point, with equal budgets; codes are counted. The training adversary has no part in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.breadth import measure_breadth
from tacit.audit.certification import Terms
from tacit.audit.floor import Floor, measure_floor
from tacit.audit.suite import HEADLINE, AttackSuite, counting
from tacit.audit.trial import Asked, Trial
from tacit.frontier.checkpoint import Folder, unpacked
from tacit.records.dataset import Dataset
from tacit.report.plain_data import plain, read
from tacit.report.results import LimitPoint, Result

MAX_ROWS = 10_000  # that an attacker learns from


def audit_points(numbers: Sequence[int], *given: Any) -> list[int]:
    """Attack some points, one after the other."""
    return [audit_point(number, *given) for number in numbers]


def audit_point(
    number: int,
    attack: Dataset,
    test: Dataset,
    folder: Folder,
    attackers: str | Sequence[Any],
    candidates: int,
    level: float,
    seed: int,
) -> int:
    """Attack one point's releases, which lie in the folder; the results go there too."""
    if folder.has("audited", number):
        return number
    began = time.perf_counter()
    trial = _trial(folder, number, attack, test)
    codes = trial.cells is not None and not isinstance(trial.Z[0], pd.DataFrame)  # columns say more than their row
    suite = counting(seed) if codes else AttackSuite(attackers, seed, max_rows=MAX_ROWS)
    fresh = trial.unseen()
    rows_of = np.flatnonzero(~trial.seen[1])
    out: dict[str, Any] = {}
    right: dict[str, np.ndarray] = {}
    for (side, headline), role in zip(HEADLINE.items(), ("utility", "leakage"), strict=True):
        # every statement of the curve holds together with the others
        share = (1 - level) / candidates / max(1, getattr(test, side).shape[1])
        out[role] = {}
        for task in fresh.tasks(side):
            outcome = suite.run(task, headline)
            out[role][task.attribute] = plain(suite.result(outcome, headline, 1 - share))
            answers = outcome.best.argmax(1) if side == "y" else outcome.balanced
            # as rows of `test`: 1 right, 0 wrong, 2 unknown
            rows = np.full(len(test), 2, dtype=np.uint8)
            rows[rows_of[task.rows]] = answers == task.yt
            right[f"{role}/{task.attribute}"] = rows
    broad = measure_breadth(fresh) if isinstance(trial.Z[0], pd.DataFrame) else None
    out["breadth"] = None if broad is None else broad.mean
    out["seconds"] = round(time.perf_counter() - began, 1)
    folder.write("audited", number, right, out)
    return number


def _trial(folder: Folder, number: int, attack: Dataset, test: Dataset) -> Trial:
    """What was released for a point, once: `tacit.frontier.fitting` left it in the folder."""
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
    trial = Trial((attack, test), (attack.X, test.X), asked=Asked(terms.level, limit=limit))
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
