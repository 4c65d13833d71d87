"""The server's side of D-EIGAN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tacit.federated.agreement import AgreeingCoordinator
from tacit.federated.common_schema import make_common_encoder
from tacit.federated.node_state import parameters_of
from tacit.federated.protocol import (
    SERVER,
    Arrays,
    Message,
    aggregate,
    choose_indices,
    follow,
    pack,
    under,
    usable_answers,
)
from tacit.filters.eigan import one_hidden
from tacit.training.device import choose_batch_size
from tacit.training.stack import Stack

DOWN = 22  # the stream of random numbers of downlinks, apart from those of the games


class EiganCoordinator(AgreeingCoordinator):
    """The server of D-EIGAN: agrees on columns and scaling, then opens rounds and merges what comes back.

    It may be killed at any time: `state` after `receive` is all it needs to resume from the last finished round.
    """

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(names, min_nodes)
        self.f, self.categories = f, f.categories
        self.seed = int(check_random_state(f.random_state).randint(2**31 - 1))
        self.in_step: set[str] = set()  # nodes that hold what the last round left
        self.current: dict[str, np.ndarray] = {}

    @property
    def n_rounds(self) -> int:
        """From the agreed epochs; with steps as the unit, the node with most steps an epoch decides."""
        if self.f.sync_unit == "epoch":
            return math.ceil(self.f.epochs / self.f.sync_every)
        per_epoch = max(n // min(choose_batch_size(self.f.batch_size, n), n) for n in self.members.values())
        return math.ceil(self.f.epochs * max(1, per_epoch) / self.f.sync_every)

    def _open(self, available: Sequence[str]) -> list[Message]:
        """A node that turned up after the start is asked for its columns first, and trains from the next round on."""
        rng = np.random.default_rng((self.seed, self.round, DOWN))
        some = pack(self.current, choose_indices(self.current, self.f.share, rng))
        late = [n for n in available if n not in self.members]
        return [self._train(n, some) for n in available if n in self.members] + self._recruit(late, self.round)

    def _train(self, node: str, some: Arrays) -> Message:
        facts = {"count": self.f.sync_every, "unit": self.f.sync_unit}
        if node in self.in_step:
            return Message("train", node, self.round, facts, some)
        # new, or it missed a round: the whole encoder, and what it needs to begin; its place gives it its seed
        told, scaling = self._agreement()
        begin = {**told, "seed": self.seed, "position": list(self.members).index(node)}
        return Message("train", node, self.round, facts | begin, pack(self.current, None) | scaling)

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        """Take the answers that came in time; `failures` says of other nodes why none came."""
        if self.phase == "agreeing":
            if self._receive_descriptions(answers, failures):
                self.current = parameters_of(self.new_encoder())
            return
        line = self._line(self.round, answers, failures)
        new = [m for m in answers if m.kind == "description" and m.node not in self.members]
        trained = [m for m in answers if m.kind != "description" or m.node in self.members]
        usable, line["rejected"] = usable_answers(trained, self.current, "trained", self.round)
        line["nodes"] = sorted(m.node for m in usable)
        if len(usable) < self.min_nodes:
            self.in_step -= {*line["rejected"], *line["failed"]}
            return self._retry(
                f"round {self.round}: {len(usable)} of at least {self.min_nodes} nodes can be used", line
            )
        self.phase, self.retries = follow(SERVER, self.phase, "merge"), 0
        self.current = aggregate(self.current, usable, self.f.aggregation)
        self.members |= {m.node: int(m.facts["records"]) for m in usable}
        self.in_step = {m.node for m in usable}
        self._admit(new, line)
        self.round += 1
        if self.round >= self.n_rounds:
            self.phase = follow(SERVER, self.phase, "finish")

    def new_encoder(self) -> Any:
        """An encoder of the agreed width with the common start."""
        encoder = make_common_encoder(*self.agreed)
        shape = self.agreed[0].get("shape")
        n_in: Any = encoder.n_out if shape is None else shape[0] if len(shape) == 1 else tuple(shape)  # type: ignore[union-attr]
        make = self.f.encoder or one_hidden
        return Stack(lambda: make(n_in, self.f.n_components), [self.seed]).module(0)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, facts = super().state()
        arrays |= {f"encoder/{k}": v for k, v in self.current.items()}
        return arrays, {**facts, "seed": self.seed, "in_step": sorted(self.in_step)}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        super().restore(arrays, facts)
        self.current = under("encoder/", arrays)
        self.seed, self.in_step = facts["seed"], set(facts["in_step"])
