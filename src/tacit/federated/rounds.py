"""Rounds of a federation: who takes part, what happens when too few answer, and all of it in one process.

What every coordinator needs, whatever its nodes learn.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tacit.errors import InputError, TacitWarning
from tacit.federated.node import Node, named
from tacit.federated.protocol import Kept, Message, ProtocolError, read_state, sift, write_state

RETRIES = 2
WRITES = 50  # of the checkpoint, in all


class Rounds(Kept):
    """What any coordinator keeps: round, members, and a line about every exchange.

    Round -1 is the first exchange, which decides who takes part. Nodes that are named beforehand (as in one process)
    have to fit in, all of them: one that does not raises. Without names every node that can be reached is asked, and
    one that does not fit in is left out by name: of nodes on other machines none may stop the others. A coordinator may
    be killed at any time: `state` after `receive` is all it needs to resume.
    """

    kept: Sequence[str] = ("round", "members", "log")
    n_rounds: int

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        self.f, self.names, self.min_nodes = f, list(names), max(1, min_nodes)
        self.round, self.retries = -1, 0
        self.members: dict[str, int] = {}  # node -> records, in the order in which they came
        self.log: list[dict[str, Any]] = []
        self._sent: list[Message] = []

    @property
    def finished(self) -> bool:
        return self.round >= 0 and self.round >= self.n_rounds

    def requests(self, available: Sequence[str] | None = None) -> list[Message]:
        """What to send now. `available` are the nodes that can be reached, all by default."""
        available = self.names if available is None else list(available)
        if self.round < 0:
            self._sent = [self._first(n) for n in available]
        else:
            self._sent = self._open([n for n in self._asked if n in available])
        return self._sent

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        """Take the answers that came in time; `failures` says of other nodes why none came."""
        before = self.round
        line: dict[str, Any] = {"round": before, "nodes": [], "rejected": {}, "failed": dict(failures or {})}
        line |= {"bytes_down": sum(m.nbytes for m in self._sent), "bytes_up": sum(m.nbytes for m in answers)}
        self.log.append(line)
        why = self._begin(answers, line) if before < 0 else self._merge(answers, line)
        if why is None:
            if before < 0:
                self.round = 0
            self.retries = self.retries if self.round == before else 0
            return
        self.retries += 1
        if self.retries > RETRIES:
            told = "; ".join(f"{n}: {fault}" for n, fault in (line["rejected"] | line["failed"]).items())
            where = "the beginning" if before < 0 else f"round {before}"
            raise ProtocolError(f"{where}: {why}, {self.retries} times in a row ({told or 'no answer came'})")

    def _sift(
        self, answers: Sequence[Message], check: Callable[[Message], None], line: dict[str, Any]
    ) -> list[Message]:
        """The answers that can be used; the log says which, and why others cannot."""
        usable, rejected = sift(answers, check)
        self._reject(rejected, line)
        line["nodes"] += sorted(m.node for m in usable)
        return usable

    def _reject(self, rejected: Mapping[str, str], line: dict[str, Any]) -> None:
        """Log who is left out and why; at the beginning, a node that was named has to fit in."""
        for node, why in rejected.items() if self.names and self.round < 0 else ():
            raise InputError(f"node {node!r} {why}")
        line["rejected"] |= rejected

    def _too_few(self, usable: Sequence[Message]) -> str | None:
        few = len(usable) < self.min_nodes
        return f"{len(usable)} of at least {self.min_nodes} nodes can be used" if few else None

    @property
    def _asked(self) -> list[str]:
        """Whose turn it is."""
        return list(self.members)

    # what a coordinator says of its own rounds: what a node is asked first, and the messages of a round; how the first
    # answers are taken, and those of a round (or why they are not enough, so that they are asked for again)
    _first: Callable[[str], Message]
    _open: Callable[[list[str]], list[Message]]
    _begin: Callable[[Sequence[Message], dict[str, Any]], str | None]
    _merge: Callable[[Sequence[Message], dict[str, Any]], str | None]


# -- one process ------------------------------------------------------------------------------------


def simulate(
    nodes: Sequence[Node], algorithm: Any, *, checkpoint: str | Path | None = None, verbose: bool = False
) -> Any:
    """Run a federation: every message that would travel is made, checked and counted, but nothing leaves the process.

    Parameters
    ----------
    nodes : `Node`s
    algorithm : an unfitted `DistributedEIGAN` or `PersonalMinimax`; it is fitted, and returned (closed forms have
        `fit_closed_form`)
    checkpoint : file that is written as rounds are finished, and read at the start if it is there: a run that was
        killed and resumed ends with the same bits as one that was not
    verbose : show a bar

    Examples
    --------
    >>> import tacit
    >>> from tacit.federated import DistributedEIGAN, Node, simulate
    >>> data = tacit.load_dataset("gaussians", n=100, n_nodes=2)
    >>> nodes = [Node(d.X, d.y, sensitive_features=d.sensitive) for d in data.split("official")]
    >>> f = simulate(nodes, DistributedEIGAN(n_components=1, epochs=1, share=0.5, random_state=0))
    >>> sorted(f.nodes_.items())
    [('node 1', 100), ('node 2', 100)]
    """
    nodes = named(nodes)
    workers = {str(node.name): algorithm.worker(node) for node in nodes}
    coordinator = algorithm.coordinator(list(workers))
    path = None if checkpoint is None else Path(checkpoint)
    identity = _identity(algorithm, workers) if path is not None else ""
    if path is not None and path.exists():
        parts = read_state(path, identity)
        coordinator.restore(*parts["server"])
        for name, worker in workers.items():
            worker.restore(*parts[f"node {name}"])
    done = 0
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not verbose) as bar:
        task = bar.add_task("federation", total=None)
        try:
            while not coordinator.finished:
                requests = coordinator.requests()
                coordinator.receive([workers[m.node].work(m) for m in requests])
                done = coordinator.round
                bar.update(task, completed=done, total=coordinator.n_rounds)
                if path is not None and (coordinator.finished or done % max(1, coordinator.n_rounds // WRITES) == 0):
                    states = {"server": coordinator.state()} | {f"node {n}": w.state() for n, w in workers.items()}
                    write_state(path, states, identity)
        except KeyboardInterrupt:
            if done <= 0:
                raise
            resume = f"; run again with checkpoint={str(path)!r} to resume" if path else ""
            warnings.warn(
                f"interrupted after {done} of {coordinator.n_rounds} rounds: what was learned so far is used{resume}",
                TacitWarning,
                stacklevel=2,
            )
    return algorithm.conclude(coordinator, list(workers.values()))


def _identity(algorithm: Any, workers: Mapping[str, Any]) -> str:
    """What a run that resumes must have in common with the one that was stopped."""
    params = {k: v for k, v in algorithm.get_params(deep=False).items() if k not in ("checkpoint", "verbose")}
    settings = {k: getattr(v, "__qualname__", None) or repr(v) for k, v in params.items()}  # the same in every process
    told = {"settings": settings, "nodes": {name: w.digest() for name, w in workers.items()}}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
