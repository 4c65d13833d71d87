"""The node's app: reads its own table, answers one message, keeps its heads for the next. Runs where the data is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.supercore import log

from tacit.errors import TacitError
from tacit.federated.eigan import DistributedEIGAN
from tacit.federated.flower.config import NodeConfig, algorithm_of, read_node
from tacit.federated.flower.records import from_records, to_records
from tacit.federated.node import Node
from tacit.federated.protocol import Message, ProtocolError
from tacit.federated.simulation import read_state, write_state

app = ClientApp()
ERROR = 40  # of the standard logging levels


@app.train()
def train(message: FlowerMessage, context: Context) -> FlowerMessage:
    """Answer the server's message."""
    config = read_node(str(context.node_config["config"]), str(context.node_config["data"]))
    request = from_records(message.content)
    try:
        answer = answer_request(config, request)
    except TacitError as error:
        # a message of an error may quote values of the table: it stays here
        log(ERROR, "round %s: %s", request.round, error)
        answer = Message(
            "failed", config.name, request.round, {"why": f"{type(error).__name__}: see the node's own log"}
        )
    return FlowerMessage(content=to_records(answer), reply_to=message)


def answer_request(config: NodeConfig, request: Message) -> Message:
    """One message in, one out; the node's state goes to its disk before the answer leaves."""
    if request.node != config.name:
        raise ProtocolError(f"this is node {config.name!r}, the message is for {request.node!r}")
    algorithm = algorithm_of(request.facts["settings"])
    rows, attack, test = config.parts()
    if request.kind == "audit":
        from tacit.federated.audit import audit_here  # every message starts a new Python: import what it needs

        if attack is None or test is None:
            raise ProtocolError("hold_out is 0: there are no rows to audit on")
        figures = audit_here(_global_filter(algorithm, request), attack, test)
        return Message("audited", config.name, request.round, {"figures": figures})
    worker = algorithm.worker(Node(rows.X, rows.y, rows.sensitive, rows.units_of(), config.name))
    path = _state_file(config, str(request.facts["federation"]))
    asked = _digest(request)
    if path.exists():
        parts = read_state(path, worker.digest())
        arrays, facts = parts["answer"]
        if facts["asked"] == asked:  # the answer was lost on its way: it is sent again, nothing is trained twice
            return Message(facts["kind"], config.name, request.round, facts["facts"], arrays)
        worker.restore(*parts["worker"])
    answer = worker.work(request)
    told = {"asked": asked, "kind": answer.kind, "facts": dict(answer.facts)}
    write_state(path, {"worker": worker.state(), "answer": (answer.arrays, told)}, worker.digest())
    return answer


def _global_filter(algorithm: DistributedEIGAN, request: Message) -> DistributedEIGAN:
    coordinator = algorithm.coordinator([])
    coordinator.restore(request.arrays, request.facts["server"])
    return algorithm.conclude(coordinator)


def _state_file(config: NodeConfig, federation: str) -> Path:
    # a name that the server chose must not become a path of its choice
    return config.state / f"{hashlib.sha256(federation.encode()).hexdigest()[:16]}.safetensors"


def _digest(request: Message) -> str:
    told = hashlib.sha256(json.dumps([request.kind, request.round, dict(request.facts)], sort_keys=True).encode())
    for name in sorted(request.arrays):
        told.update(name.encode() + request.arrays[name].tobytes())
    return told.hexdigest()
