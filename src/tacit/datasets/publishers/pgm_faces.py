"""Faces in pgm files: CMU Face Images (an2i/an2i_left_angry_open_4.pgm) and ORL (s1/1.pgm)."""

from __future__ import annotations

import re

import numpy as np

from tacit.datasets.publishers.pack import Pack, counted, npz
from tacit.datasets.publishers.pgm import read_pgm
from tacit.datasets.publishers.source import Source
from tacit.datasets.where import WHERE
from tacit.errors import InputError

POSES = ("left", "right", "straight", "up")
EXPRESSIONS = ("angry", "happy", "neutral", "sad")
CMU = re.compile(r"(?:^|/)([^/_]+)_([^/_]+)_([^/_]+)_(open|sunglasses)(?:_([24]))?\.pgm$", re.IGNORECASE)
ORL = re.compile(r"(?:^|/)s(\d+)/(\d+)\.pgm$", re.IGNORECASE)
QUARTER, FULL = (30, 32), (120, 128)


def pack_cmu(source: Source) -> Pack:
    """The quarter size, 30x32: files ``*_4.pgm``; where a set has only larger ones, their mean over blocks."""
    by_size: dict[int, dict[tuple[str, ...], str]] = {1: {}, 2: {}, 4: {}}
    for name, match in _matches(source, CMU, "an2i/an2i_left_angry_open_4.pgm", WHERE["cmu_faces"]):
        person, pose, mood, eyes = (word.lower() for word in match.groups()[:4])
        for word, known, what in ((pose, POSES, "pose"), (mood, EXPRESSIONS, "expression")):
            if word not in known:
                raise InputError(
                    f"{source.where(name)}: expected a {what} of {', '.join(known)} in its name; rename or move it"
                )
        by_size[int(match[5] or 1)].setdefault((person, pose, mood, eyes), name)
    size = next(s for s in (4, 2, 1) if by_size[s])
    files = dict(sorted(by_size[size].items()))
    images = np.array([_quarter(source, name, 4 // size) for name in files.values()])
    people, poses, moods, eyes = np.array(list(files)).T
    names, person = np.unique(people, return_inverse=True)
    return Pack(
        f"{len(files):,} images of {len(names):,} people: {counted(eyes)}",
        {
            "cmu_faces/cmu_faces_30x32.npz": npz(
                images=images,
                person=person.astype(np.uint8),
                person_names=names,
                pose=np.searchsorted(POSES, poses).astype(np.uint8),
                pose_names=np.array(POSES),
                expression=np.searchsorted(EXPRESSIONS, moods).astype(np.uint8),
                expression_names=np.array(EXPRESSIONS),
                sunglasses=(eyes == "sunglasses").astype(np.uint8),
            )
        },
        [] if size == 4 else ["no file ends in _4.pgm: larger images were averaged to the quarter size"],
    )


def pack_orl(source: Source) -> Pack:
    """All images of all people, by person and number."""
    files = sorted(((int(m[1]), int(m[2])), name) for name, m in _matches(source, ORL, "s1/1.pgm", WHERE["orl_faces"]))
    images = [read_pgm(source.read(name), source.where(name)) for _, name in files]
    for image, (_, name) in zip(images, files, strict=True):
        _same_size(image, images[0].shape, source, name)
    people = np.array([person for (person, _), _ in files])
    return Pack(
        f"{len(files):,} images of {len(set(people)):,} people",
        {"orl_faces/orl_faces_112x92.npz": npz(images=np.array(images), subject=people.astype(np.int16))},
        []
        if images[0].shape == (112, 92)
        else [f"the publisher's images are 112x92; these are {_by(images[0].shape)}"],
    )


def _matches(source: Source, form: re.Pattern[str], example: str, where: str) -> list[tuple[str, re.Match[str]]]:
    found = source.matches(form)
    if not found:
        raise InputError(f"{source.path} has no image such as {example}; get {where}, and pass its folder")
    return found


def _quarter(source: Source, name: str, block: int) -> np.ndarray:
    image = read_pgm(source.read(name), source.where(name))
    expected = (QUARTER[0] * block, QUARTER[1] * block)
    _same_size(image, expected, source, name)
    blocks = image.reshape(QUARTER[0], block, QUARTER[1], block)
    return np.round(blocks.mean(axis=(1, 3))).astype(np.uint8)


def _same_size(image: np.ndarray, expected: tuple[int, ...], source: Source, name: str) -> None:
    if image.shape != expected:
        raise InputError(
            f"{source.where(name)} is {_by(image.shape)} pixels; expected {_by(expected)}; fetch it again, or move it"
        )


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
