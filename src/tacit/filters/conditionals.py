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
import pandas as pd
from scipy import sparse
from scipy.special import softmax

from tacit.training.adam import adam_step

HIDDEN = 64
EPOCHS = 10
BATCH = 512  # rows a step at most; few rows are cut into `STEPS` of them
STEPS = 40
SMALLEST = 32
RATE = 8e-3
WARM_UP = 0.1  # of the steps, in which the rate rises to it
DECAY = 0.5
FEW = 10_000  # rows: below, weights decay twice as fast, and the laws are the mean of `NETS` networks
NETS = 3
DROPPED = 77  # of 256 features, in every step
HELD_OUT = 0.15  # of the rows, by which the best epoch is chosen
PRIOR = 2.0  # rows worth of P(value) under the counts of every class
FLOOR = 1e-4  # of every law, spread like P(value): nothing is held for impossible


@dataclass(frozen=True, eq=False)
class Samples:
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

    def take(self, rows: np.ndarray) -> Samples:
        """The same of some rows."""
        units = None if self.units is None else self.units[rows]
        own = self.before[rows], self.sizes, self.classes[rows], self.n_classes, self.values[rows], self.n_values
        return Samples(*own, units)

    @property
    def counts(self) -> np.ndarray:
        """P(value | class) by counting, (classes, values); rare classes lean on P(value)."""
        table = np.zeros((self.n_classes, self.n_values))
        np.add.at(table, (self.classes, self.values), 1)
        overall = (table.sum(axis=0) + 1) / (table.sum() + self.n_values)
        return (table + PRIOR * overall) / (table.sum(axis=1, keepdims=True) + PRIOR)


