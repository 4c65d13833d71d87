"""How long the audit's presets take, and what they find, on data of the stated sizes.

    python benchmarks/audit.py [--only quick]
    python benchmarks/audit.py --scaling      (the strong preset's time against rows and against classes)

45,000 rows x 8 columns with a binary secret, and 10,000 x 50 with 30 classes (Gaussian classes, two thirds
of the rows to learn from, one third to test), leakage alone; then the whole audit (utility, floor, limit,
reconstruction) of 8 principal components of Adult and of 50 of HAR. Prints seconds on the clock and of the
processor (on a busy machine the clock says more), peak memory and every attacker.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from tacit import audit, load_dataset
from tacit.records.dataset import Dataset
from tacit.records.encoding import make_encoder

SIZES = {"45k x 8, 2 classes": (45_000, 8, 2), "10k x 50, 30 classes": (10_000, 50, 30)}
LIMITS = {
    ("quick", "45k x 8, 2 classes"): 10,
    ("strong", "45k x 8, 2 classes"): 90,
    ("strong", "10k x 50, 30 classes"): 90,
}


ROWS = (3_000, 10_000, 30_000, 100_000)  # x 8 columns, 2 classes
CLASSES = (2, 8, 32)  # in 6,000 rows x 8 columns
REAL = (("quick", "adult", 8, None), ("strong", "adult", 8, 90), ("strong", "uci_har", 50, 90))


def measure(name: str, limit: int | None, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Audit, and print what it took and found."""
    began, used = time.perf_counter(), time.process_time()
    found = next(iter(audit(*arguments, **options).leakage.values()))
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    each = ", ".join(f"{k} {v.value:.3f}" for k, v in found.attackers.items())
    print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of a processor (limit {limit} s), {peak:.2f} GB; {each}", flush=True)
    return {"seconds": seconds, "cpu_seconds": cpu, "limit": limit, "peak_gb": peak, "leakage": found.value}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--scaling", action="store_true")
    chosen = arguments.parse_args()
    only = chosen.only
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if out.exists() else {}
    if chosen.scaling:
        results["strong, scaling"] = scaling()
        out.write_text(json.dumps(results, indent=1))
        return
    for (preset, size), limit in LIMITS.items():
        if only not in preset:
            continue
        attack, test = made_up(*SIZES[size])
        name = f"{preset}, {size}"
        results[name] = measure(
            name, limit, (attack.X, test.X), attack, test, preset, measurements=["no-baseline", "no-reconstruction"]
        )
    for preset, data_set, components, limit in REAL:
        if only not in preset:
            continue
        train, attack, test = load_dataset(data_set).split((0.2, 0.4, 0.4), random_state=0)
        encoder = make_encoder(train.X if isinstance(train.X, pd.DataFrame) else np.asarray(train.X, float))
        pca = PCA(components, random_state=0).fit(encoder.transform(train.X))
        pair = tuple(pca.transform(encoder.transform(part.X)) for part in (attack, test))
        name = f"{preset}, {data_set}, whole audit"
        results[name] = measure(name, limit, pair, attack, test, preset)
    out.write_text(json.dumps(results, indent=1))


def made_up(n: int, d: int, m: int) -> tuple[Dataset, ...]:
    rng = np.random.default_rng(0)
    s = rng.integers(m, size=n)
    X = rng.standard_normal((n, d)) + 0.25 * rng.standard_normal((m, d))[s]
    X[:, 0] *= 1 + (s == 0)  # something a linear attacker cannot see
    return Dataset(X, None, s).split((2 / 3, 1 / 3))


def scaling() -> dict[str, Any]:
    """Seconds of a processor against rows and classes, with the slope of their logarithms between neighbours."""
    results: dict[str, Any] = {}
    for what, sizes in (("rows", [(n, 8, 2) for n in ROWS]), ("classes", [(6_000, 8, m) for m in CLASSES])):
        points = []
        for n, d, m in sizes:
            attack, test = made_up(n, d, m)
            name = f"strong, {n:,} x {d}, {m} classes"
            found = measure(
                name,
                None,
                (attack.X, test.X),
                attack,
                test,
                "strong",
                measurements=["no-baseline", "no-reconstruction"],
            )
            points.append({"size": n if what == "rows" else m, **found})
        logs = np.log([[p["size"], p["cpu_seconds"]] for p in points])
        slopes = (np.diff(logs[:, 1]) / np.diff(logs[:, 0])).round(2).tolist()
        print(f"strong by {what}: exponents {slopes} (an attacker learns from 30,000 rows at most)", flush=True)
        results[what] = {"points": points, "exponents": slopes}
    return results


if __name__ == "__main__":
    main()
