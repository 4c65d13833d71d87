"""A linear autoencoder to put between the halves of a network: started from PCA, its code batch-normalized."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tacit.errors import InputError
from tacit.nets.forward import forward

PCA_ROWS = 8192


class LinearCode(nn.Module):
    """``decoder(encoder(h))``: the cut layer's output, of any shape, through a code of few normalized numbers.

    Normalizing fixes the code's total spread, without which the contrastive loss would shrink or blow it up
    (DPFE, theorem 8).
    """

    def __init__(self, shape: tuple[int, ...], n_components: int) -> None:
        super().__init__()
        width = int(np.prod(shape))
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(width, n_components), nn.BatchNorm1d(n_components, affine=False)
        )
        self.decoder = nn.Sequential(nn.Linear(n_components, width), nn.Unflatten(1, shape))

    @classmethod
    def from_pca(cls, client: nn.Module, X: Tensor, n_components: int, seed: int, name: str) -> LinearCode:
        """Start from the principal components of the client half's output (procedure 1)."""
        chosen = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(X))[:PCA_ROWS]))
        H = forward(client, X[chosen.to(X.device)])
        shape = H.shape[1:]
        flat = H.reshape(len(H), -1)
        if n_components > flat.shape[1]:
            raise InputError(
                f"n_components is {n_components}, but layer {name!r} gives {flat.shape[1]} numbers a record; "
                f"ask for fewer, or cut elsewhere"
            )
        mean = flat.mean(axis=0)
        _, spread, axes = np.linalg.svd(flat - mean, full_matrices=False)
        found = min(n_components, int((spread > 1e-6 * max(spread[0], 1e-12)).sum()))
        V, deviation = axes[:found], spread[:found] / np.sqrt(len(flat))
        if found < n_components:  # fewer directions than asked for: others at random, which the decoder ignores
            others = np.random.default_rng(seed).standard_normal((n_components - found, flat.shape[1]))
            V = np.concatenate([V, others / np.linalg.norm(others, axis=1, keepdims=True)])
        code = cls(shape, n_components)
        deviation = np.concatenate([deviation, np.ones(n_components - found)])
        back = V.T * np.where(np.arange(n_components) < found, deviation, 0)
        given = (
            (code.encoder[1].weight, V),
            (code.encoder[1].bias, -V @ mean),
            (code.encoder[2].running_var, deviation**2),
            (code.decoder[0].weight, back),
            (code.decoder[0].bias, mean),
        )
        with torch.no_grad():
            for parameter, value in given:
                assert isinstance(parameter, Tensor)
                parameter.copy_(torch.as_tensor(value))
        return code
