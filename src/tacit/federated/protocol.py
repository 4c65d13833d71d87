"""Messages between nodes and their server, and what either does with them, as pure functions on named arrays.

No transport and no torch: the same functions run in one process (`tacit.federated.simulate`) and between machines
(`tacit.federated.flower`). A message is a kind, a round, plain facts (JSON) and named arrays. Of the encoder a message
holds, per parameter, flat indices and values (Algorithm 1 of the EIGAN paper, lines 16 and 20); indices that are left
out mean "all". An engine has to do three things:

1. carry each `Message` to its node, call ``worker.work(message)`` there and carry the answer back;
2. keep ``worker.state()`` and ``coordinator.state()`` (named arrays and JSON) where a killed process finds them again;
3. call the coordinator's ``requests()`` and ``receive(answers)`` in turn until ``finished``.

An algorithm has three methods for it: ``coordinator(names, min_nodes)``, ``worker(node)`` and ``conclude(coordinator,
workers)``. A worker also has a ``digest()`` of its data and an ``own_filter()``, None where one filter is for all; a
coordinator's ``log`` has a line about every exchange: round, nodes, rejected and failed ones with the reason, bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit import files
from tacit.errors import InputError, TacitError

Arrays = Mapping[str, np.ndarray]
AGGREGATIONS = ("unbiased", "paper")
INDICES, VALUES = "indices/", "values/"
ALL = "all nodes"  # in masked sums
MAX_RECORDS = 10**9  # of a node
LARGEST = 1e6  # of a parameter: inputs are scaled, so that training comes nowhere near; averaged in, more ends in NaN


class ProtocolError(TacitError, RuntimeError):
    """A step that is not allowed in this state, or a message that cannot be used."""


@dataclass(frozen=True)
class Message:
    """One message between a node and the server.

    Attributes
    ----------
    kind : what it asks or answers: "describe", "train", ...
    node : the node it goes to or comes from
    round : the number of the round, from 0; -1 before the first
    facts : plain data (JSON)
    arrays : by name
    """

    kind: str
    node: str
    round: int = -1
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and the facts; an engine's envelope (names, signatures, TLS) comes on top."""
        return sum(a.nbytes for a in self.arrays.values()) + len(json.dumps(dict(self.facts)))

    def digest(self) -> str:
        """To know a message that came before."""
        told = hashlib.sha256(json.dumps([self.kind, self.round, dict(self.facts)], sort_keys=True).encode())
        for name in sorted(self.arrays):
            told.update(name.encode() + self.arrays[name].tobytes())
        return told.hexdigest()


