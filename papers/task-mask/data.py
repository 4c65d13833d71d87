"""The paper's faces in their parts: FER+ (the paper's own), CMU faces (in place of CelebA), CelebA for its owners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

import tacit

from .protocol import Faces, Part

HAIR = ("black", "blond", "brown")  # the paper's counts fit these three, exactly one of them an image


def emotions(s: Mapping[str, Any], pixels: int = 48) -> Faces:
    """FER+ in its official parts; people to be named are ORL's, whom nobody has seen."""
    train, validation, test, known = _emotions(s["rows"], pixels)
    return Faces(train, validation, test, known=known if s["naming_epochs"] else None)


@cache  # read once by each process
def _emotions(rows: int, pixels: int) -> tuple[Part, ...]:
    data = tacit.load_dataset("fer_plus").split("official")
    rng, classes = np.random.default_rng(0), np.unique(data[0].y["emotion"])
    sizes = [rows, rows // 4, rows // 2] if rows else [len(p) for p in data]
    some = [p.take(np.sort(rng.permutation(len(p))[:n])) for p, n in zip(data, sizes, strict=True)]
    parts = [Part(scaled(p.X, pixels), np.searchsorted(classes, p.y["emotion"])) for p in some]
    orl = tacit.load_dataset("orl_faces")
    X = scaled(orl.X[: rows or None, :, :, 10:82], pixels)  # square, as FER+'s are
    return *parts, Part(X, np.zeros(len(X), int), orl.sensitive["person"].to_numpy()[: len(X)])


def attribute(s: Mapping[str, Any]) -> Faces:
    """The faces of Table II: sunglasses on CMU faces, or the hair's colour on CelebA."""
    return {"cmu_faces": _sunglasses, "celeba": _hair}[s["data"]](s)


def _sunglasses(s: Mapping[str, Any]) -> Faces:
    """A third for the masks, a third for the networks, a third for the test; nothing is chosen here."""
    data = tacit.load_dataset("cmu_faces")
    train, learn, test = data.split((0.34, 0.33, 0.33), random_state=0)
    if s["rows"] and s["rows"] < len(train):
        train, learn, test = (d.take(np.arange(s["rows"])) for d in (train, learn, test))
    a, b, c = (Part(d.X, _codes(d.y["sunglasses"]), d.sensitive["person"].to_numpy()) for d in (train, learn, test))
    known = Part(np.concatenate([b.X, c.X]), np.concatenate([b.y, c.y]), np.concatenate([b.person, c.person]))
    return Faces(a, a, c, b, known)


def _hair(s: Mapping[str, Any]) -> Faces:
    """The paper's selection and split. People of the test part are named by who learned from half of their images."""
    data = tacit.load_dataset("celeba", colours=HAIR, split="paper", size=64, limit=s["limit"] or None)
    parts = [
        Part(d.X, np.searchsorted(HAIR, d.y["hair"]), d.sensitive["identity"].to_numpy())
        for d in data.split("official")
    ]
    return Faces(*parts, known=parts[2])


def scaled(images: np.ndarray, pixels: int) -> np.ndarray:
    """Square images of so many pixels a side."""
    x = torch.as_tensor(images, dtype=torch.float32)
    if x.shape[2:] == (pixels, pixels):
        return x.numpy()
    return nn.functional.interpolate(x, (pixels, pixels), mode="bilinear", antialias=True).numpy()


def _codes(labels: Any) -> np.ndarray:
    return np.unique(np.asarray(labels), return_inverse=True)[1]
