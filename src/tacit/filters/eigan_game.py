"""EIGAN's game: Algorithm A1's alternating updates on eq. 3, as printed and in the order that is ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit.filters.base import Problem
from tacit.filters.eigan_players import Factory, GameSettings, answers, encoder_maker, head_weights, networks
from tacit.labels import Labels, standardized
from tacit.training.device import choose_batch_size, choose_device
from tacit.training.label_heads import class_weights, cross_entropy, squared_error
from tacit.training.loop import Training, descend
from tacit.training.replay import replayed
from tacit.training.stack import Batches, Stack


class Game:
    """G games of encoder, allies and adversaries, trained side by side (Algorithm A1).

    Batches and noise depend on a game's seed alone, and are drawn on the CPU: a game goes the same way
    beside others as alone, on any device.
    """

    def __init__(
        self,
        f: GameSettings,
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
        self.play_round = replayed(self.round, self.draw, self.device)

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
            for sum_, now in zip(total, self.play_round(), strict=True):
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

    def _make_optimisers(self, f: GameSettings) -> None:
        rate = f.learning_rate
        ours = [*self.encoders.parameters(), *(p for a in self.allies for p in a.parameters())]
        theirs = [p for v in self.adversaries for p in v.parameters()]
        n_encoder = len(self.encoders.parameters())
        groups: list[dict[str, Any]] = [
            {"params": ours[:n_encoder]},
            {"params": ours[n_encoder:], "lr": rate * f.head_lr_factor},
        ]
        self.ours, self.theirs = ours, theirs
        # a CUDA graph needs the optimisers' step counts on the device; a processor has one kernel for all of a step
        how: dict[str, Any] = {"capturable": True} if self.device.type == "cuda" else {"fused": True}
        how["weight_decay"] = f.weight_decay
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
