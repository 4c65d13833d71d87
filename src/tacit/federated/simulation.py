"""`simulate`: a whole federation in one process, for research and for tests. Hundreds of nodes, deterministic."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tacit.errors import TacitWarning
from tacit.federated.node import Node, named
from tacit.federated.protocol import read_state, write_state

WRITES = 50  # of the checkpoint, in all


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
        _resume(path, identity, coordinator, workers)
    done = 0
    with _bar(verbose) as bar:
        task = bar.add_task("federation", total=None)
        try:
            while not coordinator.finished:
                requests = coordinator.requests()
                coordinator.receive([workers[m.node].work(m) for m in requests])
                done = coordinator.round
                bar.update(task, completed=done, total=coordinator.n_rounds)
                if path is not None and (coordinator.finished or done % max(1, coordinator.n_rounds // WRITES) == 0):
                    _write(path, identity, coordinator, workers)
        except KeyboardInterrupt:
            if done == 0:
                raise
            resume = f"; run again with checkpoint={str(path)!r} to resume" if path else ""
            warnings.warn(
                f"interrupted after {done} of {coordinator.n_rounds} rounds: what was learned so far is used{resume}",
                TacitWarning,
                stacklevel=2,
            )
    return algorithm.conclude(coordinator, list(workers.values()))


def _write(path: Path, identity: str, coordinator: Any, workers: Mapping[str, Any]) -> None:
    parts = {"server": coordinator.state()} | {f"node {name}": w.state() for name, w in workers.items()}
    write_state(path, parts, identity)


def _resume(path: Path, identity: str, coordinator: Any, workers: Mapping[str, Any]) -> None:
    parts = read_state(path, identity)
    coordinator.restore(*parts["server"])
    for name, worker in workers.items():
        worker.restore(*parts[f"node {name}"])


def _identity(algorithm: Any, workers: Mapping[str, Any]) -> str:
    params = {k: v for k, v in algorithm.get_params(deep=False).items() if k not in ("checkpoint", "verbose")}
    settings = {k: getattr(v, "__qualname__", None) or repr(v) for k, v in params.items()}  # alike in every process
    told = {"settings": settings, "nodes": {name: w.digest() for name, w in workers.items()}}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _bar(verbose: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, disable=not verbose)
