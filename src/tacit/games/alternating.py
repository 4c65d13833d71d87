"""Alternation for ``min_u max_v f(u, v)``: refit the heads, then one line-searched gradient step in u.

With heads refitted to the best, the gradient of f at them is the gradient of Phi(u) = max_v f(u, v)
(Danskin), so this is steepest descent on Phi; the step is accepted only where Phi itself falls.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tacit.errors import check_number
from tacit.games.inner import InnerGame, Loss, MinimaxResult, downhill_step, starting_point


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
    check_number("max_iter", max_iter, 1, whole=True)
    check_number("tolerance", tolerance, 0)
    check_number("step", step, 1e-300)
    game = InnerGame(f, code or (lambda u: u), ally, inner_tolerance, inner_max_iter)
    point = starting_point(game, u, v, w)
    history, stopped = [point.phi], f"max_iter: {max_iter} steps"
    for t in range(max_iter):
        gradient, _ = game.gradient(point, point.v)
        fall = -step * float((gradient * gradient).sum())
        if fall >= -tolerance:
            stopped = f"converged: the predicted fall of Phi is {-fall:.2g}"
            break
        found, share = downhill_step(game, point, -step * gradient, fall)
        if found is None:
            stopped = "no step lowers Phi: the step was rejected"
            break
        step *= 2.0 if share == 1.0 else share
        point = found
        history.append(point.phi)
        if tell is not None:
            tell(t + 1, point.phi)
    return MinimaxResult(point.u, point.v, point.w, point.phi, tuple(history), stopped)
