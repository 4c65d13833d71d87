"""Data sets: splits never cut a unit, tables are read or refused with advice, names are suggested."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.records.dataset import Dataset, allot


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
    with pytest.raises(tacit.TacitError, match="did you mean 'digits'"):
        tacit.load_dataset("digit")
    with pytest.raises(tacit.TacitError, match="digits"):
        tacit.load_dataset("digits", colour=3)


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
