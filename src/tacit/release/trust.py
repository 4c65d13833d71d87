"""Which bundles are loaded, and the limits that hold for one that nobody vouches for.

A bundle is trusted where this user wrote it on this machine (its member `local.mac` is an HMAC of the manifest under a
key in the user's configuration folder) or where a trusted key has signed it (`tacit.release.signing`). The manifest
holds the hash of every other member. Anything else needs ``trust=True``, and its graphs must then consist of allowed
operators, with all their data in the file. Standard library alone, so that devices check it too.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import math
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import BundleError, InputError
from tacit.files import locked, write_whole

PURPOSE = b"tacit bundle of this user 1\0"

# -- bundles of this user ---------------------------------------------------------------------------


def config_folder() -> Path:
    """The user's configuration folder for Tacit: $TACIT_CONFIG, $XDG_CONFIG_HOME/tacit or ~/.config/tacit."""
    if own := os.environ.get("TACIT_CONFIG"):
        return Path(own)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "tacit"


def local_mac(manifest: bytes) -> bytes | None:
    """The MAC of a manifest under this user's key, which is made at the first call; None where it cannot be kept."""
    path = config_folder() / "bundle.key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                write_whole(path, secrets.token_hex(32), private=True)
    except OSError:
        return None
    return _mac(_user_key(path), manifest)


def written_here(manifest: bytes, mac: bytes | None) -> bool:
    """Whether this user wrote the bundle of this manifest on this machine."""
    path = config_folder() / "bundle.key"
    return mac is not None and path.exists() and hmac.compare_digest(mac, _mac(_user_key(path), manifest))


def _mac(key: bytes, manifest: bytes) -> bytes:
    return hmac.new(key, PURPOSE + manifest, hashlib.sha256).hexdigest().encode()


def _user_key(path: Path) -> bytes:
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise InputError(f"{path} can be read or changed by other users; delete it, and save your bundles again")
    try:
        key = bytes.fromhex(path.read_text())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise InputError(f"{path} holds no key; delete it, and save your bundles again")
    return key


# -- graphs of others -------------------------------------------------------------------------------

OPERATORS = {
    "Abs", "Add", "And", "ArgMax", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat",
    "Constant", "Conv", "ConvTranspose", "Cos", "CumSum", "Div", "Elu", "Equal", "Erf", "Exp", "Flatten",
    "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "MaxPool",
    "Mean", "Min", "Mish", "Mul", "Neg", "Not", "Or", "PRelu", "Pad", "Pow", "Reciprocal", "ReduceL1",
    "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu",
    "Reshape", "Resize", "Round", "Selu", "Shape", "Sigmoid", "Sign", "Sin", "Slice", "Softmax", "Softplus",
    "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "TopK", "Transpose", "Unsqueeze", "Where",
    "LabelEncoder", "TreeEnsembleRegressor",
}  # fmt: skip
# fields of a message that are allowed; left out: subgraphs, functions, sparse tensors, data outside the file
MODEL, GRAPH, NODE = range(1, 9), (1, 2, 5, 10, 11, 12, 13), range(1, 8)
ATTRIBUTE, TENSOR = (1, 2, 3, 4, 5, 7, 8, 9, 13, 20), (1, 2, 4, 5, 7, 8, 9, 10, 12)
MOST_NODES, MOST_VALUES = 4096, 2**16  # values: what all nodes take and give
MOST_NUMBERS, MOST_DIMENSIONS = 2**26, 8  # of one tensor
MOST_BYTES = 2**23  # of one attribute
MOST_FIELDS = 2**20  # of a graph and all within it: the time of the check


def check_graph(model: bytes, member: str = "model.onnx") -> None:
    """Raise unless a graph has allowed operators alone, no subgraph, and all its data in the file.

    The bytes are read once, field by field. `onnx.checker` looks at the rest, where onnx is installed.
    """
    nodes = values = 0
    fields = _Fields(member)
    for number, graph in fields(memoryview(model), MODEL):
        if number != 7:
            continue
        for number, part in fields(graph, GRAPH):
            if number == 5:
                _check_tensor(part, fields)
            if number != 1:
                continue
            nodes += 1
            for number, value in fields(part, NODE):
                values += number in (1, 2)
                if number == 4 and (name := bytes(value[:80]).decode(errors="replace")) not in OPERATORS:
                    raise BundleError(f"{member} has an operator {name!r}, which is not allowed in a bundle")
                if number == 5:
                    _check_attribute(value, fields)
            if nodes > MOST_NODES or values > MOST_VALUES:
                raise BundleError(f"{member} has more than {MOST_NODES:,} nodes, or {MOST_VALUES:,} values")
    if not nodes:
        raise BundleError(f"{member} has no graph")
    if importlib.util.find_spec("onnx") is not None:
        import onnx.checker  # a device has none

        try:
            onnx.checker.check_model(model)
        except Exception as error:  # the checker's and protobuf's errors share no base
            raise BundleError(f"{member} is not a sound graph ({str(error)[:300]})") from None


def _check_attribute(value: memoryview, fields: _Fields) -> None:
    if len(value) > MOST_BYTES:
        raise BundleError(f"{fields.member} has an attribute of {len(value):,} bytes; {MOST_BYTES:,} are allowed")
    for number, part in fields(value, ATTRIBUTE):
        if number == 5:
            _check_tensor(part, fields)


def _check_tensor(value: memoryview, fields: _Fields) -> None:
    sizes: list[int] = []
    for number, part in fields(value, TENSOR):
        if number == 1:
            at = 0
            while at < len(part) and len(sizes) <= MOST_DIMENSIONS:
                size, at = _varint(part, at)
                sizes.append(size)
    if len(sizes) > MOST_DIMENSIONS or any(n > MOST_NUMBERS for n in sizes) or math.prod(sizes) > MOST_NUMBERS:
        raise BundleError(
            f"{fields.member} has a tensor of more than {MOST_DIMENSIONS} dimensions or {MOST_NUMBERS:,} numbers"
        )


@dataclass
class _Fields:
    """Read the fields of the protocol-buffer messages of one member; count them."""

    member: str
    read: int = 0

    def __call__(self, data: memoryview, allowed: range | tuple[int, ...]) -> Iterator[tuple[int, memoryview]]:
        """Number and bytes of each field of a message; raise for a number that is not allowed."""
        at = 0
        while at < len(data):
            self.read += 1
            if self.read > MOST_FIELDS:
                raise BundleError(
                    f"{self.member} has more than {MOST_FIELDS:,} fields; only a signed one may be so large"
                )
            tag, at = _varint(data, at)
            if tag >> 3 not in allowed:
                raise BundleError(f"{self.member} has a field {tag >> 3}, which is not allowed in a bundle")
            first = at
            if tag & 7 == 0:
                _, at = _varint(data, at)
            elif tag & 7 == 2:
                length, first = _varint(data, at)
                at = first + length
            else:
                at += {1: 8, 5: 4}.get(tag & 7, len(data))
            if at > len(data):
                raise BundleError(f"{self.member} is damaged: a field does not end")
            yield tag >> 3, data[first:at]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise BundleError("a graph is damaged: a number does not end")
