"""Releasing a file against plain onnxruntime on the same arrays in memory: what checks, files and journal cost.

    python benchmarks/release.py [--rows 300000] [--out FILE]

Plain onnxruntime is given whichever of two batch sizes suits it better. The filter is an EIGAN encoder of two hidden
layers of 256 on 64 numbers. Both sides run the bundle's own graph, alternating in one process; the figure is the
ratio of the fastest runs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq

import tacit
from tacit.nets.mlp import mlp
from tacit.release.bulk import apply

CHUNK = 65536


def encoder(n_in: int, n_out: int):
    return mlp(n_in, n_out, hidden=(256, 256))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.rows, 64))
    y, s = (X[:2000, :2] > 0).T.astype(int)
    f = tacit.EIGAN(8, epochs=1, encoder=encoder, random_state=0).fit(X[:2000], y, sensitive_features=s)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        bundle = tacit.save(f, here / "mlp.tacit")
        np.savez(here / "in.npz", X=X)
        pq.write_table(pa.table({f"x{i}": X[:, i] for i in range(64)}), here / "in.parquet", row_group_size=CHUNK)
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
        best = dict.fromkeys(runs, np.inf)
        for _ in range(given.repeats):
            for name, run in runs.items():
                started = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - started)
    plain_seconds = min(seconds for name, seconds in best.items() if name.startswith("plain"))
    found = {
        name: {
            "seconds": round(seconds, 3),
            "rows a second": round(given.rows / seconds),
            "share of plain": round(plain_seconds / seconds, 3),
        }
        for name, seconds in best.items()
    }
    for name, figures in found.items():
        print(f"{name:32s} {figures['rows a second']:>12,} rows/s   {figures['share of plain']:.0%} of plain")
    given.out.write_text(json.dumps({"rows": given.rows, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
