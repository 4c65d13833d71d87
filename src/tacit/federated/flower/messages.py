"""Messages as Flower's records. Arrays travel in numpy's own format, never as pickles."""

from __future__ import annotations

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from tacit.federated.protocol import Message, ProtocolError

PLAIN = tuple(map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")))


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
