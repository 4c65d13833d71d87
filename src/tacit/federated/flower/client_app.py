"""The node's app: reads its own table, answers one message, keeps its heads for the next. Runs where the data is."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.supercore import log

from tacit.errors import InputError, TacitError
from tacit.federated.flower.carried import from_records, to_records
from tacit.federated.flower.config import START, NodeConfig, name_of, read_node, unpack_algorithm
from tacit.federated.flower.trust import NodeIdentity
from tacit.federated.node import Node
from tacit.federated.protocol import Message, ProtocolError
from tacit.federated.states import read_state, write_state
from tacit.records.dataset import Dataset

app = ClientApp()


@app.train()
def train(message: FlowerMessage, context: Context) -> FlowerMessage:
    """Answer the server's message."""
    name, round_ = "", -1
    try:
        told = context.node_config
        config = read_node(str(told["config"]), str(told["data"]), str(told.get("secure", "")) == "yes")
        request = from_records(message.content)
        name, round_ = config.name, request.round
        answer = answer_request(config, request)
    except Exception as error:
        # a message of an error may quote values of the table: it stays here. Of what is raised Flower tells the server
        log(logging.ERROR, "round %s: %s", round_, error, exc_info=not isinstance(error, TacitError))
        answer = Message("failed", name, round_, {"why": f"{type(error).__name__}: see the node's own log"})
    return FlowerMessage(content=to_records(answer), reply_to=message)


def answer_request(config: NodeConfig, request: Message) -> Message:
    """One message in, one out; the node's state goes to its disk before the answer leaves."""
    if request.node != config.name:
        raise ProtocolError(f"this is node {config.name!r}, the message is for {request.node!r}")
    algorithm = _algorithm(config, request)
    rows, attack, test = config.parts()
    if request.kind == "audit" and "bundle" in request.arrays:
        return _audit(config, request, _given_filter(request.arrays["bundle"]), attack, test)
    worker = algorithm.worker(Node(rows.X, rows.y, rows.sensitive, rows.units_of(), config.name))
    if getattr(algorithm, "secure", False):
        worker.identity = NodeIdentity(config.keys)
    path = _state_file(config, str(request.facts["federation"]))
    asked = request.digest()
    if path.exists():
        parts = read_state(path, worker.digest())
        arrays, facts = parts["answer"]
        if facts["asked"] == asked:  # the answer was lost on its way: it is sent again, nothing is trained twice
            return Message(facts["kind"], config.name, request.round, facts["facts"], arrays)
        worker.restore(*parts["worker"])
    if request.kind == "audit":
        return _audit(config, request, worker.own_filter(), attack, test)
    arrays = {k: v for k, v in request.arrays.items() if not k.startswith(START)}
    answer = worker.work(replace(request, arrays=arrays))
    summed = getattr(worker, "answer", None) or answer  # what a sum is made of
    if summed.kind == "description":
        _check_means(config, summed)
    own = worker.own_filter()
    if own is not None:
        from tacit.release.saving import save  # every message starts a new Python at a node

        save(own, config.out)
    told = {"asked": asked, "kind": answer.kind, "facts": dict(answer.facts)}
    write_state(path, {"worker": worker.state(), "answer": (answer.arrays, told)}, worker.digest())
    return answer


def _algorithm(config: NodeConfig, request: Message) -> Any:
    """What the server asks for, within what this node has agreed to."""
    name = name_of(request.facts["settings"])
    if name != config.algorithm:
        raise ProtocolError(
            f"the server asks for {name}, this node takes part in {config.algorithm} alone; if {name} is meant, and "
            f"what travels with it may leave this node, set algorithm = {name!r} in this node's file"
        )
    arrays = _kept_start(config, request) if "start" in request.facts else request.arrays
    algorithm = unpack_algorithm(request.facts, arrays)
    if config.secure and not getattr(algorithm, "secure", False):
        raise ProtocolError(
            f"this node answers in secure sums alone (secure = true in its file); the server asks {name} in the clear: "
            f"start it there with --secure"
        )
    if hasattr(algorithm, "min_count"):
        algorithm.min_count, algorithm.leaves = max(algorithm.min_count, config.min_count), True
    return algorithm


def _check_means(config: NodeConfig, description: Message) -> None:
    """The mean of one value is that value, and mean and variance of two are both: such do not leave."""
    numbers = [c["name"] for c in description.facts["columns"] if c["kind"] == "number"]
    for name, count in zip(numbers, description.arrays["count"], strict=True):
        if count < config.min_count:
            raise InputError(
                f"column {name!r} has {count} values here, whose mean and variance would tell too much of each; at "
                f"least {config.min_count} are needed: leave the column out at all nodes (drop), or lower min_count"
            )


def _kept_start(config: NodeConfig, request: Message) -> Mapping[str, np.ndarray]:
    """One common filter and no second, to the bit: samples under two tell more, however near the two are.

    Fitted again on another machine the last digits differ; then the first one is used.
    """
    path = config.state / "start.safetensors"
    mine = {k: v for k, v in request.arrays.items() if k.startswith(START)}
    if not path.exists():
        write_state(path, {"start": (mine, {"start": request.facts["start"]})}, "start")
        return mine
    arrays, facts = read_state(path, "start")["start"]
    alike = facts["start"] == request.facts["start"] and set(arrays) == set(mine)
    if not (alike and all(arrays[k].shape == mine[k].shape and np.allclose(arrays[k], mine[k]) for k in mine)):
        raise ProtocolError(
            f"the server gives another common filter than before, and samples under both tell more of the records than "
            f"those under one; if this is meant, delete {path}"
        )
    return arrays


def _audit(config: NodeConfig, request: Message, release: Any, attack: Dataset | None, test: Dataset | None) -> Message:
    from tacit.federated.node_audit import audit_here  # every message starts a new Python at a node

    if attack is None or test is None:
        raise ProtocolError("hold_out is 0: there are no rows to audit on")
    if release is None:
        raise ProtocolError("this node has no filter yet; it takes part from the next federation on")
    return Message("audited", config.name, request.round, {"figures": audit_here(release, attack, test)})


def _given_filter(bundle: np.ndarray) -> Any:
    """The common filter, as it will be used: the bundle itself, which holds no code."""
    from tacit.release.runtime import load  # every message starts a new Python at a node

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.tacit"
        path.write_bytes(bundle.astype(np.uint8).tobytes())
        return load(path)


def _state_file(config: NodeConfig, federation: str) -> Path:
    # a name that the server chose must not become a path of its choice
    return config.state / f"{hashlib.sha256(federation.encode()).hexdigest()[:16]}.safetensors"
