"""A fitted filter as one ONNX graph: raw records in, the release (before its noise) out.

Everything but networks is computed in double precision, as in the filter; networks run in single
precision, which is what small machines and browsers are quick at.
"""

from __future__ import annotations

import copy
import itertools
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

from tacit.errors import InputError
from tacit.records.cells import MISSING_TEXT
from tacit.records.schema import Column
from tacit.release.tree_graph import posterior_graph, student_graph

OPSET, ML_OPSET, IR = 20, 3, 9


def export(m: Any) -> tuple[bytes, bytes | None, dict[str, np.ndarray]]:
    """The graph of a fitted filter's mechanism, the part of it that encodes (with noise), and its weights by name.

    Inputs are ``numbers`` and ``texts`` (tables) or ``X`` (arrays), and ``noise`` where the filter takes noise in;
    outputs are ``release`` (``before_noise`` where noise is added afterwards) and ``encoded``, by which noise is keyed.
    A runtime that is asked for one output computes the others too, so the part that gives ``encoded`` is a graph too.
    """
    g = GraphBuilder()
    noise = m.noise
    encoded, named = m.schema.graph(g)
    if noise is not None and not noise.added:
        g.noise = g.input("noise", TensorProto.DOUBLE, (noise.columns,))
    out = m.graph(g, encoded)
    # a negative zero can be told from zero, and tells the sign of what was masked (runtimes drop "add zero")
    out = g.op("Where", g.op("Equal", out, g.number(0.0)), g.number(0.0), out)
    g.output(out, "before_noise" if noise is not None and noise.added else "release")
    g.output(named, "encoded")
    return g.build(), None if noise is None else g.build("encoded"), g.weights


def record_bytes(model: bytes) -> int:
    """Bytes of what a graph makes of one record, by which the runtime chooses how many it takes at a time."""
    graph = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(model), data_prop=True).graph
    total = 0
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        sizes = [d.dim_value or 1 for d in tensor.shape.dim]
        if tensor.shape.dim and not tensor.shape.dim[0].dim_value:  # so much for each record
            size = (
                40
                if tensor.elem_type == TensorProto.STRING
                else helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
            )
            total += size * math.prod(sizes)
    return max(1, total)


def export_analyzer(module: Any, shape: tuple[int, ...], sizes: Sequence[int]) -> bytes:
    """The graph of a service's half: ``release`` in, ``answer`` out: the probabilities of all classes, by target."""
    g = GraphBuilder()
    logits = g.torch(module, g.input("release", TensorProto.DOUBLE, shape), "analyzer")
    if g.shapes[logits] != (sum(sizes),):
        raise InputError(f"the analyzer gives {g.shapes[logits]} numbers a record, but its targets have {sum(sizes)} "
                         f"classes in all; give one number per class, target after target")  # fmt: skip
    ends = np.cumsum([0, *sizes]).tolist()
    parts = [g.op("Softmax", g.columns(logits, range(*span)), axis=1) for span in itertools.pairwise(ends)]
    g.output(g.join(*parts), "answer")
    return g.build()


