"""Losses of heads that predict label columns; a missing label does not take part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tacit.labels import MISSING


def cross_entropy(logits: Tensor, codes: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """The mean over the records whose label is known, 0 where none is: (..., b, m), (..., b) -> (...).

    Examples
    --------
    >>> round(cross_entropy(torch.zeros(3, 2), torch.tensor([0, 1, MISSING])).item(), 4)
    0.6931
    """
    known = codes != MISSING
    picked = -torch.log_softmax(logits, -1).gather(-1, codes.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    weight = known.to(logits.dtype) if class_weights is None else class_weights[codes.clamp_min(0)] * known
    return (weight * picked).sum(-1) / weight.sum(-1).clamp_min(1e-12)


def squared_error(outputs: Tensor, values: Tensor) -> Tensor:
    """The mean over the records whose number is known, 0 where none is: (..., b, 1), (..., b) -> (...).

    Examples
    --------
    >>> squared_error(torch.zeros(3, 1), torch.tensor([1.0, 3.0, torch.nan])).item()
    5.0
    """
    known = ~values.isnan()
    off = (outputs[..., 0] - values.nan_to_num()) * known
    return (off * off).sum(-1) / known.sum(-1).clamp_min(1)


def column_losses(logits: Tensor, codes: Tensor, widths: Sequence[int]) -> Tensor:
    """Cross-entropies of label columns (b, columns) whose logits lie side by side (b, sum of widths): (columns,)."""
    parts = zip(logits.split(list(widths), dim=1), codes.unbind(1), strict=True)
    return torch.stack([cross_entropy(part, column) for part, column in parts])


def class_weights(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Weights under which every class counts the same, 1 on average over the records."""
    counts = np.bincount(codes[codes != MISSING], minlength=n_classes)
    return counts.sum() / n_classes / np.maximum(counts, 1)
