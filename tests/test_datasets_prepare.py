"""`tacit data prepare`: small folders in the publishers' own formats, written here, are packed and loaded."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tarfile
import zipfile

import numpy as np
import pooch
import pytest
from typer.testing import CliRunner

import tacit
from publishers import cmu, emodb, fer, genki, genki4k, har, motion, orl, pgm, write, zipped
from tacit.cli import app, main
from tacit.datasets import declarations
from tacit.datasets.publishers import source as source_module
from tacit.datasets.publishers.emodb_files import feature_names, log_mel, statistics, two_seconds
from tacit.datasets.publishers.motion_files import MOVEMENT, POSTURE
from tacit.datasets.publishers.packing import PUBLISHERS, prepare
from tacit.datasets.publishers.pgm import read_pgm
from tacit.datasets.publishers.source import Source
from tacit.datasets.store import locate
from tacit.datasets.where import WHERE


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    """An empty TACIT_DATA."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "shelf"


@pytest.fixture
def box(tmp_path):
    """Where a publisher's folder is made."""
    (tmp_path / "box").mkdir()
    return tmp_path / "box"


def refuses(name, folder, match):
    with pytest.raises(tacit.TacitError, match=match) as caught:
        prepare(name, folder)
    return str(caught.value)


# -- FER2013 and FER+ -----------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fer2013_is_packed_with_its_votes(shelf, box, end):
    images = fer(box, end=end)
    done = prepare("fer_plus", box)
    assert done.rows == "5 images: Training 3, PublicTest 1, PrivateTest 1"
    assert done.notes == ("1 rows without an image name in FER+ are left out",)
    data = tacit.load_dataset("fer_plus")
    assert np.array_equal(np.round(data.X[:, 0] * 255), images[[0, 2, 3, 4, 5]])
    assert data.y["emotion"].tolist() == ["neutral", "surprise", "neutral", "happiness", "surprise"]
    assert [len(p) for p in data.split("official")] == [3, 1, 1]


def test_fer2013_in_other_dress(shelf, box):
    """Kaggle's second file has blanks in its heads and another order; files may be compressed, or begin with a mark."""
    fer(box)
    text = (box / "fer2013" / "fer2013.csv").read_text().splitlines()
    cells = [line.split(",") for line in text[1:]]
    body = "\n".join(["emotion, Usage, pixels", *(f"{e},{u},{p}" for e, p, u in cells)])
    shutil.rmtree(box / "fer2013")
    write(box / "icml_face_data.csv.gz", gzip.compress(body.encode("utf-8-sig")))
    assert prepare("fer2013", box).rows.startswith("5 images")


def test_fer2013_damaged(shelf, box):
    fer(box)
    path = box / "fer2013" / "fer2013.csv"
    whole = path.read_text()
    lines = whole.splitlines()

    def damaged(line, text):
        path.write_text("\n".join([*lines[: line - 1], text, *lines[line:]]))

    damaged(3, lines[2].replace(" ", "  x", 1))
    refuses("fer_plus", box, r"fer2013\.csv, line 3: a pixel is not a whole number; .*mend")
    damaged(3, "3,1 2 3,Training")
    refuses("fer_plus", box, r"fer2013\.csv, line 3: 3 pixels; expected 48x48")
    damaged(3, "3,1 2 3")
    refuses("fer_plus", box, r"fer2013\.csv, line 3: 2 cells where line 1 names 3 columns")
    damaged(4, "3," + " ".join(["999"] * 2304) + ",Training")
    assert "999" not in refuses("fer_plus", box, r"fer2013\.csv, line 4: a pixel is not from 0 to 255")
    damaged(4, lines[3].replace("Training", "Holiday"))
    assert "Holiday" not in refuses("fer_plus", box, r"line 4: Usage must be one of Training, PublicTest")
    damaged(1, "emotion,pixel,Usage")
    refuses("fer_plus", box, r"fer2013\.csv has no column 'pixels'; its columns are emotion, pixel, Usage")
    path.write_text("\n".join(lines[1:]))  # no header: its first line is somebody's
    assert "Training" not in refuses("fer_plus", box, r"fer2013\.csv, line 1 names none of the columns pixels, Usage")
    path.write_text("\n".join(lines[:-1]))
    refuses("fer_plus", box, r"fer2013new\.csv has 6 rows but .*fer2013\.csv has 5; one of the two is cut")
    path.write_text("")
    refuses("fer_plus", box, r"fer2013\.csv is empty")
    path.write_text(whole)
    votes = box / "fer2013new.csv"
    text = votes.read_text()
    votes.write_text(text.replace("PublicTest", "Training"))
    refuses("fer_plus", box, r"fer2013new\.csv, line 6: its Usage is not that of")
    votes.write_text(text.replace(",8,", ",many,", 1))
    assert "many" not in refuses("fer_plus", box, r"fer2013new\.csv, line 2: neutral is not a number")
    votes.unlink()
    refuses("fer_plus", box, r"has no file fer2013new\.csv; get .*microsoft/FERPlus")
    assert not list(shelf.rglob("*.npz"))


