"""What the presets read from the repository's data sets, before look-ups, probes, ensembles and the stack, and after.

    python benchmarks/strong.py [--only adult] [--preset quick]

Raw records of each set (a few thousand rows), and a filtered release of Adult; leakage of the first sensitive
attribute. `before` is the presets' lists of attackers of version 6cf435d, by name. Prints the chosen attacker's
balanced accuracy with its interval and the seconds of a processor. The targets: strong at least what it was (-.005)
everywhere and .01 higher on three sets; quick at most 1.2 times as slow.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import tacit
from tacit.auditing.attackers import ATTACKERS, PRESETS
from tacit.auditing.suite import MAX_ROWS, AttackSuite
from tacit.auditing.trial import Trial
from tacit.datasets import declarations

BEFORE = {
    "quick": ("logistic", "trees", "mlp", "neighbors"),
    "strong": ("logistic", "trees", "mlp", "neighbors", "rbf", "forest"),
}
SHAPED_BEFORE = ("convolutional", "spectrum")
# rows that are used; windows and images as they are
SETS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "titanic": ("titanic", 891, {}),
    "diabetes": ("diabetes", 442, {"classes": True}),
    "quadrants": ("quadrants", 2000, {}),
    "digits": ("digits", 1797, {}),
    "mimic_demo": ("mimic_demo", 129, {}),
    "emodb": ("emodb", 535, {}),
    "adult": ("adult", 6000, {}),
    "adult, 4 principal components": ("adult", 6000, {}),
    "uci_har": ("uci_har", 2000, {}),
    "motionsense": ("motionsense", 2000, {}),
    "orl_faces": ("orl_faces", 400, {}),
    "cmu_faces": ("cmu_faces", 700, {}),
}


def load(name: str, rows: int, options: dict[str, Any]) -> tuple[Any, Any]:
    """Two parts of some of the records: to attack with, and to test on."""
    data = tacit.load_dataset(name, **options)
    if len(data) > rows:
        data = data.take(np.sort(np.random.default_rng(0).permutation(len(data))[:rows]))
    return data.split((0.5, 0.5), random_state=0)


def suite_of(preset: str, before: bool) -> AttackSuite:
    if not before:
        return AttackSuite(preset)
    attackers: dict[str, Any] = {
        name: (PRESETS[preset] if name in ("trees", "mlp") else ATTACKERS)[name] for name in BEFORE[preset]
    }
    return AttackSuite({**attackers, **dict.fromkeys(SHAPED_BEFORE)}, max_rows=MAX_ROWS[preset])


def measure(name: str, preset: str, before: bool) -> dict[str, Any]:
    attack, test = load(*SETS[name])
    Za, Zt = attack.X, test.X
    if "components" in name:
        from sklearn.decomposition import PCA

        from tacit.records.encoding import make_encoder

        encoder = make_encoder(attack.X)
        pca = PCA(4, random_state=0).fit(encoder.transform(attack.X))
        Za, Zt = (pca.transform(encoder.transform(X)) for X in (Za, Zt))
    suite = suite_of(preset, before)
    task = Trial((attack, test), (Za, Zt)).tasks("sensitive")[0]
    used = time.process_time()
    outcome = suite.run(task)
    seconds = time.process_time() - used
    result = suite.result(outcome, "balanced_accuracy", 0.95)
    each = {k: round(m.value, 4) for k, m in result.attackers.items()}
    return {
        "attribute": task.attribute, "value": round(result.value, 4), "low": round(result.low, 4),
        "high": round(result.high, 4), "guessing": round(result.guessing, 4), "attacker": result.attacker,
        "seconds": round(seconds, 2), "attackers": each,
    }  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--preset", default="")
    arguments.add_argument("--jobs", type=int, default=1)
    chosen = arguments.parse_args()
    out = Path(__file__).with_suffix(".json")
    table = json.loads(out.read_text()) if out.exists() else {}
    wanted = [
        (name, preset)
        for preset in ("strong", "quick")
        for name, (source, _, _) in SETS.items()
        if chosen.only in name and chosen.preset in preset and declarations()[source].present
    ]
    found = Parallel(chosen.jobs, return_as="generator_unordered")(delayed(both)(*w) for w in wanted)
    for name, preset, old, new in found:
        ratio = round(new["seconds"] / old["seconds"], 2)
        table.setdefault(name, {})[preset] = {"before": old, "after": new, "time ratio": ratio}
        print(
            f"{name}, {old['attribute']}, {preset}: {old['value']:.3f} [{old['low']:.3f}, {old['high']:.3f}] "
            f"{old['attacker']} {old['seconds']:.1f} s -> {new['value']:.3f} [{new['low']:.3f}, {new['high']:.3f}] "
            f"{new['attacker']} {new['seconds']:.1f} s (x {ratio:.2f})",
            flush=True,
        )
        out.write_text(json.dumps(table, indent=1) + "\n")


def both(name: str, preset: str) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    old, new = (measure(name, preset, before) for before in (True, False))
    return name, preset, old, new


if __name__ == "__main__":
    main()
