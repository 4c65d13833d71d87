"""Alternation for ``min_u max_v f(u, v)``: refit the heads, then one line-searched gradient step in u.

With heads refitted to the best, the gradient of f at them is the gradient of Phi(u) = max_v f(u, v)
(Danskin), so this is steepest descent on Phi; the step is accepted only where Phi itself falls.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tacit.solvers.inner import InnerGame, Loss, MinimaxResult, descend_phi, squared


def alternating(
    f: Loss,
    u: Tensor,
    v: Tensor,
    *,
    code: Callable[[Tensor], Tensor] | None = None,
    ally: Loss | None = None,
    w: Tensor | None = None,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    step: float = 1.0,
    inner_tolerance: float = 1e-9,
    inner_max_iter: int = 100,
    tell: Callable[[int, float], None] | None = None,
) -> MinimaxResult:
    """Minimise ``Phi(u) = max_v f(u, v)``, or ``max_v f + min_w ally``; parameters as of `kiwiel`.

    Stops when the fall that the gradient predicts for the next step is below `tolerance`.

    Examples
    --------
    >>> import torch
    >>> saddle = lambda u, v: (u * u).sum() - (v * v).sum() - 2 * (u * v).sum()
    >>> start = torch.ones(3, dtype=torch.float64)
    >>> bool(alternating(saddle, start, start, tolerance=1e-14).u.norm() < 1e-6)
    True
    """
    return descend_phi(
        InnerGame(f, code or (lambda u: u), ally, inner_tolerance, inner_max_iter),
        (u, v, w),
        lambda point, gradient, step: (-step * gradient, -step * squared(gradient)),
        max_iter=max_iter,
        tolerance=tolerance,
        step=step,
        tell=tell,
    )
