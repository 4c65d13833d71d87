"""Around the rounds: who takes part, what columns and scaling they agree on, and what happens when too few answer.

What every coordinator and every worker needs, whatever they learn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.federated.common_schema import STATISTICS, SchemaMismatch, agree, agree_among, describe, make_common_encoder
from tacit.federated.node import Grants, Node, crowd_of, naming
from tacit.federated.protocol import (
    MAX_RECORDS,
    NODE,
    SERVER,
    Arrays,
    Kept,
    Message,
    ProtocolError,
    follow,
    over,
    sift,
)
from tacit.filters.base import Filter
from tacit.labels import encode_labels
from tacit.records.dataset import unit_columns
from tacit.records.fingerprints import Memory, fingerprints
from tacit.records.intake import Intake, check_records

RETRIES = 2
SCALING = "scaling/"


class Rounds(Kept):
    """What any coordinator keeps: phase, round, members, and a line about every exchange.

    Nodes that are named beforehand (as in one process) have to fit in, all of them: one that does not raises. Without
    names whoever comes is asked, and who does not fit in is left out by name: of nodes on other machines none may stop
    the others. It may be killed at any time: `state` after `receive` is all it needs to resume.
    """

    kept: Sequence[str] = ("phase", "round", "members", "log")
    n_rounds: int
    admits = True  # nodes that come after the first round

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        self.f, self.names, self.min_nodes = f, list(names), max(1, min_nodes)
        self.phase, self.round, self.retries = "recruiting", 0, 0
        self.members: dict[str, int] = {}  # node -> records, in the order in which they came
        self.log: list[dict[str, Any]] = []
        self._sent: list[Message] = []

    @property
    def finished(self) -> bool:
        return self.phase == "finished"

    def requests(self, available: Sequence[str] | None = None) -> list[Message]:
        """What to send now. `available` are the nodes that can be reached, all by default."""
        available = self.names if available is None else list(available)
        begun = self.phase != "recruiting"
        self.phase = follow(SERVER, self.phase, "open" if begun else "describe")
        self._sent = self._open([n for n in self._asked if n in available]) if begun else []
        new = [n for n in available if n not in self.members] if self.admits or not begun else []
        self._sent += [self._first(n, self.round if begun else -1) for n in new]
        return self._sent

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        """Take the answers that came in time; `failures` says of other nodes why none came."""
        begun, before = self.phase == "collecting", self.round
        line: dict[str, Any] = {"round": self.round if begun else -1, "nodes": [], "rejected": {}}
        line |= {"failed": dict(failures or {}), "bytes_down": _bytes(self._sent), "bytes_up": _bytes(answers)}
        self.log.append(line)
        why = self._merge(answers, line) if begun else self._begin(answers, line)
        if why is not None:
            return self._retry(why, line)
        self.phase = follow(SERVER, self.phase, "merge" if begun else "agree")
        self.retries = 0 if not begun or self.round > before else self.retries
        if self.round >= self.n_rounds:
            self.phase = follow(SERVER, self.phase, "finish")
        return None

    def _retry(self, why: str, line: Mapping[str, Any]) -> None:
        """Ask again; after too many times in a row, give up and say who was left out and why."""
        self.phase, self.retries = follow(SERVER, self.phase, "retry"), self.retries + 1
        if self.retries > RETRIES:
            told = "; ".join(f"{n}: {fault}" for n, fault in (line["rejected"] | line["failed"]).items())
            where = "the beginning" if line["round"] < 0 else f"round {line['round']}"
            raise ProtocolError(f"{where}: {why}, {self.retries} times in a row ({told or 'no answer came'})")

    def _sift(
        self, answers: Sequence[Message], fault_of: Callable[[Message], str | None], line: dict[str, Any]
    ) -> list[Message]:
        """The answers that can be used; the log says which, and why others cannot."""
        usable, rejected = sift(answers, fault_of)
        line["rejected"] |= rejected
        line["nodes"] += sorted(m.node for m in usable)
        return usable

    def _too_few(self, usable: Sequence[Message]) -> str | None:
        few = len(usable) < self.min_nodes
        return f"{len(usable)} of at least {self.min_nodes} nodes can be used" if few else None

    @property
    def _asked(self) -> list[str]:
        """Whose turn it is."""
        return list(self.members)

    # what a coordinator says of its own rounds: what a node is asked first, and the messages of a round; how the first
    # answers are taken, and those of a round (or why they are not enough, so that they are asked for again)
    _first: Callable[[str, int], Message]
    _open: Callable[[list[str]], list[Message]]
    _begin: Callable[[Sequence[Message], dict[str, Any]], str | None]
    _merge: Callable[[Sequence[Message], dict[str, Any]], str | None]


class AgreeingCoordinator(Rounds):
    """A coordinator whose nodes first agree on columns and scaling; later ones must have the agreed columns."""

    kept: Sequence[str] = (*Rounds.kept, "columns", "scaling")

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(f, names, min_nodes)
        self.columns: dict[str, Any] = {}
        self.scaling: dict[str, np.ndarray] = {}

    @property
    def agreed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return self.columns, self.scaling

    def _agreement(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays of a message from which a node learns what was agreed."""
        return {"agreed": self.columns}, over(SCALING, self.scaling)

    def _first(self, node: str, round_: int) -> Message:
        fixed = None if self.f.categories is None else {k: list(v) for k, v in self.f.categories.items()}
        return Message("describe", node, round_, {"categories": fixed})

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        if self.names and answers:
            facts, scaling = agree(answers)
        else:
            answers, facts, scaling, line["rejected"] = agree_among(answers)
        line["nodes"] = sorted(m.node for m in answers)
        if why := self._too_few(answers):
            return why
        if "columns" in facts:
            facts["named"] = all(m.facts.get("named") for m in answers)
        if getattr(self.f, "robust", None):  # one node's numbers must not shift the scaling of all
            votes = {word: np.array([m.arrays[word] for m in answers], dtype=float) for word in STATISTICS}
            scaling = {word: np.median(v, axis=0) for word, v in votes.items()} | {"count": scaling["count"]}
        self.columns, self.scaling = facts, scaling
        records = {m.node: int(m.facts["records"]) for m in answers}
        self.members = {n: records[n] for n in self.names or sorted(records) if n in records}
        return None

    def _admit(self, messages: Sequence[Message], line: dict[str, Any]) -> None:
        """Nodes that came later: their words that nobody had become "other"."""
        told = Message("description", "the federation", -1, {**self.columns, "records": MAX_RECORDS}, self.scaling)
        for message in messages:
            try:
                agree([message, told, told])
            except SchemaMismatch as error:
                line["rejected"][message.node] = str(error)
            else:
                self.members[message.node] = int(message.facts["records"])


