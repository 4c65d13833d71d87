"""Which planted leaks the presets find: the releases of tests/planted.py, whose truth is known.

    python benchmarks/power.py [--only parity] [--preset quick] [--jobs 2]

Prints a row for each release: the truth, what quick and strong read (the best of the headline and of the attacks on
row order and on two joined records, where these apply), the certificate, and the seconds of a processor. A leak is
found when the figure lies within .05 of the truth. A release that the audit refuses is named, and is not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from joblib import Parallel, delayed

import tacit
from planted import WORLDS, parts_of
from tacit.auditing.attacks import AttackKind
from tacit.auditing.attacks.row_order import RowOrder
from tacit.auditing.attacks.units import Joined
from tacit.auditing.certification import Terms, certify_trial
from tacit.auditing.looks import new_project
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.errors import TacitError

NEAR = 0.05


def measure(name: str, preset: str) -> dict[str, Any]:
    """What a preset reads of one world: the figure, and the attack and attacker that read it."""
    planted, Za, attack, Zt, test = parts_of(name)
    suite, trial = AttackSuite(preset), Trial((attack, test), (Za, Zt))
    began = time.process_time()
    try:
        results = {"": suite.measure(trial, "sensitive")["s"]}
    except TacitError as error:
        return {"refused": str(error).split(";")[0]}
    by: dict[str, AttackKind] = {"row order": RowOrder(), "two releases of a unit": Joined()}
    if planted.knows in by:
        told = by[planted.knows].run(trial, suite)
        results |= {by[planted.knows].kind: told["s"]} if told else {}
    # the attack is the one the world is about: no choice by the figure
    kind = list(results)[-1]
    found = results[kind]
    return {
        "value": round(found.value, 3),
        "by": f"{kind}: {found.attacker}" if kind else found.attacker,
        "seconds": round(time.process_time() - began, 1),
        "found": abs(found.value - planted.truth) <= NEAR,
    }


def certificate_of(name: str) -> float | None:
    """The bound for any attacker who has one release, or None; of the file as it is, where rows have an order."""
    planted, Za, attack, Zt, test = parts_of(name)
    try:
        if planted.knows == "row order":
            with new_project():
                report = tacit.audit((Za, Zt), attack, test, ["trees"], floor=False)
            certificate = report.certificate["s"]
        else:
            trial = Trial.of((Za, Zt), attack, test)
            certificate = certify_trial(trial, Terms(0.95, look=1)).certificate["s"]
    except TacitError:
        return None
    return None if certificate is None else round(certificate.bound, 3)


def row_of(name: str, presets: list[str]) -> tuple[str, dict[str, Any]]:
    row: dict[str, Any] = {"truth": round(parts_of(name)[0].truth, 4), "certificate": certificate_of(name)}
    return name, row | {preset: measure(name, preset) for preset in presets}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--preset", default="")
    arguments.add_argument("--jobs", type=int, default=1)
    chosen = arguments.parse_args()
    out = Path(__file__).with_suffix(".json")
    table = json.loads(out.read_text()) if out.exists() else {}
    presets = [p for p in ("quick", "strong") if chosen.preset in p]
    names = [n for n in WORLDS if chosen.only in n]
    for name, found in Parallel(chosen.jobs, return_as="generator")(delayed(row_of)(n, presets) for n in names):
        row = table.setdefault(name, {})
        row |= found
        out.write_text(json.dumps({n: table[n] for n in WORLDS if n in table}, indent=1) + "\n")
        told = [_cell(row.get(p)) for p in ("quick", "strong")]
        print(
            f"{name:32s} {row['truth']:.3f}  quick {told[0]}  strong {told[1]}  certificate {row['certificate']}",
            flush=True,
        )
    for preset in ("quick", "strong"):
        rows = {n: r[preset] for n, r in table.items() if preset in r and "refused" not in r[preset]}
        missed = [n for n, r in rows.items() if not r["found"]]
        print(f"{preset}: {len(rows) - len(missed)} of {len(rows)} found; missed: {', '.join(missed) or 'none'}")


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    if "refused" in found:
        return "refused"
    mark = "" if found["found"] else " MISSED"
    return f"{found['value']:.3f}{mark} ({found['by']}, {found['seconds']} s)"


if __name__ == "__main__":
    main()
