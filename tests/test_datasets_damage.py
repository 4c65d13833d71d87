"""Whatever is done to a publisher's file, there is a data set or an error that names it, never a traceback.

And real rows that are written back in the publisher's format are read the same.
"""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

import tacit
from publishers import avi, celeba, cmu, emodb, facescrub, fer, genki, genki4k, har, made, motion, orl, pgm, write
from tacit.datasets.publishers.fer2013_files import PARTS, VOTES
from tacit.datasets.publishers.har_files import CHANNELS
from tacit.datasets.publishers.motion_files import MOVEMENT, POSTURE
from tacit.datasets.publishers.packing import prepare
from tacit.datasets.store import locate


def _genki(box):
    genki(box)


def _avi(box):
    path = box / "subject 1" / "anger" / "sentence 1" / "s1_an_1.avi"
    write(path, avi(np.arange(-4000, 4000), 8000))


MADE = {
    "celeba": lambda box: celeba(box, "publisher"),
    "cmu_faces": lambda box: cmu(box, text=True),
    "emodb": emodb,
    "enterface": _avi,
    "facescrub": lambda box: facescrub(box, "megaface"),
    "fer_plus": fer,
    "genki": _genki,
    "genki4k": genki4k,
    "mimic3": lambda box: made("mimic3", box),
    "motionsense": motion,
    "orl_faces": orl,
    "uci_har": har,
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("how", ["cut", "changed", "text", "empty", "gone", "doubled"])
def test_whatever_is_done_to_a_file_there_is_no_traceback(name, how, tmp_path):
    box, out = tmp_path / "box", tmp_path / "out"
    box.mkdir()
    MADE[name](box)
    prepare(name, box, out)
    written = {p: p.read_bytes() for p in out.rglob("*.npz")}
    files = sorted(p for p in box.rglob("*") if p.is_file())
    rng = np.random.default_rng(len(name) + len(how))
    refused = 0
    for path in rng.choice(np.array(files, dtype=object), size=min(len(files), 6), replace=False):
        whole = path.read_bytes()
        if how == "cut":
            path.write_bytes(whole[: int(rng.integers(1, len(whole)))])
        elif how == "changed":
            bytes_ = bytearray(whole)
            for place in rng.integers(0, len(bytes_), 5):
                bytes_[place] = rng.integers(0, 256)
            path.write_bytes(bytes(bytes_))
        elif how == "text":
            path.write_bytes(b"<html>404 SECRET</html>\n")
        elif how == "empty":
            path.write_bytes(b"")
        elif how == "gone":
            path.unlink()
        else:
            path.write_bytes(whole + whole)
        told = refusal(name, box, out)
        if told:
            refused += 1
            assert "SECRET" not in told
            assert str(tmp_path) in told  # the file, or the folder that lacks it
            assert all(p.read_bytes() == content for p, content in written.items())
            assert not list(out.rglob(".*"))
        else:
            written = {p: p.read_bytes() for p in out.rglob("*.npz")}
        path.write_bytes(whole)
    if how in ("text", "empty") and name not in ("celeba", "facescrub"):  # whose pictures are looked at when loaded
        assert refused


def refusal(name, box, out):
    """What was wrong; empty where nothing was."""
    try:
        prepare(name, box, out)
    except tacit.TacitError as error:
        return str(error)
    return ""


@pytest.mark.slow  # guards that FER+ is packed as the shared copy is; its images take long to unpack
def test_fer_plus_rows_written_back(real, tmp_path):
    real("orl_faces")  # skips where no data is
    if locate("fer2013_ferplus/fer2013_ferplus.npz") is None:
        pytest.skip("data set fer_plus is not here")
    packed = np.load(locate("fer2013_ferplus/fer2013_ferplus.npz"))
    rows = np.r_[0:15, 29000:29010, 33000:33010]
    images, votes, split = (packed[k][rows] for k in ("images", "votes", "split"))
    assert packed["vote_names"].tolist() == list(VOTES)
    box = tmp_path / "box"
    lines = [f"0,{' '.join(map(str, i.ravel()))},{PARTS[s]}" for i, s in zip(images, split, strict=True)]
    write(box / "fer2013.csv", "\n".join(["emotion,pixels,Usage", *lines]))
    lines = [f"{PARTS[s]},fer.png,{','.join(map(str, v))}" for v, s in zip(votes, split, strict=True)]
    write(box / "fer2013new.csv", "\n".join(["Usage,Image name," + ",".join(VOTES), *lines]))
    again = np.load(tmp_path / prepare("fer_plus", box, tmp_path).files[0])
    for key, expected in (("images", images), ("votes", votes), ("split", split)):
        assert np.array_equal(again[key], expected)
        assert again[key].dtype == packed[key].dtype


def test_motionsense_recordings_written_back(real, monkeypatch, tmp_path):
    options = dict(
        signals="axes", gravity=True, activities=["jogging"], sensitive=["identity", "age_years"], stride=200
    )
    shared = real("motionsense", **options)
    motion_, posture = (np.load(locate(f"motionsense/motionsense_{f}.npz")) for f in ("acc_gyro", "gravity_attitude"))
    box = tmp_path / "box"
    jogging = np.flatnonzero(motion_["trial_activity"] == 3)
    x, g = (z["signals_i16"] for z in (motion_, posture))
    for t in jogging[motion_["trial_subject"][jogging] <= 3]:
        at = slice(motion_["trial_start"][t], motion_["trial_start"][t] + motion_["trial_length"][t])
        values = np.column_stack([x[at] * motion_["scale"], g[at] * posture["scale"]])
        path = (
            box / "A_DeviceMotion_data" / f"jog_{motion_['trial_number'][t]}" / f"sub_{motion_['trial_subject'][t]}.csv"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(values, columns=[*MOVEMENT, *POSTURE]).to_csv(path)
    write(box / "data_subjects_info.csv", locate("motionsense/data_subjects_info.csv").read_bytes())
    prepare("motionsense", box, tmp_path / "out")
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "out"))
    data = tacit.load_dataset("motionsense", **options)
    same = shared.take(shared.sensitive["identity"].to_numpy() <= 3)
    assert len(data) == len(same) > 20
    ours, theirs = (np.lexsort(d.X[:, :, 0].T) for d in (data, same))  # the shared copy counts trials as words
    assert np.allclose(data.X[ours], same.X[theirs], atol=1e-5)
    assert data.sensitive.to_numpy()[ours].tolist() == same.sensitive.to_numpy()[theirs].tolist()
    assert (np.asarray(data.official)[ours] == np.asarray(same.official)[theirs]).all()


