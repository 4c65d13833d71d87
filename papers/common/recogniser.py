"""The face embedding: a pretrained recogniser as the `embed` of an audit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from safetensors.torch import load_file

from papers.common.face_network import SIZE, FaceRecogniser
from papers.data import require
from tacit.errors import InputError
from tacit.records.pixels import check_images
from tacit.training.device import choose_device

FILE = "face_recogniser/face_recogniser.safetensors"


def face_embedding(
    centre: np.ndarray | None = None, *, crop: tuple[float, float, float, float] | None = None, device: str = "auto"
) -> Callable[[np.ndarray], np.ndarray]:
    """Load a function from face images to 128 numbers, for ``tacit.AuditOptions(embed=face_embedding())``.

    The images are (n, 1 or 3, height, width) from 0 to 1; they are scaled to 150x150 inside. The network
    was trained by others on other faces, and does not adapt to a release: a low similarity says that this
    recogniser is lost, not that every attacker is.

    Parameters
    ----------
    centre : face images whose mean embedding is taken off. This network gives any two faces a cosine near .87;
        centred on other faces of the kind, strangers are near 0, as in FaceNet, and a cosine can be read alone
    crop : (top, left, bottom, right) as shares of the sides, to cut the face out first; None: the whole image
    device : where it runs; "auto" takes a GPU when there is one

    Examples
    --------
    >>> embed = face_embedding()  # doctest: +SKIP
    >>> embed(np.zeros((2, 1, 48, 48))).shape  # doctest: +SKIP
    (2, 128)
    """
    where = choose_device(device)
    if crop is not None and not (0 <= crop[0] < crop[2] <= 1 and 0 <= crop[1] < crop[3] <= 1):
        raise InputError(
            f"crop must be shares (top, left, bottom, right) with top < bottom, left < right; found {crop}"
        )
    path = require(FILE, "the face recogniser of the npm package @vladmandic/face-api, as safetensors")
    net = FaceRecogniser(load_file(path)).to(where).eval()

    def embed(images: np.ndarray) -> np.ndarray:
        checked = check_images(images, "images", channels=(1, 3))
        if checked.min() < -0.01 or checked.max() > 1.01:
            raise InputError(
                f"face images must lie between 0 and 1; found {checked.min():g} to {checked.max():g}: divide by 255"
            )
        if crop is not None:
            top, left, bottom, right = np.round(np.multiply(crop, checked.shape[2:] * 2)).astype(int)
            checked = checked[:, :, top:bottom, left:right]
        parts = []
        with torch.no_grad():
            for i in range(0, len(checked), 64):
                x = torch.as_tensor(checked[i : i + 64], dtype=torch.float32, device=where).expand(-1, 3, -1, -1)
                x = torch.nn.functional.interpolate(
                    x, (SIZE, SIZE), mode="bilinear", align_corners=False, antialias=True
                )
                parts.append(net(255 * x).cpu().numpy())
        return np.concatenate(parts)

    if centre is None:
        return embed
    mean = embed(centre).mean(axis=0)
    return lambda images: embed(images) - mean
