"""Allies of a minimax game beyond one classifier: a network that rebuilds the record (eq. 10), and several heads.

The best linear reconstruction is known in closed form (`tacit.solvers.heads.Reconstruction`); a nonlinear h is solved
for as every other head is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tacit.solvers.heads import Head, standardised


class MlpReconstruction:
    """The mean squared error of a reconstruction of X from the code by one hidden layer of tanh units (eq. 10).

    Beside the hidden layer the code goes on as it is, so that no linear reconstruction is beyond it.

    Examples
    --------
    >>> X = torch.arange(6.0, dtype=torch.float64).view(3, 2)
    >>> head = MlpReconstruction(X, 1, hidden=4)
    >>> float(head.risk(X[:, :1], torch.zeros_like(head.start())))  # the mean square of X
    9.166666666666666
    """

    def __init__(self, X: Tensor, width: int, *, hidden: int = 32, ridge: float = 1e-4, seed: int = 0) -> None:
        self.X, self.width, self.hidden, self.ridge, self.seed = X.reshape(len(X), -1), width, hidden, ridge, seed

    def start(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        first = torch.randn((self.width + 1) * self.hidden, generator=generator, dtype=torch.float64)
        last = torch.zeros((self.hidden + self.width + 1) * self.X.shape[1], dtype=torch.float64)
        return torch.cat([first / self.width**0.5, last])

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        cut = (self.width + 1) * self.hidden
        table = parameters[:cut].view(self.width + 1, self.hidden)
        z = standardised(z)
        read = torch.cat([torch.tanh(torch.addmm(table[-1], z, table[:-1])), z], dim=1)
        last = parameters[cut:].view(self.hidden + self.width + 1, -1)
        away = torch.addmm(last[-1], read, last[:-1]) - self.X
        return away.square().mean() + self.ridge * parameters.square().mean()


class HeadsTogether:
    """Several heads as one: the mean of their risks, their parameters one after the other."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self.heads, self.sizes = heads, [len(h.start()) for h in heads]

    def start(self) -> Tensor:
        return torch.cat([h.start() for h in self.heads])

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        parts = zip(self.heads, parameters.split(self.sizes), strict=True)
        return torch.stack([h.risk(z, p) for h, p in parts]).mean()
