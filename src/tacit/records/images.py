"""A folder of images and a table of labels -> a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tacit.errors import InputError, NoColumn
from tacit.records.dataset import Dataset, read_file
from tacit.records.pixels import GREY, image_names, open_image, pixels


def read_images(
    folder: str | Path,
    labels: str | Path | pd.DataFrame | None = None,
    *,
    target: str | Sequence[str] = (),
    sensitive: str | Sequence[str] = (),
    unit: str | None = None,
    file: str = "file",
    size: int | tuple[int, int] | None = None,
) -> Dataset:
    """Read the images that a table of labels names, as (n, channels, height, width) from 0 to 1.

    Parameters
    ----------
    folder : where the images are; every image in it (or below) must have its row, and every row its image
    labels : CSV or Parquet file, or a DataFrame; ``labels.csv`` (or .parquet) in the folder by default
    target, sensitive : label columns; an empty cell means unknown
    unit : column that says which images belong together (a person, a session)
    file : column of file names, relative to the folder
    size : scale every image to this (height, width), or to a square; without it all must be of one size

    Grey images give one channel; if any image has colour, all give three.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile, tacit
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("a.png", "b.png"):
    ...     Image.fromarray(np.zeros((4, 6), dtype=np.uint8)).save(f"{folder}/{name}")
    >>> table = pd.DataFrame({"file": ["a.png", "b.png"], "smile": ["yes", "no"], "person": [1, 2]})
    >>> tacit.read_images(folder, table, target="smile", sensitive="person").X.shape
    (2, 1, 4, 6)
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; check the path")
    table, source = _label_table(folder, labels)
    targets = [target] if isinstance(target, str) else list(target)
    secrets = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    roles = {file: "file", **dict.fromkeys(targets, "target"), **dict.fromkeys(secrets, "sensitive")}
    for column, role in (roles | ({unit: "unit"} if unit else {})).items():
        if column not in table.columns:
            raise NoColumn(source, column, list(table.columns), f" ({role})")
    names = _match(folder, table[file], source)
    return Dataset(
        load_images([folder / name for name in names], size),
        table[targets],
        table[secrets],
        table[unit].to_numpy() if unit else None,
        name=folder.name,
        modality="image",
    )


def load_images(paths: Sequence[Path], size: int | tuple[int, int] | None = None) -> np.ndarray:
    """These files as one array (n, channels, height, width), float32 from 0 to 1."""
    wanted = None if size is None else (size, size) if isinstance(size, int) else tuple(size)
    if wanted is not None and (len(wanted) != 2 or not all(isinstance(s, int) and s >= 1 for s in wanted)):
        raise InputError(f"size must be (height, width) or one number, of at least 1 pixel; found {size!r}")
    shapes, colour = [], False
    for path in paths:  # headers only: a wrong file is found before the first pixel is read
        with open_image(path) as image:
            shapes.append((image.height, image.width))
            colour |= image.mode not in GREY
            if image.mode == "F":
                raise InputError(f"{path.name} holds floats, whose range is unknown; save it with 8 or 16 bits a pixel")
    usual = max(set(shapes), key=shapes.count)
    odd = [i for i, shape in enumerate(shapes) if shape != usual]
    if wanted is None and odd:
        raise InputError(
            f"{paths[odd[0]].name} is {shapes[odd[0]][0]}x{shapes[odd[0]][1]} pixels but most images are "
            f"{usual[0]}x{usual[1]} ({len(odd)} of {len(paths)} differ); size=({usual[0]}, {usual[1]}) scales all"
        )
    height, width = wanted or usual
    X = np.empty((len(paths), 3 if colour else 1, height, width), dtype=np.float32)
    for i, path in enumerate(paths):
        with open_image(path) as image:
            X[i] = pixels(image, (height, width), colour, path)
    return X


def _label_table(folder: Path, labels: str | Path | pd.DataFrame | None) -> tuple[pd.DataFrame, str]:
    if isinstance(labels, pd.DataFrame):
        return labels.reset_index(drop=True), "the table of labels"
    if labels is None:
        found = [p for p in map(folder.joinpath, ("labels.csv", "labels.csv.gz", "labels.parquet")) if p.exists()]
        if not found:
            raise InputError(
                f"{folder} has no labels.csv or labels.parquet; put one there with a column of file names "
                f"and the labels, or pass labels="
            )
        labels = found[0]
    return read_file(Path(labels)), Path(labels).name


def _match(folder: Path, column: pd.Series, source: str) -> list[str]:
    """The file names, each once, each there, and none left over."""
    there = set(image_names(folder))
    if column.isna().any():
        raise InputError(f"{source}, row {int(np.flatnonzero(column.isna())[0])}: no file name; fill it in or drop it")
    names = [Path(str(name)).as_posix() for name in column]
    twice = pd.Series(names, dtype=object).duplicated().to_numpy()
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        raise InputError(f"{source}, row {row}: {names[row]!r} is named a second time; keep one row per image")
    absent = [i for i, name in enumerate(names) if name not in there]
    if absent:
        raise InputError(
            f"{source}, row {absent[0]}: no image {names[absent[0]]!r} in {folder} ({len(absent)} such rows); "
            f"add the file or drop the row"
        )
    extra = sorted(there - set(names))
    if extra:
        raise InputError(
            f"{folder} holds {extra[0]!r}, which {source} does not name ({len(extra)} such images); "
            f"add a row for it (empty cells mean unknown) or move it away"
        )
    return names
