"""A small U-Net (Ronneberger et al. 2015): an image in, one score per pixel out."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

DEPTH = 3  # halvings; sides are padded to a multiple of 2**DEPTH


class UNet(nn.Module):
    """Three levels down, three up, with a skip at each level.

    Images whose sides are no multiple of 8 are padded with their border and cropped again.

    Parameters
    ----------
    n_channels : of the image
    n_out : maps of scores
    width : maps of the first level; each level down has twice as many

    Examples
    --------
    >>> UNet(1)(torch.zeros(2, 1, 30, 32)).shape
    torch.Size([2, 1, 30, 32])
    """

    def __init__(self, n_channels: int, n_out: int = 1, width: int = 16) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(DEPTH + 1)]
        self.down = nn.ModuleList(
            _two_convolutions(a, b) for a, b in zip([n_channels, *widths[:-2]], widths[:-1], strict=True)
        )
        self.bottleneck = _two_convolutions(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths))
        self.merge = nn.ModuleList(_two_convolutions(2 * a, a) for a in widths[:-1])
        self.score = nn.Conv2d(width, n_out, 1)
        self.deepest = widths[-1]

    def forward(self, x: Tensor) -> Tensor:
        return self.scores_and_deepest(x)[0]

    def scores_and_deepest(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The scores, and the maps of the lowest level, which see the most of the image."""
        height, width = x.shape[-2:]
        step = 2**DEPTH
        x = nn.functional.pad(x, (0, -width % step, 0, -height % step), mode="replicate")
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = deep = self.bottleneck(x)
        for up, merge, skip in zip(reversed(self.up), reversed(self.merge), reversed(skips), strict=True):
            x = merge(torch.cat([up(x), skip], dim=1))
        return self.score(x)[..., :height, :width], deep


def _two_convolutions(n_in: int, n_out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a in (n_in, n_out):
        layers += [nn.Conv2d(a, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]
    return nn.Sequential(*layers)
