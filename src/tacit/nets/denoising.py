"""A small sigmoid network and its pretraining as a stack of denoising autoencoders.

The minimax filter paper's nonlinear filter (section 5.1) is D-10-10: each layer first learns to rebuild its
input from a corrupted copy; then the filter is fitted to the target, and then the game begins.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn

BATCH = 64


def sigmoid_net(n_in: int | tuple[int, ...], n_out: int, hidden: int = 10) -> nn.Sequential:
    """D-hidden-n_out, sigmoid units throughout; windows and images are flattened first.

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
