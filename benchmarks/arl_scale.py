"""LinearARL and KernelARL at a million rows: time and peak memory, against the rows themselves.

    python benchmarks/arl_scale.py [--rows 1000000] [--columns 20]

Each is fitted in a process of its own, so that its peak is its own; "data" is the same process without a fit. An exact
kernel would need rows^2 numbers (8 TB at a million rows). Prints figures and writes benchmarks/arl_scale.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from pathlib import Path

import numpy as np


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--columns", type=int, default=20)
    chosen = arguments.parse_args()
    results = {}
    context = multiprocessing.get_context("spawn")
    for rows in (chosen.rows // 10, chosen.rows):
        for name in ("data", "LinearARL", "KernelARL"):
            with context.Pool(1) as pool:
                figures = pool.apply(measure, (name, rows, chosen.columns))
            results[f"{name}, {rows:,} rows"] = figures
            print(
                f"{name:10s} {rows:9,d} rows: fit {figures['fit_seconds']:6.1f} s, release "
                f"{figures['release_seconds']:5.1f} s, peak {figures['peak_gb']:.2f} GB",
                flush=True,
            )
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=1))


def measure(name: str, rows: int, columns: int) -> dict[str, float]:
    from tacit import baselines  # in the process that is measured

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=rows), rng.integers(2, size=rows)
    X = rng.standard_normal((rows, columns))
    X[:, 0] += y
    X[:, 1] += s
    fit_seconds = release_seconds = 0.0
    if name != "data":
        f = getattr(baselines, name)(random_state=0)
        began = time.perf_counter()
        f.fit(X, y, sensitive_features=s)
        fit_seconds = time.perf_counter() - began
        began = time.perf_counter()
        f.transform(X)
        release_seconds = time.perf_counter() - began
    return {
        "fit_seconds": round(fit_seconds, 2),
        "release_seconds": round(release_seconds, 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
    }


if __name__ == "__main__":
    main()
