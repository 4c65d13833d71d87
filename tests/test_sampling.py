"""Tables too large to hold: a sample by whole units, folders of Parquet, and a fit that releases every row once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from commands import tacit_command
from tacit.errors import InputError
from tacit.records.dataset import as_dataset
from tacit.records.sampling import read_sample
from tacit.release.bulk import apply
from tacit.release.record_files import shuffle_parquet

pytestmark = pytest.mark.usefixtures("one_attacker", "few_steps")


def people(n: int = 3000, each: int = 5, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(n // each), each))
    own = rng.standard_normal((n // each, 3))[who]
    X = own + 0.3 * rng.standard_normal((n, 3))
    y, s = X[:, 0] + rng.standard_normal(n) > 0, own[:, 1] + own[:, 0] > 0
    return pd.DataFrame({"who": [f"p{w}" for w in who], "a": X[:, 0], "b": X[:, 1], "c": X[:, 2],
                         "y": np.where(y, "yes", "no"), "s": np.where(s, "A", "B")})  # fmt: skip


def folder_of(table: pd.DataFrame, folder, cuts=(0, 700, 700, 2000)):
    """Parquet files of a table, one of them empty, one in a folder of its own, and one that an engine hides."""
    (folder / "more").mkdir(parents=True)
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "x.parquet").write_bytes(b"not yet")
    ends = [*cuts[1:], len(table)]
    for i, (low, high) in enumerate(zip(cuts, ends, strict=True)):
        place = folder / ("more" if i == len(cuts) - 1 else "") / f"{i}.parquet"
        table[low:high].to_parquet(place, index=False)
    return folder


def test_a_sample_is_whole_units_however_the_table_lies(tmp_path):
    table = people()
    table.to_csv(tmp_path / "t.csv", index=False)
    mixed = table.sample(frac=1, random_state=1)
    found = [
        read_sample(folder_of(table, tmp_path / "f"), "who", 1000),
        read_sample(folder_of(mixed, tmp_path / "g", (0, 10)), "who", 1000),
        read_sample(tmp_path / "t.csv", "who", 1000),
    ]
    for sample, whole in zip(found, (table, mixed, table), strict=True):
        assert sample.total == 3000
        assert len(sample.rows) == 1000
        assert (sample.table.groupby("who").size() == 5).all()
        assert sample.table["who"].tolist() == whole["who"].iloc[sample.rows].tolist()
    assert set(found[0].table["who"]) == set(found[1].table["who"]) == set(found[2].table["who"])
    other = read_sample(tmp_path / "f", "who", 1000, random_state=1)
    assert set(other.table["who"]) != set(found[0].table["who"])


def test_rows_without_units_are_drawn_by_their_number_not_by_what_they_hold(tmp_path):
    """Of eight kinds of row, a hash of what they hold keeps some kinds and loses the others whole."""
    kinds = np.random.default_rng(0).integers(8, size=40_000)
    pd.DataFrame({"kind": kinds, "x": 1.0}).to_parquet(tmp_path / "t.parquet")
    drawn = read_sample(tmp_path / "t.parquet", most=8000)
    counts = np.bincount(drawn.table["kind"], minlength=8)
    # five deviations, eight kinds: a false alarm in 200,000 seeds
    assert len(drawn.rows) == 8000
    assert (abs(counts - 1000) < 5 * np.sqrt(1000)).all()
    by_content = read_sample(tmp_path / "t.parquet", "kind", most=12_000)
    assert by_content.table["kind"].nunique() < 3


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign(who=None), "units, row 2000: missing"),
        (lambda t: t.drop(columns="b"), "lacks the column 'b'"),
        (lambda t: t.assign(d=1), "has the column 'd'"),
    ],
)
def test_a_file_of_a_folder_that_does_not_fit(spoil, message, tmp_path):
    folder = folder_of(people(), tmp_path / "f")
    spoil(people()).to_parquet(folder / "3.parquet", index=False)
    (folder / "more" / "3.parquet").unlink()
    with pytest.raises(InputError, match=message):
        read_sample(folder, "who", 1000)


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    table = people()
    f = tacit.baselines.LinearARL().fit(table[["a", "b", "c"]], table["y"], sensitive_features=table["s"])
    return tacit.save(f, tmp_path_factory.mktemp("plane") / "plane.tacit")


def test_a_folder_of_parquet_is_released_as_a_file_or_a_folder(plane, tmp_path):
    table = people()
    source = folder_of(table, tmp_path / "in")
    expected = tacit.load(plane).transform(table[["a", "b", "c"]])
    apply(plane, source, tmp_path / "one.parquet", rows=500)
    apply(plane, source, tmp_path / "out", rows=500)
    apply(plane, source, tmp_path / "two", rows=500, n_jobs=2)
    np.testing.assert_allclose(pq.read_table(tmp_path / "one.parquet").to_pandas(), expected, atol=1e-12)
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 7
    assert [f.name for f in files] == [f.name for f in sorted((tmp_path / "two").iterdir())]
    together = pa.concat_tables(pq.read_table(f) for f in files)
    assert together.equals(pq.read_table(tmp_path / "one.parquet"))
    assert all(f.read_bytes() == (tmp_path / "two" / f.name).read_bytes() for f in files)


def test_a_folder_with_other_columns_is_refused_before_the_work(plane, tmp_path):
    source = folder_of(people(), tmp_path / "in")
    people().drop(columns="b").to_parquet(source / "9.parquet")
    with pytest.raises(InputError, match="has no column 'b'"):
        apply(plane, source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_some_rows_are_released_as_they_are_known(plane, n_jobs, tmp_path):
    table = people().assign(a=lambda t: t["a"].where(t.index != 1001, np.inf))  # one row does not fit
    table.to_parquet(tmp_path / "in.parquet")
    rows = np.array([3, 999, 1000, 1001, 1002, 2999])
    name = tacit.load(plane).get_feature_names_out()[0]
    known = pa.record_batch({name: np.arange(6) + 100.0})
    options = {"rows": 500, "on_error": "quarantine", "n_jobs": n_jobs}
    done = apply(plane, tmp_path / "in.parquet", tmp_path / "out.parquet", instead=(rows, known), **options)
    out = pq.read_table(tmp_path / "out.parquet")[name].to_numpy()
    expected = tacit.load(plane).transform(table[["a", "b", "c"]], on_error="quarantine").release[:, 0]
    assert done.quarantined == 1
    assert len(out) == 2999
    assert out[[3, 999, 1000, 1001, 2998]].tolist() == [100, 101, 102, 104, 105]
    others = np.setdiff1d(np.arange(2999), [3, 999, 1000, 1001, 2998])
    np.testing.assert_array_equal(out[others], expected[others])
    with pytest.raises(InputError, match="ascending"):
        apply(plane, tmp_path / "in.parquet", tmp_path / "o.parquet", instead=(rows[::-1], known))


def test_a_file_is_shuffled_pile_by_pile(tmp_path):
    pq.write_table(pa.table({"x": np.arange(5000)}), tmp_path / "in.parquet")
    shuffle_parquet(tmp_path / "in.parquet", tmp_path / "out.parquet", rows=700)
    found = pq.read_table(tmp_path / "out.parquet")["x"].to_numpy()
    assert sorted(found) == list(range(5000))
    # of a random order the rank correlation has a deviation of .014; six of them: one alarm in a thousand million
    assert abs(np.corrcoef(found, np.arange(5000))[0, 1]) < 6 * 0.0142


@pytest.mark.parametrize("form", ["folder", "csv"])
def test_fit_on_a_sample_releases_every_row_once(form, tmp_path):
    table = people()
    source = folder_of(table, tmp_path / "in") if form == "folder" else tmp_path / "t.csv"
    if form == "csv":
        table.to_csv(source, index=False)
    asked = ("fit", source, "--target", "y", "--sensitive", "s", "--unit", "who", "--filter", "linear-arl",
             "--set", "sample_rows=1000", "--set", "shuffle=false", "--out", tmp_path / "o")  # fmt: skip
    tacit_command("ledger", "new", tmp_path / "book.jsonl")
    done = tacit_command(*asked, "--set", f"ledger={tmp_path / 'book.jsonl'}", "--set", "to=us")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "sample of 1,000 of the 3,000 rows" in told
    assert "Released 3,000 rows" in told
    assert "sample of 1,000 of the 3,000 rows" in (tmp_path / "o" / "audit.json").read_text()
    released = pq.read_table(tmp_path / "o" / "release.parquet").to_pandas().to_numpy()
    sample = read_sample(source, "who", 1000)
    data = as_dataset(sample.table, "t", ["y"], ["s"], "who", rows=sample.rows)
    train, _, _ = data.split((0.5, 0.2, 0.3), random_state=0)
    f = tacit.baselines.LinearARL(random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    by_bundle = tacit.load(tmp_path / "o" / "filter.tacit").transform(table[["a", "b", "c"]])
    rest = np.setdiff1d(np.arange(3000), train.rows)
    np.testing.assert_allclose(released[rest], by_bundle[rest], atol=1e-9)
    np.testing.assert_allclose(released[train.rows], f.release_training_rows(), atol=1e-9)
    assert abs(released[train.rows] - by_bundle[train.rows]).max() > 1e-6  # the control: the bundle saw these
    ledger = tacit_command("ledger", "show", tmp_path / "book.jsonl")
    assert "600" in ledger.stdout  # people, of all rows
