"""What differential privacy of the fit costs on Adult.

    python benchmarks/dp.py [--rows 20000] [--seeds 3] [--epochs 10]

EIGAN on a sample of Adult without dp and at epsilon 1, 3 and 8 (delta 1e-5, public ranges and words): utility of a
model that is trained on the release, and leakage of sex to retrained attackers, both on rows that no filter has seen.
Lines that benchmarks/dp.json has already are not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import time
import warnings
from pathlib import Path

import checkout  # noqa: F401
import numpy as np
from torch import nn

import tacit
from tacit.errors import TacitWarning
from tacit.nets.mlp import mlp

EPSILONS = (1.0, 3.0, 8.0)
ALPHAS = (0.5, 0.7, 0.9)  # all are shown, none is chosen
RANGES = {"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 100_000),
          "capital-loss": (0, 5000), "hours-per-week": (1, 99)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", TacitWarning)
    path = Path(__file__).with_suffix(".json")
    before = json.loads(path.read_text())["adult"] if path.exists() else None
    trade_off(asked.rows, asked.seeds, asked.epochs, before, path)


def small(n_in: int, n_out: int) -> nn.Module:
    """Noise grows with the number of weights: sixteen hidden units are enough for Adult, with dp and without."""
    return mlp(n_in, n_out, hidden=(16,))


def trade_off(rows: int, seeds: int, epochs: int, before: dict | None, out: Path) -> None:
    """One line for each epsilon, alpha and seed; those that are there already are not measured again."""
    data = tacit.load_dataset("adult")
    data = data.take(np.sort(np.random.default_rng(0).permutation(len(data))[:rows]))
    ranges = {c: RANGES[c] for c in data.X.columns if c in RANGES}
    # the words of the census form, known to everybody; here read from the whole table, which a real user may not do
    words = {c: tuple(sorted(map(str, set(data.X[c].dropna())))) for c in data.X.columns if c not in ranges}
    told: dict = {"rows": rows, "epochs": epochs, "figures": "value, low, high, guessing", "lines": []}
    if before is not None and (before["rows"], before["epochs"]) == (rows, epochs):
        told["lines"] = before["lines"]
    done = {(line["epsilon"], line["alpha"], line["seed"]) for line in told["lines"]}
    for seed, epsilon, alpha in itertools.product(range(seeds), (None, *EPSILONS), ALPHAS):
        if (epsilon, alpha, seed) in done:
            continue
        dp = None if epsilon is None else tacit.DP(epsilon, 1e-5, ranges=ranges, categories=words)
        line = {"epsilon": epsilon, "alpha": alpha, "seed": seed, **measured(data, dp, alpha, seed, epochs)}
        print(line, flush=True)
        told["lines"].append(line)
        stored = {"machine": f"{platform.machine()}, one thread", "adult": told}
        out.write_text(json.dumps(stored, indent=1) + "\n")


def measured(data: tacit.Dataset, dp: tacit.DP | None, alpha: float, seed: int, epochs: int) -> dict:
    train, attack, test = data.split((0.5, 0.25, 0.25), random_state=seed)
    f = tacit.EIGAN(4, alpha, noise=0.3, epochs=epochs, batch_size=512, learning_rate=5e-3, adversary_steps=1,
                    encoder=small, target_head=small, sensitive_head=small, random_state=seed, dp=dp)  # fmt: skip
    started = time.perf_counter()
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    line: dict = {"fit_seconds": round(time.perf_counter() - started, 1)}
    report = tacit.audit(f, attack, test, attackers="quick", measurements="no-baseline")
    for role, results in (("utility", report.utility), ("leakage", report.leakage)):
        for name, r in results.items():
            line[f"{role} {name}"] = [round(v, 3) for v in (r.value, r.low, r.high, r.guessing)]
    return line if dp is None else {**line, "spent": round(f.dp_.epsilon, 3)}


if __name__ == "__main__":
    main()
