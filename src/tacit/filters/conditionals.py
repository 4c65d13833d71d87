"""P(value | what was released before, sensitive class): one small network a column.

The logits are those of the class's own counts, P(value | class), plus what a network adds for the released columns.
The network starts at nothing and is stopped where rows it did not learn from are told best: so it never says more than
the data do, and a column that depends on nothing is left at its counts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.nets.forward import forward
from tacit.records.dataset import allot
from tacit.training.loop import Training, descend

HIDDEN = 64
EPOCHS = 12
BATCH = 256
RATE = 4e-3
DECAY = 1e-2
DROPOUT = 0.25
HELD_OUT = 0.15  # of the rows, by which the best epoch is chosen
PRIOR = 20.0  # rows' worth of P(value) under the counts of every class
FLOOR = 1e-4  # of every law, spread like P(value): nothing is held for impossible


@dataclass(frozen=True, eq=False)
class Column:
    """What a conditional learns from: codes of the columns before, the class and the value of each row.

    Attributes
    ----------
    before : (n, columns) codes of what was released before
    sizes : how many values each of these columns has
    classes : (n,) the sensitive class
    n_classes : how many there are
    values : (n,) the value; -1 where it is none of the column's
    n_values : how many there are
    units : (n,) whose row each is, or None
    """

    before: np.ndarray
    sizes: Sequence[int]
    classes: np.ndarray
    n_classes: int
    values: np.ndarray
    n_values: int
    units: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Column:
        """The same of some rows."""
        units = None if self.units is None else self.units[rows]
        own = self.before[rows], self.sizes, self.classes[rows], self.n_classes, self.values[rows], self.n_values
        return Column(*own, units)

    @property
    def counts(self) -> np.ndarray:
        """P(value | class) by counting, (classes, values); rare classes lean on P(value)."""
        table = np.zeros((self.n_classes, self.n_values))
        np.add.at(table, (self.classes, self.values), 1)
        overall = (table.sum(axis=0) + 1) / (table.sum() + self.n_values)
        return (table + PRIOR * overall) / (table.sum(axis=1, keepdims=True) + PRIOR)


class Conditional(nn.Module):
    """The laws of a value in all sensitive classes, given what was released before."""

    starts: Tensor  # where the cells of each column begin
    logits: Tensor  # of the counts, (classes, values)

    def __init__(self, sizes: Sequence[int], counts: np.ndarray) -> None:
        super().__init__()
        n_classes, n_values = counts.shape
        self.sizes = list(sizes)
        starts = torch.tensor([0, *np.cumsum([*self.sizes, n_classes])])
        self.register_buffer("starts", starts[:-1])
        self.register_buffer("logits", torch.tensor(np.log(counts), dtype=torch.float32))
        self.cells = nn.EmbeddingBag(int(starts[-1]), HIDDEN, mode="sum")
        nn.init.normal_(self.cells.weight, std=(len(self.sizes) + 1) ** -0.5)
        self.hidden, self.out = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, n_values)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def of(self, before: Tensor, classes: Tensor) -> Tensor:
        """Logits of the values in each row's class, (n, values)."""
        cells = torch.cat([before, classes[:, None]], dim=1) + self.starts
        return self.logits[classes] + self._added(self.cells(cells))

    def forward(self, before: Tensor) -> Tensor:
        """The laws in every class, (n, classes, values)."""
        own = self.cells.weight[self.starts[-1] :]  # of the classes; the sum over columns is shared by them
        columns = self.cells(before + self.starts[:-1]) if self.sizes else own.new_zeros(len(before), HIDDEN)
        return (self.logits + self._added(columns[:, None] + own)).softmax(dim=2)

    def _added(self, cells: Tensor) -> Tensor:
        inside = nn.functional.dropout(torch.relu(cells), DROPOUT, self.training)
        return self.out(inside + torch.relu(self.hidden(inside)))

    def laws(self, before: np.ndarray) -> np.ndarray:
        """The same of arrays, none of them quite zero."""
        found = forward(self, torch.from_numpy(np.ascontiguousarray(before, dtype=np.int64)))
        return (1 - FLOOR) * found + FLOOR * self.overall

    def graph(self, g: Any, before: Sequence[str], name: str) -> str:
        """The same laws as a graph, (n, classes, values); `before` are the names of columns of whole numbers, (n,)."""
        weights = {f"{name}.{k}": v.detach().cpu().numpy() for k, v in self.state_dict().items()}
        g.weights |= weights
        cells, starts = self.cells.weight.detach().numpy(), [*self.starts.tolist(), self.cells.num_embeddings]
        tables = [g.tensor(cells[a:b], "cells") for a, b in itertools.pairwise(starts)]
        found = [g.op("Gather", t, at, axis=0) for t, at in zip(tables[:-1], before, strict=True)]
        columns = functools.reduce(lambda a, b: g.op("Add", a, b), found)
        every = g.op("Add", g.op("Unsqueeze", columns, g.tensor(np.array([1]), "axis")), tables[-1])
        inside = g.op("Relu", every)
        W = {
            k: g.tensor(weights[f"{name}.{k}"].T, k) for k in ("hidden.weight", "hidden.bias", "out.weight", "out.bias")
        }
        deep = g.op("Relu", g.op("Add", g.op("MatMul", inside, W["hidden.weight"]), W["hidden.bias"]))
        out = g.op("MatMul", g.op("Add", inside, deep), W["out.weight"])
        logits = g.op("Add", g.op("Add", out, W["out.bias"]), g.tensor(weights[f"{name}.logits"], "logits"))
        laws = g.op("Cast", g.op("Softmax", logits, axis=2), to=g.DOUBLE)
        return g.op("Add", g.op("Mul", laws, g.number(1 - FLOOR)), g.tensor(FLOOR * self.overall, "floor"))

    @property
    def overall(self) -> np.ndarray:
        """P(value), the classes alike, which every law holds a little of."""
        found = self.logits.exp().mean(dim=0).double().numpy()
        return found / found.sum()


def learn_conditional(column: Column, seed: int) -> Conditional:
    """Learn one column's laws."""
    column = column.take(np.flatnonzero(column.values >= 0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Conditional(column.sizes, column.counts)
    if not len(column.sizes) or column.n_values < 2 or len(column.values) < 50:
        return net
    held = allot(np.zeros(len(column.values)), np.array([1 - HELD_OUT, HELD_OUT]), seed, column.units) == 1
    rest, check = (_tensors(column.take(np.flatnonzero(rows))) for rows in (~held, held))
    adam = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    n = len(rest[2])
    steps = EPOCHS * -(-n // BATCH)
    falling = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=steps + 1, pct_start=0.1)
    with Training({"net": net}, {"adam": adam}, EPOCHS, seed, keeps=False) as training:
        for _ in training.epochs():
            net.train()
            for rows in torch.randperm(n).split(BATCH):
                descend(adam, _loss(net, *(t[rows] for t in rest)))
                falling.step()
            net.eval()
            with torch.no_grad():
                training.record(score=-float(_loss(net, *check)))
    return net


def _loss(net: Conditional, before: Tensor, classes: Tensor, values: Tensor) -> Tensor:
    return nn.functional.cross_entropy(net.of(before, classes), values)


def _tensors(column: Column) -> tuple[Tensor, Tensor, Tensor]:
    before, classes, values = (torch.from_numpy(np.ascontiguousarray(a, dtype=np.int64)) for a in
                               (column.before, column.classes, column.values))  # fmt: skip
    return before, classes, values
