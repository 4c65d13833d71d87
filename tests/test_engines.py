"""The same bundle inside data engines: DuckDB and Dask for real, Ray's and Spark's ways of calling."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tacit
from tacit.release import arrow_udf
from tacit.release.runtime import load

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do

KEY = b"k" * 32


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=(2, n))
    pay = np.where(rng.random(n) < 0.1, np.nan, 10 * s + rng.standard_normal(n))
    return pd.DataFrame({"job": np.where(y == 1, "cook", "nurse"), "pay": pay, "age": rng.integers(18, 80, n)}), y, s


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def bundle(folder):
    X, y, s = table()
    return tacit.save(tacit.baselines.PrivatePLS(2).fit(X, y, sensitive_features=s), folder / "b.tacit")


@pytest.fixture(scope="module")
def noisy(folder):
    X, y, s = table()
    f = tacit.MinimaxFilter(2, noise=0.5, max_iter=3, random_state=0).fit(X, y, sensitive_features=s)
    return tacit.save(f, folder / "noisy.tacit")


@pytest.fixture(scope="module")
def decoded(folder):
    """Releases text."""
    X, y, s = table()
    f = tacit.CodebookFilter(4, n_folds=2, decode=True, random_state=0).fit(X, y, sensitive_features=s)
    return tacit.save(f, folder / "decoded.tacit")


@pytest.fixture
def people():
    return table(3000, seed=1)[0]


def test_what_goes_in_says_what_comes_out(bundle, people):
    udf = arrow_udf(bundle)
    expected = load(bundle).transform(people)
    arrow = pa.Table.from_pandas(people, preserve_index=False)
    assert udf(arrow).schema == udf.schema
    for found in (
        udf(arrow),
        pa.Table.from_batches([udf(b) for b in arrow.to_batches(700)]),
        pa.Table.from_batches(udf(iter(arrow.to_batches(700)))),
        udf(arrow.to_reader(700)).read_all(),
    ):
        assert isinstance(found, pa.Table)
        assert np.array_equal(found.to_pandas().to_numpy(), expected)
    frame = udf(people.set_index(np.arange(3000)[::-1]))
    assert np.array_equal(frame.to_numpy(), expected)
    assert frame.index[0] == 2999
    assert udf(arrow.slice(0, 0)).schema == udf.schema
    with pytest.raises(tacit.TacitError, match="cannot be mapped over a list"):
        udf([1, 2])
    with pytest.raises(tacit.TacitError, match=r"takes 3 columns \(job, pay, age\); 1 found"):
        udf(arrow.column(0))


def test_duckdb_reads_a_release(bundle, people, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    people.assign(id=np.arange(3000)).to_parquet(tmp_path / "people.parquet")
    connection = duckdb.connect()
    raw = connection.cursor().sql(f"select job, pay, age from '{tmp_path}/people.parquet' order by id")
    released = arrow_udf(bundle)(raw.arrow())  # a reader in, a reader out: nothing is held as a whole
    assert isinstance(released, pa.RecordBatchReader)
    assert released.schema.names
    found = connection.sql("select * from released").fetchnumpy()
    assert np.array_equal(np.column_stack(list(found.values())), load(bundle).transform(people))


def test_duckdb_calls_it_in_sql(bundle, people):
    duckdb = pytest.importorskip("duckdb")
    udf = arrow_udf(bundle)
    people = people.assign(id=np.arange(len(people)))
    connection = duckdb.connect()
    fields = duckdb.struct_type(dict.fromkeys(udf.schema.names, "DOUBLE"))
    connection.create_function("release", udf, return_type=fields, type="arrow", null_handling="special")
    # a struct is spread over columns of its fields
    found = connection.sql("select unnest(release(job, pay, age)) from people order by id").df()
    assert np.array_equal(found.to_numpy(), load(bundle).transform(people))


@pytest.mark.filterwarnings("ignore:records hold numbers far outside the fit")
def test_dask_maps_partitions(bundle, noisy, decoded, people):
    dask = pytest.importorskip("dask.dataframe")
    parts = dask.from_pandas(people, npartitions=4)
    for path, scheduler in ((bundle, "threads"), (bundle, "sync"), (decoded, "sync")):
        udf = arrow_udf(path)
        found = parts.map_partitions(udf, meta=udf(people.head(0))).compute(scheduler=scheduler)
        assert list(found.index) == list(people.index)
        assert np.array_equal(found.to_numpy(), np.asarray(load(path).transform(people)))
    # without meta Dask calls the function on made-up rows
    assert list(parts.map_partitions(arrow_udf(bundle)).columns) == list(load(bundle).get_feature_names_out())
    # Dask cuts the table as it likes: whose noise it is must not depend on that
    who = np.arange(len(people)) // 2
    parts = dask.from_pandas(people.assign(person=who), npartitions=4)
    udf = arrow_udf(noisy, noise_key=KEY, unit="person")
    twice = parts.map_partitions(udf, meta=udf(people.assign(person=who).head(2)).head(0))
    twice = twice.compute(scheduler="processes", num_workers=2)
    assert np.array_equal(twice.to_numpy(), load(noisy, noise_key=KEY).transform(people, who))


def test_as_ray_calls_it(bundle, people):
    """`map_batches(udf, batch_format="pyarrow")` gives tables and takes tables; "pandas" likewise with DataFrames."""
    udf = pickle.loads(pickle.dumps(arrow_udf(bundle)))
    block = pa.Table.from_pandas(people, preserve_index=False)
    assert isinstance(udf(block), pa.Table)
    assert isinstance(udf(people), pd.DataFrame)


def test_as_spark_calls_it(bundle, people):
    """`mapInArrow(udf, schema)`: an iterator of record batches to one, on a machine without the bundle's file."""
    udf = pickle.loads(pickle.dumps(arrow_udf(bundle)))
    taken = []

    def batches():
        for batch in pa.Table.from_pandas(people, preserve_index=False).to_batches(1000):
            taken.append(batch.num_rows)
            yield batch

    found = udf(batches())
    first = next(found)
    assert isinstance(first, pa.RecordBatch)
    assert taken == [1000]  # lazily: a partition is never held as a whole
    rest = [b.num_rows for b in found]
    assert [first.num_rows, *rest] == [1000] * 3


def test_a_pickle_runs_elsewhere_with_the_same_noise(noisy, people, tmp_path):
    with pytest.warns(tacit.TacitWarning, match="no noise_key"):
        udf = arrow_udf(noisy)  # one is drawn, and travels
    with open(tmp_path / "udf", "wb") as file:
        pickle.dump(udf, file)
    with pa.ipc.new_file(tmp_path / "in", pa.Schema.from_pandas(people, preserve_index=False)) as out:
        out.write_table(pa.Table.from_pandas(people, preserve_index=False))
    code = (
        "import sys, pickle, pyarrow as pa\n"
        "udf = pickle.load(open(sys.argv[1], 'rb'))\n"
        "out = udf(pa.ipc.open_file(sys.argv[2]).read_all())\n"
        "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules\n"
        "with pa.ipc.new_file(sys.argv[3], out.schema) as file: file.write_table(out)\n"
    )
    run = [sys.executable, "-c", code, *(str(tmp_path / n) for n in ("udf", "in", "out"))]
    subprocess.run(run, check=True)
    with pa.OSFile(str(tmp_path / "out")) as file:
        there = pa.ipc.open_file(file).read_all()
    assert there.equals(udf(pa.Table.from_pandas(people, preserve_index=False)))
    assert not there.equals(arrow_udf(noisy, noise_key=KEY)(pa.Table.from_pandas(people, preserve_index=False)))
