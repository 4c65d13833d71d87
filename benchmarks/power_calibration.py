"""Is the statement of power true? Leaks planted at the stated size must be found in at least 85 of 100 cases.

    python benchmarks/power_calibration.py [--only adult] [--kind "a rare group"] [--quick-set]

For Adult, digits and Titanic (rows limited, so that it takes minutes on one core) an audit states the size of the
smallest leak that its attackers find, ten times on ten splits; at each stated size ten fresh leaks of that kind are
planted and read by *all* attackers of the audit, the one reported being chosen on validation rows as always. Found
is what a report calls a leak. The share found is written to power_calibration.json with its 95 % interval.
--quick-set takes the preset "quick" with all its attackers (slower) instead of logistic regression and trees.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit import load_dataset
from tacit.auditing.exposure import exposure
from tacit.auditing.planting import KINDS, Ground, plant, plant_rare
from tacit.auditing.power import PLANTINGS, planting_ground, power
from tacit.auditing.stats import binomial_interval
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Task, Trial
from tacit.records.dataset import Dataset
from tacit.report.results import RARE

STATEMENTS, EACH = 10, 10
ROWS = {"adult": 3200, "titanic": 445, "diabetes": 221, "digits": 300}  # in each of the two parts
COLUMNS = {"adult": ["age", "education-num", "hours-per-week", "occupation", "relationship"]}


def task_of(name: str, seed: int) -> Task:
    """One split of a data set: half to learn from, half to test on."""
    data: Dataset = load_dataset(name, **({"classes": True} if name == "diabetes" else {}))
    if name in COLUMNS:
        data = replace(data, X=data.X[COLUMNS[name]])
    some = np.sort(np.random.default_rng(seed).permutation(len(data))[: 2 * ROWS[name]])
    attack, test = data.take(some).split((0.5, 0.5), random_state=seed)
    return Trial.of(None, attack, test).tasks("sensitive")[0]


def is_found(suite: AttackSuite, t: Task, ground: Ground, kind: str, size: float, rng: np.random.Generator) -> bool:
    """Plant one leak and audit it."""
    planted = plant_rare(ground, size, rng) if kind == RARE else plant(kind, ground, size - 1 / t.n_classes, rng)
    n = len(t.ya)
    outcome = suite.run(replace(t, ya=planted.labels[:n], yt=planted.labels[n:]))
    if kind == RARE:
        return exposure(outcome, 0.95).named.low > 0
    found = suite.result(outcome, "balanced_accuracy", 0.95).balanced_accuracy
    return found.low > found.guessing


def calibrate(name: str, attackers: Any, kinds: list[str]) -> dict[str, Any]:
    """By kind: the stated sizes, and how many of the leaks of that size were found."""
    sizes: dict[str, list[float]] = {}
    hits: dict[str, list[bool]] = {}
    silent: dict[str, int] = {}
    for seed in range(STATEMENTS):
        suite, task = AttackSuite(attackers, seed), task_of(name, seed)
        ground = planting_ground(task)
        stated = power(suite, task, PLANTINGS["quick"])
        assert stated is not None
        for kind in kinds:
            size = stated.found.get(kind)
            if size is None:
                silent[kind] = silent.get(kind, 0) + 1
                continue
            rng = np.random.default_rng([seed, 1])
            sizes.setdefault(kind, []).append(size)
            hits.setdefault(kind, []).extend(is_found(suite, task, ground, kind, size, rng) for _ in range(EACH))
    out = {}
    for kind in kinds:
        h = hits.get(kind, [])
        share = float(np.mean(h)) if h else None
        ends = binomial_interval(share, len(h)) if share is not None else None
        middle = float(np.median(sizes[kind])) if h else None
        out[kind] = {"stated": middle, "found": share, "interval": ends, "runs": len(h), "no size": silent.get(kind, 0)}
        print(f"{name}, {kind}: {out[kind]}", flush=True)
    return out


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--quick-set", action="store_true")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--kind", default="")
    chosen = arguments.parse_args()
    attackers: Any = "quick" if chosen.quick_set else ["logistic", "trees"]
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in ROWS:
        if chosen.only in name:
            began = time.process_time()
            kinds = [kind for kind in (*KINDS, RARE) if chosen.kind in kind]
            key = f"{name}, {'quick' if chosen.quick_set else 'logistic and trees'}"
            results[key] = results.get(key, {}) | calibrate(name, attackers, kinds)
            print(f"{name}: {time.process_time() - began:.0f} s of a processor", flush=True)
            out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
