"""Mutated bundles, by the thousand: python tests/fuzz.py --seconds 600

Each case is a sound bundle after one to three changes of its structure: operators, attributes, shapes, trees, members,
JSON, bytes. It is loaded, and releases records, in a forked worker with 300 MB more than it had and 5 seconds a case.
Every case is a function of its number alone, so that one that failed can be run again: --first NUMBER --cases 1.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import io
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # noqa: F401  before workers are forked
from onnx import TensorProto, helper, numpy_helper

from tacit.errors import TacitError
from tacit.release.answer import Answerer
from tacit.release.bundle import LIMITS, digest, members_zip, parse_bundle, read_bundle
from tacit.release.first_load import trust
from tacit.release.graph_check import ATTRIBUTES, ML_OPERATORS
from tacit.release.graph_shapes import RULES
from tacit.release.manifest import MEMBERS, hashed
from tacit.release.runtime import Release

HERE = Path(__file__).parent
SECONDS, MEMORY, BATCH = 5, 300 * 2**20, 500
WHOLE = [0, 1, -1, 2, 3, 4, 7, 8, 16, 255, 4096, 2**15, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
REAL = [0.0, -0.0, 1.0, -1.0, 1e-300, 1e38, -1e308, float("nan"), float("inf"), float("-inf")]
WORDS = [
    "",
    "x",
    "NOTSET",
    "SAME_UPPER",
    "LEAF",
    "BRANCH_LEQ",
    "BRANCH_EQ",
    "linear",
    "nearest",
    "cubic",
    "\x1b[2J",
    "é" * 50,
]
JSON = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    1e308,
    -0.0,
    "",
    "x",
    "\x1b[2J",
    "\ud800",
    [],
    {},
    [[]],
    [0] * 100,
    {"a": {}},
]


# -- sound bundles --------------------------------------------------------------------------------


def handmade() -> list[tuple[dict, dict]]:
    """A window and an image filter whose graphs hold what trained networks do."""
    made, base = [], read_bundle(HERE / "fixtures" / "format2.tacit")
    for shape in ((2, 12), (1, 8, 8)):
        n, node = len(shape) - 1, helper.make_node
        weights = {"w": np.ones((4, shape[0], *[3] * n)), "v": np.ones((4, 2, *[2] * n)), "s": np.ones(2)}
        flat = 2 * int(np.prod([d - d % 2 for d in shape[1:]]))
        weights |= {"m": np.ones((flat, 3)), "b": np.ones(3)}
        constants = [numpy_helper.from_array(a.astype(np.float32), k) for k, a in weights.items()]
        constants += [
            numpy_helper.from_array(np.array(a, np.int64), k)
            for k, a in {"to": [-1, flat], "one": [1], "two": [2], "zero": [0], "ends": [2**63 - 1]}.items()
        ]
        nodes = [
            node("Identity", ["X"], ["encoded"]), node("Cast", ["X"], ["f"], to=1),
            node("Conv", ["f", "w"], ["c"], kernel_shape=[3] * n, pads=[1] * 2 * n, strides=[1] * n, group=1),
            node("Relu", ["c"], ["r"]), node("MaxPool", ["r"], ["p"], kernel_shape=[2] * n, strides=[2] * n),
            node("ConvTranspose", ["p", "v"], ["t"], kernel_shape=[2] * n, strides=[2] * n),
            node("InstanceNormalization", ["t", "s", "s"], ["i"]), node("Softmax", ["i"], ["q"], axis=-1),
            node("Reshape", ["q", "to"], ["h"]), node("Gemm", ["h", "m", "b"], ["g"]),
            node("TopK", ["g", "two"], ["k", "at"], axis=1), node("Slice", ["k", "zero", "ends", "one"], ["l"]),
            node("ReduceSum", ["l", "one"], ["u"], keepdims=1), node("Concat", ["u", "l"], ["z"], axis=1),
            node("Cast", ["z"], ["release"], to=11),
        ]  # fmt: skip
        x = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", *shape])]
        outputs = [helper.make_tensor_value_info(o, TensorProto.DOUBLE, None) for o in ("release", "encoded")]
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
        graph = helper.make_graph(nodes, "g", x, outputs, constants)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        manifest = {k: v for k, v in base.manifest.items() if k != "members"} | {"analyzer": None}
        manifest["input"] = {"kind": "array", "shape": list(shape), "ranges": [[0, 1]] * shape[0]}
        said = {"shape": [3], "names": ["a", "b", "c"], "table": None, "codes": None, "meaning": ""}
        made.append((manifest | {"output": said}, {n: base.members[n] for n in MEMBERS} | {"model.onnx": model}))
    return made


def corpus(extra: list[Path] = ()) -> list[tuple[dict, dict]]:
    """Manifest and members of every sound bundle."""
    found = handmade()
    for path in [*sorted((HERE / "fixtures").glob("*.tacit")), *extra]:
        bundle = read_bundle(path)
        found.append(({k: v for k, v in bundle.manifest.items() if k != "members"}, dict(bundle.members)))
    return found


# -- changes ----------------------------------------------------------------------------------------


class Mutant:
    """One bundle on its way to being unsound; the model is parsed once, and written when all is done."""

    def __init__(self, rng: random.Random, manifest: dict, members: dict) -> None:
        self.rng, self.manifest, self.members = rng, copy.deepcopy(manifest), dict(members)
        self.member = "analyzer.onnx" if "analyzer.onnx" in members and rng.random() < 0.3 else "model.onnx"
        self.model = onnx.load_model_from_string(self.members[self.member])
        self.graph, self.raw = self.model.graph, None

    def bytes(self) -> bytes:
        if self.raw is not None:
            return self.raw
        self.members[self.member] = self.model.SerializeToString()
        return packed(self.manifest, self.members)

    def value(self) -> str:
        return self.rng.choice([v for n in self.graph.node for v in (*n.input, *n.output)] + [""])

    def node(self):
        return self.rng.choice(self.graph.node)

    def whole(self) -> int:
        return self.rng.choice([*WHOLE, self.rng.randrange(-10, 10), self.rng.randrange(2**63)])

    # operators
    def other_operator(self):
        node = self.node()
        node.op_type = self.rng.choice([*RULES, "Loop", "If", "Einsum", "Expand", "NonZero", "Tile", "Range"])
        node.domain = "ai.onnx.ml" if node.op_type in ML_OPERATORS else self.rng.choice(["", "", "", "com.microsoft"])

    def rewire(self):
        node = self.node()
        if node.input:
            node.input[self.rng.randrange(len(node.input))] = self.value()

    def drop_or_double(self):
        at = self.rng.randrange(len(self.graph.node))
        if self.rng.random() < 0.5:
            del self.graph.node[at]
        else:
            self.graph.node.insert(at, copy.deepcopy(self.graph.node[at]))

    def insert(self):
        """A known operator between two others, with attributes of its own in their ranges."""
        rng, at = self.rng, self.rng.randrange(len(self.graph.node))
        after = self.graph.node[at]
        if not after.input:
            return
        taken, name, op = after.input[0], f"new{rng.random()}", rng.choice([*RULES])
        inputs = [taken] + [self.value() for _ in range(rng.choice([0, 0, 0, 1, 1, 2]))]
        if rng.random() < 0.4:
            inputs[1:] = [self.constant() for _ in inputs[1:]]
        node = helper.make_node(op, inputs, [name], domain="ai.onnx.ml" if op in ML_OPERATORS else "")
        for attribute, known in ATTRIBUTES.get(op, {}).items():
            if rng.random() < 0.6:
                self.attribute(node, attribute, known)
        self.graph.node.insert(at, node)
        after.input[0] = name

    def constant(self) -> str:
        name, rng = f"constant{self.rng.random()}", self.rng
        shape = [rng.choice([1, 1, 2, 3, 4]) for _ in range(rng.randrange(4))]
        kind = rng.choice([np.float32, np.float64, np.int64, np.int32, bool])
        numbers = np.array(
            [rng.choice([0, 1, 2, -1, 3, rng.choice(WHOLE) % 2**31]) for _ in range(int(np.prod(shape)))]
        )
        self.graph.initializer.append(numpy_helper.from_array(numbers.reshape(shape).astype(kind), name))
        return name

    # attributes
    def attribute(self, node, name, known):
        rng, kind = self.rng, known[0]
        odd = rng.random() < 0.3

        def number():
            return self.whole() if odd else rng.randint(max(known[1], -9), min(known[2], 9))

        n = rng.choice([1, 2, 2, 3, 4])
        value = {"i": number, "ints": lambda: [number() for _ in range(n)], "f": lambda: rng.choice(REAL),
                 "s": lambda: rng.choice(WORDS if odd else known[1:] or WORDS),
                 "strings": lambda: [rng.choice(WORDS) for _ in range(n)],
                 "t": lambda: numpy_helper.from_array(np.zeros(n)), }[kind]()  # fmt: skip
        with contextlib.suppress(ValueError, TypeError):
            if -(2**63) <= (value if isinstance(value, int) else 0) < 2**63:
                node.attribute.append(helper.make_attribute(name, value))

    def change_attribute(self):
        node = self.node()
        if not node.attribute:
            return
        a, rng = self.rng.choice(node.attribute), self.rng
        if rng.random() < 0.1:
            node.attribute.remove(a)
        elif rng.random() < 0.1:
            a.type = rng.randrange(15)
        elif a.type == 2:
            a.i = self.whole()
        elif a.type == 1:
            a.f = rng.choice([0, 1, -1, 1e38, float("nan"), float("inf")])
        elif a.type == 3:
            a.s = rng.choice(WORDS).encode()
        elif a.type == 7 and a.ints:
            if rng.random() < 0.3:
                a.ints.append(self.whole())
            else:
                a.ints[rng.randrange(len(a.ints))] = self.whole()
        elif a.type == 8 and a.strings:
            a.strings[rng.randrange(len(a.strings))] = rng.choice(WORDS).encode()
        elif a.type == 4:
            a.t.dims.append(self.whole() % 2**62)

    def add_attribute(self):
        node, op = self.node(), self.rng.choice([*ATTRIBUTES])
        name, known = self.rng.choice([*ATTRIBUTES[op].items()])
        if all(a.name != name for a in node.attribute) or self.rng.random() < 0.1:
            self.attribute(node, name, known)

    # shapes and numbers
    def dimensions(self):
        if not self.graph.initializer:
            return
        tensor, rng = self.rng.choice(self.graph.initializer), self.rng
        array = numpy_helper.to_array(tensor)
        shape = [max(0, d + rng.choice([0, 0, 1, -1, 3])) for d in array.shape] + [1] * rng.choice([0, 0, 1])
        if rng.random() < 0.3:
            tensor.dims[:] = [abs(self.whole()) % 2**63 for _ in shape]
        elif np.prod(shape) < 10**6:
            tensor.CopyFrom(numpy_helper.from_array(np.resize(array, shape), tensor.name))

    def numbers(self):
        if not self.graph.initializer:
            return
        tensor = self.rng.choice(self.graph.initializer)
        array = numpy_helper.to_array(tensor).copy()
        if array.size and array.dtype.kind in "fi":
            at = self.rng.randrange(array.size)
            array.flat[at] = (
                self.rng.choice(REAL) if array.dtype.kind == "f" else self.whole() % 2**31 - self.rng.choice([0, 2**30])
            )
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    def types(self):
        if self.graph.initializer:
            tensor = self.rng.choice(self.graph.initializer)
            array = numpy_helper.to_array(tensor)
            kind = self.rng.choice([np.float32, np.float64, np.int64, np.int32, np.float16, np.uint8, bool])
            with contextlib.suppress(ValueError, TypeError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tensor.CopyFrom(numpy_helper.from_array(array.astype(kind), tensor.name))

    def inputs(self):
        value = self.rng.choice([*self.graph.input, *self.graph.output])
        kind = value.type.tensor_type
        if self.rng.random() < 0.2:
            kind.elem_type = self.rng.randrange(17)
        elif kind.shape.dim:
            self.rng.choice(kind.shape.dim).dim_value = self.whole()
        else:
            value.name = self.value()

    # trees
    def trees(self):
        rng = self.rng
        found = [n for n in self.graph.node if n.op_type == "TreeEnsembleRegressor"]
        if not found:
            return self.grow()
        node = rng.choice(found)
        lists = [a for a in node.attribute if a.type in (7, 8) and (len(a.ints) or len(a.strings))]
        for _ in range(rng.choice([1, 1, 2, 5])):
            a = rng.choice(lists)
            if a.type == 7:
                at = rng.randrange(len(a.ints))
                a.ints[at] = rng.choice([self.whole(), rng.choice(a.ints), a.ints[at] + 1, a.ints[at] - 1]) % 2**63
            else:
                a.strings[rng.randrange(len(a.strings))] = rng.choice(WORDS).encode()

    def grow(self):
        """A chain of any depth, sound or with one false step, in front of the first node that takes floats."""
        rng, depth = self.rng, self.rng.choice([1, 1, 5, 5, 50, 50, 900, 2000, self.rng.choice([50, 20_000])])
        n, inner = 2 * depth + 1, set(range(0, 2 * depth, 2))
        leaves = [i for i in range(n) if i not in inner]
        said = {
            "nodes_treeids": [0] * n, "nodes_nodeids": list(range(n)), "nodes_featureids": [0] * n, "n_targets": 1,
            "nodes_modes": ["BRANCH_LEQ" if i in inner else "LEAF" for i in range(n)],
            "nodes_values_as_tensor": numpy_helper.from_array(np.zeros(n)), "target_treeids": [0] * len(leaves),
            "nodes_truenodeids": [i + 1 if i in inner else 0 for i in range(n)], "target_nodeids": leaves,
            "nodes_falsenodeids": [i + 2 if i in inner else 0 for i in range(n)], "target_ids": [0] * len(leaves),
            "target_weights_as_tensor": numpy_helper.from_array(np.ones(len(leaves))),
        }  # fmt: skip
        if rng.random() < 0.5:
            of = rng.choice([k for k, v in said.items() if isinstance(v, list) and k != "nodes_modes"])
            said[of][rng.randrange(len(said[of]))] = rng.choice([-1, 0, 1, n, 2**31, n - 1])
        x = self.graph.input[0].name
        node = helper.make_node("TreeEnsembleRegressor", [x], [f"tree{rng.random()}"], domain="ai.onnx.ml", **said)
        self.graph.node.insert(0, node)

    # members and JSON
    def json_value(self):
        rng, at = self.rng, self.manifest
        while True:
            keys = list(at) if isinstance(at, dict) else range(len(at))
            key = rng.choice(list(keys))
            deeper = isinstance(at[key], dict | list) and at[key]
            if deeper and rng.random() < 0.8:
                at = at[key]
                continue
            if isinstance(at, dict) and rng.random() < 0.1:
                del at[key]
            elif isinstance(at[key], int | float) and rng.random() < 0.5:
                at[key] = rng.choice([at[key] + 1, -at[key], at[key] * 2, self.whole()])
            else:
                at[key] = rng.choice(JSON)
            return

    def other_json(self):
        rng = self.rng
        odd = [b"", b"null", b"[" * 10_000, b'{"a":1,"a":2}', b"NaN", b"1e999", b"9" * 5000, b"\xff\xfe", b'"\\ud800"']
        odd += [b"[" + b"0," * rng.choice([10, 2**19, 2**21]) + b"0]", b'{"":' * 1000 + b"1" + b"}" * 1000]
        odd += [b'"' + b"x" * 2**20 + b'"']
        self.members[rng.choice(["audit.json", "audit.json", "card.md", "weights.safetensors"])] = rng.choice(odd)

    def header(self):
        data = self.members["weights.safetensors"]
        n = int.from_bytes(data[:8], "little")
        head = data[8 : 8 + n].replace(b'"F64"', self.rng.choice([b'"F32"', b'"I8"', b'"X"']), 1)
        if self.rng.random() < 0.5:
            head = head.replace(b"[", b"[" + str(self.whole()).encode() + b",", 1)
        self.members["weights.safetensors"] = (
            struct.pack("<Q", self.rng.choice([len(head), len(head), 2**40])) + head + data[8 + n :]
        )

    def flip(self):
        """Bytes of one member under a right hash, or of the archive."""
        name = self.rng.choice([*self.members, "archive"])
        data = bytearray(self.bytes() if name == "archive" else self.members[name])
        for _ in range(self.rng.choice([1, 1, 3])):
            at, how = self.rng.randrange(max(1, len(data))), self.rng.random()
            if how < 0.6:
                data[at : at + 1] = bytes([self.rng.randrange(256)])
            elif how < 0.8:
                del data[at : at + self.rng.randrange(1, 300)]
            else:
                data[at:at] = self.rng.randbytes(8)
        if name == "archive":
            self.raw = bytes(data)
        elif name == self.member:
            self.raw = packed(self.manifest, self.members | {name: bytes(data)})
        else:
            self.members[name] = bytes(data)

    def archive(self):
        name = self.rng.choice([*self.members])
        if self.rng.random() < 0.5:
            self.members.pop(name)
            self.members.setdefault(self.member, b"")
        else:
            self.members[name] = self.members[name] * self.rng.choice([2, 10])


CHANGES = [
    (Mutant.insert, 5), (Mutant.numbers, 3), (Mutant.change_attribute, 3), (Mutant.other_operator, 2),
    (Mutant.add_attribute, 2), (Mutant.rewire, 2), (Mutant.dimensions, 2), (Mutant.types, 2), (Mutant.inputs, 2),
    (Mutant.trees, 3), (Mutant.grow, 1), (Mutant.json_value, 4), (Mutant.other_json, 1), (Mutant.header, 1),
    (Mutant.flip, 3), (Mutant.archive, 1), (Mutant.drop_or_double, 1),
]  # fmt: skip


def packed(manifest: dict, members: dict) -> bytes:
    """A bundle of these members under right hashes."""
    held = {n: members[n] for n in members if n in LIMITS and n != "manifest.json"}
    names = [n for n in hashed(manifest) if n in held]
    full = {**manifest, "members": {n: {"sha256": digest(held[n]), "bytes": len(held[n])} for n in names}}
    try:
        text = json.dumps(full).encode()
    except ValueError:
        text = b"{}"
    return members_zip({"manifest.json": text, **held})


def mutant(bases: list[tuple[dict, dict]], number: int) -> bytes:
    """Case `number`."""
    rng = random.Random(number)
    made = Mutant(rng, *rng.choice(bases))
    for _ in range(rng.choice([1, 1, 2, 3])):
        with contextlib.suppress(ValueError, TypeError, IndexError, KeyError):  # what is broken is not changed further
            rng.choices([c for c, _ in CHANGES], [w for _, w in CHANGES])[0](made)
        if made.raw is not None or not made.graph.node or not isinstance(made.manifest, dict):
            break
    return made.bytes()


# -- cases in workers -------------------------------------------------------------------------------


def use(data: bytes) -> None:
    """All that a stranger's bundle is used for."""
    bundle = parse_bundle(io.BytesIO(data), len(data), "case.tacit")
    trust(bundle)
    release = Release(bundle, b"k" * 32)
    if bundle.manifest.get("analyzer") is not None:
        Answerer(bundle)
    release.transform(release._schema.made_up(4, np.random.default_rng(0)), on_error="quarantine")
    assert release.report is None or str(release.report) is not None


