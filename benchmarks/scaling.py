"""Time and memory against rows, columns, codes and heads, with fitted exponents.

    python benchmarks/scaling.py [--most 5000000] [--only rows]

Synthetic data: the target follows a few columns, the secrets follow others. Each measurement is a process of its
own: seconds of the processor for the fit alone, peak memory less that before the data were made. EIGAN plays one
epoch (batch 4,096), CodebookFilter learns from posteriors of two folds (and, "raw", three epochs of a network);
"count" is the certificate and the counting attacker on so many released codes. The exponent is the slope of
log time against log size over the upper half of the sizes, where fixed costs no longer show. Writes
benchmarks/scaling.json as it goes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

BASE = {"rows": 20_000, "columns": 10, "codes": 16, "heads": 1}
SWEEPS = {
    "rows": [10_000, 50_000, 200_000, 1_000_000, 5_000_000],
    "columns": [10, 50, 200, 1000, 2000],
    "codes": [4, 16, 64, 256, 1024],
    "heads": [1, 2, 4, 8, 16],
}
METHODS = {
    "rows": ("eigan", "codebook", "raw", "count"),
    "columns": ("eigan", "codebook", "raw"),
    "codes": ("codebook", "raw", "count"),
    "heads": ("eigan", "codebook", "raw"),
}


def made_up(rows: int, columns: int, heads: int):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32).astype(np.float64)
    y = (X[:, 0] + X[:, 1] + rng.standard_normal(rows) > 0).astype(int)
    S = {f"s{i}": (X[:, 1] + X[:, 2 + i % 8] + rng.standard_normal(rows) > 0).astype(int) for i in range(heads)}
    return X, y, S


def measure(method: str, rows: int, columns: int, codes: int, heads: int) -> dict[str, float]:
    import pandas as pd

    import tacit
    from tacit.audit.attackers import Counting
    from tacit.audit.certificate import certify

    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    X, y, S = made_up(rows, columns, heads)
    if method == "count":
        cells = np.random.default_rng(1).integers(codes, size=rows)
        began, used = time.perf_counter(), time.process_time()
        certify(cells, S["s0"], 2)
        Counting().fit(cells[:, None].astype(float), S["s0"]).predict_proba(cells[:, None].astype(float))
    else:
        f = {
            "eigan": lambda: tacit.EIGAN(4, epochs=1, batch_size=4096, random_state=0),
            "codebook": lambda: tacit.CodebookFilter(codes, n_folds=2, random_state=0),
            "raw": lambda: tacit.CodebookFilter(codes, features="raw", epochs=3, random_state=0),
        }[method]()
        began, used = time.perf_counter(), time.process_time()
        f.fit(X, y, sensitive_features=pd.DataFrame(S))
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    return {"seconds": cpu, "clock": seconds, "gb": peak}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--most", type=int, default=5_000_000)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--method", default="")
    arguments.add_argument("--measure", default=None)
    arguments.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    chosen = arguments.parse_args()
    if chosen.measure:
        print(json.dumps(measure(**json.loads(chosen.measure))))
        return
    out = Path(chosen.out)
    results = json.loads(out.read_text()) if out.exists() else {}
    for sweep, sizes in SWEEPS.items():
        if chosen.only not in sweep:
            continue
        for method in METHODS[sweep]:
            if chosen.method not in method:
                continue
            points: list[dict] = []
            for size in sizes:
                if size > chosen.most:
                    continue
                settings = {"method": method, **BASE, sweep: size}
                command = [sys.executable, __file__, "--measure", json.dumps(settings)]
                ran = subprocess.run(command, capture_output=True, text=True)
                if ran.returncode:
                    print(f"{method}, {size:,} {sweep}: failed: {ran.stderr.strip().splitlines()[-1]}", flush=True)
                    break
                points.append({"size": size, **json.loads(ran.stdout.splitlines()[-1])})
                line = points[-1]
                print(f"   {method}, {size:,} {sweep}: {line['seconds']:.1f} s, {line['gb']:.2f} GB", flush=True)
            exponents = {key: exponent(points, key) for key in ("seconds", "gb")}
            results[f"{method} by {sweep}"] = {"points": points, "exponents": exponents}
            print(f"{method} by {sweep}: time grows as size^{exponents['seconds']:.2f}, memory ^{exponents['gb']:.2f}")
            out.write_text(json.dumps(results, indent=1))


def exponent(points: list[dict], key: str) -> float:
    upper = points[len(points) // 2 :] if len(points) > 3 else points[-2:]
    if len(upper) < 2:
        return float("nan")
    size, value = (np.log([max(p[k], 1e-3) for p in upper]) for k in ("size", key))
    return float(np.polyfit(size, value, 1)[0])


if __name__ == "__main__":
    main()
