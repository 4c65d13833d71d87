"""A table back: how much CouplingFilter keeps of Adult, what attackers read of it, and what a model learns from it.

    python benchmarks/coupling.py [--rows 3000] [--attackers quick] [--seeds 3] [--strength 1] [--jobs 2]
    python benchmarks/coupling.py --people 400 800 1600 3000 10000 32561      (sex alone, fitted on this many people)

Fitted on the official training rows (12 columns: fnlwgt, a sampling weight, and education-num, a copy, are left out).
Attackers learn from one half of the released test rows and are measured on the other. "income" is the accuracy, on raw
test rows, of boosted trees that learned from the released training rows (each released by models that did not see it),
beside the same trees on raw rows. "kept" is the share of values that were not replaced, "pairs" a bound on attackers
who see any two released columns. With --people only the fit is small: attackers learn from 8,140 released people.
Writes benchmarks/coupling.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import checkout  # noqa: F401
import numpy as np
import pandas as pd

import tacit
from tacit.auditing.measurements.breadth import breadth, mean_breadth
from tacit.filters.coupling import CouplingFilter
from tacit.records.encoding import make_encoder
from tacit.report import Report
from tacit.training.trees import boosted_trees

LEFT_OUT = ["fnlwgt", "education-num"]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=10**9, help="of the fit and of either half of the test rows")
    arguments.add_argument("--attackers", default="strong")
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--strength", type=float, default=1.0)
    arguments.add_argument("--people", type=int, nargs="+", default=[], help="how many the filter is fitted on")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(chosen.seeds)
    results = {}
    with ProcessPoolExecutor(chosen.jobs) as pool:
        if chosen.people:
            runs = {
                f"{people} people, seed {seed}": pool.submit(small_fit, people, seed, chosen)
                for people in chosen.people
                for seed in seeds
            }
        else:
            runs = {
                f"{' x '.join(sensitive)}, seed {seed}": pool.submit(one_run, sensitive, seed, chosen)
                for sensitive in (["sex"], ["sex", "race"])
                for seed in seeds
            }
        for name, run in runs.items():
            results[name] = run.result()
            print(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in results[name].items()), flush=True)
    out = Path(__file__).with_suffix(".json")
    stored = json.loads(out.read_text()) if out.exists() else {}
    stored["by people" if chosen.people else "whole"] = {"settings": vars(chosen), "results": results}
    out.write_text(json.dumps(stored, indent=1) + "\n")


def one_run(sensitive: list[str], seed: int, chosen: argparse.Namespace) -> dict[str, float]:
    warnings.simplefilter("ignore")
    train, attack, test = parts(sensitive, seed, chosen.rows)
    began = time.perf_counter()
    f = CouplingFilter(chosen.strength, random_state=seed)
    f.fit(train.X, train.y, sensitive_features=sensitive_of(train, sensitive))
    fitted = time.perf_counter()
    Z = [f.transform(d.X, sensitive_features=sensitive_of(d, sensitive), y=d.y) for d in (attack, test)]
    released = time.perf_counter()
    raw = [pd.concat([d.X, d.y], axis=1) for d in (attack, test)]
    report = attack_alone(Z, attack, test, chosen.attackers, seed, ["few_columns"])
    attacked, pairs = report.leakage["sensitive"], report.pairs.get("sensitive")
    found = {"kept": kept(f, test, Z[1], sensitive), "attacker": attacked.value, "attacker_low": attacked.low}
    found["guessing"] = attacked.guessing
    found["pairs"] = 1.0 if pairs is None else pairs.bound
    of_raw = attack_alone(raw, attack, test, chosen.attackers, seed)
    found["attacker_raw"] = of_raw.leakage["sensitive"].value
    found["income"] = learned_from(f.release_training_rows(), test)
    found["income_raw"] = learned_from(pd.concat([train.X, train.y], axis=1), test)
    found["breadth"] = mean_breadth(breadth(tuple(Z), tuple(raw), seed)).value
    n = sum(map(len, Z))
    return found | {"fit_seconds": fitted - began, "rows_a_second": n / (released - fitted)}


def small_fit(people: int, seed: int, chosen: argparse.Namespace) -> dict[str, float]:
    warnings.simplefilter("ignore")
    train, attack, test = parts(["sex"], seed, chosen.rows)
    train = train.take(np.sort(np.random.default_rng(seed).permutation(len(train))[:people]))
    f = CouplingFilter(chosen.strength, random_state=seed)
    f.fit(train.X, train.y, sensitive_features=sensitive_of(train, ["sex"]))
    Z = [f.transform(d.X, sensitive_features=sensitive_of(d, ["sex"]), y=d.y) for d in (attack, test)]
    attacked = attack_alone(Z, attack, test, chosen.attackers, seed).leakage["sensitive"]
    return {
        "attacker": attacked.value,
        "low": attacked.low,
        "high": attacked.high,
        "guessing": attacked.guessing,
        "kept": kept(f, test, Z[1], ["sex"]),
        "income_kept": float(np.mean(Z[1]["income"].to_numpy() == test.y["income"].to_numpy())),
        "income": learned_from(f.release_training_rows(), test),
        "income_raw": learned_from(pd.concat([train.X, train.y], axis=1), test),
    }


def attack_alone(
    release: Sequence[pd.DataFrame],
    attack: tacit.Dataset,
    test: tacit.Dataset,
    attackers: str,
    seed: int,
    measurements: Sequence[str] = (),
) -> Report:
    """What attackers read of a release, and nothing else that an audit measures unless it is asked for."""
    return tacit.audit(
        tuple(release),
        attack,
        test,
        attackers=attackers,
        measurements=measurements,
        random_state=seed,
        options=tacit.AuditOptions(pooled=()),
    )


def parts(sensitive: list[str], seed: int, rows: int) -> tuple[tacit.Dataset, ...]:
    """Training rows, attackers' rows and test rows, with the product of the sensitive columns as what is hidden."""
    data = tacit.load_dataset("adult", sensitive=sensitive)
    labels = data.sensitive.copy()
    if "race" in labels:
        labels["race"] = labels["race"].where(labels["race"] == "White", "other")
    product = labels.agg(" ".join, axis=1).rename("sensitive")
    whole = tacit.Dataset(data.X.drop(columns=LEFT_OUT), data.y, product, official=data.official)
    train, held = whole.split("official")
    attack, test = held.split((0.5, 0.5), random_state=seed)
    rng = np.random.default_rng(seed)
    return tuple(d.take(np.sort(rng.permutation(len(d))[:rows])) for d in (train, attack, test))


def sensitive_of(data: tacit.Dataset, sensitive: list[str]) -> pd.DataFrame:
    """The sensitive columns, one by one."""
    return data.sensitive["sensitive"].str.split(" ", expand=True).set_axis(sensitive, axis=1)


def kept(f: CouplingFilter, test: tacit.Dataset, Z: pd.DataFrame, sensitive: list[str]) -> float:
    """The share of values that were not replaced, at the resolution of the release."""
    schema = f.mechanism_.schema
    codes, _ = schema.parts(schema.read(test.X, sensitive_of(test, sensitive), test.y)[0])
    return float(np.mean([v.codes(Z[v.name]) == codes[:, j] for j, v in enumerate(schema.values)]))


def learned_from(table: pd.DataFrame, test: tacit.Dataset) -> float:
    """Accuracy of income on raw rows, by trees that learned from this table."""
    X, y = table.drop(columns="income"), table["income"]
    encoder = make_encoder(X)
    trees = boosted_trees((len(X), encoder.n_out), 2, 0).fit(encoder.transform(X), y)
    return float(np.mean(trees.predict(encoder.transform(test.X)) == test.y["income"]))


if __name__ == "__main__":
    main()
