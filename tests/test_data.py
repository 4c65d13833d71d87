"""The papers' data: publishers' files, written in small, are packed and loaded; real sets have the papers' counts."""

from __future__ import annotations

import shutil
import tarfile

import numpy as np
import pandas as pd
import pytest

import publishers
import tacit
from papers.data import REGISTRY, hospital, locate, prepare
from papers.data.faces import winners
from papers.data.signals import MOVEMENT, POSTURE, mel_bands, statistics, statistics_names, two_seconds

# data set: rows, what is kept, what is hidden, the sizes of the official parts
SMALL = {
    "adult": (3, ["income"], ["sex"], [2, 1]),
    "titanic": (2, ["Survived"], ["Sex"], None),
    "mimic3": (600, ["HOSPITAL_EXPIRE_FLAG"], ["GENDER", "RACE"], None),
    "mnist": (5, ["parity"], ["digit"], [3, 2]),
    "fer_plus": (5, ["emotion"], [], [3, 1, 1]),
    "cmu_faces": (8, ["sunglasses"], ["person"], None),
    "orl_faces": (9, [], ["person"], None),
    "genki": (10, ["smile"], ["gender"], [6, 4]),
    "genki4k": (4, ["smile"], [], None),
    "motionsense": (138, ["activity"], ["gender", "identity"], [92, 46]),
    "uci_har": (9, ["activity"], ["subject"], [6, 3]),
    "emodb": (4, ["emotion"], ["speaker"], None),
    "enterface": (90, ["happy"], ["speaker"], None),
}


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    """An empty TACIT_DATA."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "shelf"


def written(name, box):
    """A publisher's folder in small; what was put into it."""
    makers = {"fer_plus": "fer", "motionsense": "motion", "uci_har": "har", "cmu_faces": "cmu", "orl_faces": "orl",
              "mimic3": "mimic"}  # fmt: skip
    if name not in ("mimic3", "enterface"):
        box.mkdir()
    return getattr(publishers, makers.get(name, name))(box)


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("name", SMALL)
def test_a_publishers_files_are_packed_and_loaded(name, form, shelf, tmp_path):
    assert not REGISTRY[name].present
    with pytest.raises(tacit.TacitError, match="TACIT_DATA"):
        tacit.load_dataset(name)
    written(name, tmp_path / "box")
    given = tmp_path / "box"
    if form == "zip":
        given = publishers.zipped(given, tmp_path / "box.zip", "outer/")
    assert all(path.exists() for path in prepare(name, given))
    assert REGISTRY[name].present
    data = tacit.load_dataset(name)
    rows, kept, hidden, parts = SMALL[name]
    assert (len(data), sorted(data.y), sorted(data.sensitive)) == (rows, kept, hidden)
    assert parts is None or [len(p) for p in data.split("official")] == parts
    assert isinstance(data.X, pd.DataFrame) or np.isfinite(data.X).all()


def packed(name, tmp_path, **options):
    """What was written, and what is loaded of it."""
    made = written(name, tmp_path / "box")
    prepare(name, tmp_path / "box")
    return made, tacit.load_dataset(name, **options)


def test_images_are_those_of_the_files(shelf, tmp_path):
    (tmp_path / "a").mkdir()
    made, data = packed("fer_plus", tmp_path / "a")
    assert np.array_equal(np.round(data.X[:, 0] * 255), made[[0, 2, 3, 4, 5]])  # one has no name in FER+
    assert data.y["emotion"].tolist() == ["neutral", "surprise", "neutral", "happiness", "surprise"]
    (tmp_path / "b").mkdir()
    made, data = packed("cmu_faces", tmp_path / "b", target=["pose", "sunglasses"])
    for image, who, (pose, eyes) in zip(data.X, data.sensitive["person"], data.y.to_numpy(), strict=True):
        assert np.array_equal(np.round(image[0] * 255), made[who, pose, eyes])
    (tmp_path / "c").mkdir()
    made, data = packed("orl_faces", tmp_path / "c")
    assert np.array_equal(np.round(data.X[:, 0] * 255), list(made.values()))
    (tmp_path / "d").mkdir()
    made, data = packed("genki", tmp_path / "d", flat=False)
    assert np.allclose(data.X[:, 0], made)
    assert data.y["smile"].tolist() == ["none", "smile"] * 5
    (tmp_path / "e").mkdir()
    made, data = packed("mnist", tmp_path / "e", flat=False)
    assert np.array_equal(np.round(data.X[:, 0] * 255), made)
    (tmp_path / "f").mkdir()
    _, data = packed("genki4k", tmp_path / "f", sensitive=["yaw"])
    assert np.allclose(data.X.mean(axis=(1, 2, 3)) * 255, [50, 100, 150, 200], atol=2)
    assert data.sensitive["yaw"].tolist() == pytest.approx([-0.1, 0, 1, 0.5])