# -- MotionSense ----------------------------------------------------------------------------------


def test_motionsense_folders_of_csv(shelf, box):
    made = motion(box)
    done = prepare("motionsense", box)
    assert done.rows == "6 recordings of 2 people, 2,100 samples"
    assert "360" in done.notes[0]
    options = dict(signals="axes", length=100, stride=100, sensitive=["identity", "gender", "age_years"])
    data = tacit.load_dataset("motionsense", gravity=False, **options)
    first = made["dws", 1, 1].iloc[:100]
    assert np.allclose(data.X[0], first[list(MOVEMENT)].to_numpy().T, atol=1e-6)
    assert data.sensitive.iloc[0].tolist() == [1, "male", 46.0]
    with_gravity = tacit.load_dataset("motionsense", gravity=True, **options).X[0, :3]
    assert np.allclose(
        with_gravity, first[list(MOVEMENT[:3])].to_numpy().T + first[list(POSTURE[:3])].to_numpy().T, atol=1e-6
    )
    train, test = data.split("official")
    assert set(test.y["activity"]) == {"walking"}  # trial 15
    assert len(train) == (3 + 2) * 2


def test_motionsense_as_the_repository_has_it(shelf, box):
    """A zip beside the table of people; the outer folder is passed."""
    motion(box)
    whole = prepare("motionsense", box).rows
    zipped(box / "A_DeviceMotion_data", box / "A_DeviceMotion_data.zip", "A_DeviceMotion_data/")
    shutil.rmtree(box / "A_DeviceMotion_data")
    assert prepare("motionsense", box.parent).rows == whole
    with zipfile.ZipFile(box / "A_DeviceMotion_data.zip", "a") as archive:
        archive.writestr("A_DeviceMotion_data/jog_9/sub_1.csv", "no header\n")
    refuses("motionsense", box, r"A_DeviceMotion_data\.zip/A_DeviceMotion_data/jog_9/sub_1\.csv, line 1 names none of")


def test_the_inner_folder_alone_is_enough_where_the_rest_lies_beside_it(shelf, box):
    motion(box)
    fer(box)
    whole = prepare("motionsense", box).rows
    assert prepare("motionsense", box / "A_DeviceMotion_data").rows == whole
    assert prepare("fer_plus", box / "fer2013").rows.startswith("5 images")
    path = zipped(box / "A_DeviceMotion_data", box / "A_DeviceMotion_data.zip")
    assert prepare("motionsense", path).rows == whole
    write(box / "data_subjects_info.csv", "code,weight,height,age,gender\n1,102,188,46,7\n")
    told = refuses("motionsense", path, r"data_subjects_info\.csv, line 2: gender is not a whole number from 0 to 1")
    assert told.startswith(str(box / "data_subjects_info.csv"))


