"""The minimax filter: the code that is best for the targets in the face of the worst adversary.

Implements "Preserving privacy of continuous high-dimensional data with minimax filters" (Hamm): the joint
objective eq. 9 with the multiclass loss (eq. 5) or the weighted binary one (eq. 6-7), solved by Kiwiel's
algorithm (Algorithm 1-2) or by alternation. Beyond the paper: adversaries that are not linear, because a
filter that defeats every linear attacker can be read by the first kernel machine that tries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.func import functional_call

from tacit.callback import silent
from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.filters.base import Filter, Knob, Problem, release_by_folds
from tacit.filters.mechanism import Mechanism, NetworkOutput
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import Labels, encode_labels
from tacit.nets.forward import forward
from tacit.nets.mlp import pretrain_denoising, sigmoid_net
from tacit.noise.keyed import Bounded, Finite, Noise, mechanism
from tacit.noise.local_privacy import local_dp
from tacit.solvers.heads import (
    CountingHeads,
    FourierFeatures,
    Head,
    HeadsTogether,
    MlpHeads,
    MlpReconstruction,
    Reconstruction,
    SoftmaxHeads,
    Weighted,
    with_numbers,
)
from tacit.solvers.kiwiel import LinearCode, MinimaxResult, by_autograd, kiwiel, lbfgs
from tacit.solvers.starts import cell_start, linear_start, rank

DEFAULT_WIDTH = 10
CHOICES = {
    "solver": ("kiwiel", "alternating"),
    "privacy_loss": ("multiclass", "binary"),
    "utility": ("labels", "reconstruction", "both"),
    "decoder": ("linear", "mlp"),
    "ally_model": ("held", "solved"),
    "adversary": ("softmax", "mlp", "rbf", "exact"),
}
TEMPERATURES = (1.0, 0.3, 0.1)  # of the soft cells, when the code is a finite one
FINETUNE_STEPS = 20  # few: chosen by validation on the Genki training images (smile .887, 100 steps .870)
DECAY = 1e-4  # ridge on a network while it is fitted to the target


@register_filter(
    "minimax",
    examples=[
        {"n_components": 1, "init": "random", "max_iter": 3},
        {"n_components": 2, "max_iter": 3, "noise": 0.3},
        {"n_components": 4, "max_iter": 3, "adversary": "exact"},
    ],
)
@dataclass(eq=False, repr=False)
class MinimaxFilter(Filter):
    """Minimize over the filter: the worst adversary's gain plus rho times the best ally's loss (eq. 9).

    Parameters
    ----------
    n_components : columns of the code; None is 10, or half the rank of the data where that is less (a linear code as
        wide as the rank can be undone)
    rho : the knob: weight of the targets against the sensitive attributes
    network : "linear" (x -> x'G), "mlp" (D-10-d sigmoid units, pretrained as denoising autoencoders and on the
        target) or a factory (n_in, n_out) -> nn.Module
    solver : "kiwiel" (every step lowers the worst case) or "alternating" (refit, then a gradient step)
    privacy_loss : "multiclass" (eq. 5) or "binary" (each class against the rest, weighted: eq. 6-7)
    utility : "labels" keeps y; "reconstruction" keeps the record itself (eq. 10) and needs no y; "both" keeps both,
        each weighing a half
    decoder : h of eq. 10: "linear", or "mlp" with one hidden layer
    init : of a linear filter: "eigen", "pca", "random", "gaussian" (as it is drawn) or an array (D, n_components)
    noise : standard deviation of Gaussian noise on the code, which is then clipped to the unit ball; in
        training and at release. `local_dp_` states what that guarantees with no data at all
    adversary : whom the filter is trained against. "softmax": linear attackers, the paper's; "mlp": one hidden
        layer; "rbf": softmax regression on random Fourier features of the code; "exact": the release is the
        largest of the n_components scores (a finite code), against which the best of *all* attackers is
        known by counting
    ridge : of the linear heads
    ally_model : in Kiwiel's linear model the ally is "held" at its optimum, or "solved" for, as Algorithm 2 prints it
    standardise : False takes arrays of numbers unchanged, as the paper does; else all columns have one scale
    max_iter, tolerance : of the outer solver
    inner_max_iter, inner_tolerance : of the heads' L-BFGS
    random_state, verbose : as in scikit-learn

    Attributes
    ----------
    encoder_module_ : the trained filter (before clipping, noise or choice of a cell)
    n_components_ : columns of the code
    history_ : list of dicts: stage, step and Phi, the objective, which never rises within a stage (only "exact" has
        several: its cells harden). It steers training and says nothing about what leaks. Use `tacit.audit`.
    stopped_ : why the solver stopped
    local_dp_ : with noise, {"epsilon", "delta"} of one release, whatever the data (Gaussian mechanism on a ball of
        diameter 2); None without noise: then nothing is guaranteed

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.MinimaxFilter(n_components=1, random_state=0)
    >>> f.fit(data.X, data.y, sensitive_features=data.sensitive).transform(data.X).shape
    (400, 1)
    """

    takes_numbers = True

    @property
    def numbers_as_classes(self) -> bool:
        """Whether numbers are kept and hidden as classes: the exact adversary counts."""
        return self.adversary == "exact"

    knob = Knob("rho", utility_rises=True, values=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0))

    n_components: int | None = None
    rho: float = 1.0
    _: KW_ONLY
    network: str | Callable[[Any, int], nn.Module] = "linear"
    solver: str = "kiwiel"
    privacy_loss: str = "multiclass"
    utility: str = "labels"
    decoder: str = "linear"
    init: Any = "eigen"
    noise: float | None = None
    adversary: str = "softmax"
    ridge: float = 1e-6
    ally_model: str = "held"
    standardise: bool = True
    max_iter: int = 30
    tolerance: float = 1e-6
    inner_max_iter: int = 50
    inner_tolerance: float = 1e-7
    random_state: Any = None
    verbose: bool = False

    @classmethod
    def as_printed(cls, n_components: int | None = None, **changes: Any) -> Self:
        """The filter with the paper's settings: Kiwiel with T_aux 5, rho 1, lambda 1e-6, a random start, Algorithm 2
        with the ally solved for, records unchanged, T = 200 (it stops by hand, after 20 to 200). Of L-BFGS the paper
        says nothing: here the inner maximum is solved for as far as double precision lets it, because a maximum that
        stops early looks too low, so that the next step is refused and the fit ends.

        Examples
        --------
        >>> import tacit
        >>> tacit.MinimaxFilter.as_printed(10, random_state=0).init
        'gaussian'
        """
        printed = {"rho": 1.0, "solver": "kiwiel", "init": "gaussian", "ridge": 1e-6, "ally_model": "solved"}
        solved = {"inner_max_iter": 1000, "inner_tolerance": 1e-8}
        return cls(n_components, **{**printed, "standardise": False, "max_iter": 200, **solved, **changes})

    def _as_given(self, checked: Any) -> bool:
        if not self.standardise and isinstance(checked, pd.DataFrame):
            raise InputError("standardise=False takes an array of numbers; found a table, pass X.to_numpy()")
        return not self.standardise

    def _learn(self, problem: Problem) -> Mechanism:
        self._check_parameters()
        self.n_components_ = _choose_width(self, problem)
        self.local_dp_ = local_dp(self.noise) if self.noise else None
        self.encoder_module_, stages = self._play(problem, self.verbose)
        self.history_ = [
            {"stage": i, "step": t, "phi": phi} for i, stage in enumerate(stages) for t, phi in enumerate(stage.history)
        ]
        self.stopped_ = stages[-1].stopped
        self.n_iter_ = max(1, sum(len(stage.history) - 1 for stage in stages))
        learned = learned_filter(self, self.encoder_module_)
        if np.ptp(learned.code(problem.X[:5000]), axis=0).max() < 1e-6:
            note(
                self,
                f"collapsed: the code is the same for every record, so the release carries nothing; "
                f"raise rho (now {self.rho})",
                CollapseWarning,
            )
        return learned

    @property
    def needs_target(self) -> bool:  # type: ignore[override]
        return self.utility != "reconstruction"

    # -- the game -------------------------------------------------------------------------------

    def _play(self, problem: Problem, verbose: bool = False) -> tuple[nn.Module, list[MinimaxResult]]:
        """Algorithm 2: heads, start, and the minimax solver."""
        X = torch.from_numpy(np.ascontiguousarray(problem.X, dtype=np.float64))
        net = self._start_network(problem, X)
        names, shapes = zip(*((n, p.shape) for n, p in net.named_parameters()), strict=True)
        sizes = [s.numel() for s in shapes]
        decay = 0.0 if self.network == "linear" else DECAY
        draw = None
        if self.noise:  # one draw for the whole game: Phi must be a fixed function for a line search to mean anything
            rng = np.random.default_rng((problem.seed, 5))
            draw = torch.from_numpy(self.noise * rng.standard_normal((len(problem.X), self.n_components_)))

        def raw(u: Tensor) -> Tensor:
            parts = {n: p.view(s) for n, p, s in zip(names, u.split(sizes), shapes, strict=True)}
            return functional_call(net, parts, (X,))

        def finished(u: Tensor) -> Tensor:
            return raw(u) if draw is None else clip_to_ball(raw(u)) + draw

        straight = self.network == "linear" and self.adversary != "exact" and draw is None
        code = LinearCode(X.reshape(len(X), -1), self.n_components_) if straight else finished
        u = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        adversary = self._adversary(problem.sensitive, problem.seed)
        ally = self._ally(problem.targets, X)
        v, w = adversary.start() if adversary else torch.zeros(0, dtype=X.dtype), ally.start()
        if self.network != "linear":  # supervised, before the game
            both = torch.cat([u, w])

            def supervised(t: Tensor) -> Tensor:
                return ally.risk(code(t[: len(u)]), t[len(u) :]) + decay * t[: len(u)].square().sum()

            fitted, _ = lbfgs(by_autograd(supervised, both), both, self.inner_tolerance, FINETUNE_STEPS)
            u, w = fitted[: len(u)], fitted[len(u) :]
        stages = []
        for temperature in TEMPERATURES if self.adversary == "exact" else (1.0,):
            for head in (adversary, ally):
                if isinstance(head, CountingHeads):
                    head.temperature = temperature
            result = kiwiel(
                Weighted(adversary, -1.0) if adversary else (lambda z, v: 0.0 * z.sum()),
                u,
                v,
                code=code,
                ally=Weighted(ally, self.rho),
                w=w,
                max_iter=self.max_iter,
                tolerance=self.tolerance,
                auxiliary_steps=5 if self.solver == "kiwiel" else 0,
                inner_max_iter=self.inner_max_iter,
                inner_tolerance=self.inner_tolerance,
                ally_model=self.ally_model,
                callback=(lambda what, done, total: print(f"step {done}: {what}")) if verbose else silent,
            )
            u, v, w = result.u, result.v, result.w if result.w is not None else w
            stages.append(result)
        with torch.no_grad():
            for p, part, shape in zip(net.parameters(), u.split(sizes), shapes, strict=True):
                p.copy_(part.view(shape))
        return net.eval(), stages

    def _start_network(self, problem: Problem, X: Tensor) -> nn.Module:
        d = self.n_components_
        flat = X.reshape(len(X), -1)
        if self.network == "linear" and self.adversary == "exact":
            return linear_net(*cell_start(flat.numpy(), problem.targets, d, problem.seed))
        if self.network == "linear":
            targets = encode_labels(None, "y", len(X)) if self.utility == "reconstruction" else problem.targets
            G = linear_start(flat.numpy(), targets, problem.sensitive, d, self.init, problem.seed)
            if self.noise:  # most records begin inside the ball
                G = G / np.quantile(np.linalg.norm(flat.numpy() @ G, axis=1), 0.9)
            return linear_net(G)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            if self.network == "mlp":
                net = sigmoid_net(problem.n_in, d).double()
                pretrain_denoising(net, X, seed=problem.seed)
                return net
            return self.network(problem.n_in, d).double()  # type: ignore[operator]

    def _adversary(self, sensitive: Labels, seed: int) -> Head | None:
        d, binary = self.n_components_, self.privacy_loss == "binary"
        if not len(sensitive):
            return None
        if self.adversary == "exact":
            return CountingHeads(sensitive, balanced=True)
        if sensitive.number_names:
            read = FourierFeatures(d, seed=seed) if self.adversary in ("rbf", "mlp") else None
            return with_numbers(sensitive, lambda classes: self._adversary(classes, seed), self.ridge, read)
        if self.adversary == "mlp":
            return MlpHeads(sensitive, d, binary=binary, seed=seed)
        if self.adversary == "rbf":
            features = FourierFeatures(d, seed=seed)
            return SoftmaxHeads(sensitive, features.width, binary=binary, ridge=1e-4, features=features)
        return SoftmaxHeads(sensitive, d, binary=binary, ridge=self.ridge)

    def _ally(self, targets: Labels, X: Tensor) -> Head:
        if self.adversary == "exact":
            return CountingHeads(targets, balanced=False)
        record = Reconstruction(X, self.ridge) if self.decoder == "linear" else MlpReconstruction(X, self.n_components_)
        if self.utility == "reconstruction":
            return record

        def classes_of(classes: Labels) -> Head:
            return SoftmaxHeads(classes, self.n_components_, ridge=self.ridge)

        labels = with_numbers(targets, classes_of, self.ridge) if targets.number_names else classes_of(targets)
        return labels if self.utility == "labels" else HeadsTogether([labels, record])

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """The filters of the folds end in different coordinates; each is mapped onto the main one's."""
        code: Any = self.mechanism_.code
        return code.settled(
            release_by_folds(problem, lambda part: NetworkOutput(self._play(part)[0]), like=code.scores)
        )

    # -- checks ---------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, whole=True, optional=True)
        check_number("rho", self.rho, 0)
        check_number("noise", self.noise, 0, optional=True)
        check_number("ridge", self.ridge, 0)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                words = " or ".join(repr(a) for a in allowed)
                raise InputError(f"{name} must be {words}; found {getattr(self, name)!r}")
        if self.network not in ("linear", "mlp") and not callable(self.network):
            raise InputError(
                f"network must be 'linear', 'mlp' or a factory (n_in, n_out) -> nn.Module; found {self.network!r}"
            )
        if self.adversary == "exact" and (self.noise or self.utility != "labels"):
            raise InputError("adversary='exact' releases a cell, which takes neither noise nor reconstruction")
        if self.adversary == "exact" and self.n_components == 1:
            raise InputError(
                "adversary='exact' needs n_components of at least 2: the release is one of that many cells"
            )


