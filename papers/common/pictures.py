"""Images as text, so that results.json can keep the few that a figure shows."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np


def packed(images: np.ndarray) -> dict[str, Any]:
    """Images from 0 to 1 as text, at eight bits: lists of numbers would fill results.json.

    Examples
    --------
    >>> packed(np.array([[0.0, 1.0]]))
    {'shape': (1, 2), 'bytes': 'AP8='}
    """
    return {"shape": images.shape, "bytes": b64encode((images.clip(0, 1) * 255).astype(np.uint8).tobytes()).decode()}


def unpacked(text: Mapping[str, Any]) -> np.ndarray:
    """The images that `packed` wrote.

    Examples
    --------
    >>> unpacked(packed(np.array([[0.0, 1.0]])))
    array([[0., 1.]])
    """
    return np.frombuffer(b64decode(text["bytes"]), np.uint8).reshape(text["shape"]) / 255
