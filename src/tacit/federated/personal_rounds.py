"""Both sides of PersonalMinimax (Algorithm 3): the aggregator, which passes samples on, and a contributor."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tacit.errors import InputError
from tacit.federated.node import Node, naming
from tacit.federated.protocol import Arrays, Message, ProtocolError, fault_of_arrays
from tacit.federated.rounds import Rounds
from tacit.federated.samples_of_others import LeastSquares, made_samples, statistics_of, sums_of, weighted_softmax
from tacit.federated.states import Kept
from tacit.filters.base import Filter, Preparation, finish_fit
from tacit.filters.mechanism import Learned, NetworkOutput
from tacit.filters.minimax import MinimaxFilter, linear_net
from tacit.labels import MISSING, encode_labels
from tacit.records.fingerprints import Memory
from tacit.solvers.heads import Weighted
from tacit.solvers.inner import LinearCode
from tacit.solvers.kiwiel import kiwiel

LARGEST = 1e12  # inputs are scaled, so that filtered samples (and sums of their squares) come nowhere near


class Aggregator(Rounds):
    """Main routine of Algorithm 3: collects filtered samples and labels, and hands them to the contributors.

    A contributor that cannot be reached loses its turn; the others see the samples it sent last. One that comes later
    is asked for its samples, and takes part from the next round on.
    """

    kept = (*Rounds.kept, "held", "turn", "classes", "improved", "knows")

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 2) -> None:
        super().__init__(f, names, min_nodes)
        self.n_rounds, self.turn = f.rounds, 0
        self.held: dict[str, dict[str, np.ndarray]] = {}  # by contributor: samples or statistics, and labels
        self.classes: list[Any] = []
        self.improved = 0  # filters, in this round
        self.knows: dict[str, list[int]] = {}  # by contributor: of whom it has the labels, which do not change

    @property
    def _asked(self) -> list[str]:
        members = list(self.members)
        return [members[self.turn]] if self.f.order == "sequential" else members

    def _first(self, node: str, round_: int) -> Message:
        return Message("begin", node, round_)

    def _open(self, nodes: Sequence[str]) -> list[Message]:
        """The others' samples, under numbers instead of their names."""
        out = []
        for node in nodes:
            arrays: dict[str, np.ndarray] = {}
            for i, name in enumerate(self.members):
                known = i in self.knows.get(node, [])
                held = {} if name == node else self.held[name]
                arrays |= {f"{i}/{k}": v for k, v in held.items() if k != "labels" or not known}
            out.append(Message("improve", node, self.round, {"classes": self.classes}, arrays))
        return out

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        usable = self._sift(answers, self._fault_of_first, line)
        for node, fault in line["rejected"].items() if self.names else ():
            raise ProtocolError(f"contributor {node!r} {fault}; repair it, or leave it out")
        line["bytes_samples"] = self._as_samples(answers)
        if why := self._too_few(usable):
            return why
        self.classes = sorted({c for m in usable for c in m.facts["classes"]}, key=str)
        for message in sorted(usable, key=lambda m: self.names.index(m.node) if self.names else m.node):
            self._take(message)
        return None

    def _merge(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        sent = {m.node for m in self._sent}
        line["bytes_samples"] = self._as_samples(answers)
        if self.f.order != "asynchronous":  # there nobody is waited for
            line["failed"] |= {n: "cannot be reached" for n in self._asked if n not in sent}
        improved = self._sift([m for m in answers if m.kind != "filtered"], self._fault, line)
        for message in improved:
            self.held[message.node] |= dict(message.arrays)
            self.knows[message.node] = list(range(len(self.members)))
        self.improved += len(improved)
        for node in {*line["rejected"], *line["failed"]}:  # it may have lost what it was told
            self.knows.pop(node, None)
        for message in self._sift([m for m in answers if m.kind == "filtered"], self._fault_of_late, line):
            self._take(message)
        if self.f.order == "asynchronous":  # a round is as many answers as there are contributors, whoever they are of
            self.round, self.improved = (
                self.round + self.improved // len(self.members),
                self.improved % len(self.members),
            )
            return None if improved else "nobody improved its filter"
        self.turn = 0 if self.f.order == "parallel" else (self.turn + 1) % len(self.members)
        if self.turn == 0 and not self.improved:
            return "nobody improved its filter"
        if self.turn == 0:
            self.round, self.improved = self.round + 1, 0
        return None

    def _take(self, message: Message) -> None:
        """A contributor's first samples, in the order of all classes."""
        place = np.array([self.classes.index(c) for c in message.facts["classes"]], dtype=np.int64)
        held = dict(message.arrays)
        if "labels" in held:
            held["labels"] = np.where(held["labels"] == MISSING, MISSING, place[held["labels"]])
        else:
            for name, array in message.arrays.items():
                held[name] = np.zeros((len(self.classes), *array.shape[1:]), dtype=array.dtype)
                held[name][place] = array
        self.held[message.node], self.members[message.node] = held, _number(held)

    # -- what cannot be used --------------------------------------------------------------------

    def _fault_of_first(self, message: Message) -> str | None:
        """What is wrong with a contributor's first samples; None if nothing is."""
        if message.kind != "filtered" or message.node in self.members:
            return f"answered {message.kind!r}, expected 'filtered' once"
        classes, arrays = message.facts.get("classes"), message.arrays
        if not isinstance(classes, list) or not all(isinstance(c, str | int | float | bool) for c in classes):
            return "sent classes of the target that cannot be read"
        m, width, n = len(classes), self.f.start.n_components_, _number(arrays)
        shapes: dict[str, tuple[int, ...]] = {"samples": (n, width), "labels": (n,)}
        if self.f.exchange == "statistics":
            shapes = {"counts": (m,), "means": (m, width), "scatter": (m, width * (width + 1) // 2)}
        if fault := fault_of_arrays(arrays, shapes, LARGEST):
            return fault
        if (arrays.get("counts", np.zeros(1)) < 0).any():
            return "'counts' holds negative numbers"
        if n and "labels" in shapes:
            labels = arrays["labels"]
            if labels.dtype.kind not in "iu" or labels.min() < MISSING or labels.max() >= m:
                return f"sent labels outside its {m} classes"
            n = int((labels != MISSING).sum())
        return None if n > 0 and m > 0 else "has no record with a target"

    def _fault_of_late(self, message: Message) -> str | None:
        """The targets of contributors that came later must be those of the others."""
        fault = self._fault_of_first(message)
        for new in [c for c in message.facts["classes"] if c not in self.classes] if fault is None else ():
            return f"has the target {new!r}, which nobody had at the start"
        return fault

    def _fault(self, message: Message) -> str | None:
        """What is wrong with improved samples; None if nothing is."""
        late = self.f.order == "asynchronous" and 0 <= message.round < self.round
        if message.kind != "improved" or (message.round != self.round and not late):
            return f"answered {message.kind!r} of round {message.round}, expected 'improved' of round {self.round}"
        if message.node not in self._asked:
            return "answered without being asked"
        before = {k: v for k, v in self.held[message.node].items() if k != "labels"}
        fault = fault_of_arrays(message.arrays, {k: v.shape for k, v in before.items()}, LARGEST)
        if fault is None and "counts" in before and not np.array_equal(message.arrays["counts"], before["counts"]):
            return "sent other counts than at the start"
        return fault

    def _as_samples(self, answers: Sequence[Message]) -> int:
        """Bytes of the same messages with samples instead of statistics (which say how many there are)."""
        messages = [*self._sent, *answers]
        if self.f.exchange == "samples":
            return sum(m.nbytes for m in messages)
        per_row = 8 * self.f.start.n_components_
        return sum(
            _number({"counts": a}) * (per_row + (8 if m.round <= 0 else 0))
            for m in messages
            for k, a in m.arrays.items()
            if k.endswith("counts")
        )


def _number(arrays: Arrays) -> int:
    """How many samples these are, or are of."""
    if "counts" in arrays:  # which may still be anything: a usable sum is below 2**53
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(arrays["counts"].sum(dtype=np.float64))
        return int(total) if abs(total) < 2**53 else 0
    return len(arrays["samples"]) if arrays.get("samples", np.zeros(())).ndim else 0


class Contributor(Kept):
    """Contributor's routine of Algorithm 3: improves its own filter, sends its filtered samples."""

    kept = ("u", "step", "history", "labels")

    def __init__(self, f: Any, node: Node) -> None:
        self.f, self.node, self.name = f, node, str(node.name)
        with naming(f"contributor {self.name!r}"):
            self.X = np.ascontiguousarray(f.start.mechanism_.schema.encode(node.X).reshape(len(node), -1))
            labels = encode_labels(node.y, "y", len(node), min_classes=1)
            if len(labels) != 1:
                raise InputError(f"y must be one target; found {len(labels)} columns")
        self.mine = [c.item() if isinstance(c, np.generic) else c for c in labels.classes[0]]
        self.codes = labels.codes[:, 0]
        self.known = self.codes != MISSING
        (weight,) = f.start.encoder_module_.parameters()
        self.u = self._begun = weight.detach().numpy().flatten()
        self.step, self.history = 1.0, list[float]()
        self.labels: dict[str, np.ndarray] = {}  # of the others, handed out once

    def digest(self) -> str:
        """Of this contributor's data and the common filter, to know a checkpoint of others."""
        return hashlib.sha256(self.X.tobytes() + self.codes.tobytes() + self._begun.tobytes()).hexdigest()

    def own_filter(self) -> Filter | None:
        """The filter that stays here; None while it is still the common one."""
        return self.filter() if self.history else None

    def filter(self) -> MinimaxFilter:
        """This contributor's own filter; it knows the contributor's rows, and the public ones, again."""
        common = self.f.start.mechanism_
        own = PersonalFilter(**self.f.start.get_params(deep=False))
        own.__dict__.update({k: v for k, v in vars(self.f.start).items() if k.endswith("_") and k != "mechanism_"})
        own.encoder_module_ = linear_net(self.u.reshape(own.n_components_, -1).T.copy()).eval()
        memory = common.memory or Memory(np.empty(0, dtype=np.uint64))
        known = Preparation(common.schema, memory.joined(common.schema.check(self.node.X), None))
        finish_fit(own, None, Learned(LinearProduct(own.encoder_module_), own.n_components_), known)
        return own

    def work(self, message: Message) -> Message:
        """Answer the aggregator."""
        if message.kind == "begin":
            return self._answer("filtered", message.round, self.codes, self.mine)
        if message.kind != "improve":
            raise ProtocolError(f"contributor {self.name!r} knows 'begin' and 'improve'; found {message.kind!r}")
        self.labels |= {k: v for k, v in message.arrays.items() if k.endswith("/labels")}
        classes = list(message.facts["classes"])
        codes = np.array([classes.index(c) for c in self.mine], dtype=np.int64)[self.codes]
        self._improve(self._others(message.arrays), codes[self.known], len(classes))
        return self._answer("improved", message.round, codes, classes)

    def _answer(self, kind: str, round_: int, codes: np.ndarray, classes: list[Any]) -> Message:
        first = kind == "filtered"
        z = LinearCode(torch.from_numpy(self.X), self.f.start.n_components_)(torch.from_numpy(self.u)).numpy()
        arrays = {"samples": z} | ({"labels": codes} if first else {})
        if self.f.exchange == "statistics":
            arrays = statistics_of(z[self.known], codes[self.known], len(classes))
        return Message(kind, self.name, round_, {"classes": classes} if first else {}, arrays)

    def _improve(self, others: list[dict[str, np.ndarray]], own: np.ndarray, n_classes: int) -> None:
        """A few steps of Algorithm 2 on eq. 19."""
        adversary, ally = self._heads(own, others, n_classes)
        result = kiwiel(
            Weighted(adversary, -1.0),
            torch.from_numpy(self.u),
            adversary.start(),
            code=LinearCode(torch.from_numpy(self.X[self.known]), self.f.start.n_components_),
            ally=Weighted(ally, self.f.rho),
            w=ally.start(),
            max_iter=self.f.steps,
            tolerance=1e-9,
            step=self.step,
            inner_tolerance=1e-7,
            inner_max_iter=50,
        )
        self.u, self.step = result.u.numpy(), max(result.step, 1e-6)
        self.history.append(result.phi)

    def _others(self, told: Arrays) -> list[dict[str, np.ndarray]]:
        """By contributor, in the order of their places: samples and labels, or statistics."""
        parts: dict[int, dict[str, np.ndarray]] = {}
        for key, value in {**told, **self.labels}.items():
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
        mine = np.ones(n, dtype=int), np.full(n, 1 / n)
        samples = [_with_target(p) for p in parts]
        if self.f.loss == "squared":
            told = [p if z is None else statistics_of(*z, m) for p, z in zip(parts, samples, strict=True)]
            gram, cross = (np.sum(sums, axis=0) for sums in zip(*map(sums_of, told), strict=True))
            rest = float(gram[-1, -1])
            others = np.column_stack([gram[:, -1] / rest, np.zeros(len(gram))])
            return LeastSquares(*mine, gram / rest, others, ridge), LeastSquares(own, np.ones(n), gram, cross, ridge)
        made = [made_samples(p) if z is None else (*z, np.ones(len(z[0]))) for p, z in zip(parts, samples, strict=True)]
        rows, codes, weights = (np.concatenate(x) for x in zip(*made, strict=True))
        side = np.zeros(len(rows), dtype=int), weights / weights.sum()
        adversary = weighted_softmax(*mine, rows, *side, 2, ridge)
        return adversary, weighted_softmax(own, np.ones(n), rows, codes, weights, m, ridge)


def _with_target(part: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Samples that have a target, and their targets; None of statistics."""
    if "samples" not in part:
        return None
    known = part["labels"] != MISSING
    return part["samples"][known], part["labels"][known]


class PersonalFilter(MinimaxFilter):
    """One contributor's filter: its samples cannot be told from the others' by a linear reader."""


class LinearProduct(NetworkOutput):
    """A linear network, written as one product: a node writes it after every step; torch's exporter takes seconds."""

    def graph(self, g: Any, x: str) -> str:
        (weight,) = self.net.parameters()
        matrix = weight.detach().numpy().T
        return g.linear(g.flat(x), g.constant("encoder.weight", matrix), matrix.shape[1])
