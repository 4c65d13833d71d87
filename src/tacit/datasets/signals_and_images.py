"""Signals and images: genki, uci_har, mnist, emodb."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tacit.datasets.declaration import choose_labels, declare
from tacit.datasets.motion import signals_of
from tacit.datasets.publishers.idx import read_idx
from tacit.datasets.store import cache_folder, download, locate, packed
from tacit.errors import InputError
from tacit.files import replacing
from tacit.records.dataset import Dataset
from tacit.records.windows import cut_out

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_FILES = {
    "x_train": ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "y_train": ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    "x_test": ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    "y_test": ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
}


@declare("1,940", "image", "smile", "gender", "research use (UCSD)", ("genki_minimax/genki_minimax.npz",))
def genki(flat: bool = True) -> Dataset:
    """Faces, 16x16: keep smile, hide gender. `flat` gives rows of 256 pixels, else images (n, 1, 16, 16)."""
    file = np.load(packed("genki_minimax/genki_minimax.npz", "genki"))
    X = np.concatenate([file["x_train"], file["x_test"]]).astype(np.float64)
    smile = np.concatenate([file["smile_train"], file["smile_test"]])
    male = np.concatenate([file["male_train"], file["male_test"]])
    return Dataset(
        X.reshape(len(X), -1) if flat else X[:, None],
        pd.DataFrame({"smile": np.where(smile == 1, "smile", "none")}),
        pd.DataFrame({"gender": np.where(male == 1, "male", "female")}),
        name="genki",
        official=_parts(len(file["x_train"]), len(file["x_test"])),
    )


@declare(
    "4,000", "image", "smile", "none (head pose as numbers)", "research use (UCSD)", ("genki4k/genki4k_64x64.npz",)
)
def genki4k(sensitive: str | Sequence[str] = (), flat: bool = False) -> Dataset:
    """Faces, 64x64 grey, of GENKI-4K as its publisher hands it out: keep smile; yaw, pitch and roll may be hidden.

    The set has no gender labels; ``genki`` is the small selection with them.
    """
    file = np.load(packed("genki4k/genki4k_64x64.npz", "genki4k"))
    X = file["images"].astype(np.float32) / 255
    labels = {"smile": np.where(file["smile"] == 1, "smile", "none")}
    labels |= {name: file["pose"][:, i] for i, name in enumerate(("yaw", "pitch", "roll"))}
    y, hidden = choose_labels("genki4k", labels, "smile", sensitive)
    return Dataset(
        X.reshape(len(X), -1) if flat else X[:, None], y, hidden if len(hidden.columns) else None, name="genki4k"
    )


@declare(
    "10,299",
    "table or window",
    "activity",
    "subject",
    "CC BY 4.0 (UCI)",
    ("uci_har/uci_har_features561.npz", "uci_har/uci_har_inertial.npz"),
)
def uci_har(features: str = "561", subjects: int | None = None) -> Dataset:
    """Phone at the waist, 30 people, 6 activities: keep the activity, hide the person.

    `features` is "561" (the published statistics; computed anew in the shared copy) or "windows" (9 channels
    x 128, float32).
    Windows of one bout overlap, so the bout is the unit. `subjects` keeps the first n people.
    """
    if features not in ("561", "windows"):
        raise InputError(f"uci_har: features must be '561' or 'windows'; found {features!r}")
    name = "uci_har_features561.npz" if features == "561" else "uci_har_inertial.npz"
    file = np.load(packed(f"uci_har/{name}", "uci_har"))
    if features == "561":
        names = [str(c) for c in file["feature_names"]]
        # the publisher's own numbers, or the shared copy's, which were computed anew and rounded
        X: pd.DataFrame | np.ndarray = pd.DataFrame(
            file["features"].astype(float) if "features" in file else file["features_i16"] / 32767.0
        )
        X.columns = names if len(set(names)) == len(names) else [f"{i} {c}" for i, c in enumerate(names)]  # type: ignore[union-attr]
    else:
        X = cut_out(signals_of(file), file["window_start"], 128)
    activity = np.asarray(file["activity_names"])[file["activity"]].astype(str)
    data = Dataset(
        X,
        pd.DataFrame({"activity": activity}),
        pd.DataFrame({"subject": file["subject"]}),
        units=file["bout"],
        name="uci_har",
        official=np.where(file["is_test"] == 1, "test", "train"),
    )
    return data if subjects is None else data.take(file["subject"] <= subjects)


@declare("70,000", "table or image", "parity", "digit", "CC BY-SA 3.0", ("mnist/mnist.npz",))
def mnist(target: str = "parity", sensitive: str = "digit", flat: bool = True) -> Dataset:
    """Handwritten digits, 28x28: keep odd/even, hide the digit (or whether it is 5 or more: ``sensitive="large"``)."""
    file = np.load(locate("mnist/mnist.npz") or _download_mnist())
    X = np.concatenate([file["x_train"], file["x_test"]]).astype(np.float32) / 255
    digit = np.concatenate([file["y_train"], file["y_test"]]).astype(int)
    labels = {
        "digit": digit,
        "parity": np.where(digit % 2 == 0, "even", "odd"),
        "large": np.where(digit >= 5, "5 to 9", "0 to 4"),
    }
    return Dataset(
        X.reshape(len(X), -1) if flat else X[:, None],
        *choose_labels("mnist", labels, target, sensitive),
        name="mnist",
        official=_parts(len(file["x_train"]), len(file["x_test"])),
    )


@declare("535", "table", "emotion", "speaker, gender", "free for research (TU Berlin)", ("emodb_mfcc/emodb_mfcc.npz",))
def emodb(target: str = "emotion", sensitive: str = "speaker") -> Dataset:
    """Acted German speech, 10 speakers, 7 emotions, as 240 statistics of MFCCs: keep emotion, hide the speaker."""
    file = np.load(packed("emodb_mfcc/emodb_mfcc.npz", "emodb"))
    emotion = np.asarray(file["emotion_names"])[file["emotion"]].astype(str)
    labels = {
        "emotion": emotion,
        "happy": np.where(emotion == "happiness", "happy", "other"),
        "speaker": file["speaker"],
        "gender": np.where(file["female"] == 1, "female", "male"),
    }
    X = pd.DataFrame(file["features"].astype(np.float64), columns=[str(c) for c in file["feature_names"]])
    return Dataset(X, *choose_labels("emodb", labels, target, sensitive), name="emodb")


def _parts(n_train: int, n_test: int) -> np.ndarray:
    return np.repeat(["train", "test"], [n_train, n_test])


def _download_mnist() -> str:
    arrays = {}
    for key, (name, checksum) in MNIST_FILES.items():
        path = download(MNIST_URL + name, f"md5:{checksum}", "mnist")
        arrays[key] = read_idx(gzip.decompress(path.read_bytes()), name)
    out = cache_folder() / "mnist" / "mnist.npz"
    with replacing(out) as partial:
        np.savez_compressed(partial, allow_pickle=False, **arrays)
    return str(out)