def test_recordings_are_those_of_the_files(shelf, tmp_path):
    options = {"signals": "axes", "length": 100, "stride": 100, "sensitive": ["identity", "gender", "age_years"]}
    made, data = packed("motionsense", tmp_path, gravity=False, **options)
    first = made["dws", 1, 1].iloc[:100]
    assert np.allclose(data.X[0], first[list(MOVEMENT)].to_numpy().T, atol=1e-6)
    assert data.sensitive.iloc[0].tolist() == [1, "male", 46.0]
    moved = tacit.load_dataset("motionsense", gravity=True, **options).X[0, :3] - data.X[0, :3]
    assert np.allclose(moved, first[list(POSTURE[:3])].to_numpy().T, atol=1e-6)
    for option in ({"split": "user"}, {"signals": "x"}, {"activities": ["flying"]}, {"sensitive": "name"}):
        with pytest.raises(tacit.TacitError, match=f"motionsense: {next(iter(option))} must be of"):
            tacit.load_dataset("motionsense", **option)


def test_windows_that_overlap_are_stored_once(shelf, tmp_path):
    made, data = packed("uci_har", tmp_path)
    assert np.allclose(data.X, np.concatenate([made["train"][0], made["test"][0]]), atol=1e-6)
    assert data.y["activity"].tolist() == ["STANDING"] * 2 + ["SITTING"] * 3 + ["WALKING"] * 3 + ["STANDING"]
    assert data.units_of().tolist() == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    windows = tacit.load_dataset("uci_har", features="windows")
    everything = np.concatenate([made["train"][1], made["test"][1]])
    assert np.allclose(windows.X, everything.transpose(0, 2, 1), atol=1e-5)
    assert len(np.load(locate("uci_har/uci_har_inertial.npz"))["signals"]) == 9 * 128 - 3 * 64


def test_tables_keep_text_and_gaps(shelf, tmp_path):
    (tmp_path / "a").mkdir()
    _, data = packed("adult", tmp_path / "a", sensitive=["sex", "race"])
    assert data.y["income"].tolist() == ["<=50K", ">50K", ">50K"]
    assert data.X["native-country"].isna().all()
    (tmp_path / "t").mkdir()
    _, data = packed("titanic", tmp_path / "t", identifiers=True)
    assert data.X["Name"].tolist() == ["Doe, Mr. A", "Roe, Mrs. B"]
    assert data.X["Age"].isna().tolist() == [False, True]
    with pytest.raises(tacit.TacitError, match="titanic has no column 'sex'"):
        tacit.load_dataset("titanic", sensitive="sex")