def test_motionsense_damaged(shelf, box):
    motion(box)
    path = box / "A_DeviceMotion_data" / "wlk_7" / "sub_2.csv"
    whole = path.read_text()
    lines = whole.splitlines()
    for line, text, match in (
        (1, lines[0].replace("gravity.x", "gravity"), "has no column 'gravity.x'"),
        (5, lines[4] + ",1", r"line 5: 14 cells where line 1 names 13"),
        (5, lines[4].rsplit(",", 1)[0], r"line 5: 12 cells where line 1 names 13"),
        (7, lines[6].rsplit(",", 1)[0] + ",walked", r"line 7: userAcceleration.z is not a number"),
        (7, lines[6].rsplit(",", 1)[0] + ",", r"line 7: userAcceleration.z is not a number"),
        (7, lines[6].rsplit(",", 1)[0] + ",inf", r"line 7: userAcceleration.z is not a number"),
    ):
        path.write_text("\n".join([*lines[: line - 1], text, *lines[line:]]) + "\n")
        assert "walked" not in refuses("motionsense", box, rf"wlk_7.sub_2\.csv.*{match}")
    path.write_text(lines[0])
    refuses("motionsense", box, r"sub_2\.csv has no line of data")
    path.write_text(whole)
    write(box / "data_subjects_info.csv", "code,weight,height,age,gender\n1,102,188,46,1\n")
    refuses("motionsense", box, r"sub_2\.csv is of a person whom data_subjects_info\.csv does not list")
    write(box / "data_subjects_info.csv", "code,weight,height,age,gender\n1,102,188,46,man\n")
    assert "man" not in refuses("motionsense", box, r"subjects_info\.csv, line 2: gender is not a number").split(";")[0]
    (box / "data_subjects_info.csv").unlink()
    refuses("motionsense", box, r"no file data_subjects_info\.csv; get .*motion-sense")
    shutil.rmtree(box / "A_DeviceMotion_data")
    motion_people = write(box / "data_subjects_info.csv", "code,weight,height,age,gender\n1,1,1,1,1\n")
    refuses("motionsense", motion_people.parent, r"no recording such as A_DeviceMotion_data/dws_1/sub_1\.csv")


# -- UCI HAR --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["folder", "inner folder", "zip", "zip in a zip"])
def test_uci_har_from_the_zip_or_its_folder(shelf, box, form):
    made = har(box)
    given = {"folder": box, "inner folder": box / "UCI HAR Dataset"}.get(form)
    if given is None:
        given = zipped(box, box.parent / "UCI HAR Dataset.zip")
    if form == "zip in a zip":  # as UCI's site hands it out today
        with zipfile.ZipFile(box.parent / "human+activity.zip", "w") as outer:
            outer.write(given, "UCI HAR Dataset.zip")
        given = box.parent / "human+activity.zip"
    done = prepare("uci_har", given)
    assert done.rows == "9 windows of 3 people in 6 bouts: train 6, test 3"
    data = tacit.load_dataset("uci_har")
    assert np.allclose(data.X, np.concatenate([made["train"][0], made["test"][0]]), atol=1e-6)
    assert data.y["activity"].tolist() == ["STANDING"] * 2 + ["SITTING"] * 3 + ["WALKING"] * 3 + ["STANDING"]
    assert data.sensitive["subject"].tolist() == [1, 1, 1, 3, 3, 3, 2, 2, 2]
    assert data.units_of().tolist() == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    assert [len(p) for p in data.split("official")] == [6, 3]
    windows = tacit.load_dataset("uci_har", features="windows")
    everything = np.concatenate([made["train"][1], made["test"][1]])
    assert np.allclose(windows.X, everything.transpose(0, 2, 1), atol=1e-5)
    packed = np.load(shelf / "uci_har" / "uci_har_inertial.npz")
    assert len(packed["signals"]) == 9 * 128 - 3 * 64  # three shared halves are stored once


def test_uci_har_without_signals(shelf, box):
    har(box)
    for part in ("train", "test"):
        shutil.rmtree(box / "UCI HAR Dataset" / part / "Inertial Signals")
    assert "features='windows'" in prepare("uci_har", box).notes[0]
    assert len(tacit.load_dataset("uci_har")) == 9


