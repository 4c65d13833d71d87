"""CelebA where its publisher's archives (Anno, Eval, Img), a flat folder or Kaggle's csv files put it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tacit.datasets.publishers.pack import Pack, Writer, counted, same_files
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

IMAGES = "img_align_celeba"
PARTS = ("train", "validation", "test")
AGAIN = "fetch the file again"


@dataclass(frozen=True)
class CelebA:
    """Where its files are; no identities come with Kaggle's copy."""

    folder: Path
    attributes: Path
    parts: Path
    identities: Path | None
    images: Path | None  # a folder, or the publisher's zip


def find_celeba(folder: Path) -> CelebA | None:
    """The files of CelebA in a folder or below it; None where it has no attributes."""
    found: dict[str, Path] = {}
    for home, folders, files in os.walk(folder):
        folders.sort()
        for name in list(folders):
            if name.lower() == IMAGES:
                inner = Path(home) / name
                # Kaggle's folder lies in one of the same name
                found["images"] = inner / IMAGES if (inner / IMAGES).is_dir() else inner
                folders.remove(name)  # two hundred thousand files
        for name in files:
            found.setdefault(name.lower(), Path(home) / name)
    tables = [
        found.get(f"{stem}.txt") or found.get(f"{stem}.csv")
        for stem in ("list_attr_celeba", "list_eval_partition", "identity_celeba")
    ]
    if tables[0] is None:
        return None
    if tables[1] is None:
        raise InputError(f"{folder} has no file list_eval_partition.txt (or .csv); get {WHERE['celeba']}")
    return CelebA(folder, tables[0], tables[1], tables[2], found.get("images") or found.get(f"{IMAGES}.zip"))


def read_celeba(files: CelebA) -> tuple[pd.DataFrame, pd.Series, pd.Series | None]:
    """Attributes (1 or 0) by image, the official part of every image, and its person where that is known."""
    attributes = _attributes(files.attributes)
    part = _column(files.parts, attributes.index, low=0, high=2).map(dict(enumerate(PARTS)))
    person = None if files.identities is None else _column(files.identities, attributes.index, low=0)
    return attributes, part, person


def pack_celeba(source: Source) -> Pack:
    """The tables checked, and the images beside them: linked where the disk is the same, else copied."""
    files = find_celeba(source.path) if source.path.is_dir() else None
    if files is None:
        raise InputError(
            f"{source.path} has no file list_attr_celeba.txt (or .csv); get {WHERE['celeba']}, and pass the folder"
        )
    attributes, part, person = read_celeba(files)
    if files.images is None:
        raise InputError(f"{source.path} has no folder {IMAGES} and no {IMAGES}.zip; get {WHERE['celeba']}")
    marks = attributes * 2 - 1
    lines = [f"{name} " + " ".join(map(str, row)) for name, row in zip(marks.index, marks.to_numpy(), strict=True)]
    packed: dict[str, Writer] = {
        "celeba/list_attr_celeba.txt": _text([str(len(marks)), " ".join(marks.columns), *lines]),
        "celeba/list_eval_partition.txt": _text([f"{n} {PARTS.index(p)}" for n, p in part.items()]),
        f"celeba/{IMAGES}": _images(files, list(attributes.index)),
    }
    notes = []
    if person is not None:
        packed["celeba/identity_CelebA.txt"] = _text([f"{n} {p}" for n, p in person.items()])
    else:
        notes.append("no identity_CelebA.txt: identity cannot be hidden; the publisher sends it on request")
    return Pack(f"{len(attributes):,} images: {counted(part)}", packed, notes)


def _attributes(path: Path) -> pd.DataFrame:
    """txt: how many, names, then a line an image; csv: names, then lines. 1 is yes; -1 (or 0) is no."""
    source, name = Source(path, "celeba"), path.name
    lines = source.lines(name)
    csv = path.suffix.lower() == ".csv"
    said = None
    if not csv:
        line, text = next(lines, (1, ""))
        if not text.strip().isdigit():
            raise InputError(f"{path}, line {line}: expected the number of images; {AGAIN}")
        said = int(text)
    heads = _words(next(lines, (0, ""))[1], csv)[1 if csv else 0 :]
    if not heads:
        raise InputError(f"{path} names no attributes; {AGAIN}")
    names, cells, numbers = [], [], []
    for line, text in lines:
        first, *rest = _words(text, csv) or [""]
        if len(rest) != len(heads):
            raise InputError(f"{path}, line {line}: {len(rest)} attributes; expected {len(heads)}; {AGAIN}")
        names.append(first)
        cells.append(rest)
        numbers.append(line)
    if said is not None and said != len(names):
        raise InputError(f"{path}, line 1: it says {said:,} images, but {len(names):,} follow; it is cut: {AGAIN}")
    if not names:
        raise InputError(f"{path} lists no image; {AGAIN}")
    values = np.array(cells)
    wrong = np.flatnonzero(~np.isin(values, ("1", "-1", "0")).all(axis=1))
    if len(wrong):
        raise InputError(f"{path}, line {numbers[wrong[0]]}: an attribute is neither 1 nor -1; {AGAIN}")
    return pd.DataFrame((values == "1").astype(int), index=names, columns=heads)


def _column(path: Path, images: pd.Index, low: int, high: float = float("inf")) -> pd.Series:
    """Lines "000001.jpg 2880", or the same as csv with a line of names, for every image."""
    source, csv = Source(path, "celeba"), path.suffix.lower() == ".csv"
    found: dict[str, int] = {}
    for i, (line, text) in enumerate(source.lines(path.name)):
        words = _words(text, csv)
        if csv and i == 0 and not words[-1].isdigit():
            continue
        if len(words) != 2 or not words[1].isdigit() or not low <= int(words[1]) <= high:
            limits = f" from {low} to {high}" if high < float("inf") else ""
            raise InputError(f"{path}, line {line}: expected an image and a whole number{limits}; {AGAIN}")
        found[words[0]] = int(words[1])
    column = pd.Series(found, dtype=object).reindex(images)
    missing = column.index[column.isna()]
    if len(missing):
        raise InputError(f"{path} has no line for {missing[0]} ({len(missing):,} such images); {AGAIN}")
    return column.astype(int)


def _images(files: CelebA, names: list[str]) -> Writer:
    images = files.images
    assert images is not None  # checked before
    if images.is_dir():
        missing = _first_missing(names, {entry.name for entry in os.scandir(images)})
        if missing is None:
            return same_files([(images / name, name) for name in names])
    else:
        with Source(images, "celeba") as archive:
            inside = {name.rsplit("/", 1)[-1]: name for name in archive}
        missing = _first_missing(names, set(inside))
        if missing is None:

            def unpack(folder: Path) -> None:
                with Source(images, "celeba") as archive:
                    for name in names:  # of the tables, each a bare file name
                        with archive.reading(inside[name]) as packed, open(folder / name, "wb") as out:
                            shutil.copyfileobj(packed, out)

            return unpack
    raise InputError(f"{files.attributes} lists {names[missing]}, which is not in {images}; fetch the images again")


def _first_missing(names: list[str], there: set[str]) -> int | None:
    return next((i for i, name in enumerate(names) if name not in there or "/" in name), None)


def _words(text: str, csv: bool) -> list[str]:
    return [w.strip().strip('"') for w in text.split(",")] if csv else text.split()


def _text(lines: list[str]) -> Writer:
    def write(path: Path) -> None:
        path.write_text("\n".join(lines) + "\n")

    return write
