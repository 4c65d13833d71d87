"""Small classifiers to cut: convolutions for windows and images, dense layers for rows; every layer has a name."""

from __future__ import annotations

from collections import OrderedDict
from math import prod

from torch import nn

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
