"""VariationalObfuscator: a random change of the record under a budget for what it tells about the sensitive attributes.

Bertran et al., "Adversarially learned representations for information obfuscation and inference" (2019). The release
is q = net(x, noise), in the shape of the record. It loses as little as possible of what x told about the targets
u, while what it tells about the sensitive attributes s keeps to a budget b (in nats):

    min  E KL( p(u|x) || p(u|q) )  +  50 max( 0, E KL( p(s|q) || p(s) ) - b )^2,

with p(u|x) learned from raw records beforehand, p(u|q) learned along with the obfuscation, and p(s|q) by an adversary
that is trained by cross-entropy in between. E KL(p(s|q) || p(s)) is the mutual information I(s; q) as that adversary
sees it: a *lower* bound, so the budget binds the adversary that was trained and no other. All divergences are between
log-probabilities. (The comparison printed in the EIGAN paper fed raw logits to a loss that expects those.)
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.errors import TacitWarning, check_number
from tacit.filters.base import (
    Knob,
    Problem,
    Release,
    TrainedFilter,
    check_training,
    release_by_folds,
    training_settings,
)
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.registry import register_filter
from tacit.labels import MISSING, Labels
from tacit.nets.forward import forward
from tacit.nets.mlp import mlp
from tacit.noise.keyed import Noise, mechanism
from tacit.training.device import choose_batch_size, choose_device
from tacit.training.loop import Training, cross_entropy, descend
from tacit.training.stack import Batches, Stack

NOTHING = 0.01  # nats that a trained adversary may believe it learned where there is nothing to learn


# a budget that two epochs can keep
@register_filter("obfuscator", examples=[{"budget": 1.0, "epochs": 2, **more} for more in ({}, {"noise": None})])
@dataclass(eq=False, repr=False)
class VariationalObfuscator(TrainedFilter):
    """A stochastic change of the records that keeps the targets and holds what is sensitive to an information budget.

    Parameters
    ----------
    budget : the knob: nats that the trained adversary may learn about each sensitive attribute
    penalty : weight of the squared excess over the budget (50 in the paper)
    noise : standard deviation of the noise that is fed in beside the record; None for a deterministic change
    n_noise : how many noise inputs
    adversary_steps : adversary updates for every update of the obfuscation
    head_lr_factor : the heads' learning rate as a multiple of the obfuscation's
    hidden : widths of all hidden layers
    epochs, batch_size, learning_rate : training; batch_size None suits the data
    random_state, device, verbose : as in scikit-learn; device "auto" takes a GPU when there is one
    checkpoint : file (and one beside it, ".raw") from which a killed training continues

    Attributes
    ----------
    history_ : list of dicts: epoch, loss of each target and information of each sensitive attribute, as the trained
        heads see them. They say nothing about what leaks. Use `tacit.audit`

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.VariationalObfuscator(epochs=2, random_state=0)
    >>> f.fit(data.X, data.y, sensitive_features=data.sensitive).transform(data.X).shape
    (400, 2)
    """

    knob = Knob("budget", utility_rises=True, values=(0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5))

    budget: float = 0.01
    _: KW_ONLY
    penalty: float = 50.0
    noise: float | None = 1.0
    n_noise: int = 8
    adversary_steps: int = 5
    hidden: tuple[int, ...] = (128,)
    head_lr_factor: float = 3.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = bool(self.noise)  # every object draws a key of its own
        return tags

    def _learn(self, problem: Problem) -> Mechanism:
        check_training(self)
        for name in ("budget", "penalty"):
            check_number(name, getattr(self, name), 0)
        check_number("noise", self.noise, 0, optional=True)
        for name in ("n_noise", "adversary_steps"):
            check_number(name, getattr(self, name), 1, whole=True)
        check_number("head_lr_factor", self.head_lr_factor, 1e-12)
        self.obfuscation_module_, self.history_ = Game(self, problem).train()
        # a penalty is a price, not a bound: say so where the game ended at more than twice the budget
        for name in problem.sensitive.names:
            learned = self.history_[-1][f"information {name}"]
            if learned > max(2 * self.budget, NOTHING):
                note(
                    self,
                    f"the budget is missed: the trained adversary learned {learned:.3f} nats of {name!r}, budget "
                    f"{self.budget:g}; raise penalty (now {self.penalty:g}) or epochs (now {self.epochs}), and do "
                    f"not count on the budget",
                    TacitWarning,
                )
        of = mechanism(self.noise or 0.0, *(p.detach().numpy() for p in self.obfuscation_module_.parameters()))
        noise = Noise("normal", float(self.noise), self.n_noise, False, of) if self.noise else None
        return Mechanism(Obfuscated(self.obfuscation_module_, self.n_noise), int(np.prod(problem.X.shape[1:])), noise)

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        code = self.mechanism_.code
        assert isinstance(code, Obfuscated)
        noise = np.zeros((len(problem.X), self.n_noise)) if drawn is None else drawn

        def learn(part: Problem) -> Release:
            return Obfuscated(Game(self, part).train()[0], self.n_noise).noisy

        return release_by_folds(problem, learn, like=code.noisy, noise=noise)


@dataclass(frozen=True, eq=False)
class Obfuscated:
    """The network's change of a record, with noise beside it."""

    net: nn.Module
    n_noise: int

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.noisy(X, np.zeros((len(X), self.n_noise)))

    def noisy(self, X: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        return forward(self.net, np.column_stack([X.reshape(len(X), -1), drawn])).reshape(X.shape)

    def graph(self, g: Any, x: str) -> str:
        flat = g.flat(x)
        # without noise, zeros of the same shape: an input times zero would keep NaN, and none comes here
        zeros = np.zeros((g.shapes[flat][0], self.n_noise))
        noise = g.noise or g.linear(flat, g.constant("no_noise", zeros), self.n_noise)
        return g.like(g.torch(self.net, g.join(flat, noise), "obfuscation"), x)


class Game:
    """The obfuscation, the heads p(u|x), p(u|q) and p(s|q), and their training."""

    def __init__(self, f: VariationalObfuscator, problem: Problem) -> None:
        self.f, self.settings, seed = f, training_settings(f, problem), problem.seed
        self.device = choose_device(f.device)
        flat = problem.X.reshape(len(problem.X), -1)
        width, hidden = flat.shape[1], tuple(f.hidden)
        self.X = torch.as_tensor(flat, dtype=torch.float32, device=self.device)
        self.u = torch.as_tensor(problem.targets.codes, device=self.device)
        self.s = torch.as_tensor(problem.sensitive.codes, device=self.device)
        self.names = problem.targets.names, problem.sensitive.names

        def heads(labels: Labels, first: int) -> list[Stack]:
            makers = [partial(mlp, width, len(classes), hidden) for classes in labels.classes]
            return [Stack(make, [seed + first + i], self.device) for i, make in enumerate(makers)]

        self.obfuscation = Stack(lambda: mlp(width + f.n_noise, width, hidden), [seed], self.device)
        self.raw, self.allies = heads(problem.targets, 1000), heads(problem.targets, 2000)
        self.adversaries = heads(problem.sensitive, 3000)
        self.log_prior = []
        for codes, c in zip(problem.sensitive.codes.T, problem.sensitive.classes, strict=True):
            counts = np.bincount(codes[codes != MISSING], minlength=len(c)) + 1e-3
            shares = torch.as_tensor(np.log(counts / counts.sum()), dtype=torch.float32, device=self.device)
            self.log_prior.append(shares)
        self.batches = Batches(len(flat), choose_batch_size(f.batch_size, len(flat)), [seed])
        self.generator = torch.Generator(device=self.device).manual_seed(seed)

    def train(self) -> tuple[nn.Module, list[dict[str, Any]]]:
        """p(u|x) first, then the game; the obfuscation and its history."""
        self._learn_raw()
        f, per_epoch = self.f, self.batches.per_epoch
        catching_up = f.adversary_steps if self.adversaries else 0
        optimisers = {"adam": self._adam([self.obfuscation], self.allies)}
        optimisers |= {"adam theirs": self._adam([], self.adversaries)} if self.adversaries else {}
        modules = {"obfuscation": self.obfuscation.learned, **_learned("ally", self.allies)}
        modules |= _learned("adversary", self.adversaries)
        names = [*(f"target {n}" for n in self.names[0]), *(f"information {n}" for n in self.names[1])]
        with Training(modules, optimisers, label="obfuscation", **self.settings) as training:
            for _ in training.epochs(self.draw, per_epoch * (1 + catching_up)):
                sums = np.zeros(len(names))
                for _ in range(per_epoch):
                    for _ in range(catching_up):
                        rows, noise = self.draw()
                        with torch.no_grad():
                            q = self.release(rows, noise)
                        descend(optimisers["adam theirs"], _total(cross_entropies(self.adversaries, q, self.s[rows])))
                    rows, noise = self.draw()
                    q = self.release(rows, noise)
                    lost, learned = self.lost(q, rows), self.information(q)
                    excess = [(i - f.budget).clamp_min(0).square() for i in learned]
                    descend(optimisers["adam"], _total(lost) + f.penalty * _total(excess))
                    sums += [float(v.detach()) / per_epoch for v in (*lost, *learned)]
                training.record(**dict(zip(names, sums.tolist(), strict=True)))
        return self.obfuscation.module(0).double(), training.history

    def _learn_raw(self) -> None:
        """p(u|x), which the game holds fixed."""
        adam, path = self._adam([], self.raw), self.settings["checkpoint"]
        settings = {**self.settings, "checkpoint": None if path is None else f"{path}.raw"}
        steps = range(self.batches.per_epoch)
        with Training(_learned("raw", self.raw), {"adam": adam}, label="p(u|x)", keeps=False, **settings) as training:
            for _ in training.epochs(self.batches.draw, len(steps)):
                for _ in steps:
                    rows = self.batches.draw()[0].to(self.device)
                    descend(adam, _total(cross_entropies(self.raw, self.X[rows], self.u[rows])))

    def draw(self) -> tuple[Tensor, Tensor]:
        """The next batch of rows, and their noise."""
        rows = self.batches.draw()[0].to(self.device)
        shape = (len(rows), self.f.n_noise)
        return rows, torch.randn(shape, generator=self.generator, device=self.device)

    def release(self, rows: Tensor, noise: Tensor) -> Tensor:
        return self.obfuscation(torch.cat([self.X[rows], (self.f.noise or 0.0) * noise], 1)[None])[0]

    def lost(self, q: Tensor, rows: Tensor) -> list[Tensor]:
        """E KL( p(u|x) || p(u|q) ) of every target."""
        found = []
        for raw, ally in zip(self.raw, self.allies, strict=True):
            with torch.no_grad():
                before = torch.log_softmax(raw(self.X[rows][None])[0], -1)
            found.append(divergence(before, torch.log_softmax(ally(q[None])[0], -1)))
        return found

    def information(self, q: Tensor) -> list[Tensor]:
        """E KL( p(s|q) || p(s) ) of every sensitive attribute."""
        return [
            divergence(torch.log_softmax(adversary(q[None])[0], -1), prior)
            for adversary, prior in zip(self.adversaries, self.log_prior, strict=True)
        ]

    def _adam(self, slow: list[Stack], fast: list[Stack]) -> torch.optim.Adam:
        rate = self.f.learning_rate
        groups = [
            {"params": [p for stack in stacks for p in stack.parameters()], "lr": lr}
            for stacks, lr in ((slow, rate), (fast, rate * self.f.head_lr_factor))
            if stacks
        ]
        return torch.optim.Adam(groups)


def _learned(name: str, heads: list[Stack]) -> dict[str, nn.Module]:
    return {f"{name} {i}": head.learned for i, head in enumerate(heads)}


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Mean Kullback-Leibler divergence of rows of log-probabilities."""
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


def cross_entropies(heads: list[Stack], q: Tensor, labels: Tensor) -> list[Tensor]:
    """Of every head over the records whose label is known."""
    return [cross_entropy(head(q[None])[0], labels[:, i]) for i, head in enumerate(heads)]


def _total(losses: list[Tensor]) -> Tensor:
    return torch.stack(losses).sum() if losses else torch.zeros(())
