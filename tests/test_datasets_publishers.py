"""Data that only its publisher may pass on: read from small files in the publisher's layout, made here."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.io import wavfile

import tacit
from publishers import HEADS, LAYOUTS, NAMES, avi, celeba, facescrub, picture
from tacit.datasets import declarations
from tacit.datasets.hospital import TABLES
from tacit.datasets.publishers.packing import prepare
from tacit.datasets.speech import mfcc, read_sound
from tacit.datasets.store import locate


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    """An empty TACIT_DATA."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("name", ["celeba", "facescrub", "mimic3", "enterface"])
def test_without_the_files_the_error_says_where_to_get_them(name, shelf):
    assert not declarations()[name].present
    with pytest.raises(tacit.TacitError, match=rf"data file {name}/.* is not here. Get it: .*TACIT_DATA"):
        tacit.load_dataset(name)


@pytest.mark.parametrize("layout", ["flat", "publisher", "prepared", "prepared from the zip"])
def test_celeba(shelf, layout):
    folder = shelf / "celeba"
    if layout.startswith("prepared"):
        made = celeba(shelf / "box", "publisher")
        if layout.endswith("zip"):
            shutil.make_archive(str(made / "Img" / "img_align_celeba"), "zip", made / "Img", "img_align_celeba")
            shutil.rmtree(made / "Img" / "img_align_celeba")
        assert prepare("celeba", made.parent / "box").rows == "6 images: train 3, validation 2, test 1"
    else:
        celeba(folder, layout)
    assert declarations()["celeba"].present
    data = tacit.load_dataset("celeba", size=8)
    assert data.X.shape == (3, 3, 8, 8)
    assert data.y["hair"].tolist() == ["black", "blond", "brown"]
    four = ("black", "blond", "brown", "grey")
    data = tacit.load_dataset("celeba", size=8, colours=four)
    assert data.y["hair"].tolist() == ["black", "blond", "grey", "brown"]
    assert data.sensitive["identity"].tolist() == ["7", "7", "9", "11"]
    assert [len(p) for p in data.split("official")] == [2, 1, 1]
    assert np.allclose(data.X.mean(axis=(1, 2, 3)) * 255, [0, 40, 120, 200], atol=3)
    data = tacit.load_dataset("celeba", target="Smiling", sensitive=["Male", "identity"], size=None, limit=2)
    assert data.X.shape == (5, 3, 20, 16)
    assert data.sensitive["Male"].tolist() == ["yes", "no", "yes", "no", "no"]
    assert data.units_of("Male").tolist() == ["7", "7", "9", "11", "11"]
    with pytest.raises(tacit.TacitError, match=r"celeba has the labels .*found 'Bald'"):
        tacit.load_dataset("celeba", target="Bald")
    next(folder.rglob(NAMES[0])).unlink()
    with pytest.raises(tacit.TacitError, match=r"no image .*000001.jpg"):
        tacit.load_dataset("celeba")


def test_celeba_of_kaggle_has_no_identities(shelf):
    celeba(shelf / "celeba", "kaggle")
    data = tacit.load_dataset("celeba", sensitive="Male", size=8)
    assert data.y["hair"].tolist() == ["black", "blond", "brown"]
    assert [len(p) for p in data.split("official")] == [2, 1]
    with pytest.raises(tacit.TacitError, match=r"celeba has the labels .*found 'identity'"):
        tacit.load_dataset("celeba", size=8)
    done = prepare("celeba", shelf / "celeba", shelf / "other")
    assert "no identity_CelebA.txt" in done.notes[0]
    assert len(list((shelf / "other" / "celeba" / "img_align_celeba").iterdir())) == 6


