"""Faces of celebrities, read from the publishers' own files: celeba, facescrub."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tacit.datasets.declaration import choose_labels, declare
from tacit.datasets.publishers import celeba_files, facescrub_files
from tacit.datasets.store import locate, packed
from tacit.errors import InputError, check_number
from tacit.records.dataset import Dataset
from tacit.records.images import load_images

COLOURS = {"black": "Black_Hair", "blond": "Blond_Hair", "brown": "Brown_Hair", "grey": "Gray_Hair"}
TABLE = "celeba/list_attr_celeba.txt"
GENDERS = ("facescrub/actors", "facescrub/actresses")


def _celeba() -> celeba_files.CelebA | None:
    folder = locate("celeba")
    return None if folder is None else celeba_files.find_celeba(folder)


def _faces() -> list[facescrub_files.Face]:
    folder = locate("facescrub")
    return [] if folder is None else facescrub_files.find_faces(folder)


@declare(
    "202,599",
    "image",
    "hair, any of 40 attributes",
    "identity, any of 40",
    "research use, from its publisher only",
    (TABLE,),
    here=lambda: _celeba() is not None,
)
def celeba(
    target: str | Sequence[str] = "hair",
    sensitive: str | Sequence[str] = "identity",
    size: int | tuple[int, int] | None = 64,
    limit: int | None = None,
    colours: Sequence[str] = ("black", "blond", "brown"),
    split: str = "official",
) -> Dataset:
    """Celebrities, in colour: keep the hair's colour (or any attribute), hide the person.

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

    For identity an image is its own unit, for every other label the person is. Files: the publisher's, in the
    folder celeba, in his own folders (Anno, Eval, Img) or flat, or Kaggle's csv files, which have no identities.
    """
    check_number("limit", limit, 1, whole=True, optional=True)
    if split not in ("official", "paper"):
        raise InputError(f"celeba: split must be 'official' or 'paper'; found {split!r}")
    for colour in colours:
        if colour not in COLOURS:
            raise InputError(f"celeba: colours must be of {', '.join(COLOURS)}; found {colour!r}")
    files = _celeba()
    if files is None or files.images is None or not files.images.is_dir():
        missing = TABLE if files is None else f"celeba/{celeba_files.IMAGES}"
        packed(missing, "celeba")
        raise InputError(f"{missing} is no folder of images; run `tacit data prepare celeba FOLDER`")
    attributes, part, person = celeba_files.read_celeba(files)
    labels = attributes.replace({1: "yes", 0: "no"})
    chosen = [COLOURS[c] for c in colours]
    if set(chosen) <= set(attributes.columns):
        word = attributes[chosen].idxmax(axis=1).map({column: c for c, column in COLOURS.items()})
        labels["hair"] = word.where(attributes[chosen].sum(axis=1) == 1)
    if person is not None:
        labels["identity"] = person.astype(str)  # ten thousand numbers are names
    y, hidden = choose_labels("celeba", labels, target, sensitive)
    keep = y.notna().all(axis=1) & hidden.notna().all(axis=1)
    if split == "paper":
        part = _fifth_of_train(part, keep)
        keep &= part.notna()
    if limit is not None:
        keep &= keep.groupby(part).cumsum() <= limit
    if not keep.any():
        raise InputError(f"celeba: no image of {files.folder} has the labels {target!r} and {sensitive!r}")
    image = np.arange(int(keep.sum()))
    people = image if person is None else labels.loc[keep, "identity"].to_numpy()
    return Dataset(
        load_images([files.images / str(name) for name in labels.index[keep]], size),
        y[keep],
        hidden[keep],
        units={s: image if s == "identity" else people for s in hidden} or None,
        name="celeba",
        official=part[keep].to_numpy(),
    )


def _fifth_of_train(part: pd.Series, keep: pd.Series) -> pd.Series:
    """Validation rows drawn from the train part, always the same ones; the official validation part is left out."""
    out = part.where(part != "validation")
    train = np.flatnonzero(keep & (part == "train"))
    drawn = np.random.default_rng(0).permutation(train)[: len(train) // 5]
    out.iloc[drawn] = "validation"
    return out


@declare(
    "about 107,000",
    "image",
    "identity",
    "gender",
    "research use, from its publisher only",
    GENDERS,
    here=lambda: bool(_faces()),
)
def facescrub(people: int | None = 200, size: int | tuple[int, int] | None = 64) -> Dataset:
    """Actors and actresses, in colour: keep who it is, hide the gender (EIGAN, after Bertran et al. 2019).

    Files, in the folder facescrub: ``actors/faces/NAME/*.jpeg`` and ``actresses/faces/NAME``, ``download/NAME/face``,
    or MegaFace's ``NAME/*.png``; the publisher's lists beside them where no folder says the gender. `people`
    takes those with most images, half of each gender; None takes all. The gender is a function of the
    person: what keeps the name gives it away.
    """
    check_number("people", people, 2, whole=True, optional=True)
    found = _faces()
    if not found:
        packed(GENDERS[0], "facescrub")
        raise InputError(f"{locate('facescrub')} holds no image; expected one folder of images per person")
    table = pd.DataFrame(found, columns=["path", "identity", "gender"])
    count = table.groupby(["gender", "identity"], as_index=False).size()
    count = count.sort_values(["size", "identity"], ascending=[False, True])
    chosen = count.groupby("gender").head(len(count) if people is None else people // 2)["identity"]
    table = table[table["identity"].isin(chosen)]
    table = table.sort_values(["gender", "identity", "path"], ascending=[False, True, True]).reset_index(drop=True)
    return Dataset(load_images(list(table["path"]), size), table[["identity"]], table[["gender"]], name="facescrub")
