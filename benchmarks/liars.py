"""Five nodes of Adult, of which none, one or two lie: what is kept and what leaks, under each way of combining answers.

    python benchmarks/liars.py [--rows 1000] [--epochs 8] [--seeds 1]

The nodes' people are alike, or sorted by age ("unlike"). A liar does its work and sends something else: its update 100
times as long (x100), turned round (flip), both (x-100), NaN, or its own encoder with a claim of 10^9 records from the
beginning (many). Utility is the accuracy of income and leakage the balanced accuracy of sex (guessing
.5), by attackers trained afresh on what the common encoder releases of other people, the same people in all runs. "4
honest" is the federation without the liar, and "blurred" five honest nodes with the noise that a node adds to what
leaves it. Writes benchmarks/liars.json as it goes; runs that are there are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.federated import DistributedEIGAN, Node
from tacit.federated.grants import Grants
from tacit.federated.protocol import Message

RULES: dict[str, dict[str, Any]] = {
    "average": {},
    "clipped": {"max_norm": 1.0},
    "median": {"robust": "median"},
    "trimmed": {"robust": "trimmed"},
}
SETTINGS = {"n_components": 4, "alpha": 0.5, "adversary_steps": 2, "noise": 0.3}
Change = Callable[[np.ndarray, np.ndarray], np.ndarray]
LIES: dict[str, Change] = {
    "x100": lambda now, mine: now + 100 * (mine - now),
    "flip": lambda now, mine: now - (mine - now),
    "x-100": lambda now, mine: now - 100 * (mine - now),
    "nan": lambda now, mine: np.full_like(mine, np.nan),
    "many": lambda now, mine: mine,
}


def lie(name: str, asked: Message, answer: Message) -> Message:
    """What a liar sends in place of its answer."""
    if name == "many":
        return replace(answer, facts={**answer.facts, "records": 10**9})
    if answer.kind != "trained":
        return answer
    arrays = {k: LIES[name](asked.arrays[k], v).astype(v.dtype) for k, v in answer.arrays.items()}
    return replace(answer, arrays=arrays)


def federate(f: DistributedEIGAN, nodes: list[Node], liars: int = 0, name: str = "x100") -> DistributedEIGAN:
    """As `simulate`, among strangers: the last nodes lie."""
    workers = {str(node.name): f.worker(node) for node in nodes}
    false = list(workers)[len(workers) - liars :]
    server = f.coordinator([])
    while not server.finished:
        answers = []
        for asked in server.requests(list(workers)):
            answer = workers[asked.node].work(asked)
            answers.append(lie(name, asked, answer) if asked.node in false else answer)
        server.receive(answers)
    return f.conclude(server)


def split_adult(rows: int, alike: bool) -> tuple[list[Node], tacit.Dataset, tacit.Dataset]:
    """Five nodes, and people at none of them: rows that attackers learn from, rows they are measured on."""
    data = tacit.load_dataset("adult")
    kept = data.split((5 * rows, 6_000, 12_000, len(data) - 5 * rows - 18_000), random_state=0)
    train, attack, test = kept[:3]
    order = np.arange(len(train)) if alike else np.argsort(np.asarray(train.X["age"]), kind="stable")
    nodes = []
    for i, part in enumerate(np.array_split(order, 5)):
        of = (train.X.iloc[part], train.y[["income"]].iloc[part], train.sensitive[["sex"]].iloc[part])
        nodes.append(Node(*of, name=f"node {i + 1}"))
    return nodes, attack, test


def measure(f: DistributedEIGAN, attack: tacit.Dataset, test: tacit.Dataset) -> dict[str, Any]:
    report = tacit.audit(f, attack, test, ["logistic", "trees"], floor=False, limit=False, pooled=())
    out = {}
    for role, r in (("utility", report.utility["income"]), ("leakage", report.leakage["sex"])):
        out[role] = {k: round(float(getattr(r, k)), 4) for k in ("value", "low", "high", "guessing")}
    named = sorted({n for line in f.rounds_ for n in (*line.get("doubtful", {}), *line["rejected"])})
    return {**out, "named": named}


def plan() -> list[tuple[str, str, str, int]]:
    """People, rule, lie, liars: honest runs first."""
    runs = []
    for people, rules in (("alike", list(RULES)), ("unlike", ["average", "median", "trimmed"])):
        for rule in rules:
            runs += [(people, rule, "5 honest", 0), (people, rule, "4 honest", 0), (people, rule, "flip", 1)]
    runs += [("alike", rule, "x-100", 1) for rule in RULES]
    runs.append(("alike", "average", "blurred", 0))
    runs += [("alike", rule, name, 1) for name in ("x100", "many", "nan") for rule in ("average", "median")]
    runs += [("alike", rule, name, 2) for name in ("flip", "x-100") for rule in RULES]
    return runs


def main() -> None:
    arguments = argparse.ArgumentParser()
    for name, default in (("rows", 1_000), ("epochs", 8), ("seeds", 1)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    path = Path(__file__).with_suffix(".json")
    settings = {**vars(asked), **SETTINGS}
    found = json.loads(path.read_text()) if path.exists() else {}
    runs = found["runs"] if found.get("settings") == settings else {}
    parts = {people: split_adult(asked.rows, people == "alike") for people in ("alike", "unlike")}
    for people, rule, name, liars in plan():
        nodes, attack, test = parts[people]
        for seed in range(asked.seeds):
            key = f"{people}, {rule}, {liars} {name}" if liars else f"{people}, {rule}, {name}"
            if key + f", seed {seed}" in runs:
                continue
            began = time.perf_counter()
            f = DistributedEIGAN(**SETTINGS, **RULES[rule], epochs=asked.epochs, random_state=seed)
            f.grants = Grants() if name == "blurred" else None  # type: ignore[misc]
            run = measure(federate(f, nodes[: 4 if name == "4 honest" else 5], liars, name), attack, test)
            runs[key + f", seed {seed}"] = run
            path.write_text(json.dumps({"settings": settings, "runs": runs}, indent=1))
            told = f"keeps {run['utility']['value']:.3f}, leaks {run['leakage']['value']:.3f}, named {run['named']}"
            print(f"{key:36s} {told}  ({time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
