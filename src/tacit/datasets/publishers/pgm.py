"""Grey images in the portable graymap format, binary (P5) and as text (P2)."""

from __future__ import annotations

import re

import numpy as np

from tacit.errors import InputError

WORD = re.compile(rb"(?:\s|#[^\r\n]*(?:[\r\n]|$))*([^\s#]+)")  # comments run from # to the end of their line
MOST = 2**28  # pixels


def read_pgm(data: bytes, where: str) -> np.ndarray:
    """An image as bytes (height, width); more than 8 bits a pixel are scaled to 8.

    Examples
    --------
    >>> read_pgm(b"P2 # a comment\\n3 1\\n255\\n0 128 255\\n", "a.pgm").tolist()
    [[0, 128, 255]]
    """
    kind = data[:2]
    if kind not in (b"P5", b"P2"):
        raise InputError(f"{where} does not begin with P5 or P2, as a pgm image does; fetch it again, or convert it")
    place, numbers = 2, []
    for what in ("width", "height", "largest value"):
        found = WORD.match(data, place)
        if found is None or not found[1].isdigit() or len(found[1]) > 9:
            line = _line(data, place if found is None else found.start(1))
            raise InputError(f"{where}: its header, line {line}, has no {what}; fetch it again")
        numbers.append(int(found[1]))
        place = found.end()
    width, height, largest = numbers
    if not (0 < width * height <= MOST and 0 < largest < 65536):
        raise InputError(f"{where}: its header says {height}x{width} pixels up to {largest}; no image here is so")
    count = width * height
    if kind == b"P5":
        pixel = np.dtype(np.uint8) if largest < 256 else np.dtype(">u2")
        found_bytes = len(data) - place - 1  # one blank ends the header
        if found_bytes < count * pixel.itemsize:
            raise InputError(
                f"{where} is cut: its header says {height}x{width} pixels, {count * pixel.itemsize:,} bytes, but "
                f"{max(found_bytes, 0):,} follow; fetch it again"
            )
        values = np.frombuffer(data, pixel, count, place + 1).astype(int)
    else:
        values = _text_pixels(data, place, count, where)
    if values.max() > largest:
        raise InputError(f"{where} has a pixel above the largest value that its header names; fetch it again")
    scaled = values if largest == 255 else np.round(values * (255 / largest))
    return scaled.astype(np.uint8).reshape(height, width)


def _text_pixels(data: bytes, place: int, count: int, where: str) -> np.ndarray:
    values = np.empty(count, dtype=int)
    for i in range(count):
        found = WORD.match(data, place)
        if found is None:
            raise InputError(f"{where} is cut: {count:,} pixels expected, {i:,} found; fetch it again")
        if not found[1].isdigit() or len(found[1]) > 5:
            raise InputError(f"{where}, line {_line(data, found.start(1))}: a pixel is not a number; fetch it again")
        values[i], place = int(found[1]), found.end()
    return values


def _line(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1
