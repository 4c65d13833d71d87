"""Images as numbers: the files of a folder, what arrays of images must be, and regions of them. Numpy and Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError, InputTypeError

SUFFIXES = {".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".tif", ".tiff", ".gif", ".webp"}
GREY = ("1", "L", "LA", "I", "I;16", "F")  # Pillow's modes without colour
SMALLEST = 8  # pixels a side: less leaves nothing to choose from


def image_names(folder: Path) -> list[str]:
    """The images in a folder and below, in order, relative to it; hidden ones are no data."""
    inside = (p.relative_to(folder) for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    return sorted(p.as_posix() for p in inside if not any(part.startswith(".") for part in p.parts))


def open_image(path: Path) -> Any:
    """Pillow's image; its header is read, its pixels not yet."""
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(path)
    except FileNotFoundError as error:
        raise InputError(f"no image {path}; add the file, or drop its row") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path.name} is not an image that Pillow reads; convert it, or drop its row") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{path.name} has more pixels than any image should ({error}); drop it") from error


def pixels(image: Any, shape: tuple[int, int], colour: bool, path: Path) -> np.ndarray:
    """One image as (channels, height, width), float32 from 0 to 1, scaled to the shape where it has another."""
    from PIL import Image

    try:
        if image.mode in ("I", "I;16"):  # 16-bit grey, which Pillow's conversion to 8 bits would cut off
            image = Image.fromarray(np.asarray(image, dtype=np.float32) / 257)
        else:
            image = image.convert("RGB" if colour else "L")
        if (image.height, image.width) != shape:
            image = image.resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
        values = np.asarray(image, dtype=np.float32) / 255
    except (OSError, SyntaxError) as error:
        raise InputError(
            f"{path.name} cannot be read to its end ({error}); replace the file or drop its row"
        ) from error
    return values.transpose(2, 0, 1) if values.ndim == 3 else values[None]


def check_images(
    X: Any, what: str = "X", channels: tuple[int, ...] | None = None, smallest: int = SMALLEST
) -> np.ndarray:
    """Numbers of shape (n, channels, height, width), or an error that says what is wrong and where.

    Examples
    --------
    >>> check_images(np.zeros((2, 1, 8, 9))).shape
    (2, 1, 8, 9)
    """
    if isinstance(X, (list, tuple)) or getattr(X, "dtype", np.dtype(float)).kind == "O":
        shapes = [np.shape(image) for image in X]
        odd = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
        if odd is not None:
            raise InputError(
                f"{what} mixes sizes: image 0 has shape {shapes[0]} and image {odd} has {shapes[odd]}; "
                f"scale them to one size first (tacit.read_images(..., size=) does)"
            )
        X = np.stack([np.asarray(image) for image in X]) if len(X) else np.empty(0)
    images = np.asarray(X)
    if images.ndim != 4:
        raise InputError(f"{what} must be images (n, channels, height, width); found an array of shape {images.shape}")
    if images.dtype.kind not in "fiub":
        raise InputTypeError(f"{what} must hold numbers; found {images.dtype}")
    if len(images) == 0:
        raise InputError(f"{what} has no image: found array with 0 sample(s); pass at least one")
    if channels is not None and images.shape[1] not in channels:
        words = " or ".join(map(str, channels))
        raise InputError(
            f"{what} must have {words} channels, as (n, channels, height, width); found shape {images.shape}"
        )
    if min(images.shape[2:]) < smallest:
        raise InputError(
            f"{what} has images of {images.shape[2]}x{images.shape[3]} pixels; "
            f"at least {smallest}x{smallest} are needed: scale them up, or take larger ones"
        )
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        i, channel, row, column = np.argwhere(~np.isfinite(images))[0]
        word = "NaN" if np.isnan(images[i, channel, row, column]) else "inf"
        raise InputError(
            f"{what}, image {i}: {word} at channel {channel}, row {row}, column {column}; "
            f"replace it by a number (the image's mean, for instance)"
        )
    return images


def check_region(region: Any, size: tuple[int, int], name: str) -> np.ndarray:
    """A box (top, left, bottom, right; bottom and right not included) or a boolean array -> booleans (h, w).

    None is the empty region.

    Examples
    --------
    >>> check_region((0, 0, 2, 1), (3, 3), "never").astype(int).tolist()
    [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
    """
    inside = np.zeros(size, dtype=bool)
    if region is None:
        return inside
    array = np.asarray(region)
    if array.dtype == bool:
        if array.shape != size:
            raise InputError(
                f"{name} has shape {array.shape} but the images are {size[0]}x{size[1]}; "
                f"pass one boolean per pixel, or a box (top, left, bottom, right)"
            )
        return array.copy()
    if array.shape != (4,) or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a box of four whole numbers (top, left, bottom, right) or a boolean array "
            f"of {size[0]}x{size[1]}; found {region!r}"
        )
    top, left, bottom, right = (int(v) for v in array)
    if not (0 <= top < bottom <= size[0] and 0 <= left < right <= size[1]):
        raise InputError(
            f"{name} is the box (top {top}, left {left}, bottom {bottom}, right {right}), which is empty or not inside "
            f"the image of {size[0]}x{size[1]}; rows count from 0 to {size[0]}, columns from 0 to {size[1]}"
        )
    inside[top:bottom, left:right] = True
    return inside
