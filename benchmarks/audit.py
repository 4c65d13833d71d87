"""How long the audit's presets take, and what they find, on data of the stated sizes.

    python benchmarks/audit.py [--only quick]

45,000 rows x 8 columns with a binary secret, and 10,000 x 50 with 30 classes (Gaussian classes, two thirds
of the rows to learn from, one third to test). Prints seconds, peak memory and the best attacker.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from tacit import audit
from tacit.dataset import Dataset

SIZES = {"45k x 8, 2 classes": (45_000, 8, 2), "10k x 50, 30 classes": (10_000, 50, 30)}
LIMITS = {
    ("quick", "45k x 8, 2 classes"): 10,
    ("strong", "45k x 8, 2 classes"): 90,
    ("strong", "10k x 50, 30 classes"): 90,
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    only = arguments.parse_args().only
    results = {}
    for (preset, size), limit in LIMITS.items():
        if only not in preset:
            continue
        n, d, m = SIZES[size]
        rng = np.random.default_rng(0)
        s = rng.integers(m, size=n)
        X = rng.standard_normal((n, d)) + 0.25 * rng.standard_normal((m, d))[s]
        X[:, 0] *= 1 + (s == 0)  # something a linear attacker cannot see
        attack, test = Dataset(X, None, s).split((2 / 3, 1 / 3))
        began = time.perf_counter()
        found = audit((attack.X, test.X), attack, test, attackers=preset, floor=False).leakage["sensitive"]
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        results[f"{preset}, {size}"] = {"seconds": seconds, "limit": limit, "peak_gb": peak, "leakage": found.value}
        each = ", ".join(f"{k} {v.value:.3f}" for k, v in found.attackers.items())
        print(f"{preset:6s} {size}: {seconds:.1f} s (limit {limit} s), {peak:.2f} GB; {each}", flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
