"""Data sets of signals and images on this machine: the papers' counts, splits and units."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.datasets.faces import winners


def test_motionsense_by_trial_has_the_published_windows(real):
    data = real("motionsense")
    train, test = data.split("official")
    assert (len(train), len(test)) == (60117, 13381)
    assert data.X.shape[1:] == (2, 128)
    assert data.X.dtype == np.float32
    assert (data.X >= 0).all()  # magnitudes
    assert set(data.y["activity"]) == {"downstairs", "upstairs", "walking", "jogging"}
    assert train.sensitive["identity"].nunique() == test.sensitive["identity"].nunique() == 24
    assert not set(train.units_of("identity")) & set(test.units_of("identity"))
    assert len(np.unique(data.units_of("identity"))) == 24 * 11  # eleven recordings a person
    assert len(np.unique(data.units_of("gender"))) == 24
    assert data.sensitive.drop_duplicates()["gender"].value_counts().to_dict() == {"male": 14, "female": 10}


def test_motionsense_by_subject_tests_on_two_women_and_two_men(real):
    train, test = real("motionsense", split="subject", signals="axes").split("official")
    assert sorted(test.sensitive["identity"].unique()) == [5, 10, 12, 22]
    assert not set(train.sensitive["identity"]) & set(test.sensitive["identity"])
    assert test.sensitive.drop_duplicates()["gender"].value_counts().to_dict() == {"male": 2, "female": 2}
    assert train.X.shape[1:] == (6, 128)


@pytest.mark.slow  # guards how MotionSense is read
def test_motionsense_magnitudes_are_those_of_the_axes(real):
    options = dict(activities=["jogging"], sensitive=["weight", "age"], stride=100)
    for gravity in (False, True):
        axes = real("motionsense", signals="axes", gravity=gravity, **options)
        magnitude = real("motionsense", gravity=gravity, **options)
        assert np.allclose(magnitude.X[:, 0], np.linalg.norm(axes.X[:, 3:], axis=1), atol=1e-4)
        assert np.allclose(magnitude.X[:, 1], np.linalg.norm(axes.X[:, :3], axis=1), atol=1e-4)
    resting = real("motionsense", activities=["sitting"], gravity=True, stride=500)
    assert abs(np.median(resting.X[:, 1]) - 1) < 0.02  # at rest the acceleration is that of gravity, 1 g
    assert set(magnitude.sensitive["weight"]) == {"up to 71 kg", "above 71 kg"}


def test_motionsense_tells_the_people_as_classes_and_as_numbers(real):
    data = real("motionsense", sensitive=["gender", "weight", "height", "age", "age_years", "weight_kg"], stride=500)
    by = data.sensitive
    assert [by[c].nunique() for c in ("gender", "weight", "height", "age")] == [2] * 4
    assert by["age_years"].dtype == float
    assert set(by.loc[by["age"].str.startswith("above"), "age_years"]).isdisjoint(
        by.loc[by["age"].str.startswith("up to"), "age_years"]
    )
    assert by.groupby(data.units_of("age_years")).nunique().to_numpy().max() == 1  # a person has one of each


def test_motionsense_options_are_checked(real):
    real("motionsense", stride=500)
    for option in (dict(split="user"), dict(signals="x"), dict(activities=["flying"]), dict(sensitive="name")):
        with pytest.raises(tacit.TacitError, match=f"motionsense: {next(iter(option))} must be of"):
            tacit.load_dataset("motionsense", **option)


def test_uci_har_windows_are_cut_where_the_publisher_cut_them(real):
    data = real("uci_har", features="windows")
    assert data.X.shape == (10299, 9, 128)
    assert [len(p) for p in data.split("official")] == [7352, 2947]
    bout = data.units_of()
    follows = np.flatnonzero(bout[1:] == bout[:-1])
    assert np.array_equal(data.X[follows, :, 64:], data.X[follows + 1, :, :64])  # half a window shared


@pytest.mark.slow  # guards how FER+ is read
def test_fer_plus_by_strict_majority(real):
    data = real("fer_plus")
    assert data.X.shape == (21757, 1, 48, 48)
    assert 0 <= data.X.min() < data.X.max() == 1
    assert [len(p) for p in data.split("official")] == [17320, 2288, 2149]
    assert data.y["emotion"].value_counts().to_dict() == {"neutral": 9494, "happiness": 8802, "surprise": 3461}
    with pytest.raises(tacit.TacitError, match=r"fer_plus has the emotions neutral, .*'joy'"):
        real("fer_plus", emotions=["joy"])


def test_votes_are_counted_strictly():
    votes = np.array([[6, 4, 0], [5, 4, 1], [5, 5, 0], [4, 3, 3], [0, 0, 10]])
    assert winners(votes, 0.5).tolist() == [0, -1, -1, -1, 2]
    assert winners(votes, 0.6).tolist() == [-1, -1, -1, -1, 2]
    assert winners(votes, 0).tolist() == [0, 0, -1, 0, 2]


def test_faces_with_several_labels(real):
    data = real("cmu_faces", target=["pose", "expression"], sensitive=["person", "sunglasses"])
    assert data.X.shape == (624, 1, 30, 32)
    assert [data.y[c].nunique() for c in data.y] == [4, 4]
    assert data.sensitive["sunglasses"].value_counts().to_dict() == {"open": 313, "sunglasses": 311}
    assert len(np.unique(data.units_of("sunglasses"))) == data.sensitive["person"].nunique() == 20
    assert len(np.unique(data.units_of("person"))) == 624
    with pytest.raises(tacit.TacitError, match="cmu_faces has the labels person, pose"):
        real("cmu_faces", target="hat")
    orl = real("orl_faces")
    assert orl.X.shape == (400, 1, 112, 92)
    assert orl.sensitive["person"].value_counts().unique().tolist() == [10]
