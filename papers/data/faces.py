"""Faces as images (n, channels, height, width), from 0 to 1; and mnist's digits."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import loadmat

from papers.data.registry import Folder, Packed, dataset, pick_labels, require
from tacit.errors import InputError, check_number
from tacit.records.dataset import Dataset
from tacit.records.images import load_images

FER = (
    "fer2013.csv of Kaggle's facial expression challenge, and fer2013new.csv of the GitHub repository microsoft/FERPlus"
)
CMU = "'CMU Face Images' of the UCI Machine Learning Repository (faces_4.tar.gz, the quarter size)"
ORL = "'The Database of Faces' (att_faces.zip) of AT&T Laboratories Cambridge"
GENKI = "test/genki.mat of the GitHub repository hammlab/MinimaxFilter"
GENKI_4K = "GENKI-4K (files/*.jpg and labels.txt) of the Machine Perception Laboratory, UC San Diego"
MNIST = "the four IDX files of MNIST (train-images-idx3-ubyte.gz and so on)"
CELEBA = (
    "CelebA of the Chinese University of Hong Kong, as published (Anno, Eval, Img) or as Kaggle's csv files, unpacked "
    "into the folder celeba"
)
FACESCRUB = "FaceScrub of Ng and Winkler: face images as actors/NAME/* and actresses/NAME/* in the folder facescrub"
FER_FILE, CMU_FILE = "fer2013_ferplus/fer2013_ferplus.npz", "cmu_faces/cmu_faces_30x32.npz"
ORL_FILE, MNIST_FILE = "orl_faces/orl_faces_112x92.npz", "mnist/mnist.npz"
GENKI_FILE, GENKI_4K_FILE = "genki_minimax/genki_minimax.npz", "genki4k/genki4k_64x64.npz"
VOTES = ("neutral", "happiness", "surprise", "sadness", "anger", "disgust", "fear", "contempt", "unknown", "NF")
PARTS = ("Training", "PublicTest", "PrivateTest")
POSES, EXPRESSIONS = ("left", "right", "straight", "up"), ("angry", "happy", "neutral", "sad")
COLOURS = {"black": "Black_Hair", "blond": "Blond_Hair", "brown": "Brown_Hair", "grey": "Gray_Hair"}


def prepare_fer(folder: Folder) -> Packed:
    """Images and votes, which lie line by line; rows that FER+ gives no image name are no faces, and left out."""
    tables = [pd.read_csv(folder.need(*names), skipinitialspace=True) for names in
              (("fer2013.csv", "icml_face_data.csv"), ("fer2013new.csv",))]  # fmt: skip
    pixels, votes = (table.rename(columns=str.strip) for table in tables)
    if pixels["Usage"].tolist() != votes["Usage"].tolist():
        raise InputError("fer2013.csv and fer2013new.csv do not list the same images; fetch both again")
    keep = np.flatnonzero(votes["Image name"].notna())
    images = np.array([np.array(text.split(), dtype=np.uint8) for text in pixels["pixels"].iloc[keep]])
    return {
        FER_FILE: {
            "images": images.reshape(-1, 48, 48),
            "votes": votes[list(VOTES)].to_numpy()[keep].astype(np.uint8),
            "vote_names": np.array(VOTES),
            "split": np.array([PARTS.index(u) for u in votes["Usage"].iloc[keep]], dtype=np.uint8),
            "split_names": np.array(PARTS),
            "fer2013_row": keep.astype(np.int32),
        }
    }


def prepare_cmu(folder: Folder) -> Packed:
    """The quarter size, 30x32: files ``an2i_left_angry_open_4.pgm`` and so on."""
    found = folder.matches(r"([^/_]+)_([^/_]+)_([^/_]+)_(open|sunglasses)_4\.pgm$")
    files = dict(sorted((tuple(word.lower() for word in match.groups()), path) for path, match in found))
    people, poses, moods, eyes = np.array(list(files)).T
    names, person = np.unique(people, return_inverse=True)
    return {
        CMU_FILE: {
            "images": np.array([np.asarray(Image.open(path)) for path in files.values()]),
            "person": person.astype(np.uint8),
            "person_names": names,
            "pose": np.array([POSES.index(p) for p in poses], np.uint8),
            "pose_names": np.array(POSES),
            "expression": np.array([EXPRESSIONS.index(m) for m in moods], np.uint8),
            "expression_names": np.array(EXPRESSIONS),
            "sunglasses": (eyes == "sunglasses").astype(np.uint8),
        }
    }


def prepare_orl(folder: Folder) -> Packed:
    """All images of all people, by person and number: s1/1.pgm and so on."""
    files = sorted(((int(m[1]), int(m[2])), path) for path, m in folder.matches(r"/s(\d+)/(\d+)\.pgm$"))
    images = np.array([np.asarray(Image.open(path)) for _, path in files])
    return {ORL_FILE: {"images": images, "subject": np.array([p for (p, _), _ in files], np.int16)}}


def prepare_genki(folder: Folder) -> Packed:
    """Xtrain (256, n), y1 (1, n): 2 is a smile, y2 (1, n): 1 is a man; images lie column by column."""
    found, arrays = loadmat(folder.need("genki.mat")), {}
    for part in ("train", "test"):
        arrays[f"x_{part}"] = found[f"X{part}"].T.reshape(-1, 16, 16).transpose(0, 2, 1).astype(np.float32)
        arrays[f"smile_{part}"] = (found[f"y1_{part}"].ravel() == 2).astype(np.uint8)
        arrays[f"male_{part}"] = (found[f"y2_{part}"].ravel() == 1).astype(np.uint8)
    return {GENKI_FILE: arrays}


def prepare_genki4k(folder: Folder) -> Packed:
    """Pictures in grey, 64x64; a line of labels is: smile (0 or 1), yaw, pitch, roll."""
    labels = np.loadtxt(folder.need("labels.txt"), ndmin=2)
    images = [_grey(path, 64) for path, _ in folder.matches(r"\.jpe?g$")]
    if len(images) != len(labels):
        raise InputError(f"labels.txt has {len(labels)} lines, but there are {len(images)} pictures; fetch it again")
    return {
        GENKI_4K_FILE: {
            "images": np.array(images),
            "smile": labels[:, 0].astype(np.uint8),
            "pose": labels[:, 1:].astype(np.float32),
        }
    }


def prepare_mnist(folder: Folder) -> Packed:
    """The four files, compressed or not."""
    arrays = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        for key, kind, header, shape in (("x", "images-idx3", 16, (-1, 28, 28)), ("y", "labels-idx1", 8, (-1,))):
            path = folder.need(f"{stem}-{kind}-ubyte", f"{stem}-{kind.replace('-idx', '.idx')}-ubyte")
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            arrays[f"{key}_{part}"] = np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    return {MNIST_FILE: arrays}


@dataset(FER, FER_FILE, prepare=prepare_fer)
def fer_plus(emotions: Sequence[str] = ("neutral", "happiness", "surprise"), agreement: float = 0.5) -> Dataset:
    """Faces, 48x48, with ten votes each on the emotion: keep the emotion, hide the person (Barsoum et al. 2016).

    Parameters
    ----------
    emotions : of neutral, happiness, surprise, sadness, anger, disgust, fear, contempt; the others are left out
    agreement : an image counts where one emotion has *more* than this share of its ten votes (votes for
        "unknown" and "no face" count among the ten), and no tie. .5 is the strict majority, 0 the plurality

    The task-mask paper has 15,616 / 1,943 / 1,930 images by "majority vote". No rule tried gives these: the
    strict majority gives 17,320 / 2,288 / 2,149, more than .6 (seven votes) 14,971 / 2,036 / 1,908, the plurality
    without ties 20,153 / 2,563 / 2,496. Persons are not named: there is no sensitive column, so measure
    identity by a face recognizer, or name one yourself. The official parts are train, validation and test.
    """
    check_number("agreement", agreement, 0, 1)
    file = np.load(require(FER_FILE, FER))
    votes, names = file["votes"].astype(int), [str(n) for n in file["vote_names"]]
    for emotion in emotions:
        if emotion not in names[:8]:
            raise InputError(f"fer_plus has the emotions {', '.join(names[:8])}; found {emotion!r}")
    elected = winners(votes, agreement)
    winner = np.asarray(names)[elected]
    keep = np.flatnonzero((elected >= 0) & np.isin(winner, list(emotions)))
    return Dataset(
        _channel(file["images"][keep]),
        pd.DataFrame({"emotion": winner[keep]}),
        None,
        name="fer_plus",
        official=np.array(["train", "validation", "test"])[file["split"][keep]],
    )


@dataset(CMU, CMU_FILE, prepare=prepare_cmu)
def cmu_faces(target: str | Sequence[str] = "sunglasses", sensitive: str | Sequence[str] = "person") -> Dataset:
    """624 faces, 30x32, of 20 people: labels person, pose, sunglasses, expression; any may be kept, any hidden.

    An image is its own unit for the person's identity; for other labels the person is.
    """
    file = np.load(require(CMU_FILE, CMU))
    labels = pd.DataFrame(
        {
            "person": np.asarray(file["person_names"])[file["person"]].astype(str),
            "pose": np.asarray(file["pose_names"])[file["pose"]].astype(str),
            "sunglasses": np.where(file["sunglasses"] == 1, "sunglasses", "open"),
            "expression": np.asarray(file["expression_names"])[file["expression"]].astype(str),
        }
    )
    y, hidden = pick_labels("cmu_faces", labels, target, sensitive)
    image, person = np.arange(len(labels)), labels["person"].to_numpy()
    units = {s: image if s == "person" else person for s in hidden} or None
    return Dataset(_channel(file["images"]), y, hidden, units=units, name="cmu_faces")


@dataset(ORL, ORL_FILE, prepare=prepare_orl)
def orl_faces() -> Dataset:
    """400 faces, 112x92, ten each of 40 people: to check a recognizer of persons. There is no target."""
    file = np.load(require(ORL_FILE, ORL))
    return Dataset(_channel(file["images"]), None, pd.DataFrame({"person": file["subject"]}), name="orl_faces")


@dataset(GENKI, GENKI_FILE, prepare=prepare_genki)
def genki(flat: bool = True) -> Dataset:
    """1,940 faces, 16x16: keep smile, hide gender. `flat` gives rows of 256 pixels, else images (n, 1, 16, 16)."""
    file = np.load(require(GENKI_FILE, GENKI))
    X, smile, male = (np.concatenate([file[f"{k}_train"], file[f"{k}_test"]]) for k in ("x", "smile", "male"))
    X = X.astype(np.float64)
    return Dataset(
        X.reshape(len(X), -1) if flat else X[:, None],
        pd.DataFrame({"smile": np.where(smile == 1, "smile", "none")}),
        pd.DataFrame({"gender": np.where(male == 1, "male", "female")}),
        name="genki",
        official=np.repeat(["train", "test"], [len(file["x_train"]), len(file["x_test"])]),
    )


@dataset(GENKI_4K, GENKI_4K_FILE, prepare=prepare_genki4k)
def genki4k(sensitive: str | Sequence[str] = (), flat: bool = False) -> Dataset:
    """4,000 faces, 64x64 grey: keep smile; yaw, pitch and roll may be hidden. There are no gender labels."""
    file = np.load(require(GENKI_4K_FILE, GENKI_4K))
    X = file["images"].astype(np.float32) / 255
    labels = {"smile": np.where(file["smile"] == 1, "smile", "none")}
    labels |= {name: file["pose"][:, i] for i, name in enumerate(("yaw", "pitch", "roll"))}
    y, hidden = pick_labels("genki4k", labels, "smile", sensitive)
    return Dataset(
        X.reshape(len(X), -1) if flat else X[:, None], y, hidden if len(hidden.columns) else None, name="genki4k"
    )


@dataset(MNIST, MNIST_FILE, prepare=prepare_mnist)
def mnist(target: str = "parity", sensitive: str = "digit", flat: bool = True) -> Dataset:
    """Handwritten digits, 28x28: keep odd/even, hide the digit (or whether it is 5 or more: ``sensitive="large"``)."""
    file = np.load(require(MNIST_FILE, MNIST))
    X = np.concatenate([file["x_train"], file["x_test"]]).astype(np.float32) / 255
    digit = np.concatenate([file["y_train"], file["y_test"]]).astype(int)
    labels = {
        "digit": digit,
        "parity": np.where(digit % 2 == 0, "even", "odd"),
        "large": np.where(digit >= 5, "5 to 9", "0 to 4"),
    }
    return Dataset(
        X.reshape(len(X), -1) if flat else X[:, None],
        *pick_labels("mnist", labels, target, sensitive),
        name="mnist",
        official=np.repeat(["train", "test"], [len(file["x_train"]), len(file["x_test"])]),
    )


@dataset(CELEBA, "celeba")
def celeba(
    target: str | Sequence[str] = "hair",
    sensitive: str | Sequence[str] = "identity",
    size: int | tuple[int, int] | None = 64,
    limit: int | None = None,
    colours: Sequence[str] = ("black", "blond", "brown"),
    split: str = "official",
) -> Dataset:
    """202,599 celebrities, in colour: keep the hair's colour (or any attribute), hide the person.

    Parameters
    ----------
    target, sensitive : "hair" (only images with exactly one of `colours` are read), "identity", or a name of the
        publisher's 40 attributes, such as "Smiling" or "Male" (yes or no)
    size : (height, width) or a square; 100,000 images of 64x64 take 4.9 GB. None leaves 218x178
    limit : read only the first n images of each part (train, validation, test)
    colours : of black, blond, brown, grey. Three give the share of images that the task-mask paper has
    split : "official" (the publisher's parts, no person in two of them) or "paper" (as the counts of the task-mask
        paper are: the official test part; a random fifth of the train part's images is the validation part, the
        official validation part is not used)

    For identity an image is its own unit, for every other label the person is. Kaggle's files have no identities.
    """
    check_number("limit", limit, 1, whole=True, optional=True)
    if split not in ("official", "paper") or not set(colours) <= set(COLOURS):
        raise InputError(f"celeba: split is 'official' or 'paper', colours are of {', '.join(COLOURS)}")
    folder = require("celeba", CELEBA)
    attributes, part, person = _celeba_tables(folder)
    labels = attributes.replace({1: "yes", -1: "no", 0: "no"})
    chosen = [COLOURS[c] for c in colours]
    if set(chosen) <= set(attributes.columns):
        has = attributes[chosen] == 1
        word = has.idxmax(axis=1).map({column: c for c, column in COLOURS.items()})
        labels["hair"] = word.where(has.sum(axis=1) == 1)
    if person is not None:
        labels["identity"] = person.astype(str)  # ten thousand numbers are names
    y, hidden = pick_labels("celeba", labels, target, sensitive)
    keep = y.notna().all(axis=1) & hidden.notna().all(axis=1)
    if split == "paper":  # validation rows drawn from the train part, always the same ones
        fits = np.flatnonzero(keep & (part == "train"))
        part = part.where(part != "validation")
        part.iloc[np.random.default_rng(0).permutation(fits)[: len(fits) // 5]] = "validation"
        keep &= part.notna()
    if limit is not None:
        keep &= keep.groupby(part).cumsum() <= limit
    image = np.arange(int(keep.sum()))
    people = image if person is None else labels.loc[keep, "identity"].to_numpy()
    images = _first(folder, "img_align_celeba/img_align_celeba", "img_align_celeba", "Img/img_align_celeba")
    return Dataset(
        load_images([images / str(name) for name in labels.index[keep]], size),
        y[keep],
        hidden[keep],
        units={s: image if s == "identity" else people for s in hidden} or None,
        name="celeba",
        official=part[keep].to_numpy(),
    )


@dataset(FACESCRUB, "facescrub/actors", "facescrub/actresses")
def facescrub(people: int | None = 200, size: int | tuple[int, int] | None = 64) -> Dataset:
    """107,000 actors and actresses, in colour: keep who it is, hide the gender (EIGAN, after Bertran et al. 2019).

    Files: ``facescrub/actors/NAME/*`` (or ``facescrub/actors/faces/NAME/*``) and ``facescrub/actresses/NAME/*``.
    `people` takes those with most images, half of each gender; None takes all. The gender is a function of the
    person: what keeps the name gives it away.
    """
    check_number("people", people, 2, whole=True, optional=True)
    found = []
    for folder, gender in (("actors", "male"), ("actresses", "female")):
        home = require(f"facescrub/{folder}", FACESCRUB)
        home = home / "faces" if (home / "faces").is_dir() else home
        found += [(p, p.parent.name.replace("_", " "), gender) for p in sorted(home.glob("*/*")) if p.suffix]
    table = pd.DataFrame(found, columns=["path", "identity", "gender"])
    count = table.groupby(["gender", "identity"], as_index=False).size()
    count = count.sort_values(["size", "identity"], ascending=[False, True])
    chosen = count.groupby("gender").head(len(count) if people is None else people // 2)["identity"]
    table = table[table["identity"].isin(chosen)]
    table = table.sort_values(["gender", "identity", "path"], ascending=[False, True, True]).reset_index(drop=True)
    return Dataset(load_images(list(table["path"]), size), table[["identity"]], table[["gender"]], name="facescrub")


def winners(votes: np.ndarray, agreement: float) -> np.ndarray:
    """Per row of votes the column that has more than this share of them, and more than any other; -1 for none."""
    most = votes.max(axis=1)
    single = (votes == most[:, None]).sum(axis=1) == 1
    return np.where(single & (most > agreement * votes.sum(axis=1)), votes.argmax(axis=1), -1)


def _celeba_tables(folder: Path) -> tuple[pd.DataFrame, pd.Series, pd.Series | None]:
    """Attributes by image, the official part of every image, and its person where that is known."""
    text: dict[str, Any] = {"sep": r"\s+", "index_col": 0}
    path = _first(folder, *(f"{home}list_attr_celeba.{kind}" for home in ("", "Anno/") for kind in ("txt", "csv")))
    options: dict[str, Any] = {"index_col": 0} if path.suffix == ".csv" else {"sep": r"\s+", "skiprows": 1}
    attributes = pd.read_csv(path, **options)
    path = _first(folder, *(f"{home}list_eval_partition.{kind}" for home in ("", "Eval/") for kind in ("txt", "csv")))
    options = {"index_col": 0} if path.suffix == ".csv" else {**text, "header": None}
    part = pd.read_csv(path, **options).iloc[:, 0].reindex(attributes.index)
    path = next((p for home in ("", "Anno/") if (p := folder / f"{home}identity_CelebA.txt").exists()), folder)
    person = None if path == folder else pd.read_csv(path, header=None, **text).iloc[:, 0].reindex(attributes.index)
    return attributes, part.map({0: "train", 1: "validation", 2: "test"}), person


def _first(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise InputError(f"{folder} has no {names[-1]}; get {CELEBA}")


def _channel(images: np.ndarray) -> np.ndarray:
    """Bytes (n, h, w) -> one channel from 0 to 1."""
    return images[:, None].astype(np.float32) / 255


def _grey(path: Path, side: int) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("L").resize((side, side), Image.Resampling.BILINEAR), dtype=np.uint8)
