"""Around the rounds: who takes part, what columns and scaling they agree on, and what happens when too few answer.

What every coordinator and every worker needs, whatever they learn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.federated.common_schema import SchemaMismatch, admit, agree, agree_among, describe, make_common_encoder
from tacit.federated.node import Node, naming
from tacit.federated.protocol import NODE, SERVER, Arrays, Message, ProtocolError, follow, traffic, under
from tacit.filters.base import Filter, Preparation
from tacit.labels import encode_labels
from tacit.records.dataset import unit_columns
from tacit.records.fingerprints import Memory, fingerprints
from tacit.records.intake import Intake, check_records

RETRIES = 2
SCALING = "scaling/"


class Rounds:
    """What any coordinator keeps: phase, round, members, and a line about every exchange.

    Nodes that are named beforehand (as in one process) have to fit in, all of them: one that does not raises. Without
    names whoever comes is asked, and who does not fit in is left out by name: of nodes on other machines none may stop
    the others.
    """

    def __init__(self, names: Sequence[str], min_nodes: int = 1) -> None:
        self.names, self.min_nodes = list(names), min_nodes
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
        self._sent = self._open(available) if begun else self._recruit(available)
        return self._sent

    def _recruit(self, nodes: Sequence[str], round_: int = -1) -> list[Message]:
        """What a node is asked first."""
        raise NotImplementedError

    def _open(self, available: Sequence[str]) -> list[Message]:
        """The messages of a round."""
        raise NotImplementedError

    def _line(self, round_: int, answers: Sequence[Message], failures: Mapping[str, str] | None) -> dict[str, Any]:
        """A new line of the log."""
        line: dict[str, Any] = {"round": round_, "nodes": [], "rejected": {}, "failed": dict(failures or {})}
        self.log.append(line | traffic(self._sent, answers))
        return self.log[-1]

    def _retry(self, what: str, line: Mapping[str, Any]) -> None:
        """Ask again; after too many times in a row, give up and say who was left out and why."""
        self.phase = follow(SERVER, self.phase, "retry")
        self.retries += 1
        if self.retries > RETRIES:
            told = "; ".join(f"{n}: {why}" for n, why in (line["rejected"] | line["failed"]).items())
            raise ProtocolError(f"{what}, {self.retries} times in a row ({told or 'no answer came'})")

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        facts = {"phase": self.phase, "round": self.round, "members": list(self.members.items()), "log": self.log}
        return {}, facts

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        self.phase, self.round = facts["phase"], facts["round"]
        self.members, self.log = dict(facts["members"]), list(facts["log"])


class AgreeingCoordinator(Rounds):
    """A coordinator whose nodes first agree on columns and scaling; later ones must have the agreed columns."""

    categories: Mapping[str, Sequence[str]] | None = None  # words of text columns that were fixed beforehand

    def __init__(self, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(names, min_nodes)
        self.agreed: tuple[dict[str, Any], dict[str, np.ndarray]] = ({}, {})

    def _recruit(self, nodes: Sequence[str], round_: int = -1) -> list[Message]:
        fixed = None if self.categories is None else {k: list(v) for k, v in self.categories.items()}
        return [Message("describe", n, round_, {"categories": fixed}) for n in nodes]

    def _receive_descriptions(self, answers: Sequence[Message], failures: Mapping[str, str] | None) -> bool:
        """Agree, if enough nodes can."""
        line = self._line(-1, answers, failures)
        if self.names:
            facts, arrays = agree(answers) if answers else ({}, {})
        else:
            answers, facts, arrays, line["rejected"] = agree_among(answers)
        line["nodes"] = sorted(m.node for m in answers)
        if len(answers) < max(1, self.min_nodes):
            self._retry(f"{len(answers)} of at least {self.min_nodes} nodes described themselves", line)
            return False
        if "columns" in facts:
            facts["named"] = all(m.facts.get("named") for m in answers)
        self.phase, self.agreed, self.retries = follow(SERVER, self.phase, "agree"), (facts, arrays), 0
        records = {m.node: int(m.facts["records"]) for m in answers}
        self.members = {n: records[n] for n in self.names or sorted(records) if n in records}
        return True

    def _admit(self, messages: Sequence[Message], line: dict[str, Any]) -> None:
        """Nodes that came later: their words that nobody had become "other"."""
        for message in messages:
            try:
                admit(message, *self.agreed)
            except SchemaMismatch as error:
                line["rejected"][message.node] = str(error)
            else:
                self.members[message.node] = int(message.facts["records"])

    def _agreement(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays of a message from which a node learns what was agreed."""
        return {"agreed": self.agreed[0]}, {SCALING + k: v for k, v in self.agreed[1].items()}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        told, scaling = self._agreement()
        return scaling, super().state()[1] | told

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        super().restore(arrays, facts)
        self.agreed = dict(facts["agreed"]), under(SCALING, arrays)


class AgreeingWorker:
    """A node that describes its columns; `f` is a filter of its own that checks the records."""

    def __init__(self, f: Filter, node: Node) -> None:
        self.f, self.node, self.name, self.phase = f, node, str(node.name), "new"
        with naming(f"node {self.name!r}"):
            self._records: Any = check_records(f, node.X, None)
        self.fingerprints = fingerprints(self._records)
        units = unit_columns(node.units, len(node))
        self.units = None if units is None else np.unique(next(iter(units.values())).astype(str))

    def digest(self) -> str:
        """Of this node's data, to know a checkpoint of other data."""
        labels = (self.node.y, self.node.sensitive_features)
        codes = [encode_labels(v, "labels", len(self.node), min_classes=1).codes for v in labels]
        told = [self.fingerprints.tobytes(), *(c.tobytes() for c in codes)]
        return hashlib.sha256(b"".join(told)).hexdigest()

    def own_filter(self) -> Filter | None:
        return None

    def _description(self, message: Message) -> Message:
        self.phase = follow(NODE, self.phase, "describe")
        told = describe(self._records, self.name, message.facts.get("categories"))
        facts = {**told.facts, "named": hasattr(self.f, "feature_names_in_")}
        return Message("description", self.name, message.round, facts, told.arrays)


def agreed_preparation(
    f: Any, agreed: tuple[Mapping[str, Any], Arrays], workers: Sequence[AgreeingWorker]
) -> Preparation:
    """How records of the agreed form come in, and the rows of these nodes; those elsewhere nobody knows here."""
    facts = agreed[0]
    found = [w.fingerprints for w in workers]
    units = [w.units for w in workers if w.units is not None]
    prints = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *found]))
    return Preparation(
        agreed_intake(f, facts, make_common_encoder(*agreed)),
        Memory(prints, None, np.unique(np.concatenate(units)) if units else None),
    )


def agreed_intake(f: Any, facts: Mapping[str, Any], scaling: Any) -> Intake:
    """Let a filter expect records of the agreed form."""
    f.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    names = [c["name"] for c in facts["columns"]] if facts.get("named") and "shape" not in facts else None
    shape = tuple(facts["shape"]) if "shape" in facts else (len(facts["columns"]),)
    f.n_features_in_ = shape[0]
    if names is not None:
        f.feature_names_in_ = np.array(names, dtype=object)
    return Intake(type(f).__name__, shape, None if names is None else tuple(names), scaling)
