"""EIGAN: an encoder that keeps several targets and withholds several sensitive attributes.

Implements eq. 3 of "Can we Generalize and Distribute Private Representation Learning?" (the
normalized weights per head; eq. 4 is its script form) with Algorithm A1's alternating updates,
on logits end to end. Beyond the paper: several adversary steps for every encoder step (an adversary
that lags protects nobody), a class-balanced adversary loss, noise on the bounded code, and numbers cut into pieces.
`EIGAN.as_printed()` has none of these. With `dp=`, every step is differentially private (`PrivateGame`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import Knob, Problem, TrainedFilter, check_training, release_by_folds, training_settings
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.public_intake import encode_in_public, refuse_second_fit, tell_spent
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels, standardized
from tacit.nets.forward import forward
from tacit.nets.mlp import cut_into_pieces, mlp
from tacit.noise.accounting import DP
from tacit.noise.keyed import Bounded, Noise, mechanism
from tacit.training.device import choose_batch_size, choose_device, games_that_fit
from tacit.training.loop import Training, class_weights, cross_entropy, descend, squared_error
from tacit.training.private_steps import PrivateSteps
from tacit.training.stack import Batches, Stack, can_stack


@register_filter(
    "eigan",
    settings={"noise": 0.3},
    examples=[
        {"n_components": 2, "epochs": 2, **more}
        for more in ({}, {"noise": 0.2}, {"n_bins": 6}, {"bounded": False, "dropout": 0.2})
    ],
)
@dataclass(eq=False, repr=False)
class EIGAN(TrainedFilter):
    """Adversarially learned code: predictive of the targets, uninformative of the sensitive attributes.

    Parameters
    ----------
    n_components : size of the code; fewer leak less
    alpha : the knob, 0..1. Targets weigh alpha/n each, sensitive attributes (1-alpha)/m each
    equation : 3, or 4 as it is printed: targets weigh 1 each, sensitive attributes alpha each, so that a higher alpha
        hides more; both are the same game where alpha of eq. 3 is n / (n + m alpha) of eq. 4
    target_weights, sensitive_weights : weights per head (a list or a mapping by column name). Both given,
        they replace alpha and are normalized to sum to 1 (eq. 3); one given alone shares out its part of alpha
    noise : standard deviation of Gaussian noise on the code (which lies in -1..1), added in training
        *and* at release; without noise a stronger attacker than the trained one usually sees more
    n_bins : for tables: the encoder also sees in which of n_bins pieces a number lies, as trees do; 12 is plenty
    adversary_steps : adversary updates for every encoder update
    encoder_first : a round as in Algorithm A1: on one batch the encoder moves, then allies and adversaries do
        (`adversary_steps` times). By default the adversaries move first, each time on a batch of its own, then the
        encoder together with the allies
    balanced : every class of a sensitive attribute counts alike in its adversary's loss; False: every record
    encoder, target_head, sensitive_head : factories (n_in, n_out) -> nn.Module; the encoder's output
        passes through tanh. Default: one hidden layer of 128, heads of 64-64
    bounded : False leaves out the tanh (a linear encoder is then truly linear); such a code takes no noise
    dropout : of the hidden layers of the default networks, in training
    weight_decay : L2 penalty on all networks' weights, in training
    epochs, batch_size, learning_rate : training; batch_size None suits the data
    head_lr_factor : the heads' learning rate as a multiple of the encoder's
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    dp : a `tacit.DP`: the fit is differentially private for its people, within that budget (`dp_` says what was spent).
        Then clipping and noise take the place of the balance of classes, and no loss is recorded
    checkpoint : file that is written after every epoch; a fit that finds it resumes where it stopped

    Attributes
    ----------
    encoder_module_ : the trained encoder
    dp_ : where dp was given, what was spent: epsilon, delta, the unit they are for, and what they do not cover
    history_ : list of dicts: epoch, loss of the encoder, of each target and of each adversary.
        The adversaries' losses steer training; they say nothing about what leaks. Use `tacit.audit`.

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.EIGAN(n_components=2, epochs=2, random_state=0)
    >>> f.fit(data.X, data.y, sensitive_features=data.sensitive).transform(data.X).shape
    (400, 2)
    """

    takes_numbers = True
    grouping = "stack"
    streams = True  # learns from records that lie in a mapped file
    knob = Knob("alpha", utility_rises=True, values=(0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9))

    n_components: int = 8
    alpha: float = 0.5
    _: KW_ONLY
    equation: int = 3
    target_weights: Sequence[float] | Mapping[str, float] | None = None
    sensitive_weights: Sequence[float] | Mapping[str, float] | None = None
    noise: float | None = None
    n_bins: int | None = None
    adversary_steps: int = 5
    encoder_first: bool = False
    balanced: bool = True
    encoder: Factory | None = None
    target_head: Factory | None = None
    sensitive_head: Factory | None = None
    bounded: bool = True
    dropout: float = 0.0
    weight_decay: float = 0.0
    head_lr_factor: float = 3.0
    dp: DP | None = None

    @classmethod
    def as_printed(cls, n_components: int = 8, alpha: float = 0.5, *, linear: bool = False, **settings: Any) -> Self:
        """The paper's own game: the rounds of Algorithm A1, no balance of classes, no noise, dropout and L2.

        One batch a round: the encoder moves on eq. 3, then allies and adversaries take one step each. All three learn
        at one rate. Two things are not A1's. Steps are Adam's, as in the authors' code; A1 has plain gradient steps.
        Heads weigh as in eq. 3; A1 names eq. 4, which at alpha .5 weighs one ally to one adversary 2:1, not 1:1
        (`equation=4` plays it). The paper prints neither its rates nor its networks' widths nor how much dropout and
        L2 it has (.2 and 1e-4 here). `linear` is what it uses on Adult: encoder and heads are linear maps, without
        tanh and dropout. Any parameter can be given over these.

        Examples
        --------
        >>> import tacit
        >>> f = tacit.EIGAN.as_printed(4, epochs=2)
        >>> f.balanced, f.encoder_first, f.adversary_steps, f.noise
        (False, True, 1, None)
        """
        printed: dict[str, Any] = {"adversary_steps": 1, "encoder_first": True, "balanced": False}
        printed |= {"head_lr_factor": 1.0, "dropout": 0.0 if linear else 0.2, "weight_decay": 1e-4}
        if linear:
            printed |= dict.fromkeys(("encoder", "target_head", "sensitive_head"), linear_map) | {"bounded": False}
        return cls(n_components, alpha, **{**printed, **settings})

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        return encode_in_public(self, self.dp, X, y, sensitive_features, units)

    def _learn(self, problem: Problem) -> Mechanism:
        return self._learn_many([self], [problem])[0]

    @staticmethod
    def _learn_many(filters: Sequence[EIGAN], problems: Sequence[Problem]) -> list[Mechanism]:
        first, learned = filters[0], list[Mechanism]()
        for f in filters:
            f._check_parameters()
        together = first.dp is None and can_stack(networks(first)[0](problems[0].n_in, first.n_components))
        if len(filters) > 1 and not together:
            return [f._learn(problem) for f, problem in zip(filters, problems, strict=True)]
        most = len(filters) if len(filters) == 1 else stacked_games(first, problems[0])
        for i in range(0, len(filters), most):
            some, their = filters[i : i + most], problems[i : i + most]
            game = play(first, their[0], [f.alpha for f in some], [p.seed for p in their])
            if isinstance(game, PrivateGame):
                tell_spent(first, game.private.spent(first.not_covered_))
            learned += [
                f._learned(problem, game.encoders.module(g).double(), game.history[g])
                for g, (f, problem) in enumerate(zip(some, their, strict=True))
            ]
        return learned

    def _relearn(self, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Mechanism:
        encoder = encoder_maker(self, problem)().double()
        encoder.load_state_dict({k: torch.as_tensor(v) for k, v in arrays.items() if k != "history"})
        heads = [f"target {n}" for n in problem.targets.names] + [f"adversary {n}" for n in problem.sensitive.names]
        names = ["epoch", "encoder", *heads]
        history = [dict(zip(names, line.tolist(), strict=True)) for line in arrays["history"]]
        return self._learned(problem, encoder.eval(), [{**line, "epoch": int(line["epoch"])} for line in history])

    def _learned(self, problem: Problem, encoder: nn.Module, history: list[dict[str, float]]) -> Mechanism:
        self.encoder_module_, self.history_ = encoder, history
        warn_if_collapsed(self, problem, history[-1])
        return learned_encoder(encoder, self.n_components, self.noise, history, self.bounded)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """The encoders of the folds end in different coordinates; each is mapped onto the main one's."""

        def learn(part: Problem) -> Encoder:
            return Encoder(play(self, part, [self.alpha], [part.seed]).encoders.module(0).double(), (), self.bounded)

        refuse_second_fit(self)
        released = release_by_folds(problem, learn, like=self.mechanism_.code)
        return np.clip(released, -1, 1) if self.bounded else released

    def _check_parameters(self) -> None:
        check_training(self)
        check_number("alpha", self.alpha, 0, 1)
        check_number("equation", self.equation, 3, 4, whole=True)
        check_number("noise", self.noise, 0, optional=True)
        check_number("n_bins", self.n_bins, 1, whole=True, optional=True)
        for name in ("n_components", "adversary_steps"):
            check_number(name, getattr(self, name), 1, whole=True)
        check_number("head_lr_factor", self.head_lr_factor, 1e-12)
        check_number("dropout", self.dropout, 0, 0.99)
        check_number("weight_decay", self.weight_decay, 0)
        if self.noise and not self.bounded:
            raise InputError(
                f"noise={self.noise} is relative to a code in -1..1: leave out bounded=False, or the noise"
            )
        if self.dp is not None and (self.encoder_first or self.dropout):
            raise InputError("dp goes without encoder_first and dropout: its steps are those of single records")
        if self.dp is not None and self.n_bins is not None:
            raise InputError(f"dp goes without n_bins={self.n_bins}, whose pieces are cut where the records lie")

    @property
    def planned_epochs(self) -> int:
        """Epochs that a privacy budget has to last for."""
        return self.epochs


