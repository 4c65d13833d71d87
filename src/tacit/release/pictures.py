"""Folders of images in and out of bulk work.

Pixels go in as `tacit.read_images` gives them: 8 bits as numbers from 0 to 1. A release that is itself an image is
written with 8 bits a pixel in a format that loses nothing, under the name of its source; no other content of the
source file (place, camera, comments) is carried over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.records.cells import Problem
from tacit.records.pixels import GREY, SUFFIXES, image_names, open_image, pixels
from tacit.release.runtime import Release

# these keep their suffix, by the number of channels that is released; all others become .png
LOSSLESS = {1: {".png", ".bmp", ".tif", ".tiff", ".pgm"}, 3: {".png", ".bmp", ".tif", ".tiff", ".ppm"}}
DEPTH = 255


@dataclass(frozen=True)
class Pictures:
    """Some images of a folder, not yet read: what one part of the work is about."""

    folder: Path
    names: list[str]
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return len(self.names)

    def parts(self, rows: int) -> Iterator[Pictures]:
        for at in range(0, len(self), rows):
            yield Pictures(self.folder, self.names[at : at + rows], self.shape)

    def read(self) -> tuple[np.ndarray, list[int], list[Problem]]:
        """The images that fit, which they are, and what is wrong with the others."""
        found, rows, problems = [], [], []
        for row, name in enumerate(self.names):
            try:
                found.append(self._one(self.folder / name))
                rows.append(row)
            except InputError as error:
                problems.append(Problem(row, name, str(error)))
            except Exception as error:  # Pillow's readers fail in many ways on a damaged file
                problems.append(Problem(row, name, f"cannot be read ({type(error).__name__}: {error})"))
        return np.stack(found) if found else np.empty((0, *self.shape), dtype=np.float32), rows, problems

    def _one(self, path: Path) -> np.ndarray:
        channels, height, width = self.shape
        with open_image(path) as image:
            # from the header: a small file that unpacks to a huge image is refused before it is unpacked
            if (image.height, image.width) != (height, width):
                raise InputError(
                    f"{image.height}x{image.width} pixels, but the bundle takes {height}x{width}; scale it first"
                )
            if image.mode == "F":
                raise InputError("holds floats, whose range is unknown; save it with 8 bits a pixel")
            if channels == 1 and image.mode not in GREY:
                raise InputError(f"has colour (mode {image.mode}), but the bundle takes grey; convert it first")
            return pixels(image, (height, width), channels == 3, path)


def pictures_in(folder: Path, release: Release) -> Pictures:
    """All images of a folder, where the bundle takes images."""
    shape = _takes_images(release.manifest["input"], folder)
    _takes_unit_pixels(release)
    names = image_names(folder)
    if not names:
        raise InputError(f"{folder} has no images ({', '.join(sorted(SUFFIXES))}); check the path")
    return Pictures(folder, names, shape)


def _takes_images(declared: Mapping[str, Any], folder: Path) -> tuple[int, int, int]:
    shape = tuple(declared.get("shape", ()))
    if len(shape) != 3 or shape[0] not in (1, 3):
        what = f"records of shape {shape}" if shape else "rows of a table"
        raise InputError(f"{folder} is a folder, whose images this bundle cannot take: it takes {what}; pass a file")
    return shape[0], shape[1], shape[2]


def _takes_unit_pixels(release: Release) -> None:
    """A filter that was fitted on pixels from 0 to 255 would see black images only."""
    mean = release.weights().get("encoder.mean")
    if mean is not None and not (np.min(mean) >= 0 and np.max(mean) <= 1):
        raise InputError(
            f"this bundle was fitted on pixels with a mean up to {np.max(mean):.3g}, but pixels of files go in from 0 "
            f"to 1; fit on tacit.read_images, or pass an .npz of pixels as the filter knows them"
        )


def check_pictures_out(names: list[str], target: Path, release: Release) -> None:
    """Refuse before the work what cannot become a folder of images."""
    shape = tuple(release.manifest["output"]["shape"])
    if release.manifest["output"]["table"] is not None or len(shape) != 3 or shape[0] not in (1, 3):
        raise InputError(
            f"this bundle releases no images but {release.manifest['output']['meaning']!r}; name a file such as "
            f"{target.name}.parquet or {target.name}.npz"
        )
    taken: dict[str, str] = {}
    for name in names:
        written = written_name(name, shape[0])
        other = taken.setdefault(written, name)
        if other != name:
            raise InputError(f"{other} and {name} would both be written as {written}; rename one of them")


def written_name(name: str, channels: int) -> str:
    """The name of a release: formats that lose something become PNG.

    Examples
    --------
    >>> written_name("ann/smile.jpg", 1), written_name("b.pgm", 1)
    ('ann/smile.png', 'b.pgm')
    """
    path = Path(name)
    return (path if path.suffix.lower() in LOSSLESS[channels] else path.with_suffix(".png")).as_posix()


def write_pictures(folder: Path, names: list[str], out: np.ndarray) -> None:
    """Releases from 0 to 1 as images with 8 bits a pixel."""
    from PIL import Image

    for name, values in zip(names, out, strict=True):
        low, high = float(values.min()), float(values.max())
        if low < -0.5 / DEPTH or high > 1 + 0.5 / DEPTH:
            raise InputError(
                f"the release of {name} has values from {low:.3g} to {high:.3g}, which are no pixels (0 to 1); "
                f"write a file such as .npz instead, which holds any number"
            )
        shown = np.rint(np.clip(values, 0, 1) * DEPTH).astype(np.uint8)
        path = folder / written_name(name, len(shown))
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(shown[0] if len(shown) == 1 else shown.transpose(1, 2, 0)).save(path)
