"""FER2013 (fer2013.csv: emotion, pixels, Usage) with the FER+ votes (fer2013new.csv), line by line the same images."""

from __future__ import annotations

import numpy as np

from tacit.datasets.publishers.columns import AGAIN, rows, same_length, whole_in
from tacit.datasets.publishers.pack import Pack, counted, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

SIDE = 48
VOTES = ("neutral", "happiness", "surprise", "sadness", "anger", "disgust", "fear", "contempt", "unknown", "NF")
PARTS = ("Training", "PublicTest", "PrivateTest")


def pack_fer2013(source: Source) -> Pack:
    """Images and votes; rows that FER+ gives no image name are no faces, and left out."""
    pixels = source.need("fer2013.csv", "icml_face_data.csv", remedy=f"get {WHERE['fer_plus']}")
    votes = source.need("fer2013new.csv", remedy=f"get {WHERE['fer_plus']}")
    images, parts = _images(source, pixels)
    named, counts, usage = _votes(source, votes)
    same_length(source, {pixels: len(images), votes: len(counts)})
    differ = np.flatnonzero(parts != usage)
    if len(differ):
        raise InputError(
            f"{source.where(votes)}, line {differ[0] + 2}: its Usage is not that of {source.where(pixels)}; the two "
            f"files must list the same images in the same order: fetch both again"
        )
    keep = np.flatnonzero(named)
    part = parts[keep]
    return Pack(
        f"{len(keep):,} images: {counted(np.array(PARTS)[part])}",
        {
            "fer2013_ferplus/fer2013_ferplus.npz": npz(
                images=images[keep],
                votes=counts[keep].astype(np.uint8),
                vote_names=np.array(VOTES),
                split=part.astype(np.uint8),
                split_names=np.array(PARTS),
                fer2013_row=keep.astype(np.int32),
            )
        },
        [f"{len(images) - len(keep):,} rows without an image name in FER+ are left out"]
        if len(keep) < len(images)
        else [],
    )


def _images(source: Source, name: str) -> tuple[np.ndarray, np.ndarray]:
    images, parts = [], []
    for line, (text, usage) in rows(source, name, ("pixels", "Usage")):
        try:
            values = np.array(text.split(), dtype=str).astype(np.int64)
        except (ValueError, OverflowError):
            raise InputError(f"{source.where(name)}, line {line}: a pixel is not a whole number; {AGAIN}") from None
        if len(values) != SIDE * SIDE:
            raise InputError(
                f"{source.where(name)}, line {line}: {len(values):,} pixels; expected {SIDE}x{SIDE}; {AGAIN}"
            )
        if values.min() < 0 or values.max() > 255:
            raise InputError(f"{source.where(name)}, line {line}: a pixel is not from 0 to 255; {AGAIN}")
        images.append(values.astype(np.uint8))
        parts.append(_part(usage, source, name, line))
    if not images:
        raise InputError(f"{source.where(name)} has no line of data below its header; fetch it again")
    return np.array(images).reshape(-1, SIDE, SIDE), np.array(parts)


def _votes(source: Source, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    named, counts, parts = [], [], []
    for line, (usage, image, *cells) in rows(source, name, ("Usage", "Image name", *VOTES)):
        named.append(bool(image))
        counts.append([whole_in(c, source, name, line, 0, 255, v) for c, v in zip(cells, VOTES, strict=True)])
        parts.append(_part(usage, source, name, line))
    return np.array(named, dtype=bool), np.array(counts, dtype=int).reshape(-1, len(VOTES)), np.array(parts)


def _part(word: str, source: Source, name: str, line: int) -> int:
    known = [p.lower() for p in PARTS]
    if word.lower() not in known:
        raise InputError(f"{source.where(name)}, line {line}: Usage must be one of {', '.join(PARTS)}; {AGAIN}")
    return known.index(word.lower())