def new_game(f: EIGAN, problem: Problem, alphas: Sequence[float], seeds: Sequence[int]) -> Game:
    """The games of these settings, differentially private where these say so."""
    return (Game if f.dp is None else PrivateGame)(f, problem, alphas, seeds)


def play(f: EIGAN, problem: Problem, alphas: Sequence[float], seeds: Sequence[int]) -> Game:
    """Train one game per (alpha, seed) pair, all in one stack."""
    game = new_game(f, problem, alphas, seeds)
    # games of a frontier are kept in its folder
    kept = {} if len(seeds) == 1 else {"checkpoint": None}
    game.train(**{**training_settings(f, problem), "seed": int(seeds[0]), **kept})
    return game


def stacked_games(f: EIGAN, problem: Problem) -> int:
    """How many games of this size fit into memory beside each other."""
    shape = (problem.n_in,) if isinstance(problem.n_in, int) else problem.n_in
    nets, inputs = [encoder_maker(f, problem)()], [torch.zeros(2, *shape)]
    for make, labels in zip(networks(f)[1:], (problem.targets, problem.sensitive), strict=True):
        nets += [make(f.n_components, answers(labels, i)) for i in range(len(labels))]
        inputs += [torch.zeros(2, f.n_components)] * len(labels)
    return games_that_fit(nets, inputs, choose_batch_size(f.batch_size, len(problem.X)), choose_device(f.device))


