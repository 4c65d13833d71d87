"""A bundle inside data engines, and certificates from counts that an engine made.

    python benchmarks/engines.py [--rows 1000000] [--records 100000000] [--engines spark ray ...] [--out FILE]

1. Engines. A codebook of 16 cells over a Parquet file of four columns and an id, in local mode on all cores, each
   engine in a process of its own (needs the extra `engines`, and Java for Spark). Start-up is told apart: `start` is
   the import and the engine's own start, `first` a release of 1,000 rows (workers start and import Tacit), `run` the
   file, read, released with its id and written. `equal`: after sorting by id, what `tacit.load(...).transform` gives,
   to the bit.
2. Counts. Certificates of 100,000,000 records from (cell, class, n) alone, drawn from a known law of 16 and of 4,096
   cells: the bound, its slack beside McDiarmid's formula sqrt(sum_s 1/n_s ln(1/delta) / 2) / m, the truth, and seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import tacit
from tacit.auditing.looks import new_project
from tacit.auditing.population import look_delta

warnings.simplefilter("ignore")


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=(2, n))
    job = np.array(["clerk", "cook", "nurse"])[rng.integers(2, size=n) + y]
    columns = {
        "job": job,
        "pay": 3 * s + rng.standard_normal(n),
        "age": rng.integers(18, 80, n),
        "hours": y + s + rng.random(n),
    }
    return pd.DataFrame({"id": rng.permutation(n), **columns, "y": y, "s": s})


def prepare(folder: Path, rows: int) -> None:
    train = table(4000, 0)
    f = tacit.CodebookFilter(16, random_state=0)
    f.fit(train[["job", "pay", "age", "hours"]], train["y"], sensitive_features=train["s"])
    tacit.save(f, folder / "b.tacit")
    for name, n in (("few", 1000), ("people", rows)):
        table(n, 1).drop(columns=["y", "s"]).to_parquet(folder / f"{name}.parquet", row_group_size=50_000, index=False)


def start_polars():
    import polars as pl

    def release(udf, source, out):
        people = pl.scan_parquet(source)
        people.map_batches(udf, schema=udf(people.head(0).collect()).schema, streamable=True).sink_parquet(out)

    return release


def start_duckdb():
    import duckdb

    con = duckdb.connect()

    def release(udf, source, out):
        released = udf(con.cursor().sql(f"select * from '{source}'").arrow())  # noqa: F841  (DuckDB finds it)
        con.sql(f"copy (select * from released) to '{out}' (format parquet)")

    return release


def start_dask():
    import dask.dataframe as dd

    def release(udf, source, out):
        people = dd.read_parquet(source, split_row_groups=5)
        people.map_partitions(udf, meta=udf(people.head(0))).to_parquet(out)

    return release


def start_spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.files.maxPartitionBytes", 8 * 2**20)
    spark.range(1).count()

    def release(udf, source, out):
        people = spark.read.parquet(source)
        schema = from_arrow_schema(udf.schema_of(to_arrow_schema(people.schema)))
        people.mapInArrow(udf, schema).write.parquet(out)

    return release


def start_ray():
    import ray

    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def release(udf, source, out):
        ray.data.read_parquet(source).map_batches(udf, batch_format="pyarrow", batch_size=50_000).write_parquet(out)

    return release


def start_daft():
    import daft

    def release(udf, source, out):
        plain = tacit.release.arrow_udf(udf.release)
        fields = daft.DataType.struct(dict.fromkeys(udf.schema.names, daft.DataType.float64()))

        @daft.func.batch(return_dtype=fields)
        def released(*columns):
            return plain(*(c.to_arrow() for c in columns))

        people = daft.read_parquet(source)
        columns = [people[c] for c in ("job", "pay", "age", "hours")]
        people.select("id", released(*columns).unnest()).write_parquet(out)

    return release


STARTS = (start_polars, start_duckdb, start_dask, start_spark, start_ray, start_daft)
ENGINES = {start.__name__.removeprefix("start_"): start for start in STARTS}


def run_engine(name: str, folder: Path) -> dict:
    """Seconds of one engine, in this process."""
    udf = tacit.release.arrow_udf(folder / "b.tacit", keep=["id"])
    began = time.perf_counter()
    release = ENGINES[name]()
    times = [time.perf_counter() - began]
    for source in ("few", "people"):
        began = time.perf_counter()
        release(udf, str(folder / f"{source}.parquet"), str(folder / f"{name}-{source}"))
        times.append(time.perf_counter() - began)
    people = pd.read_parquet(folder / "people.parquet").sort_values("id")
    found = pq.read_table(folder / f"{name}-people").to_pandas().sort_values("id")
    same = np.array_equal(found["id"], people["id"])
    same = same and np.array_equal(found[udf.schema.names].to_numpy(), tacit.load(folder / "b.tacit").transform(people))
    told = {"start": times[0], "first": times[1], "run": times[2]}
    told = {k: round(v, 2) for k, v in told.items()}
    return {
        "engine": name,
        **told,
        "rows": len(people),
        "rows_a_second": round(len(people) / times[2]),
        "equal": bool(same),
    }


def count_certificates(records: int, cells: int) -> dict:
    """A certificate from counts alone, of a law that is known."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(cells, 20.0), size=2)
    drawn = np.array([rng.multinomial(records // 2, p) for p in law])
    counts = pd.DataFrame(
        {"cell": np.tile(np.arange(cells), 2), "sex": np.repeat(["f", "m"], cells), "n": drawn.ravel()}
    )
    began = time.perf_counter()
    with new_project():
        found = tacit.certify(counts, "sex", n_cells=cells)["sex"]
    seconds = time.perf_counter() - began
    delta = look_delta(1 - 0.95, 1)
    formula = math.sqrt(sum(1 / n for n in drawn.sum(axis=1)) * math.log(1 / delta) / 2) / 2
    truth, odds = float(law.max(axis=0).sum() / 2), float((law.max(axis=0) / law.min(axis=0)).max())
    slack = found.bound - found.plugin
    figures = {"truth": truth, "plugin": found.plugin, "bound": found.bound, "slack": slack, "formula": formula}
    figures |= {"true_odds": odds, "odds_bound": found.odds.bound}
    return {
        "records": found.n,
        "cells": cells,
        **{k: round(v, 7) for k, v in figures.items()},
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--only", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(run_engine(given.only, given.folder)))
        return
    out: dict = {
        "cores": os.cpu_count(),
        "counts": [count_certificates(given.records, k) for k in (16, 4096)],
        "engines": [],
    }
    print(pd.DataFrame(out["counts"]).to_string(index=False))
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), given.rows)
        for name in given.engines:
            call = [sys.executable, __file__, "--only", name, "--folder", folder]
            ran = subprocess.run(call, capture_output=True, text=True)
            if ran.returncode:
                print(f"{name}: {ran.stderr.strip().splitlines()[-1]}")
                continue
            out["engines"].append(json.loads(ran.stdout.strip().splitlines()[-1]))
            print(out["engines"][-1], flush=True)
    given.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