def test_uci_har_damaged(shelf, box):
    har(box)
    root = box / "UCI HAR Dataset"

    def spoilt(file, change, match):
        path = root / file
        whole = path.read_text()
        lines = whole.splitlines()
        change(lines)
        path.write_text("\n".join(lines) + "\n")
        told = refuses("uci_har", box, match)
        path.write_text(whole)
        assert "secret" not in told

    def put(line, text):
        return lambda lines: lines.__setitem__(line - 1, text)

    spoilt("train/X_train.txt", put(3, "0.1 0.2"), r"X_train\.txt, line 3: 2 numbers; expected 5")
    spoilt("train/X_train.txt", put(2, "1 2 3 secret 5"), r"X_train\.txt, line 2: number 4 is not a number")
    spoilt("train/X_train.txt", put(2, "1 2 3 nan 5"), r"X_train\.txt, line 2: number 4 is not a number")
    spoilt("test/X_test.txt", lambda lines: lines.pop(), r"y_test\.txt has 3 rows but .*X_test\.txt has 2")
    spoilt("test/y_test.txt", put(2, "9"), r"y_test\.txt, line 2: the line is not a whole number from 1 to 6")
    spoilt("train/subject_train.txt", put(1, "secret"), r"subject_train\.txt, line 1: the line is not a number")
    spoilt("activity_labels.txt", put(2, "3 SITTING"), r"activity_labels\.txt, line 2: expected 2 and a name")
    spoilt(
        "train/Inertial Signals/body_gyro_y_train.txt",
        put(2, "1 2"),
        r"body_gyro_y_train\.txt, line 2: 2 numbers; expected 128",
    )
    (root / "test" / "Inertial Signals" / "total_acc_z_test.txt").unlink()
    refuses("uci_har", box, r"no file Inertial Signals/total_acc_z_test\.txt beside the others")
    (root / "test" / "y_test.txt").unlink()
    refuses("uci_har", box, r"no file test/y_test\.txt or y_test\.txt; get 'Human Activity")


# -- archives -------------------------------------------------------------------------------------


