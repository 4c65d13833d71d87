"""The table encoder: what goes in comes out as numbers, and nothing of a single row is kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.labels import MISSING, encode_labels, looks_continuous
from tacit.records.encoding import TableEncoder
from tacit.records.fingerprints import fingerprints

TABLE = pd.DataFrame(
    {
        "age": [20.0, 30.0, np.nan, 50.0, 60.0, 20.0],
        "job": ["cook", "nurse", "cook", None, "nurse", "pilot"],
        "owner": [True, False, True, True, False, False],
    }
)


def test_columns_by_hand():
    encoder = TableEncoder().fit(TABLE)
    out = encoder.transform(TABLE)
    assert out.shape == (6, 2 + 4 + 1) == (6, encoder.n_out)
    age = TABLE["age"].dropna()
    assert out[0, 0] == pytest.approx((20 - age.mean()) / age.std(ddof=0))
    assert out[2, :2].tolist() == [0.0, 1.0]  # a gap: the mean, and its mark
    assert out[:, 2:6].tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 1],  # missing
        [0, 1, 0, 0],
        [0, 0, 1, 0],  # "pilot" occurs once: it would mark one row, so it is "other"
    ]


def test_unseen_categories_are_other_and_new_gaps_are_the_mean():
    encoder = TableEncoder().fit(TABLE)
    fresh = pd.DataFrame({"age": [None], "job": ["astronaut"], "owner": [None]}).astype({"age": float, "owner": object})
    assert encoder.transform(fresh)[0, 2:6].tolist() == [0, 0, 1, 0]
    assert encoder.transform(fresh)[0, -1] == 0


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "float32", "int8", "boolean"])
def test_every_kind_of_number(dtype):
    values = pd.Series([0, 1, 1, 0], dtype=dtype)
    if dtype in ("Int64", "Float64", "boolean"):
        values.iloc[1] = pd.NA
    out = TableEncoder().fit(values.to_frame("v")).transform(values.to_frame("v"))
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    "make", [lambda s: s.astype("category"), lambda s: s.astype(object), lambda s: s.astype("string")]
)
def test_every_kind_of_text(make):
    text = make(pd.Series(["a", "b", "a", "b"]))
    assert TableEncoder().fit(text.to_frame("t")).transform(text.to_frame("t"))[:, :2].tolist() == [[1, 0], [0, 1]] * 2


def test_what_cannot_be_used_is_named():
    with pytest.raises(tacit.TacitError, match=r"'when' has type datetime64.*convert"):
        TableEncoder().fit(pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-02"])}))
    with pytest.raises(tacit.TacitError, match="'void' has no value in any row"):
        TableEncoder().fit(pd.DataFrame({"void": [np.nan, np.nan]}))


@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from("abc")), min_size=2, max_size=30))
@settings(max_examples=50, deadline=None)
def test_equal_rows_have_equal_fingerprints_and_others_not(rows):
    table = pd.DataFrame(rows, columns=["n", "t"])
    prints = fingerprints(table)
    for i in range(len(rows)):
        for j in range(len(rows)):
            assert (prints[i] == prints[j]) == (rows[i] == rows[j])
    assert np.array_equal(prints, fingerprints(table.astype({"n": float})))


def test_numbers_have_the_same_fingerprint_in_a_table_and_in_an_array():
    X = np.random.default_rng(0).standard_normal((20, 3))
    assert np.array_equal(fingerprints(X), fingerprints(pd.DataFrame(X, columns=list("abc"))))


def test_labels():
    labels = encode_labels(pd.DataFrame({"a": ["x", None, "y"], "b": [-1, 3, -1]}), "y", 3)
    assert labels.codes.tolist() == [[0, 0], [MISSING, 1], [1, 0]]
    assert labels.classes[1].tolist() == [-1, 3]
    with pytest.raises(tacit.TacitError, match="row 1: its value is not among the known classes"):
        encode_labels(np.array(["x", "z"]), "y", 2, classes=[np.array(["x", "y"], dtype=object)])


def test_what_looks_continuous():
    assert looks_continuous(pd.Series(np.linspace(0, 1, 50)))
    assert looks_continuous(pd.Series(range(100)))
    assert not looks_continuous(pd.Series(range(30)))  # thirty people
    assert not looks_continuous(pd.Series([0.0, 1.0] * 50))
    assert not looks_continuous(pd.Series(list("abc") * 40))