def under(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, by the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def over(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """The arrays, with this before their names."""
    return {prefix + k: v for k, v in arrays.items()}


def printable(text: Any, most: int = 300) -> str:
    """What somebody else said, for a log or a screen: one line, no escapes, not endless.

    Examples
    --------
    >>> printable("all is well\\n\\x1b[2Jround 3: n1, n2")
    'all is well??[2Jround 3: n1, n2'
    """
    return "".join(c if c.isprintable() else "?" for c in str(text)[:most])


# -- sparse messages ------------------------------------------------------------------------------


def choose_indices(like: Arrays, share: float, rng: np.random.Generator) -> dict[str, np.ndarray] | None:
    """A random share of all coordinates (the paper's Q): per parameter, sorted flat indices; None means all."""
    if share >= 1:
        return None
    names = sorted(like)  # not in the order they happen to come in
    sizes = [like[name].size for name in names]
    total = sum(sizes)
    chosen = np.sort(rng.choice(total, max(1, round(share * total)), replace=False))
    ends = np.cumsum([0, *sizes])
    return {
        name: (chosen[(chosen >= ends[i]) & (chosen < ends[i + 1])] - ends[i]).astype(np.uint32)
        for i, name in enumerate(names)
    }


def pack(arrays: Arrays, indices: Mapping[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    """Named arrays as a message's: values (and flat indices) per parameter.

    Examples
    --------
    >>> weights = {"w": np.array([[1., 2.], [3., 4.]])}
    >>> unpack(pack(weights, {"w": np.array([0, 3])}), {"w": np.zeros((2, 2))})["w"]
    array([[1., 0.],
           [0., 4.]])
    """
    if indices is None:
        return {VALUES + name: np.ascontiguousarray(a) for name, a in arrays.items()}
    packed = {INDICES + name: indices[name] for name in arrays}
    return packed | {VALUES + name: a.reshape(-1)[indices[name]] for name, a in arrays.items()}


def unpack(packed: Arrays, onto: Arrays) -> dict[str, np.ndarray]:
    """`onto` with the coordinates of the message written over it (line 16: other coordinates do not change)."""
    out = {}
    for name, array in onto.items():
        if INDICES + name not in packed:
            out[name] = packed[VALUES + name].reshape(array.shape).copy()
            continue
        flat = array.reshape(-1).copy()
        flat[packed[INDICES + name]] = packed[VALUES + name]
        out[name] = flat.reshape(array.shape)
    return out


# -- averages -----------------------------------------------------------------------------------------


def aggregate(
    current: Arrays,
    answers: Sequence[Message],
    aggregation: str = "unbiased",
    weights: Mapping[str, float] | None = None,
) -> dict[str, np.ndarray]:
    """The new global parameters: averages weighted by each node's number of records, N_k / N.

    "unbiased": over the nodes that sent the coordinate; what nobody sent keeps its value. "paper" (line 11, to the
    letter): coordinates a node did not send count as 0, which shrinks every weight by the share that is sent.
    The order in which answers came does not matter: they are summed by the nodes' names.
    """
    if aggregation not in AGGREGATIONS:
        raise InputError(f"aggregation must be 'unbiased' or 'paper'; found {aggregation!r}")
    if not answers:
        raise ProtocolError("there is no answer to aggregate; keep the current parameters and ask again")
    answers = sorted(answers, key=lambda m: m.node)
    records = [int(m.facts["records"]) if weights is None else weights[m.node] for m in answers]
    out = {}
    for name, array in current.items():
        total, weight = np.zeros(array.size), np.zeros(array.size)
        for message, n in zip(answers, records, strict=True):
            share = n / sum(records)
            values = message.arrays[VALUES + name].reshape(-1).astype(np.float64)
            where = message.arrays.get(INDICES + name, slice(None))
            total[where] += share * values
            weight[where] += share
        if aggregation == "unbiased":
            sent = weight > 0
            merged = np.where(sent, total / np.where(sent, weight, 1.0), array.reshape(-1))
        else:
            merged = total
        out[name] = merged.reshape(array.shape).astype(array.dtype)
    return out


# -- answers that cannot be used --------------------------------------------------------------------


def sift(answers: Sequence[Message], check: Callable[[Message], None]) -> tuple[list[Message], dict[str, str]]:
    """Return the answers that pass the check, and by node why each other one does not; a node answers once.

    Answers come from other machines and may hold anything, so an error of any kind rejects the answer.
    """
    usable: dict[str, Message] = {}
    rejected: dict[str, str] = {}
    for message in answers:
        try:
            check(message)
            if message.node in usable:
                raise ProtocolError("answered twice")
            usable[message.node] = message
        except TacitError as error:
            rejected.setdefault(message.node, str(error))
        except Exception as error:
            rejected.setdefault(message.node, f"sent what cannot be read ({type(error).__name__})")
    return list(usable.values()), rejected


def check_head(message: Message, kind: str, round_: int, records: bool = True) -> None:
    """Raise unless an answer has this kind and round, and a possible number of records."""
    if message.kind != kind or message.round != round_:
        raise ProtocolError(f"answered {message.kind!r} of round {message.round}, expected {kind!r} of {round_}")
    n = message.facts.get("records")
    if records and not (type(n) is int and 1 <= n <= MAX_RECORDS):
        raise ProtocolError(f"has {n!r} records; at least 1 is needed, at most {MAX_RECORDS:g}")


def check_arrays(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]], largest: float) -> None:
    """Raise unless these are finite numbers of these shapes, and no others."""
    for name in sorted(set(arrays) ^ set(shapes)):
        raise ProtocolError(f"has {'no' if name in shapes else 'an unknown'} array {name!r}")
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape or array.dtype.kind not in "fiu":
            raise ProtocolError(f"{name!r} has shape {array.shape} and type {array.dtype}, expected {shape}")
        if not (np.abs(array.astype(np.float64)) <= largest).all():
            raise ProtocolError(f"{name!r} holds NaN, infinity or numbers beyond {largest:g}")


def check_parameters(message: Message, like: Arrays) -> None:
    """Raise unless an answer holds (part of) parameters like these."""
    sparse = {name: message.arrays[INDICES + name] for name in like if INDICES + name in message.arrays}
    values = {k: v for k, v in message.arrays.items() if k not in over(INDICES, sparse)}
    check_arrays(values, {VALUES + name: sparse.get(name, array).shape for name, array in like.items()}, LARGEST)
    for name, array in like.items():
        found, indices = values[VALUES + name].dtype, sparse.get(name, np.empty(0, np.uint32))
        if found != array.dtype:
            raise ProtocolError(f"{name!r} has type {found}, expected {array.dtype}")
        steps = np.diff(indices.astype(np.int64), prepend=-1, append=array.size)
        if indices.dtype != np.uint32 or indices.ndim != 1 or (steps <= 0).any():
            raise ProtocolError(f"{name!r} has indices that are not sorted, repeat, or lie outside the array")


# -- what must survive the end of a process --------------------------------------------------------

FORMAT = "tacit-federation-3"
State = tuple[dict[str, np.ndarray], dict[str, Any]]


class Kept:
    """An object whose attributes named in `kept` are its state: plain data, arrays, and dicts of these."""

    kept: Sequence[str] = ()

    def state(self) -> State:
        return parted({name: getattr(self, name) for name in self.kept})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        for name, value in joined(arrays, facts).items():
            setattr(self, name, value)


def parted(tree: Mapping[str, Any]) -> State:
    """A tree of dicts as its arrays, by their paths, and the rest of it.

    Examples
    --------
    >>> arrays, facts = parted({"round": 3, "encoder": {"weight": np.ones(2), "kind": "linear"}})
    >>> list(arrays), facts
    (['encoder/weight'], {'round': 3, 'encoder': {'kind': 'linear'}})
    >>> joined(arrays, facts)["encoder"]["weight"]
    array([1., 1.])
    """
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif isinstance(value, Mapping):
            inner, facts[key] = parted(value)
            arrays |= over(f"{key}/", inner)
        else:
            facts[key] = value
    return arrays, facts


def joined(arrays: Arrays, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The tree that `parted` parted."""
    tree, left = dict(facts), dict(arrays)
    for key in sorted((k for k, v in facts.items() if isinstance(v, Mapping)), key=len, reverse=True):
        inner = under(f"{key}/", left)
        left = {k: v for k, v in left.items() if not k.startswith(f"{key}/")}
        tree[key] = joined(inner, facts[key])
    return tree | left


def write_state(path: Path, parts: Mapping[str, tuple[Arrays, Mapping[str, Any]]], identity: str) -> None:
    """Named states in one file, which its owner alone can read: a node's may hold keys."""
    arrays = {f"{part}/{k}": v for part, (own, _) in parts.items() for k, v in own.items()}
    files.write_state(path, arrays, {part: dict(told) for part, (_, told) in parts.items()}, FORMAT, identity, True)


def read_state(path: Path, identity: str) -> dict[str, State]:
    """What `write_state` wrote; a file of another federation is refused."""
    arrays, facts = files.read_state(path, FORMAT, "a federation", identity)
    return {part: (under(f"{part}/", arrays), told) for part, told in facts.items()}
