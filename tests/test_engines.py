"""The same bundle inside data engines: DuckDB, Polars and Dask for real, Ray's and Spark's ways of calling.

Spark, Ray and Daft themselves are run by test_large_engines.py.
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tacit
from tacit.release import arrow_udf, sign
from tacit.release.runtime import load
from tacit.release.signing import new_signing_key

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


def forms(udf, people):
    """What comes out of a table of people in every form that goes in, as DataFrames."""
    arrow = pa.Table.from_pandas(people, preserve_index=False)
    yield udf(arrow).to_pandas()
    yield pa.Table.from_batches([udf(b) for b in arrow.to_batches(700)]).to_pandas()
    yield pa.Table.from_batches(udf(iter(arrow.to_batches(700)))).to_pandas()
    yield udf(arrow.to_reader(700)).read_all().to_pandas()
    yield udf(people)
    polars = pytest.importorskip("polars")
    yield udf(polars.from_pandas(people)).to_pandas()


def test_key_columns_pass_through_in_every_form(bundle, decoded, people):
    people = people.assign(id=[f"p{i}" for i in range(len(people))], day=7)
    for path in (bundle, decoded):
        udf = pickle.loads(pickle.dumps(arrow_udf(path, keep=["id", "day"])))
        for found in forms(udf, people):
            assert list(found.columns) == ["id", "day", *udf.schema.names]
            assert list(found["id"]) == list(people["id"])
            assert np.array_equal(found[udf.schema.names].to_numpy(), np.asarray(load(path).transform(people)))
    schema = pa.Schema.from_pandas(people, preserve_index=False)
    assert udf.schema_of(schema).names == ["id", "day", *udf.schema.names]
    assert udf.schema_of(schema).field("day").type == pa.int64()


def test_what_cannot_be_kept_is_refused(bundle, people):
    with pytest.raises(tacit.TacitError, match="'pay' is one that the bundle reads"):
        arrow_udf(bundle, keep=["pay"])
    first = arrow_udf(bundle).schema.names[0]
    with pytest.raises(tacit.TacitError, match=f"'{first}' is one that the bundle releases"):
        arrow_udf(bundle, keep=[first])
    udf = arrow_udf(bundle, keep=["id"])
    for data in (people, pa.Table.from_pandas(people)):
        with pytest.raises(tacit.TacitError, match="there is no column 'id' to keep; the columns are job, pay, age"):
            udf(data)
    with pytest.raises(tacit.TacitError, match="inside SQL"):
        udf(*pa.Table.from_pandas(people).columns)


@pytest.mark.filterwarnings("ignore:records hold numbers far outside the fit")
def test_shuffled_rows_keep_their_keys(bundle, noisy, people):
    """The order is new at every call; 3,000 rows stay as they were with probability 1/3000!."""
    people = people.assign(id=np.arange(len(people)))
    for path, options in ((bundle, {}), (noisy, {"noise_key": KEY, "unit": "id"})):
        expected = load(path, noise_key=KEY).transform(people, people["id"] if options else None)
        udf = arrow_udf(path, keep=["id"], shuffle=True, **options)
        orders = []
        for found in forms(udf, people):
            orders.append(tuple(found["id"]))
            assert list(found.index) == list(range(len(people)))  # which would tell the order
            assert np.array_equal(found.sort_values("id")[udf.schema.names].to_numpy(), expected)
        assert len({tuple(range(len(people))), *orders}) == 1 + len(orders)
    moved = next(arrow_udf(bundle, keep=["id"], shuffle=True)(iter(pa.Table.from_pandas(people).to_batches(700))))
    assert sorted(moved["id"].to_pylist()) == list(range(700))  # within a batch alone
    dask = pytest.importorskip("dask.dataframe")
    parts = dask.from_pandas(people, npartitions=2)
    udf = arrow_udf(bundle, keep="id", shuffle=True)
    found = parts.map_partitions(udf, meta=udf(people.head(0)), clear_divisions=True).compute(scheduler="sync")
    assert sorted(found["id"][:1500]) == list(range(1500))
    assert list(found["id"][:1500]) != list(range(1500))


@pytest.mark.filterwarnings("ignore:records hold numbers far outside the fit")
def test_the_noise_key_stays_with_the_workers(noisy, people, monkeypatch):
    who = people.assign(id=np.arange(len(people)))
    carried = arrow_udf(noisy, noise_key=KEY, unit="id")
    assert KEY in pickle.dumps(carried)
    monkeypatch.setenv("TACIT_NOISE_KEY", KEY.hex())
    udf = arrow_udf(noisy, noise_key="env", unit="id")
    expected = carried(who)
    assert udf(who).equals(expected)
    plan = pickle.dumps(udf)  # after the key was read here
    assert KEY not in plan
    assert KEY.hex().encode() not in plan
    assert pickle.loads(plan)(who).equals(expected)
    monkeypatch.setenv("TACIT_NOISE_KEY", (b"x" * 32).hex())
    with pytest.raises(tacit.TacitError, match="is another one than where the function was made"):
        pickle.loads(plan)(who)
    monkeypatch.setenv("TACIT_NOISE_KEY", "5e" * 31 + "no")
    with pytest.raises(tacit.TacitError, match="does not hold 16 to 64 bytes as hexadecimal text here") as told:
        pickle.loads(plan)(who)
    assert "5e5e" not in str(told.value)
    monkeypatch.delenv("TACIT_NOISE_KEY")
    with pytest.raises(tacit.TacitError, match="TACIT_NOISE_KEY, which is not set here"):
        pickle.loads(plan)(who)
    anywhere = arrow_udf(noisy, noise_key="env", unit="id")  # made where there is no key
    monkeypatch.setenv("TACIT_NOISE_KEY", KEY.hex())
    assert anywhere(who).equals(expected)


def test_a_bundle_that_another_key_signed_is_refused(bundle, tmp_path):
    (own, public), (_, other) = (new_signing_key(tmp_path / name) for name in ("a.key", "b.key"))
    signed = sign(shutil.copy(bundle, tmp_path / "signed.tacit"), own)
    assert arrow_udf(signed, public).schema.names
    with pytest.raises(tacit.TacitError, match="sign"):
        arrow_udf(signed, other)


def test_polars_streams_a_file(bundle, people, tmp_path):
    polars = pytest.importorskip("polars")
    people = people.assign(id=np.arange(len(people)))
    people.to_parquet(tmp_path / "people.parquet", row_group_size=500)
    udf = arrow_udf(bundle, keep=["id"])
    lazy = polars.scan_parquet(tmp_path / "people.parquet")
    schema = udf(lazy.head(0).collect()).schema
    lazy.map_batches(udf, schema=schema, streamable=True).sink_parquet(tmp_path / "released.parquet")
    found = pd.read_parquet(tmp_path / "released.parquet").sort_values("id")
    assert list(found["id"]) == list(people["id"])
    assert np.array_equal(found[udf.schema.names].to_numpy(), load(bundle).transform(people))


def test_partitions_with_other_columns(bundle, people):
    """A column that is missing is named, wherever in the data; others and another order do not matter."""
    people = people.assign(id=np.arange(len(people)))
    udf = arrow_udf(bundle, keep=["id"])
    arrow = pa.Table.from_pandas(people, preserve_index=False)
    batches = arrow.to_batches(1500)
    found = list(udf(iter([batches[0], batches[1].select(["age", "id", "pay", "job"])])))
    assert np.array_equal(
        pa.Table.from_batches(found).to_pandas().iloc[:, 1:].to_numpy(), load(bundle).transform(people)
    )
    with pytest.raises(tacit.TacitError, match="pay"):
        list(udf(iter([batches[0], batches[1].drop_columns(["pay"])])))
    with pytest.raises(tacit.TacitError, match="pay"):
        udf(people.drop(columns="pay"))
    with pytest.raises(tacit.TacitError, match="'pay', row 0: text of 4 characters is not a number"):
        udf(people.assign(pay=["much"] * len(people)))
    dask = pytest.importorskip("dask.dataframe")
    delayed = pytest.importorskip("dask").delayed
    halves = [
        delayed(lambda: people.iloc[:1500])(),
        delayed(lambda: people.iloc[1500:].rename(columns={"pay": "wage"}))(),
    ]
    mixed = dask.from_delayed(halves, meta=people.head(0), verify_meta=False)
    with pytest.raises(tacit.TacitError, match="pay"):
        mixed.map_partitions(udf, meta=udf(people.head(0))).compute(scheduler="sync")


def test_empty_partitions(bundle, decoded, people):
    people = people.assign(id=np.arange(len(people)))
    for path in (bundle, decoded):
        udf = arrow_udf(path, keep=["id"], shuffle=True)
        whole = udf(pa.Table.from_pandas(people, preserve_index=False))
        arrow = pa.Table.from_pandas(people, preserve_index=False)
        empty = arrow.slice(0, 0)
        assert udf(empty).schema == whole.schema
        assert udf(pa.RecordBatch.from_pandas(people.head(0), preserve_index=False)).num_rows == 0  # text of type null
        assert list(udf(iter([]))) == []
        assert udf(empty.to_reader()).read_all().schema == whole.schema
        assert len(udf(people.head(0))) == 0
        assert list(udf(people.head(0)).columns) == whole.column_names
    dask = pytest.importorskip("dask.dataframe")
    udf = arrow_udf(bundle, keep=["id"])
    parts = dask.concat(
        [dask.from_pandas(p, npartitions=1) for p in (people.iloc[:9], people.iloc[:0], people.iloc[9:])]
    )
    found = parts.map_partitions(udf, meta=udf(people.head(0))).compute(scheduler="sync")
    assert list(found["id"]) == list(people["id"])
