"""Rows the filter was fitted on leak more than fresh ones; `release_training_rows()` mends it.

    python -m papers.codebook.training_rows [--seeds 3]

Adult, filters fitted on 500 and on 2,000 rows. For each: leakage of fresh rows, of the training rows as
``transform`` releases them, and as ``release_training_rows()`` does. The two are attacked alike: by attackers
that learned from half of those very rows. The fresh figure is for as many fresh rows attacked the same way,
so that all three have the same attackers with the same budget. Writes papers/codebook/training_rows.json.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

import tacit
from tacit.records.dataset import Dataset

FILTERS = {
    "codebook, posterior": lambda seed: tacit.CodebookFilter(16, leakage_weight=1, random_state=seed),
    "codebook, raw": lambda seed: tacit.CodebookFilter(16, leakage_weight=1, features="raw", random_state=seed),
    "EIGAN": lambda seed: tacit.EIGAN(8, alpha=0.5, random_state=seed),
    "label-only": lambda seed: tacit.baselines.LabelOnly(random_state=seed),
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=3)
    seeds = range(arguments.parse_args().seeds)
    warnings.simplefilter("ignore")
    data = tacit.load_dataset("adult")
    results: dict[str, dict[str, list[float]]] = {}
    for n in (500, 2000):
        for name, make in FILTERS.items():
            rows = {"fresh": [], "training, transform": [], "training, out of fold": []}
            for seed in seeds:
                train, fresh, _ = data.split((n, n, len(data) - 2 * n), random_state=seed)
                f = make(seed).fit(train.X, train.y, sensitive_features=train.sensitive)
                rows["fresh"].append(leak(f.transform(fresh.X), fresh, seed))
                rows["training, transform"].append(leak(f.transform(train.X), train, seed))
                rows["training, out of fold"].append(leak(f.release_training_rows(), train, seed))
            mean = {k: tuple(np.mean(v, axis=0)) for k, v in rows.items()}
            inside = mean["training, out of fold"][0] <= mean["fresh"][2]
            results[f"{n} rows, {name}"] = rows
            fresh_leak, low, high = mean["fresh"]
            print(
                f"{n:5d} rows, {name:20s} fresh {fresh_leak:.3f} [{low:.3f}, {high:.3f}]  "
                f"training rows by transform {mean['training, transform'][0]:.3f}, out of fold "
                f"{mean['training, out of fold'][0]:.3f}: {'no more than fresh' if inside else 'MORE THAN FRESH'}",
                flush=True,
            )
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=1))


def leak(Z, data: Dataset, seed: int) -> list[float]:
    """Leakage of sex, each half of the rows attacked by what was learned from the other half."""
    Z = np.asarray(Z)
    one, two = data.split((0.5, 0.5), random_state=seed)
    one_at, two_at = np.isin(data.rows, one.rows), np.isin(data.rows, two.rows)
    both = []
    for (a, at), (b, bt) in (((one, one_at), (two, two_at)), ((two, two_at), (one, one_at))):
        result = tacit.audit(
            (Z[at], Z[bt]), a, b, attackers=["logistic", "trees", "neighbors"], measurements="no-baseline"
        ).leakage["sex"]
        both.append([result.value, result.low, result.high])
    return list(np.mean(both, axis=0))


if __name__ == "__main__":
    main()