class GraphBuilder:
    """Writes an ONNX graph value by value. Values are named; methods take names and return a name."""

    INT64, DOUBLE = TensorProto.INT64, TensorProto.DOUBLE

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}  # of one record, where it is known
        self.noise: str | None = None
        self._count = 0

    # -- values ---------------------------------------------------------------------------------

    def input(self, name: str, kind: int, shape: tuple[int, ...]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["n", *shape]))
        self.shapes[name] = shape
        return name

    def output(self, value: str, name: str) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, None))

    def constant(self, name: str, array: Any) -> str:
        """A learned array, in double precision; it also goes to the bundle's weights under this name."""
        array = np.asarray(array, dtype=np.float64)
        self.weights[name] = array
        return self.tensor(array, name)

    def number(self, value: float) -> str:
        return self.tensor(np.asarray(value, dtype=np.float64), "number")

    def op(self, kind: str, *values: str, domain: str = "", **attributes: Any) -> str:
        """One operator. Its result is taken to have the shape of its first argument."""
        name = self._new(kind)
        self.nodes.append(helper.make_node(kind, list(values), [name], domain=domain, **attributes))
        if values and values[0] in self.shapes:
            self.shapes[name] = self.shapes[values[0]]
        return name

    # -- the few things filters do ----------------------------------------------------------------

    def posterior(self, x: str, models: Sequence[Any], name: str) -> str:
        """The mean of boosted trees' p(class | x)."""
        return posterior_graph(self, x, models, name)

    def student(self, x: str, student: Any) -> str:
        """p(class | x) of the small trees that learned their answers."""
        return student_graph(self, x, student)

    def flat(self, x: str) -> str:
        """Records as rows."""
        if len(self.shapes[x]) == 1:
            return x
        out = self.op("Flatten", x, axis=1)
        self.shapes[out] = (int(np.prod(self.shapes[x])),)
        return out

    def like(self, flat: str, x: str) -> str:
        """Rows in the shape of records again."""
        if len(self.shapes[x]) == 1:
            return flat
        out = self.op("Reshape", flat, self.tensor(np.array([-1, *self.shapes[x]], dtype=np.int64), "shape"))
        self.shapes[out] = self.shapes[x]
        return out

    def linear(self, x: str, matrix: str, width: int) -> str:
        out = self.op("MatMul", x, matrix)
        self.shapes[out] = (width,)
        return out

    def join(self, *parts: str) -> str:
        """Columns side by side."""
        out = self.op("Concat", *parts, axis=1)
        if all(p in self.shapes for p in parts):
            self.shapes[out] = (sum(self.shapes[p][0] for p in parts),)
        return out

    def columns(self, x: str, at: Sequence[int]) -> str:
        out = self.op("Gather", x, self.tensor(np.asarray(at, dtype=np.int64), "at"), axis=1)
        self.shapes[out] = (len(at),)
        return out

    def sum(self, x: str) -> str:
        """Over columns, which stay as one."""
        return self.total(x, 1, keep=True)

    def total(self, x: str, axis: int, keep: bool = False) -> str:
        """The sum over one axis."""
        return self.op("ReduceSum", x, self.tensor(np.array([axis], dtype=np.int64), "axis"), keepdims=int(keep))

    def whole(self, column: str) -> str:
        """A column of numbers (n, 1) as whole ones, (n,), to take entries by."""
        flat = self.op("Squeeze", column, self.tensor(np.array([1], dtype=np.int64), "axis"))
        return self.op("Cast", flat, to=self.INT64)

    def argmax(self, scores: str) -> str:
        """The column of the largest number, the first of equals."""
        return self.op("ArgMax", scores, axis=1, keepdims=0, select_last_index=0)

    def take(self, table: np.ndarray, index: str) -> str:
        """Entries of a constant table."""
        return self.op("Gather", self.constant("prototypes", table), index, axis=0)

    def column_of_numbers(self, index: str) -> str:
        """Indices as a column of numbers."""
        number = self.op("Cast", index, to=TensorProto.DOUBLE)
        return self.op("Unsqueeze", number, self.tensor(np.array([1], dtype=np.int64), "axis"))

    def torch(self, module: Any, x: str, name: str, exact: bool = False) -> str:
        """A network on `x`, in single precision, or in double with `exact`."""
        import torch

        kind = torch.float64 if exact else torch.float32
        on_cpu = copy.deepcopy(module).cpu().to(kind).eval()
        self.weights |= {f"{name}.{k}": v.detach().cpu().numpy() for k, v in module.state_dict().items()}
        example = torch.zeros((2, *self.shapes[x]), dtype=kind)
        made = _torch_graph(on_cpu, example)
        inside = self.op("Cast", x, to=TensorProto.DOUBLE if exact else TensorProto.FLOAT)
        out = self.op("Cast", self._splice(made, inside, name), to=TensorProto.DOUBLE)
        with torch.no_grad():
            self.shapes[out] = tuple(on_cpu(example).shape[1:])
        return out

    # -- preprocessing ----------------------------------------------------------------------------

    def array(self, encoder: Any, shape: tuple[int, ...]) -> str:
        """`ArrayEncoder`: standardized columns, or channels; None takes records as they are."""
        x = self.input("X", TensorProto.DOUBLE, shape)
        if encoder is None:
            return x
        centred = self.op("Sub", x, self.constant("encoder.mean", encoder.mean))
        return self.op("Div", centred, self.constant("encoder.scale", encoder.scale))

    def table(self, columns: Sequence[Column]) -> str:
        """`TableEncoder`: standardized numbers with flags for gaps, one-hot categories."""
        numbers, texts = ([c for c in columns if c.kind == k] for k in ("number", "category"))
        blocks: dict[str, list[int]] = {}  # per column name, its places among the parts joined below
        parts: list[str] = []
        at = 0
        if numbers:
            x = self.input("numbers", TensorProto.DOUBLE, (len(numbers),))
            mean = self.constant("encoder.mean", [[c.mean for c in numbers]])
            scale = self.constant("encoder.scale", [[c.scale for c in numbers]])
            # NaN is the one number that differs from itself (IsNaN takes no doubles everywhere)
            missing = self.op("Not", self.op("Equal", x, x))
            scaled = self.op("Div", self.op("Sub", x, mean), scale)
            parts.append(self.op("Where", missing, self.number(0.0), scaled))
            self.shapes[parts[0]] = (len(numbers),)
            for i, c in enumerate(numbers):
                blocks[c.name] = [i]
            at = len(numbers)
            gaps = [i for i, c in enumerate(numbers) if c.has_missing]
            if gaps:
                parts.append(self.op("Cast", self.columns(missing, gaps), to=TensorProto.DOUBLE))
                for k, i in enumerate(gaps):
                    blocks[numbers[i].name].append(at + k)
                at += len(gaps)
        if texts:
            x = self.input("texts", TensorProto.STRING, (len(texts),))
            for i, c in enumerate(texts):
                parts.append(self._one_hot(self.columns(x, [i]), c))
                blocks[c.name] = list(range(at, at + c.width))
                at += c.width
        joined = self.join(*parts) if len(parts) > 1 else parts[0]
        order = [place for c in columns for place in blocks[c.name]]
        return joined if order == list(range(at)) else self.columns(joined, order)

    def cells(self, columns: Sequence[Column]) -> dict[str, str]:
        """The raw cells of each column, (n, 1): numbers, NaN for gaps; and words."""
        found = dict[str, str]()
        for kind, name, type in (("number", "numbers", self.DOUBLE), ("category", "texts", TensorProto.STRING)):
            own = [c for c in columns if c.kind == kind]
            if own:
                x = self.input(name, type, (len(own),))
                found |= {c.name: self.columns(x, [i]) for i, c in enumerate(own)}
        return found

    def lookup(self, text: str, numbers: Mapping[str, float], other: float) -> str:
        """Words as these whole numbers, (n, 1)."""
        code = self._words(text, list(numbers), [int(n) for n in numbers.values()], int(other))
        out = self.op("Cast", code, to=self.DOUBLE)
        self.shapes[out] = (1,)
        return out

    def bins(self, x: str, edges: np.ndarray) -> str:
        """How many edges lie below each number, (n, 1)."""
        if not len(edges):
            return self.op("Mul", self.or_gap(x, x, 0.0), self.number(0.0))
        below = self.op("Greater", x, self.tensor(np.asarray(edges, dtype=np.float64)[None], "edges"))
        out = self.sum(self.op("Cast", below, to=self.DOUBLE))
        self.shapes[out] = (1,)
        return out

    def or_gap(self, x: str, value: str, gap: float) -> str:
        """A value where the cell `x` is known, else what stands for a gap."""
        # NaN is the one number that differs from itself (IsNaN takes no doubles everywhere)
        out = self.op("Where", self.op("Equal", x, x), value, self.number(float(gap)))
        self.shapes[out] = (1,)
        return out

    def _words(self, text: str, words: Sequence[str], numbers: Sequence[int], other: int) -> str:
        try:
            keys = [w.encode() for w in words]
        except UnicodeEncodeError as error:
            raise InputError(f"a word of a column is not text: {error}") from None
        return self.op(
            "LabelEncoder",
            text,
            domain="ai.onnx.ml",
            keys_strings=keys,
            values_int64s=list(numbers),
            default_int64=other,
        )

    def _one_hot(self, text: str, column: Column) -> str:
        n = len(column.categories)
        code = self._words(text, [*column.categories, MISSING_TEXT], [*range(n), n + 1], n)
        table = self.tensor(np.eye(column.width), "one_hot")
        rows = self.op("Gather", table, self.op("Squeeze", code, self.tensor(np.array([1], dtype=np.int64), "axis")))
        self.shapes[rows] = (column.width,)
        return rows

    # -- the graph ------------------------------------------------------------------------------

    def build(self, output: str | None = None) -> bytes:
        """The graph; or the part of it that gives one output."""
        nodes, wanted = self.nodes, {output}
        if output is not None:
            nodes = []
            for node in reversed(self.nodes):  # a node stands after those it needs
                if not wanted.isdisjoint(node.output):
                    wanted |= set(node.input)
                    nodes.insert(0, node)
        inputs, outputs, constants = (
            [v for v in values if output is None or v.name in wanted]
            for values in (self.inputs, self.outputs, self.constants)
        )
        graph = helper.make_graph(nodes, "tacit", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="tacit")
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        for given, known in zip(model.graph.output, inferred.graph.output, strict=True):
            dims = [d.dim_value for d in known.type.tensor_type.shape.dim[1:]]  # 0 where ONNX cannot infer the size
            named = [size or f"{given.name}_{axis}" for axis, size in enumerate(dims, start=1)]
            given.CopyFrom(helper.make_tensor_value_info(given.name, TensorProto.DOUBLE, ["n", *named]))
        return model.SerializeToString(deterministic=True)

    def _splice(self, made: onnx.ModelProto, inside: str, name: str) -> str:
        """Take another graph in, its values renamed."""
        graph = made.graph
        prefix = self._new(name)
        names = {graph.input[0].name: inside, "": ""}

        def renamed(value: str) -> str:
            return names.setdefault(value, f"{prefix}/{value}")

        for tensor in graph.initializer:
            tensor.name = renamed(tensor.name)
            self.constants.append(tensor)
        for node in graph.node:
            values = [renamed(v) for v in node.input], [renamed(v) for v in node.output]
            del node.input[:], node.output[:], node.metadata_props[:]
            node.input.extend(values[0])
            node.output.extend(values[1])
            node.name, node.doc_string = "", ""
            self.nodes.append(node)
        return renamed(graph.output[0].name)

    def tensor(self, array: np.ndarray, name: str) -> str:
        name = self._new(name)
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _new(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"


def _torch_graph(module: Any, example: Any) -> onnx.ModelProto:
    import torch

    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it tells of packages that are not needed
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            made = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                opset_version=OPSET,
                input_names=["x"],
                output_names=["z"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                verbose=False,
            )
        assert made is not None
        return made.model_proto
    except Exception as error:
        raise InputError(
            f"torch cannot export this network ({type(error).__name__}: {str(error).splitlines()[0][:200]}); "
            f"write it with operators that torch.onnx.export knows"
        ) from error
    finally:
        log.setLevel(level)
