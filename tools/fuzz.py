"""Mutated bundles, 20,000 by default: python tools/fuzz.py --cases 20000

Three kinds of case, each a function of its number alone (--first NUMBER --cases 1 runs one again):

- stale: anything is changed, under the MAC of the bundle before. Loaded without trust
- ours: members other than graphs are changed, and the MAC is made again, so that what is behind it is reached
- trusted: graphs and anything else are changed, and the bundle is loaded with trust=True

No case of the first two may crash, take more than 5 seconds, or raise anything but an error of ours. Of the third,
which a runtime that is not ours reads, the same is counted and printed.
"""

from __future__ import annotations

import argparse
import collections
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
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker  # before workers are forked
import pandas as pd
from onnx import numpy_helper

import tacit
from tacit.errors import TacitError
from tacit.release.bundle import digest, members_zip, parse_bundle, read_bundle
from tacit.release.manifest import hashed
from tacit.release.runtime import Release
from tacit.release.trust import OPERATORS, local_mac

KINDS = ("stale", "ours", "trusted")
SECONDS, MEMORY, BATCH = 5, 600 * 2**20, 250
WHOLE = [0, 1, -1, 2, 3, 7, 255, 4096, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
JSON = [None, True, 0, -1, 2**31, 2**63, 1e308, -0.0, "", "x", "\x1b[2J", "\ud800", [], {}, [[]], [0] * 100, {"a": {}}]
ODD = [b"", b"null", b"[" * 10_000, b'{"a":1,"a":2}', b"NaN", b"9" * 5000, b"\xff\xfe", b"[" + b"0," * 2**21 + b"0]"]


def corpus() -> list[dict[str, bytes]]:
    """Members of sound bundles: arrays, noise, a table of codes, and a table with its columns."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.integers(2, size=300)
    s = pd.DataFrame({"sex": rng.choice(["f", "m"], 300)})
    table = pd.DataFrame({"age": rng.integers(18, 80, 300), "town": rng.choice(["a", "b"], 300)})
    fitted = [
        tacit.baselines.LinearARL().fit(X, y, sensitive_features=s),
        tacit.baselines.LaplaceMechanism(3.0).fit(X, y),
        tacit.CodebookFilter(random_state=0).fit(table, y, sensitive_features=s),
        tacit.CouplingFilter(random_state=0).fit(table, sensitive_features=s),
    ]
    with tempfile.TemporaryDirectory() as folder:
        return [dict(read_bundle(tacit.save(f, Path(folder) / "f.tacit")).members) for f in fitted]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Bytes that were overwritten, cut out and put in."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 3])):
        at, how = rng.randrange(max(1, len(changed))), rng.random()
        if how < 0.6:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif how < 0.8:
            del changed[at : at + rng.randrange(1, 300)]
        else:
            changed[at:at] = rng.randbytes(8)
    return bytes(changed)


def other_json(value: Any, rng: random.Random) -> Any:
    """JSON with one value removed or replaced."""
    value = copy.deepcopy(value)
    at = value
    while True:
        key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8:
            at = at[key]
        elif isinstance(at, dict) and rng.random() < 0.1:
            del at[key]
            return value
        else:
            number = isinstance(at[key], int | float) and rng.random() < 0.5
            at[key] = rng.choice([at[key] + 1, -at[key], rng.choice(WHOLE)]) if number else rng.choice(JSON)
            return value


def other_graph(data: bytes, rng: random.Random) -> bytes:
    """A graph with another operator, input, attribute or constant."""
    model = onnx.load_model_from_string(data)
    node, values = rng.choice(model.graph.node), [v for n in model.graph.node for v in (*n.input, *n.output)]
    how = rng.randrange(5)
    if how == 0:
        node.op_type = rng.choice([*sorted(OPERATORS), "Loop", "If", "Einsum", "Expand", "Tile"])
    elif how == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(values)
    elif how == 2 and node.attribute:
        attribute = rng.choice(node.attribute)
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(WHOLE)
        else:
            attribute.i = rng.choice(WHOLE)
    elif how == 3 and model.graph.initializer:
        tensor = rng.choice(model.graph.initializer)
        tensor.CopyFrom(
            numpy_helper.from_array(np.resize(numpy_helper.to_array(tensor), rng.choice([1, 2, 7])), tensor.name)
        )
    else:
        rng.choice(model.graph.input).type.tensor_type.elem_type = rng.randrange(17)
    return model.SerializeToString()


def mutant(bases: list[dict[str, bytes]], number: int) -> tuple[bytes, str]:
    """Case `number`, and of which kind it is."""
    rng, kind = random.Random(number), KINDS[number % 3]
    members = dict(rng.choice(bases))
    manifest = json.loads(members["manifest.json"])
    graphs = [n for n in members if n.endswith(".onnx")]
    if kind == "stale" and rng.random() < 0.5:
        return mutated(members_zip(members), rng), kind
    if kind == "trusted" and rng.random() < 0.8:
        name = rng.choice(graphs)
        members[name] = (other_graph if rng.random() < 0.7 else mutated)(members[name], rng)
    elif rng.random() < 0.5:
        manifest = other_json(manifest, rng)
    else:
        name = rng.choice([n for n in members if n not in (*graphs, "local.mac")])
        members[name] = rng.choice(ODD) if rng.random() < 0.2 else mutated(members[name], rng)
        if name == "manifest.json":
            manifest = None
    if isinstance(manifest, dict):
        names = [n for n in members if n in hashed(json.loads(bases[0]["manifest.json"])) or n in graphs]
        manifest["members"] = {n: {"sha256": digest(members[n]), "bytes": len(members[n])} for n in names}
        members["manifest.json"] = json.dumps(manifest).encode()
    if kind == "ours":
        members["local.mac"] = local_mac(members["manifest.json"]) or b""
    return members_zip(members), kind


def use(data: bytes, trust: bool) -> None:
    """Load a bundle, and use all that is in it."""
    release = Release(parse_bundle(io.BytesIO(data), len(data), Path("case.tacit"), trust=trust), b"fuzz" * 8)
    release.transform(release._schema.made_up(4, np.random.default_rng(0)), on_error="quarantine")
    release.weights()
    assert release.report is None or str(release.report)


def worker(bases: list[dict[str, bytes]], first: int, last: int, shared: mmap.mmap) -> None:
    """Run cases; the number of the present one, and what came of them, are in shared memory."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process, whatever it is in
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    loaded, bad = [0] * len(KINDS), b""
    for number in range(first, last):
        data, kind = mutant(bases, number)
        shared[:32] = struct.pack("<4q", number, *loaded)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            use(data, kind == "trusted")
            loaded[KINDS.index(kind)] += 1
        except TacitError:
            pass
        except BaseException as error:
            bad += f"{number} {type(error).__name__}: {str(error)[:120]}\n".encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
    shared[:32] = struct.pack("<4q", last, *loaded)
    shared[32 : 32 + len(bad)] = bad


def run(first: int, cases: int) -> collections.Counter[str]:
    """Run this many cases; counts those of each kind, those that loaded, and what went wrong."""
    bases, count, at = corpus(), collections.Counter[str](), first
    while at < first + cases:
        last, shared = min(at + BATCH, first + cases), mmap.mmap(-1, 2**18)
        pid = os.fork()
        if pid == 0:
            try:
                worker(bases, at, last, shared)
            finally:
                os._exit(0)
        status = os.waitpid(pid, 0)[1]
        number, *loaded = struct.unpack("<4q", shared[:32])
        for line in shared[32:].rstrip(b"\0").decode(errors="replace").splitlines():
            count[f"{KINDS[int(line.split()[0]) % 3]} unclean"] += 1
            print("unclean:", line, flush=True)
        if os.WIFSIGNALED(status):
            what = "hang" if os.WTERMSIG(status) == signal.SIGALRM else "crash"
            count[f"{KINDS[number % 3]} {what}"] += 1
            print(f"{what}: {number} {signal.Signals(os.WTERMSIG(status)).name}", flush=True)
            number += 1
        elif number < last:
            raise SystemExit(f"case {number} ended its worker; run it alone")
        for kind, n in zip(KINDS, loaded, strict=True):
            count[f"{kind} loaded"] += n
        for case in range(at, number):
            count[KINDS[case % 3]] += 1
        at = number
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TACIT_CONFIG"] = folder
        count = run(asked.first, asked.cases)
    for kind in KINDS:
        said = ", ".join(f"{n:,} {what}" for what, n in count.items() if what.startswith(f"{kind} "))
        print(f"{kind}: {count[kind]:,} mutated bundles; {said}")
    sys.exit(any(count[f"{kind} {what}"] for kind in KINDS[:2] for what in ("crash", "hang", "unclean")))


if __name__ == "__main__":
    main()