def test_celeba_split_of_the_paper_is_cut_from_train(shelf, monkeypatch):
    """Its counts: 74,024 and 18,505 of 92,529 train images with a hair colour, the official test part, no other."""
    folder = celeba(shelf / "celeba")
    names = [f"{i:06d}.jpg" for i in range(1, 41)]
    for name in names:
        picture(folder / "img_align_celeba" / name, 9)
    lines = [f"{n} 1 -1 -1 -1 1 1" for n in names]
    (folder / "list_attr_celeba.txt").write_text("\n".join(["40", " ".join(HEADS), *lines]))
    (folder / "list_eval_partition.txt").write_text(
        "".join(f"{n} {[0, 0, 0, 1, 2][i % 5]}\n" for i, n in enumerate(names))
    )
    (folder / "identity_CelebA.txt").write_text("".join(f"{n} {i}\n" for i, n in enumerate(names)))
    assert [len(p) for p in tacit.load_dataset("celeba", size=8).split("official")] == [24, 8, 8]
    train, validation, test = tacit.load_dataset("celeba", size=8, split="paper").split("official")
    assert [len(train), len(validation), len(test)] == [20, 4, 8]  # a fifth of 24, rounded down
    assert 92529 // 5 == 18505
    assert all(int(i) % 5 < 3 for i in [*train.sensitive["identity"], *validation.sensitive["identity"]])
    with pytest.raises(tacit.TacitError, match="split must be 'official' or 'paper'"):
        tacit.load_dataset("celeba", split="mine")
    with pytest.raises(tacit.TacitError, match="colours must be of black, blond, brown, grey"):
        tacit.load_dataset("celeba", colours=["red"])


def test_celeba_damaged(shelf):
    folder = celeba(shelf / "celeba")

    def spoilt(file, old, new, match):
        path = folder / file
        whole = path.read_text()
        assert old in whole
        path.write_text(whole.replace(old, new, 1))
        with pytest.raises(tacit.TacitError, match=match) as caught:
            prepare("celeba", folder, shelf / "out")
        with pytest.raises(tacit.TacitError, match=match):
            tacit.load_dataset("celeba")
        path.write_text(whole)
        return str(caught.value)

    table = "list_attr_celeba.txt"
    spoilt(table, "6\n", "7\n", r"list_attr_celeba\.txt, line 1: it says 7 images, but 6 follow")
    spoilt(table, "6\n", "", r"list_attr_celeba\.txt, line 1: expected the number of images")
    spoilt(table, "000003.jpg  1 ", "000003.jpg  ", r"list_attr_celeba\.txt, line 5: 5 attributes; expected 6")
    assert "77" not in spoilt(
        table, "000002.jpg  -1 1", "000002.jpg  -1 77", r"line 4: an attribute is neither 1 nor -1"
    )
    spoilt(
        "list_eval_partition.txt",
        "000004.jpg 1",
        "000004.jpg 3",
        r"partition\.txt, line 4: .* whole number from 0 to 2",
    )
    spoilt("list_eval_partition.txt", "000004.jpg 1\n", "", r"list_eval_partition\.txt has no line for 000004\.jpg")
    spoilt("identity_CelebA.txt", "000002.jpg 7", "000002.jpg x y", r"identity_CelebA\.txt, line 2: expected an image")
    (folder / "img_align_celeba" / NAMES[2]).unlink()
    with pytest.raises(tacit.TacitError, match=r"lists 000003\.jpg, which is not in .*img_align_celeba; fetch"):
        prepare("celeba", folder, shelf / "out")
    shutil.rmtree(folder / "img_align_celeba")
    with pytest.raises(tacit.TacitError, match=r"no folder img_align_celeba and no img_align_celeba\.zip"):
        prepare("celeba", folder, shelf / "out")
    with pytest.raises(tacit.TacitError, match=r"data file celeba/img_align_celeba is not here"):
        tacit.load_dataset("celeba")
    (folder / "list_eval_partition.txt").unlink()
    with pytest.raises(tacit.TacitError, match=r"no file list_eval_partition\.txt"):
        tacit.load_dataset("celeba")
    assert not (shelf / "out").exists()


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_facescrub(shelf, layout, prepared):
    if prepared:
        assert prepare("facescrub", facescrub(shelf / "box", layout)).rows == "10 images of 4 people: female 6, male 4"
        assert {p.name for p in (shelf / "facescrub" / "actors").iterdir()} == {"Al_One", "Bo_Two"}
    else:
        facescrub(shelf / "facescrub", layout)
    assert declarations()["facescrub"].present
    data = tacit.load_dataset("facescrub", size=8, people=None)
    assert data.X.shape == (10, 3, 8, 8)
    assert data.sensitive.groupby(data.y["identity"])["gender"].first().to_dict() == {
        "Al One": "male",
        "Bo Two": "male",
        "Cy Three": "female",
        "Di": "female",
    }
    assert set(tacit.load_dataset("facescrub", size=8, people=2).y["identity"]) == {"Al One", "Di"}
    with pytest.raises(tacit.TacitError, match=r"1[0-3]x12 pixels but most images are"):
        tacit.load_dataset("facescrub", size=None)


