"""The node's app: reads its own table, answers one message, keeps its heads for the next. Runs where the data is."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.supercore import log

from tacit.errors import TacitError, check_number
from tacit.federated.flower.config import CERTIFICATE, START, NodeConfig, name_of, read_node, unpack_algorithm
from tacit.federated.masked_sums import SumWorker
from tacit.federated.node import spend_fit
from tacit.federated.protocol import Arrays, Message, ProtocolError, State, read_state, write_state
from tacit.records.people import Crowd

MAX_CODE = 10_000  # columns of a release: more would take this node's memory
PLAIN = tuple(map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")))
FIRST = ("describe", "begin")  # what a node tells before the first round, and again to a server that forgot it

app = ClientApp()


@app.train()
def train(message: FlowerMessage, context: Context) -> FlowerMessage:
    """Answer the server's message."""
    name, round_ = "", -1
    try:
        config = read_node(str(context.node_config["config"]))
        request = from_records(message.content)
        name, round_ = config.name, request.round
        answer = answer_request(config, request)
    except Exception as error:
        # a message of an error may quote values of the table: it stays here. Of what is raised Flower tells the server
        log(logging.ERROR, "round %s: %s", round_, error, exc_info=not isinstance(error, TacitError))
        answer = Message("failed", name, round_, {"why": f"{type(error).__name__}: see the node's own log"})
    return FlowerMessage(content=to_records(answer), reply_to=message)


def answer_request(config: NodeConfig, request: Message) -> Message:
    """One message in, one out; the node's state goes to its disk before the answer leaves.

    A round is answered once: asked again, however else, the node sends what it sent (it may have been lost).
    """
    if request.node != config.name:
        raise ProtocolError(f"this is node {config.name!r}, the message is for {request.node!r}")
    algorithm = _algorithm(config, request)
    node = config.certified_node() if config.algorithm == CERTIFICATE else config.training_node()
    config.check_node(node)
    worker = algorithm.worker(node)
    sums = isinstance(worker, SumWorker)  # answers two questions in a round
    if sums and config.group_secret is not None:
        worker.group_secret = config.group_secret.read_bytes()
    federation = hashlib.sha256(str(request.facts["federation"]).encode()).hexdigest()[:16]
    path = config.state / f"{federation}.safetensors"  # never under a name of the server's choice
    kept = read_state(path, worker.digest()) if path.exists() else {}
    settings = {"settings": request.facts["settings"]}
    if not kept:
        spend_fit(config.state, config, request.facts["settings"].get("dp"))
    elif kept["settings"][1] != settings:
        raise ProtocolError("the server asks with other settings than this federation began with; begin another")
    else:
        worker.restore(*kept["worker"])
    if request.kind == "audit":
        answer = _audit(config, request, kept, worker.own_filter())
        write_state(path, {**kept, "audit": ({}, answer.facts)}, worker.digest())
        return answer
    asks = request.kind not in FIRST
    if asks and not sums and "answer" in kept and (again := _again(config, request, *kept["answer"])) is not None:
        return again
    arrays = {k: v for k, v in request.arrays.items() if not k.startswith(START)}
    answer = worker.work(replace(request, arrays=arrays))
    own = worker.own_filter()
    if own is not None:
        from tacit.release.saving import save  # every message starts a new Python at a node

        save(own, config.out)
    kept |= {"worker": worker.state(), "settings": ({}, settings)}
    if asks:
        facts = {"kind": answer.kind, "round": request.round, "facts": dict(answer.facts)}
        kept["answer"] = dict(answer.arrays), facts
    write_state(path, kept, worker.digest())
    return answer


def _again(config: NodeConfig, request: Message, arrays: Arrays, told: Mapping[str, Any]) -> Message | None:
    """The answer to this round, where it was given; None where the round is a later one."""
    if request.round < told["round"]:
        raise ProtocolError(f"round {told['round']} was answered, and rounds go forward; asked for {request.round}")
    if request.round > told["round"]:
        return None
    return Message(told["kind"], config.name, request.round, told["facts"], arrays)


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
            f"this node answers by masked sums alone (secure = true in its file); the server asks {name} in the clear: "
            f"set secure = true under [training] there"
        )
    check_number("n_components", getattr(algorithm, "n_components", None), 1, MAX_CODE, whole=True, optional=True)
    algorithm.grants = config
    if name == CERTIFICATE:
        algorithm.count(config.bundle)
    return algorithm


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


def _audit(config: NodeConfig, request: Message, kept: Mapping[str, State], own: Any) -> Message:
    """One audit for a federation that this node took part in."""
    from tacit.federated.node_audit import audit_here  # every message starts a new Python at a node

    _, attack, test = config.parts()
    if attack is None or test is None:
        raise ProtocolError("hold_out is 0: there are no rows to audit on")
    if "answer" not in kept or (own is None and "bundle" not in request.arrays):
        raise ProtocolError("this node has no filter yet; it takes part from the next federation on")
    if "audit" in kept:
        return Message("audited", config.name, request.round, kept["audit"][1])
    config.check_rows(Crowd(len(test), test.units_of()), len(test), "an audit", "hold out more")
    release = _given_filter(request.arrays["bundle"]) if "bundle" in request.arrays else own
    return Message("audited", config.name, request.round, {"figures": audit_here(release, attack, test)})


def _given_filter(bundle: np.ndarray) -> Any:
    """The common filter, as it will be used: the bundle itself, which holds no code."""
    from tacit.release.runtime import load  # every message starts a new Python at a node

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.tacit"
        path.write_bytes(bundle.astype(np.uint8).tobytes())
        return load(path, trust=True)  # of the server, which this node has agreed to work with


# -- messages as Flower's records: arrays travel in numpy's own format, never as pickles --------------


def to_records(message: Message) -> RecordDict:
    told = {"kind": message.kind, "node": message.node, "round": message.round, "facts": dict(message.facts)}
    arrays = ArrayRecord({name: Array(array) for name, array in message.arrays.items()})
    return RecordDict({"arrays": arrays, "message": ConfigRecord({"json": json.dumps(told)})})


def from_records(records: RecordDict) -> Message:
    """The message; it may come from anybody, so that whatever has another form raises."""
    told = json.loads(str(records["message"]["json"]))
    if not isinstance(told["facts"], dict) or not all(isinstance(told[k], str) for k in ("kind", "node")):
        raise ProtocolError("a message has a kind, a node and facts by name; install the same version of tacit")
    arrays = {name: array.numpy() for name, array in records["arrays"].items()}  # type: ignore[union-attr]
    for name, array in arrays.items():
        if array.dtype not in PLAIN:
            raise ProtocolError(f"array {name!r} has type {array.dtype}, expected plain numbers")
    return Message(told["kind"], told["node"], int(told["round"]), told["facts"], arrays)