def test_uci_har_windows_written_back(real, monkeypatch, tmp_path):
    shared = real("uci_har", features="windows")
    features = real("uci_har")
    chosen = np.zeros(len(shared), dtype=bool)
    for subject in (1, 2):  # of train and of test
        chosen[np.flatnonzero(shared.sensitive["subject"] == subject)[:120]] = True
    part, names = np.asarray(shared.official)[chosen], sorted(set(shared.y["activity"]))
    box = tmp_path / "box" / "UCI HAR Dataset"
    write(box / "features.txt", "".join(f"{i} {c}\n" for i, c in enumerate(features.X.columns, 1)))
    write(box / "activity_labels.txt", "".join(f"{i} {n}\n" for i, n in enumerate(names, 1)))
    for word in ("train", "test"):
        rows = np.flatnonzero(chosen)[part == word]
        lines = lambda values: "".join(" " + " ".join(f"{v:.7e}" for v in row) + "\n" for row in values)  # noqa: E731
        write(box / word / f"X_{word}.txt", lines(features.X.to_numpy()[rows]))
        write(box / word / f"y_{word}.txt", "".join(f"{names.index(a) + 1}\n" for a in shared.y["activity"].iloc[rows]))
        write(box / word / f"subject_{word}.txt", "".join(f"{s}\n" for s in shared.sensitive["subject"].iloc[rows]))
        for c, channel in enumerate(CHANNELS):
            write(box / word / "Inertial Signals" / f"{channel}_{word}.txt", lines(shared.X[rows, c]))
    prepare("uci_har", tmp_path / "box", tmp_path / "out")
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "out"))
    order = np.concatenate([np.flatnonzero(chosen)[part == word] for word in ("train", "test")])
    data = tacit.load_dataset("uci_har", features="windows")
    assert len(data) == len(order) > 100
    assert np.allclose(data.X, shared.X[order], atol=1e-6)
    assert np.allclose(tacit.load_dataset("uci_har").X, features.X.to_numpy()[order], atol=1e-6)
    assert data.y["activity"].tolist() == shared.y["activity"].iloc[order].tolist()
    ours, theirs = data.units_of(), shared.units_of()[order]
    for bout in np.unique(theirs):
        assert len(set(ours[theirs == bout])) == 1  # no bout of the shared copy is cut in two


def test_faces_written_back(real, monkeypatch, tmp_path):
    real("cmu_faces")
    real("orl_faces")
    real("genki")
    cmu_, orl_, genki_ = (
        np.load(locate(f))
        for f in ("cmu_faces/cmu_faces_30x32.npz", "orl_faces/orl_faces_112x92.npz", "genki_minimax/genki_minimax.npz")
    )
    box = tmp_path / "box"
    for i, image in enumerate(cmu_["images"]):
        person, pose, mood = (cmu_[f"{k}_names"][cmu_[k][i]] for k in ("person", "pose", "expression"))
        eyes = "sunglasses" if cmu_["sunglasses"][i] else "open"
        write(box / "faceimages" / person / f"{person}_{pose}_{mood}_{eyes}_4.pgm", pgm(image))
    for i, image in enumerate(orl_["images"]):
        write(box / "att_faces" / f"s{orl_['subject'][i]}" / f"{i % 10 + 1}.pgm", pgm(image, text=i % 7 == 0))
    arrays = {}
    for part in ("train", "test"):
        x = genki_[f"x_{part}"]
        arrays[f"X{part}"] = x.transpose(0, 2, 1).reshape(len(x), -1).T.astype(float)
        arrays[f"y1_{part}"] = genki_[f"smile_{part}"][None].astype(float) + 1
        arrays[f"y2_{part}"] = 2 - genki_[f"male_{part}"][None].astype(float)
    savemat(box / "genki.mat", arrays)
    for name, shared in (("cmu_faces", cmu_), ("orl_faces", orl_), ("genki", genki_)):
        again = np.load(tmp_path / "out" / prepare(name, box, tmp_path / "out").files[0])
        for key in shared.files:
            assert np.array_equal(again[key], shared[key]), (name, key)


def test_a_table_may_be_compressed_or_have_a_mark(tmp_path):
    box = tmp_path / "box"
    motion(box)
    prepare("motionsense", box, tmp_path / "plain")
    for path in box.rglob("*.csv"):
        text = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
        path.with_name(path.name.upper() + ".gz").write_bytes(gzip.compress(text))
        path.unlink()
    prepare("motionsense", box, tmp_path / "dressed")
    for file in ("motionsense_acc_gyro.npz", "motionsense_gravity_attitude.npz"):
        one, other = (np.load(tmp_path / f / "motionsense" / file) for f in ("plain", "dressed"))
        assert all(np.array_equal(one[k], other[k]) for k in one.files)
