"""Fresh attackers for every point, with equal budgets; codes are counted. The training adversary has no part in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.audit.attackers import Counting, resolve
from tacit.audit.bench import Bench
from tacit.frontier.checkpoint import Folder
from tacit.records.dataset import Dataset
from tacit.report.plain_data import plain

MOST_ROWS = 10_000  # that an attacker learns from


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
    arrays, _ = folder.read("trained", number)
    fresh_a, fresh_t = arrays["fresh/attack"].astype(bool), arrays["fresh/test"].astype(bool)
    if "cells" in arrays:
        cells = arrays["cells"][:, None].astype(np.float64)
        Za, Zt = cells[: len(attack)], cells[len(attack) :]
    else:
        Za, Zt = arrays["attack"], arrays["test"]
    parts = Za[fresh_a], attack.take(fresh_a), Zt[fresh_t], test.take(fresh_t)
    out: dict[str, Any] = {}
    right: dict[str, np.ndarray] = {}
    for side, role, headline in (("y", "utility", "accuracy"), ("sensitive", "leakage", "balanced_accuracy")):
        # every statement of the curve holds together with the others
        share = (1 - level) / candidates / max(1, len(getattr(test, side).columns))
        bench = bench_for("cells" in arrays, attackers, 1 - share, seed)
        out[role] = {}
        for contest in bench.contests(*parts, side):
            outcome = bench.fight(contest, headline)
            out[role][contest.attribute] = plain(bench.result(outcome, headline))
            p = outcome.best if side == "y" else outcome.best / outcome.prior
            # as rows of `test`: 1 right, 0 wrong, 2 unknown
            rows = np.full(len(test), 2, dtype=np.uint8)
            rows[np.flatnonzero(fresh_t)[contest.rows]] = p.argmax(1) == contest.yt
            right[f"{role}/{contest.attribute}"] = rows
    out["seconds"] = round(time.perf_counter() - began, 1)
    folder.write("audited", number, right, out)
    return number


def bench_for(finite: bool, attackers: str | Sequence[Any], level: float, seed: int) -> Bench:
    """Attackers by preset or list; for a code, counting alone, which nothing beats."""
    if finite:
        return Bench({"counting": lambda shape, m, s: Counting()}, level, seed)
    bench = Bench(resolve(attackers), level, seed, attackers if isinstance(attackers, str) else None)
    bench.most_rows = MOST_ROWS
    return bench
