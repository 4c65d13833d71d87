"""The paper's networks for faces, small: a U-Net that redraws the image, and Xception's separable convolutions."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import Tensor, nn

from tacit.nets.unet import UNet


def redrawn(n_in: tuple[int, int, int], n_out: int) -> nn.Module:
    """Encoder: an image in, an image of the same shape out, as one row of numbers (Ronneberger et al. 2015)."""
    assert n_out == prod(n_in)
    return nn.Sequential(UNet(n_in[0], n_in[0]), nn.Flatten())


def xception(shape: tuple[int, int, int], n_in: int, n_out: int, width: int = 32) -> nn.Module:
    """Head: reads that image again by separable convolutions with shortcuts (Chollet 2017), here four of them."""
    widths = [width, 2 * width, 4 * width]
    return nn.Sequential(
        nn.Unflatten(1, shape),
        nn.Conv2d(shape[0], width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *(Entry(a, b) for a, b in zip(widths, [*widths[1:], widths[-1]], strict=True)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[-1], n_out),
    )


class Entry(nn.Module):
    """Two separable convolutions and a halving, beside a strided shortcut: a block of Xception's entry flow."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.deep = nn.Sequential(
            *separable(n_in, n_out), nn.ReLU(), *separable(n_out, n_out), nn.MaxPool2d(3, stride=2, padding=1)
        )
        self.short = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=2, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.deep(x) + self.short(x))


def separable(n_in: int, n_out: int) -> list[Any]:
    """A 3x3 convolution of each map alone, then a mix of maps at each pixel."""
    return [
        nn.Conv2d(n_in, n_in, 3, padding=1, groups=n_in, bias=False),
        nn.Conv2d(n_in, n_out, 1, bias=False),
        nn.BatchNorm2d(n_out),
    ]
