"""The server's side of D-EIGAN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from tacit.errors import TacitError
from tacit.federated.local import parameters_of
from tacit.federated.protocol import (
    SERVER,
    Arrays,
    Message,
    ProtocolError,
    aggregate,
    choose_indices,
    follow,
    pack,
    sift,
    traffic,
)
from tacit.federated.schema import agree, make_common_encoder
from tacit.filters.eigan import one_hidden
from tacit.games.stack import Stack, choose_batch_size

if TYPE_CHECKING:
    from tacit.federated.eigan import DistributedEIGAN

DOWN = 22  # the stream of random numbers of downlinks, apart from those of the games
SCALING = "scaling/"
RETRIES = 2


class EiganCoordinator:
    """The server of D-EIGAN: agrees on columns and scaling, then opens rounds and merges what comes back.

    It may be killed at any time: `state` after `receive` is all it needs to go on from the last finished round.
    """

    def __init__(self, f: DistributedEIGAN, names: Sequence[str], min_nodes: int = 1) -> None:
        self.f, self.names, self.min_nodes = f, list(names), min_nodes
        self.seed = int(check_random_state(f.random_state).randint(2**31 - 1))
        self.phase, self.round, self.retries = "recruiting", 0, 0
        self.members: dict[str, int] = {}  # node -> records; their order gives each node its seed
        self.in_step: set[str] = set()  # nodes that hold what the last round left
        self.current: dict[str, np.ndarray] = {}
        self.agreed: tuple[dict[str, Any], dict[str, np.ndarray]] = ({}, {})
        self.log: list[dict[str, Any]] = []
        self._sent: list[Message] = []

    @property
    def finished(self) -> bool:
        return self.phase == "finished"

    @property
    def n_rounds(self) -> int:
        """From the agreed epochs; with steps as the unit, the node with most steps an epoch decides."""
        if self.f.sync_unit == "epoch":
            return math.ceil(self.f.epochs / self.f.sync_every)
        per_epoch = max(n // min(choose_batch_size(self.f.batch_size, n), n) for n in self.members.values())
        return math.ceil(self.f.epochs * max(1, per_epoch) / self.f.sync_every)

    def requests(self, available: Sequence[str] | None = None) -> list[Message]:
        """What to send now. `available` are the nodes that can be reached (all by default); one that turned up
        after the start is asked for its columns first, and trains from the next round on."""
        available = self.names if available is None else list(available)
        asked = {
            "categories": None if self.f.categories is None else {k: list(v) for k, v in self.f.categories.items()}
        }
        if self.phase == "recruiting":
            self.phase = follow(SERVER, self.phase, "describe")
            self._sent = [Message("describe", n, -1, asked) for n in available]
        else:
            self.phase = follow(SERVER, self.phase, "open")
            rng = np.random.default_rng((self.seed, self.round, DOWN))
            some = pack(self.current, choose_indices(self.current, self.f.share, rng))
            self._sent = [self._train(n, some) for n in available if n in self.members]
            self._sent += [Message("describe", n, self.round, asked) for n in available if n not in self.members]
        return self._sent

    def _train(self, node: str, some: Arrays) -> Message:
        facts = {"count": self.f.sync_every, "unit": self.f.sync_unit}
        if node in self.in_step:
            return Message("train", node, self.round, facts, some)
        # new, or it missed a round: the whole encoder, and what it needs to begin
        begin = {"agreed": self.agreed[0], "seed": self.seed, "position": list(self.members).index(node)}
        scaling = {SCALING + k: v for k, v in self.agreed[1].items()}
        return Message("train", node, self.round, facts | begin, pack(self.current, None) | scaling)

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        """Take the answers that came in time; `failures` says of other nodes why none came."""
        failures = dict(failures or {})
        if self.phase == "agreeing":
            return self._receive_descriptions(answers, failures)
        late = [m for m in answers if m.kind == "description"]
        trained = [m for m in answers if m.kind != "description"]
        usable, rejected = sift(trained, self.current, "trained", self.round)
        line = {"round": self.round, "nodes": sorted(m.node for m in usable), "rejected": rejected, "failed": failures}
        line |= traffic(self._sent, answers)
        self.log.append(line)
        if len(usable) < self.min_nodes:
            self._retry(f"round {self.round}: {len(usable)} of at least {self.min_nodes} nodes", rejected | failures)
            self.in_step -= {*rejected, *failures}
            return None
        self.phase, self.retries = follow(SERVER, self.phase, "merge"), 0
        self.current = aggregate(self.current, usable, self.f.aggregation)
        self.members |= {m.node: int(m.facts["records"]) for m in usable}
        self.in_step = {m.node for m in usable}
        for message in late:
            self._admit(message, line)
        self.round += 1
        if self.round >= self.n_rounds:
            self.phase = follow(SERVER, self.phase, "finish")
        return None

    def _receive_descriptions(self, answers: Sequence[Message], failures: dict[str, str]) -> None:
        line = {"round": -1, "nodes": sorted(m.node for m in answers), "rejected": {}, "failed": failures}
        self.log.append(line | traffic(self._sent, answers))
        if len(answers) < max(1, self.min_nodes):
            return self._retry(f"{len(answers)} of at least {self.min_nodes} nodes described themselves", failures)
        facts, arrays = agree(answers)
        if "columns" in facts:
            facts["named"] = all(m.facts.get("named") for m in answers)
        self.phase, self.agreed, self.retries = follow(SERVER, self.phase, "agree"), (facts, arrays), 0
        order = self.names or sorted(m.node for m in answers)
        records = {m.node: int(m.facts["records"]) for m in answers}
        self.members = {n: records[n] for n in order if n in records}
        self.current = parameters_of(self.new_encoder())
        return None

    def _admit(self, message: Message, line: dict[str, Any]) -> None:
        """A node that came later: it must have the agreed columns; its words that nobody had become "other"."""
        facts, arrays = self.agreed
        told = Message("description", "the federation", -1, {**facts, "records": 1}, arrays)
        try:
            agree([message, told, told])
        except TacitError as error:
            line["rejected"][message.node] = str(error)
        else:
            self.members[message.node] = int(message.facts["records"])

    def _retry(self, what: str, reasons: Mapping[str, str]) -> None:
        self.phase = follow(SERVER, self.phase, "retry")
        self.retries += 1
        if self.retries > RETRIES:
            told = "; ".join(f"{n}: {why}" for n, why in reasons.items()) or "no answer came"
            raise ProtocolError(f"{what} can be used, {self.retries} times in a row ({told})")

    def new_encoder(self) -> Any:
        """An encoder of the agreed width with the common start."""
        encoder = make_common_encoder(*self.agreed)
        shape = self.agreed[0].get("shape")
        n_in: Any = encoder.n_out if shape is None else shape[0] if len(shape) == 1 else tuple(shape)  # type: ignore[union-attr]
        make = self.f.encoder or one_hidden
        return Stack(lambda: make(n_in, self.f.n_components), [self.seed]).module(0)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {f"encoder/{k}": v for k, v in self.current.items()}
        arrays |= {SCALING + k: v for k, v in self.agreed[1].items()}
        facts = {"phase": self.phase, "round": self.round, "seed": self.seed, "members": self.members}
        return arrays, {**facts, "in_step": sorted(self.in_step), "agreed": self.agreed[0], "log": self.log}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        self.current = {k.removeprefix("encoder/"): v for k, v in arrays.items() if k.startswith("encoder/")}
        scaling = {k.removeprefix(SCALING): v for k, v in arrays.items() if k.startswith(SCALING)}
        self.agreed = dict(facts["agreed"]), scaling
        self.phase, self.round, self.seed = facts["phase"], facts["round"], facts["seed"]
        self.members, self.in_step, self.log = dict(facts["members"]), set(facts["in_step"]), list(facts["log"])
