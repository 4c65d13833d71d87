"""The task mask's game: a masker shows a few pixels to a predictor and the others to an obfuscator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.filters.base import Problem
from tacit.labels import MISSING, Labels
from tacit.nets.convolutional import image_classifier
from tacit.nets.unet import UNet
from tacit.records.dataset import cross_folds
from tacit.training.loop import Training
from tacit.training.stack import choose_batch_size, choose_device

PREDICTOR_BATCHES = 3  # for one batch of the obfuscator (section II-B)
NARROWED = 0.5  # the share of the epochs over which the mask closes from the whole image to K %
PLACE_SPEED = 10.0  # a place gets one gradient a batch, where the U-Net gets one from every pixel
HELD_OUT = 10  # one image in so many judges which state is best
AT_ONCE = 256  # images released at a time


def top_k(scores: Tensor, k: int, always: Tensor, never: Tensor) -> Tensor:
    """True for exactly k pixels of each image: score >= k-th largest, ties to the first pixel in reading order.

    Parameters
    ----------
    scores : (n, 1, height, width)
    always, never : booleans (height, width); the ones are among the k, the others are not

    Examples
    --------
    >>> none = torch.zeros(2, 2, dtype=torch.bool)
    >>> top_k(torch.tensor([[[[1., 3.], [1., 1.]]]]), 2, none, none).int().tolist()
    [[[[1, 1], [0, 0]]]]
    """
    ranked = scores.masked_fill(always, torch.inf).masked_fill(never, -torch.inf).flatten(1)
    kth = ranked.topk(k, dim=1).values[:, -1:]
    above, tied = ranked > kth, ranked == kth
    room = k - above.sum(dim=1, keepdim=True)
    return (above | (tied & (tied.cumsum(dim=1) <= room))).reshape(scores.shape)


class MaskGame:
    """Masker, predictor and obfuscator in training (section II)."""

    def __init__(self, f: Any, problem: Problem) -> None:
        self.f, self.problem, self.device = f, problem, choose_device(f.device)
        shape, targets = problem.X.shape[1:], problem.targets
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            n_classes = [targets.n_classes(i) for i in range(len(targets))]
            self.told_kinds = f.class_maps and f.masker is None
            self.masker = f.masker(shape, 1) if f.masker else Masker(shape, n_classes if f.class_maps else (1,))
            self.masker.to(self.device)
            self.predictor = (f.predictor or image_classifier)(shape, sum(n_classes)).to(self.device)
        self.X = torch.as_tensor((problem.X - f.fill_) / f.scale_, dtype=torch.float32, device=self.device)
        self.y = torch.as_tensor(targets.codes, device=self.device)
        self.fixed = (
            torch.as_tensor(f._always, device=self.device),
            torch.as_tensor(f._never, device=self.device),
        )
        both = [*self.masker.parameters(), *self.predictor.parameters()]
        self.adam = torch.optim.Adam(both, lr=f.learning_rate)
        # the masker's steps against the obfuscator have moments of their own
        self.adam_obfuscator = torch.optim.Adam(self.masker.parameters(), lr=f.learning_rate)
        folds = cross_folds(targets.codes, HELD_OUT, problem.seed, problem.units)
        enough = len(problem.X) >= 4 * HELD_OUT  # else every image must both teach and judge
        self.learn, self.judge = (
            (np.flatnonzero(folds > 0), np.flatnonzero(folds == 0)) if enough else (np.arange(len(problem.X)),) * 2
        )
        self.n_revealed, self.n_allowed = f.n_revealed_, int((~f._never).sum())
        self.batch_size = min(choose_batch_size(f.batch_size, len(self.learn)), len(self.learn))

    def masks(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The soft mask m = sigmoid(scores), and the hard top K % (ranked before the sigmoid, which would tie)."""
        return torch.sigmoid(scores), top_k(scores.detach(), self.n_revealed, *self.fixed)

    def predictor_step(self, rows: Tensor) -> Tensor:
        """L_Predictor: masker and predictor learn the task from the revealed pixels."""
        x, y = self._images(rows), self.y[rows]
        learnt = torch.zeros((), device=self.device)
        if self.told_kinds:
            scores, kinds = self.masker.scores_and_kinds(x)
            learnt = task_loss(kinds, y, self.problem.targets)
        else:
            scores = self.masker(x)
        soft, hard = self.masks(scores)
        # hard forwards, soft backwards: each pixel learns whether showing it would have helped
        shown = hard.float() + soft - soft.detach()
        loss = task_loss(self.predictor(shown * x), y, self.problem.targets)
        _descend(self.adam, loss + learnt)
        return loss.detach()

    def obfuscator_step(self, rows: Tensor) -> Tensor:
        """L_Obfuscator: the masker alone learns to make the hidden pixels say nothing (cross-entropy to uniform)."""
        x = self._images(rows)
        soft, hard = self.masks(self.masker(x))
        hidden = soft * ~hard if self.f.complement == "paper" else (~hard).float() - soft + soft.detach()
        # not training: else the hidden pixels would enter the shared weights' running means
        self.predictor.eval()
        loss = uniform_loss(self.predictor(hidden * x), self.problem.targets)
        self.predictor.train()
        _descend(self.adam_obfuscator, loss)
        return loss.detach()

    def train(self, checkpoint: str | Path | None) -> list[dict[str, Any]]:
        f, steps = self.f, max(1, len(self.learn) // self.batch_size)
        modules = {"masker": self.masker, "predictor": self.predictor}
        optimisers = {"adam": self.adam, "obfuscator": self.adam_obfuscator}
        with Training(
            modules,
            optimisers,
            f.epochs,
            self.problem.seed,
            checkpoint=checkpoint,
            identity=self._identity() if checkpoint is not None else "",
            verbose=f.verbose,
            label="TaskMask",
        ) as training:
            for epoch in training.epochs():
                self._set_rate(f.learning_rate * (1 + np.cos(np.pi * epoch / f.epochs)) / 2)
                self.n_revealed = self.revealed_at(epoch)
                self.masker.train()
                self.predictor.train()
                order = training.rng.permutation(self.learn)
                kept, hidden = [], []
                for i in range(steps):
                    rows = order[i * self.batch_size : (i + 1) * self.batch_size]
                    kept.append(self.predictor_step(torch.as_tensor(rows, device=self.device)))
                    if f.adversarial and (i + 1) % PREDICTOR_BATCHES == 0:
                        rows = training.rng.choice(self.learn, self.batch_size, replace=False)
                        hidden.append(self.obfuscator_step(torch.as_tensor(rows, device=self.device)))
                losses = {"predictor": float(torch.stack(kept).mean())}
                losses |= {"obfuscator": float(torch.stack(hidden).mean())} if hidden else {}
                losses["accuracy"] = self.accuracy()
                # of epochs that are equally accurate the last: the mask has had longer to close
                training.record(score=losses["accuracy"] + 1e-9 * epoch, **losses)
        return training.history

    @torch.no_grad()
    def accuracy(self) -> float:
        """Of the predictor on held-out images under the hard mask; over targets, the mean."""
        self.n_revealed = self.f.n_revealed_
        self.masker.eval()
        self.predictor.eval()
        right, known = 0.0, 0.0
        for part in np.array_split(self.judge, -(-len(self.judge) // AT_ONCE)):
            rows = torch.as_tensor(part, device=self.device)
            x, y = self.X[rows], self.y[rows]
            scores = self.predictor(self.masks(self.masker(x))[1] * x)
            guesses = torch.stack([s.argmax(1) for s in split_heads(scores, self.problem.targets)], dim=1)
            right += float((guesses == y).sum())
            known += float((y != MISSING).sum())
        return right / max(known, 1.0)

    def revealed_at(self, epoch: int) -> int:
        """Pixels shown in this epoch: all at first, K % from NARROWED of the epochs on.

        A mask at random shows too little for the predictor to learn from, and without a predictor the masker
        learns nothing: so the predictor meets the whole image first, and the mask closes on what it uses.
        """
        pixels = self.n_allowed
        share = min(1.0, epoch / (NARROWED * self.f.epochs))
        return round(pixels + share * (self.f.n_revealed_ - pixels))

    def _images(self, rows: Tensor) -> Tensor:
        x = self.X[rows]
        return x if self.f.augment is None else self.f.augment(x)

    def _set_rate(self, rate: float) -> None:
        for optimiser in (self.adam, self.adam_obfuscator):
            for group in optimiser.param_groups:
                group["lr"] = rate

    def _identity(self) -> str:
        """Settings, networks and data in words: a checkpoint of another training is refused."""
        skip = ("checkpoint", "verbose", "device", "always", "never", "masker", "predictor", "augment", "random_state")
        told = {k: v for k, v in self.f.get_params(deep=False).items() if k not in skip}
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.problem.X, self.problem.targets.codes, self.f._always, self.f._never):
            digest.update(np.ascontiguousarray(array).tobytes())
        return f"TaskMask {told} seed {self.problem.seed} {self.masker} {self.predictor} data {digest.hexdigest()}"


def split_heads(scores: Tensor, targets: Labels) -> tuple[Tensor, ...]:
    """The predictor's scores, target by target."""
    return scores.split([targets.n_classes(i) for i in range(len(targets))], dim=1)


def task_loss(scores: Tensor, y: Tensor, targets: Labels) -> Tensor:
    """-sum_i y_i log y_p,i over records whose label is known, averaged over targets."""
    losses = []
    for i, head in enumerate(split_heads(scores, targets)):
        known = (y[:, i] != MISSING).to(head.dtype)
        each = nn.functional.cross_entropy(head, y[:, i].clamp_min(0), reduction="none")
        losses.append((known * each).sum() / known.sum().clamp_min(1.0))
    return torch.stack(losses).mean()


def uniform_loss(scores: Tensor, targets: Labels) -> Tensor:
    """-sum_i 1/N log y_o,i: lowest where the prediction is uniform over the N classes."""
    return torch.stack([-torch.log_softmax(head, 1).mean() for head in split_heads(scores, targets)]).mean()


class Masker(nn.Module):
    """A U-Net's scores, and for each kind of image a learned score of each place: where the task usually lies.

    The kinds are the classes of the task (or one for all): the U-Net's deepest layer tells which it sees, and
    learns that from the labels. So the mask's shape says what the masker knows of the task. All start at (nearly)
    nothing: the scores of a U-Net at random are those of its weights, not of the task.
    """

    def __init__(self, shape: tuple[int, int, int], n_kinds: Sequence[int] = (1,), width: int = 16) -> None:
        super().__init__()
        self.unet = UNet(shape[0], 1, width)
        nn.init.normal_(self.unet.score.weight, std=1e-3)
        self.n_kinds = list(n_kinds)  # of each target
        self.kinds = nn.Linear(2 * self.unet.deepest, sum(self.n_kinds))
        self.place = nn.Parameter(torch.zeros(sum(self.n_kinds), *shape[1:]))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores_and_kinds(x)[0]

    def scores_and_kinds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores, deep = self.unet.scores_and_deepest(x)
        kinds = self.kinds(torch.cat([deep.mean((2, 3)), deep.amax((2, 3))], dim=1))
        shares = torch.cat([torch.softmax(part, dim=1) for part in kinds.split(self.n_kinds, dim=1)], dim=1)
        place = shares @ self.place.flatten(1)
        return scores + PLACE_SPEED * place.reshape(scores.shape), kinds


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
