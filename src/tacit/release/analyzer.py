"""The cloud half: a network that answers from releases, and how to learn one where a filter has none of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.errors import InputError, check_number
from tacit.filters.mechanism import transformed
from tacit.labels import MISSING, Labels, encode_labels
from tacit.nets.mlp import mlp
from tacit.noise.keyed import Finite
from tacit.records.dataset import Dataset
from tacit.training.loop import Training, column_losses, descend

BATCHES = 16  # in an epoch, at least: few rows need as many steps
HELD_OUT = 0.25  # of the rows, or of their units: by these the accuracy is told and the best epoch is not chosen
RATE = 3e-3


@dataclass(frozen=True)
class Analyzer:
    """What a service answers with.

    Attributes
    ----------
    module : releases -> one number per class, target after target (logits); a torch module that can be exported
    classes : by target, its classes
    accuracy, guessing, rows : by target, how often it is right on rows that nothing was fitted on, how often always
        naming the commonest class is, and on how many rows; empty where that was not measured
    """

    module: nn.Module
    classes: Mapping[str, Sequence[Any] | np.ndarray]
    accuracy: Mapping[str, float] = field(default_factory=dict)
    guessing: Mapping[str, float] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        return [len(c) for c in self.classes.values()]

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """For each release the probabilities of all classes, target after target."""
        on_cpu = copy.deepcopy(self.module).cpu().float().eval()
        with torch.no_grad():
            logits = on_cpu(torch.as_tensor(np.asarray(Z), dtype=torch.float32))
            return torch.cat([p.softmax(1) for p in torch.split(logits, self.sizes, dim=1)], dim=1).double().numpy()

    def describe(self) -> dict[str, Any]:
        """As plain data, for a bundle's manifest."""
        return {
            "targets": [
                {
                    "name": name,
                    "classes": [c.item() if isinstance(c, np.generic) else c for c in classes],
                    "accuracy": self.accuracy.get(name),
                    "guessing": self.guessing.get(name),
                    "rows": self.rows.get(name),
                }
                for name, classes in self.classes.items()
            ]
        }

    def __str__(self) -> str:
        told = [
            f"{n}: right {self.accuracy[n]:.1%} of the time, guessing {self.guessing[n]:.1%} ({self.rows[n]:,} rows)"
            for n in self.accuracy
        ]
        return "; ".join(told) or f"answers {', '.join(self.classes)}; its accuracy was not measured"


def fit_analyzer(
    release: Any, data: Dataset, *, hidden: Sequence[int] = (64,), epochs: int = 60, random_state: int = 0
) -> Analyzer:
    """Learn a small network that tells the targets from releases.

    Parameters
    ----------
    release : a fitted filter or a loaded bundle
    data : rows that the filter was not fitted on: on those that it was, releases look otherwise. A quarter of them is
        held out to say how often the answers are right
    hidden : widths of the hidden layers; () gives a linear classifier
    epochs, random_state : of the training

    Examples
    --------
    >>> import tacit
    >>> train, rest = tacit.load_dataset("quadrants", n=1000).split((.5, .5), random_state=0)
    >>> f = tacit.EIGAN(n_components=2, epochs=10, random_state=0)
    >>> f = f.fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> analyzer = tacit.serve.fit_analyzer(f, rest, epochs=20)
    >>> analyzer.accuracy["colour"] > analyzer.guessing["colour"]
    True
    """
    check_number("epochs", epochs, 1, whole=True)
    if len(data.y.columns) == 0:
        raise InputError("data has no target, so there is nothing to answer; pass a Dataset with y")
    if hasattr(release, "seen"):
        seen = release.seen(data.X, data.units_of())
        if seen.mean() > 0.5:
            raise InputError(
                f"the filter was fitted on {int(seen.sum()):,} of these {len(data):,} rows (or on others of their "
                f"units); pass rows that it has not seen"
            )
        data = data.take(~seen)  # a few may equal rows of the fit by chance
    Z, n_codes = _numbers(release, data)
    targets = encode_labels(data.y, "y", len(data))
    learn, held = (part.rows for part in _numbered(data).split((1 - HELD_OUT, HELD_OUT), random_state=random_state))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random_state)
        body = mlp(Z.shape[1:] if n_codes is None else n_codes, sum(len(c) for c in targets.classes), hidden)
    first = Standardise(Z[learn]) if n_codes is None else OneHot(n_codes)
    module = nn.Sequential(first, body)
    _train(module, torch.as_tensor(Z[learn], dtype=torch.float32), targets.take(learn), epochs, random_state)
    found = Analyzer(module, dict(zip(targets.names, targets.classes, strict=True)))
    return Analyzer(module, found.classes, *_measured(found.probabilities(Z[held]), targets, learn, held))


