"""The anonymizing autoencoder's training as printed (Figure 6): whole trainings in turn, round after round.

The autoencoder is trained to copy; its code is what EncReg sees first. Then, in every round, EncReg, DecReg and
ActReg are trained for several epochs, are frozen, and the autoencoder descends eq. 4 for as many. Printed line 12
feeds it the *output* of the round before, though what it is given when it is used is raw: here it is fed raw windows.
Early stopping, and that the autoencoder's own stage has none and reads all windows, is as in the authors' code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.filters.aae_game import Heads, Regularizers
from tacit.filters.base import Problem
from tacit.labels import joint_codes
from tacit.nets.printed_window_nets import PrintedDecoder, PrintedEncoder, penalty, printed_classifier
from tacit.nets.printed_window_nets import printed_latent_classifier as latent_classifier
from tacit.records.dataset import allot
from tacit.training.device import choose_batch_size
from tacit.training.loop import Training, descend
from tacit.training.replay import replayed

COPYING = 4 / 3  # epochs of the first copying for every epoch of a stage: 32 for 24


class PrintedRounds:
    """Encoder and decoder of Figure 4, regularizers of Figure 5, trained in turn."""

    def __init__(
        self,
        problem: Problem,
        betas: tuple[float, float, float],
        regularizers: Regularizers,
        *,
        rounds: int,
        n_maps: int,
        validation: float,
        batch_size: int | None,
        learning_rate: float,
        device: torch.device,
    ) -> None:
        self.betas, self.rules, self.rounds, self.device = betas, regularizers, rounds, device
        self.rate, self.seed = learning_rate, problem.seed
        codes = joint_codes(np.concatenate([problem.targets.codes, problem.sensitive.codes], axis=1))
        part = allot(codes, np.array([1 - validation, validation]), problem.seed, problem.units)
        self.fit_rows, self.validation_rows = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
        self.judge = torch.as_tensor(self.validation_rows, device=device)
        self.X = torch.as_tensor(problem.X, dtype=torch.float32, device=device)
        every = np.arange(len(problem.X))
        self.targets, self.sensitive = (
            Heads(labels, every, device, balanced=False) for labels in (problem.targets, problem.sensitive)
        )
        self.batch_size = min(choose_batch_size(batch_size, len(self.X)), len(self.fit_rows))
        shape = (problem.X.shape[1], problem.X.shape[2])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(problem.seed)
            self.copying = _autoencoder(shape, n_maps).to(device)
            self.autoencoder = _autoencoder(shape, n_maps).to(device)  # line 6: it begins again
            self.regularizers: dict[str, tuple[nn.Module, Heads, bool]] = {}  # network, what it reads, on the code
            if len(problem.sensitive):
                latent = (shape[0], ceil(shape[1] / 4))
                self.regularizers["EncReg"] = latent_classifier(latent, self.sensitive.n_out), self.sensitive, True
                for i, make in enumerate(self.rules.families):
                    name = "DecReg" if i == 0 else f"DecReg {i + 1}"
                    self.regularizers[name] = make(shape, self.sensitive.n_out), self.sensitive, False
            if len(problem.targets):
                self.regularizers["ActReg"] = printed_classifier(shape, self.targets.n_out), self.targets, False
            for net, _, _ in self.regularizers.values():
                net.to(device)

    def train(self, patience: int, **settings: Any) -> list[dict[str, Any]]:
        """Lines 2 to 17; `settings` are those of a `Training`, its epochs those of one stage."""
        self.settings, self.history, self.stages = settings, list[dict[str, Any]](), 0
        self._copy(patience, ceil(COPYING * settings["epochs"]))
        code, out = self._released(self.copying)[0], self.X  # lines 4 and 5
        for number in range(1, self.rounds + 1):
            for name in self.regularizers:  # lines 8 to 10
                seen = code if self.regularizers[name][2] else out
                self._read(f"round {number}: {name}", name, seen, patience)
            finished = self._hide(f"round {number}: autoencoder")  # lines 11 and 12
            code, out = self._released(self.autoencoder)  # lines 13 and 14
            if not finished:
                break
        self.autoencoder.eval()
        return self.history

    # -- the stages -----------------------------------------------------------------------------

    def _copy(self, patience: int, epochs: int) -> None:
        """Line 3: raw windows in, raw windows out; the state that copies validation windows best."""
        adam = self._adam(self.copying)

        def step(rows: Tensor) -> Tensor:
            loss = (self.copying(self.X[rows]) - self.X[rows]).pow(2).mean()
            descend(adam, loss)
            return loss.detach()

        go = self._by_rows(step)
        with self._stage("copying", {"copying": self.copying}, {"adam": adam}, epochs) as training:
            for _ in training.epochs():
                loss = self._epoch(go, self.copying, self.fit_rows, training.rng)
                judged = self.X[self.judge]
                error = float((self._apply(self.copying, judged) - judged).pow(2).mean())
                training.record(stage="copying", loss=loss, validation=error, score=-error)
                if _stale([-h["validation"] for h in training.history]) >= patience:
                    break
        self.history += training.history

    def _read(self, stage: str, name: str, seen: Tensor, patience: int) -> None:
        """A regularizer learns from what the autoencoder released, until validation windows are read no better."""
        net, heads, _ = self.regularizers[name]
        adam = self._adam(net)

        def step(rows: Tensor) -> Tensor:
            loss = heads.learn(net(seen[rows]), rows)
            descend(adam, loss + penalty(net))
            return loss.detach()

        go = self._by_rows(step)
        with self._stage(stage, {name: net}, {"adam": adam}, self.settings["epochs"]) as training:
            for _ in training.epochs():
                loss = self._epoch(go, net, self.fit_rows, training.rng)
                right = heads.right(self._apply(net, seen[self.judge]), self.judge)
                training.record(stage=stage, loss=loss, validation=right)
                if _stale([h["validation"] for h in training.history]) >= patience:
                    break
        self.history += training.history

    def _hide(self, stage: str) -> bool:
        """The regularizers are frozen, the autoencoder descends eq. 4. False where it was interrupted."""
        ours = list(self.autoencoder.parameters())
        adam = self._adam(self.autoencoder)

        def step(rows: Tensor) -> Tensor:
            x = self.X[rows]
            code = self.autoencoder[0](x)
            out = self.autoencoder[1](code)
            distortion = (x - out).pow(2).mean()  # eq. 6
            identity, activity = x.new_zeros(()), x.new_zeros(())
            for net, heads, inside in self.regularizers.values():
                if heads is self.sensitive:
                    identity = identity + heads.hide(net(code if inside else out), rows, self.rules.identity_loss)
                else:
                    activity = heads.learn(net(out), rows)
            loss = self.betas[0] * identity + self.betas[1] * activity + self.betas[2] * distortion
            descend(adam, loss, ours)
            return torch.stack([loss, identity, activity, distortion]).detach()

        go = self._by_rows(step)
        frozen = {f"frozen {name}": net for name, (net, _, _) in self.regularizers.items()}
        for net in frozen.values():
            net.train()  # what is frozen is the weights: in the authors' code their dropout goes on
        every = np.arange(len(self.X))
        with self._stage(stage, {"autoencoder": self.autoencoder}, {"adam": adam}, self.settings["epochs"]) as training:
            for _ in training.epochs():
                losses = self._epoch(go, self.autoencoder, every, training.rng, 4)
                names = ("loss", "identity_loss", "activity_loss", "distortion")
                training.record(stage=stage, **dict(zip(names, losses, strict=True)))
        self.history += training.history
        return not training.interrupted

    # -- what stages share ----------------------------------------------------------------------

    def _stage(self, stage: str, modules: Mapping[str, nn.Module], optimisers: Mapping[str, Any], epochs: int) -> Any:
        """Every stage is a training with a seed and a checkpoint of its own."""
        self.stages += 1
        seed = int(np.random.SeedSequence((self.seed, self.stages)).generate_state(1)[0])
        path = self.settings["checkpoint"]
        own = {
            "epochs": epochs,
            "seed": seed,
            "checkpoint": None if path is None else f"{path}.stage{self.stages}",
            "identity": f"{self.settings['identity']} {stage}",
            "label": stage,
            "keeps": stage.endswith("autoencoder"),
        }
        return Training(modules, optimisers, **{**self.settings, **own})

    def _epoch(
        self, go: Callable[[Tensor], Tensor], net: nn.Module, rows: np.ndarray, rng: np.random.Generator, width: int = 0
    ) -> Any:
        """Whole batches of the rows in random order; the mean losses."""
        net.train()
        order = torch.from_numpy(rows[rng.permutation(len(rows))])
        batches = order.split(self.batch_size)[: len(order) // self.batch_size]
        total = torch.zeros(width or 1, device=self.device)
        for batch in batches:
            total += go(batch) / len(batches)
        return total.tolist() if width else total.item()

    def _by_rows(self, step: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """On a GPU the step's many small kernels are launched as one."""
        given: list[Tensor] = []
        run = replayed(step, lambda: (given.pop(),), self.device)

        def go(rows: Tensor) -> Tensor:
            given.append(rows)
            return run()

        return go

    def _adam(self, net: nn.Module) -> torch.optim.Adam:
        graphs: Any = {"fused": True, "capturable": True} if self.device.type == "cuda" else {}
        return torch.optim.Adam(net.parameters(), lr=self.rate, **graphs)

    def _apply(self, net: nn.Module, X: Tensor) -> Tensor:
        net.eval()
        with torch.no_grad():
            return torch.cat([net(part) for part in X.split(4096)])

    def _released(self, autoencoder: nn.Sequential) -> tuple[Tensor, Tensor]:
        """Code and output of all raw windows."""
        code = self._apply(autoencoder[0], self.X)
        return code, self._apply(autoencoder[1], code)


def _autoencoder(shape: tuple[int, int], n_maps: int) -> nn.Sequential:
    return nn.Sequential(PrintedEncoder(shape, n_maps), PrintedDecoder(shape, n_maps))


def _stale(scores: list[float]) -> int:
    """Epochs since the best one."""
    return len(scores) - 1 - int(np.argmax(scores))
