"""The networks of the experiments: the original one, and what is made of it at a cut (procedure 1)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tacit
from tacit.nets.forward import forward
from tacit.records.dataset import Dataset
from tacit.training.device import choose_device

from .data import digits
from .tiny_darknet import ATTRIBUTES, tiny_darknet, with_outputs

SIMPLE, PRINTED, LITERAL, OURS = "Simple", "DPFE as printed", "DPFE by eq. 7", "DPFE, ours"
MODELS = (SIMPLE, PRINTED, OURS)
# Steps, batches and rate are Simple's for all of them (theirs: 3,000 at 1e-6 against 15,000 at 1e-4)
ALIKE = {"batch_size": 64, "learning_rate": 1e-3}


def original(train: Dataset, seed: int, settings: dict[str, Any]) -> nn.Sequential:
    """Tiny darknet, first on MNIST's digits where the settings say so, then on all attributes of the training part."""
    device = choose_device(settings["device"])
    torch.manual_seed(seed)
    images = np.asarray(train.X, np.float32)
    network = tiny_darknet(images.shape[1:], 10).to(device)
    if settings["pretraining"]:
        X, digit = digits()
        rows = settings["pretraining_rows"]
        learn(network, X[:rows], [digit[:rows]], settings["pretraining"], 256, seed)
    network.add_module(ATTRIBUTES, nn.Linear(2000, 2 * train.y.shape[1]).to(device))  # in place of the digits' layer
    classes = [c.cat.codes.to_numpy() for _, c in train.y.astype("category").items()]
    learn(network, images, classes, settings["network_epochs"], ALIKE["batch_size"] // 2, seed)
    return network.cpu().eval()


def learn(network: nn.Module, X: np.ndarray, classes: Sequence[np.ndarray], epochs: int, batch: int, seed: int) -> None:
    """Cross-entropies of all attributes, Adam at 1e-3, the last third of the epochs at a tenth of it."""
    device = next(network.parameters()).device
    x, y = torch.as_tensor(X, device=device), [torch.as_tensor(c, dtype=torch.long, device=device) for c in classes]
    sizes, rng = [int(c.max()) + 1 for c in y], np.random.default_rng(seed)
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    for epoch in range(epochs):
        network.train()
        for group in adam.param_groups:
            group["lr"] = 1e-4 if epoch >= 2 * epochs / 3 else 1e-3
        for part in np.array_split(rng.permutation(len(x)), max(1, len(x) // batch)):
            rows = torch.from_numpy(part).to(device)
            outputs = torch.split(network(x[rows]), sizes, dim=1)
            losses = [nn.functional.cross_entropy(o, c[rows]) for o, c in zip(outputs, y, strict=True)]
            loss: Tensor = torch.stack(losses).sum()
            adam.zero_grad()
            loss.backward()
            adam.step()


def for_attributes(network: nn.Sequential, everything: Sequence[str], kept: Sequence[str]) -> nn.Sequential:
    """The original network with the outputs of an attribute set."""
    places = [everything.index(k) for k in kept]
    return copy.deepcopy(with_outputs(network, [row for p in places for row in (2 * p, 2 * p + 1)]))


def fitted(model: str, network: nn.Module | None, cut: str | None, train: Dataset, seed: int, settings: dict[str, Any],
           **more: Any) -> tacit.DPFE:  # fmt: skip
    """Simple or a DPFE on the filter's part; the network goes where it is quick for what follows."""
    how = {
        **ALIKE, "epochs": settings["epochs"], "backbone_epochs": settings["network_epochs"], "random_state": seed,
        "device": settings["device"], **settings.get("training", {}), **more,
    }  # fmt: skip
    make = tacit.DPFE.as_printed if model in (PRINTED, LITERAL) else tacit.DPFE
    own: dict[str, Any] = {SIMPLE: {"simple": True}, LITERAL: {"contrast": "difference"}}.get(model, {})
    f = make(network, cut, **how, **own)
    f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    device = choose_device(settings["device"])
    if device.type != "cpu":  # in single precision on the accelerator: the audit releases many times
        for part in (f.client_, f.head_, f.network_):
            part.float().to(device)
    return f


def answers(f: tacit.DPFE, network: nn.Module, data: Dataset) -> np.ndarray:
    """What the network says of each attribute, as (n, attributes) places of classes."""
    logits = forward(network, f.encoder_.transform(np.asarray(data.X, dtype=float)))
    places = np.cumsum([len(c) for c in f.classes_])[:-1]
    return np.column_stack([p.argmax(axis=1) for p in np.split(logits, places, axis=1)])
