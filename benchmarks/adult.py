"""Adult, official split, sex not an input: income kept, sex withheld, certified or attacked.

    python benchmarks/adult.py [--seeds 3] [--only learned]

The knob of every filter is fixed on a validation fifth of the training rows (seed 0), before the test
rows are read: the most useful value whose leak there, with the slack a certificate on the test rows
will have, stays under the bound. Then each seed fits on all training rows; the test rows are cut in
two, one half for attackers and analysts to learn from, one to measure them. Prints medians over seeds
and writes benchmarks/adult.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from pathlib import Path

import checkout  # noqa: F401
import numpy as np
from sklearn.base import clone

import tacit
from tacit.auditing.looks import new_project

# name: (filter, grid of the knob, bound on sex, needed income accuracy, needed AUC)
CLAIMS = {
    "learned, .550": (tacit.CodebookFilter(16, features="posterior"), (2, 2.5, 3, 4, 5), 0.550, 0.852, 0.88),
    "learned, .526": (tacit.CodebookFilter(16, features="posterior"), (8, 10, 12, 16, 20), 0.526, 0.839, 0.88),
    "closed, .546": (tacit.CodebookFilter(solver="closed"), (0.06, 0.08, 0.09, 0.1, 0.11), 0.546, 0.856, 0.0),
    "raw, .550": (tacit.CodebookFilter(16, features="raw"), (2, 3, 4, 6, 8), 0.550, 0.832, 0.0),
    "EIGAN, .57": (tacit.EIGAN(4, noise=0.3), (0.2, 0.25, 0.3, 0.35), 0.57, 0.835, 0.0),
}
SLACK = 0.0110  # of a certificate on the 16,281 test rows at 95 %, the first look at them
MARGIN = 0.002  # the leak on validation is an estimate
ATTACK_MARGIN = 0.01  # and an attacker's is a noisier one


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--only", default="")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    train, test = tacit.load_dataset("adult").split("official")
    attack, test = test.split((0.5, 0.5), random_state=0)
    results = {}
    for name, (template, grid, bound, needed, needed_auc) in CLAIMS.items():
        if chosen.only not in name:
            continue
        certified = not isinstance(template, tacit.EIGAN)
        knob = fix_knob(template, grid, bound, train, certified)
        runs = [one_run(template, knob, seed, train, attack, test, certified) for seed in range(chosen.seeds)]
        median = {key: float(np.median([r[key] for r in runs])) for key in runs[0]}
        met = median["income"] >= needed and median["sex"] <= bound and median["auc"] >= needed_auc
        results[name] = {
            "knob": knob,
            "runs": runs,
            "median": median,
            "needed": [needed, bound, needed_auc],
            "met": met,
        }
        print(
            f"{name:16s} {template.frontier_parameter}={knob:<5g} income {median['income']:.4f} (>= {needed}), "
            f"AUC {median['auc']:.4f}{f' (>= {needed_auc})' if needed_auc else ''}, sex "
            f"{'certified' if certified else 'best attacker'} {median['sex']:.4f} (<= {bound}), "
            f"fit {max(r['seconds'] for r in runs):.0f} s at most: {'met' if met else 'NOT MET'}",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of this process {peak:.2f} GB")
    results["peak_gb"] = peak
    out = Path(__file__).with_suffix(".json")
    earlier = json.loads(out.read_text()) if out.exists() else {}
    out.write_text(json.dumps({**earlier, **results}, indent=1))


def fix_knob(template, grid, bound, train, certified) -> float:
    """The most useful value that keeps the bound on validation rows; the most private one if none does."""
    # attackers grow with their rows, so they get as many here as they will have on the test rows
    fit_part, a, b = train.split((0.8, 0.1, 0.1) if certified else (0.5, 0.25, 0.25), random_state=0)
    best, best_income = None, -1.0
    for value in grid:
        f = fitted(template, value, 0, fit_part)
        with new_project():
            report = tacit.audit(f, a, b, attackers=["logistic"] if certified else "quick", measurements="no-baseline")
        sex = report.certificate["sex"].plugin + SLACK if certified else report.leakage["sex"].value
        income = report.utility["income"].value
        print(f"   validation {template.frontier_parameter}={value}: income {income:.4f}, sex {sex:.4f}", flush=True)
        if sex <= bound - (MARGIN if certified else ATTACK_MARGIN) and income > best_income:
            best, best_income = value, income
    return best if best is not None else (min(grid) if template.knob.utility_rises else max(grid))


def one_run(template, knob, seed, train, attack, test, certified) -> dict[str, float]:
    began = time.perf_counter()
    f = fitted(template, knob, seed, train)
    seconds = time.perf_counter() - began
    with new_project():  # each certificate by itself: all releases are fixed beforehand
        report = tacit.audit(f, attack, test, measurements="no-baseline", random_state=seed)
    income = report.utility["income"]
    return {
        "income": income.value,
        "auc": income.auc.value,
        "sex": report.certificate["sex"].bound if certified else report.leakage["sex"].value,
        "attacked": report.leakage["sex"].value,
        "seconds": seconds,
    }


def fitted(template, value, seed, train):
    f = clone(template).set_params(**{template.frontier_parameter: value, "random_state": seed})
    return f.fit(train.X, train.y, sensitive_features=train.sensitive)


if __name__ == "__main__":
    main()
