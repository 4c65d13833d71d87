"""EIGAN's game for a privacy budget: every step of the adversaries and of the encoder is differentially private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from tacit.errors import InputError
from tacit.filters.base import Problem
from tacit.filters.eigan_game import Game
from tacit.filters.eigan_players import GameSettings
from tacit.training.label_heads import cross_entropy
from tacit.training.private_steps import PrivateSteps
from tacit.training.stack import Stack, can_stack


class PrivateGame(Game):
    """One game whose every step is differentially private: those of the adversaries and those of the encoder.

    What an adversary learned steers the encoder, so that its steps are paid for too. Losses are not recorded: they
    would be numbers of the training rows that nobody has paid for.
    """

    def __init__(self, f: GameSettings, problem: Problem, alphas: Sequence[float], seeds: Sequence[int]) -> None:
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
        self.play_round = self.step

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