@dataclass(frozen=True, eq=False)
class Encoder:
    """EIGAN's code: the encoder's output, through tanh (-1..1 in every column) unless it is not bounded."""

    net: nn.Module
    history: Sequence[Mapping[str, float]] = ()
    bounded: bool = True

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return forward(self._whole, X)

    def graph(self, g: Any, x: str) -> str:
        return g.torch(self._whole, x, "encoder")

    @property
    def _whole(self) -> nn.Module:
        return nn.Sequential(self.net, nn.Tanh() if self.bounded else nn.Identity())

    def arrays(self) -> dict[str, np.ndarray]:
        history = np.array([list(line.values()) for line in self.history])
        return {"history": history, **{k: v.numpy() for k, v in self.net.state_dict().items()}}


def learned_encoder(
    net: nn.Module, width: int, noise: float | None, history: Sequence[Mapping[str, float]], bounded: bool = True
) -> Mechanism:
    """What a trained encoder releases, and under which noise."""
    name = mechanism(noise or 0.0, *(p.detach().cpu().numpy() for p in net.parameters()))
    drawn = Noise("normal", float(noise), width, True, name) if noise else None
    return Mechanism(Encoder(net, history, bounded), width, drawn, Bounded() if noise else None)


def warn_if_collapsed(f: EIGAN, problem: Problem, last: Mapping[str, float]) -> None:
    """Say so where the code tells nothing, or nothing of a target."""
    code = Encoder(f.encoder_module_, bounded=f.bounded)(problem.X[:5000])
    if code.std(axis=0).max() < 1e-3:
        note(
            f,
            f"collapsed: the code is (nearly) the same for every record, so the release carries nothing; "
            f"raise alpha (now {f.alpha}) or epochs (now {f.epochs})",
            CollapseWarning,
        )
        return
    for name, codes in zip(problem.targets.names, problem.targets.codes.T, strict=True):
        known = codes[codes != MISSING]
        shares = np.bincount(known) / len(known)
        guess = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
        guess = 1.0 if name in problem.targets.number_names else guess  # the variance of a standardized number
        if last[f"target {name}"] > 0.98 * guess and len(known) >= 100:
            note(
                f,
                f"collapsed: target {name!r} is predicted no better than by guessing "
                f"(loss {last[f'target {name}']:.3f}, guessing {guess:.3f}); raise alpha (now {f.alpha}) "
                f"or epochs (now {f.epochs}), or check that X tells anything about {name!r}",
                CollapseWarning,
            )


