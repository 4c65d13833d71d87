"""Image files: which there are in a folder, and their pixels as numbers from 0 to 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError

SUFFIXES = {".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".tif", ".tiff", ".gif", ".webp"}
GREY = ("1", "L", "LA", "I", "I;16", "F")  # Pillow's modes without colour


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
        raise InputError(f"{path.name} is no image that Pillow reads; convert it to PNG, or drop its row") from error
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
