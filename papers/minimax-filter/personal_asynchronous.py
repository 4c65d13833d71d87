"""Algorithm 3 with asynchronous updates: no contributor waits for another.

No round has a barrier. A contributor begins with what the aggregator has at that moment, works for a time of its own,
and sends its samples, which meanwhile may have been overtaken by others'; then it begins again. In one process the
clock is simulated: contributors differ in speed, and each piece of work takes an exponential time. The messages are
those of every other order.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tacit.federated.node import Node, named
from tacit.federated.personal import Aggregator, PersonalMinimax
from tacit.federated.protocol import Message

SPEEDS = (0.5, 2.0)  # of the slowest and the fastest contributor, in pieces of work per unit of time


class AsynchronousMinimax(PersonalMinimax):
    """`PersonalMinimax` whose contributors answer at random times, drawn by `random_state`.

    A round is as many answers as there are contributors: fewer of slow contributors than of fast ones.
    """

    random_state: Any = 0

    def fit(self, nodes: Sequence[Node]) -> Self:
        nodes = named(nodes)
        workers = {str(node.name): self.worker(node) for node in nodes}
        coordinator = AsynchronousAggregator(self, list(workers), 2)
        rng = np.random.default_rng(self.random_state)
        speed = dict(zip(workers, rng.uniform(*SPEEDS, len(workers)), strict=True))
        coordinator.receive([workers[m.node].work(m) for m in coordinator.requests()])
        due: list[tuple[float, str, Message]] = []  # when, at which contributor, what it received when it began

        def begin(now: float, asked: Sequence[Message]) -> None:
            for m in asked:
                heapq.heappush(due, (now + rng.exponential(1 / speed[m.node]), m.node, m))

        begin(0.0, coordinator.requests())
        while not coordinator.finished:
            now, name, message = heapq.heappop(due)
            coordinator.receive([workers[name].work(message)])
            if not coordinator.finished:
                begin(now, coordinator.requests([name]))
        return self.conclude(coordinator, list(workers.values()))


class AsynchronousAggregator(Aggregator):
    """Takes answers as they come."""

    @property
    def _asked(self) -> list[str]:
        return list(self.members)

    @property
    def _awaited(self) -> list[str]:
        return []  # the others are still at work

    def _end_turn(self, improved: Sequence[Message]) -> str | None:
        more, self.improved = divmod(self.improved, len(self.members))
        self.round += more
        return None if improved else "nobody improved its filter"

    def _in_time(self, message: Message) -> bool:
        return 0 <= message.round <= self.round
