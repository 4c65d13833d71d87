"""What every operator of a bundle gives: types, shapes and costs, before any runtime sees the graph.

The number of records is a large prime, so that it divides a size as often as the size grows with it: a value has a
size that is fixed, or that is so much a record; anything else is refused. Shapes must follow from shapes and
constants, never from records. Standard library alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.errors import BundleError
from tacit.release.tree_check import check_trees

RECORDS = 2**61 - 1  # stands for the number of records
FLOAT, INT32, INT64, STRING, BOOL, DOUBLE = 1, 6, 7, 8, 9, 11
BYTES = {FLOAT: 4, INT32: 4, INT64: 8, STRING: 40, BOOL: 1, DOUBLE: 8}
REAL, NUMBERS = (FLOAT, DOUBLE), (FLOAT, DOUBLE, INT32, INT64)
LARGEST = 2**26  # numbers of one value: fixed, or a record


@dataclass(frozen=True)
class Value:
    """A tensor: its type, its shape, and its numbers where they are few and do not depend on records."""

    type: int
    shape: tuple[int, ...]
    known: tuple[float, ...] | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass
class Node:
    """An operator with its attributes, the values it takes (None where one is left out) and how many it gives."""

    op: str
    attributes: dict[str, Any]
    x: Sequence[Value | None]
    outputs: int = 1
    work: int = 0  # multiply-adds, where they are more than one a number
    scratch: int = 0  # numbers that it holds beside its values

    def refuse(self, why: str) -> BundleError:
        return BundleError(f"model.onnx: {self.op} {why}; it is not run")

    def need(self, fine: Any, why: str) -> None:
        if not fine:
            raise self.refuse(why)

    def take(self, least: int, most: int | None = None, types: Sequence[int] | None = None) -> list[Value]:
        """Its values, none left out, of these types."""
        given = [v for v in self.x if v is not None]
        fits = len(given) == len(self.x) and least <= len(given) <= (most or least)
        self.need(fits, f"has {len(given)} of {len(self.x)} values; it takes {least} to {most or least}")
        self.need(types is None or all(v.type in types for v in given), "is given a type that it does not take")
        return given

    def axis(self, rank: int, name: str = "axis", default: int = 0) -> int:
        return self.place(self.attributes.get(name, default), rank)

    def place(self, axis: float, rank: int) -> int:
        self.need(-rank <= axis < rank, f"names axis {axis} of {rank}")
        return int(axis) % rank

    def whole(self, value: Value | None, what: str) -> list[int]:
        """The numbers of a value that decides a shape."""
        if value is None or value.known is None or value.type not in (INT32, INT64) or len(value.shape) > 1:
            raise self.refuse(f"has {what} that depend on records")
        return [int(n) for n in value.known]

    def ints(self, name: str, default: int, n: int) -> list[int]:
        found = self.attributes.get(name, [default] * n)
        self.need(len(found) == n, f"has {len(found)} {name}; expected {n}")
        return list(found)


def infer(node: Node) -> list[Value]:
    """What a node gives; raises where it could not be run, or is too large."""
    found = RULES[node.op](node)
    found = [found] if isinstance(found, Value) else found
    node.need(len(found) >= node.outputs, f"gives {node.outputs} values; expected {len(found)}")
    for value in found:
        check_size(value, node.op)
    return found


def check_size(value: Value, where: str) -> None:
    """Raise unless a value's size is fixed or in proportion to the records, and not too large."""
    for n in value.shape:
        if n < 1 or (n >= 2**31 and n % RECORDS):
            raise BundleError(f"model.onnx: {where} has a value with a dimension of {n if n < 2**31 else 'odd size'}")
    size = value.size
    each = size // RECORDS if size % RECORDS == 0 else size
    if each >= RECORDS:
        raise BundleError(f"model.onnx: {where} has a value that grows faster than the number of records")
    if each > LARGEST or len(value.shape) > 8:
        raise BundleError(f"model.onnx: {where} has a value that is too large ({each:,} numbers; {LARGEST:,} at most)")


