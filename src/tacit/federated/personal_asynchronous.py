"""Contributors of Algorithm 3 in their own time ("called in parallel for asynchronous updates"), and nobody waits.

No round has a barrier. A contributor begins with what the aggregator has at that moment, works for a time of its own,
and sends its samples, which meanwhile may have been overtaken by others'; then it begins again. In one process the
clock is made up: contributors differ in speed, and each piece of work takes an exponential time. The messages are those
of every other order, so a real federation only has to hand on answers as they come.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.federated.node import Node, named
from tacit.federated.protocol import Message

SPEEDS = (0.5, 2.0)  # of the slowest and the fastest contributor, in pieces of work a time


def in_their_own_time(nodes: Sequence[Node], algorithm: Any) -> Any:
    """Fit a `PersonalMinimax` whose contributors answer at random times; returns it.

    `rounds` times the number of contributors answers are taken, fewer of slow contributors than of fast ones.
    """
    if algorithm.checkpoint is not None:
        raise InputError(
            "order='asynchronous' keeps no checkpoint: work on the way would be lost; leave checkpoint out"
        )
    nodes = named(nodes)
    workers = {str(node.name): algorithm.worker(node) for node in nodes}
    coordinator = algorithm.coordinator(list(workers))
    rng = np.random.default_rng(algorithm.random_state)
    speed = dict(zip(workers, rng.uniform(*SPEEDS, len(workers)), strict=True))
    coordinator.receive([workers[m.node].work(m) for m in coordinator.requests()])
    due: list[tuple[float, str, Message]] = []  # when, who, and what it was told when it began

    def begin(now: float, asked: Sequence[Message]) -> None:
        for m in asked:
            heapq.heappush(due, (now + rng.exponential(1 / speed[m.node]), m.node, m))

    begin(0.0, coordinator.requests())
    while not coordinator.finished:
        now, name, told = heapq.heappop(due)
        coordinator.receive([workers[name].work(told)])
        if not coordinator.finished:
            begin(now, coordinator.requests([name]))
    return algorithm.conclude(coordinator, list(workers.values()))
