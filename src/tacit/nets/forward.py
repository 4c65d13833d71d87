"""A trained network's output, a few thousand records at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn


def forward(
    net: nn.Module,
    X: Any,
    chunk: int = 8192,
    device: torch.device | None = None,
    before: Callable[[Any], Any] | None = None,
    after: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> np.ndarray:
    """What a network gives for records, in evaluation mode and in its own precision; as doubles.

    Parameters
    ----------
    X : an array (it may lie in a file) or a tensor
    device : where the network goes for this; it comes back to the CPU
    before, after : what is done to each chunk first, and to what comes out of it

    Examples
    --------
    >>> forward(nn.Linear(3, 2), np.zeros((5, 3)), chunk=2).shape
    (5, 2)
    """
    net = net.eval() if device is None else net.to(device).eval()
    like = next(net.parameters(), torch.zeros(0, dtype=torch.float64))
    kind = np.float64 if like.dtype == torch.float64 else np.float32
    parts = []
    with torch.no_grad():
        for i in range(0, len(X), chunk):
            part = X[i : i + chunk] if before is None else before(X[i : i + chunk])
            rows = part if isinstance(part, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(part, dtype=kind))
            out = net(rows.to(like.device))
            parts.append((out if after is None else after(out)).cpu().double().numpy())
    if device is not None:
        net.cpu()
    return np.concatenate(parts)