class Conditional:
    """The laws of a value in all sensitive classes, given what was released before.

    What was released gives features, which do not look at the class; a class reads them in a way that all share, and
    in one of its own. Plain arrays in single precision: a table is handed over without torch.
    """

    def __init__(self, sizes: Sequence[int], counts: np.ndarray, seed: int = 0) -> None:
        self.sizes, self.shape = list(sizes), counts.shape
        ends = np.array([0, *np.cumsum(self.sizes)], dtype=np.int64)
        self.starts, cells = ends[:-1], max(1, int(ends[-1]))
        self.logits = np.log(counts).astype(np.float32)
        rng, reach = np.random.default_rng(seed), HIDDEN**-0.5
        spread = rng.standard_normal((cells, HIDDEN), dtype=np.float32)
        self.weights = {
            "cells.weight": spread * np.float32(max(1, len(self.sizes)) ** -0.5),
            "hidden.weight": rng.uniform(-reach, reach, (HIDDEN, HIDDEN)).astype(np.float32),
            "hidden.bias": rng.uniform(-reach, reach, HIDDEN).astype(np.float32),
            "shared.weight": np.zeros((counts.shape[1], HIDDEN), dtype=np.float32),
            "shared.bias": np.zeros(counts.shape[1], dtype=np.float32),
            "own.weight": np.zeros((counts.size, HIDDEN), dtype=np.float32),
            "own.bias": np.zeros(counts.size, dtype=np.float32),
        }

    def state_dict(self) -> dict[str, np.ndarray]:
        """All that was learned, by name."""
        return {"starts": self.starts, "logits": self.logits, **self.weights}

    def laws(self, before: np.ndarray, chunk: int = 8192) -> np.ndarray:
        """The laws of arrays, (n, classes, values)."""
        if not self.sizes:  # nothing was released before
            return softmax(self.logits, axis=1).astype(np.float64)[None].repeat(len(before), 0)
        w, (classes, values) = self.weights, self.shape
        out = (w["shared.weight"] + w["own.weight"].reshape(classes, values, HIDDEN)).reshape(-1, HIDDEN).T
        start = self.logits + w["shared.bias"] + w["own.bias"].reshape(self.shape)
        found = np.empty((len(before), *self.shape))
        for i in range(0, len(before), chunk):
            features = self.features(self.at(before[i : i + chunk]))[-1]
            found[i : i + chunk] = softmax((features @ out).reshape(-1, *self.shape) + start, axis=2)
        return found

    def at(self, before: np.ndarray) -> sparse.csr_matrix:
        """Records as rows with a one for each of their cells."""
        cells = (before + self.starts).astype(np.int32).ravel()
        ends = np.arange(0, cells.size + 1, max(1, len(self.sizes)), dtype=np.int32)
        shape = (len(before), len(self.weights["cells.weight"]))
        return sparse.csr_matrix((np.ones(cells.size, dtype=np.float32), cells, ends), shape=shape)

    def features(self, at: sparse.csr_matrix, kept: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        """The cells' features, those of the layer after them, and both together; `kept` weighs the former."""
        w = self.weights
        inside = np.maximum(at @ w["cells.weight"], 0)
        inside = inside if kept is None else inside * kept
        deep = np.maximum(inside @ w["hidden.weight"].T + w["hidden.bias"], 0)
        return inside, deep, inside + deep

    def gradients(
        self, at: sparse.csr_matrix, classes: np.ndarray, values: np.ndarray, kept: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Of the mean cross-entropy, by every weight. `kept` are the features that take part, and their weight."""
        w, n, m = self.weights, len(values), self.shape[1]
        inside, deep, features = self.features(at, kept)
        own = w["own.weight"].reshape(*self.shape, HIDDEN)
        error = self._law(features, classes)
        error[np.arange(n), values] -= 1
        error /= n
        by_class = np.zeros((n, len(own), m), dtype=np.float32)
        by_class[np.arange(n), classes] = error
        apart = by_class.reshape(n, -1)
        up = error @ w["shared.weight"] + apart @ w["own.weight"]
        into = up * (deep > 0)
        low = (up + into @ w["hidden.weight"]) * kept * (inside > 0)
        return {
            "cells.weight": at.T @ low,
            "hidden.weight": into.T @ inside,
            "hidden.bias": into.sum(axis=0),
            "shared.weight": error.T @ features,
            "shared.bias": error.sum(axis=0),
            "own.weight": apart.T @ features,
            "own.bias": apart.sum(axis=0),
        }

    def loss(self, at: sparse.csr_matrix, classes: np.ndarray, values: np.ndarray) -> float:
        """The mean cross-entropy of these records."""
        law = self._law(self.features(at)[-1], classes)
        return float(-np.log(law[np.arange(len(values)), values]).mean(dtype=np.float64))

    def _law(self, features: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """The law of each record in its own class, (n, values)."""
        w = self.weights
        all_own = (features @ w["own.weight"].T + w["own.bias"]).reshape(-1, *self.shape)
        own = all_own[np.arange(len(classes)), classes]
        logits = self.logits[classes] + features @ w["shared.weight"].T + w["shared.bias"] + own
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        return logits

    @property
    def overall(self) -> np.ndarray:
        """P(value), the classes alike, which every law holds a little of."""
        found = np.exp(self.logits).mean(axis=0).astype(np.float64)
        return found / found.sum()

    def graph(self, g: Any, before: Sequence[str], name: str) -> str:
        """The same laws as a graph, (classes, n, values), in single precision.

        `before` are the names of columns of whole numbers, (n,). Classes come first: to mix them is then one pass.
        """
        weights = self.state_dict()
        g.weights |= {f"{name}.{k}": v for k, v in weights.items()}
        ends = [*self.starts.tolist(), len(weights["cells.weight"])]
        tables = [g.tensor(weights["cells.weight"][a:b], "cells") for a, b in itertools.pairwise(ends)]
        found = [g.op("Gather", table, at, axis=0) for table, at in zip(tables, before, strict=True)]
        inside = g.op("Relu", functools.reduce(lambda a, b: g.op("Add", a, b), found))
        hidden = g.tensor(weights["hidden.weight"].T, "hidden"), g.tensor(weights["hidden.bias"], "hidden")
        deep = g.op("Relu", g.op("Add", g.op("MatMul", inside, hidden[0]), hidden[1]))
        classes, values = self.shape
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
        return self.nets[0].shape

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


def learn_laws(columns: Sequence[Samples], seeds: Sequence[int]) -> tuple[Laws, ...]:
    """Learn the laws of several; what is learned does not depend on how many are learned side by side."""
    columns = [c.take(np.flatnonzero(c.values >= 0)) for c in columns]
    few = [len(c.values) < FEW and bool(c.sizes) for c in columns]
    tasks = [
        (c, seed + i, 2 * DECAY if less else DECAY)
        for c, seed, less in zip(columns, seeds, few, strict=True)
        for i in range(NETS if less else 1)
    ]
    nets = iter([learn_conditional(*task) for task in tasks])
    return tuple(Laws(tuple(itertools.islice(nets, NETS if less else 1))) for less in few)


def learn_conditional(column: Samples, seed: int, decay: float) -> Conditional:
    """Train one network by AdamW under a rate that rises and falls, and keep the best epoch."""
    net = Conditional(column.sizes, column.counts, seed)
    rng = np.random.default_rng(seed)
    unit = np.arange(len(column.values)) if column.units is None else pd.factorize(column.units)[0]
    n_units = int(unit.max(initial=-1)) + 1
    # rows by which the best epoch is chosen: of units that are not learned from
    held = (rng.permutation(n_units) < max(1, round(HELD_OUT * n_units)))[unit]
    if not len(column.sizes) or column.n_values < 2 or len(column.values) < 50 or held.all():
        return net
    arrays = [np.ascontiguousarray(a, dtype=np.int64) for a in (column.before, column.classes, column.values)]
    rest, check = ([a[rows] for a in arrays] for rows in (~held, held))
    n = len(rest[2])
    batch = max(SMALLEST, min(BATCH, n // STEPS))
    rates, firsts = _cycle(EPOCHS * -(-n // batch) + 1)
    moments = {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in net.weights.items()}
    best, least, step = net.weights, np.inf, 0
    for _ in range(EPOCHS):
        order = rng.permutation(n)
        for rows in (order[i : i + batch] for i in range(0, n, batch)):
            before, classes, values = (part[rows] for part in rest)
            byte = np.frombuffer(rng.bytes(len(rows) * HIDDEN), dtype=np.uint8).reshape(-1, HIDDEN)
            kept = (byte >= DROPPED) * np.float32(256 / (256 - DROPPED))  # dropout
            gradients = net.gradients(net.at(before), classes, values, kept)
            rate, first = float(rates[step]), float(firsts[step])
            step += 1
            for name, w in net.weights.items():
                adam_step(w, gradients[name], moments[name], step, rate, first=first, decay=decay)
        if (loss := net.loss(net.at(check[0]), *check[1:])) < least:
            best, least = {k: v.copy() for k, v in net.weights.items()}, loss
    net.weights = best
    return net


def _cycle(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """One cycle of the rate (Smith, 2018), and of the first moment, which moves against it."""

    def between(start: float, end: float, share: np.ndarray) -> np.ndarray:
        return end + (start - end) / 2 * (1 + np.cos(np.pi * share))

    at, top = np.arange(steps), WARM_UP * steps - 1
    up, down = at / top, (at - top) / (steps - 1 - top)
    rates = np.where(at <= top, between(RATE / 25, RATE, up), between(RATE, RATE / 25e4, down))
    return rates, np.where(at <= top, between(0.95, 0.85, up), between(0.85, 0.95, down))
