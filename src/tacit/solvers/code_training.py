"""Training of networks that choose a record's cell, G of them side by side: the soft game of `tacit.solvers.exact`.

The first third of the steps trains the cells of a class to stand for its probability, which is the label-only
code; the rest plays the game with Gumbel-softmax, temperature 1 -> .3. Of every network the state with the best
*hard* loss is kept, as its cells are released.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.solvers.exact import code_loss
from tacit.training.loop import Training, descend, epoch_seed
from tacit.training.stack import Stack

CHUNK = 8192


def train_codes(
    make: Callable[[], nn.Module],
    X: Tensor,
    keep: Sequence[Tensor],
    hide: Sequence[Tensor],
    n_codes: int,
    weights: Sequence[float],
    seeds: Sequence[int],
    *,
    batch_size: int,
    rate: float,
    **settings: Any,
) -> list[tuple[nn.Module, list[dict[str, Any]]]]:
    """One network per (weight, seed) pair, with its history; each is what it would be if it were trained alone.

    Parameters
    ----------
    make : the network, records -> scores of the cells
    X, keep, hide : records and label masses (`tacit.solvers.exact.label_mass`), on the device and of the type to use
    weights : on I(z;s), one per network
    seeds : of the start, the batches and the Gumbel noise, one per network
    settings : of the `Training`
    """
    device = X.device
    stack = Stack(make, seeds, device, X.dtype)
    nets = stack.learned
    best = copy.deepcopy(nets)
    scores = _Scores(len(seeds)).to(device)
    adam = torch.optim.Adam(stack.parameters(), lr=rate)
    distinct, which = np.unique(np.asarray(seeds), return_inverse=True)
    game_of = torch.as_tensor(which, device=device)
    weight = torch.as_tensor(weights, dtype=X.dtype, device=device)
    batch = min(batch_size, len(X))
    per_epoch = max(1, len(X) // batch)
    epochs = settings["epochs"]
    first = epochs * per_epoch // 3
    modules = {"net": nets, "best": best, "scores": scores}
    with Training(modules, {"adam": adam}, label="code", **settings) as training:
        for epoch in training.epochs():
            stack.train()
            orders = np.stack([np.random.default_rng((int(s), epoch, 7)).permutation(len(X)) for s in distinct])
            noise = [torch.Generator().manual_seed(epoch_seed(int(s), epoch)) for s in distinct]
            for i in range(per_epoch):
                rows = torch.from_numpy(orders[:, i * batch : (i + 1) * batch]).to(device)[game_of]
                step = epoch * per_epoch + i
                logits = stack(X[rows])
                here = [m[rows] for m in keep], [m[rows] for m in hide]
                if step < first:
                    loss = label_only_loss(logits, here[0], n_codes)
                else:
                    done = (step - first) / (epochs * per_epoch - first)
                    adam.param_groups[0]["lr"] = rate * (1 + np.cos(np.pi * done)) / 2
                    uniform = torch.stack([torch.rand(logits.shape[1:], generator=g) for g in noise])
                    uniform = uniform.to(device=device, dtype=X.dtype)[game_of].clamp(1e-9, 1 - 1e-7)
                    q = torch.softmax((logits - (-uniform.log()).log()) / 0.3**done, dim=-1)
                    loss = code_loss(q, *here, weight * min(1.0, 2 * done))
                descend(adam, loss.sum())
            told = loss.tolist()
            # never the label-only start, whose game has not begun
            playing = (epoch + 1) * per_epoch > first
            if playing:
                now = -_hard_losses(stack, X, keep, hide, weight, n_codes)
                scores.keep_better(now, nets, best)
                training.record(loss=float(np.mean(told)), hard=-now.mean().item(), games=[told, now.tolist()])
            else:
                training.record(loss=float(np.mean(told)), games=[told])
    if torch.isfinite(scores.value).any():
        nets.load_state_dict(best.state_dict())
    return [(stack.module(g).double(), _history_of(g, training.history)) for g in range(len(seeds))]


def _history_of(game: int, lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One game's losses and scores, of the history of all of them."""
    out = []
    for line in lines:
        told, *scored = line["games"]
        out.append({"epoch": line["epoch"], "loss": told[game], **({"score": scored[0][game]} if scored else {})})
    return out


class _Scores(nn.Module):
    """The best score of every game so far: a module, so that a checkpoint carries it."""

    value: Tensor

    def __init__(self, n: int) -> None:
        super().__init__()
        self.register_buffer("value", torch.full((n,), -torch.inf, dtype=torch.float64))

    def keep_better(self, now: Tensor, nets: nn.Module, best: nn.Module) -> None:
        """Where a game's score is higher than before, its network becomes its best."""
        better = now > self.value
        self.value[better] = now[better]
        ours, theirs = nets.state_dict(), best.state_dict()
        for key, value in ours.items():
            if len(better) == 1:
                theirs[key] = value.clone() if better[0] else theirs[key]
            else:
                theirs[key][better] = value[better]
        best.load_state_dict(theirs)


def _hard_losses(
    stack: Stack, X: Tensor, keep: Sequence[Tensor], hide: Sequence[Tensor], weight: Tensor, n_codes: int
) -> Tensor:
    """The loss of hard cells, as they are released, of every game: (G,)."""
    stack.train(False)
    with torch.no_grad():
        cells = torch.cat([stack(part.expand(stack.size, *part.shape)).argmax(-1) for part in X.split(CHUNK)], dim=1)
        q = (nn.functional.one_hot(own, n_codes).to(X.dtype)[None] for own in cells)  # one game at a time
        return torch.cat([code_loss(own, keep, hide, w[None]) for own, w in zip(q, weight, strict=True)]).double()


def label_only_loss(logits: Tensor, keep: Sequence[Tensor], n_codes: int) -> Tensor:
    """Cross-entropy of the targets where cell z stands for the class z mod m of each target in turn: (G,)."""
    logs = torch.log_softmax(logits, dim=-1)
    loss = logits.new_zeros(len(logits))
    divide = 1
    for mass in keep:
        of_class = (torch.arange(n_codes, device=logits.device) // divide) % mass.shape[-1]
        member = torch.nn.functional.one_hot(of_class, mass.shape[-1]).bool()
        per_class = torch.stack(
            [
                logs[..., member[:, c]].logsumexp(-1) if member[:, c].any() else logs[..., 0] - 20
                for c in range(mass.shape[-1])
            ],
            dim=-1,
        )
        loss = loss - (mass * per_class).sum(dim=(-1, -2)) / mass.sum(dim=(-1, -2)).clamp_min(1e-9)
        divide *= mass.shape[-1]
    return loss
