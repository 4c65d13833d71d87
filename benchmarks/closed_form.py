"""The filters that papers compare with, on Adult: official split, sex not an input, income kept, sex withheld.

    python benchmarks/closed_form.py [--only LinearARL]

Every filter has its default settings (nothing is tuned) and is fitted on the training rows; the test rows are cut in
two, one half for attackers and analysts to learn from, one to measure them. "Printed" columns follow the papers: plain
accuracy on all test rows of a logistic regression that learned from the training rows' release. Prints a table and
writes benchmarks/closed_form.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacit
from tacit import baselines
from tacit.auditing.looks import new_project

RELEASES = {
    "raw": None,
    "LabelOnly": baselines.LabelOnly(random_state=0),
    "LinearARL": baselines.LinearARL(random_state=0),
    "LinearARL, 5 columns forced": baselines.LinearARL(5, random_state=0),
    "KernelARL": baselines.KernelARL(random_state=0),
    "LinearEraser": baselines.LinearEraser(random_state=0),
    "LinearEraser, rare=0 (LEACE to the letter)": baselines.LinearEraser(min_frequency=0.0, random_state=0),
    "PrivatePLS": baselines.PrivatePLS(random_state=0),
    "DiscriminabilityMask": baselines.DiscriminabilityMask(random_state=0),
    "VariationalObfuscator": baselines.VariationalObfuscator(random_state=0),
    "Autoencoder": baselines.Autoencoder(random_state=0),
    "LaplaceMechanism, epsilon 1": baselines.LaplaceMechanism(1.0),
    "LaplaceMechanism, epsilon 100": baselines.LaplaceMechanism(100.0),
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    train, test = tacit.load_dataset("adult").split("official")
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if out.exists() else {}
    print(f"{'release':44s} income  sex, best fresh attacker         linear  certified  printed income/sex  fit")
    for name, template in RELEASES.items():
        if chosen.only not in name:
            continue
        results[name] = row = one_release(template, train, test)
        low, high = row["sex_interval"]
        printed = (
            f"{row['printed_income']:.3f} / {row['printed_sex']:.3f}" if "printed_income" in row else "      -      "
        )
        certified = f"{row['certified']:.3f}" if row["certified"] else "none "
        print(
            f"{name:44s} {row['income']:.3f}   {row['sex']:.3f} [{low:.3f}, {high:.3f}] {row['attacker']:10s}  "
            f"{row['linear']:.3f}   {certified}      {printed}       {row['seconds']:.1f} s",
            flush=True,
        )
        out.write_text(json.dumps(results, indent=1))


def one_release(f, train, test) -> dict[str, object]:
    began = time.perf_counter()
    if f is not None:
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
    seconds = time.perf_counter() - began
    row: dict[str, object] = {"seconds": round(seconds, 2)}
    if f is not None:
        A, T = f.release_training_rows(), f.transform(test.X)
        for key, attribute, side in (("printed_income", "income", "y"), ("printed_sex", "sex", "sensitive")):
            learn, check = getattr(train, side)[attribute], getattr(test, side)[attribute]
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
            row[key] = float(model.fit(A, learn).score(T, check))
    attack, test = test.split((0.5, 0.5), random_state=0)
    with new_project():  # each certificate by itself: all releases are fixed beforehand
        report = tacit.audit(f, attack, test, floor=False)
    income, sex = report.utility["income"], report.leakage["sex"]
    certificate = report.certificate["sex"]
    return row | {
        "income": income.value,
        "income_interval": [income.low, income.high],
        "income_auc": income.auc.value,
        "sex": sex.value,
        "sex_interval": [sex.low, sex.high],
        "sex_plain": sex.accuracy.value,
        "sex_auc": sex.auc.value,
        "attacker": sex.attacker,
        "attackers": {n: m.value for n, m in sex.attackers.items()},
        "linear": sex.attackers["logistic"].value,
        "certified": certificate.bound if certificate else None,
        "notes": [n for n in report.notes if "rows of `attack`" not in n],
    }


if __name__ == "__main__":
    main()
