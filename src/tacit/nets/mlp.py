"""Multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import nn


def mlp(n_in: int | tuple[int, ...], n_out: int, hidden: Sequence[int] = (128,), dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with ReLU (and dropout) between them; windows and images are flattened first.

    Examples
    --------
    >>> mlp(10, 2, hidden=(64, 64))[-1].out_features
    2
    """
    layers: list[nn.Module] = []
    width = n_in if isinstance(n_in, int) else prod(n_in)
    if not isinstance(n_in, int):
        layers.append(nn.Flatten())
    for next_width in hidden:
        layers += [nn.Linear(width, next_width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        width = next_width
    return nn.Sequential(*layers, nn.Linear(width, n_out))
