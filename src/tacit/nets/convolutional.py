"""A classifier of images: four convolutions with pooling, one dense layer, one score per class."""

from __future__ import annotations

from torch import nn


def image_classifier(shape: tuple[int, int, int], n_out: int, width: int = 32, dropout: float = 0.3) -> nn.Sequential:
    """The predictor of the task-mask paper (section III-B), with dropout before its last layer.

    Parameters
    ----------
    shape : (channels, height, width) of an image, of at least 2x2 pixels
    n_out : scores
    width : maps of the first convolution; later ones have twice, four times and four times as many

    Examples
    --------
    >>> import torch
    >>> image_classifier((1, 30, 32), 3).eval()(torch.zeros(2, 1, 30, 32)).shape
    torch.Size([2, 3])
    """
    channels, height, wide = shape
    layers: list[nn.Module] = []
    for maps in (width, 2 * width, 4 * width, 4 * width):
        layers += [
            nn.Conv2d(channels, maps, 3, padding=1, bias=False),
            nn.BatchNorm2d(maps),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),  # so that small images do not vanish
        ]
        channels, height, wide = maps, -(-height // 2), -(-wide // 2)
    dense = 4 * width
    layers += [nn.Flatten(), nn.Linear(channels * height * wide, dense, bias=False), nn.BatchNorm1d(dense), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(dense, n_out))


def plain_classifier(shape: tuple[int, int, int], n_out: int) -> nn.Sequential:
    """The same without dropout, as the task-mask paper has it."""
    return image_classifier(shape, n_out, dropout=0.0)


def slim_classifier(shape: tuple[int, int, int], n_out: int) -> nn.Sequential:
    """The same of half the width, for two cores."""
    return image_classifier(shape, n_out, width=16)
