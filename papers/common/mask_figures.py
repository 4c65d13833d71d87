"""Faces, or any images, next to their masks and to other ways of hiding them (the task-mask paper's figures 2-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.records.pixels import check_images


def draw_masks(images: Any, releases: Mapping[str, Any], most: int = 8) -> Any:
    """A matplotlib Figure: a row per image; the original, then what each release makes of it.

    A release that has ``mask`` gets a second column with its bare masks.

    Parameters
    ----------
    images : (n, 1 or 3, height, width); the first `most` are drawn
    releases : by the name above its column; anything with ``transform`` that returns images

    Examples
    --------
    >>> import tacit
    >>> figure = draw_masks(np.random.default_rng(0).random((2, 1, 8, 8)), {"block": tacit.baselines.BlockMask()})
    >>> len(figure.axes)  # two rows of original, block, and the block's mask
    6
    """
    from matplotlib.figure import Figure

    shown = check_images(images, "images", channels=(1, 3))[:most]
    columns = {"original": shown}
    for name, release in releases.items():
        columns[name] = np.asarray(release.transform(shown))
        if columns[name].shape != shown.shape:
            raise InputError(f"{name} releases {columns[name].shape[1:]}, not images of {shown.shape[1:]}")
        if hasattr(release, "mask"):
            columns[f"{name}: mask"] = np.asarray(release.mask(shown), dtype=float)
    low, high = float(shown.min()), float(shown.max())
    figure = Figure(figsize=(1.2 * len(columns), 1.2 * len(shown) + 0.3), layout="constrained")
    grid = figure.subplots(len(shown), len(columns), squeeze=False)
    for j, (name, pictures) in enumerate(columns.items()):
        bare = name.endswith(": mask")
        for axes, picture in zip(grid[:, j], pictures, strict=True):
            span = (0.0, 1.0) if bare else (low, high)
            if picture.shape[0] == 1:
                axes.imshow(picture[0], cmap="gray", vmin=span[0], vmax=span[1])
            else:
                axes.imshow(np.clip((picture.transpose(1, 2, 0) - low) / max(high - low, 1e-12), 0, 1))
            axes.set_axis_off()
        grid[0, j].set_title(name, fontsize=8)
    return figure
