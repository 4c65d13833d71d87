"""`tacit fit PHOTOS --images`: a folder of photos in, photos that show only what the task needs out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape

import tacit
from tacit.cli.shaped_fit import Preset, fit_shaped
from tacit.errors import InputError, no_column
from tacit.records.images import load_images
from tacit.records.pixels import image_names, open_image
from tacit.records.table_files import open_table
from tacit.report.screen import Console

LARGEST, SMALLEST = 64, 32  # height and width; with --small
PRESET = Preset(
    "images",
    "TaskMask",
    {"mask": {}},
    {"epochs": 12},
    "--small: 32 pixels and 12 epochs, not 64 and 30. Small details are lost, to the task as well; figures are in "
    "docs/how-to/images.md",
)


def run(
    console: Console,
    source: Path,
    target: list[str],
    sensitive: list[str],
    filter_name: str | None,
    labels: Path | None,
    small: bool,
    unit: str | None,
    seed: int,
    weight: float | None,
    **options: Any,
) -> None:
    if not source.is_dir():
        raise InputError(
            f"--images takes a folder of photos; {source} is {'a file' if source.exists() else 'not there'}"
        )
    if not target:
        raise InputError("say what must keep working: --target COLUMN of the labels, such as --target smile")
    name = PRESET.checked_name(filter_name)
    table = _labels(console, source, labels, {*target, *sensitive, *([unit] if unit else [])})
    table, X = _read(console, source, table, SMALLEST if small else LARGEST)
    units = None if unit is None else table[unit].to_numpy()
    data = tacit.Dataset(X, table[target], table[sensitive], units, name=source.name, modality="image")
    chosen = PRESET.chosen(console, name, small, weight, seed)
    names = list(table["file"])

    def write(released: np.ndarray, rows: np.ndarray, parts: np.ndarray | None, out: Path) -> Path:
        from tacit.release.pictures import write_pictures  # only here

        folder = out / "released"
        folder.mkdir()
        of = [""] * len(rows) if parts is None else [f"part-{part}/" for part in parts]
        # names of files often are names of people
        called = [f"{part}{i:06d}{Path(names[r]).suffix}" for i, (r, part) in enumerate(zip(rows, of, strict=True))]
        write_pictures(folder, called, released)
        return folder

    fit_shaped(console, data, chosen, name, source, None, "images", write, seed=seed, **options)


def _labels(console: Console, folder: Path, labels: Path | None, wanted: set[str]) -> pd.DataFrame:
    """The table of labels with the column ``file``: which column holds names of files is found."""
    there = image_names(folder)
    if not there:
        raise InputError(f"{folder} holds no image; expected .png, .jpg, .bmp, .gif, .tif or .webp files")
    place = labels or next((p for p in (folder / "labels.csv", folder / "labels.parquet") if p.exists()), None)
    if place is None:
        raise InputError(
            f"say where the labels are: --labels labels.csv, a table of file names and {', '.join(wanted)}"
        )
    table = open_table(place).table
    for column in sorted(wanted - set(table.columns)):
        raise InputError(no_column(place.name, column, list(table.columns)))
    known = {n: n for n in there} | {Path(n).name: n for n in there} | {Path(n).stem: n for n in there}
    named = [c for c in table.columns if c not in wanted and table[c].astype(str).isin(known).any()]
    if not named:
        raise InputError(f"no column of {place.name} holds names of files in {folder}, such as {there[0]!r}")
    names = table[named[0]].astype(str).map(known)
    unknown, unlabelled = int(names.isna().sum()), len(set(there) - set(names.dropna()))
    if unknown or unlabelled:
        text = f"left out: rows of {place.name} that name no image: {unknown}; images that have no row: {unlabelled}"
        console.print(f"[yellow]note:[/yellow] {escape(text)}", highlight=False)
    kept = table.assign(file=names).dropna(subset=["file"]).drop_duplicates("file")
    return kept.reset_index(drop=True)


def _read(console: Console, folder: Path, table: pd.DataFrame, most: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The images that can be read, at one size, and their rows; damaged ones are named and left out."""
    shapes, found, damaged = dict[int, tuple[int, int]](), dict[int, np.ndarray](), dict[str, None]()
    paths = [folder / name for name in table["file"]]
    for row, path in enumerate(paths):  # headers only
        with _leaving_out(path, damaged), open_image(path) as image:
            shapes[row] = (image.height, image.width)
    size = _size(console, list(shapes.values()), most) if shapes else (0, 0)
    for row in shapes:
        with _leaving_out(paths[row], damaged):
            found[row] = load_images([paths[row]], size)[0]
    if not found:
        raise InputError(f"none of the {len(paths)} images in {folder} can be read; save them as PNG or JPEG")
    if damaged:
        named = ", ".join(list(damaged)[:3]) + (", ..." if len(damaged) > 3 else "")
        text = f"{len(damaged)} of {len(paths)} images cannot be read and are left out: {named}"
        console.print(f"[yellow]note:[/yellow] {escape(text)}", highlight=False)
    channels = max(len(image) for image in found.values())  # grey among coloured ones: the same in every channel
    X = np.stack([np.broadcast_to(image, (channels, *image.shape[1:])) for image in found.values()])
    return table.iloc[list(found)].reset_index(drop=True), X


@contextlib.contextmanager
def _leaving_out(path: Path, damaged: dict[str, None]) -> Iterator[None]:
    try:
        yield
    except Exception:  # Pillow's readers fail in many ways on a damaged file
        damaged[path.name] = None


def _size(console: Console, shapes: list[tuple[int, int]], most: int) -> tuple[int, int]:
    """One size for all: the usual shape, its longer side at most so many pixels, in steps of four."""
    height, width = np.median(np.array(shapes), axis=0)
    scale = min(1.0, most / max(height, width))
    size = max(8, 4 * round(height * scale / 4)), max(8, 4 * round(width * scale / 4))
    different = len(set(shapes))
    if different > 1 or shapes[0] != size:
        console.print(
            f"{len(shapes):,} images of {different} sizes, scaled to {size[0]} x {size[1]} pixels", highlight=False
        )
    return size
