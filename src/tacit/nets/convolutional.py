"""Convolutional classifiers: of images, with one score per class; and small ones to cut, whose layers have names."""

from __future__ import annotations

from collections import OrderedDict
from math import prod

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


WIDTHS = (16, 32, 64)


def backbone(n_in: int | tuple[int, ...], n_out: int) -> nn.Sequential:
    """A classifier for rows (a width), windows (channels, length) or images (channels, height, width).

    Examples
    --------
    >>> list(dict(backbone((2, 128), 4).named_children()))[-4:]
    ['flatten', 'dense', 'relu', 'output']
    >>> list(dict(backbone(10, 2).named_children()))
    ['dense1', 'relu1', 'dense2', 'relu2', 'output']
    """
    if isinstance(n_in, int) or len(n_in) == 1:
        width = n_in if isinstance(n_in, int) else n_in[0]
        return nn.Sequential(
            OrderedDict(
                dense1=nn.Linear(width, 128),
                relu1=nn.ReLU(),
                dense2=nn.Linear(128, 64),
                relu2=nn.ReLU(),
                output=nn.Linear(64, n_out),
            )
        )
    return _convolutions(n_in, n_out)


def _convolutions(n_in: tuple[int, ...], n_out: int) -> nn.Sequential:
    windows = len(n_in) == 2
    channels, *size = n_in
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, width in enumerate(WIDTHS, 1):
        if windows:
            layers[f"conv{i}"] = nn.Conv1d(channels, width, 5, padding=2, bias=False)
            layers[f"norm{i}"] = nn.BatchNorm1d(width)
        else:
            layers[f"conv{i}"] = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            layers[f"norm{i}"] = nn.BatchNorm2d(width)
        layers[f"relu{i}"] = nn.ReLU()
        if min(size) >= 4:
            layers[f"pool{i}"] = nn.MaxPool1d(2) if windows else nn.MaxPool2d(2)
            size = [s // 2 for s in size]
        channels = width
    layers["flatten"] = nn.Flatten()
    layers["dense"] = nn.Linear(channels * prod(size), 128)
    layers["relu"] = nn.ReLU()
    layers["output"] = nn.Linear(128, n_out)
    return nn.Sequential(layers)