def test_events_of_the_hospital_are_summed_over_chunks(shelf, tmp_path, monkeypatch):
    """In chunks of one row: Fahrenheit, errors, impossible values; drugs in any spelling."""
    box = publishers.mimic(tmp_path / "box", admissions=3)
    (box / "CHARTEVENTS.csv").write_text(
        "row_id,hadm_id,itemid,valuenum,error\n1,1001,220045,60,0\n2,1001,211,80,\n3,1001,211,999,\n4,1001,211,70,1\n"
        "5,1002,678,98.6,\n6,,211,70,\n"
    )
    (box / "PRESCRIPTIONS.csv").write_text("HADM_ID,DRUG\n1001,Aspirin\n1001,aspirin \n1002,Heparin\n1003,\n")
    monkeypatch.setattr(hospital, "CHUNK", 1)
    prepare("mimic3", box)
    X = tacit.load_dataset("mimic3").X
    assert X[["HEART_RATE_MEAN", "HEART_RATE_MIN", "HEART_RATE_MAX"]].iloc[0].tolist() == [70, 60, 80]
    assert X["TEMPERATURE_MEAN"].iloc[1] == pytest.approx(37)
    assert X["HEART_RATE_MEAN"].isna().tolist() == [False, True, True]
    assert X[["N_DRUGS", "N_DIFFERENT_DRUGS", "DRUG_ASPIRIN"]].to_numpy().tolist() == [[2, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_a_patient_over_89_is_90(shelf, tmp_path):
    box = publishers.mimic(tmp_path / "box", admissions=2)
    text = (box / "PATIENTS.csv").read_text().splitlines()
    (box / "PATIENTS.csv").write_text("\n".join([*text[:2], "2,2,F,1800-05-01 00:00:00"]) + "\n")
    prepare("mimic3", box)
    assert tacit.load_dataset("mimic3").X["AGE_YEARS"].iloc[1] == 90


@pytest.mark.parametrize("data", ["celeba", "facescrub"])
def test_owners_faces(data, shelf):
    publishers.made(data, shelf)
    assert REGISTRY[data].present
    loaded = tacit.load_dataset(data, size=8)
    assert loaded.X.shape == ({"celeba": 160, "facescrub": 120}[data], 3, 8, 8)
    if data == "facescrub":
        assert tacit.load_dataset(data, size=8, people=4).y["identity"].nunique() == 4
        return
    train, _, test = loaded.split("official")
    assert set(train.sensitive["identity"]).isdisjoint(test.sensitive["identity"])
    paper = tacit.load_dataset(data, size=8, split="paper").split("official")
    assert [len(p) for p in paper] == [len(train) - len(train) // 5, len(train) // 5, len(test)]
    assert [len(p) for p in tacit.load_dataset(data, size=8, limit=3).split("official")] == [3, 3, 3]
    with pytest.raises(tacit.TacitError, match="Bald"):
        tacit.load_dataset(data, target="Bald")


def test_what_is_missing_or_damaged_is_an_error_and_keeps_what_was_there(shelf, tmp_path):
    written("uci_har", tmp_path / "box")
    before = prepare("uci_har", tmp_path / "box")[0].read_bytes()
    (tmp_path / "box" / "UCI HAR Dataset" / "features.txt").unlink()
    with pytest.raises(tacit.TacitError, match=r"features\.txt"):
        prepare("uci_har", tmp_path / "box")
    bad = tmp_path / "bad.zip"
    bad.write_bytes(b"PK no archive")
    with pytest.raises(tacit.TacitError, match=r"bad\.zip cannot be unpacked"):
        prepare("uci_har", bad)
    with tarfile.open(tmp_path / "out.tar", "w") as archive:
        archive.add(__file__, "../features.txt")
    with pytest.raises(tacit.TacitError, match=r"out\.tar cannot be unpacked"):
        prepare("uci_har", tmp_path / "out.tar")
    assert not (tmp_path / "features.txt").exists()
    assert locate("uci_har/uci_har_features561.npz").read_bytes() == before
    with pytest.raises(tacit.TacitError, match="celeba is not a data set that is prepared"):
        prepare("celeba", tmp_path)
    shutil.rmtree(shelf)


def test_emodb_statistics_are_those_of_the_shared_features(real):
    real("emodb")
    file = np.load(locate("emodb_mfcc/emodb_mfcc.npz"))
    found = np.array([statistics(bands.astype(float)) for bands in file["logmel"][:40]])
    assert statistics_names() == [str(n) for n in file["feature_names"]]
    assert np.abs(found - file["features"][:40]).max() < 0.1


def test_a_tone_is_loudest_in_its_band_of_forty():
    time = np.arange(8000) / 8000
    bands = mel_bands(two_seconds(np.sin(2 * np.pi * 1000 * time), 8000), 16000, 400, 160, 512, 40)
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 16000 / 1400), 42) / 2595) - 1)
    band = bands[:90].mean(axis=0).argmax()
    assert edges[band] < 1000 < edges[band + 2]
    assert bands[-1].max() < bands[0].max() - 10  # the second second is silence


@pytest.mark.parametrize("name", [n for n in sorted(REGISTRY) if n != "fer_plus"])
def test_every_data_set_loads_and_splits(name, real):
    data = real(name)
    parts = data.split((0.5, 0.2, 0.3), random_state=3)
    assert sorted(np.concatenate([p.rows for p in parts])) == list(range(len(data)))
    assert all(data.y[column].nunique() >= 2 for column in data.y)
    assert not isinstance(data.X, pd.DataFrame) or not set(data.X) & set(data.sensitive)


def test_known_sizes(real):
    assert [len(p) for p in real("adult").split("official")] == [32561, 16281]
    assert real("mnist", flat=False).X.shape == (70000, 1, 28, 28)


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


def test_uci_har_windows_are_cut_where_the_publisher_cut_them(real):
    data = real("uci_har", features="windows")
    assert data.X.shape == (10299, 9, 128)
    assert [len(p) for p in data.split("official")] == [7352, 2947]
    bout = data.units_of()
    follows = np.flatnonzero(bout[1:] == bout[:-1])
    assert np.array_equal(data.X[follows, :, 64:], data.X[follows + 1, :, :64])  # half a window shared


@pytest.mark.slow  # seconds of decoding
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
