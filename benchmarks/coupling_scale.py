"""How long CouplingFilter takes: Adult, a frontier of eight strengths, and a million made-up rows.

    python benchmarks/coupling_scale.py [--only adult|frontier|rows] [--rows 1000000]

Each measurement is a process of its own on two threads: seconds of the clock and of the processor (where others use the
machine too, the clock is slower), and peak memory. "frontier" is what `tacit.frontier` does before its attackers: eight
filters learned together (`fit_points`), and one. "rows" are 15 columns (numbers, words, a date; one of them sensitive):
the fit, the release of a Parquet file by two processes, and `transform` of the bundle in one process. Writes
benchmarks/coupling_scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LEFT_OUT = ["fnlwgt", "education-num"]
KEY = b"a key of this benchmark only ..."


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--measure", default="")
    chosen = arguments.parse_args()
    if chosen.measure:
        warnings.simplefilter("ignore")
        found = MEASURES[chosen.measure](chosen.rows)
        print(json.dumps(found | {"gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))
        return
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in (n for n in MEASURES if chosen.only in ("", n)):
        command = [sys.executable, __file__, "--measure", name, "--rows", str(chosen.rows)]
        ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
        if ran.returncode:
            sys.exit(ran.stderr)
        results[name] = json.loads(ran.stdout.splitlines()[-1]) | {"load": os.getloadavg()[0]}
        print(f"{name}: " + ", ".join(f"{k} {v:,.2f}" for k, v in results[name].items()), flush=True)
        out.write_text(json.dumps(results, indent=1) + "\n")


def timed(name: str, work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    began, used = time.perf_counter(), time.process_time()
    made = work()
    return {f"{name}_seconds": time.perf_counter() - began, f"{name}_cpu": time.process_time() - used}, made


def adult_rows():
    import tacit

    data = tacit.load_dataset("adult")
    whole = tacit.Dataset(data.X.drop(columns=LEFT_OUT), data.y, data.sensitive[["sex"]], official=data.official)
    return whole.split("official")[0]


def adult(rows: int) -> dict[str, float]:
    import tacit

    train = adult_rows()
    f = tacit.CouplingFilter(random_state=0)
    return timed("fit", lambda: f.fit(train.X, train.y, sensitive_features=train.sensitive))[0]


def frontier(rows: int) -> dict[str, float]:
    import tacit
    from tacit.tradeoff.fitting import fit_points
    from tacit.tradeoff.points import lay_out

    train = adult_rows()
    f = tacit.CouplingFilter()
    points = lay_out({"coupling": f}, 8, 1, None)
    one, _ = timed("one", lambda: fit_points(f, points[:1], train))
    eight, _ = timed("eight", lambda: fit_points(f, points, train))
    return {**one, **eight, "cpu_in_fits": eight["eight_cpu"] / one["one_cpu"]}


def million(rows: int) -> dict[str, float]:
    import tacit

    table = made_up(rows)
    f = tacit.CouplingFilter(random_state=0)
    found, _ = timed("fit", lambda: f.fit(table.drop(columns="sex"), sensitive_features=table["sex"]))
    with tempfile.TemporaryDirectory() as folder:
        bundle = tacit.save(f, f"{folder}/table.tacit")
        table.to_parquet(f"{folder}/raw.parquet")
        files = f"{folder}/raw.parquet", f"{folder}/out.parquet"
        bulk, _ = timed("bulk", lambda: tacit.release.apply(bundle, *files, noise_key=KEY, n_jobs=2))
        release = tacit.load(bundle, noise_key=KEY)
        own, _ = timed("transform", lambda: release.transform(table))
    seconds = {
        "bulk": bulk["bulk_seconds"],
        "transform": own["transform_seconds"],
        "transform_cpu": own["transform_cpu"],
    }
    return found | {f"{name}_rows_a_second": rows / taken for name, taken in seconds.items()}


def made_up(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    s = rng.integers(2, size=rows)
    columns: dict[str, Any] = {"sex": np.where(s, "f", "m").astype(object)}
    for j in range(7):
        columns[f"number{j}"] = (rng.standard_normal(rows) + 0.3 * (j % 3) * s).round(3)
    columns["number0"][rng.random(rows) < 0.05] = np.nan
    columns["age"] = rng.integers(18, 90, rows) + 3 * s
    for j in range(5):
        words = np.array([f"word{i}" for i in range(4 + 6 * j)], dtype=object)
        columns[f"word{j}"] = words[np.minimum(rng.geometric(0.2 + 0.05 * s), len(words)) - 1]
    columns["day"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 8000, rows) + 300 * s, unit="D")
    return pd.DataFrame(columns)


MEASURES = {"adult": adult, "frontier": frontier, "rows": million}

if __name__ == "__main__":
    main()
