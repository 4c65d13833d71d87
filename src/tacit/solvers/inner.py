"""What solvers of ``min_u max_v f(u, v)`` share: the game, its inner maximum, and a step that never raises it.

A game is given as ``f(z, v)`` with ``z = code(u)``: for a filter, z is the released code and v the adversary.
Only z changes with u, so the inner solve, which needs many values of f at one u, computes the code once.
Nothing is materialised: gradients and mixed products d2f/dudv come from automatic differentiation.
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
