"""What two releases of the same people tell together: counted, composed, attacked. Adult, official split, sex withheld.

    python benchmarks/composition.py

Two codes of the same records, fitted on all training rows; the test rows are cut in two, for attackers and to measure
them. Printed for each and for both together: what is certified, what strong attackers read, and what is composed from
the single certificates, whatever the law and under independence (which two codes of one record do not have).
Writes benchmarks/composition.json.
"""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import tacit
from tacit.auditing.looks import new_project
from tacit.ledger.account import Known, told_by

CODES = {
    "16 cells, weight 4": tacit.CodebookFilter(16, leakage_weight=4, random_state=0),
    "closed, weight .1": tacit.CodebookFilter(solver="closed", leakage_weight=0.1, random_state=1),
    "4 cells, weight 4": tacit.CodebookFilter(4, leakage_weight=4, random_state=2),
}
PAIRS = (("16 cells, weight 4", "closed, weight .1"), ("closed, weight .1", "4 cells, weight 4"))


def main() -> None:
    warnings.simplefilter("ignore")
    train, test = tacit.load_dataset("adult").split("official")
    attack, test = test.split((0.5, 0.5), random_state=0)
    options = {"attackers": "strong", "floor": False, "breadth": False}
    results, fitted, parts = {}, {}, {}
    for name, f in CODES.items():
        fitted[name] = f.fit(train.X, train.y, sensitive_features=train.sensitive)
        with new_project():
            report = tacit.audit(f, attack, test, **options)
        parts[name] = Known.from_dict(told_by(report, f.n_codes)["sex"], 2).part
        results[name] = told = figures(report)
        print(f"{name:20s} {said(told)}, income {told['income']:.3f}", flush=True)
    for pair in PAIRS:
        with new_project():
            report = tacit.ledger.audit_together([fitted[n] for n in pair], attack, test, **options)
        told = figures(report)
        composed = {}
        for independent in (False, True):
            c = tacit.ledger.compose([parts[n] for n in pair], independent)
            composed[c.how] = {"bound": c.bound, "odds": None if math.isinf(c.odds) else c.odds, "by": c.by}
        results[" + ".join(pair)] = {**told, "composed": composed}
        print(f"{' + '.join(pair)}: counted together {said(told)}")
        for how, c in composed.items():
            held = "" if c["bound"] >= told["attacker"] else "  <- BELOW the attacker: they are not independent"
            by = f" by {c['by']}" if c["by"] else ""
            print(f"    composed{by}, {how}: <= {c['bound']:.3f}{held}", flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=1))


def figures(report) -> dict[str, float | None]:
    c, r = report.certificate["sex"], report.leakage["sex"]
    odds = None if c is None or c.odds is None or math.isinf(c.odds.bound) else c.odds.bound
    told = {"certified": None if c is None else c.bound, "plugin": None if c is None else c.plugin, "odds": odds}
    return {**told, "attacker": r.value, "low": r.low, "high": r.high, "income": report.utility["income"].value}


def said(told) -> str:
    odds = "no odds" if told["odds"] is None else f"odds {told['odds']:.2f}"
    return (
        f"certified <= {told['certified']:.3f} (plug-in {told['plugin']:.3f}), {odds}, attacker {told['attacker']:.3f}"
    )


if __name__ == "__main__":
    main()
