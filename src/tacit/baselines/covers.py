"""Images hidden by hand: a block, a blur, mosaic cells, random pixels. Nothing is learned."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import ndimage
from sklearn.base import BaseEstimator, TransformerMixin

from tacit.errors import InputError, check_number
from tacit.records.pixels import check_images, check_region


class _Cover(TransformerMixin, BaseEstimator):
    """A filter of images (n, channels, height, width) that needs no fit."""

    region: Any
    share: float

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None) -> Self:
        """Check the images; there is nothing to learn."""
        self.transform(check_images(X)[:1])
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The images with their region covered; they keep their shape and units."""
        images = check_images(X, smallest=2)
        images = images if images.dtype.kind == "f" else images.astype(np.float64)
        return np.where(self._region(images.shape[2:]), self._covered(images), images)

    def seen(self, X: Any, units: Any = None) -> np.ndarray:
        """Which of these images were learned from: none ever is."""
        return np.zeros(len(X), dtype=bool)

    def _covered(self, images: np.ndarray) -> Any:
        raise NotImplementedError

    def _region(self, size: tuple[int, ...]) -> np.ndarray:
        if self.region is not None:
            return check_region(self.region, (size[0], size[1]), "region")
        check_number("share", self.share, 0, 1)
        edges = [round(side * (1 - self.share) / 2) for side in size]
        inside = np.zeros(size, dtype=bool)
        inside[edges[0] : size[0] - edges[0], edges[1] : size[1] - edges[1]] = self.share > 0
        return inside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class _Fill(_Cover):
    """A cover of one value."""

    fill: float

    def mask(self, X: Any) -> np.ndarray:
        """True where a pixel is revealed, (n, 1, height, width)."""
        shape = check_images(X, smallest=2).shape
        return np.broadcast_to(~self._region(shape[2:]), (shape[0], 1, *shape[2:])).copy()

    def _covered(self, images: np.ndarray) -> Any:
        check_number("fill", self.fill, -np.inf)
        return np.asarray(self.fill, dtype=images.dtype)


class BlockMask(_Fill):
    """Cover the centre of every image, or a region of your choice, with one value.

    Parameters
    ----------
    region : a box (top, left, bottom, right) or booleans (height, width); None: the centre
    share : of each side that the centre takes
    fill : the value put there

    Examples
    --------
    >>> BlockMask(share=.5).transform(np.ones((1, 1, 4, 4)))[0, 0].astype(int).tolist()
    [[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    """

    def __init__(self, region: Any = None, *, share: float = 0.75, fill: float = 0.0) -> None:
        self.region = region
        self.share = share
        self.fill = fill


class BlurMask(_Cover):
    """Blur every image with a Gaussian: all of it, its centre, or a region of your choice.

    Parameters
    ----------
    sigma : deviation of the Gaussian, in pixels
    region : a box (top, left, bottom, right) or booleans (height, width); None: the centre
    share : of each side that the centre takes; 1 is the whole image

    Examples
    --------
    >>> BlurMask(sigma=100).transform(np.eye(8)[None, None]).std().round(3) + 0
    np.float64(0.0)
    """

    def __init__(self, sigma: float = 2.0, region: Any = None, *, share: float = 1.0) -> None:
        self.sigma = sigma
        self.region = region
        self.share = share

    def _covered(self, images: np.ndarray) -> Any:
        check_number("sigma", self.sigma, 0)
        return ndimage.gaussian_filter(images, self.sigma, axes=(2, 3))


class Pixelate(_Cover):
    """Replace square cells by their mean: a mosaic over the image, its centre, or a region of your choice.

    Parameters
    ----------
    cell : side of a cell in pixels; cells at the right and lower border may be smaller
    region : a box (top, left, bottom, right) or booleans (height, width); None: the centre
    share : of each side that the centre takes; 1 is the whole image

    Examples
    --------
    >>> Pixelate(2).transform(np.arange(16.).reshape(1, 1, 4, 4))[0, 0].tolist()[0]
    [2.5, 2.5, 4.5, 4.5]
    """

    def __init__(self, cell: int = 6, region: Any = None, *, share: float = 1.0) -> None:
        self.cell = cell
        self.region = region
        self.share = share

    def _covered(self, images: np.ndarray) -> Any:
        check_number("cell", self.cell, 1, whole=True)
        out = images
        for axis in (2, 3):
            starts = np.arange(0, out.shape[axis], self.cell)
            widths = np.diff([*starts, out.shape[axis]])
            scaled = np.add.reduceat(out, starts, axis=axis) / np.expand_dims(
                widths, [a for a in range(4) if a != axis]
            )
            out = np.repeat(scaled, widths, axis=axis)
        return out.astype(images.dtype)


class RandomMask(_Fill):
    """Reveal a share of the pixels drawn at random, the same ones in every image: the control of a learned mask.

    Parameters
    ----------
    keep : the share of pixels revealed
    fill : the value of the others
    random_state : which pixels; a number

    Examples
    --------
    >>> int(RandomMask(.25).transform(np.ones((1, 1, 8, 8))).sum())
    16
    """

    def __init__(self, keep: float = 0.2, *, fill: float = 0.0, random_state: int = 0) -> None:
        self.keep = keep
        self.fill = fill
        self.random_state = random_state

    def _region(self, size: tuple[int, ...]) -> np.ndarray:
        check_number("keep", self.keep, 0, 1)
        if self.keep == 0:
            raise InputError("keep must be above 0 and at most 1; found 0, which would reveal nothing")
        pixels = int(np.prod(size))
        hidden = np.ones(pixels, dtype=bool)
        hidden[np.random.default_rng(self.random_state).permutation(pixels)[: max(1, round(self.keep * pixels))]] = (
            False
        )
        return hidden.reshape(size)
