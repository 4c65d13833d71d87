"""What Flower carries: messages as its records, and the app, three tiny files that import Tacit.

Arrays travel in numpy's own format, never as pickles. A node runs this app and no other.
"""

from __future__ import annotations

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from tacit import __version__
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


PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tacit-federation"
version = "{version}"
description = "Learning across silos; the code is the installed tacit's"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "tacit"

[tool.flwr.app.components]
serverapp = "tacit_federation.server:app"
clientapp = "tacit_federation.client:app"

[tool.flwr.app.config]
config = ""
secure = ""
"""


def app_bundle() -> bytes:
    """The bundle, byte for byte the same wherever these versions are installed."""
    from flwr.cli.build import build_fab_from_files

    files: dict[str, bytes] = {
        "pyproject.toml": PROJECT.format(version=__version__).encode(),
        "tacit_federation/__init__.py": b"",
        "tacit_federation/server.py": b"from tacit.federated.flower.server_app import app as app\n",
        "tacit_federation/client.py": b"from tacit.federated.flower.client_app import app as app\n",
    }
    return build_fab_from_files(files)[0]
