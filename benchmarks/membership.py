"""What a bundle tells of the people it was fitted on: who they were, and what was to be hidden of them.

    python benchmarks/membership.py [--seeds 3] [--rows 500]

CodebookFilter (16 cells, weight 1) and LabelOnly on Adult and digits. A white-box attacker reads every step of the
bundle's graph for a record with its labels, learns from half of the members and of others, and is tested on the rest
(`tacit.auditing.membership`). Beside its AUC: how often the graph names the sensitive class of members and others, and
what the release is good for on fresh rows. Writes benchmarks/membership.json.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

import tacit
from tacit.auditing.membership import whitebox_membership

FILTERS = {
    "codebook": lambda seed: tacit.CodebookFilter(16, leakage_weight=1, random_state=seed),
    "label-only": lambda seed: tacit.baselines.LabelOnly(random_state=seed),
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--rows", type=int, default=500)
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for name in ("adult", "digits"):
        data = tacit.load_dataset(name)
        for kind, make in FILTERS.items():
            runs = [one_run(data, make(seed), chosen.rows, seed) for seed in range(chosen.seeds)]
            mean = {key: float(np.mean([r[key] for r in runs])) for key in runs[0]}
            results[f"{name}, {chosen.rows} rows, {kind}"] = {"runs": runs, "mean": mean}
            print(f"{name:7s} {kind:11s} " + ", ".join(f"{k} {v:.3f}" for k, v in mean.items()), flush=True)
    out = Path(__file__).with_suffix(".json")
    earlier = json.loads(out.read_text()) if out.exists() else {}
    out.write_text(json.dumps({**earlier, **results}, indent=1))


def one_run(data, f, rows: int, seed: int) -> dict[str, float]:
    train, other = data.split((rows, len(data) - rows), random_state=seed)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    result = whitebox_membership(f, train, other, seed)
    secret, target = data.sensitive.columns[0], data.y.columns[0]
    attack, test = other.take(np.arange(min(len(other), 4000))).split((0.5, 0.5), random_state=seed)
    report = tacit.audit(f, attack, test, attackers=["logistic", "trees"], floor=False)
    found = {"AUC": result.value, "low": result.low, "high": result.high}
    for word in ("members", "others"):
        named = result.more.get(f"{secret} named, {word}")
        if named is not None:
            found[f"{secret} of {word} named"] = named.value
    return {**found, f"{target} kept": report.utility[target].value, f"{secret} leaked": report.leakage[secret].value}


if __name__ == "__main__":
    main()
