"""Data sets: splits never cut a unit, tables are read or refused with advice, names are suggested."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.datasets import declarations
from tacit.datasets.people_tables import join_adult
from tacit.datasets.signals_and_images import read_idx
from tacit.records.dataset import Dataset, allot

LARGE = ("fer_plus",)  # seconds of decoding; loaded when there is time


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LARGE else []) for n in sorted(declarations())]
)
def test_every_data_set_loads_and_splits(name, real):
    data = real(name)
    assert (data.y.shape[1] >= 1) == (declarations()[name].target != "none")
    assert (data.sensitive.shape[1] >= 1) == (declarations()[name].sensitive != "none")
    parts = data.split((0.5, 0.2, 0.3), random_state=3)
    assert sorted(np.concatenate([p.rows for p in parts])) == list(range(len(data)))
    for column in data.y:
        assert data.y[column].nunique() >= 2
    if isinstance(data.X, pd.DataFrame):
        assert not set(data.X.columns) & set(data.sensitive.columns)


def test_known_sizes(real):
    assert [len(p) for p in real("adult").split("official")] == [32561, 16281]
    windows = real("uci_har", features="windows", subjects=15)
    assert windows.X.shape[1:] == (9, 128)
    assert windows.modality == "window"
    assert windows.X.dtype == np.float32
    assert real("mnist", flat=False).X.shape == (70000, 1, 28, 28)


@given(
    st.lists(st.integers(0, 6), min_size=12, max_size=120),
    st.lists(st.floats(0.05, 1), min_size=1, max_size=4),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_no_unit_ever_crosses(units, fractions, seed):
    units = np.array([*units, 7, 8, 9, 10])
    part = allot(np.arange(len(units)) % 3, np.array(fractions), seed, units)
    for u in np.unique(units):
        assert len(np.unique(part[units == u])) == 1
    assert set(part) == set(range(len(fractions)))


@given(st.integers(30, 400), st.integers(2, 6), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_labels_are_spread_evenly(n, classes, seed):
    labels = np.random.default_rng(seed).integers(classes, size=n)
    part = allot(labels, np.array([0.5, 0.3, 0.2]), seed)
    for c in range(classes):
        share = np.mean(part[labels == c] == 0) if (labels == c).any() else 0.5
        assert abs(share - 0.5) * max(1, (labels == c).sum()) <= 2


def test_split_is_seeded_and_shuffled():
    data = tacit.load_dataset("digits")
    one, again, other = (data.split((0.5, 0.5), random_state=s)[0].rows for s in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_units_may_differ_per_attribute():
    bout, person = np.arange(12) // 2, np.arange(12) // 6
    data = Dataset(
        np.zeros((12, 1)),
        np.arange(12) % 2,
        pd.DataFrame({"identity": person, "gender": person}),
        units={"identity": bout, "gender": person},
    )
    a, b = data.split((0.5, 0.5))
    assert not set(a.units_of("identity")) & set(b.units_of("identity"))
    a, b = data.split((0.5, 0.5), by="gender")
    assert not set(a.units_of("gender")) & set(b.units_of("gender"))


def test_wrong_data_sets_are_refused():
    X, y = np.zeros((4, 2)), [0, 1, 0, 1]
    with pytest.raises(tacit.TacitError, match="y has 3 rows but X has 4"):
        Dataset(X, y[:3], y)
    with pytest.raises(tacit.TacitError, match="units, row 2: missing"):
        Dataset(X, y, y, units=["a", "a", None, "b"])
    with pytest.raises(tacit.TacitError, match="no record"):
        Dataset(X[:0], [], [])
    with pytest.raises(tacit.TacitError, match="cannot cut 2 units into 3 parts"):
        Dataset(X, y, y, units=[0, 0, 1, 1]).split()
    with pytest.raises(tacit.TacitError, match="no official split"):
        Dataset(X, y, y).split("official")
    for parts in ((0.5, -0.5), ("a",), ()):
        with pytest.raises(tacit.TacitError, match="positive fractions"):
            Dataset(X, y, y).split(parts)
    with pytest.raises(tacit.TacitError, match="different lengths"):
        Dataset(X, {"a": y, "b": y[:2]}, y)
    with pytest.raises(tacit.TacitError, match="0 dimensions"):
        Dataset(3, y, y)
    shifted = Dataset(X, {"y": pd.Series(y, index=[5, 6, 7, 8])}, y)
    assert shifted.split((0.5, 0.5))[0].y["y"].notna().all()


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(tacit.TacitError, match="did you mean 'adult'"):
        tacit.load_dataset("adlut")
    with pytest.raises(tacit.TacitError, match="digits"):
        tacit.load_dataset("digits", colour=3)


def test_a_missing_file_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(tacit.TacitError, match=r"titanic.csv.gz is not here. Get it: .*TACIT_DATA"):
        tacit.load_dataset("titanic")


def test_read_table(tmp_path):
    table = pd.DataFrame(
        {"age": range(100), "job": ["a", "b"] * 50, "sex": ["f", "m"] * 50, "rich": [0, 1, 1, 0] * 25, "id": range(100)}
    )
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "t.csv.gz"):
        table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
        data = tacit.read_table(path, target="rich", sensitive=["sex"], unit="id")
        assert list(data.X.columns) == ["age", "job"]
        assert len(np.unique(data.units_of())) == 100
    path = tmp_path / "t.csv"
    assert tacit.read_table(path, target="rich", sensitive="age").is_number("age")
    assert not tacit.read_table(path, target="rich", sensitive="age", numeric={"age": False}).is_number("age")
    assert tacit.read_table(path, target="rich", sensitive="age", numeric=["rich"]).is_number("rich")
    for numeric, message in ((["agee"], "'agee', which is not"), (["sex"], "'sex' holds values that are no numbers")):
        with pytest.raises(tacit.TacitError, match=message):
            tacit.read_table(path, target="rich", sensitive="sex", numeric=numeric)
    binned = tacit.read_table(path, target="rich", sensitive="age", bins={"age": 4})
    assert binned.sensitive["age"].nunique() == 4
    assert tacit.read_table(path, target="rich", sensitive="age", bins=5).sensitive["age"].nunique() == 5
    for bins, message in (
        ({"agee": 4}, "'agee'"),
        ({"age": 1}, "at least 2"),
        (0, "at least 2"),
        ({"sex": 3}, "not a numeric"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            tacit.read_table(path, target="rich", sensitive=["age", "sex"], bins=bins)
    with pytest.raises(tacit.TacitError, match=r"no column 'wealth' \(target\); its columns are age, job"):
        tacit.read_table(path, target="wealth", sensitive="sex")
    with pytest.raises(tacit.TacitError, match="check the path"):
        tacit.read_table(tmp_path / "none.csv", target="rich", sensitive="sex")
    (tmp_path / "x.doc").write_bytes(b"")
    with pytest.raises(tacit.TacitError, match="is not a table that Tacit reads"):
        tacit.read_table(tmp_path / "x.doc", target="rich", sensitive="sex")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(tacit.TacitError, match="could not be read"):
        tacit.read_table(tmp_path / "broken.parquet", target="rich", sensitive="sex")


def test_the_publishers_adult_files_are_joined(tmp_path):
    row = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, ?, "
    )
    (tmp_path / "adult.data").write_text(row + "<=50K\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + row + ">50K.\n")
    out = join_adult(tmp_path / "adult.data", tmp_path / "adult.test", tmp_path / "adult.csv.gz")
    table = pd.read_csv(out)
    assert table["income"].tolist() == ["<=50K", ">50K"]
    assert table["split"].tolist() == ["train", "test"]
    assert not list(tmp_path.glob(".*.part*"))


def test_idx_files():
    assert read_idx(b"\0\0\x08\x02\0\0\0\x02\0\0\0\x02abcd").tolist() == [[97, 98], [99, 100]]
    with pytest.raises(tacit.TacitError, match="IDX"):
        read_idx(b"hello")


def test_the_gaussians_of_the_nodes():
    data = tacit.load_dataset("gaussians", n=4000, n_nodes=3, variance=0.1)
    nodes = data.split("official")
    assert [len(n) for n in nodes] == [4000] * 3
    for k, node in enumerate(nodes, 1):
        corner = np.column_stack([node.y["colour"] == "red", node.sensitive["shape"] == "x"])
        assert np.allclose((node.X - 1 - corner).var(axis=0), 0.1 * k, rtol=0.1)