def test_archives_that_lead_out_or_blow_up_are_refused(shelf, box, monkeypatch):
    bad = box / "bad.zip"
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("../../etc/features.txt", "1 x\n")
    refuses("uci_har", bad, r"bad\.zip has a file '../../etc/features\.txt' whose path leads out of it")
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("UCI HAR Dataset/features.txt", b"0" * 3_000_000)
    refuses("uci_har", bad, r"features\.txt would grow to over 200 times its size")
    with tarfile.open(box / "bad.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("/abs/s1/1.pgm")
        archive.addfile(member, io.BytesIO(b""))
    refuses("orl_faces", box / "bad.tar.gz", r"whose path leads out of it")
    with tarfile.open(box / "link.tar", "w") as archive:
        member = tarfile.TarInfo("s1/1.pgm")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    refuses("orl_faces", box / "link.tar", r"no image such as s1/1\.pgm")
    bad.write_bytes(bad.read_bytes()[:50])
    refuses("uci_har", bad, r"bad\.zip is no whole archive .*fetch it again")
    monkeypatch.setattr(source_module, "INNER", 1000)
    refuses("orl_faces", box / "bad.tar.gz", r"bad\.tar\.gz holds over 1,000 bytes; unpack it and pass the folder")
    monkeypatch.setattr(source_module, "LARGEST", 10)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("features.txt", "1 something\n")
    refuses("uci_har", bad, r"holds over 10 bytes")
    assert sorted(p.name for p in box.iterdir()) == ["bad.tar.gz", "bad.zip", "link.tar"]  # nothing was unpacked


def test_a_compressed_table_that_is_cut(shelf, box):
    fer(box)
    path = box / "fer2013" / "fer2013.csv"
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    write(path.with_suffix(".csv.gz"), packed[:-2000])
    refuses("fer_plus", box, r"fer2013\.csv\.gz cannot be read \(.*\); fetch it again")


def test_a_line_without_end_is_refused(box, monkeypatch):
    monkeypatch.setattr(source_module, "LONGEST", 100)
    path = write(box / "a.txt", "x" * 99 + "\n" + "y" * 101)
    with pytest.raises(tacit.TacitError, match=r"a\.txt, line 2: it is longer than 100 characters"):
        list(Source(path, "a").lines("a.txt"))


# -- pgm ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [False, True])
def test_pgm(text):
    image = np.random.default_rng(0).integers(0, 256, (5, 7))
    assert np.array_equal(read_pgm(pgm(image, text), "a"), image)
    assert np.array_equal(read_pgm(pgm(image // 255 * 15, text, 15), "a"), image // 255 * 255)
    assert np.array_equal(read_pgm(b"P5 # c\r\n2 # d\n1\n65535\n\x00\x00\xff\xff", "a"), [[0, 255]])
    with pytest.raises(tacit.TacitError, match=r"b\.pgm is cut: .*fetch it again"):
        read_pgm(pgm(image, text)[:-25], "b.pgm")
    with pytest.raises(tacit.TacitError, match=r"b\.pgm does not begin with P5 or P2"):
        read_pgm(b"P6" + pgm(image, text)[2:], "b.pgm")
    with pytest.raises(tacit.TacitError, match=r"b\.pgm: its header, line 2, has no width"):
        read_pgm(b"P5\nwide 5\n255\n", "b.pgm")
    with pytest.raises(tacit.TacitError, match=r"above the largest value"):
        read_pgm(pgm(np.full((2, 2), 9), text, 8), "b.pgm")


def test_text_pgm_names_the_line():
    with pytest.raises(tacit.TacitError, match=r"b\.pgm, line 5: a pixel is not a number"):
        read_pgm(b"P2\n2 2\n255\n1 2\n3 x\n", "b.pgm")


@pytest.mark.parametrize("text", [False, True])
def test_cmu_faces(shelf, box, text):
    made = cmu(box, text=text)
    assert prepare("cmu_faces", box).rows == "8 images of 2 people: open 4, sunglasses 4"
    data = tacit.load_dataset("cmu_faces", target=["pose", "sunglasses", "expression"])
    for i, (person, pose, eyes) in enumerate(
        zip(data.sensitive["person"], data.y["pose"], data.y["sunglasses"], strict=True)
    ):
        assert np.array_equal(np.round(data.X[i, 0] * 255), made[person, pose, eyes])
    assert set(data.y["expression"]) == {"happy"}


def test_cmu_faces_of_another_size_and_in_a_tar(shelf, box):
    made = cmu(box, "", (120, 128))
    with tarfile.open(box.parent / "faces.tar.gz", "w:gz") as archive:
        archive.add(box / "faces", "faces")
    assert "averaged" in prepare("cmu_faces", box.parent / "faces.tar.gz").notes[0]
    image = np.load(shelf / "cmu_faces" / "cmu_faces_30x32.npz")["images"][0]
    assert abs(image[0, 0] - made["an2i", "left", "open"][:4, :4].mean()) <= 0.5


def test_cmu_faces_damaged(shelf, box):
    cmu(box)
    path = box / "faces" / "an2i" / "an2i_up_happy_open_4.pgm"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    refuses("cmu_faces", box, r"an2i_up_happy_open_4\.pgm is cut: its header says 30x32 pixels")
    path.write_bytes(pgm(np.zeros((30, 31))))
    refuses("cmu_faces", box, r"an2i_up_happy_open_4\.pgm is 30x31 pixels; expected 30x32")
    path.rename(path.with_name("an2i_down_happy_open_4.pgm"))
    refuses("cmu_faces", box, r"an2i_down_happy_open_4\.pgm: expected a pose of left, right, straight, up")
    shutil.rmtree(box / "faces")
    refuses("cmu_faces", box, r"no image such as an2i/an2i_left_angry_open_4\.pgm; get 'CMU Face Images'")


def test_orl_faces(shelf, box):
    made = orl(box)
    assert prepare("orl_faces", zipped(box, box.parent / "att_faces.zip")).rows == "9 images of 3 people"
    data = tacit.load_dataset("orl_faces")
    assert data.sensitive["person"].tolist() == [1, 1, 1, 2, 2, 2, 10, 10, 10]
    assert all(np.array_equal(np.round(x[0] * 255), made[key]) for x, key in zip(data.X, sorted(made), strict=True))
    write(box / "att_faces" / "s2" / "2.pgm", pgm(made[1, 1])[:500])
    refuses("orl", box / "att_faces", r"s2.2\.pgm is cut")


# -- Genki ----------------------------------------------------------------------------------------


def test_genki_mat(shelf, box):
    images = genki(box)
    assert prepare("genki", box).rows == "10 images: 6 train, 4 test"
    data = tacit.load_dataset("genki", flat=False)
    assert np.allclose(data.X[:, 0], images, atol=1e-6)
    assert data.y["smile"].tolist() == ["none", "smile"] * 5
    assert data.sensitive["gender"].tolist() == ["male"] * 3 + ["female"] * 3 + ["male"] * 2 + ["female"] * 2
    assert prepare("genki", box / "genki.mat").rows == "10 images: 6 train, 4 test"
    genki(box, y2_test=np.array([[1, 2, 3, 1]]))
    refuses("genki", box, r"genki\.mat: y2_test must have a code, 1 or 2, for each of 4 images")
    genki(box, Xtest=np.zeros((200, 4)))
    refuses("genki", box, r"genki\.mat: Xtest has shape \(200, 4\); expected 256 numbers a column")
    genki(box, y1_train=None)
    refuses("genki", box, r"genki\.mat has no array y1_train; get")
    whole = (box / "genki.mat").read_bytes()
    (box / "genki.mat").write_bytes(whole[: len(whole) // 2])
    refuses("genki", box, r"genki\.mat is no whole MATLAB file|has no array")
    (box / "genki.mat").write_bytes(b"not matlab")
    refuses("genki", box, r"genki\.mat is no whole MATLAB file .*get test/genki\.mat")


def test_genki_4k(shelf, box):
    labels = genki4k(box)
    done = prepare("genki", box)
    assert done.rows == "4 images: smile 2, none 2"
    assert "no gender labels" in done.notes[0]
    data = tacit.load_dataset("genki4k", sensitive=["yaw"])
    assert data.X.shape == (4, 1, 64, 64)
    assert np.allclose(data.X.mean(axis=(1, 2, 3)) * 255, [50, 100, 150, 200], atol=3)
    assert data.y["smile"].tolist() == ["smile", "smile", "none", "none"]
    assert np.allclose(data.sensitive["yaw"], [-0.1, 0, 1, 0.5])
    labels.write_text("1 -.1 .2 .0\n1 0 0 0\n0 1 1 1\n")
    refuses("genki4k", box, r"files has 4 rows but .*labels\.txt has 3")
    labels.write_text("1 -.1 .2 .0\n2 0 0 0\n0 1 1 1\n0 1 1 1\n")
    refuses("genki4k", box, r"labels\.txt, line 2: expected smile \(0 or 1\)")
    labels.write_text("1 -.1 .2 .0\n1 0 0\n0 1 1 1\n0 1 1 1\n")
    refuses("genki4k", box, r"labels\.txt, line 2: 3 numbers; expected 4")
    labels.unlink()
    # the later release: one folder of files, a list of names for every subset
    subset = box / "genki4k" / "Subsets" / "GENKI-4K"
    write(subset / "GENKI-4K_Images.txt", "file0003.jpg\nfile0001.jpg\n")
    write(subset / "GENKI-4K_Labels.txt", "0 1 1 1\n1 0 0 0\n")
    assert prepare("genki4k", box).rows == "2 images: none 1, smile 1"
    assert np.allclose(tacit.load_dataset("genki4k").X.mean(axis=(1, 2, 3)) * 255, [150, 50], atol=3)
    write(subset / "GENKI-4K_Images.txt", "file0003.jpg\nfile0009.jpg\n")
    refuses("genki4k", box, r"GENKI-4K_Images\.txt, line 2: no such picture")
    (box / "genki4k" / "files" / "file0003.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut")
    write(subset / "GENKI-4K_Images.txt", "file0003.jpg\nfile0001.jpg\n")
    refuses("genki4k", box, r"file0003\.jpg is no whole picture")


# -- EMO-DB ---------------------------------------------------------------------------------------


def test_emodb_wav(shelf, box):
    emodb(box)
    assert prepare("emodb", box).rows == "4 sentences of 3 speakers: happiness 1, anger 1, sadness 1, boredom 1"
    data = tacit.load_dataset("emodb", sensitive=["speaker", "gender"])
    assert data.X.shape == (4, 240)
    assert data.y["emotion"].tolist() == ["happiness", "anger", "sadness", "boredom"]
    assert data.sensitive["speaker"].tolist() == [3, 3, 8, 14]
    assert data.sensitive["gender"].tolist() == ["male", "male", "female", "female"]
    packed = np.load(shelf / "emodb_mfcc" / "emodb_mfcc.npz")
    assert packed["logmel"].shape == (4, 198, 40)
    assert packed["age"].tolist() == [31, 31, 34, 35]
    assert np.allclose(packed["logmel"][0, 120:], np.log(1e-10), atol=0.02)  # 1.2 s, then silence
    path = box / "wav" / "03a01Wa.wav"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    refuses("emodb", box, r"03a01Wa\.wav is cut: its header says|03a01Wa\.wav is no whole wav file")
    path.write_bytes(b"RIFX" + whole[4:])
    refuses("emodb", box, r"03a01Wa\.wav (is no whole wav file|has no sound)")
    path.rename(path.with_name("03a01Xa.wav"))
    refuses("emodb", box, r"03a01Xa\.wav: its name must begin with a speaker")
    shutil.rmtree(box / "wav")
    refuses("emodb", box, r"no recording such as wav/03a01Fa\.wav; get download\.zip")


def test_emodb_statistics_are_those_of_the_shared_features(real):
    """From the shared log Mel bands, which are rounded to 16 bits, the same 240 numbers."""
    real("emodb")
    packed = np.load(locate("emodb_mfcc/emodb_mfcc.npz"))
    assert feature_names() == packed["feature_names"].tolist()
    some = slice(0, None, 25)
    again = np.array([statistics(b.astype(float)) for b in packed["logmel"][some]])
    assert np.abs(again - packed["features"][some]).max() < 0.05
    assert np.abs(packed["features"][some]).max() > 50


def test_a_tone_is_loudest_in_its_band_of_forty():
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 42) / 2595) - 1)
    for band in (10, 20, 35):
        tone = np.sin(2 * np.pi * edges[band + 1] * np.arange(8000) / 8000)  # at 8 kHz, so it is resampled
        if edges[band + 1] < 3500:
            assert (np.argmax(log_mel(two_seconds(tone, 8000))[2:90], axis=1) == band).all()
    loud = np.sin(2 * np.pi * 1000 * np.arange(32000) / 16000)
    assert np.allclose(log_mel(2 * loud).max() - log_mel(loud).max(), np.log(4), atol=1e-6)  # power


# -- tables and digits ----------------------------------------------------------------------------


def test_adult(shelf, box):
    row = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, US"
    )
    write(box / "adult.data", f"{row}, <=50K\n{row.replace('State-gov', '?')}, >50K\n\n")
    write(box / "adult.test", f"|1x3 Cross validator\n{row}, <=50K.\n\n")
    assert prepare("adult", box).rows == "3 people: train 2, test 1"
    data = tacit.load_dataset("adult")
    assert data.y["income"].tolist() == ["<=50K", ">50K", "<=50K"]
    assert data.X["age"].tolist() == [39] * 3
    assert data.X["workclass"].isna().tolist() == [False, True, False]
    write(box / "adult.data", f"{row}, <=50K\n{row}\n")
    refuses("adult", box, r"adult\.data, line 2: 14 cells; expected 15")
    write(box / "adult.data", f"{row}, <=50K\n{row.replace('39', 'old')}, <=50K\n")
    assert "old" not in refuses("adult", box, r"adult\.data, line 2: age is not a number").split("line 2")[1]


def test_titanic(shelf, box):
    heads = "PassengerId,Survived,Pclass,Name,Sex,Age,SibSp,Parch,Ticket,Fare,Cabin,Embarked"
    write(
        box / "train.csv",
        f'{heads}\n1,0,3,"Braund, Mr.",male,22,1,0,A/5,7.25,,S\n2,1,1,"C, D",female,,1,0,PC,71,C85,C\n',
    )
    assert prepare("titanic", box).rows == "2 passengers"
    data = tacit.load_dataset("titanic")
    assert data.sensitive["Sex"].tolist() == ["male", "female"]
    assert data.X["Age"].isna().tolist() == [False, True]
    identifiers = ["Name", "Ticket", "Cabin"]
    assert not {*identifiers, "PassengerId"} & set(data.X)
    whole = tacit.load_dataset("titanic", identifiers=True).X
    assert whole[identifiers].iloc[1].tolist() == ["C, D", "PC", "C85"]
    assert set(whole) - set(data.X) == set(identifiers)
    write(box / "train.csv", f"{heads}\n1,0,3,Braund\n")
    assert "Braund" not in refuses("titanic", box, r"train\.csv, line 2: 4 cells where line 1 names 12 columns")


@pytest.mark.filterwarnings("ignore:Could not infer format")
def test_mimic_demo_from_its_own_tables(real, monkeypatch, tmp_path):
    shared = real("mimic_demo")
    folder = locate("mimic3_demo")
    prepare("mimic_demo", folder, tmp_path)
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    data = tacit.load_dataset("mimic_demo")
    assert len(data) == len(shared) == 129
    assert set(shared.X) <= set(data.X)
    assert data.sensitive["GENDER"].value_counts().equals(shared.sensitive["GENDER"].value_counts())
    assert data.y["HOSPITAL_EXPIRE_FLAG"].sum() == shared.y["HOSPITAL_EXPIRE_FLAG"].sum()


def test_mnist(shelf, box):
    rng = np.random.default_rng(7)
    made = {}
    for stem, n in (("train", 5), ("t10k", 3)):
        images, labels = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)
        sizes = b"".join(k.to_bytes(4, "big") for k in (n, 28, 28))
        write(box / f"{stem}-images-idx3-ubyte.gz", gzip.compress(b"\0\0\x08\x03" + sizes + images.tobytes()))
        write(box / f"{stem}-labels.idx1-ubyte", b"\0\0\x08\x01" + sizes[:4] + labels.tobytes())
        made[stem] = images
    assert prepare("mnist", box).rows == "8 images: train 5, test 3"
    data = tacit.load_dataset("mnist", flat=False)
    assert np.array_equal(np.round(data.X[:, 0] * 255), np.concatenate([made["train"], made["t10k"]]))
    path = box / "t10k-labels.idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    refuses("mnist", box, r"t10k-labels\.idx1-ubyte is cut: its header says \(3,\), but 2 bytes follow")
    path.write_bytes(b"<html>")
    refuses("mnist", box, r"t10k-labels\.idx1-ubyte is not an IDX file")


# -- the command ----------------------------------------------------------------------------------


def test_the_command_says_what_it_wrote(shelf, box, tmp_path):
    fer(box)
    done = CliRunner().invoke(app, ["data", "prepare", "fer_plus", str(box), "--out", str(tmp_path / "elsewhere")])
    assert done.exit_code == 0
    assert "fer_plus: 5 images: Training 3" in done.output
    assert (tmp_path / "elsewhere" / "fer2013_ferplus" / "fer2013_ferplus.npz").exists()
    assert not shelf.exists()


def test_the_command_tells_errors_in_a_line(shelf, box, monkeypatch, capsys):
    fer(box)
    write(box / "a file", "")
    for arguments, told in (
        (["fer_plus", str(box), "--out", str(box / "a file")], "cannot be written to"),
        (["fer_plus", str(box / "nowhere")], "no folder or file"),
        (["fer_minus", str(box)], "did you mean 'fer_plus'?"),
        (["celeba", str(box)], "has no file list_attr_celeba.txt"),
    ):
        monkeypatch.setattr(sys, "argv", ["tacit", "data", "prepare", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 2
        error = capsys.readouterr().err
        assert error.startswith("error:")
        assert told in " ".join(error.split())


@pytest.mark.parametrize("name", sorted(PUBLISHERS))
def test_show_says_where_to_get_a_set_and_how_to_pack_it(name, shelf, monkeypatch, capsys):
    def no_network(*_, **__):
        raise OSError("no network in tests")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    monkeypatch.setattr(sys, "argv", ["tacit", "data", "show", name])
    with pytest.raises(SystemExit) as left:
        main()
    told = " ".join(capsys.readouterr().err.split())
    assert left.value.code == 2
    if name in ("adult", "mnist"):  # fetched where the network allows
        assert "no network in tests" in told
        assert f"get {WHERE[name]} elsewhere" in told
    else:
        assert "is not here. Get it: " + WHERE[name] in told
    assert f"tacit data prepare {name} FOLDER" in told


def test_show_of_a_set_that_is_here_says_it_too(shelf, box):
    fer(box, n=60)
    prepare("fer_plus", box)
    done = CliRunner().invoke(app, ["data", "show", "fer_plus"])
    assert done.exit_code == 0
    assert "tacit data prepare fer_plus FOLDER" in done.output
    assert "microsoft/FERPlus" in done.output


def test_every_publisher_has_an_address_and_a_declaration():
    assert set(PUBLISHERS) == set(WHERE) <= set(declarations())
    assert {d.name for d in declarations().values() if d.files} == set(WHERE)


def test_a_name_that_nobody_publishes(shelf, box):
    refuses("digit", box, r"no publisher's files are known of 'digit'; .*The names are adult, celeba, cmu_faces")
    refuses("uci-har", box / "nowhere", r"no folder or file .*nowhere; pass what the publisher of uci_har hands out")
    assert PUBLISHERS.keys() >= {"fer_plus", "motionsense", "uci_har"}


def test_what_was_there_stays_when_a_file_is_damaged(shelf, box):
    fer(box)
    path = shelf / prepare("fer_plus", box).files[0]
    before = path.read_bytes()
    write(box / "fer2013" / "fer2013.csv", "emotion,pixels,Usage\n0,1 2,Training\n")
    refuses("fer_plus", box, "line 2: 2 pixels")
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
