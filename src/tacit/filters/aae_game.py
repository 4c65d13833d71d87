"""The anonymizing autoencoder's game (Figure 6): regularizers catch up, are frozen, the autoencoder moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.filters.base import Problem
from tacit.labels import MISSING, Labels, joint_codes
from tacit.nets.classifier import NetworkClassifier
from tacit.nets.window_nets import Decoder, Encoder, Factory, deep_classifier, wide_classifier
from tacit.records.dataset import allot
from tacit.training.device import choose_batch_size
from tacit.training.label_heads import class_weights
from tacit.training.loop import Training, descend
from tacit.training.replay import replayed

CLIP = 1e-7  # of probabilities inside logarithms, as the paper's code
START = 0.2  # share of the epochs that teach the autoencoder the label-only release, before the game
SETTLE = 0.5  # share of the epochs after which the autoencoder slows down, so that regularizers can catch up
AVERAGED = 2  # epochs whose states are averaged, about
CHECK_EVERY = 3  # epochs
CHECK_ROWS = 8_000  # enough to see which of two states leaks more
CHECK_EPOCHS = 12


@dataclass(frozen=True)
class Regularizers:
    """Who plays against the output (nobody for REP), by which loss, how often, and when they start afresh."""

    families: tuple[Factory, ...]
    identity_loss: str
    steps: int
    restart_every: int | None


class Heads:
    """Several label columns read off one network's logits, side by side."""

    def __init__(self, labels: Labels, rows: np.ndarray, device: torch.device, balanced: bool) -> None:
        self.widths = [len(c) for c in labels.classes]
        self.codes = torch.as_tensor(labels.codes[rows], device=device)
        self.weights = []
        for codes, m in zip(labels.codes[rows].T, self.widths, strict=True):
            share = class_weights(codes, m) if balanced else np.ones(m)
            self.weights.append(torch.as_tensor(share, dtype=torch.float32, device=device))

    @property
    def n_out(self) -> int:
        return sum(self.widths)

    def _each(self, logits: Tensor, rows: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Per column: log-probabilities, codes, and each record's weight (0 where the label is missing)."""
        out = []
        for i, part in enumerate(logits.split(self.widths, dim=-1)):
            codes = self.codes[rows, i]
            weight = self.weights[i][codes.clamp_min(0)] * (codes != MISSING)
            out.append((part.log_softmax(-1), codes.clamp_min(0), weight / weight.sum().clamp_min(1e-12)))
        return out

    def learn(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Cross-entropy (eq. 5), the mean over columns."""
        losses = [-(w * logs.gather(-1, c[:, None])[:, 0]).sum() for logs, c, w in self._each(logits, rows)]
        return torch.stack(losses).mean()

    def right(self, logits: Tensor, rows: Tensor) -> float:
        """Share of the known labels that are answered, the mean over columns."""
        shares = [((logs.argmax(-1) == c) * w).sum() for logs, c, w in self._each(logits, rows)]
        return float(torch.stack(shares).mean())

    def hide(self, logits: Tensor, rows: Tensor, loss: str) -> Tensor:
        """L_i: eq. 7, or the cross-entropy to the uniform answer less its smallest value."""
        losses = []
        for logs, codes, weight in self._each(logits, rows):
            if loss == "uniform":
                each = -logs.clamp_min(float(np.log(CLIP))).mean(-1) - float(np.log(logs.shape[-1]))
            else:
                p = logs.exp()
                true = p.gather(-1, codes[:, None])[:, 0]
                each = -(1 - true).clamp_min(CLIP).log() - (1 - p.amax(-1)).clamp_min(CLIP).log()
            losses.append((weight * each).sum())
        return torch.stack(losses).mean()


class AnonymizingGame:
    """Encoder and decoder against EncReg (on the latent) and DecRegs (on the output), with ActReg as their ally."""

    def __init__(
        self,
        problem: Problem,
        betas: tuple[float, float, float],
        regularizers: Regularizers,
        *,
        n_maps: int,
        validation: float,
        batch_size: int | None,
        learning_rate: float,
        device: torch.device,
        noise: float | None = None,
    ) -> None:
        self.betas, self.rules, self.device, self.rate = betas, regularizers, device, learning_rate
        self.noise = noise or 0.0
        self.problem, self.shape = problem, (problem.X.shape[1], problem.X.shape[2])
        self.seed = problem.seed
        codes = joint_codes(np.concatenate([problem.targets.codes, problem.sensitive.codes], axis=1))
        part = allot(codes, np.array([1 - validation, validation]), problem.seed, problem.units)
        self.fit_rows, self.validation_rows = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
        self.X = torch.as_tensor(problem.X[self.fit_rows], dtype=torch.float32, device=device)
        self.targets = Heads(problem.targets, self.fit_rows, device, balanced=False)
        self.sensitive = Heads(problem.sensitive, self.fit_rows, device, balanced=True)
        self.typical: Tensor | None = None
        if self.rules.families and len(problem.sensitive) and len(problem.targets):  # REP starts as its paper does
            kinds = joint_codes(problem.targets.codes[self.fit_rows])
            means = [problem.X[self.fit_rows[kinds == k]].mean(axis=0) for k in range(kinds.max() + 1)]
            self.typical = torch.as_tensor(np.stack(means), dtype=torch.float32, device=device)
            self.kinds = torch.as_tensor(kinds, device=device)
        self.batch_size = min(choose_batch_size(batch_size, len(self.X)), len(self.X))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            self.encoder = Encoder(self.shape, n_maps, bounded=self.noise > 0).to(device)
            self.decoder = Decoder(self.shape, n_maps).to(device)
            self.act_reg = deep_classifier(self.shape, self.targets.n_out).to(device) if len(problem.targets) else None
            self.enc_reg, self.dec_regs = None, nn.ModuleList()
            if len(problem.sensitive):
                latent = (self.shape[0], ceil(self.shape[1] / 4))
                self.enc_reg = deep_classifier(latent, self.sensitive.n_out).to(device)
                self.dec_regs = nn.ModuleList(make(self.shape, self.sensitive.n_out) for make in self.rules.families)
                self.dec_regs.to(device)
        # What is released is the mean of the last states: in a game the states circle around the solution
        self.average = deepcopy(nn.ModuleList([self.encoder, self.decoder]))
        self.modules: dict[str, nn.Module] = {"encoder": self.encoder, "decoder": self.decoder}
        self.modules |= {"act_reg": self.act_reg} if self.act_reg is not None else {}
        self.modules["average"] = self.average
        self.modules |= {"enc_reg": self.enc_reg, "dec_regs": self.dec_regs} if self.enc_reg is not None else {}
        theirs = [p for name, m in self.modules.items() if name.endswith(("reg", "regs")) for p in m.parameters()]
        self.ours = [*self.encoder.parameters(), *self.decoder.parameters()]
        # a rate that can change inside a CUDA graph is a tensor
        rates: dict[str, Any] = {"lr": learning_rate}
        if device.type == "cuda":
            rates = {"lr": torch.tensor(learning_rate, device=device), "fused": True, "capturable": True}
        self.adam_ours = torch.optim.Adam(self.ours, **rates)
        self.adam_theirs = torch.optim.Adam(theirs, weight_decay=1e-5, **rates)
        self.follow = torch.ones((), device=device)
        self.learn = self._replayed(self._regularizers_step)
        self.begin = self._replayed(partial(self._autoencoder_step, starting=True))
        self.move = self._replayed(partial(self._autoencoder_step, starting=False))

    def train(self, patience: int, **settings: Any) -> list[dict[str, Any]]:
        """Rounds until the adaptive trade-off on validation windows no longer improves; the best state stays.

        `settings` are those of a `Training`.
        """
        epochs = settings["epochs"]
        optimisers = {"autoencoder": self.adam_ours, "regularisers": self.adam_theirs}
        with Training(self.modules, optimisers, label="autoencoder", **settings) as training:
            for epoch in training.epochs():
                self._restart_one(epoch, epochs)
                losses = self._epoch(epoch, epochs, training.rng)
                last = epoch == epochs - 1
                if last or (epoch % CHECK_EVERY == CHECK_EVERY - 1 and epoch >= START * epochs):
                    kept, leaked = self.check()
                    losses |= {"kept": kept, "leaked": leaked}
                    training.record(**losses, score=kept - leaked)
                    if _stale(training.history) >= patience:
                        break
                else:
                    training.record(**losses)
        return training.history

    def _epoch(self, epoch: int, epochs: int, rng: np.random.Generator) -> dict[str, float]:
        for module in self.modules.values():
            module.train()
        late = max(0.0, (epoch / epochs - SETTLE) / (1 - SETTLE))
        rate = self.adam_ours.param_groups[0]
        if isinstance(rate["lr"], Tensor):
            rate["lr"].fill_(self.rate * (1 - 0.9 * late))
        else:
            rate["lr"] = self.rate * (1 - 0.9 * late)
        starting = self.typical is not None and epoch < START * epochs
        order = rng.permutation(len(self.X))
        steps = max(1, len(self.X) // self.batch_size)
        self.follow.fill_(1 / (1 + min(epoch, AVERAGED) * steps))
        total = torch.zeros(4, device=self.device)
        for step in range(steps):
            for _ in range(1 if starting else self.rules.steps):
                self.learn(rng.integers(len(self.X), size=self.batch_size))
            rows = order[step * self.batch_size : (step + 1) * self.batch_size]
            total += (self.begin if starting else self.move)(rows) / steps
        names = ("loss", "identity_loss", "activity_loss", "distortion")
        return dict(zip(names, total.tolist(), strict=True))

    def _replayed(self, step: Callable[[Tensor], Any]) -> Callable[[np.ndarray], Any]:
        """The step on rows by number; on a GPU its hundreds of small kernels are launched as one."""
        given: list[Tensor] = []
        run = replayed(step, lambda: (given.pop(),), self.device)

        def go(rows: np.ndarray) -> Any:
            given.append(torch.from_numpy(rows))
            return run()

        return go

    def _regularizers_step(self, rows: Tensor) -> None:
        """Lines 8 to 10: every regularizer learns from what the autoencoder makes of the raw windows now."""
        with torch.no_grad():
            code, out = self._rebuild(self.X[rows])
        loss = out.new_zeros(()) if self.act_reg is None else self.targets.learn(self.act_reg(out), rows)
        if self.enc_reg is not None:
            loss = loss + self.sensitive.learn(self.enc_reg(code), rows)
            for reg in self.dec_regs:
                loss = loss + self.sensitive.learn(reg(out), rows)
        descend(self.adam_theirs, loss)

    def _autoencoder_step(self, rows: Tensor, starting: bool) -> Tensor:
        """Lines 11 and 12: the regularizers are frozen, the autoencoder descends eq. 4.

        At the start it learns the label-only release instead: every window becomes the mean of its activity.
        Then there is little to remove before the game begins. (Whether that beats a random start is not settled.)
        """
        x = self.X[rows]
        code, out = self._rebuild(x)
        activity = x.new_zeros(()) if self.act_reg is None else self.targets.learn(self.act_reg(out), rows)
        distortion = (x - out).pow(2).mean()  # eq. 6
        identity = x.new_zeros(())
        if starting and self.typical is not None:
            loss = activity + (self.typical[self.kinds[rows]] - out).pow(2).mean()
        else:
            if self.enc_reg is not None and self.betas[0] > 0:
                identity = self.sensitive.hide(self.enc_reg(code), rows, self.rules.identity_loss)
                if len(self.dec_regs):
                    hidden = [self.sensitive.hide(reg(out), rows, self.rules.identity_loss) for reg in self.dec_regs]
                    identity = identity + torch.stack(hidden).mean()
            loss = self.betas[0] * identity + self.betas[1] * activity + self.betas[2] * distortion
        descend(self.adam_ours, loss, self.ours)
        with torch.no_grad():
            for mean, p in zip(self.average.parameters(), self.ours, strict=True):
                mean.lerp_(p, self.follow)
        return torch.stack([loss, identity, activity, distortion]).detach()

    def _rebuild(
        self, x: Tensor, encoder: nn.Module | None = None, decoder: nn.Module | None = None
    ) -> tuple[Tensor, Tensor]:
        """The code with its noise, and the window made from it."""
        code = (encoder or self.encoder)(x)
        if self.noise:
            code = code + self.noise * torch.randn_like(code)
        return code, (decoder or self.decoder)(code)

    def _restart_one(self, epoch: int, epochs: int) -> None:
        """One of the DecRegs begins again: the autoencoder must not learn to beat one particular opponent."""
        every = self.rules.restart_every
        if every is None or not len(self.dec_regs) or epoch == 0 or epoch % every or epoch > 0.9 * epochs:
            return
        which = (epoch // every - 1) % len(self.dec_regs)
        fresh = self.rules.families[which](self.shape, self.sensitive.n_out).to(self.device)
        self.dec_regs[which].load_state_dict(fresh.state_dict())
        for p in self.dec_regs[which].parameters():
            for moment in self.adam_theirs.state.get(p, {}).values():
                moment.zero_()  # in place: a graph holds on to it

    def check(self) -> tuple[float, float]:
        """How well fresh classifiers read both sides off the release: mean balanced accuracy above chance.

        For targets they learn from released training windows and are measured on validation windows. For sensitive
        attributes they learn from the first part of every unit and are measured on its last: a person's few validation
        units may hold what the training units do not (another activity), and then a leak does not show. This chooses a
        state; it is not a figure to quote.
        """
        rng = np.random.default_rng(self.seed)
        some = rng.permutation(len(self.X))[:CHECK_ROWS]
        early, late = self.early_and_late(rng)
        fit, validation = self.fit_rows, self.validation_rows
        # without a target the windows themselves are what is to be kept: the share of their variance that is
        kept = self._read(self.problem.targets, fit[some], validation) if self.act_reg is not None else self._likeness()
        leaked = self._read(self.problem.sensitive, fit[early[:CHECK_ROWS]], fit[late[:CHECK_ROWS]])
        return kept, leaked

    def _likeness(self) -> float:
        X = torch.as_tensor(self.problem.X[self.validation_rows], dtype=torch.float32)
        return 1 - float((self._released(X).cpu() - X).pow(2).mean() / X.pow(2).mean())

    def early_and_late(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Rows in the first 60 % and the last 30 % of their unit, shuffled; the gap keeps overlapping windows apart."""
        if self.problem.units is None:
            place = rng.random(len(self.X))
        else:
            unit = np.unique(self.problem.units[self.fit_rows], return_inverse=True)[1].ravel()
            order = np.argsort(unit, kind="stable")
            first = np.searchsorted(unit[order], unit[order])
            place = np.empty(len(unit))
            place[order] = (np.arange(len(unit)) - first + 0.5) / np.bincount(unit)[unit[order]]
        return rng.permutation(np.flatnonzero(place < 0.6)), rng.permutation(np.flatnonzero(place >= 0.7))

    def _read(self, labels: Labels, learn: np.ndarray, judge: np.ndarray) -> float:
        """Mean over columns of a fresh classifier's balanced accuracy, scaled so that guessing is 0."""
        if not len(labels):
            return 0.0
        X, Z = (self._released(torch.as_tensor(self.problem.X[r], dtype=torch.float32)) for r in (learn, judge))
        return float(np.mean([self._fresh(X, Z, labels, i, learn, judge) for i in range(len(labels))]))

    def _released(self, X: Tensor) -> Tensor:
        self.average.eval()
        with torch.no_grad():
            return torch.cat([self._rebuild(part.to(self.device), *self.average)[1] for part in X.split(4096)])

    def _fresh(self, X: Tensor, Z: Tensor, labels: Labels, i: int, learn: np.ndarray, judge: np.ndarray) -> float:
        m = labels.n_classes(i)
        codes, truth = labels.codes[learn, i], labels.codes[judge, i]
        known, judged = np.flatnonzero(codes != MISSING), np.flatnonzero(truth != MISSING)
        if len(known) < 2 or not len(judged):
            return 0.0
        attacker = NetworkClassifier(wide_classifier, CHECK_EPOCHS, 128, seed=self.seed + 1, device=self.device)
        attacker.fit(X[torch.from_numpy(known).to(self.device)], codes[known], m)
        guess = attacker.predict_proba(Z[torch.from_numpy(judged).to(self.device)]).argmax(1)
        right = guess == truth[judged]
        recall = np.mean([right[truth[judged] == c].mean() for c in np.unique(truth[judged])])
        return float((recall - 1 / m) / (1 - 1 / m))


def _stale(history: Sequence[dict[str, Any]]) -> int:
    """Checks since the best one."""
    scores = [h["score"] for h in history if "score" in h]
    return len(scores) - 1 - int(np.argmax(scores))
