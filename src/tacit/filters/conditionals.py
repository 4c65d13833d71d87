"""P(value | what was released before, sensitive class): one small network a column.

The logits are those of the class's own counts, P(value | class), plus what a network adds for the released columns.
The network starts at nothing and is stopped where rows it did not learn from are told best: so it never says more than
the data do, and a column that depends on nothing is left at its counts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from tacit.nets.forward import forward
from tacit.training.loop import descend

HIDDEN = 64
EPOCHS = 10
BATCH = 512  # rows a step at most; few rows are cut into `STEPS` of them
STEPS = 40
SMALLEST = 32
RATE = 8e-3
DECAY = 0.5
FEW = 10_000  # rows: below, weights decay twice as fast, and the laws are the mean of `NETS` networks
NETS = 3
DROPPED = 77  # of 256 features, in every step
HELD_OUT = 0.15  # of the rows, by which the best epoch is chosen
PRIOR = 2.0  # rows worth of P(value) under the counts of every class
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
    """The laws of a value in all sensitive classes, given what was released before.

    What was released gives features, which do not look at the class; a class reads them in a way that all share, and
    in one of its own.
    """

    starts: Tensor  # where the cells of each column begin
    logits: Tensor  # of the counts, (classes, values)

    def __init__(self, sizes: Sequence[int], counts: np.ndarray) -> None:
        super().__init__()
        self.sizes = list(sizes)
        starts = torch.tensor([0, *np.cumsum(self.sizes)])
        self.register_buffer("starts", starts[:-1])
        self.register_buffer("logits", torch.tensor(np.log(counts), dtype=torch.float32))
        self.cells = nn.EmbeddingBag(max(1, int(starts[-1])), HIDDEN, mode="sum")
        nn.init.normal_(self.cells.weight, std=max(1, len(self.sizes)) ** -0.5)
        self.hidden, self.shared = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, counts.shape[1])
        self.own = nn.Linear(HIDDEN, counts.size)
        for layer in (self.shared, self.own):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, before: Tensor, kept: Tensor | None = None) -> Tensor:
        """Logits of the values in every class, (n, classes, values); `kept` weighs the cells' features, (n, HIDDEN)."""
        inside = torch.relu(self.cells(before + self.starts))
        inside = inside if kept is None else inside * kept
        features = inside + torch.relu(self.hidden(inside))
        return self.logits + self.shared(features)[:, None] + self.own(features).view(-1, *self.logits.shape)

    def laws(self, before: np.ndarray) -> np.ndarray:
        """The laws of arrays, (n, classes, values)."""
        if not self.sizes:  # nothing was released before
            return self.logits.softmax(dim=1).double().numpy()[None].repeat(len(before), 0)
        cells = torch.from_numpy(np.ascontiguousarray(before, dtype=np.int64))
        return forward(self, cells, after=lambda logits: logits.softmax(dim=2))

    @property
    def overall(self) -> np.ndarray:
        """P(value), the classes alike, which every law holds a little of."""
        found = self.logits.exp().mean(dim=0).double().numpy()
        return found / found.sum()

    def graph(self, g: Any, before: Sequence[str], name: str) -> str:
        """The same laws as a graph, (classes, n, values), in single precision.

        `before` are the names of columns of whole numbers, (n,). Classes come first: to mix them is then one pass.
        """
        weights = {k: v.detach().cpu().numpy() for k, v in self.state_dict().items()}
        g.weights |= {f"{name}.{k}": v for k, v in weights.items()}
        ends = [*self.starts.tolist(), self.cells.num_embeddings]
        tables = [g.tensor(weights["cells.weight"][a:b], "cells") for a, b in itertools.pairwise(ends)]
        found = [g.op("Gather", table, at, axis=0) for table, at in zip(tables, before, strict=True)]
        inside = g.op("Relu", functools.reduce(lambda a, b: g.op("Add", a, b), found))
        hidden = g.tensor(weights["hidden.weight"].T, "hidden"), g.tensor(weights["hidden.bias"], "hidden")
        deep = g.op("Relu", g.op("Add", g.op("MatMul", inside, hidden[0]), hidden[1]))
        classes, values = self.logits.shape
        out = weights["shared.weight"] + weights["own.weight"].reshape(classes, values, HIDDEN)
        start = weights["shared.bias"] + weights["own.bias"].reshape(classes, values) + weights["logits"]
        both = g.op("MatMul", g.op("Add", inside, deep), g.tensor(out.transpose(0, 2, 1).copy(), "out"))
        return g.op("Softmax", g.op("Add", both, g.tensor(start[:, None], "start")), axis=2)


