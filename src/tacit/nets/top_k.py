"""Scores of pixels to hard masks: exactly k pixels of every image."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


def top_k(scores: Tensor, k: int, always: Tensor, never: Tensor) -> Tensor:
    """True for exactly k pixels of each image: score >= k-th largest, ties to the first pixel in reading order.

    Parameters
    ----------
    scores : (n, 1, height, width)
    always, never : booleans (height, width); the ones are among the k, the others are not

    Examples
    --------
    >>> none = torch.zeros(2, 2, dtype=torch.bool)
    >>> top_k(torch.tensor([[[[1., 3.], [1., 1.]]]]), 2, none, none).int().tolist()
    [[[[1, 1], [0, 0]]]]
    """
    ranked = scores.masked_fill(always, torch.inf).masked_fill(never, -torch.inf).flatten(1)
    kth = ranked.topk(k, dim=1).values[:, -1:]
    above, tied = ranked > kth, ranked == kth
    room = k - above.sum(dim=1, keepdim=True)
    return (above | (tied & (tied.cumsum(dim=1) <= room))).reshape(scores.shape)


class HardMask(nn.Module):
    """Images to masks of zeros and ones, for the release and its exported graph.

    Parameters
    ----------
    masker : images to scores (n, 1, height, width)
    k : pixels that are shown
    always, never : regions that are, and are not: booleans (height, width)
    smooth : deviation in pixels of the Gaussian over the scores
    """

    def __init__(self, masker: nn.Module, k: int, always: np.ndarray, never: np.ndarray, smooth: float = 0.0) -> None:
        super().__init__()
        self.masker, self.k, self.smooth = masker, k, Smooth(smooth)
        self.register_buffer("always", torch.as_tensor(always))
        self.register_buffer("never", torch.as_tensor(never))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.smooth(self.masker(x))
        return top_k(scores, self.k, self.always.bool(), self.never.bool()).to(x.dtype)  # type: ignore[operator]


class Smooth(nn.Module):
    """A Gaussian over maps (n, 1, height, width), their border repeated; deviation 0 changes nothing.

    Examples
    --------
    >>> one = torch.zeros(1, 1, 9, 9); one[..., 4, 4] = 1
    >>> Smooth(1.0)(one).sum().item(), int(Smooth(1.0)(one).argmax())
    (1.0, 40)
    """

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self.reach = int(np.ceil(3 * sigma))
        line = torch.exp(-0.5 * (torch.arange(-self.reach, self.reach + 1) / max(sigma, 1e-6)) ** 2)
        self.register_buffer("kernel", torch.outer(line, line)[None, None] / line.sum() ** 2)

    def forward(self, scores: Tensor) -> Tensor:
        if not self.reach:
            return scores
        padded = nn.functional.pad(scores, (self.reach,) * 4, mode="replicate")
        return nn.functional.conv2d(padded, self.kernel)  # type: ignore[arg-type]
