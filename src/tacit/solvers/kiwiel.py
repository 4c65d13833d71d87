"""Kiwiel's algorithm for ``min_u max_v f(u, v)`` (Algorithm 1 of the minimax filter paper).

The descent direction minimizes the linear model of the max function, eq. 14, by mixing gradients of f at
several adversaries v, so that a step that fools one adversary does not feed the next. Every accepted
step lowers Phi(u) = max_v f(u, v). Without auxiliary steps it is alternation: with heads refitted to the best, the
gradient of f at them is that of Phi (Danskin), so each step is one of steepest descent on Phi.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tacit.callback import Callback, silent
from tacit.errors import check_number
from tacit.solvers.inner import InnerGame, Loss, MinimaxResult, Point, descend_phi, squared

LINEAR_SHARE = 2e-4  # m: the linear model must promise this share of the predicted fall


def kiwiel(
    f: Loss,
    u: Tensor,
    v: Tensor,
    *,
    code: Callable[[Tensor], Tensor] | None = None,
    ally: Loss | None = None,
    w: Tensor | None = None,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    auxiliary_steps: int = 5,
    step: float = 1.0,
    inner_tolerance: float = 1e-9,
    inner_max_iter: int = 100,
    ally_model: str = "held",
    callback: Callback = silent,
) -> MinimaxResult:
    """Minimize ``Phi(u) = max_v f(u, v)``, or ``max_v f + min_w ally``.

    Parameters
    ----------
    f : (z, v) -> scalar tensor, maximized over v; z = code(u)
    u, v : starts, in the precision to work in
    code : u -> z; the identity by default, so that f is a function of (u, v)
    ally, w : (z, w) -> scalar tensor, minimized over w, and its start
    max_iter : most steps in u
    tolerance : stop when the predicted fall of Phi is below this (the paper's xi)
    auxiliary_steps : most adversaries mixed into one direction (the paper's T_aux); 0: refit, then a gradient step
    step : first length tried, as a multiple of the gradient; it follows what earlier steps accepted, so that
        the linear model is asked about points a step will reach
    inner_tolerance, inner_max_iter : of the inner L-BFGS
    ally_model : in the linear model the ally is "held" at its minimizer, or "solved" for, as Algorithm 2 prints it
    callback : called with (Phi in words, the step's number, max_iter) after every step

    Examples
    --------
    >>> import torch
    >>> saddle = lambda u, v: (u * u).sum() - (v * v).sum() - 2 * (u * v).sum()
    >>> start = torch.ones(3, dtype=torch.float64)
    >>> bool(kiwiel(saddle, start, start, tolerance=1e-14).u.norm() < 1e-6)
    True
    """
    check_number("auxiliary_steps", auxiliary_steps, 0, whole=True)
    game = InnerGame(f, code or (lambda u: u), ally, inner_tolerance, inner_max_iter, ally_model)
    return descend_phi(
        game,
        (u, v, w),
        lambda point, gradient, step: find_direction(game, point, gradient, step, tolerance, auxiliary_steps),
        max_iter=max_iter,
        tolerance=tolerance,
        step=step,
        callback=callback,
    )


def find_direction(
    game: InnerGame, point: Point, gradient: Tensor, step: float, tolerance: float, auxiliary_steps: int
) -> tuple[Tensor, float]:
    """The auxiliary routine: (q, predicted fall Psi) that minimizes the linear model plus |q|^2 / (2 step).

    p and theta are the mixed gradient and value; mu minimizes
    step/2 |(1-mu)p + mu g|^2 - (1-mu) theta - mu f, clipped to 0..1.
    """
    p, theta = gradient, point.phi
    fall = -step * squared(p)
    for _ in range(auxiliary_steps):
        if fall >= -tolerance:
            break
        v, w, model = game.linear_maximum(point, -step * p)
        if model - point.phi <= LINEAR_SHARE * fall:
            break
        g, value = game.gradient(point, v, w)
        apart = g - p
        size = step * squared(apart)
        if size == 0:
            break
        mu = min(1.0, max(0.0, -(step * float((apart * p).sum()) + theta - value) / size))
        p, theta = p + mu * apart, theta + mu * (value - theta)
        fall = -(step * squared(p) + point.phi - theta)
        if mu == 0:
            break
    return -step * p, fall