def test_facescrub_with_its_lists_beside_the_folder(shelf):
    folder = facescrub(shelf / "box", "download")
    assert prepare("facescrub", folder / "download", shelf / "out").rows == "10 images of 4 people: female 6, male 4"


def test_facescrub_without_a_gender_or_a_list(shelf):
    folder = facescrub(shelf / "facescrub", "megaface")
    (folder / "facescrub_actresses.txt").write_text("Di and no tab\n")
    with pytest.raises(tacit.TacitError, match=r"facescrub_actresses\.txt, line 1: expected a name and a tab"):
        tacit.load_dataset("facescrub")
    (folder / "facescrub_actresses.txt").unlink()
    with pytest.raises(
        tacit.TacitError, match=r"nor the lists facescrub_actors\.txt and .* say this person's gender; add"
    ):
        prepare("facescrub", folder, shelf / "out")
    (shelf / "empty").mkdir()
    with pytest.raises(tacit.TacitError, match=r"no folder of face images; get FaceScrub"):
        prepare("facescrub", shelf / "empty", shelf / "out")


def test_mimic3_joins_the_publishers_tables(shelf):
    tables = {
        "PATIENTS": "row_id,subject_id,gender,dob\n1,1,F,1801-03-01 00:00:00\n2,2,M,2120-06-02 00:00:00\n",
        "ADMISSIONS": "row_id,subject_id,hadm_id,admittime,dischtime,admission_type,admission_location,insurance,"
        "religion,marital_status,ethnicity,hospital_expire_flag\n"
        "1,1,10,2101-02-03 12:00:00,2101-02-05 00:00:00,URGENT,CLINIC,Medicare,,SINGLE,WHITE - RUSSIAN,1\n"
        "2,2,20,2150-06-01 00:00:00,2150-06-02 00:00:00,URGENT,CLINIC,Private,,,UNABLE TO OBTAIN,0\n"
        "3,2,21,2150-06-02 00:00:00,2150-06-03 00:00:00,URGENT,CLINIC,Private,,,ASIAN,0\n",
        "ICUSTAYS": "hadm_id,intime,first_careunit,los\n"
        "10,2101-02-04 00:00:00,MICU,.5\n10,2101-02-03 13:00:00,CCU,.25\n",
        "DIAGNOSES_ICD": "hadm_id,icd9_code\n10,4019\n10,0389\n10,V5861\n10,4280\n20,E8889\n20,99592\n20,\n",
        "PROCEDURES_ICD": "hadm_id,icd9_code\n20,9604\n",
    }
    (shelf / "mimic3").mkdir()
    for name, text in tables.items():
        (shelf / "mimic3" / f"{name}.csv").write_text(text)
    assert declarations()["mimic3"].present
    data = tacit.load_dataset("mimic3", sensitive=["GENDER", "RACE"])
    assert data.sensitive["RACE"].fillna("?").tolist() == ["white", "?", "other"]
    assert data.sensitive["GENDER"].tolist() == ["F", "M", "M"]
    assert data.y["HOSPITAL_EXPIRE_FLAG"].tolist() == [1, 0, 0]
    assert data.units_of().tolist() == [1, 2, 2]
    X = data.X
    assert X["AGE_YEARS"].tolist() == [90, 29, 30]  # over 89; the day before a birthday; on it
    assert X["LOS_DAYS"].tolist() == [1.5, 1.0, 1.0]
    assert X["FIRST_CAREUNIT"].fillna("none").tolist() == ["CCU", "none", "none"]
    assert X["ICU_LOS_DAYS"].tolist() == [0.75, 0, 0]
    assert X[["N_DIAGNOSES", "N_PROCEDURES", "N_ICU_STAYS"]].to_numpy().tolist() == [[4, 0, 2], [2, 1, 0], [0, 0, 0]]
    flags = X.filter(like="ICD_").rename(columns=lambda c: c[4:])
    assert {c: flags[c].tolist() for c in flags} == {
        "E": [0, 1, 0],
        "V": [1, 0, 0],
        "circulatory": [1, 0, 0],
        "infectious": [1, 0, 0],
        "injury": [0, 1, 0],
    }
    assert not {"DEATHTIME", "DISCHARGE_LOCATION", "ETHNICITY", "GENDER", "RACE", "HADM_ID"} & set(X)


