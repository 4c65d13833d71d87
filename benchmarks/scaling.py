"""Time and memory against rows, columns, codes, heads and points, with fitted exponents.

    python benchmarks/scaling.py [--most 5000000] [--only rows] [--method audit] [--figures]

Synthetic data: the target follows a few columns, the secrets follow others. Each measurement is a process of its
own: seconds of the processor for the fit alone, peak memory less that before the data were made (of "release", "audit"
and "frontier": before they began). EIGAN plays one epoch (batch 4,096), CodebookFilter learns from posteriors of two
folds (and, "raw", three epochs of a network); "count" is the certificate and the counting attacker on so many released
codes. "release" is `apply` of a Parquet file by a codebook of a network ("raw"), "audit" a quick audit of it,
"frontier" a frontier of it with so many points of three epochs, quickly audited, in one process; these start from 8,000
rows (a release from 200,000) and 4 points. The exponent is the slope of least squares of log time against log size over
the upper half of the sizes, at least three of them, where fixed costs show less. Writes benchmarks/scaling.json as it
goes; --figures draws docs/costs-*.svg from it and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

BASE = {"rows": 20_000, "columns": 10, "codes": 16, "heads": 1}
SWEEPS = {
    "rows": [10_000, 50_000, 200_000, 1_000_000, 5_000_000],
    "columns": [10, 50, 200, 1000, 2000],
    "codes": [4, 16, 64, 256, 1024],
    "heads": [1, 2, 4, 8, 16],
    "points": [2, 4, 8],
}
SMALL = {"rows": 8000, "columns": 10, "codes": 16, "heads": 1, "points": 4}  # of the methods that learn attackers too
SMALL_SWEEPS = {
    "rows": [4000, 16_000, 64_000],
    "columns": [10, 40, 160],
    "codes": [4, 16, 64],
    "heads": [1, 2, 4],
    "points": [2, 4, 8],
}
WHOLE = ("release", "audit", "frontier")
METHODS = {
    "rows": ("eigan", "codebook", "raw", "count", *WHOLE),
    "columns": ("eigan", "codebook", "raw", *WHOLE),
    "codes": ("codebook", "raw", "count", *WHOLE),
    "heads": ("eigan", "codebook", "raw", *WHOLE),
    "points": ("frontier",),
}


def made_up(rows: int, columns: int, heads: int):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32).astype(np.float64)
    y = (X[:, 0] + X[:, 1] + rng.standard_normal(rows) > 0).astype(int)
    S = {f"s{i}": (X[:, 1] + X[:, 2 + i % 8] + rng.standard_normal(rows) > 0).astype(int) for i in range(heads)}
    return X, y, S


def whole(method: str, rows: int, columns: int, codes: int, heads: int, points: int) -> Callable[[], object]:
    """What is measured of a release, an audit or a frontier, ready to run."""
    import pandas as pd

    import tacit

    X, y, S = made_up(rows, columns, heads)
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(columns)])
    f = tacit.CodebookFilter(codes, features="raw", epochs=3, random_state=0)
    if method == "release":
        few, folder = slice(0, 8000), Path(tempfile.mkdtemp())
        f.fit(table[few], y[few], sensitive_features=pd.DataFrame(S)[few])
        bundle = tacit.save(f, folder / "f.tacit")
        table.to_parquet(folder / "in.parquet")
        return lambda: tacit.release.apply(bundle, folder / "in.parquet", folder / "out.parquet")
    data = tacit.Dataset(table, pd.DataFrame({"y": y}), pd.DataFrame(S), units="rows")
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=0)
    if method == "frontier":
        return lambda: tacit.frontier(f, train, attack, test, values=points, seeds=1, attackers="quick", n_jobs=1)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return lambda: tacit.audit(f, attack, test, floor=False, breadth=False, random_state=0)


def measure(method: str, rows: int, columns: int, codes: int, heads: int, points: int = 0) -> dict[str, float]:
    import pandas as pd

    import tacit
    from tacit.auditing.attackers import Counting
    from tacit.auditing.certificate import certify

    warnings.simplefilter("ignore")
    if method in WHOLE:
        run = whole(method, rows, columns, codes, heads, points)
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        held, began, used = _memory("VmRSS"), time.perf_counter(), time.process_time()
        run()
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        return {"seconds": cpu, "clock": seconds, "gb": _memory("VmHWM") - held}
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


def _memory(what: str) -> float:
    """Of this process, in GB."""
    return int(Path("/proc/self/status").read_text().split(f"{what}:")[1].split()[0]) / 2**20


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--most", type=int, default=5_000_000)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--method", default="")
    arguments.add_argument("--measure", default=None)
    arguments.add_argument("--figures", action="store_true")
    arguments.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    chosen = arguments.parse_args()
    if chosen.figures:
        draw(json.loads(Path(chosen.out).read_text()))
        return
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
            for size in SMALL_SWEEPS[sweep] if method in WHOLE else sizes:
                if size > chosen.most:
                    continue
                settings = {"method": method, **(SMALL if method in WHOLE else BASE), sweep: size}
                settings["rows"] *= 25 if method == "release" else 1
                command = [sys.executable, __file__, "--measure", json.dumps(settings)]
                ran = subprocess.run(command, capture_output=True, text=True)
                if ran.returncode:
                    print(f"{method}, {size:,} {sweep}: failed: {ran.stderr.strip().splitlines()[-1]}", flush=True)
                    break
                points.append({"size": settings[sweep], **json.loads(ran.stdout.splitlines()[-1])})
                line = points[-1]
                print(
                    f"   {method}, {line['size']:,} {sweep}: {line['seconds']:.1f} s, {line['gb']:.2f} GB", flush=True
                )
            exponents = {key: exponent(points, key) for key in ("seconds", "gb")}
            results[f"{method} by {sweep}"] = {"points": points, "exponents": exponents}
            print(f"{method} by {sweep}: time grows as size^{exponents['seconds']:.2f}, memory ^{exponents['gb']:.2f}")
            out.write_text(json.dumps(results, indent=1))


def exponent(points: list[dict], key: str) -> float:
    upper = points[min(len(points) // 2, max(0, len(points) - 3)) :]
    if len(upper) < 2:
        return float("nan")
    size, value = (np.log([max(p[k], 1e-3) for p in upper]) for k in ("size", key))
    return float(np.polyfit(size, value, 1)[0])


def draw(results: dict) -> None:
    """One figure for each quantity: seconds and memory of a fit, a release, an audit and a frontier."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.rcParams |= {"svg.hashsalt": "tacit", "svg.fonttype": "none", "font.size": 9}
    for sweep in SWEEPS:
        figure, panels = plt.subplots(1, 2, figsize=(7.2, 2.8), constrained_layout=True)
        for panel, (key, unit) in zip(
            panels, (("seconds", "processor seconds"), ("gb", "GB above the start")), strict=True
        ):
            for method, label in (("codebook", "fit"), *((m, m) for m in WHOLE)):
                told = results.get(f"{method} by {sweep}")
                if told is not None:
                    told["exponents"][key] = exponent(told["points"], key)
                    size, value = ([max(p[k], 1e-3) for p in told["points"]] for k in ("size", key))
                    panel.loglog(size, value, "o-", label=f"{label}: {sweep}^{told['exponents'][key]:.2f}")
            panel.set(xlabel=sweep, ylabel=unit)
            panel.legend(frameon=False, fontsize=8)
        figure.savefig(Path(__file__).parent.parent / "docs" / f"costs-{sweep}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
