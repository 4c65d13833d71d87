"""Kiwiel's algorithm for ``min_u max_v f(u, v)`` (Algorithm 1 of the minimax filter paper).

The descent direction minimizes the linear model of the max function, eq. 14, by mixing gradients of f at
several adversaries v, so that a step that fools one adversary does not feed the next. Every accepted
step lowers Phi(u) = max_v f(u, v). Without auxiliary steps it is alternation: with heads refitted to the best, the
gradient of f at them is that of Phi (Danskin), so each step is one of steepest descent on Phi.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from tacit.callback import Callback, silent
from tacit.errors import InputError, check_number

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


Loss = Callable[[Tensor, Tensor], Tensor]  # (z, parameters of a head) -> scalar
Evaluation = Callable[[np.ndarray], tuple[float, np.ndarray]]  # flat parameters -> value and gradient
HALVINGS = 30
LINEAR_ITERATIONS = 10
ARMIJO = 1e-4


@dataclass(frozen=True)
class MinimaxResult:
    """What a solver returns.

    Attributes
    ----------
    u, v, w : the filter, the worst adversary against it, and the best ally (None without one)
    phi : Phi(u) = max_v f(u, v), plus min_w g(u, w) where there is an ally
    history : Phi before the first step and after every accepted one; it never rises
    stopped : why the solver stopped, in words
    step : the length that would be tried next, to go on from here
    """

    u: Tensor
    v: Tensor
    w: Tensor | None
    phi: float
    history: tuple[float, ...]
    stopped: str
    step: float = 1.0


@dataclass(frozen=True)
class Point:
    """A filter u with its code, the heads that are best against it, and Phi(u)."""

    u: Tensor
    z: Tensor
    v: Tensor
    w: Tensor | None
    phi: float


class LinearCode:
    """z = X W' for u = W, flat (d, D): the solvers then know every code along a line from two products with X.

    Examples
    --------
    >>> LinearCode(torch.eye(3), 1)(torch.tensor([4.0, 5.0, 6.0])).T
    tensor([[4., 5., 6.]])
    """

    def __init__(self, X: Tensor, d: int) -> None:
        self.columns, self.d = X.T.contiguous(), d  # (D, n): twice as fast as rows for few d

    def __call__(self, u: Tensor) -> Tensor:
        return (u.view(self.d, -1) @ self.columns).T


@dataclass(frozen=True)
class InnerGame:
    """``Phi(u) = max_v f(code(u), v) + min_w g(code(u), w)``, solved by L-BFGS from the last solution.

    Parameters
    ----------
    f : (z, v) -> scalar, maximized over v. Where it has a method ``at(z, dz)``, that gives value and gradient over v
        at fixed z (plus the slope along dz, unless None) as a quick function of a flat array
    code : u -> z; the identity makes f a plain function of (u, v)
    ally : (z, w) -> scalar, minimized over w; optional (eq. 9's utility)
    tolerance : the inner solve stops when f changes by less than this (relative to max(|f|, 1))
    max_iter : most L-BFGS iterations of one inner solve
    ally_model : in the linear model the ally is "held" at its minimizer, or "solved" for
    """

    f: Loss
    code: Callable[[Tensor], Tensor] = lambda u: u
    ally: Loss | None = None
    tolerance: float = 1e-9
    max_iter: int = 100
    ally_model: str = "held"

    def __post_init__(self) -> None:
        check_number("inner_tolerance", self.tolerance, 0)
        check_number("inner_max_iter", self.max_iter, 1, whole=True)

    def solve(self, u: Tensor, v: Tensor, w: Tensor | None, z: Tensor | None = None) -> Point:
        """Phi(u) and the heads that attain it, starting from (v, w); z = code(u) where it is known already."""
        if z is None:
            with torch.no_grad():
                z = self.code(u)
        v, value = self._best(self.f, z, v, -1.0)
        phi = value
        if self.ally is not None and w is not None:
            w, value = self._best(self.ally, z, w, 1.0)
            phi += value
        return Point(u, z, v, w, phi)

    def gradient(self, point: Point, v: Tensor, w: Tensor | None) -> tuple[Tensor, float]:
        """Gradient over u, and the value, of f(u, v) + g(u, w) at fixed heads (Danskin: Phi's own at the best ones)."""
        u = point.u.detach().requires_grad_(True)
        z = self.code(u)
        value = self.f(z, v)
        if self.ally is not None and w is not None:
            value = value + self.ally(z, w)
        return torch.autograd.grad(value, u)[0], float(value.detach())

    def linear_maximum(self, point: Point, q: Tensor) -> tuple[Tensor, Tensor | None, float]:
        """The heads of the linear model f(u, v) + <grad_u f(u, v), q> (eq. 13-14) that are best for it, and its value.

        The ally's part has a unique minimizer w and its gradient there is exact, so it stays at w, unless `ally_model`
        is "solved": then w is the minimizer of its own linear model (Phi^l_util of Algorithm 2).
        """
        dz = directional(self.code, point.u, q)
        v, model = self._best(self.f, point.z, point.v, -1.0, dz)
        w = point.w
        if self.ally is not None and w is not None and self.ally_model == "solved":
            w, value = self._best(self.ally, point.z, w, 1.0, dz)
            model += value
        elif self.ally is not None and w is not None:
            model += float(self._along(self.ally, point.z, w, dz).detach())
        return v, w, model

    def _best(self, loss: Loss, z: Tensor, head: Tensor, sign: float, dz: Tensor | None = None) -> tuple[Tensor, float]:
        """Minimize sign * loss (plus its slope along dz) over the head; returns it with the loss."""

        def plain(h: Tensor) -> Tensor:
            return loss(z, h) if dz is None else self._along(loss, z, h, dz)

        if head.numel() == 0:  # a best response in closed form has no parameter
            return head, float(plain(head).detach())
        quick = loss.at(z, dz) if hasattr(loss, "at") else None
        quick = quick or by_autograd(plain, head)

        def signed(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = quick(flat)
            return sign * value, sign * gradient

        # the linear model only suggests a direction, and far from u it has no maximum: a few iterations do
        most = self.max_iter if dz is None else min(self.max_iter, LINEAR_ITERATIONS)
        found, value = lbfgs(signed, head, self.tolerance, most)
        # a head far out, on a code that has grown, may end worse than one that says nothing: Phi would look too low
        nothing = torch.zeros_like(head)
        if dz is None and value > signed(nothing.double().numpy().ravel())[0]:
            found, value = lbfgs(signed, nothing, self.tolerance, most)
        return found, sign * value

    @staticmethod
    def _along(loss: Loss, z: Tensor, head: Tensor, dz: Tensor) -> Tensor:
        """loss + <grad_z loss, dz>; its gradient over the head holds the mixed product d2f/dudv q."""
        z = z.detach().requires_grad_(True)
        value = loss(z, head)
        slope = torch.autograd.grad(value, z, create_graph=True)[0]
        return value + (slope * dz).sum()


def by_autograd(function: Callable[[Tensor], Tensor], like: Tensor) -> Evaluation:
    """A differentiable function of a tensor as (value, gradient) of a flat array."""

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        x = torch.from_numpy(flat.reshape(like.shape)).to(like.dtype).requires_grad_(True)
        value = function(x)
        return float(value.detach()), torch.autograd.grad(value, x)[0].double().numpy().ravel()

    return evaluate


def lbfgs(evaluate: Evaluation, start: Tensor, tolerance: float, max_iter: int) -> tuple[Tensor, float]:
    """Minimize by L-BFGS, to a relative change of `tolerance`; never returns a point worse than the start."""
    flat = start.detach().double().numpy().ravel().copy()
    found = minimize(
        evaluate,
        flat,
        method="L-BFGS-B",
        jac=True,
        options={"maxiter": max_iter, "maxcor": 20, "ftol": tolerance, "gtol": tolerance * 1e-2},
    )
    if not np.isfinite(found.fun) or not np.isfinite(found.x).all():
        return start, evaluate(flat)[0]
    return torch.from_numpy(found.x.reshape(start.shape)).to(start.dtype), float(found.fun)


def directional(code: Callable[[Tensor], Tensor], u: Tensor, q: Tensor) -> Tensor:
    """The derivative of code(u) along q, without a Jacobian."""
    if isinstance(code, LinearCode):
        return code(q.detach())
    return torch.func.jvp(code, (u.detach(),), (q.detach(),))[1].detach()


def descend_phi(
    game: InnerGame,
    start: tuple[Tensor, Tensor, Tensor | None],
    direction: Callable[[Point, Tensor, float], tuple[Tensor, float]],
    *,
    max_iter: int,
    tolerance: float,
    step: float,
    callback: Callback = silent,
) -> MinimaxResult:
    """Lower Phi step by step along ``direction(point, gradient, step) -> (q, predicted fall < 0)``.

    The step follows what earlier ones accepted. Where no step along q lowers Phi, its own gradient is one more
    candidate; where that fails too, u stays where it is.
    """
    check_number("max_iter", max_iter, 1, whole=True)
    check_number("tolerance", tolerance, 0)
    check_number("step", step, 1e-300)
    point = starting_point(game, *start)
    history, stopped = [point.phi], f"max_iter: {max_iter} steps"
    for t in range(max_iter):
        gradient, _ = game.gradient(point, point.v, point.w)
        q, fall = direction(point, gradient, step)
        if fall >= -tolerance:
            stopped = f"converged: the predicted fall of Phi is {-fall:.2g}"
            break
        found, share = downhill_step(game, point, q, fall)
        if found is None and not torch.equal(q, -step * gradient):
            found, share = downhill_step(game, point, -step * gradient, -step * squared(gradient))
        if found is None:
            stopped = "no step lowers Phi: the step was rejected"
            break
        step *= 2.0 if share == 1.0 else share
        point = found
        history.append(point.phi)
        callback(f"Phi {point.phi:.5f}", t + 1, max_iter)
    return MinimaxResult(point.u, point.v, point.w, point.phi, tuple(history), stopped, step)


def squared(x: Tensor) -> float:
    """|x|^2."""
    return float((x * x).sum())


def downhill_step(game: InnerGame, point: Point, q: Tensor, slope: float) -> tuple[Point | None, float]:
    """Halve the step along q until Phi falls by Armijo's share of `slope` (< 0); None where no step does.

    Phi is a maximum found by iteration, which may stop early and look too low, so a step that passes is
    solved once more, from its own solution, and judged again.
    """
    share = 1.0
    dz = directional(game.code, point.u, q) if isinstance(game.code, LinearCode) else None
    for _ in range(HALVINGS + 1):
        z = None if dz is None else point.z + share * dz
        trial = game.solve(point.u + share * q, point.v, point.w, z)
        if _falls(trial, point, share * slope):
            trial = game.solve(trial.u, trial.v, trial.w, trial.z)
            if _falls(trial, point, share * slope):
                return trial, share
        share /= 2
    return None, share


def _falls(trial: Point, point: Point, slope: float) -> bool:
    return bool(np.isfinite(trial.phi)) and trial.phi < point.phi and trial.phi <= point.phi + ARMIJO * slope


def starting_point(game: InnerGame, u: Tensor, v: Tensor, w: Tensor | None) -> Point:
    """Check the start and solve the inner problem there."""
    for name, value in (("u", u), ("v", v), ("w", w)):
        if value is not None and not torch.isfinite(value).all():
            raise InputError(f"the start {name} holds NaN or infinity; pass finite numbers")
    if (game.ally is None) != (w is None):
        raise InputError("an ally and its start w go together; pass both or neither")
    first = game.solve(u.detach(), v.detach(), None if w is None else w.detach())
    point = game.solve(first.u, first.v, first.w, first.z)
    if not np.isfinite(point.phi):
        raise InputError(f"the objective is {point.phi} at the start; scale the inputs or choose another start")
    return point
