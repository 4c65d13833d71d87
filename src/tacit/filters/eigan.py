"""EIGAN: an encoder that keeps several targets and withholds several sensitive attributes.

Implements eq. 3 of "Can we Generalize and Distribute Private Representation Learning?" (the
normalized weights per head; eq. 4 is its script form) with Algorithm A1's alternating updates,
on logits end to end. Beyond the paper: several adversary steps for every encoder step (an adversary
that lags protects nobody), a class-balanced adversary loss, noise on the bounded code, and numbers cut into pieces.
`EIGAN.as_printed()` has none of these.

Who plays and what each weighs is in `eigan_players.py`, the rounds are in `eigan_game.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from tacit.errors import CollapseWarning, InputError, check_number
from tacit.filters.base import Knob, Problem, TrainedFilter
from tacit.filters.eigan_game import Game
from tacit.filters.eigan_players import Factory, answers, encoder_maker, linear_map, networks
from tacit.filters.mechanism import Learned
from tacit.filters.notes import note
from tacit.filters.out_of_fold import release_by_folds
from tacit.filters.private_eigan_game import PrivateGame
from tacit.filters.public_intake import encode_in_public, refuse_second_fit, tell_spent
from tacit.filters.registry import register_filter
from tacit.labels import MISSING
from tacit.nets.forward import forward
from tacit.noise.fit_privacy import DP
from tacit.noise.keyed import Noise, mechanism
from tacit.noise.support import Bounded
from tacit.training.device import choose_batch_size, choose_device, games_that_fit
from tacit.training.identity import check_training, training_settings
from tacit.training.stack import can_stack


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

    def _learn(self, problem: Problem) -> Learned:
        return self._learn_many([self], [problem])[0]

    @staticmethod
    def _learn_many(filters: Sequence[EIGAN], problems: Sequence[Problem]) -> list[Learned]:
        first, learned = filters[0], list[Learned]()
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

    def _relearn(self, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Learned:
        encoder = encoder_maker(self, problem)().double()
        encoder.load_state_dict({k: torch.as_tensor(v) for k, v in arrays.items() if k != "history"})
        heads = [f"target {n}" for n in problem.targets.names] + [f"adversary {n}" for n in problem.sensitive.names]
        names = ["epoch", "encoder", *heads]
        history = [dict(zip(names, line.tolist(), strict=True)) for line in arrays["history"]]
        return self._learned(problem, encoder.eval(), [{**line, "epoch": int(line["epoch"])} for line in history])

    def _learned(self, problem: Problem, encoder: nn.Module, history: list[dict[str, float]]) -> Learned:
        self.encoder_module_, self.history_ = encoder, history
        warn_if_collapsed(self, problem, history[-1])
        return learned_encoder(encoder, self.n_components, self.noise, history, self.bounded)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """The encoders of the folds end in different coordinates; each is mapped onto the main one's."""

        def learn(part: Problem) -> Encoder:
            return Encoder(play(self, part, [self.alpha], [part.seed]).encoders.module(0).double(), (), self.bounded)

        refuse_second_fit(self)
        released = release_by_folds(problem, learn, like=self.mechanism_.learned.code)
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
) -> Learned:
    """What a trained encoder releases, and under which noise."""
    name = mechanism(noise or 0.0, *(p.detach().cpu().numpy() for p in net.parameters()))
    drawn = Noise("normal", float(noise), width, True, name) if noise else None
    return Learned(Encoder(net, history, bounded), width, drawn, Bounded() if noise else None)


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
