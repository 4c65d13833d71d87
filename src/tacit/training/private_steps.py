"""Steps of a differentially private training (Abadi et al., 2016): who takes part, clipped gradients, noise.

In every step each person takes part with the same probability (Poisson sampling). The gradients of a person's records
are averaged and clipped to one norm; to their sum Gaussian noise is added. What optimizers and networks make of it
afterwards costs nothing more.

Samples and noise are drawn from the machine's own randomness, whatever `random_state` says: whoever knew the draws
could take the noise off.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from tacit.errors import InputError
from tacit.noise.accounting import DP, LABELS, Spent, epsilon_of, noise_for


class PrivateSteps:
    """The noise of a training of so many steps, and how many were taken.

    Parameters
    ----------
    dp : the budget
    units : the person of each row; None: each row is a person
    n_rows, batch_size : rows in all, and on average in a step
    n_steps : all that will be taken; more are refused
    """

    def __init__(self, dp: DP, units: np.ndarray | None, n_rows: int, batch_size: int, n_steps: int) -> None:
        who = np.arange(n_rows) if units is None else np.unique(units.astype(str), return_inverse=True)[1].ravel()
        self.who, self.people, self.by_person = torch.from_numpy(who), int(who.max()) + 1, units is not None
        dp.check(self.people)
        self.dp, self.rate, self.n_steps, self.taken = dp, min(1.0, batch_size / n_rows), n_steps, 0
        self.noise_multiplier = noise_for(self.rate, n_steps, dp.epsilon, dp.delta)
        self._sampling = np.random.default_rng(secrets.randbits(128))
        self._noise = torch.Generator().manual_seed(secrets.randbits(63))

    def sample(self) -> Tensor:
        """The rows of the people who take part in a step."""
        chosen = torch.from_numpy(self._sampling.random(self.people) < self.rate)
        return torch.nonzero(chosen[self.who]).ravel()

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._noise)

    def descend(
        self,
        optimiser: torch.optim.Optimizer,
        loss: Callable[..., Tensor],
        params: Mapping[str, Tensor],
        rows: Tensor,
        inputs: Sequence[Tensor],
    ) -> None:
        """One step along the noisy mean of the clipped gradients of `loss(params, *inputs of one row)`."""
        if self.taken >= self.n_steps:
            raise InputError(f"all {self.n_steps:,} steps of this fit's privacy budget are taken; begin another fit")
        self.taken += 1
        total = torch.zeros(sum(p.numel() for p in params.values()))
        if len(rows):
            own = {name: p.detach() for name, p in params.items()}
            found = vmap(grad(loss), in_dims=(None, *[0] * len(inputs)))(own, *inputs)
            each = torch.cat([found[name].flatten(1) for name in params], dim=1).cpu()
            total = self._clipped(each, self.who[rows]).sum(0)
        mean = (total + self.noise_multiplier * self.dp.clip * self.normal(len(total))) / (self.rate * self.people)
        parts = mean.split([p.numel() for p in params.values()])
        for p, part in zip(params.values(), parts, strict=True):
            p.grad = part.reshape(p.shape).to(p)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    def _clipped(self, each: Tensor, who: Tensor) -> Tensor:
        """Of each person the mean gradient, no longer than the clip; one that is no number counts as nothing."""
        if self.by_person:
            _, place, records = who.unique(return_inverse=True, return_counts=True)
            each = torch.zeros(len(records), each.shape[1]).index_add_(0, place, each) / records[:, None]
        each = torch.where(each.isfinite().all(dim=1, keepdim=True), each, 0.0)
        return each * (self.dp.clip / each.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp_max(1)

    def spent(self, not_covered: Sequence[str] = ()) -> Spent:
        """What the steps so far cost."""
        told: dict[str, Any] = {"unit": "person" if self.by_person else "record", "people": self.people}
        epsilon = epsilon_of(self.rate, self.noise_multiplier, self.taken, self.dp.delta) if self.taken else 0.0
        told |= {"noise_multiplier": self.noise_multiplier, "clip": self.dp.clip, "sampling_rate": self.rate}
        return Spent(epsilon, self.dp.delta, **told, steps=self.taken, not_covered=(LABELS, *not_covered))