Factory = Callable[[Any, int], nn.Module]


def head_weights(f: EIGAN, targets: Labels, sensitive: Labels, alpha: float) -> np.ndarray:
    """alpha_A and alpha_V of eq. 3, in the order of the columns; they sum to 1 (those of eq. 4 do not)."""
    keep = _given(f.target_weights, targets, "target_weights")
    hide = _given(f.sensitive_weights, sensitive, "sensitive_weights")
    if keep is not None and hide is not None:
        return np.concatenate([keep, hide]) / (keep.sum() + hide.sum())
    if f.equation == 4:
        if keep is not None or hide is not None:
            raise InputError("equation=4 weighs all targets alike: give both weights, or none")
        return np.concatenate([np.ones(len(targets)), np.full(len(sensitive), alpha)])
    # one side given alone shares out its part of alpha
    keep = np.ones(len(targets)) if keep is None else keep
    hide = np.ones(len(sensitive)) if hide is None else hide
    alpha = 1.0 if not len(hide) else alpha if len(keep) else 0.0
    return np.concatenate([alpha * keep / max(keep.sum(), 1e-12), (1 - alpha) * hide / max(hide.sum(), 1e-12)])


def _given(weights: Any, labels: Labels, name: str) -> np.ndarray | None:
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        missing = [c for c in labels.names if c not in weights]
        if missing or len(weights) != len(labels):
            raise InputError(f"{name} must name the columns {', '.join(labels.names)}; found {', '.join(weights)}")
        weights = [weights[c] for c in labels.names]
    out = np.asarray(weights, dtype=float)
    if out.shape != (len(labels),) or not (out > 0).all():
        raise InputError(f"{name} needs one positive number for each of {', '.join(labels.names)}; found {weights!r}")
    return out


