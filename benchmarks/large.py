"""Large tables: `apply` over Parquet files of 1, 10 and 100 million rows x 4 columns, against bare onnxruntime.

    python benchmarks/large.py [--most 100000000] [--filter raw] [--folder PLACE]

Bare onnxruntime is a loop of twenty lines over the same file: it reads batches with pyarrow, runs the bundle's graph on
4,096 rows at a time on as many threads, and writes the release as Parquet; "unwritten" leaves the writing out, and so
does less than the job. Bare makes no check. Each run is a process of its own (its start is in its
clock, not in its processor time) and alternates with the other; the figure is the ratio of the fastest of `--repeats`.
Memory is a process's peak (VmHWM). The filters: "raw" is `CodebookFilter(16, features="raw")`, a small network with 16
cells; "trees" is the usual codebook, whose trees cost more; "eigan" is an encoder whose eight numbers a
row take longer to write than to compute. "fit" is `tacit fit` of the same table on a sample of 100,000 rows
(linear-arl), every row released. Exponents are slopes of least squares of log seconds (or MB) against log rows. Writes
benchmarks/large.json as it goes; files lie in --folder (4 GB for 100 million rows, and the release) and are removed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = [1_000_000, 10_000_000, 100_000_000]
NAMES = ["a", "b", "c", "d"]
BATCH, CHUNK = 65536, 4096


def made_up(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = (X[:, 0] + X[:, 1] + rng.standard_normal(n) > 0).astype(np.int8)
    s = (X[:, 1] + X[:, 2] + rng.standard_normal(n) > 0).astype(np.int8)
    return pa.table([*X.T, y, s], names=[*NAMES, "y", "s"])


def write(path: Path, rows: int) -> None:
    step = 1_000_000
    with pq.ParquetWriter(path, made_up(1, 0).schema) as writer:
        for i in range(0, rows, step):
            writer.write_table(made_up(min(step, rows - i), i))


def prepare(folder: Path, which: str) -> None:
    import tacit

    train = made_up(20_000, 2**31).to_pandas()
    f: Any = {
        "raw": tacit.CodebookFilter(16, features="raw", epochs=3, random_state=0),
        "trees": tacit.CodebookFilter(16, random_state=0),
        "eigan": tacit.EIGAN(8, epochs=1, random_state=0),
    }[which]
    f.fit(train[NAMES], train["y"], sensitive_features=train["s"])
    tacit.save(f, folder / f"{which}.tacit")


def bare(bundle: str, source: str, target: str) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    with zipfile.ZipFile(bundle) as archive:
        session = onnxruntime.InferenceSession(archive.read("model.onnx"), options, providers=["CPUExecutionProvider"])
    writer = None
    for batch in pq.ParquetFile(source).iter_batches(BATCH, columns=NAMES):
        X = np.column_stack([batch.column(i) for i in range(4)])
        parts = [session.run(["release"], {"numbers": X[i : i + CHUNK]})[0] for i in range(0, len(X), CHUNK)]
        if target:
            out = np.concatenate(parts).astype(float)
            table = pa.table([pa.array(c) for c in out.T], names=[f"z{i}" for i in range(out.shape[1])])
            writer = writer or pq.ParquetWriter(target, table.schema, use_dictionary=False)
            writer.write_table(table)
    if writer is not None:
        writer.close()


def one(task: str, bundle: str, source: str, target: str) -> None:
    """One run, in a process of its own."""
    if task == "apply":
        from tacit.release import apply

        began, used = time.perf_counter(), time.process_time()
        apply(bundle, source, target)
    elif task == "fit":
        from tacit.cli import main

        began, used = time.perf_counter(), time.process_time()
        sys.argv = ["tacit", "fit", source, "--target", "y", "--sensitive", "s", "--filter", "linear-arl"]
        sys.argv += ["--set", "sample_rows=100000", "--set", "shuffle=false", "--out", target]
        with contextlib.suppress(SystemExit):  # how a command ends
            main()
        assert pq.read_metadata(Path(target) / "release.parquet").num_rows
    else:
        began, used = time.perf_counter(), time.process_time()
        bare(bundle, source, target if task == "bare" else "")
    took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert peak is not None
    print("\n" + json.dumps({**took, "peak MB": int(peak[1]) * 1024 / 1e6}))


def best(task: str, bundle: Path, source: Path, target: Path, before: dict | None) -> dict:
    command = [sys.executable, __file__, "--one", task, str(bundle), str(source), str(target)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return told if before is None else {
        "seconds": min(told["seconds"], before["seconds"]),
        "cpu": min(told["cpu"], before["cpu"]),
        "peak MB": max(told["peak MB"], before["peak MB"]),
    }  # fmt: skip


def exponent(points: list[dict], task: str, key: str) -> float | None:
    known = [(p["rows"], p[task][key]) for p in points if task in p]
    return float(np.polyfit(*np.log(np.array(known)).T, 1)[0]) if len(known) > 1 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--filter", choices=["raw", "trees", "eigan"], default="raw")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(*given.one)
        return
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    points: list[dict] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        prepare(Path(folder), given.filter)
        bundle = Path(folder) / f"{given.filter}.tacit"
        for rows in (r for r in SIZES if r <= given.most):
            point = measure(Path(folder), bundle, rows, given.repeats if rows < SIZES[-1] else 1)
            points.append(point)
            print(json.dumps(point), flush=True)
            tasks = ("bare", "apply", "fit")
            threads = os.environ.get("OMP_NUM_THREADS") or "all"
            found[f"{given.filter}, threads: {threads}"] = {
                "cores": os.cpu_count(),
                "points": points,
                "exponents": {t: {k: exponent(points, t, k) for k in ("cpu", "peak MB")} for t in tasks},
            }
            given.out.write_text(json.dumps(found, indent=1) + "\n")


def measure(folder: Path, bundle: Path, rows: int, repeats: int) -> dict:
    source, target = folder / f"{rows}.parquet", folder / "out.parquet"
    write(source, rows)
    point: dict = {"rows": rows, "file MB": round(source.stat().st_size / 1e6), "load": os.getloadavg()[0]}
    for _ in range(repeats):
        for task in ("unwritten", "bare", "apply"):
            point[task] = best(task, bundle, source, target, point.get(task))
            target.unlink(missing_ok=True)
    if bundle.stem == "raw" and os.environ.get("OMP_NUM_THREADS"):
        point["fit"] = best("fit", bundle, source, folder / "fitted", None)
    source.unlink()
    for task in ("unwritten", "bare"):
        point[f"apply, share of {task}"] = {k: point[task][k] / point["apply"][k] for k in ("seconds", "cpu")}
    return point


if __name__ == "__main__":
    main()
