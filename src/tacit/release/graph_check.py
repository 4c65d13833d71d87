"""Which graphs are run: known operators with known attributes, on data that lies in the file, at a cost that is known.

The check reads the protocol-buffer bytes itself, so that it runs where only onnxruntime is installed, and
before onnxruntime sees them. Whatever it does not know is refused: fields, operators, attributes, types, versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.errors import BundleError
from tacit.release.graph_shapes import BYTES, INT32, INT64, RECORDS, RULES, Node, Value, check_size, infer
from tacit.release.protobuf import encoded, fields, message, text

MOST_NODES = 4096
MOST_PARAMETERS = 2**26
MOST_WORK = 2**30  # multiply-adds a record
MOST_FIXED = 2**26  # multiply-adds on constants, which a runtime does when it loads
MOST_MEMORY = 2**26  # bytes of all values of a record, or of a constant kind
MOST_ENTRIES = 2**18  # of one list: words of a column, nodes of all trees
MOST_NAMES = 2**14  # of tensors, of what is told of values, and of what one node takes
FEW = 64  # numbers of a constant that may decide a shape
VERSIONS = {"": 20, "ai.onnx.ml": 3}

# the fields that are allowed, by message: name and kind
MODEL = {
    1: ("ir_version", "int"), 2: ("producer", "bytes"), 3: ("version", "bytes"), 4: ("domain", "bytes"),
    5: ("model_version", "int"), 6: ("doc", "bytes"), 7: ("graph", "bytes"), 8: ("opset", "BYTES"),
}  # fmt: skip
GRAPH = {
    1: ("node", "BYTES"), 2: ("name", "bytes"), 5: ("initializer", "BYTES"), 10: ("doc", "bytes"),
    11: ("input", "BYTES"), 12: ("output", "BYTES"), 13: ("value_info", "BYTES"),
}  # fmt: skip
NODE = {
    1: ("input", "BYTES"), 2: ("output", "BYTES"), 3: ("name", "bytes"), 4: ("op_type", "bytes"),
    5: ("attribute", "BYTES"), 6: ("doc", "bytes"), 7: ("domain", "bytes"),
}  # fmt: skip
ATTRIBUTE = {
    1: ("name", "bytes"), 2: ("f", "float"), 3: ("i", "int"), 4: ("s", "bytes"), 5: ("t", "bytes"),
    7: ("floats", "FLOATS"), 8: ("ints", "INTS"), 9: ("strings", "BYTES"), 13: ("doc", "bytes"), 20: ("type", "int"),
}  # fmt: skip
TENSOR = {
    1: ("dims", "INTS"), 2: ("data_type", "int"), 4: ("float_data", "FLOATS"), 5: ("int32_data", "INTS"),
    7: ("int64_data", "INTS"), 8: ("name", "bytes"), 9: ("raw_data", "bytes"), 10: ("double_data", "DOUBLES"),
    12: ("doc", "bytes"), 14: ("data_location", "int"),
}  # fmt: skip
OPSET = {1: ("domain", "bytes"), 2: ("version", "int")}
VALUE = {1: ("name", "bytes"), 2: ("type", "bytes"), 3: ("doc", "bytes")}
TYPE = {1: ("tensor", "bytes")}
TENSOR_TYPE = {1: ("elem_type", "int"), 2: ("shape", "bytes")}
SHAPE = {1: ("dim", "BYTES")}
DIMENSION = {1: ("value", "int"), 2: ("name", "bytes")}

ATTRIBUTE_TYPES = {"f": 1, "i": 2, "s": 3, "t": 4, "floats": 6, "ints": 7, "strings": 8}
DATA = {1: ("float_data", "<f4"), 6: ("int32_data", "<i4"), 7: ("int64_data", "<i8"), 9: ("int32_data", "?"),
        11: ("double_data", "<f8")}  # fmt: skip
AXIS, FLAG, NUMBER, SIZES = ("i", -8, 8), ("i", 0, 1), ("f",), ("ints", 1, 2**12)
PADS, ANY, WORDS, TENSORS = ("ints", 0, 2**12), ("ints", -(2**63), 2**63 - 1), ("strings",), ("t",)
KEEP = {"keepdims": FLAG, "noop_with_empty_axes": ("i", 0, 0)}
WINDOW = {"kernel_shape": SIZES, "strides": SIZES, "dilations": SIZES, "pads": PADS, "auto_pad": ("s", "NOTSET")}
CONV, POOL = WINDOW | {"group": ("i", 1, 2**12)}, WINDOW | {"ceil_mode": ("i", 0, 0)}
# operator -> attribute -> its kind and range; operators that are not named have none
ATTRIBUTES: dict[str, dict[str, tuple[Any, ...]]] = {
    "ArgMax": {"axis": AXIS, "keepdims": FLAG, "select_last_index": FLAG},
    "AveragePool": POOL | {"count_include_pad": FLAG},
    "BatchNormalization": {"epsilon": NUMBER, "momentum": NUMBER, "training_mode": ("i", 0, 0)},
    "Cast": {"to": ("i", 1, 11), "saturate": FLAG},
    "Concat": {"axis": AXIS},
    "Constant": {"value": TENSORS},
    "Conv": CONV,
    "ConvTranspose": CONV | {"output_padding": PADS},
    "CumSum": {"exclusive": FLAG, "reverse": FLAG},
    "Elu": {"alpha": NUMBER},
    "Flatten": {"axis": AXIS},
    "Gather": {"axis": AXIS},
    "GatherElements": {"axis": AXIS},
    "GatherND": {"batch_dims": ("i", 0, 0)},
    "Gelu": {"approximate": ("s", "none", "tanh")},
    "Gemm": {"alpha": NUMBER, "beta": NUMBER, "transA": FLAG, "transB": FLAG},
    "HardSigmoid": {"alpha": NUMBER, "beta": NUMBER},
    "InstanceNormalization": {"epsilon": NUMBER},
    "LabelEncoder": {"keys_strings": WORDS, "values_int64s": ANY, "default_int64": ("i", -(2**63), 2**63 - 1)},
    "LayerNormalization": {"axis": AXIS, "epsilon": NUMBER, "stash_type": ("i", 1, 1)},
    "LeakyRelu": {"alpha": NUMBER},
    "LogSoftmax": {"axis": AXIS},
    "MaxPool": POOL | {"storage_order": ("i", 0, 0)},
    "Pad": {"mode": ("s", "constant", "reflect", "edge")},
    **dict.fromkeys([op for op in RULES if op.startswith("Reduce")], KEEP),
    "Reshape": {"allowzero": FLAG},
    "Resize": {
        "antialias": ("i", 0, 0), "coordinate_transformation_mode": ("s", "half_pixel", "asymmetric", "align_corners"),
        "cubic_coeff_a": NUMBER, "exclude_outside": ("i", 0, 0), "extrapolation_value": NUMBER,
        "keep_aspect_ratio_policy": ("s", "stretch"), "mode": ("s", "nearest", "linear"),
        "nearest_mode": ("s", "floor", "round_prefer_floor"),
    },
    "Selu": {"alpha": NUMBER, "gamma": NUMBER},
    "Shape": {"start": ("i", 0, 8), "end": ("i", 0, 8)},
    "Softmax": {"axis": AXIS},
    "Split": {"axis": AXIS, "num_outputs": ("i", 1, 2**12)},
    "TopK": {"axis": AXIS, "largest": FLAG, "sorted": FLAG},
    "Transpose": {"perm": ("ints", 0, 7)},
    "TreeEnsembleRegressor": {
        **dict.fromkeys(["nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids",
                         "nodes_falsenodeids", "target_treeids", "target_nodeids", "target_ids"], ("ints", 0, 2**22)),
        **dict.fromkeys(["nodes_values_as_tensor", "target_weights_as_tensor", "base_values_as_tensor"], TENSORS),
        "nodes_modes": WORDS, "n_targets": ("i", 1, 2**16),
    },
}  # fmt: skip
NEEDED = {  # what has no default
    "Cast": {"to"},
    "Concat": {"axis"},
    "Constant": {"value"},
    "AveragePool": {"kernel_shape"},
    "MaxPool": {"kernel_shape"},
    "TreeEnsembleRegressor": set(ATTRIBUTES["TreeEnsembleRegressor"]) - {"base_values_as_tensor"},
}
ML_OPERATORS = {"LabelEncoder", "TreeEnsembleRegressor"}


@dataclass(frozen=True)
class Graph:
    """What a graph takes and gives, and what it costs.

    Attributes
    ----------
    inputs, outputs : by name, the shape of one record's part; None where a value is not one part a record
    parameters : numbers that it holds
    multiply_adds, memory : for one record, at most; memory in bytes of all its values
    """

    inputs: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    outputs: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    parameters: int = 0
    multiply_adds: int = 0
    memory: int = 0


def check_graph(model: bytes, member: str = "model.onnx") -> Graph:
    """What a model takes, gives and costs; raises unless it holds known operators only, and all its data."""
    try:
        return _model(memoryview(model))
    except BundleError as error:
        said = str(error)
        raise BundleError(
            said.replace("model.onnx", member, 1) if "model.onnx" in said else f"{member}: {said}"
        ) from None
    except (IndexError, KeyError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(f"{member} is damaged ({type(error).__name__})") from None


def _model(view: memoryview) -> Graph:
    model = message(view, MODEL, "model")
    if "graph" not in model:
        raise BundleError("model.onnx has no graph")
    versions = {}
    for opset in model.get("opset", []):
        said = message(opset, OPSET, "opset")
        versions[text(said.get("domain", memoryview(b"")))] = said.get("version")
    for domain, version in versions.items():
        if VERSIONS.get(domain) != version:
            raise BundleError(f"model.onnx uses the operators of {domain[:80]!r}, version {version}, which are not run")
    if not 8 <= model.get("ir_version", 0) <= 9 or "" not in versions:
        raise BundleError("model.onnx has a version that is not run")
    return _graph(message(model["graph"], GRAPH, "graph"))


def _graph(graph: Mapping[str, Any]) -> Graph:
    values: dict[str, Value] = {}
    parameters = 0
    for many in ("input", "initializer", "value_info", "output"):
        if len(graph.get(many, [])) > MOST_NAMES:
            raise BundleError(f"model.onnx has {len(graph[many]):,} entries of {many}; {MOST_NAMES:,} are run at most")
    for name, value in [_input(v) for v in graph.get("input", [])]:
        _new(values, name, value)
    inputs = {name: _part(value) for name, value in values.items()}
    for data in graph.get("initializer", []):
        name, value = _tensor(data)
        _new(values, name, value)
        parameters += value.size
    nodes = graph.get("node", [])
    if len(nodes) > MOST_NODES or parameters > MOST_PARAMETERS:
        raise BundleError(f"model.onnx has {len(nodes):,} nodes and {parameters:,} parameters; {MOST_NODES:,} and "
                          f"{MOST_PARAMETERS:,} are run at most")  # fmt: skip
    work = [0, 0]  # on constants, a record
    held = [0, sum(_bytes(v) for v in values.values() if v.size % RECORDS == 0)]
    for data in nodes:
        node, given = _node(data, values)
        made = infer(node)
        for name, value in zip(given, made, strict=False):
            _new(values, name, value)
            held[value.size % RECORDS == 0] += _bytes(value)
        done = max(node.work, sum(v.size for v in made))
        work[done % RECORDS == 0] += done // RECORDS if done % RECORDS == 0 else done
        held[0] += 8 * (node.scratch % RECORDS)
        _check_costs(node.op, work, held)
    names = [text(message(o, VALUE, "output").get("name", memoryview(b""))) for o in graph.get("output", [])]
    if len(set(names)) != len(names) or not set(names) <= set(values) - set(inputs):
        raise BundleError("model.onnx gives one value twice, or one that it does not make")
    return Graph(inputs, {name: _part(values[name]) for name in names}, parameters, work[1], held[1])


def _part(value: Value) -> tuple[int, ...] | None:
    """The shape of one record's part of a value."""
    return value.shape[1:] if value.shape[:1] == (RECORDS,) and value.size // RECORDS < RECORDS else None