def networks(f: EIGAN) -> tuple[Factory, Factory, Factory]:
    """Factories of encoder, target heads and sensitive heads."""
    return (
        f.encoder or partial(one_hidden, dropout=f.dropout),
        f.target_head or partial(head, dropout=f.dropout),
        f.sensitive_head or partial(head, dropout=f.dropout),
    )


def encoder_maker(f: EIGAN, problem: Problem) -> Callable[[], nn.Module]:
    """What makes an encoder for these records."""
    make, code = networks(f)[0], f.n_components
    if f.n_bins is None:
        return lambda: make(problem.n_in, code)
    if not isinstance(problem.n_in, int):
        raise InputError(f"n_bins={f.n_bins} is for tables; records here have the shape {problem.n_in}: leave it out")
    pieces = cut_into_pieces(problem.X, f.n_bins)
    return lambda: nn.Sequential(pieces, make(pieces.n_out, code))


def answers(labels: Labels, column: int) -> int:
    """How many outputs a head has: one a class, or one for a number."""
    return labels.n_classes(column) if labels.number(column) is None else 1


def one_hidden(n_in: Any, n_out: int, dropout: float = 0.0) -> nn.Module:
    return mlp(n_in, n_out, hidden=(128,), dropout=dropout)


def head(n_in: Any, n_out: int, dropout: float = 0.0) -> nn.Module:
    return mlp(n_in, n_out, hidden=(64, 64), dropout=dropout)


def linear_map(n_in: Any, n_out: int) -> nn.Module:
    """Encoder and heads of the paper on Adult."""
    return mlp(n_in, n_out, hidden=())


