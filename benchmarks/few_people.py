"""What a small table costs: CouplingFilter fitted on a few hundred to ten thousand people of Adult, sex hidden.

    python benchmarks/few_people.py [--people 400 800 1600 3000 10000] [--seeds 3] [--first 0] [--strength 1] [--jobs 2]

The people are drawn from the official training rows (32,561: all of them). Attackers (the "strong" ones) learn from
one half of the released test rows, 8,140 people, and are measured on the other, so that only the fit is small: who
holds fewer releases reads less. "kept" is the share of values that were not replaced, "income_kept" that of incomes.
"income" is the accuracy, on raw test rows, of trees that learned from the released people, beside the same trees on
their raw rows. Writes benchmarks/few_people.json.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from coupling import attack_alone, kept, learned_from, parts, sensitive_of

import tacit


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--people", type=int, nargs="+", default=[400, 800, 1600, 3000, 10_000])
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--first", type=int, default=0, help="the first seed")
    arguments.add_argument("--strength", type=float, default=1.0)
    arguments.add_argument("--attackers", default="strong")
    arguments.add_argument("--jobs", type=int, default=2)
    chosen = arguments.parse_args()
    out = Path(__file__).with_suffix(".json")
    settings = {"strength": chosen.strength, "attackers": chosen.attackers}
    before = json.loads(out.read_text()) if out.exists() else {}
    # what was measured before stays, by people and seed
    results: dict[str, dict[str, dict[str, float]]] = before["results"] if before.get("settings") == settings else {}
    with ProcessPoolExecutor(chosen.jobs) as pool:
        asked = [(people, seed) for people in chosen.people for seed in range(chosen.first, chosen.seeds)]
        runs = [pool.submit(one_run, people, seed, chosen.strength, chosen.attackers) for people, seed in asked]
        for (people, seed), run in zip(asked, runs, strict=True):
            found = run.result()
            results.setdefault(str(people), {})[str(seed)] = found
            print(f"{people} people, seed {seed}: " + ", ".join(f"{k} {v:.3f}" for k, v in found.items()), flush=True)
    out.write_text(json.dumps({"settings": settings, "results": results}, indent=1) + "\n")


def one_run(people: int, seed: int, strength: float, attackers: str) -> dict[str, float]:
    warnings.simplefilter("ignore")
    train, attack, test = parts(["sex"], seed, 10**9)
    train = train.take(np.sort(np.random.default_rng(seed).permutation(len(train))[:people]))
    f = tacit.CouplingFilter(strength, random_state=seed)
    f.fit(train.X, train.y, sensitive_features=sensitive_of(train, ["sex"]))
    Z = [f.transform(d.X, sensitive_features=sensitive_of(d, ["sex"]), y=d.y) for d in (attack, test)]
    leak = attack_alone(Z, attack, test, attackers, seed).leakage["sensitive"]
    return {
        "attacker": leak.value,
        "low": leak.low,
        "high": leak.high,
        "guessing": leak.guessing,
        "kept": kept(f, test, Z[1], ["sex"]),
        "income_kept": float(np.mean(Z[1]["income"].to_numpy() == test.y["income"].to_numpy())),
        "income": learned_from(f.release_training_rows(), test),
        "income_raw": learned_from(pd.concat([train.X, train.y], axis=1), test),
    }


if __name__ == "__main__":
    main()
