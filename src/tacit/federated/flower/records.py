"""A protocol message as Flower's records, and back. Arrays travel in numpy's own format, never as pickles."""

from __future__ import annotations

import json

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from tacit.federated.protocol import Message


def to_records(message: Message) -> RecordDict:
    told = {"kind": message.kind, "node": message.node, "round": message.round, "facts": dict(message.facts)}
    arrays = ArrayRecord({name: Array(array) for name, array in message.arrays.items()})
    return RecordDict({"arrays": arrays, "message": ConfigRecord({"json": json.dumps(told)})})


def from_records(records: RecordDict) -> Message:
    told = json.loads(str(records["message"]["json"]))
    arrays = {name: array.numpy() for name, array in records["arrays"].items()}  # type: ignore[union-attr]
    return Message(told["kind"], told["node"], int(told["round"]), told["facts"], arrays)