class Game:
    """G games of encoder, allies and adversaries, trained side by side (Algorithm A1).

    Batches and noise depend on a game's seed alone, and are drawn on the CPU: a game goes the same way
    beside others as alone, on any device.
    """

    def __init__(
        self,
        f: EIGAN,
        problem: Problem,
        alphas: Sequence[float],
        seeds: Sequence[int],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.device, self.dtype = choose_device(f.device), dtype
        self.noise, self.adversary_steps = f.noise or 0.0, f.adversary_steps
        self.encoder_first, self.bounded = f.encoder_first, f.bounded
        _, target_head, sensitive_head = networks(f)
        code = f.n_components
        self.encoders = Stack(encoder_maker(f, problem), seeds, self.device, dtype)
        self.allies = self._heads(target_head, code, problem.targets, seeds)
        self.adversaries = self._heads(sensitive_head, code, problem.sensitive, seeds)
        weights = np.array([head_weights(f, problem.targets, problem.sensitive, a) for a in alphas])
        self.weights = torch.as_tensor(weights.T, dtype=dtype, device=self.device)  # (heads, G)
        self.X = torch.as_tensor(problem.X, dtype=dtype, device=self.device)
        self.y = torch.as_tensor(problem.targets.codes, device=self.device)
        self.s = torch.as_tensor(problem.sensitive.codes, device=self.device)
        self.y_numbers, self.s_numbers = (_numbers(v, self.device, dtype) for v in (problem.targets, problem.sensitive))
        # an adversary that is worse than guessing is not made worse still: a squared error has no end
        most = [1.0 if problem.sensitive.number(j) is not None else torch.inf for j in range(len(problem.sensitive))]
        self.worst = (
            torch.as_tensor(most, dtype=dtype, device=self.device)[:, None] if self.s_numbers is not None else None
        )
        self.balance = [
            torch.as_tensor(class_weights(c, len(v)), dtype=dtype, device=self.device) if f.balanced else None
            for c, v in zip(problem.sensitive.codes.T, problem.sensitive.classes, strict=True)
        ]
        self._make_optimisers(f)
        self.batches = Batches(len(problem.X), choose_batch_size(f.batch_size, len(problem.X)), seeds)
        self.generators = [torch.Generator().manual_seed(int(s)) for s in np.unique(np.asarray(seeds))]
        self.which = torch.as_tensor(self.batches.which, device=self.device)
        self.code_size = code
        self.names = (
            [f"target {n}" for n in problem.targets.names],
            [f"adversary {n}" for n in problem.sensitive.names],
        )
        self.modules = {"encoder": self.encoders.learned}
        self.modules |= {f"ally {i}": s.learned for i, s in enumerate(self.allies)}
        self.modules |= {f"adversary {j}": s.learned for j, s in enumerate(self.adversaries)}
        self.history: list[list[dict[str, float]]] = [[] for _ in seeds]

    def code(self, rows: Tensor, noise: Tensor) -> Tensor:
        """What the encoders release of these rows."""
        x = self.X[rows]
        z = self.encoders(x if len(x) == 1 else x[self.which])
        z = torch.tanh(z) if self.bounded else z
        return z + self.noise * noise[self.which] if self.noise else z

    def ally_losses(self, z: Tensor, rows: Tensor) -> Tensor:
        """L_Ai of eq. 1, (allies, G)."""
        losses = [
            cross_entropy(ally(z), self.y[rows, i])
            if self.y_numbers is None or (values := self.y_numbers[i]) is None
            else squared_error(ally(z), values[rows])
            for i, ally in enumerate(self.allies)
        ]
        return torch.stack(losses) if losses else z.new_zeros((0, z.shape[0]))

    def adversary_losses(self, z: Tensor, rows: Tensor) -> Tensor:
        """L_Vj of eq. 1, (adversaries, G)."""
        losses = [
            cross_entropy(adversary(z), self.s[rows, j], self.balance[j])
            if self.s_numbers is None or (values := self.s_numbers[j]) is None
            else squared_error(adversary(z), values[rows])
            for j, adversary in enumerate(self.adversaries)
        ]
        return torch.stack(losses) if losses else z.new_zeros((0, z.shape[0]))

    def encoder_loss(self, kept: Tensor, hidden: Tensor) -> Tensor:
        """eq. 3: sum_i a_i L_Ai - sum_j a_j L_Vj, summed over the games, which share no parameter."""
        bounded = hidden if self.worst is None else torch.minimum(hidden, self.worst)
        return (self.weights * torch.cat([kept, -bounded])).sum()

    def _printed_round(self, rows: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Lines 10-14 as printed: on one batch first the encoder, then allies and adversaries on its new code."""
        now = rows[self.which]
        z = self.code(rows, noise)
        kept, hidden = self.ally_losses(z, now), self.adversary_losses(z, now)
        descend(self.adam, self.encoder_loss(kept, hidden), self.encoders.parameters())  # lines 11, 12
        with torch.no_grad():
            z = self.code(rows, noise)
        if self.adam_allies is not None:
            descend(self.adam_allies, self.ally_losses(z, now).sum())  # lines 13, 14
        if self.adam_theirs is not None:
            for _ in range(self.adversary_steps):
                descend(self.adam_theirs, self.adversary_losses(z, now).sum())
        return kept.detach(), hidden.detach()

    def round(self, rows: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The adversaries catch up, then the encoder and its allies move (lines 10-14)."""
        if self.encoder_first:
            return self._printed_round(rows[0], noise[0])
        if self.adam_theirs is not None:
            for now, own in zip(rows[:-1], noise[:-1], strict=True):
                with torch.no_grad():
                    z = self.code(now, own)
                descend(self.adam_theirs, self.adversary_losses(z, now[self.which]).sum())
        z, now = self.code(rows[-1], noise[-1]), rows[-1][self.which]
        kept, hidden = self.ally_losses(z, now), self.adversary_losses(z, now)
        descend(self.adam, self.encoder_loss(kept, hidden), self.ours)
        return kept.detach(), hidden.detach()

    def step(self) -> tuple[Tensor, Tensor]:
        """One round on the next batches; the losses of targets and adversaries, (heads, G) each."""
        return self.round(*(drawn.to(self.device) for drawn in self.draw()))

    def draw(self) -> tuple[Tensor, Tensor]:
        """Rows and noise of one round, once per distinct seed: (steps, S, batch), (steps, S, batch, code)."""
        steps = 1 if self.encoder_first or self.adam_theirs is None else 1 + self.adversary_steps
        rows = torch.stack([self.batches.draw_distinct() for _ in range(steps)])
        if not self.noise:
            return rows, torch.zeros(steps, 1)
        shape = (self.batches.batch_size, self.code_size)
        noise = [torch.stack([torch.randn(shape, generator=g) for g in self.generators]) for _ in range(steps)]
        return rows, torch.stack(noise).to(self.dtype)

    def advance(self, steps: int) -> None:
        """So many rounds, and one line of history with their mean losses; what a node of D-EIGAN does between syncs."""
        total = [
            torch.zeros(len(names), self.encoders.size, device=self.device, dtype=self.dtype) for names in self.names
        ]
        for _ in range(steps):
            for sum_, now in zip(total, self.step(), strict=True):
                sum_ += now / steps
        losses = torch.cat([total[0], total[1]]).cpu()
        signed = (self.weights.cpu() * torch.cat([total[0], -total[1]]).cpu()).sum(0)
        for g, record in enumerate(self.history):
            named = dict(zip([*self.names[0], *self.names[1]], losses[:, g].tolist(), strict=True))
            record.append({"epoch": len(record), "encoder": signed[g].item(), **named})

    def train(self, **settings: Any) -> None:
        """All rounds; `settings` are those of a `Training`."""
        steps = self.batches.per_epoch
        with Training(self.modules, self.optimisers, label="EIGAN", **settings) as training:
            self.history = [[line["games"][g] for line in training.history] for g in range(self.encoders.size)]
            for _ in training.epochs(self.draw, steps):
                self.advance(steps)
                now = [lines[-1] for lines in self.history]
                training.record(games=now, **{k: v for k, v in now[0].items() if k != "epoch"})
        self.history = [lines[: len(training.history)] for lines in self.history]  # no unfinished epoch

    def _heads(self, make: Factory, code: int, labels: Labels, seeds: Sequence[int]) -> list[Stack]:
        def stack(i: int) -> Stack:
            own = [s + 1000 * (i + 1) for s in seeds]
            return Stack(lambda: make(code, answers(labels, i)), own, self.device, self.dtype)

        return [stack(i) for i in range(len(labels))]

    def _make_optimisers(self, f: EIGAN) -> None:
        rate = f.learning_rate
        ours = [*self.encoders.parameters(), *(p for a in self.allies for p in a.parameters())]
        theirs = [p for v in self.adversaries for p in v.parameters()]
        n_encoder = len(self.encoders.parameters())
        groups: list[dict[str, Any]] = [
            {"params": ours[:n_encoder]},
            {"params": ours[n_encoder:], "lr": rate * f.head_lr_factor},
        ]
        self.ours, self.theirs = ours, theirs
        how: dict[str, Any] = {"fused": True, "weight_decay": f.weight_decay}  # one kernel for all of a step
        apart = groups[1:] if self.encoder_first and self.allies else []  # allies that move after the encoder
        self.adam = torch.optim.Adam(groups[: len(groups) - len(apart)], lr=rate, **how)
        self.adam_allies = torch.optim.Adam(apart, **how) if apart else None
        self.adam_theirs = torch.optim.Adam(theirs, lr=rate * f.head_lr_factor, **how) if theirs else None
        self.optimisers = {"adam": self.adam}
        for name, adam in (("adam allies", self.adam_allies), ("adam theirs", self.adam_theirs)):
            self.optimisers |= {name: adam} if adam is not None else {}


def _numbers(labels: Labels, device: torch.device, dtype: torch.dtype) -> list[Tensor | None] | None:
    """The numbers among the columns, standardized; None where all have classes."""
    if not labels.number_names:
        return None
    values = standardized(labels)
    return [
        torch.as_tensor(values[:, i], dtype=dtype, device=device) if labels.number(i) is not None else None
        for i in range(len(labels))
    ]


class PrivateGame(Game):
    """One game whose every step is differentially private: those of the adversaries and those of the encoder.

    What an adversary learned steers the encoder, so that its steps are paid for too. Losses are not recorded: they
    would be numbers of the training rows that nobody has paid for.
    """

    def __init__(self, f: EIGAN, problem: Problem, alphas: Sequence[float], seeds: Sequence[int]) -> None:
        super().__init__(f, problem, alphas, seeds)
        nets = [s.alone for s in (self.encoders, *self.allies, *self.adversaries)]
        if len(seeds) > 1 or not all(net is not None and can_stack(net) for net in nets):
            raise InputError(
                "dp needs each record's own gradient: encoder and heads may not have batch normalization, dropout or "
                "recurrent layers"
            )
        rounds = f.planned_epochs * self.batches.per_epoch
        steps = rounds * (1 + (self.adversary_steps if self.adam_theirs is not None else 0))
        self.per_round = steps // rounds
        assert f.dp is not None
        self.private = PrivateSteps(f.dp, problem.units, len(problem.X), self.batches.batch_size, steps)

    def step(self) -> tuple[Tensor, Tensor]:
        code, nothing = self.code_size, torch.full((1,), torch.nan, device=self.device, dtype=self.dtype)
        draws = [self.private.sample() for _ in range(self.per_round)]
        noise = [self.private.normal(len(rows), code).to(self.X) for rows in draws]
        theirs = _named_parameters("adversary", self.adversaries)
        for rows, own in zip(draws[:-1], noise[:-1], strict=True):
            with torch.no_grad():
                z = torch.tanh(self.encoders(self.X[rows][None]))[0] + self.noise * own
            assert self.adam_theirs is not None
            self.private.descend(self.adam_theirs, self._hidden, theirs, rows, (z, self.s[rows]))
        ours = _named_parameters("encoder", [self.encoders]) | _named_parameters("ally", self.allies)
        rows = draws[-1]
        inputs = self.X[rows], self.y[rows], self.s[rows], noise[-1]
        self.private.descend(self.adam, self._signed, ours, rows, inputs)
        return nothing.expand(len(self.allies), 1), nothing.expand(len(self.adversaries), 1)

    def _hidden(self, params: Mapping[str, Tensor], z: Tensor, s: Tensor) -> Tensor:
        """What the adversaries lose on one record."""
        losses = [_loss(_run(v, params, f"adversary {j}", z), s[j]) for j, v in enumerate(self.adversaries)]
        return torch.stack(losses).sum()

    def _signed(self, params: Mapping[str, Tensor], x: Tensor, y: Tensor, s: Tensor, noise: Tensor) -> Tensor:
        """eq. 3 on one record."""
        z = torch.tanh(_run(self.encoders, params, "encoder 0", x)) + self.noise * noise
        kept = [_loss(_run(a, params, f"ally {i}", z), y[i]) for i, a in enumerate(self.allies)]
        fixed = {k: p.detach() for k, p in _named_parameters("adversary", self.adversaries).items()}
        hidden = [_loss(_run(v, fixed, f"adversary {j}", z), s[j]) for j, v in enumerate(self.adversaries)]
        return (self.weights[:, 0] * torch.stack([*kept, *(-h for h in hidden)])).sum()


def _named_parameters(what: str, stacks: Sequence[Stack]) -> dict[str, Tensor]:
    return {f"{what} {i}.{name}": p for i, s in enumerate(stacks) for name, p in s.learned.named_parameters()}


def _run(stack: Stack, params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    own = {k.removeprefix(f"{name}."): p for k, p in params.items() if k.startswith(f"{name}.")}
    return functional_call(stack.learned, own, (x[None],))[0]


def _loss(logits: Tensor, code: Tensor) -> Tensor:
    return cross_entropy(logits[None], code[None])
