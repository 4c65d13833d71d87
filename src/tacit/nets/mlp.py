"""Multi-layer perceptrons, numbers cut into pieces for them, and pretraining as denoising autoencoders.

A network reads a standardized number through straight lines: that a capital gain over some 7,000 all but settles the
income is one bend among many, which training finds late. So `Pieces` gives it, beside the number itself, the number's
place in each of its pieces (Gorishniy et al. 2022, piecewise linear encoding), cut where the training rows have
quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import Tensor, nn


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


NARROWEST = 0.05  # of a column's deviation: steeper lines would lose single precision, on a device or in a browser
MIN_ROWS = 20  # training rows between two cuts, and beyond the outermost: a cut must not be the mark of one record
DIGITS = 3  # of a cut, in deviations: quantiles are values of records, which a bundle must not tell to the last digit
ROWS = 100_000  # that quantiles are taken from, at most


class Pieces(nn.Module):
    """Its input, and beside it each number's place in each of its pieces: 0 below, 1 above, a straight line inside.

    Parameters
    ----------
    n_in : columns
    cuts : for a column, the ascending ends of its pieces

    Examples
    --------
    >>> Pieces(2, {1: [0.0, 1.0, 3.0]})(torch.tensor([[5.0, 2.0]]))
    tensor([[5.0000, 2.0000, 1.0000, 0.5000]])
    """

    slope: Tensor
    start: Tensor

    def __init__(self, n_in: int, cuts: dict[int, list[float]]) -> None:
        super().__init__()
        ends = [(j, low, high) for j, at in cuts.items() for low, high in pairwise(at)]
        slope, start = torch.zeros(len(ends), n_in), torch.zeros(len(ends))
        for row, (j, low, high) in enumerate(ends):
            slope[row, j], start[row] = 1 / (high - low), -low / (high - low)
        self.register_buffer("slope", slope)
        self.register_buffer("start", start)
        self.n_out = n_in + len(ends)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, nn.functional.linear(x, self.slope, self.start).clamp(0, 1)], -1)


def cut_into_pieces(X: np.ndarray, most: int) -> Pieces:
    """At most n pieces for each column that has more than two values.

    A column that mostly has one value (no capital gain) is cut by the quantiles of its other values as well.
    """
    some = np.asarray(X[:: -(-len(X) // ROWS)], dtype=float)
    cuts = {j: at for j in range(some.shape[1]) if len(at := _cuts(some[:, j], most)) > 1}
    return Pieces(some.shape[1], cuts)


def _cuts(values: np.ndarray, most: int) -> list[float]:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= 2:
        return []
    usual = distinct[counts.argmax()]
    mostly = counts.max() > len(values) / 2
    others = np.sort(values[values != usual]) if mostly else np.sort(values)
    pieces = min(most, len(others) // MIN_ROWS - 2)
    if pieces < 1:
        return []
    inner = others[MIN_ROWS - 1 : len(others) - MIN_ROWS + 1]  # the least and the largest values are single records'
    at = np.quantile(inner, np.linspace(0, 1, pieces + 1))
    at = np.unique(np.round(np.append(at, usual) if mostly else at, DIGITS))
    kept = [at[0]]
    for cut in at[1:]:
        if cut - kept[-1] >= NARROWEST:
            kept.append(cut)
    return [float(cut) for cut in kept]


BATCH = 64


def sigmoid_net(n_in: int | tuple[int, ...], n_out: int, hidden: int = 10) -> nn.Sequential:
    """The nonlinear filter of the minimax paper (section 5.1): D-hidden-n_out, sigmoid units throughout.

    Each layer is pretrained as a denoising autoencoder, then the filter is fitted to the target, and then the game
    begins. Windows and images are flattened first.

    Examples
    --------
    >>> sigmoid_net(256, 10)[-2].out_features
    10
    """
    width = n_in if isinstance(n_in, int) else prod(n_in)
    return nn.Sequential(nn.Flatten(), nn.Linear(width, hidden), nn.Sigmoid(), nn.Linear(hidden, n_out), nn.Sigmoid())


def pretrain_denoising(
    net: nn.Sequential, X: Tensor, *, epochs: int = 30, corruption: float = 0.3, rate: float = 3e-3, seed: int = 0
) -> None:
    """Train each linear layer of `net`, in order, to rebuild its input from a copy with some entries at 0."""
    generator = torch.Generator().manual_seed(seed)
    code = X.reshape(len(X), -1)
    for layer in [m for m in net if isinstance(m, nn.Linear)]:
        decoder = nn.Linear(layer.out_features, layer.in_features, dtype=code.dtype)
        with torch.no_grad():
            decoder.weight.copy_(layer.weight.T)
            decoder.bias.copy_(code.mean(0))

        adam = torch.optim.Adam([*layer.parameters(), *decoder.parameters()], lr=rate)
        for _ in range(epochs):
            for rows in torch.randperm(len(X), generator=generator).split(BATCH):
                kept = torch.rand(code[rows].shape, generator=generator, dtype=code.dtype) >= corruption
                adam.zero_grad()
                (decoder(torch.sigmoid(layer(code[rows] * kept))) - code[rows]).square().mean().backward()
                adam.step()
        with torch.no_grad():
            code = torch.sigmoid(layer(code))