class AgreeingWorker(Kept):
    """A node that describes its columns, then does its task; `f` is a filter of its own that checks the records."""

    kept = ("phase",)
    grants: Grants | None = None  # where answers leave the machine
    task: str  # what it is asked in a round

    def __init__(self, f: Any, node: Node) -> None:
        self.f, self.node, self.name, self.phase = f, node, str(node.name), "new"
        with naming(f"node {self.name!r}"):
            self._records: Any = check_records(f, node.X, None)
        self.fingerprints = fingerprints(self._records)
        units = unit_columns(node.units, len(node))
        self.units = None if units is None else np.unique(next(iter(units.values())).astype(str))

    def digest(self) -> str:
        """Of this node's data, to know a checkpoint of other data."""
        return hashlib.sha256(self.fingerprints.tobytes() + self.codes.tobytes()).hexdigest()

    @property
    def codes(self) -> np.ndarray:
        """Of all label columns."""
        labels = (self.node.y, self.node.sensitive_features)
        codes = [encode_labels(v, "labels", len(self.node), min_classes=1).codes for v in labels]
        return np.concatenate(codes, axis=1)

    def own_filter(self) -> Filter | None:
        return None

    def work(self, message: Message) -> Message:
        """Answer the server."""
        if message.kind == "describe":
            self.phase = follow(NODE, self.phase, "describe")
            crowd = None if self.grants is None else replace(crowd_of(self.node), min_people=self.grants.min_count)
            told = describe(self._records, self.name, message.facts.get("categories"), crowd)
            facts = {**told.facts, "named": hasattr(self.f, "feature_names_in_")}
            return Message("description", self.name, message.round, facts, told.arrays)
        if message.kind != self.task:
            raise ProtocolError(f"node {self.name!r} knows 'describe' and {self.task!r}; found {message.kind!r}")
        if "agreed" in message.facts and self.phase != "started":
            self.phase = follow(NODE, self.phase, "start")
            self._begin(message)
        self.phase = follow(NODE, self.phase, "train")
        return self._answer(message)

    _answer: Callable[[Message], Message]  # does the task of a round

    def _begin(self, message: Message) -> None:
        """Take what was agreed."""


def agreed_preparation(
    f: Any, agreed: tuple[Mapping[str, Any], Arrays], workers: Sequence[AgreeingWorker]
) -> tuple[Intake, Memory]:
    """How records of the agreed form come in, and the rows of these nodes; those elsewhere nobody knows here."""
    prints = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *(w.fingerprints for w in workers)]))
    units = [w.units for w in workers if w.units is not None]
    memory = Memory(prints, None, np.unique(np.concatenate(units)) if units else None)
    return agreed_intake(f, agreed[0], make_common_encoder(*agreed)), memory


def agreed_intake(f: Any, facts: Mapping[str, Any], scaling: Any) -> Intake:
    """Let a filter expect records of the agreed form."""
    f.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    names = [c["name"] for c in facts["columns"]] if facts.get("named") and "shape" not in facts else None
    shape = tuple(facts["shape"]) if "shape" in facts else (len(facts["columns"]),)
    f.n_features_in_ = shape[0]
    if names is not None:
        f.feature_names_in_ = np.array(names, dtype=object)
    return Intake(type(f).__name__, shape, None if names is None else tuple(names), scaling)


def _bytes(messages: Sequence[Message]) -> int:
    return sum(m.nbytes for m in messages)
