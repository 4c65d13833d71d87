"""Adam for models that are arrays: tables are fitted without torch, by the same steps as the network attackers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def adam_step(
    weight: Any,
    gradient: Any,
    moments: Sequence[Any],
    step: int,
    rate: float,
    *,
    first: float = 0.9,
    decay: float = 0.0,
) -> None:
    """Move an array one step of AdamW (Loshchilov and Hutter, 2019), in place.

    Parameters
    ----------
    weight, gradient : arrays of one shape, NumPy's or PyTorch's
    moments : running means of the gradient and of its square, which begin at zero; they are moved too
    step : the number of this step, from 1
    rate : of this step
    first : how much of the first moment stays
    decay : of the weight, times the rate

    Examples
    --------
    >>> import numpy as np
    >>> w, moments = np.ones(2), (np.zeros(2), np.zeros(2))
    >>> adam_step(w, np.array([0.5, -2.0]), moments, 1, 0.1)
    >>> w.round(6).tolist()
    [0.9, 1.1]
    """
    mean, square = moments
    mean *= first
    mean += (1 - first) * gradient
    square *= 0.999
    square += 0.001 * (gradient * gradient)
    if decay:
        weight *= 1 - rate * decay
    size = rate * (1 - 0.999**step) ** 0.5 / (1 - first**step)
    weight -= size * mean / (square**0.5 + 1e-8)
