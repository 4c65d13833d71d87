"""Faces of celebrities, read from the publishers' own files: celeba, facescrub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tacit.datasets.declaration import choose_labels, declare
from tacit.datasets.store import require
from tacit.errors import InputError, check_number
from tacit.records.dataset import Dataset
from tacit.records.images import load_images
from tacit.records.pixels import SUFFIXES

HAIR = {"Black_Hair": "black", "Blond_Hair": "blond", "Brown_Hair": "brown", "Gray_Hair": "grey"}
CELEBA = ("list_attr_celeba.txt", "list_eval_partition.txt", "identity_CelebA.txt", "img_align_celeba")
CELEBA_SOURCE = "CelebA of the Chinese University of Hong Kong (its terms forbid passing copies on), aligned images"
FACESCRUB_SOURCE = "FaceScrub of Ng and Winkler, one folder of face images per person"


@declare(
    "202,599",
    "image",
    "hair, any of 40 attributes",
    "identity, any of 40",
    "research use, from its publisher only",
    tuple(f"celeba/{name}" for name in CELEBA),
)
def celeba(
    target: str | Sequence[str] = "hair",
    sensitive: str | Sequence[str] = "identity",
    size: int | tuple[int, int] | None = 64,
    limit: int | None = None,
) -> Dataset:
    """Celebrities, in colour: keep the hair's colour (or any attribute), hide the person.

    Parameters
    ----------
    target, sensitive : "hair" (black, blond, brown, grey; only images with exactly one of them are read),
        "identity", or a name of the publisher's 40 attributes, such as "Smiling" or "Male" (yes or no)
    size : (height, width) or a square; 100,000 images of 64x64 take 4.9 GB. None leaves 218x178
    limit : read only the first n images of each official part (train, validation, test)

    For identity an image is its own unit, for every other label the person is. In the official
    split no person is in two parts.
    """
    check_number("limit", limit, 1, whole=True, optional=True)
    attributes, parts, identities, images = (require(f"celeba/{name}", CELEBA_SOURCE) for name in CELEBA)
    table = pd.read_csv(attributes, sep=r"\s+", skiprows=1)
    labels = table.replace({1: "yes", -1: "no"})
    single = (table[list(HAIR)] == 1).sum(axis=1) == 1
    labels["hair"] = (table[list(HAIR)] == 1).idxmax(axis=1).map(HAIR).where(single)
    labels["identity"] = _column(identities).reindex(labels.index).astype(str)  # ten thousand numbers are names
    y, hidden = choose_labels("celeba", labels, target, sensitive)
    part = _column(parts).reindex(labels.index).map({0: "train", 1: "validation", 2: "test"})
    if part.isna().any():
        raise InputError(f"{parts.name} has no part for {part.index[part.isna()][0]}; fetch that file again")
    keep = y.notna().all(axis=1) & hidden.notna().all(axis=1)
    if limit is not None:
        keep &= keep.groupby(part).cumsum() <= limit
    labels, part = labels[keep], part[keep]
    image, person = np.arange(len(labels)), labels["identity"].to_numpy()
    return Dataset(
        load_images([images / str(name) for name in labels.index], size),
        y[keep],
        hidden[keep],
        units={s: image if s == "identity" else person for s in hidden} or None,
        name="celeba",
        official=part.to_numpy(),
    )


@declare(
    "about 107,000",
    "image",
    "identity",
    "gender",
    "research use, from its publisher only",
    ("facescrub/actors", "facescrub/actresses"),
)
def facescrub(people: int | None = 200, size: int | tuple[int, int] | None = 64) -> Dataset:
    """Actors and actresses, in colour: keep who it is, hide the gender (EIGAN, after Bertran et al. 2019).

    Files: ``facescrub/actors/NAME/*.jpeg`` and ``facescrub/actresses/NAME/*.jpeg`` (or below a folder ``faces``
    in each, as the publisher's script leaves them). `people` takes those with most images, half of each
    gender; None takes all. The gender is a function of the person: what keeps the name gives it away.
    """
    check_number("people", people, 2, whole=True, optional=True)
    rows = []
    for folder, gender in (("actors", "male"), ("actresses", "female")):
        root = require(f"facescrub/{folder}", FACESCRUB_SOURCE)
        found = _by_person(root / "faces" if (root / "faces").is_dir() else root)
        if not found:
            raise InputError(f"{root} holds no image; expected one folder of images per person")
        most = sorted(found, key=lambda name: (-len(found[name]), name))[: None if people is None else people // 2]
        rows += [(path, name, gender) for name in sorted(most) for path in found[name]]
    table = pd.DataFrame(rows, columns=["path", "identity", "gender"])
    return Dataset(load_images(list(table["path"]), size), table[["identity"]], table[["gender"]], name="facescrub")


def _column(path: Path) -> pd.Series:
    """A file of lines "000001.jpg 2880"."""
    return pd.read_csv(path, sep=r"\s+", header=None, index_col=0)[1]


def _by_person(root: Path) -> dict[str, list[Path]]:
    images = sorted(p for p in root.glob("*/*") if p.suffix.lower() in SUFFIXES)
    found: dict[str, list[Path]] = {}
    for path in images:
        found.setdefault(path.parent.name.replace("_", " "), []).append(path)
    return found
