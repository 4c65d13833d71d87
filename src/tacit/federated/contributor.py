"""A contributor of PersonalMinimax: the node's side of Algorithm 3."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tacit.errors import InputError
from tacit.federated.node import Node, naming
from tacit.federated.protocol import Arrays, Message, ProtocolError, under
from tacit.federated.samples_of_others import LeastSquares, WeightedSoftmax, made_samples, statistics_of, sums_of
from tacit.filters.base import Filter, Preparation, finish_fit
from tacit.filters.mechanism import Learned, NetworkOutput
from tacit.filters.minimax import MinimaxFilter, linear_net
from tacit.labels import MISSING, encode_labels
from tacit.records.fingerprints import Memory
from tacit.solvers.heads import Weighted
from tacit.solvers.inner import LinearCode
from tacit.solvers.kiwiel import kiwiel


class Contributor:
    """Contributor's routine of Algorithm 3: improves its own filter, sends its filtered samples."""

    def __init__(self, f: Any, node: Node) -> None:
        self.f, self.node, self.name = f, node, str(node.name)
        with naming(f"contributor {self.name!r}"):
            self.X = np.ascontiguousarray(f.start.mechanism_.schema.encode(node.X).reshape(len(node), -1))
            labels = encode_labels(node.y, "y", len(node), min_classes=1)
            if len(labels) != 1:
                raise InputError(f"y must be one target; found {len(labels)} columns")
        self.mine = [c.item() if isinstance(c, np.generic) else c for c in labels.classes[0]]
        self.codes = labels.codes[:, 0]
        self._begun = torch.cat([p.detach().reshape(-1) for p in f.start.encoder_module_.parameters()])
        self.u = self._begun
        self.step, self.history = 1.0, list[float]()
        self.labels: dict[str, np.ndarray] = {}  # of the others, handed out once

    def digest(self) -> str:
        """Of this contributor's data and the common filter, to know a checkpoint of others."""
        told = self.X.tobytes() + self.codes.tobytes() + self._begun.numpy().tobytes()
        return hashlib.sha256(told).hexdigest()

    def own_filter(self) -> Filter | None:
        """The filter that stays here; None while it is still the common one."""
        return self.filter() if self.history else None

    def filter(self) -> MinimaxFilter:
        """This contributor's own filter; it knows the contributor's rows, and the public ones, again."""
        common = self.f.start.mechanism_
        own = PersonalFilter(**self.f.start.get_params(deep=False))
        own.__dict__.update({k: v for k, v in vars(self.f.start).items() if k.endswith("_") and k != "mechanism_"})
        G = self.u.view(own.n_components_, -1).numpy().T.copy()
        own.encoder_module_ = linear_net(G).eval()
        memory = common.memory or Memory(np.empty(0, dtype=np.uint64))
        known = Preparation(common.schema, memory.joined(common.schema.check(self.node.X), None))
        finish_fit(own, None, Learned(LinearProduct(own.encoder_module_), own.n_components_), known)
        return own

    def work(self, message: Message) -> Message:
        if message.kind == "begin":
            return self._answer("filtered", message.round, {"classes": self.mine})
        if message.kind != "improve":
            raise ProtocolError(f"contributor {self.name!r} knows 'begin' and 'improve'; found {message.kind!r}")
        self.labels |= {k: v for k, v in message.arrays.items() if k.endswith("/labels")}
        self._improve({**message.arrays, **self.labels}, list(message.facts["classes"]))
        return self._answer("improved", message.round, {})

    def _answer(self, kind: str, round_: int, facts: dict[str, Any]) -> Message:
        z = self._code(self.u).numpy()
        if self.f.exchange == "samples":
            arrays = {"samples": z} | ({"labels": self.codes} if kind == "filtered" else {})
            return Message(kind, self.name, round_, facts, arrays)
        known = self.codes != MISSING
        n_classes = len(self.mine) if kind == "filtered" else len(self._classes)
        codes = self.codes if kind == "filtered" else self._place[self.codes]
        return Message(kind, self.name, round_, facts, statistics_of(z[known], codes[known], n_classes))

    def _improve(self, told: Arrays, classes: list[Any]) -> None:
        """A few steps of Algorithm 2 on eq. 19."""
        self._classes = classes
        self._place = np.array([classes.index(c) for c in self.mine], dtype=np.int64)
        known = self.codes != MISSING
        own = self._place[self.codes[known]]
        self._known = torch.from_numpy(np.flatnonzero(known))
        parts = self._others(told)
        adversary, ally = self._heads(own, parts, len(classes))
        code = LinearCode(torch.from_numpy(self.X[known]), self.f.start.n_components_)
        result = kiwiel(
            Weighted(adversary, -1.0),
            self.u,
            adversary.start(),
            code=code,
            ally=Weighted(ally, self.f.rho),
            w=ally.start(),
            max_iter=self.f.steps,
            tolerance=1e-9,
            step=self.step,
            inner_tolerance=1e-7,
            inner_max_iter=50,
        )
        self.u, self.step = result.u, max(result.step, 1e-6)
        self.history.append(result.phi)

    def _others(self, told: Arrays) -> list[dict[str, np.ndarray]]:
        """By contributor, in the order of their places: samples and labels, or statistics."""
        parts: dict[int, dict[str, np.ndarray]] = {}
        for key, value in told.items():
            place, name = key.split("/", 1)
            parts.setdefault(int(place), {})[name] = value
        if any("samples" in part and "labels" not in part for part in parts.values()):
            raise ProtocolError(
                f"contributor {self.name!r} does not know the others' labels any more: its state is lost; it gets "
                f"them with the next message"
            )
        return [parts[place] for place in sorted(parts) if set(parts[place]) != {"labels"}]

    def _heads(self, own: np.ndarray, parts: Sequence[Mapping[str, np.ndarray]], m: int) -> tuple[Any, Any]:
        """The adversary (own against the rest, each side weighing a half) and the ally (the target, over all)."""
        n, ridge = len(own), self.f.ridge
        if self.f.loss == "squared":
            sums = [self._sums(p, m) for p in parts]
            gram, cross = np.sum([s[0] for s in sums], axis=0), np.sum([s[1] for s in sums], axis=0)
            rest = float(gram[-1, -1])
            others = np.zeros((len(gram), 2))
            others[:, 0] = gram[:, -1] / rest
            adversary: Any = LeastSquares(np.ones(n, dtype=int), np.full(n, 1 / n), gram / rest, others, ridge)
            return adversary, LeastSquares(own, np.ones(n), gram, cross, ridge)
        rows, codes, weights = (np.concatenate(x) for x in zip(*[self._rows(p) for p in parts], strict=True))
        side = np.zeros(len(rows), dtype=int), weights / weights.sum()
        adversary = WeightedSoftmax(np.ones(n, dtype=int), np.full(n, 1 / n), rows, *side, 2, ridge)
        return adversary, WeightedSoftmax(own, np.ones(n), rows, codes, weights, m, ridge)

    def _sums(self, part: Mapping[str, np.ndarray], m: int) -> tuple[np.ndarray, np.ndarray]:
        if "samples" not in part:
            return sums_of(part)
        known = part["labels"] != MISSING
        return sums_of(statistics_of(part["samples"][known], part["labels"][known], m))

    def _rows(self, part: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if "samples" not in part:
            return made_samples(part)
        known = part["labels"] != MISSING
        return part["samples"][known], part["labels"][known], np.ones(int(known.sum()))

    def _code(self, u: torch.Tensor) -> torch.Tensor:
        return LinearCode(torch.from_numpy(self.X), self.f.start.n_components_)(u)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"u": self.u.numpy()} | {f"labels {k}": v for k, v in self.labels.items()}
        return arrays, {"step": self.step, "history": self.history}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        self.u = torch.from_numpy(arrays["u"])
        self.labels = under("labels ", arrays)
        self.step, self.history = facts["step"], list(facts["history"])


class PersonalFilter(MinimaxFilter):
    """One contributor's filter: its samples cannot be told from the others' by a linear reader."""


class LinearProduct(NetworkOutput):
    """A linear network, written as one product: a node writes it after every step; torch's exporter takes seconds."""

    def graph(self, g: Any, x: str) -> str:
        (weight,) = self.net.parameters()
        matrix = weight.detach().numpy().T
        return g.linear(g.flat(x), g.constant("encoder.weight", matrix), matrix.shape[1])
