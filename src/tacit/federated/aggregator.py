"""The aggregator of PersonalMinimax: the server's side of Algorithm 3. It passes on what contributors send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.federated.agreement import Rounds
from tacit.federated.protocol import SERVER, Arrays, Message, ProtocolError, follow
from tacit.labels import MISSING

LARGEST = 1e12  # inputs are scaled, so that filtered samples (and sums of their squares) come nowhere near


class Aggregator(Rounds):
    """Main routine of Algorithm 3: collects filtered samples and labels, and hands them to the contributors.

    A contributor that cannot be reached loses its turn; the others see the samples it sent last. One that comes later
    is asked for its samples, and takes part from the next round on.
    """

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 2) -> None:
        super().__init__(names, min_nodes)
        self.f, self.turn = f, 0
        self.held: dict[str, dict[str, np.ndarray]] = {}  # by contributor: samples or statistics, and labels
        self.classes: list[Any] = []
        self.improved = 0  # filters, in this round
        self.knows: dict[str, list[int]] = {}  # by contributor: of whom it has the labels, which do not change

    @property
    def n_rounds(self) -> int:
        return self.f.rounds

    def _recruit(self, nodes: Sequence[str], round_: int = -1) -> list[Message]:
        return [Message("begin", n, round_) for n in nodes]

    def _open(self, available: Sequence[str]) -> list[Message]:
        late = [n for n in available if n not in self.members]
        return [self._improve(n) for n in self._asked if n in available] + self._recruit(late, self.round)

    @property
    def _asked(self) -> list[str]:
        """Whose turn it is."""
        members = list(self.members)
        return members if self.f.order == "parallel" else [members[self.turn]]

    def _improve(self, node: str) -> Message:
        """The others' samples, under numbers instead of their names."""
        arrays: dict[str, np.ndarray] = {}
        for i, name in enumerate(self.members):
            if name != node:
                known = i in self.knows.get(node, [])
                arrays |= {f"{i}/{k}": v for k, v in self.held[name].items() if k != "labels" or not known}
        return Message("improve", node, self.round, {"classes": self.classes}, arrays)

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        line = self._line(-1 if self.phase == "agreeing" else self.round, answers, failures)
        line["bytes_samples"] = sum(self._as_samples(m) for m in [*self._sent, *answers])
        if self.phase == "agreeing":
            return self._begin(answers, line)
        sent = {m.node for m in self._sent}
        line["failed"] |= {n: "cannot be reached" for n in self._asked if n not in sent}
        for message in (m for m in answers if m.kind != "filtered"):
            fault = self._fault(message)
            if fault is None:
                self.held[message.node] |= dict(message.arrays)
                self.knows[message.node] = list(range(len(self.members)))
                line["nodes"].append(message.node)
            else:
                line["rejected"][message.node] = fault
        self.improved += len(line["nodes"])
        for node in {*line["rejected"], *line["failed"]}:  # it may have lost what it was told
            self.knows.pop(node, None)
        self._admit([m for m in answers if m.kind == "filtered"], line)
        self._next(line)

    def _next(self, line: Mapping[str, Any]) -> None:
        """The next turn; a round in which nobody could improve its filter is held again."""
        self.turn = 0 if self.f.order == "parallel" else (self.turn + 1) % len(self.members)
        if self.turn == 0 and not self.improved:
            return self._retry(f"round {self.round}: nobody improved its filter", line)
        self.phase = follow(SERVER, self.phase, "merge")
        if self.turn == 0:
            self.round, self.improved, self.retries = self.round + 1, 0, 0
        if self.round >= self.f.rounds:
            self.phase = follow(SERVER, self.phase, "finish")
        return None

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> None:
        usable = []
        for message in answers:
            fault = self._fault_of_first(message)
            if fault is None:
                usable.append(message)
            elif self.names:
                raise ProtocolError(f"contributor {message.node!r} {fault}; repair it, or leave it out")
            else:
                line["rejected"][message.node] = fault
        if len(usable) < self.min_nodes:
            return self._retry(f"{len(usable)} of at least {self.min_nodes} contributors can be used", line)
        self.classes = sorted({c for m in usable for c in m.facts["classes"]}, key=str)
        for message in sorted(usable, key=lambda m: self.names.index(m.node) if self.names else m.node):
            self._take(message, line)
        self.phase, self.retries = follow(SERVER, self.phase, "agree"), 0
        return None

    def _admit(self, messages: Sequence[Message], line: dict[str, Any]) -> None:
        """Contributors that came later: their targets must be those of the others."""
        for message in messages:
            fault = self._fault_of_first(message)
            new = [] if fault else [c for c in message.facts["classes"] if c not in self.classes]
            if new:
                fault = f"has the target {new[0]!r}, which nobody had at the start"
            if fault is None:
                self._take(message, line)
            else:
                line["rejected"][message.node] = fault

    def _take(self, message: Message, line: dict[str, Any]) -> None:
        held = dict(message.arrays)
        place = np.array([self.classes.index(c) for c in message.facts["classes"]], dtype=np.int64)
        if "labels" in held:
            held["labels"] = np.where(held["labels"] == MISSING, MISSING, place[held["labels"]])
        else:
            held = {k: _placed(v, place, len(self.classes)) for k, v in held.items()}
        self.held[message.node] = held
        self.members[message.node] = _number(held)
        line["nodes"].append(message.node)

    # -- what cannot be used --------------------------------------------------------------------

    def _fault_of_first(self, message: Message) -> str | None:
        """What is wrong with a contributor's first samples; None if nothing is."""
        if message.kind != "filtered" or message.node in self.members:
            return f"answered {message.kind!r}, expected 'filtered' once"
        classes = message.facts.get("classes")
        if not isinstance(classes, list) or not all(isinstance(c, str | int | float | bool) for c in classes):
            return "sent classes of the target that cannot be read"
        m, width, n = len(classes), self.f.start.n_components_, _number(message.arrays)
        shapes: dict[str, tuple[int, ...]] = {"samples": (n, width), "labels": (n,)}
        if self.f.exchange == "statistics":
            shapes = {"counts": (m,), "means": (m, width), "scatter": (m, width * (width + 1) // 2)}
        fault = _fault_of_arrays(message.arrays, shapes)
        if fault is not None:
            return fault
        if "labels" in shapes:
            labels = message.arrays["labels"]
            if labels.dtype.kind not in "iu" or labels.min() < MISSING or labels.max() >= m:
                return f"sent labels outside its {m} classes"
            n = int((labels != MISSING).sum())
        return None if n > 0 and m > 0 else "has no record with a target"

    def _fault(self, message: Message) -> str | None:
        """What is wrong with improved samples; None if nothing is."""
        if message.kind != "improved" or message.round != self.round:
            return f"answered {message.kind!r} of round {message.round}, expected 'improved' of round {self.round}"
        if message.node not in self._asked:
            return "answered without being asked"
        before = {k: v for k, v in self.held[message.node].items() if k != "labels"}
        fault = _fault_of_arrays(message.arrays, {k: v.shape for k, v in before.items()})
        if fault is None and "counts" in before and not np.array_equal(message.arrays["counts"], before["counts"]):
            return "sent other counts than at the start"
        return fault

    def _as_samples(self, message: Message) -> int:
        """Bytes of the same message with samples instead of statistics (which say how many there are)."""
        if self.f.exchange == "samples":
            return message.nbytes
        parts = [{"counts": a} for k, a in message.arrays.items() if k.endswith("counts")]
        per_row = 8 * self.f.start.n_components_ + (8 if message.round <= 0 else 0)
        return sum(_number(part) for part in parts) * per_row

    # -- what survives a restart ----------------------------------------------------------------

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        places = list(self.members)
        arrays = {f"{places.index(n)}/{k}": v for n, held in self.held.items() for k, v in held.items()}
        mine = {"turn": self.turn, "classes": self.classes, "improved": self.improved, "knows": self.knows}
        return arrays, super().state()[1] | mine

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        super().restore(arrays, facts)
        places = list(self.members)
        self.held = {name: {} for name in places}
        for key, value in arrays.items():
            place, name = key.split("/", 1)
            self.held[places[int(place)]][name] = value
        self.turn, self.classes, self.improved = facts["turn"], list(facts["classes"]), facts["improved"]
        self.knows = {n: list(known) for n, known in facts["knows"].items()}


def _number(arrays: Arrays) -> int:
    """How many samples these are, or are of."""
    if "counts" in arrays:  # which may still be anything: a usable sum is below 2**53
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(arrays["counts"].sum(dtype=np.float64))
        return int(total) if abs(total) < 2**53 else 0
    return len(arrays["samples"]) if arrays.get("samples", np.zeros(())).ndim else 0


def _fault_of_arrays(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    for name in sorted(set(arrays) ^ set(shapes)):
        return f"sent {'no' if name in shapes else 'an unknown'} array {name!r}"
    for name, shape in shapes.items():
        array = arrays[name]
        if array.dtype.kind not in "fiu" or array.shape != shape or not array.size:
            return f"sent {name!r} of shape {array.shape} and type {array.dtype}; expected numbers of shape {shape}"
        if not np.isfinite(array).all() or (name == "counts" and (array < 0).any()):
            return f"sent {name!r} with NaN, infinity or negative counts"
        if name != "labels" and np.abs(array.astype(np.float64)).max() > LARGEST:
            return f"sent {name!r} with numbers beyond {LARGEST:g}"
    return None


def _placed(array: np.ndarray, place: np.ndarray, n_classes: int) -> np.ndarray:
    """Statistics by a contributor's own classes, in the order of all classes."""
    out = np.zeros((n_classes, *array.shape[1:]), dtype=array.dtype)
    out[place] = array
    return out
