"""A training that shows progress, keeps its best state, survives Ctrl-C and resumes after kill -9; losses of labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from tacit.callback import WHOLE
from tacit.errors import TacitWarning
from tacit.files import read_state, write_state
from tacit.labels import MISSING
from tacit.training.device import searched_kernels

FORMAT = "tacit-training-2"


def descend(optimiser: torch.optim.Optimizer, loss: Tensor, only: Sequence[Tensor] | None = None) -> None:
    """One step down the loss; with `only` no gradient is computed for other parameters."""
    if only is None:
        optimiser.zero_grad()
        loss.backward()
    else:
        for p, g in zip(only, torch.autograd.grad(loss, only), strict=True):
            p.grad = g.contiguous()  # as fused optimisers take it for granted
    optimiser.step()


class Training:
    """Epochs of one training of named modules with their optimisers.

    Everything random of an epoch (shuffles, dropout, noise) must come from torch's global generator or from
    `rng`, which are both set from the seed and the epoch's number: then a run that was killed and resumed at
    the last finished epoch ends with the same bits as one that was not.

    Parameters
    ----------
    modules : by name; all of them are saved, restored and reset to the best state
    optimisers : by name, over the modules' parameters
    epochs : how many in all
    seed : of everything random
    checkpoint : file that is written after every epoch and read at the start if it is there; None keeps none
    identity : what this training is (settings and data, as text); a checkpoint of another one is refused
    verbose : show a bar with the last losses
    keeps : False: what this stage leaves is of no use by itself, so Ctrl-C is passed on

    Examples
    --------
    >>> net = nn.Linear(2, 1)
    >>> adam = torch.optim.Adam(net.parameters())
    >>> with Training({"net": net}, {"adam": adam}, epochs=3, seed=0) as training:
    ...     for epoch in training.epochs():
    ...         loss = net(torch.randn(8, 2)).pow(2).mean()
    ...         adam.zero_grad(); loss.backward(); adam.step()
    ...         training.record(loss=loss.item(), score=-loss.item())
    >>> [sorted(line) for line in training.history] == [["epoch", "loss", "score"]] * 3
    True
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        optimisers: Mapping[str, torch.optim.Optimizer],
        epochs: int,
        seed: int,
        *,
        checkpoint: str | Path | None = None,
        identity: str = "",
        verbose: bool = False,
        label: str = "training",
        keeps: bool = True,
    ) -> None:
        self.modules, self.optimisers = dict(modules), dict(optimisers)
        self.n_epochs, self.seed, self.identity = epochs, seed, identity
        self.path = None if checkpoint is None else Path(checkpoint)
        self.history: list[dict[str, Any]] = []
        self.best_score, self.best_state = -np.inf, dict[str, Tensor]()
        self.interrupted, self._keeps = False, keeps
        self.rng = np.random.default_rng(seed)
        self._done = 0
        self._bar: Progress | None = None
        if verbose:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns)
            self._task = self._bar.add_task(label, total=epochs)
        self._label = label

    def __enter__(self) -> Training:
        if self.path is not None and self.path.exists():
            self._resume(self.path)
        self._scope = ExitStack()
        self._scope.enter_context(torch.random.fork_rng(devices=range(torch.cuda.device_count())))
        self._scope.enter_context(searched_kernels(next(iter(tensors_of(self.modules).values())).device))
        if self._bar is not None:
            self._scope.enter_context(self._bar)
            self._bar.update(self._task, completed=self._done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._scope.close()
        survived = kind is KeyboardInterrupt and self._done > 0 and self._keeps and not WHOLE.get()
        if survived:
            self.interrupted = True
            resume = f"; fit again with checkpoint={str(self.path)!r} to resume" if self.path else ""
            warnings.warn(
                f"interrupted after {self._done} of {self.n_epochs} epochs: the best state so far is used{resume}",
                TacitWarning,
                stacklevel=2,
            )
        if (kind is None or survived) and self.best_state:
            load_tensors(self.best_state, self.modules)
        for module in self.modules.values():
            module.eval()
        return survived

    def epochs(self, draw: Callable[[], object] | None = None, times: int = 1) -> Iterator[int]:
        """The epochs that are left. After each, the state is written to the checkpoint.

        A game with generators of its own says by what it draws from them, and how often in an epoch: a resumed
        training draws again, for nothing, what the epochs before it drew.
        """
        for _ in range(0 if draw is None else self._done * times):
            draw()  # type: ignore[misc]
        for epoch in range(self._done, self.n_epochs):
            torch.manual_seed(epoch_seed(self.seed, epoch))
            self.rng = np.random.default_rng((self.seed, epoch, 7))
            yield epoch
            self._done = epoch + 1
            if self.path is not None:
                self._write(self.path)
            if self._bar is not None:
                last = self.history[-1] if self.history and self.history[-1]["epoch"] == epoch else {}
                told = ", ".join(f"{k} {v:.3f}" for k, v in last.items() if k != "epoch" and isinstance(v, float))
                self._bar.update(self._task, completed=self._done, description=f"{self._label}: {told}")

    def record(self, *, score: float | None = None, **losses: Any) -> None:
        """Note this epoch's figures; the state with the highest score is kept for the end."""
        epoch = self._done
        self.history.append({"epoch": epoch, **losses, **({} if score is None else {"score": score})})
        if score is not None and score > self.best_score:
            self.best_score, self.best_state = (
                score,
                {k: v.detach().clone() for k, v in tensors_of(self.modules).items()},
            )

    # -- the checkpoint: tensors and JSON in a safetensors file, never a pickle ----------------------

    def _write(self, path: Path) -> None:
        tensors = {f"now/{k}": v for k, v in tensors_of(self.modules).items()}
        tensors |= {f"best/{k}": v for k, v in self.best_state.items()} | tensors_of({}, self.optimisers)
        told = {
            "done": self._done,
            "history": self.history,
            "best": None if np.isinf(self.best_score) else self.best_score,
        }
        write_state(path, {k: v.detach().cpu().numpy() for k, v in tensors.items()}, told, FORMAT, self.identity)

    def _resume(self, path: Path) -> None:
        arrays, told = read_state(path, FORMAT, "a training", self.identity)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self._done, self.history = int(told["done"]), told["history"]
        self.best_score = -np.inf if told["best"] is None else float(told["best"])
        load_tensors(_under("now/", tensors), self.modules)
        device = next(iter(tensors_of(self.modules).values())).device
        self.best_state = {k: v.to(device) for k, v in _under("best/", tensors).items()}
        load_tensors(tensors, {}, self.optimisers)


def tensors_of(
    modules: Mapping[str, nn.Module], optimisers: Mapping[str, torch.optim.Optimizer] | None = None
) -> dict[str, Tensor]:
    """What training changes, by name: weights and buffers, and what optimisers remember."""
    tensors = {f"{name}/{key}": value for name, m in modules.items() for key, value in m.state_dict().items()}
    for name, optimiser in (optimisers or {}).items():
        for number, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{name}/{number}/{k}": torch.as_tensor(v) for k, v in state.items()}
    return tensors


def load_tensors(
    tensors: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    optimisers: Mapping[str, torch.optim.Optimizer] | None = None,
) -> None:
    """Put modules and optimisers into the state that `tensors_of` gave."""
    for name, module in modules.items():
        module.load_state_dict(_under(f"{name}/", tensors))
    for name, optimiser in (optimisers or {}).items():
        states: dict[int, dict[str, Tensor]] = {}
        for key, value in _under(f"optimiser/{name}/", tensors).items():
            number, field = key.split("/", 1)
            states.setdefault(int(number), {})[field] = value
        optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of torch's generator in one epoch of a training."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0] >> 1)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def cross_entropy(logits: Tensor, codes: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """The mean over the records whose label is known, 0 where none is: (..., b, m), (..., b) -> (...).

    Examples
    --------
    >>> round(cross_entropy(torch.zeros(3, 2), torch.tensor([0, 1, MISSING])).item(), 4)
    0.6931
    """
    known = codes != MISSING
    picked = -torch.log_softmax(logits, -1).gather(-1, codes.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    weight = known.to(logits.dtype) if class_weights is None else class_weights[codes.clamp_min(0)] * known
    return (weight * picked).sum(-1) / weight.sum(-1).clamp_min(1e-12)


def squared_error(outputs: Tensor, values: Tensor) -> Tensor:
    """The mean over the records whose number is known, 0 where none is: (..., b, 1), (..., b) -> (...).

    Examples
    --------
    >>> squared_error(torch.zeros(3, 1), torch.tensor([1.0, 3.0, torch.nan])).item()
    5.0
    """
    known = ~values.isnan()
    off = (outputs[..., 0] - values.nan_to_num()) * known
    return (off * off).sum(-1) / known.sum(-1).clamp_min(1)


def column_losses(logits: Tensor, codes: Tensor, widths: Sequence[int]) -> Tensor:
    """Cross-entropies of label columns (b, columns) whose logits lie side by side (b, sum of widths): (columns,)."""
    parts = zip(logits.split(list(widths), dim=1), codes.unbind(1), strict=True)
    return torch.stack([cross_entropy(part, column) for part, column in parts])


def class_weights(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Weights under which every class counts the same, 1 on average over the records."""
    counts = np.bincount(codes[codes != MISSING], minlength=n_classes)
    return counts.sum() / n_classes / np.maximum(counts, 1)