def _choose_width(f: MinimaxFilter, problem: Problem) -> int:
    if f.network != "linear":
        return f.n_components or DEFAULT_WIDTH
    flat = problem.X.reshape(len(problem.X), -1)
    most = rank(flat)
    if most == 0:
        raise InputError("every column of X is constant, so there is nothing to release; pass other records")
    if f.n_components is None:
        return max(min(DEFAULT_WIDTH, most // 2), 2 if f.adversary == "exact" else 1)
    if f.n_components > most and f.adversary != "exact":
        raise InputError(
            f"n_components is {f.n_components}, but the encoded records have {flat.shape[1]} columns and rank "
            f"{most}: a linear filter with more columns only repeats itself; pass at most {most}"
        )
    if f.n_components == most and most > 1 and f.adversary != "exact" and not f.noise:
        note(
            f,
            f"n_components is {most}, the rank of the encoded records: a linear code that wide can be undone, so "
            f"it withholds nothing from an attacker who is not linear; pass fewer",
            TacitWarning,
        )
    return f.n_components


@dataclass(frozen=True, eq=False)
class MinimaxCode:
    """A network's scores as they are, clipped to the unit ball, or as the cell of the largest.

    Attributes
    ----------
    net : encoded records to scores
    width : of the code
    form : "plain", "ball" (under noise) or "cell"
    exact : exported in double precision
    """

    net: nn.Module
    width: int
    form: str
    exact: bool

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.settled(self.scores(X))

    def scores(self, X: np.ndarray) -> np.ndarray:
        """The network's output."""
        return forward(self.net, X)

    def settled(self, scores: np.ndarray) -> np.ndarray:
        """Scores in the form of the release."""
        if self.form == "cell":
            return np.eye(self.width)[scores.argmax(axis=1)]
        return clip_to_ball(torch.from_numpy(scores)).numpy() if self.form == "ball" else scores

    def graph(self, g: Any, x: str) -> str:
        scores = g.torch(self.net, x, "encoder", exact=self.exact)
        if self.form == "cell":
            return g.take(np.eye(self.width), g.argmax(scores))
        if self.form == "plain":
            return scores
        norm = g.op("Sqrt", g.op("Max", g.sum(g.op("Mul", scores, scores)), g.number(1.0)))
        return g.op("Div", scores, norm)


def learned_filter(f: MinimaxFilter, net: nn.Module) -> Mechanism:
    """What a trained network releases, and under which noise."""
    form = "cell" if f.adversary == "exact" else "ball" if f.noise else "plain"
    code = MinimaxCode(net, f.n_components_, form, f.network == "linear")
    name = mechanism(f.noise or 0.0, *(p.detach().numpy() for p in net.parameters()))
    noise = Noise("normal", float(f.noise), f.n_components_, True, name) if f.noise else None
    return Mechanism(code, f.n_components_, noise, Finite() if form == "cell" else Bounded() if noise else None)


def linear_net(G: np.ndarray, offsets: np.ndarray | None = None) -> nn.Module:
    """x -> x'G (+ offsets); windows and images are flattened first."""
    layer = nn.Linear(G.shape[0], G.shape[1], bias=offsets is not None, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(G.T.copy()))
        if offsets is not None:
            layer.bias.copy_(torch.from_numpy(offsets))
    return nn.Sequential(nn.Flatten(), layer)


def clip_to_ball(z: Tensor) -> Tensor:
    """Rows of norm at most 1."""
    return z / z.square().sum(dim=1, keepdim=True).clamp_min(1.0).sqrt()
