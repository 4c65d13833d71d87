"""A small U-Net (Ronneberger et al. 2015): an image in, one score per pixel out; and the task mask's masker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

DEPTH = 3  # halvings; sides are padded to a multiple of 2**DEPTH
PLACE_SPEED = 10.0  # a place gets one gradient a batch, where the U-Net gets one from every pixel


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


class Masker(nn.Module):
    """A U-Net's scores, and for each kind of image a learned score of each place: where the task usually lies.

    The kinds are the classes of the task (or one for all): the U-Net's deepest layer tells which it sees, and
    learns that from the labels. So the mask's shape says what the masker knows of the task. All start at (nearly)
    nothing: the scores of a U-Net at random are those of its weights, not of the task.
    """

    def __init__(self, shape: tuple[int, int, int], n_kinds: Sequence[int] = (1,), width: int = 16) -> None:
        super().__init__()
        self.unet = UNet(shape[0], 1, width)
        nn.init.normal_(self.unet.score.weight, std=1e-3)
        self.n_kinds = list(n_kinds)  # of each target
        self.kinds = nn.Linear(2 * self.unet.deepest, sum(self.n_kinds))
        self.place = nn.Parameter(torch.zeros(sum(self.n_kinds), *shape[1:]))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores_and_kinds(x)[0]

    def scores_and_kinds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores, deep = self.unet.scores_and_deepest(x)
        kinds = self.kinds(torch.cat([deep.mean((2, 3)), deep.amax((2, 3))], dim=1))
        shares = torch.cat([torch.softmax(part, dim=1) for part in kinds.split(self.n_kinds, dim=1)], dim=1)
        place = shares @ self.place.flatten(1)
        return scores + PLACE_SPEED * place.reshape(scores.shape), kinds


def plain_masker(shape: tuple[int, int, int], n_out: int) -> nn.Module:
    """The U-Net alone, as the task-mask paper has it (section II-A): no map of places, no head for classes.

    Examples
    --------
    >>> plain_masker((3, 16, 16), 1)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 1, 16, 16])
    """
    return UNet(shape[0], n_out)


def slim_masker(shape: tuple[int, int, int], n_out: int) -> nn.Module:
    """A masker of half the width, with one map of places, for two cores."""
    return Masker(shape, (n_out,), width=8)