def worker(bases, first: int, last: int, shared: mmap.mmap) -> None:
    """Run cases; what it is at, and what came of them, stands in shared memory."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the default ends the process, whatever it is in
    warnings.simplefilter("ignore")
    page = resource.getpagesize()
    base = [int(n) * page for n in Path("/proc/self/statm").read_text().split()]
    resource.setrlimit(resource.RLIMIT_DATA, (base[5] + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    loaded, bad = 0, b""
    for number in range(first, last):
        shared[:24] = struct.pack("<3q", number, loaded, _peak() - base[1])
        data = mutant(bases, number)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            use(data)
            loaded += 1
        except TacitError:
            pass
        except BaseException as error:
            bad += f"{number}: {type(error).__name__}: {str(error)[:120]}\n".encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
    shared[:24] = struct.pack("<3q", last, loaded, _peak() - base[1])
    shared[24 : 24 + len(bad)] = bad


def _peak() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def run(bases, first: int, cases: int | None, until: float | None = None, tell=print) -> collections.Counter:
    """Run so many cases, or until this time; counts cases, those loaded, failures, and the largest memory in bytes."""
    count = collections.Counter(cases=0, loaded=0, crashes=0, hangs=0, unclean=0, memory=0)
    at, told = first, time.monotonic()
    while (cases is None or at < first + cases) and (until is None or time.monotonic() < until):
        last = at + BATCH if cases is None else min(at + BATCH, first + cases)
        shared = mmap.mmap(-1, 2**16)
        pid = os.fork()
        if pid == 0:
            try:
                worker(bases, at, last, shared)
            finally:
                os._exit(0)
        status = os.waitpid(pid, 0)[1]
        number, loaded, peak = struct.unpack("<3q", shared[:24])
        for line in shared[24:].rstrip(b"\0").decode(errors="replace").splitlines():
            count["unclean"] += 1
            tell(f"unclean, case {line}")
        if os.WIFSIGNALED(status):
            what = "hangs" if os.WTERMSIG(status) == signal.SIGALRM else "crashes"
            count[what] += 1
            tell(f"{what}, case {number}: {signal.Signals(os.WTERMSIG(status)).name}")
            number += 1
        count["cases"] += number - at
        count["loaded"] += loaded
        count["memory"] = max(count["memory"], peak)
        at = number
        if time.monotonic() - told > 30:
            told = time.monotonic()
            tell(f"{dict(count)}")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=None, help="run for as long")
    parser.add_argument("--cases", type=int, default=None, help="run as many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("bundles", type=Path, nargs="*", help="sound bundles to change, beside those that are here")
    asked = parser.parse_args()
    if asked.seconds is None and asked.cases is None:
        asked.seconds = 60
    warnings.simplefilter("ignore")
    until = None if asked.seconds is None else time.monotonic() + asked.seconds
    found = run(corpus(asked.bundles), asked.first, asked.cases, until, lambda line: print(line, flush=True))
    print(f"{found['cases']:,} mutated bundles from case {asked.first:,}: {found['loaded']:,} loaded, others refused; "
          f"{found['crashes']} crashes, {found['hangs']} hangs over {SECONDS} s, {found['unclean']} unclean errors; "
          f"at most {found['memory'] / 2**20:.0f} MB above the base")  # fmt: skip
    sys.exit(1 if found["crashes"] or found["hangs"] or found["unclean"] or found["memory"] > MEMORY else 0)


if __name__ == "__main__":
    main()
