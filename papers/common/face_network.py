"""A face recogniser: a residual network in the style of dlib's, from 150x150 RGB to 128 numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d, pad, relu

SIZE = 150
MEAN = (122.782, 117.001, 104.298)
BLOCKS = (
    *(f"conv32_{i}" for i in (1, 2, 3)),
    "conv64_down",
    *(f"conv64_{i}" for i in (1, 2, 3)),
    "conv128_down",
    *(f"conv128_{i}" for i in (1, 2)),
    "conv256_down",
    *(f"conv256_{i}" for i in (1, 2)),
    "conv256_down_out",
)


class FaceRecogniser(nn.Module):
    """Pixels 0..255, (n, 3, 150, 150) -> (n, 128); faces of one person lie near each other.

    Parameters
    ----------
    weights : by the names of the published file: ``X.conv.filters``, ``X.conv.bias``, ``X.scale.weights``,
        ``X.scale.biases`` for every convolution X, and ``fc``
    """

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in weights.items():
            self.register_buffer(name.replace(".", "/"), value.float())
        self.register_buffer("mean", torch.tensor(MEAN).reshape(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.get_buffer("mean")) / 256
        x = max_pool2d(relu(self._convolution(x, "conv32_down", stride=2)), 3, 2)
        for block in BLOCKS:
            x = self._down(x, block) if "down" in block else self._residual(x, block)
        return x.mean(dim=(2, 3)) @ self.get_buffer("fc")

    def _convolution(self, x: Tensor, name: str, stride: int = 1, padding: int = 0) -> Tensor:
        filters, bias, weights, biases = (
            self.get_buffer(f"{name}/{part}".replace(".", "/"))
            for part in ("conv.filters", "conv.bias", "scale.weights", "scale.biases")
        )
        x = nn.functional.conv2d(x, filters, bias, stride, padding)
        return x * weights[:, None, None] + biases[:, None, None]

    def _residual(self, x: Tensor, block: str) -> Tensor:
        out = relu(self._convolution(x, f"{block}.conv1", padding=1))
        return relu(self._convolution(out, f"{block}.conv2", padding=1) + x)

    def _down(self, x: Tensor, block: str) -> Tensor:
        out = relu(self._convolution(x, f"{block}.conv1", stride=2))
        out, shortcut = self._convolution(out, f"{block}.conv2", padding=1), avg_pool2d(x, 2)
        # the two paths may differ by a pixel and in their maps: the smaller is filled with zeros
        size = [max(a, b) for a, b in zip(out.shape[1:], shortcut.shape[1:], strict=True)]
        return relu(_zero_filled(out, size) + _zero_filled(shortcut, size))


def _zero_filled(x: Tensor, size: list[int]) -> Tensor:
    channels, height, width = (want - have for want, have in zip(size, x.shape[1:], strict=True))
    return pad(x, (0, width, 0, height, 0, channels))
