"""Which graphs are run: known operators on data that lies in the file, and nothing that nests or calls.

The check reads the protocol-buffer bytes itself, so that it runs where only onnxruntime is installed, and
before onnxruntime sees them. Fields that it does not know are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tacit.errors import BundleError

# Operators of inference; none that draws, loops, calls, or makes a tensor of any size from its shape alone.
OPERATORS = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "AveragePool",
        "BatchNormalization",
        "Cast",
        "Ceil",
        "Clip",
        "Concat",
        "Constant",
        "Conv",
        "ConvTranspose",
        "Cos",
        "CumSum",
        "Div",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Gelu",
        "Gemm",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Greater",
        "GreaterOrEqual",
        "GroupNormalization",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "InstanceNormalization",
        "LayerNormalization",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "LogSoftmax",
        "MatMul",
        "Max",
        "MaxPool",
        "Mean",
        "Min",
        "Mish",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pad",
        "Pow",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Relu",
        "Reshape",
        "Resize",
        "Round",
        "ScatterElements",
        "Selu",
        "Shape",
        "Sigmoid",
        "Sign",
        "Sin",
        "Slice",
        "Softmax",
        "Softplus",
        "Softsign",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tanh",
        "TopK",
        "Transpose",
        "Unsqueeze",
        "Where",
    ]
)
ML_OPERATORS = frozenset({"LabelEncoder", "TreeEnsembleRegressor"})
DOMAINS = {"": OPERATORS, "ai.onnx": OPERATORS, "ai.onnx.ml": ML_OPERATORS}
LARGEST_TENSOR = 2**27  # numbers

# the fields that are allowed, by message
MODEL = {
    1: "ir_version",
    2: "producer",
    3: "version",
    4: "domain",
    5: "model_version",
    6: "doc",
    7: "graph",
    8: "opset",
}
GRAPH = {1: "node", 2: "name", 5: "initializer", 10: "doc", 11: "input", 12: "output", 13: "value_info"}
NODE = {1: "input", 2: "output", 3: "name", 4: "op_type", 5: "attribute", 6: "doc", 7: "domain"}
ATTRIBUTE = {1: "name", 2: "f", 3: "i", 4: "s", 5: "t", 7: "floats", 8: "ints", 9: "strings", 13: "doc", 20: "type"}
TENSOR = {
    1: "dims", 2: "data_type", 4: "float_data", 5: "int32_data", 6: "string_data", 7: "int64_data", 8: "name",
    9: "raw_data", 10: "double_data", 11: "uint64_data", 12: "doc", 14: "data_location",
}  # fmt: skip
OPSET = {1: "domain", 2: "version"}
VALUE = {1: "name", 2: "type", 3: "doc"}


def check_graph(model: bytes, member: str = "model.onnx") -> None:
    """Raise `BundleError` unless the model holds known operators only, and all its data."""
    try:
        _check(model)
    except BundleError as error:
        raise BundleError(str(error).replace("model.onnx", member, 1)) from None


def _check(model: bytes) -> None:
    try:
        view = memoryview(model)
        graphs = 0
        for name, value in _fields(view, MODEL, "model"):
            if name == "opset":
                for field, domain in _fields(_bytes(value), OPSET, "opset"):
                    if field == "domain" and _str(domain) not in DOMAINS:
                        raise BundleError(f"model.onnx uses the operators of {_str(domain)[:80]!r}, which are not run")
            if name == "graph":
                graphs += 1
                _graph(_bytes(value))
        if graphs != 1:
            raise BundleError("model.onnx has no graph")
    except (IndexError, ValueError, TypeError, UnicodeDecodeError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"model.onnx is damaged ({type(error).__name__})") from None


def graph_up_to(model: bytes, output: str) -> bytes:
    """The part of a checked model that gives one of its outputs, as a model of its own.

    A runtime that is asked for one output computes the others too: here they, and all they alone need, are left out.
    """
    return b"".join(
        _field(MODEL, name, _graph_up_to(_bytes(value), output) if name == "graph" else value)
        for name, value in _fields(memoryview(model), MODEL, "model")
    )


def _graph_up_to(view: memoryview, output: str) -> bytes:
    fields = [(name, _bytes(value)) for name, value in _fields(view, GRAPH, "graph")]
    wanted, nodes = {output}, list[bytes]()
    for value in (value for name, value in reversed(fields) if name == "node"):  # a node stands after those it needs
        node = list(_fields(value, NODE, "node"))
        if not wanted.isdisjoint(_str(v) for field, v in node if field == "output"):
            wanted |= {_str(v) for field, v in node if field == "input"}
            nodes.append(_field(GRAPH, "node", value))
    named = {"initializer": TENSOR, "input": VALUE, "output": VALUE}

    def needed(name: str, value: memoryview) -> bool:
        own = {_str(v) for field, v in _fields(value, named[name], name) if field == "name"}
        return own == {output} if name == "output" else own <= wanted

    rest = [_field(GRAPH, name, value) for name, value in fields
            if name == "name" or (name in named and needed(name, value))]  # fmt: skip
    return b"".join([*reversed(nodes), *rest])


def _field(known: dict[int, str], name: str, value: int | memoryview | bytes) -> bytes:
    """A field of a message as bytes."""
    number = next(n for n, said in known.items() if said == name)
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + bytes(value)


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _graph(view: memoryview) -> None:
    for name, value in _fields(view, GRAPH, "graph"):
        if name == "node":
            _node(_bytes(value))
        elif name == "initializer":
            _tensor(_bytes(value))


def _node(view: memoryview) -> None:
    op, domain = "", ""
    for name, value in _fields(view, NODE, "node"):
        if name == "op_type":
            op = _str(value)
        elif name == "domain":
            domain = _str(value)
        elif name == "attribute":
            for kind, inner in _fields(_bytes(value), ATTRIBUTE, "attribute"):
                if kind == "t":
                    _tensor(_bytes(inner))
    if op not in DOMAINS.get(domain, ()):
        raise BundleError(f"model.onnx has the operator {domain[:80]}:{op[:80]}, which is not run")


def _tensor(view: memoryview) -> None:
    size = 1
    for name, value in _fields(view, TENSOR, "tensor"):
        if name == "data_location" and value != 0:
            raise BundleError("model.onnx refers to data outside the bundle")
        if name == "dims":
            # one number, or several packed
            size *= value if isinstance(value, int) else math.prod(_packed(value))
            if not 0 <= size <= LARGEST_TENSOR:
                raise BundleError("model.onnx has a tensor that is too large")


def _fields(view: memoryview, known: dict[int, str], where: str) -> Iterator[tuple[str, int | memoryview]]:
    """Name and value of every field of a message: whole numbers, or views of bytes."""
    at, end = 0, len(view)
    while at < end:
        tag = view[at]
        at += 1
        if tag >= 128:
            tag, at = _varint(view, at - 1)
        kind = tag & 7
        name = known.get(tag >> 3)
        if name is None:
            raise BundleError(f"model.onnx: a {where} has field {tag >> 3}, which is not allowed in a bundle")
        if kind == 0:
            value = view[at]
            at += 1
            if value >= 128:
                value, at = _varint(view, at - 1)
            yield name, value
            continue
        if kind == 2:
            length = view[at]
            at += 1
            if length >= 128:
                length, at = _varint(view, at - 1)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise BundleError(f"model.onnx is damaged: a {where} has a field of unknown kind")
        if at + length > end:
            raise BundleError(f"model.onnx is damaged: a {where} is cut off")
        yield name, view[at : at + length]
        at += length


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise BundleError("model.onnx is damaged: a number does not end")


def _packed(view: memoryview) -> Iterator[int]:
    at = 0
    while at < len(view):
        value, at = _varint(view, at)
        yield value


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise BundleError("model.onnx is damaged: a number stands where a message should")
    return value


def _str(value: int | memoryview) -> str:
    return bytes(_bytes(value)).decode()
