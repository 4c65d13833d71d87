"""Releasing where the data lives: files against plain onnxruntime, memory, and the latency of a stream.

    python benchmarks/release.py [--rows 200000] [--parquet-mb 1000] [--out FILE]

1. Throughput. Releasing a file against plain onnxruntime on the same arrays in memory: what checks and files
   cost. The filter is an EIGAN encoder of two hidden layers of 256 on 64 numbers. Both sides run the bundle's own
   graph, alternating in one process; plain onnxruntime is given whichever of two batch sizes suits it better. The
   figure is the ratio of the fastest runs, by the clock and by processor time (which a busy machine disturbs less). It
   is measured on one thread and on all cores, each in a process of its own.
2. Memory. The peak (VmHWM) of a process that releases a Parquet file that is one single row group, made on the fly.
3. Latency. Samples of an anonymizing autoencoder's windows (2 x 128, 100 maps) through `Sensors`, as `tacit release
   stream --windows` does, line by line on one core: the time of each sample that completes a window.
4. Jobs. Files by one process and by two, each on one thread: how many times as fast two are, with their start. Once
   for the small network (the npz above, and a tenth of its rows as CSV), once for the autoencoder on twenty times as
   many windows as `--windows` says; by the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import tacit
from tacit.nets.mlp import mlp
from tacit.noise.keyed import new_key
from tacit.release.bulk import apply
from tacit.release.sensors import Sensors

CHUNK = 65536
COLUMNS = 64


def encoder(n_in: int, n_out: int):
    return mlp(n_in, n_out, hidden=(256, 256))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parquet-mb", type=int, default=1000)
    parser.add_argument("--windows", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--only", choices=["throughput", "memory", "latency", "jobs"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:  # a process of its own
        print(json.dumps(globals()[given.only](given)))
        return
    found: dict = {"rows": given.rows, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        prepare(given, Path(folder))
        for name, part, threads in (
            ("one thread", "throughput", "1"),
            ("all cores", "throughput", None),
            ("memory", "memory", "1"),
            ("latency", "latency", "1"),
            ("jobs", "jobs", "1"),
        ):
            found[name] = alone(given, folder, part, threads)
            tell(name, found[name])
            given.out.write_text(json.dumps(found, indent=1) + "\n")


def alone(given: argparse.Namespace, folder: str, part: str, threads: str | None) -> dict:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = threads
    arguments = [f"--{k}={getattr(given, k.replace('-', '_'))}" for k in ("rows", "repeats", "parquet-mb", "windows")]
    run = [sys.executable, __file__, *arguments, f"--only={part}", f"--folder={folder}"]
    return json.loads(subprocess.run(run, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def prepare(given: argparse.Namespace, here: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.rows, COLUMNS))
    y, s = (X[:2000, :2] > 0).T.astype(int)
    f = tacit.EIGAN(8, epochs=1, encoder=encoder, random_state=0).fit(X[:2000], y, sensitive_features=s)
    tacit.save(f, here / "mlp.tacit")
    np.savez(here / "in.npz", X=X)
    names = [f"x{i}" for i in range(COLUMNS)]
    pq.write_table(pa.table(list(X.T), names=names), here / "in.parquet", row_group_size=CHUNK)
    pacsv.write_csv(pa.table(list(X[: max(1, given.rows // 10)].T), names=names), here / "in.csv")
    step = pa.table(list(X[: min(given.rows, 20_000)].T), names=names)
    n = max(1, given.parquet_mb * 10**6 // step.nbytes)
    pq.write_table(pa.concat_tables([step] * n), here / "big.parquet", row_group_size=2**40, use_dictionary=False)
    W, y, s = rng.standard_normal((80, 2, 128)), *rng.integers(2, size=(2, 80))
    aae = tacit.AnonymizingAutoencoder(epochs=1, random_state=0).fit(W, y, sensitive_features=s)
    tacit.save(aae, here / "aae.tacit")


def throughput(given: argparse.Namespace) -> dict:
    here = given.folder
    bundle = here / "mlp.tacit"
    X = np.load(here / "in.npz")["X"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)  # as many as the runtime uses
    with zipfile.ZipFile(bundle) as archive:
        model = archive.read("model.onnx")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def plain(chunk: int) -> None:
        for at in range(0, len(X), chunk):
            session.run(["release"], {"X": X[at : at + chunk]})

    runs = {
        "plain onnxruntime, 65,536 rows": lambda: plain(CHUNK),
        "plain onnxruntime, 4,096 rows": lambda: plain(4096),
        "transform": lambda: tacit.load(bundle).transform(X),
        "apply npz": lambda: apply(bundle, here / "in.npz", here / "out.npz", rows=CHUNK),
        "apply parquet": lambda: apply(bundle, here / "in.parquet", here / "out.parquet", rows=CHUNK),
    }
    best, busy = dict.fromkeys(runs, np.inf), dict.fromkeys(runs, np.inf)
    for _ in range(given.repeats):
        for name, run in runs.items():
            started, used = time.perf_counter(), time.process_time()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
            busy[name] = min(busy[name], time.process_time() - used)
    plain_seconds, plain_busy = (min(t[name] for name in t if name.startswith("plain")) for t in (best, busy))
    return {
        name: {
            "seconds": round(seconds, 3),
            "rows a second": round(given.rows / seconds),
            "share of plain": round(plain_seconds / seconds, 3),
            "share of plain, processor time": round(plain_busy / busy[name], 3),
        }
        for name, seconds in best.items()
    }


def jobs(given: argparse.Namespace) -> dict:
    """By the command line, as a user does: a small network, which is quick to run, and convolutions over windows."""
    here, out = given.folder, {}
    np.savez(here / "windows.npz", X=np.random.default_rng(1).standard_normal((given.windows * 20, 2, 128)))
    (here / "noise.key").write_text(new_key().hex())
    for what, bundle, source in (
        ("small network, npz", "mlp.tacit", "in.npz"),
        ("small network, csv", "mlp.tacit", "in.csv"),
        ("autoencoder of windows, npz", "aae.tacit", "windows.npz"),
    ):
        best = {1: np.inf, 2: np.inf}
        for _ in range(2):
            for n in best:
                target = here / f"jobs-{source}"
                target.unlink(missing_ok=True)
                run = [sys.executable, "-P", "-m", "tacit", "release", "apply", here / bundle, here / source, target]
                run += ["--jobs", str(n), *(["--noise-key", here / "noise.key"] if "aae" in bundle else [])]
                started = time.perf_counter()
                subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
                best[n] = min(best[n], time.perf_counter() - started)
        out[what] = {"one": round(best[1], 2), "two": round(best[2], 2), "times as fast": round(best[1] / best[2], 2)}
    return out


def memory(given: argparse.Namespace) -> dict:
    """In a process that has imported nothing but the runtime, as `tacit release apply` has."""
    source = given.folder / "big.parquet"
    code = "import sys; from tacit.release import apply; apply(*sys.argv[1:]); print(open('/proc/self/status').read())"
    run = [sys.executable, "-c", code, *map(str, (given.folder / "mlp.tacit", source, given.folder / "o.parquet"))]
    found = re.search(r"VmHWM:\s+(\d+)", subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert found is not None
    return {
        "file MB": round(source.stat().st_size / 1e6),
        "peak MB": round(int(found[1]) * 1024 / 1e6),
        "row groups": 1,
    }


def latency(given: argparse.Namespace) -> dict:
    stride = 10
    rng = np.random.default_rng(0)
    sensors = Sensors(tacit.load(given.folder / "aae.tacit"), stride=stride)
    users, took = 20, []
    for t in range(128 + stride * given.windows // users):
        for who in range(users):
            a, b = rng.standard_normal(2)
            line = json.dumps({"user": who, "time": round(t * 0.02, 2), "rotation": a, "acceleration": b})
            started, used = time.perf_counter(), time.process_time()
            answers = [json.dumps(answer) for answer in sensors.lines([line])]
            if answers:
                took.append((1000 * (time.perf_counter() - started), 1000 * (time.process_time() - used)))
    # the first windows also allocate
    (p50, busy50), (p99, busy99) = np.percentile(took[users:], (50, 99), axis=0).round(2).tolist()
    return {"windows": len(took), "p50 ms": p50, "p99 ms": p99, "p50 ms of processor time": busy50,
            "p99 ms of processor time": busy99, "load of the machine": round(os.getloadavg()[0], 1)}  # fmt: skip


def tell(name: str, found: dict) -> None:
    print(f"\n{name}")
    for key, value in found.items():
        if isinstance(value, dict) and "times as fast" in value:
            print(f"  {key:32s} one process {value['one']} s, two {value['two']} s: {value['times as fast']}x")
        elif isinstance(value, dict):
            shares = [value[k] for k in ("share of plain", "share of plain, processor time")]
            rate = f"{value['rows a second']:>12,} rows/s"
            print(f"  {key:32s} {rate}  {shares[0]:5.0%} of plain, {shares[1]:.0%} by CPU time")
        else:
            print(f"  {key:32s} {value:>12,}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