def broadcast(node: Node, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    out = []
    for dims in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        wide = {d for d in dims if d != 1}
        node.need(len(wide) <= 1, "is given shapes that do not fit")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


# -- number by number -------------------------------------------------------------------------------


def _same(node: Node) -> Value:
    x = node.take(1, types=REAL)[0]
    if "axis" in node.attributes:
        node.axis(len(x.shape))
    return Value(x.type, x.shape)


def _plain(node: Node) -> Value:
    return node.take(1, types=NUMBERS)[0]


def _any(node: Node) -> Value:
    return node.take(1)[0]


def _joined(*types: int, least: int = 2, most: int = 2, gives: int | None = None) -> Callable[[Node], Value]:
    def rule(node: Node) -> Value:
        values = node.take(least, most, types)
        node.need(len({v.type for v in values}) == 1, "is given values of several types")
        return Value(gives or values[0].type, broadcast(node, *(v.shape for v in values)))

    return rule


def _where(node: Node) -> Value:
    choice, a, b = node.take(3)
    node.need(choice.type == BOOL and a.type == b.type != STRING, "is given types that it does not take")
    return Value(a.type, broadcast(node, choice.shape, a.shape, b.shape))


def _not(node: Node) -> Value:
    return node.take(1, types=(BOOL,))[0]


def _cast(node: Node) -> Value:
    x = node.take(1, types=(*NUMBERS, BOOL))[0]
    return Value(node.attributes["to"], x.shape, x.known if {x.type, node.attributes["to"]} <= {INT32, INT64} else None)


def _clip(node: Node) -> Value:
    x, *ends = node.x
    if len(ends) > 2 or x is None or x.type not in NUMBERS:
        raise node.refuse("is given what it does not take")
    node.need(all(e is None or (e.size == 1 and e.type == x.type) for e in ends), "has ends that are not numbers")
    return Value(x.type, x.shape)


def _cumsum(node: Node) -> Value:
    x, axis = node.take(2)
    at = node.whole(axis, "axes")
    node.need(len(at) == 1 and x.type in NUMBERS, "is given what it does not take")
    node.place(at[0], len(x.shape))
    return Value(x.type, x.shape)


def _labels(node: Node) -> Value:
    x, a = node.take(1)[0], node.attributes
    node.need(x.type == STRING and {"keys_strings", "values_int64s", "default_int64"} <= set(a), "is not of words")
    node.need(0 < len(a["keys_strings"]) == len(a["values_int64s"]), "has keys without values")
    return Value(INT64, x.shape)


# -- over axes --------------------------------------------------------------------------------------


def _without(node: Node, shape: tuple[int, ...], axes: set[int]) -> tuple[int, ...]:
    if node.attributes.get("keepdims", 1):
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _reduce(node: Node) -> Value:
    x, *given = node.take(1, 2)
    node.need(
        x.type in REAL or (node.op != "ReduceMean" and x.type in (INT32, INT64)), "is given a type it cannot take"
    )
    axes = {node.place(a, len(x.shape)) for a in node.whole(given[0], "axes")} if given else set(range(len(x.shape)))
    node.need(axes, "names no axes")
    node.work = x.size
    return Value(x.type, _without(node, x.shape, axes))


def _argmax(node: Node) -> Value:
    x = node.take(1, types=REAL)[0]
    node.work = x.size
    return Value(INT64, _without(node, x.shape, {node.axis(len(x.shape))}))


def _topk(node: Node) -> list[Value]:
    x, k = node.take(2)
    at, most = node.axis(len(x.shape), default=-1), node.whole(k, "numbers of places")
    node.need(x.type in REAL and len(most) == 1 and 1 <= most[0] <= x.shape[at] < 2**31, "asks for more than there is")
    node.work = 32 * x.size
    shape = (*x.shape[:at], most[0], *x.shape[at + 1 :])
    return [Value(x.type, shape), Value(INT64, shape)]


# -- products ---------------------------------------------------------------------------------------


def _matmul(node: Node) -> Value:
    a, b = node.take(2, types=REAL)
    node.need(a.type == b.type and len(a.shape) >= 2 and len(b.shape) >= 2, "is not given two matrices of one type")
    node.need(a.shape[-1] == b.shape[-2], f"is given shapes {a.shape[-1]} and {b.shape[-2]} that do not fit")
    out = (*broadcast(node, a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    node.work = math.prod(out) * a.shape[-1]
    return Value(a.type, out)


def _gemm(node: Node) -> Value:
    a, b, *c = node.take(2, 3, REAL)
    node.need({len(a.shape), len(b.shape)} == {2} and len({v.type for v in node.x if v}) == 1, "is not of matrices")
    left = a.shape[::-1] if node.attributes.get("transA") else a.shape
    right = b.shape[::-1] if node.attributes.get("transB") else b.shape
    node.need(left[1] == right[0], "is given shapes that do not fit")
    out = (left[0], right[1])
    node.need(not c or broadcast(node, out, c[0].shape) == out, "adds a shape that does not fit")
    node.work = math.prod(out) * left[1]
    return Value(a.type, out)


def _conv(node: Node) -> Value:
    x, w, *bias = node.take(2, 3, REAL)
    a, inner, n = node.attributes, w.shape[2:], len(w.shape) - 2
    node.need(len(x.shape) == len(w.shape) and 1 <= n <= 2 and x.type == w.type, "is not given records and kernels")
    node.need(a.get("kernel_shape", list(inner)) == list(inner), "names another kernel than it has")
    group, transposed = a.get("group", 1), node.op == "ConvTranspose"
    channels, out = (w.shape[0], w.shape[1] * group) if transposed else (w.shape[1] * group, w.shape[0])
    node.need(
        x.shape[1] == channels and channels % group == 0 == out % group, "has channels that do not fit its groups"
    )
    node.need(not bias or bias[0].shape == (out,), "has a bias that does not fit")
    strides, dilations, pads = node.ints("strides", 1, n), node.ints("dilations", 1, n), node.ints("pads", 0, 2 * n)
    more = node.ints("output_padding", 0, n) if transposed else [0] * n
    node.need(all(m < max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)), "pads its output too far")
    spatial = []
    for i, (size, k, s, d) in enumerate(zip(x.shape[2:], inner, strides, dilations, strict=True)):
        span, pad = d * (k - 1) + 1, pads[i] + pads[i + n]
        node.need(max(pads[i], pads[i + n]) <= span, "pads more than its kernel")
        spatial.append((size - 1) * s + span + more[i] - pad if transposed else (size + pad - span) // s + 1)
    node.need(min(spatial) >= 1, "has a kernel larger than its record")
    result = Value(x.type, (x.shape[0], out, *spatial))
    each = math.prod(inner) * w.shape[1]
    node.work = (x.size if transposed else result.size) * each
    node.scratch = each * group * math.prod(x.shape[2:] if transposed else spatial)
    return result


def _pool(node: Node) -> Value:
    x = node.take(1, types=REAL)[0]
    kernel, n = node.attributes["kernel_shape"], len(x.shape) - 2
    node.need(1 <= n <= 2 and len(kernel) == n, "has a kernel of another rank than its record")
    strides, dilations, pads = node.ints("strides", 1, n), node.ints("dilations", 1, n), node.ints("pads", 0, 2 * n)
    spatial = []
    for i, (size, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations, strict=True)):
        span, pad = d * (k - 1) + 1, pads[i] + pads[i + n]
        node.need(max(pads[i], pads[i + n]) < k and span <= size + pad, "has a kernel or pads larger than its record")
        spatial.append((size + pad - span) // s + 1)
    result = Value(x.type, (*x.shape[:2], *spatial))
    node.work = result.size * math.prod(kernel)
    return result


def _global_pool(node: Node) -> Value:
    x = node.take(1, types=REAL)[0]
    node.need(len(x.shape) >= 3, "is not given channels")
    node.work = x.size
    return Value(x.type, (*x.shape[:2], *[1] * (len(x.shape) - 2)))


def _normal(parameters: int) -> Callable[[Node], Value]:
    def rule(node: Node) -> Value:
        x, *by = node.take(1 + parameters, types=REAL)
        node.need(len(x.shape) >= 2 and all(v.shape == (x.shape[1],) for v in by), "has parameters that do not fit")
        node.work = 4 * x.size
        return Value(x.type, x.shape)

    return rule


def _layer_normal(node: Node) -> Value:
    x, *by = node.take(2, 3, REAL)
    at = node.axis(len(x.shape), default=-1)
    node.need(at > 0 and all(v.shape == x.shape[at:] for v in by), "has parameters that do not fit")
    node.work = 4 * x.size
    return Value(x.type, x.shape)


def _trees(node: Node) -> Value:
    x = node.take(1, types=REAL)[0]
    node.need(len(x.shape) == 2 and x.shape[1] < 2**31, "is not given rows")
    node.work = x.shape[0] * check_trees(node.attributes, x.shape[1])
    return Value(FLOAT, (x.shape[0], node.attributes["n_targets"]))


# -- the same numbers elsewhere ---------------------------------------------------------------------


def _reshape(node: Node) -> Value:
    x, target = node.take(2)
    dims = node.whole(target, "shapes")
    node.need(len(dims) <= 8 and min(dims, default=1) >= -1 and dims.count(-1) <= 1, "is given no shape")
    if not node.attributes.get("allowzero"):
        node.need(all(n or i < len(x.shape) for i, n in enumerate(dims)), "copies a dimension that is not there")
        dims = [n or x.shape[i] for i, n in enumerate(dims)]
    rest = math.prod(n for n in dims if n != -1)
    node.need(rest > 0 and x.size % rest == 0, "does not divide its records")
    out = tuple(x.size // rest if n == -1 else n for n in dims)
    node.need(math.prod(out) == x.size, "changes the number of numbers")
    return Value(x.type, out, x.known)


def _flatten(node: Node) -> Value:
    x = node.take(1)[0]
    at = node.attributes.get("axis", 1)
    node.need(0 <= at <= len(x.shape), "names an axis that is not there")
    return Value(x.type, (math.prod(x.shape[:at]), math.prod(x.shape[at:])))


def _squeeze(node: Node) -> Value:
    x, axes = node.take(2)
    at = {node.place(a, len(x.shape)) for a in node.whole(axes, "axes")}
    node.need(all(x.shape[i] == 1 for i in at), "drops a dimension that is not one")
    return Value(x.type, tuple(n for i, n in enumerate(x.shape) if i not in at), x.known)


def _unsqueeze(node: Node) -> Value:
    x, axes = node.take(2)
    given = node.whole(axes, "axes")
    rank = len(x.shape) + len(given)
    at, rest = {node.place(a, rank) for a in given}, iter(x.shape)
    node.need(len(at) == len(given), "names one axis twice")
    return Value(x.type, tuple(1 if i in at else next(rest) for i in range(rank)), x.known)


def _transpose(node: Node) -> Value:
    x = node.take(1)[0]
    order = node.attributes.get("perm", list(range(len(x.shape)))[::-1])
    node.need(sorted(order) == list(range(len(x.shape))), "has no order of all axes")
    return Value(x.type, tuple(x.shape[i] for i in order))


def _concat(node: Node) -> Value:
    values = node.take(1, 2**14)
    first = values[0]
    at = node.axis(len(first.shape))
    for v in values:
        fits = v.type == first.type and len(v.shape) == len(first.shape)
        node.need(fits and all(a == b for i, (a, b) in enumerate(zip(v.shape, first.shape, strict=True)) if i != at),
                  "joins shapes that do not fit")  # fmt: skip
    known = None
    if len(first.shape) == 1 and all(v.known is not None for v in values):
        known = tuple(n for v in values for n in v.known or ())
    return Value(first.type, (*first.shape[:at], sum(v.shape[at] for v in values), *first.shape[at + 1 :]), known)


def _split(node: Node) -> list[Value]:
    x, *given = node.take(1, 2)
    at, n = node.axis(len(x.shape)), node.outputs
    node.need(given or x.shape[at] % n == 0, "does not divide its axis")
    node.need(node.attributes.get("num_outputs", n) == n, "says another number of parts than it has")
    sizes = node.whole(given[0], "sizes") if given else [x.shape[at] // n] * n
    node.need(len(sizes) == n and min(sizes) > 0 and sum(sizes) == x.shape[at], "has sizes that do not fit")
    return [Value(x.type, (*x.shape[:at], size, *x.shape[at + 1 :])) for size in sizes]


def _slice(node: Node) -> Value:
    x, starts, ends, *more = node.take(3, 5)
    first, last = node.whole(starts, "starts"), node.whole(ends, "ends")
    axes = node.whole(more[0], "axes") if more else list(range(len(first)))
    steps = node.whole(more[1], "steps") if len(more) > 1 else [1] * len(first)
    node.need(len(first) == len(last) == len(axes) == len(steps) and 0 not in steps, "has ends that do not fit")
    at = [node.place(a, len(x.shape)) for a in axes]
    node.need(len(set(at)) == len(at), "names one axis twice")
    shape, known = list(x.shape), x.known
    for axis, start, end, step in zip(at, first, last, steps, strict=True):
        node.need(abs(step) < 2**31, "takes steps that are too long")
        taken = range(*slice(start, end, step).indices(shape[axis]))
        # a range of more than 2^63 has no length
        shape[axis] = max(0, -((taken.start - taken.stop) // taken.step))
        known = None if known is None or len(x.shape) != 1 else tuple(known[i] for i in taken)
    return Value(x.type, tuple(shape), known)


def _gather(node: Node) -> Value:
    x, at = node.take(2)
    node.need(at.type in (INT32, INT64), "is given places that are not whole numbers")
    axis = node.axis(len(x.shape))
    known = None
    if x.known is not None and len(x.shape) == 1 and at.known is not None:
        node.need(all(-len(x.known) <= i < len(x.known) for i in at.known), "takes what is not there")
        known = tuple(x.known[int(i)] for i in at.known)
    return Value(x.type, (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]), known)


def _gather_elements(node: Node) -> Value:
    x, at = node.take(2)
    axis = node.axis(len(x.shape))
    fits = at.type in (INT32, INT64) and len(at.shape) == len(x.shape)
    node.need(fits and all(a == b for i, (a, b) in enumerate(zip(at.shape, x.shape, strict=True)) if i != axis),
              "is given places that do not fit")  # fmt: skip
    return Value(x.type, at.shape)


def _gather_nd(node: Node) -> Value:
    x, at = node.take(2)
    deep = at.shape[-1] if at.shape else 0
    node.need(at.type == INT64 and 1 <= deep <= len(x.shape), "is given places that do not fit")
    return Value(x.type, (*at.shape[:-1], *x.shape[deep:]))


def _shape(node: Node) -> Value:
    x = node.take(1)[0]
    dims = x.shape[node.attributes.get("start", 0) : node.attributes.get("end", len(x.shape))]
    return Value(INT64, (len(dims),), tuple(dims))


def _pad(node: Node) -> Value:
    x, pads, *value = node.take(2, 3)
    n, mode = len(x.shape), node.attributes.get("mode", "constant")
    by = node.whole(pads, "pads")
    node.need(x.type in REAL and len(by) == 2 * n, "has pads that do not fit")
    node.need(not value or (value[0].size == 1 and value[0].type == x.type), "pads with what is not a number")
    for i, size in enumerate(x.shape):
        pair = by[i], by[i + n]
        most = 0 if size >= RECORDS else 2**15 if mode != "reflect" else size - 1
        node.need(min(pair) >= 0 and max(pair) <= most, "pads too far")
    return Value(x.type, tuple(size + by[i] + by[i + n] for i, size in enumerate(x.shape)))


def _resize(node: Node) -> Value:
    x = node.x[0]
    given = [v for v in node.x[1:] if v is not None]
    by = given[0].known if len(given) == 1 else None
    if x is None or by is None or x.type != FLOAT or len(x.shape) not in (3, 4):
        raise node.refuse("is not given records and one constant scale")
    node.need(len(node.x) == 3 and len(by) == len(x.shape), "is given sizes; scales are run")
    node.need(given[0].type == FLOAT and by[:2] == (1, 1) and all(1 / 64 <= s <= 64 for s in by), "has odd scales")
    shape = (*x.shape[:2], *(math.floor(n * s) for n, s in zip(x.shape[2:], by[2:], strict=True)))
    node.work = 8 * math.prod(shape)
    return Value(x.type, shape)


def _constant(node: Node) -> Value:
    found: Value = node.attributes["value"]
    node.take(0)
    return found


SAME = (
    "Ceil Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log LogSoftmax Mish Reciprocal Relu Round Selu "
    "Sigmoid Sin Softmax Softplus Softsign Sqrt Tanh"
)
REDUCE = "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
RULES: dict[str, Callable[[Node], Value | list[Value]]] = {
    **dict.fromkeys(SAME.split(), _same),
    **dict.fromkeys(REDUCE.split(), _reduce),
    **dict.fromkeys(["Abs", "Neg", "Sign"], _plain),
    **dict.fromkeys(["Add", "Sub", "Mul", "PRelu"], _joined(*NUMBERS)),
    **dict.fromkeys(["Div", "Pow"], _joined(*REAL)),  # whole numbers by zero end the process
    **dict.fromkeys(["Max", "Min", "Sum", "Mean"], _joined(*REAL, least=1, most=64)),
    **dict.fromkeys(["Greater", "GreaterOrEqual", "Less", "LessOrEqual"], _joined(*NUMBERS, gives=BOOL)),
    "Equal": _joined(*NUMBERS, BOOL, gives=BOOL),
    **dict.fromkeys(["And", "Or"], _joined(BOOL)),
    **dict.fromkeys(["Conv", "ConvTranspose"], _conv),
    **dict.fromkeys(["AveragePool", "MaxPool"], _pool),
    **dict.fromkeys(["GlobalAveragePool", "GlobalMaxPool"], _global_pool),
    "BatchNormalization": _normal(4), "InstanceNormalization": _normal(2), "LayerNormalization": _layer_normal,
    "ArgMax": _argmax, "Cast": _cast, "Clip": _clip, "Concat": _concat, "Constant": _constant, "CumSum": _cumsum,
    "Flatten": _flatten, "Gather": _gather, "GatherElements": _gather_elements,
    "GatherND": _gather_nd, "Gemm": _gemm, "Identity": _any,
    "MatMul": _matmul, "Not": _not, "Pad": _pad, "Reshape": _reshape, "Resize": _resize, "Shape": _shape,
    "Slice": _slice, "Split": _split, "Squeeze": _squeeze, "TopK": _topk, "Transpose": _transpose,
    "Unsqueeze": _unsqueeze, "Where": _where, "LabelEncoder": _labels, "TreeEnsembleRegressor": _trees,
}  # fmt: skip
