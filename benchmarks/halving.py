"""What it costs to stop attackers that are clearly behind on validation rows: leakage with and without.

    python benchmarks/halving.py [--seeds 2] [--data adult digits titanic]

Six releases of each data set (raw, EIGAN at three weights, a minimax filter, a linear one), the same rows, the same
attackers. Prints both leakages, who was stopped, and the seconds of the processor; writes benchmarks/halving.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import tacit
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial

MAX_ROWS = 10_000


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--data", nargs="*", default=["adult", "digits", "titanic"])
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    rows = [row for name in chosen.data for seed in range(chosen.seeds) for row in compared(name, seed)]
    Path(__file__).with_suffix(".json").write_text(json.dumps(rows, indent=1))
    lost = max(row["without"] - row["with"] for row in rows)
    print(f"{len(rows)} releases: stopping attackers lost at most {max(lost, 0):.4f} of leakage")


def compared(name: str, seed: int) -> list[dict[str, Any]]:
    train, attack, test = tacit.load_dataset(name).split((0.5, 0.2, 0.3), random_state=seed)
    weights = {f"EIGAN {a}": tacit.EIGAN(4, alpha=a, noise=0.3, epochs=8, random_state=seed) for a in (0.1, 0.3, 0.6)}
    filters = {**weights, "MinimaxFilter": tacit.MinimaxFilter(3, random_state=seed)}
    filters["LinearARL"] = tacit.baselines.LinearARL(3)
    out = []
    for kind, f in {"raw": None, **filters}.items():
        if f is not None:
            f.fit(train.X, train.y, sensitive_features=train.sensitive)
        for task in Trial.of(f, attack, test).unseen().tasks("sensitive"):
            row: dict[str, Any] = {"data": name, "seed": seed, "release": kind, "attribute": task.attribute}
            for word, races in (("with", True), ("without", False)):
                suite = AttackSuite("quick", 0, max_rows=MAX_ROWS)
                suite.races = races
                began = time.process_time()
                outcome = suite.run(task)
                row[f"{word}, seconds"] = round(time.process_time() - began, 2)
                row[word] = suite.result(outcome, "balanced_accuracy", 0.95).value
                row["stopped"] = row.get("stopped") or list(outcome.stopped)
            out.append(row)
            print(json.dumps(row), flush=True)
    return out


if __name__ == "__main__":
    main()