class Standardise(nn.Module):
    """Releases to mean 0 and deviation 1, channel by channel."""

    mean: Tensor
    scale: Tensor

    def __init__(self, Z: np.ndarray) -> None:
        super().__init__()
        axes = (0, *range(2, Z.ndim))
        deviation = Z.std(axis=axes, keepdims=True)[0]
        self.register_buffer("mean", torch.as_tensor(Z.mean(axis=axes, keepdims=True)[0], dtype=torch.float32))
        self.register_buffer("scale", torch.as_tensor(np.where(deviation > 1e-12, deviation, 1), dtype=torch.float32))

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.mean) / self.scale


class OneHot(nn.Module):
    """Numbers of codes as rows of the unit matrix."""

    rows: Tensor

    def __init__(self, n_codes: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.eye(n_codes))

    def forward(self, z: Tensor) -> Tensor:
        return self.rows[z[:, 0].long()]


def _numbers(release: Any, data: Dataset) -> tuple[np.ndarray, int | None]:
    """Releases as a service gets them, and how many code numbers there are where each is one."""
    if hasattr(release, "numbers"):
        beside = {"sensitive_features": data.sensitive, "y": data.y} if release.sees_sensitive else {}
        return release.numbers(data.X, data.units_of(), **beside), release.manifest["output"].get("codes")
    m = release.mechanism_
    codes = m.support.codes if isinstance(m.support, Finite) else None
    if m.columns is not None:
        Z = transformed(release, data)
        return np.column_stack([c.codes(Z[c.name]) for c in m.columns]).astype(np.float64), None
    if m.table is not None:
        return m.noiseless(data.X), codes
    return np.asarray(transformed(release, data), dtype=np.float64), codes


def _numbered(data: Dataset) -> Dataset:
    """The same rows, numbered from 0: `rows` of a part are then places in this data set."""
    return Dataset(np.zeros((len(data), 1)), data.y, data.sensitive, data.units_of())


def _train(module: nn.Module, Z: Tensor, targets: Labels, epochs: int, seed: int) -> None:
    y, sizes = torch.as_tensor(targets.codes), [len(c) for c in targets.classes]
    batch = min(256, max(8, len(Z) // BATCHES))
    adam = torch.optim.AdamW(module.parameters(), lr=RATE, weight_decay=1e-2)
    with Training({"analyzer": module}, {"adam": adam}, epochs, seed, label="analyzer") as training:
        for _ in training.epochs():
            module.train()
            total = 0.0
            for rows in torch.split(torch.randperm(len(Z)), batch):
                loss = column_losses(module(Z[rows]), y[rows], sizes).sum()
                descend(adam, loss)
                total += float(loss.detach()) * len(rows) / len(Z)
            training.record(loss=total)


def _measured(
    found: np.ndarray, targets: Labels, learn: np.ndarray, held: np.ndarray
) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
    """Accuracy on the held-out rows, that of the commonest class of the others, and how many rows that is."""
    accuracy, guessing, rows = {}, {}, {}
    at = 0
    for i, (name, classes) in enumerate(zip(targets.names, targets.classes, strict=True)):
        truth, guess = targets.codes[held, i], found[:, at : at + len(classes)].argmax(axis=1)
        at += len(classes)
        known = truth != MISSING
        past = targets.codes[learn, i]
        if known.any():
            commonest = np.bincount(past[past != MISSING], minlength=len(classes)).argmax()
            accuracy[name] = float((truth == guess)[known].mean())
            guessing[name] = float((truth == commonest)[known].mean())
            rows[name] = int(known.sum())
    return accuracy, guessing, rows