def _check_costs(op: str, work: list[int], held: list[int]) -> None:
    for what, found, most in (
        ("multiply-adds on constants", work[0], MOST_FIXED),
        ("multiply-adds a record", work[1], MOST_WORK),
        ("bytes of constants", held[0], MOST_MEMORY),
        ("bytes a record", held[1], MOST_MEMORY),
    ):
        if found > most:
            raise BundleError(f"model.onnx takes more than {most:,} {what} (up to a {op}); it is not run")


def _bytes(value: Value) -> int:
    return BYTES[value.type] * (value.size // RECORDS if value.size % RECORDS == 0 else value.size)


def _new(values: dict[str, Value], name: str, value: Value) -> None:
    if not name or name in values:
        raise BundleError(f"model.onnx has two values of one name, {name[:80]!r}, or one without")
    values[name] = value


def _node(data: memoryview, values: Mapping[str, Value]) -> tuple[Node, list[str]]:
    said = message(data, NODE, "node")
    op, domain = (text(said.get(k, memoryview(b""))) for k in ("op_type", "domain"))
    if op not in RULES or domain != ("ai.onnx.ml" if op in ML_OPERATORS else ""):
        raise BundleError(f"model.onnx has the operator {domain[:80]}:{op[:80]}, which is not run")
    attributes: dict[str, Any] = {}
    for one in said.get("attribute", []):
        name, value = _attribute(one, op)
        if name in attributes:
            raise BundleError(f"model.onnx: {op} has its {name} twice")
        attributes[name] = value
    absent = NEEDED.get(op, set()) - set(attributes)
    if absent:
        raise BundleError(f"model.onnx: {op} lacks its {min(absent)}")
    taken = [text(v) for v in said.get("input", [])[: MOST_NAMES + 1]]
    if len(taken) > MOST_NAMES:
        raise BundleError(f"model.onnx: {op} takes more than {MOST_NAMES:,} values")
    for name in taken:
        if name and name not in values:
            raise BundleError(f"model.onnx: {op} takes {name[:80]!r}, which no node before it gives")
    given = [text(v) for v in said.get("output", [])]
    if not 1 <= len(given) <= (2**12 if op == "Split" else 2 if op == "TopK" else 1):
        raise BundleError(f"model.onnx: {op} gives {len(given)} values")
    return Node(op, attributes, [values[n] if n else None for n in taken], len(given)), given


def _attribute(data: memoryview, op: str) -> tuple[str, Any]:
    said = message(data, ATTRIBUTE, "attribute")
    name = text(said["name"])
    known = ATTRIBUTES.get(op, {}).get(name)
    if known is None:
        raise BundleError(f"model.onnx: {op} has an attribute {name[:80]!r}, which is not run")
    kind, *most = known
    content = set(said) - {"name", "type", "doc"}
    if said.get("type") != ATTRIBUTE_TYPES[kind] or not content <= {kind}:
        raise BundleError(f"model.onnx: {op} has a {name} of another kind")
    if kind == "t":
        return name, _tensor(said["t"])[1]
    if kind in ("strings", "ints") and len(said.get(kind, [])) > MOST_ENTRIES:
        raise BundleError(f"model.onnx: {op} has {len(said[kind]):,} {name}; {MOST_ENTRIES:,} are run at most")
    if kind == "strings":
        return name, [text(v) for v in said.get(kind, [])]
    if kind == "s":
        value: Any = text(said[kind]) if kind in said else ""
        fine = value in most
    elif kind == "f":
        value = said.get(kind, 0.0)
        fine = np.isfinite(value)
    else:
        value = said.get(kind, 0 if kind == "i" else [])
        fine = all(most[0] <= n <= most[1] for n in ([value] if kind == "i" else value))
    if not fine:
        raise BundleError(f"model.onnx: {op} has {name}={str(value)[:80]}, which is not run (known: {most})")
    return name, value


def _tensor(data: memoryview) -> tuple[str, Value]:
    """Name and value of a tensor whose numbers lie here, as many as its shape says."""
    said = message(data, TENSOR, "tensor")
    if said.get("data_location"):
        raise BundleError("model.onnx refers to data outside the bundle")
    type, shape = said.get("data_type"), tuple(said.get("dims", []))
    if type not in DATA:
        raise BundleError(f"model.onnx has a tensor of type {type}, which is not run")
    place, dtype = DATA[type]
    value = Value(type, shape)
    check_size(value, "a tensor")
    content = set(said) & {where for where, _ in DATA.values()} | set(said) & {"raw_data"}
    raw = said.get("raw_data")
    n = len(raw) / np.dtype(dtype).itemsize if raw is not None else len(said.get(place, ()))
    if content - {place, "raw_data"} or len(content) > 1 or n != value.size:
        raise BundleError(f"model.onnx has a tensor of {value.size:,} numbers that holds {n:,}")
    if value.size <= FEW and type in (1, INT32, INT64):
        numbers = np.frombuffer(raw, dtype) if raw is not None else np.asarray(said.get(place, ()))
        if type == 1 or np.abs(numbers.astype(float)).max(initial=0) <= 2**63:
            value = Value(type, shape, tuple(numbers.ravel().tolist()))
    return text(said.get("name", memoryview(b""))), value


def _input(data: memoryview) -> tuple[str, Value]:
    said = message(data, VALUE, "input")
    tensor = message(message(said["type"], TYPE, "type")["tensor"], TENSOR_TYPE, "type")
    dims = [message(d, DIMENSION, "dimension") for d in message(tensor["shape"], SHAPE, "shape").get("dim", [])]
    if (
        not dims
        or "value" in dims[0]
        or any(set(d) != {"value"} for d in dims[1:])
        or tensor["elem_type"] not in (8, 11)
    ):
        raise BundleError("model.onnx has an input that is not records of one shape")
    value = Value(tensor["elem_type"], (RECORDS, *(d["value"] for d in dims[1:])))
    check_size(value, "an input")
    return text(said["name"]), value


def graph_up_to(model: bytes, output: str) -> bytes:
    """The part of a checked model that gives one of its outputs, as a model of its own.

    A runtime that is asked for one output computes the others too: here they, and all they alone need, are left out.
    """
    return b"".join(
        encoded(
            MODEL, name, _graph_up_to(value, output) if isinstance(value, memoryview) and name == "graph" else value
        )
        for name, _, value in fields(memoryview(model), MODEL, "model")
    )


def _graph_up_to(view: memoryview, output: str) -> bytes:
    graph = [(name, value) for name, _, value in fields(view, GRAPH, "graph") if isinstance(value, memoryview)]
    wanted, nodes = {output}, list[bytes]()
    for value in (value for name, value in reversed(graph) if name == "node"):  # a node stands after those it needs
        node = message(value, NODE, "node")
        if not wanted.isdisjoint(text(v) for v in node["output"]):
            wanted |= {text(v) for v in node.get("input", [])}
            nodes.append(encoded(GRAPH, "node", value))
    named = {"initializer": TENSOR, "input": VALUE, "output": VALUE}

    def needed(name: str, value: memoryview) -> bool:
        own = {
            text(v) for field, _, v in fields(value, named[name], name) if field == "name" and not isinstance(v, int)
        }
        return own == {output} if name == "output" else own <= wanted

    rest = [encoded(GRAPH, name, value) for name, value in graph
            if name == "name" or (name in named and needed(name, value))]  # fmt: skip
    return b"".join([*reversed(nodes), *rest])