@pytest.mark.filterwarnings("ignore:Could not infer format")
def test_mimic3_agrees_with_the_table_made_from_the_demo(real, monkeypatch, tmp_path):
    real("mimic_demo")
    made = pd.read_csv(locate("mimic3_demo/admissions_table.csv.gz")).set_index("HADM_ID")
    (tmp_path / "mimic3").mkdir()
    for name in TABLES:
        shutil.copy(locate(f"mimic3_demo/{name}.csv.gz"), tmp_path / "mimic3")
    stays = pd.read_csv(tmp_path / "mimic3" / "ADMISSIONS.csv.gz")["HADM_ID"]
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    data = tacit.load_dataset("mimic3")
    assert len(data) == 129
    joined = data.X.assign(HADM_ID=stays).set_index("HADM_ID").loc[made.index]
    same = [c for c in made.columns if c in joined.columns and c != "AGE_YEARS"]  # the demo's years have two digits
    assert len(same) == 28
    for column in same:
        if made[column].dtype.kind == "f":
            assert np.allclose(joined[column], made[column], atol=0.011), column
        else:
            assert joined[column].fillna("").tolist() == made[column].fillna("").tolist(), column


def test_enterface(shelf, monkeypatch):
    rate = 8000
    time = np.arange(rate // 2) / rate
    for speaker, tone in (("subject 1", 300), ("subject 2", 1200)):
        for emotion in ("anger", "happiness"):
            sound = (8000 * np.sin(2 * np.pi * tone * time)).astype(np.int16)
            path = shelf / "enterface" / speaker / emotion / "sentence 1" / "clip.avi"
            path.parent.mkdir(parents=True)
            path.write_bytes(avi(sound, rate))
    heard, found = read_sound(path)
    assert found == rate
    assert np.allclose(heard, sound / 32767)
    wavfile.write(path.with_suffix(".wav"), rate, sound)  # takes the place of its .avi
    assert np.allclose(read_sound(path.with_suffix(".wav"))[0], heard)
    data = tacit.load_dataset("enterface")
    assert data.X.shape == (4, 52)
    assert data.y["happy"].tolist() == ["other", "happy", "other", "happy"]
    assert data.sensitive["speaker"].tolist() == ["subject 1"] * 2 + ["subject 2"] * 2
    assert np.allclose(data.X.iloc[0], data.X.iloc[1])
    assert abs(data.X.iloc[0] - data.X.iloc[2]).max() > 1  # another tone, other coefficients
    done = prepare("enterface", shelf, shelf / "out")  # the folder above
    assert done.rows == "4 sentences of 2 speakers: anger 2, happiness 2"
    monkeypatch.setenv("TACIT_DATA", str(shelf / "out"))
    packed = tacit.load_dataset("enterface")
    assert np.allclose(packed.X, data.X)
    assert packed.sensitive.equals(data.sensitive)
    assert packed.y.equals(data.y)
    monkeypatch.setenv("TACIT_DATA", str(shelf))
    whole = path.with_suffix(".wav").read_bytes()
    path.with_suffix(".wav").write_bytes(whole[:-100])
    with pytest.raises(tacit.TacitError, match=r"clip\.wav: it is cut; convert"):
        prepare("enterface", shelf, shelf / "out")
    stray = shelf / "enterface" / "subject 2" / "joy" / "clip.avi"
    stray.parent.mkdir()
    stray.write_bytes(b"")
    with pytest.raises(tacit.TacitError, match=r"joy.clip\.avi: expected a folder of anger, .* below 'subject 2'"):
        prepare("enterface", shelf, shelf / "out")
    shutil.rmtree(stray.parent)
    path.with_suffix(".wav").unlink()
    path.write_bytes(b"RIFF....AVI ")
    with pytest.raises(tacit.TacitError, match=r"clip.avi: no sound in it; convert its sound to a .wav"):
        tacit.load_dataset("enterface")


def test_a_tone_is_loudest_in_its_mel_band():
    rate, bands = 16000, 13
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), bands + 2) / 2595) - 1)
    matrix = np.sqrt(2 / bands) * np.cos(np.pi * np.outer(np.arange(bands), np.arange(bands) + 0.5) / bands)
    matrix[0] /= np.sqrt(2)
    for band in (4, 8, 11):
        tone = np.sin(2 * np.pi * edges[band + 1] * np.arange(rate) / rate)
        frames = mfcc(tone, rate)
        assert frames.shape == (99, bands)
        assert (np.argmax(frames @ matrix, axis=1) == band).all()  # the cosine transform, undone
