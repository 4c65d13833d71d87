"""The same bundle inside Spark, Ray and Daft, which are run here for real: equal, with keys, and after a lost worker.

Each engine is started once. `make test-all` installs them (the extra `engines`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from itertools import count

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tacit.release import arrow_udf
from tacit.release.runtime import load
from test_engines import KEY, bundle, folder, noisy, table  # noqa: F401  (fixtures)

pytestmark = [
    pytest.mark.slow,  # an engine takes longer to start than most tests to run
    pytest.mark.engines,
    pytest.mark.usefixtures("few_steps"),
    pytest.mark.filterwarnings("ignore:records hold numbers far outside the fit"),
]
N = 3000


@pytest.fixture(scope="module")
def people(folder):  # noqa: F811
    """A file of several row groups; every person has two rows."""
    found = table(N, seed=1)[0].assign(id=np.arange(N), person=np.arange(N) // 2, sex=np.arange(N) // 2 % 2)
    found.to_parquet(folder / "people.parquet", row_group_size=500, index=False)
    return found


@pytest.fixture(scope="module")
def workers():
    """The environment in which the engines start their workers: this Python, this Tacit, and the noise key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("TACIT_NOISE_KEY", KEY.hex())
        patch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        yield


@pytest.fixture(scope="module")
def spark(workers):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: pip install 'tacit[engines]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime, and there is none; on Debian: apt-get install default-jre-headless")
    # a task may fail three times, as on a cluster; without the number local mode gives up at once
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    found = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "200").getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def ray(workers):
    found = pytest.importorskip("ray", reason="ray is not installed: pip install 'tacit[engines]'")
    pytest.importorskip("ray.data")
    found.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield found
    found.shutdown()


def through_spark(spark, path, function, udf, out):
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    rows = spark.read.parquet(str(path)).repartition(3)
    schema = from_arrow_schema(udf.schema_of(to_arrow_schema(rows.schema)))
    rows.mapInArrow(function, schema).write.parquet(out)


def through_ray(ray, path, function, udf, out):
    rows = ray.data.read_parquet(str(path)).repartition(6)
    rows.map_batches(function, batch_format="pyarrow").write_parquet(out)


ENGINES = {"spark": through_spark, "ray": through_ray}


@pytest.fixture(params=ENGINES)
def through(request, people, folder, tmp_path):  # noqa: F811
    """Runs a function over the file in an engine, which writes files; what these hold, sorted by id."""
    engine = request.getfixturevalue(request.param)
    numbers = count()

    def run(function, udf=None, path=folder / "people.parquet"):
        out = str(tmp_path / f"released-{next(numbers)}")
        ENGINES[request.param](engine, path, function, udf or function, out)
        return pd.read_parquet(out).sort_values("id", ignore_index=True)

    return run


def test_equal_with_the_id(through, bundle, people):  # noqa: F811
    for shuffle in (False, True):
        udf = arrow_udf(bundle, keep=["id"], shuffle=shuffle)
        found = through(udf)
        assert list(found.columns) == ["id", *udf.schema.names]
        assert list(found["id"]) == list(people["id"])
        assert np.array_equal(found[udf.schema.names].to_numpy(), load(bundle).transform(people))


def test_the_noise_key_is_read_on_the_worker(through, noisy, people):  # noqa: F811
    """Each row gets the draw of its own person, however the engine has cut the table."""
    udf = arrow_udf(noisy, noise_key="env", unit="person", keep=["id"])
    expected = load(noisy, noise_key=KEY).transform(people, people["person"].to_list())
    assert np.array_equal(through(udf)[udf.schema.names].to_numpy(), expected)


def test_another_key_on_the_worker_stops_the_query(through, noisy, monkeypatch):  # noqa: F811
    monkeypatch.setenv("TACIT_NOISE_KEY", (b"x" * 32).hex())
    with pytest.raises(Exception, match="is another one than where the function was made"):
        through(arrow_udf(noisy, noise_key="env", unit="person", keep=["id"]))


def test_a_worker_that_is_killed_in_the_middle(through, bundle, people, tmp_path):  # noqa: F811
    """The engine tries its part again; nothing is doubled or lost."""
    udf, mark = arrow_udf(bundle, keep=["id"], shuffle=True), str(tmp_path / "died")

    def die_once(after):
        if after:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(data):
        if isinstance(data, pa.Table):
            first = int(data["id"].combine_chunks()[0].as_py())
            released = udf(data)
            die_once(after=first > 0)  # not the first part
            return released
        return batches(data)

    def batches(data):
        for i, batch in enumerate(data):
            yield udf(batch)
            die_once(after=i == 1)

    found = through(mortal, udf)
    assert os.path.exists(mark)  # one has died
    assert list(found["id"]) == list(people["id"])
    assert np.array_equal(found[udf.schema.names].to_numpy(), load(bundle).transform(people))


def test_missing_columns_stop_the_query(through, bundle, people, tmp_path):  # noqa: F811
    people.drop(columns="pay").to_parquet(tmp_path / "other.parquet", index=False)
    with pytest.raises(Exception, match="pay"):
        through(arrow_udf(bundle, keep=["id"]), path=tmp_path / "other.parquet")


def test_daft(bundle, folder, people):  # noqa: F811
    daft = pytest.importorskip("daft", reason="daft is not installed: pip install 'tacit[engines]'")
    udf = arrow_udf(bundle)
    fields = daft.DataType.struct(dict.fromkeys(udf.schema.names, daft.DataType.float64()))

    @daft.func.batch(return_dtype=fields)
    def release(*columns):
        return udf(*(c.to_arrow() for c in columns))

    rows = daft.read_parquet(str(folder / "people.parquet"))
    found = rows.select("id", release(rows["job"], rows["pay"], rows["age"]).unnest()).to_pandas().sort_values("id")
    assert list(found["id"]) == list(people["id"])
    assert np.array_equal(found[udf.schema.names].to_numpy(), load(bundle).transform(people))


def test_dask_processes_that_are_killed(bundle, people, tmp_path, workers):  # noqa: F811
    distributed = pytest.importorskip(
        "distributed", reason="distributed is not installed: pip install 'tacit[engines]'"
    )
    dask = pytest.importorskip("dask.dataframe")
    udf, mark = arrow_udf(bundle, keep=["id"]), str(tmp_path / "died")

    def mortal(frame):
        released = udf(frame)
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return released
        os.kill(os.getpid(), signal.SIGKILL)

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        parts = dask.from_pandas(people, npartitions=6)
        found = parts.map_partitions(mortal, meta=udf(people.head(0))).compute()
    assert os.path.exists(mark)
    assert isinstance(found, pd.DataFrame)
    assert sorted(found["id"]) == list(people["id"])