@dataclass(frozen=True, eq=False)
class Laws:
    """The mean of several conditionals: what few rows tell is told with less chance."""

    nets: tuple[Conditional, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """How many classes and values there are."""
        return tuple(self.nets[0].logits.shape)  # type: ignore[return-value]

    def of(self, before: np.ndarray) -> np.ndarray:
        """The laws of records whose columns before are these, (n, classes, values), none of them quite zero."""
        found = functools.reduce(np.add, (net.laws(before) for net in self.nets))
        found *= (1 - FLOOR) / len(self.nets)
        found += self.floor
        return found

    @property
    def floor(self) -> np.ndarray:
        """What every law holds of every value at least, (values,). All networks learned from one column's counts."""
        return FLOOR * self.nets[0].overall

    def graph(self, g: Any, before: Sequence[str], name: str) -> str:
        """The laws before the floor, times the number of networks, as a graph, (classes, n, values)."""
        found = [net.graph(g, before, f"{name}.{i}") for i, net in enumerate(self.nets)]
        return found[0] if len(found) == 1 else g.op("Sum", *found)

    def raised(self, g: Any, summed: str) -> str:
        """A law of the graph, (n, values), as `of` has it: in double precision, over its floor."""
        scaled = g.op("Mul", g.op("Cast", summed, to=g.DOUBLE), g.number((1 - FLOOR) / len(self.nets)))
        return g.op("Add", scaled, g.tensor(self.floor, "floor"))


def learn_laws(columns: Sequence[Column], seeds: Sequence[int]) -> tuple[Laws, ...]:
    """Learn the laws of several, in as many threads as torch has; what is learned does not depend on their number."""
    columns = [c.take(np.flatnonzero(c.values >= 0)) for c in columns]
    few = [len(c.values) < FEW and bool(c.sizes) for c in columns]
    tasks = [
        (_new(c, seed + i), c, seed + i, 2 * DECAY if less else DECAY)
        for c, seed, less in zip(columns, seeds, few, strict=True)
        for i in range(NETS if less else 1)
    ]
    with ThreadPoolExecutor(torch.get_num_threads()) as pool, one_thread():
        # the longest first, so that threads end together
        waiting = [pool.submit(learn_conditional, *t) for t in sorted(tasks, key=lambda t: -len(t[1].values))]
        for done in waiting:
            done.result()
    nets = (net for net, *_ in tasks)
    return tuple(Laws(tuple(itertools.islice(nets, NETS if less else 1))) for less in few)


def _new(column: Column, seed: int) -> Conditional:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Conditional(column.sizes, column.counts)


@contextmanager
def one_thread() -> Iterator[None]:
    """In here an operation of torch takes one thread: several that run side by side share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def learn_conditional(net: Conditional, column: Column, seed: int, decay: float) -> None:
    """Train one network. All that is random comes from a generator of its own, since others train beside it."""
    rng = np.random.default_rng(seed)
    held = _held_out(column, rng)
    if not len(column.sizes) or column.n_values < 2 or len(column.values) < 50 or held.all():
        return
    rest, check = (_tensors(column.take(np.flatnonzero(rows))) for rows in (~held, held))
    adam = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=decay, fused=True)
    n = len(rest[2])
    batch = max(SMALLEST, min(BATCH, n // STEPS))
    steps = EPOCHS * -(-n // batch)
    falling = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=steps + 1, pct_start=0.1)
    best, least = net.state_dict(), np.inf
    for _ in range(EPOCHS):
        for rows in torch.from_numpy(rng.permutation(n)).split(batch):
            before, classes, values = (t[rows] for t in rest)
            descend(adam, _loss(net, before, classes, values, _kept(len(rows), rng)))
            falling.step()
        with torch.no_grad():
            loss = float(_loss(net, *check))
        if loss < least:
            best, least = {k: v.clone() for k, v in net.state_dict().items()}, loss
    net.load_state_dict(best)


def _held_out(column: Column, rng: np.random.Generator) -> np.ndarray:
    """Rows by which the best epoch is chosen: of units that are not learned from."""
    unit = np.arange(len(column.values)) if column.units is None else pd.factorize(column.units)[0]
    n_units = int(unit.max(initial=-1)) + 1
    return (rng.permutation(n_units) < max(1, round(HELD_OUT * n_units)))[unit]


def _kept(n: int, rng: np.random.Generator) -> Tensor:
    """Dropout, by a byte each: torch's own draws take as long as the rest of a step."""
    drawn = np.frombuffer(rng.bytes(n * HIDDEN), dtype=np.uint8).reshape(n, HIDDEN)
    return torch.from_numpy((drawn >= DROPPED) * np.float32(256 / (256 - DROPPED)))


def _loss(net: Conditional, before: Tensor, classes: Tensor, values: Tensor, kept: Tensor | None = None) -> Tensor:
    logits = net(before, kept)[torch.arange(len(classes)), classes]
    return nn.functional.cross_entropy(logits, values)


def _tensors(column: Column) -> tuple[Tensor, Tensor, Tensor]:
    before, classes, values = (torch.from_numpy(np.ascontiguousarray(a, dtype=np.int64)) for a in
                               (column.before, column.classes, column.values))  # fmt: skip
    return before, classes, values
