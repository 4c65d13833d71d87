"""What each possible cut asks of the person's device, and what it sends (DPFE, section 6.4, Figure 11).

A graph is cut after a layer (a product with weights, and what follows it up to the next) wherever a single value
crosses. It is run, not guessed at: once with every value as an output, for shapes, and once for each cut, for time.
What a cut before the end sends is not the release: it was not audited.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

from tacit.errors import InputError, check_number
from tacit.files import onnx_session
from tacit.records.cells import MISSING_TEXT
from tacit.release.bundle import read_bundle
from tacit.release.onnx import GraphBuilder

RAW, ALL = "(raw record)", "all"
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}


def profile(model: Any, example: Any = None, repeats: int = 20, *, trust: bool = False) -> pd.DataFrame:
    """Costs of cutting a model after each of its layers: what the device computes, holds and sends for one record.

    Parameters
    ----------
    model : a bundle NAME.tacit, an ONNX file, a fitted filter, or a torch network
    example : records, for a torch network
    repeats : passes, of which the median time is taken (one record, one thread); the cuts take turns
    trust : as for `tacit.load`

    Returns
    -------
    One row a cut, from the raw record (of a graph, where it is all numbers) to "all", the whole model on the device.
    Columns: ``cut`` (of a network: one of `tacit.nets.cut.cut_names`); ``values`` and ``bytes`` sent; ``parameters``,
    ``multiply_adds`` and ``memory`` (bytes: parameters, and the most that is held at a time) of the part on the device;
    ``milliseconds``.

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.EIGAN(1, epochs=1, random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> costs = tacit.profile(f)
    >>> costs["bytes"].tolist()[0], costs["bytes"].tolist()[-1]  # two numbers in, one out
    (16, 8)
    """
    check_number("repeats", repeats, 1, whole=True)
    if isinstance(model, str | Path):
        path = Path(model)
        is_graph = path.suffix == ".onnx"
        content = path.read_bytes() if is_graph else read_bundle(path, trust=trust).graph("model.onnx")
        graph = _Graph(content, path.name)
        return pd.DataFrame([*graph.raw(), *_costs([(n, graph, at) for n, at in graph.cuts()], repeats)])
    from tacit.filters.base import Filter  # graphs are profiled without torch

    if isinstance(model, Filter):
        from tacit.release.saving import save  # graphs are profiled without torch

        with tempfile.TemporaryDirectory() as folder:
            return profile(save(model, Path(folder) / "filter.tacit"), repeats=repeats)
    if example is None:
        raise InputError(f"a {type(model).__name__} needs an example: one or several records that it takes")
    import torch

    from tacit.nets.cut import check_takes, cut_names, cut_network  # graphs are profiled without torch

    check_takes(model, torch.as_tensor(example, dtype=torch.float32))
    halves = {name: cut_network(model, name).client for name in cut_names(model)} | {ALL: model}
    cuts = []
    for name, half in halves.items():
        builder = GraphBuilder()
        x = builder.input("X", TensorProto.FLOAT, np.shape(example)[1:])
        builder.output(builder.torch(half, x, "network"), "release")
        graph = _Graph(builder.build(), name)
        cuts.append((name, graph, len(graph.nodes) - 2))  # the network's own output, before it becomes double
    return pd.DataFrame(_costs(cuts, repeats))


def in_words(costs: pd.DataFrame) -> str:
    """Which cut is cheapest to send, which to compute, and what the whole model costs."""
    cuts = costs[~costs["cut"].isin([RAW, ALL])]
    whole = costs[costs["cut"] == ALL].iloc[0]
    told = f"The whole filter on the device takes {whole['milliseconds']:.2g} ms and sends {whole['bytes']:,} bytes"
    raw = costs[costs["cut"] == RAW]
    told += f" (the raw record has {raw['bytes'].iloc[0]:,})." if len(raw) else "."
    if not len(cuts):
        return f"It has a single layer and cannot be cut. {told}"
    small, quick = (cuts.sort_values(by, kind="stable").iloc[0] for by in ("bytes", "milliseconds"))
    return (
        f"The cut that sends least is after {small['cut']}: {small['bytes']:,} bytes, {small['milliseconds']:.2g} ms. "
        f"The quickest is after {quick['cut']}: {quick['milliseconds']:.2g} ms, {quick['bytes']:,} bytes. {told}"
    )


def _costs(cuts: Sequence[tuple[str, _Graph, int]], repeats: int) -> list[dict[str, Any]]:
    """A row per cut. The cuts are timed in turns, so that a machine that is busy for a while slows all of them."""
    passes = [graph.device_pass(at) for _, graph, at in cuts]
    took = np.empty((repeats, len(cuts)))
    for run in passes:
        run()  # the first pass also allocates
    for i in range(repeats):
        for j, run in enumerate(passes):
            began = time.perf_counter()
            run()
            took[i, j] = time.perf_counter() - began
    medians = 1000 * np.median(took, axis=0)
    return [
        {"cut": name, **graph.cost(at), "milliseconds": t}
        for (name, graph, at), t in zip(cuts, medians.tolist(), strict=True)
    ]


class _Graph:
    """The nodes that lead to the release, in order, with every value of one record."""

    def __init__(self, content: bytes, name: str) -> None:
        try:
            self.model = model = onnx.load_model_from_string(content)
            onnx_session(content)
        except Exception as error:  # protobuf's and onnx's errors share no base
            raise InputError(f"{name} is not an ONNX model ({str(error).splitlines()[0][:200]})") from None
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        outputs = [o.name for o in model.graph.output]
        self.output = next((o for o in ("release", "before_noise") if o in outputs), outputs[0])
        needed = {self.output}
        self.nodes: list[onnx.NodeProto] = []
        for node in reversed(model.graph.node):
            if needed & set(node.output):
                needed |= set(node.input)
                self.nodes.insert(0, node)
        while self.nodes and self.nodes[-1].op_type == "Identity" and len(self.nodes) > 1:
            self.output = self.nodes.pop().input[0]
        self.feeds = {k: v for k, v in _feeds(model, self.constants, name).items() if k in needed}
        self.values = self._run_all(name)
        self.last_use = {v: i for i, node in enumerate(self.nodes) for v in node.input}

    def cuts(self) -> list[tuple[str, int]]:
        """Where a single value crosses: at the end of each layer, or where the layer is narrowest; last the whole."""
        layers = [i for i, node in enumerate(self.nodes) if node.op_type in WEIGHTED]
        found: list[tuple[str, int]] = []
        for k, start in enumerate(layers):
            end = layers[k + 1] if k + 1 < len(layers) else len(self.nodes) - 1
            places = [i for i in range(start, end) if self._crossing(i) is not None]
            if places:
                # the last of the narrowest: casts and reshapes belong to the layer
                best = min(places, key=lambda i: (self.values[self._sent(i)].nbytes, -i))
                found.append((self._label(self.nodes[start], [n for n, _ in found]), best))
        return [*found, (ALL, len(self.nodes) - 1)]

    def raw(self) -> list[dict[str, Any]]:
        """The cost of sending the record itself, where it is all numbers."""
        if any(v.dtype.kind not in "fiu" for v in self.feeds.values()):
            return []
        values, size = (sum(getattr(v, of) for v in self.feeds.values()) for of in ("size", "nbytes"))
        nothing = {"parameters": 0, "multiply_adds": 0, "memory": size, "milliseconds": 0.0}
        return [{"cut": RAW, "values": values, "bytes": size, **nothing}]

    def cost(self, at: int) -> dict[str, Any]:
        nodes = self.nodes[: at + 1]
        sent = self.values[self._sent(at)]
        used = {v for node in nodes for v in node.input if v in self.constants}
        weights = [self.constants[v] for v in used if self.constants[v].dtype.kind == "f"]
        trees = sum(len(a.floats) + len(a.ints) for node in nodes if "Tree" in node.op_type for a in node.attribute)
        return {
            "values": int(sent.size),
            "bytes": int(sent.nbytes),
            "parameters": int(sum(w.size for w in weights)) + trees,
            "multiply_adds": sum(self._multiply_adds(node) for node in nodes),
            "memory": int(sum(w.nbytes for w in weights)) + 4 * trees + self._held(at),
        }

    def _sent(self, at: int) -> str:
        return self.output if at == len(self.nodes) - 1 else self._crossing(at) or self.output

    def _crossing(self, at: int) -> str | None:
        """The one value that what follows needs of what came before; None where there are several."""
        live = [v for v in self._live(at) if not self._is_shape(v)]
        return live[0] if len(live) == 1 and live[0] not in self.feeds else None

    def _live(self, at: int) -> list[str]:
        made = [*self.feeds, *(v for node in self.nodes[: at + 1] for v in node.output)]
        return [v for v in made if self.last_use.get(v, -1) > at]

    def _is_shape(self, value: str) -> bool:
        """The shape of a value is the same for every record: the cloud knows it."""
        return any(value in node.output and node.op_type == "Shape" for node in self.nodes)

    def _held(self, at: int) -> int:
        """The most bytes of values that are in use at a time."""
        most = 0
        for i, node in enumerate(self.nodes[: at + 1]):
            inside = set(self._live(i)) | set(node.output) | {v for v in node.input if v in self.values}
            most = max(most, sum(self.values[v].nbytes for v in inside if v in self.values))
        return most

    def _multiply_adds(self, node: onnx.NodeProto) -> int:
        """Of products with weights: every number of a convolution or a dense layer is a dot product."""
        if node.op_type not in WEIGHTED or "Tree" in node.op_type:
            return 0
        first, second = (self.values.get(v, self.constants.get(v)) for v in node.input[:2])
        assert first is not None
        assert second is not None
        out = self.values[node.output[0]]
        if node.op_type == "ConvTranspose":
            return int(first.size * second[0].size)
        if node.op_type == "Conv":
            return int(out.size * second[0].size)
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return int(out.size * first.shape[0 if transposed else -1])

    def _label(self, node: onnx.NodeProto, taken: list[str]) -> str:
        weight = next((v for v in node.input[1:] if v in self.constants), "")
        words = re.sub(r"_\d+/", ".", weight).removesuffix(".weight")
        label = (
            f"{words} ({node.op_type})"
            if "/" in weight and not words.rsplit(".", 1)[-1].startswith("val")
            else node.op_type
        )
        return label if label not in taken else f"{label} {1 + sum(t.startswith(label) for t in taken)}"

    def _run_all(self, name: str) -> dict[str, np.ndarray]:
        names = [v for node in self.nodes for v in node.output if v]
        try:
            found = self._session(self.nodes, names).run(names, self.feeds)
        except Exception as error:  # onnxruntime's errors share no base of their own
            raise InputError(f"{name} cannot be run on one record ({str(error)[:300]})") from None
        made = {n: np.asarray(v) for n, v in zip(names, found, strict=True) if not isinstance(v, list)}
        return {**self.feeds, **made}

    def _session(self, nodes: list[onnx.NodeProto], outputs: list[str]) -> Any:
        used = {v for node in nodes for v in node.input}
        graph = helper.make_graph(
            nodes,
            "client",
            [i for i in self.model.graph.input if i.name in used and i.name not in self.constants],
            [onnx.ValueInfoProto(name=v) for v in outputs],
            [t for t in self.model.graph.initializer if t.name in used],
        )
        part = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        return onnx_session(part.SerializeToString())

    def device_pass(self, at: int) -> Callable[[], Any]:
        """One pass of the record through the part on the device."""
        output = self._sent(at)
        session = self._session(self.nodes[: at + 1], [output])
        feeds = {i.name: self.feeds[i.name] for i in session.get_inputs()}
        return lambda: session.run([output], feeds)


def _feeds(model: onnx.ModelProto, constants: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """One made-up record: numbers near the middle, and gaps for text."""
    rng, feeds = np.random.default_rng(0), {}
    for i in model.graph.input:
        if i.name in constants:
            continue
        kind = i.type.tensor_type
        shape = [1, *(d.dim_value for d in list(kind.shape.dim)[1:])]
        if 0 in shape:
            raise InputError(f"{name}: the shape of a record is not fixed in its input {i.name!r}; export it with one")
        if kind.elem_type == TensorProto.STRING:
            feeds[i.name] = np.full(shape, MISSING_TEXT, dtype=object)
        else:
            numbers = rng.standard_normal(math.prod(shape)).reshape(shape)
            feeds[i.name] = numbers.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return feeds
