"""Sums over nodes, of which the server sees the total alone where pairwise masks that cancel hide the rest.

Every two nodes share a secret (X25519, new keys for every sum). Both expand it to the same random words (SHAKE-256);
one adds them, the other subtracts them. What a node sends is then uniformly random to anybody who does not know its
secrets, and in the sum over all nodes the masks cancel. Numbers are fixed point with 64 bits before and 64 after the
point, modulo 2^128, so sums are exact whatever the order. A round of the coordinator within takes two exchanges:

1. "open": a node sends a public key and the outline of its answer (what of it is not summed, such as names of columns);
2. "mask": a node receives all public keys and what was agreed of the outlines, and sends its masked words.

If a node drops out, the masks of the others do not cancel; the round is repeated without it, under new keys. All nodes
but two may collude with the server, and two honest nodes' numbers are still seen as their sum alone. The server is
assumed to follow the protocol: one that keeps back an answer, claims that the node dropped out, and repeats the round
holds two sums that differ by this node's numbers, and one that replaces public keys sees all of them. The latter is
prevented by a `group_secret` that the nodes share and the server does not have.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tacit.errors import InputError, TacitError
from tacit.federated.protocol import ALL, Arrays, Message, ProtocolError, State, check_head, joined, parted, sift

MIN_NODES = 2  # the server sees the sum of two; each of them can compute the other's numbers from it
RETRIES = 2
POINT = 2.0**64
LARGEST = 2.0**62  # of a sum
ANSWERS = {"open": "opened", "mask": "masked"}


# -- fixed point modulo 2^128, as (2, n) words, low ones first --------------------------------------


def to_words(values: np.ndarray, n_nodes: int) -> np.ndarray:
    """Numbers as fixed point, to 2^-64.

    Examples
    --------
    >>> from_words(add(to_words(np.array([1.5, -2.25]), 2), to_words(np.array([-4.0, 1e-12]), 2)))
    array([-2.5 , -2.25])
    """
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(values).all() or np.abs(values).max(initial=0) * n_nodes >= LARGEST:
        raise InputError(
            f"a sum of {n_nodes} nodes holds numbers up to {LARGEST / n_nodes:.3g} each; found NaN, infinity or a "
            f"larger one: scale the records, or check them"
        )
    whole = np.floor(np.abs(values))
    words = np.stack([((np.abs(values) - whole) * POINT).astype(np.uint64), whole.astype(np.uint64)])
    return np.where(values < 0, negative(words), words)


def from_words(words: np.ndarray) -> np.ndarray:
    """Fixed point as numbers; those in the upper half are negative."""
    below = words[1] >> np.uint64(63) == 1
    low, high = np.where(below, negative(words), words).astype(np.float64)
    return np.where(below, -1.0, 1.0) * (high + low / POINT)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low = a[0] + b[0]
    return np.stack([low, a[1] + b[1] + (low < a[0])])


def negative(a: np.ndarray) -> np.ndarray:
    low = ~a[0] + np.uint64(1)
    return np.stack([low, ~a[1] + (low == 0)])


# -- masks ------------------------------------------------------------------------------------------


def new_key() -> tuple[str, str]:
    """A private and a public key of X25519, in hexadecimal."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # masked federations alone need it

    key = X25519PrivateKey.generate()
    return key.private_bytes_raw().hex(), key.public_key().public_bytes_raw().hex()


def pair_secret(private: str, other: str) -> bytes:
    """What this node and the one with the other public key share."""
    from cryptography.hazmat.primitives.asymmetric import x25519  # masked federations alone need it

    try:
        key = x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(other))
        return x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(private)).exchange(key)
    except ValueError as error:
        raise ProtocolError(f"a public key of another node cannot be used ({error})") from None


def add_masks(words: np.ndarray, name: str, secrets: Mapping[str, bytes], context: bytes) -> np.ndarray:
    """Words of the node `name` under a mask for each other node; `context` is the same at all nodes, and never repeats.

    Examples
    --------
    >>> a, b = (to_words(np.array([x]), 2) for x in (1.0, 2.0))
    >>> masked = add_masks(a, "a", {"b": b"shared"}, b"round 0"), add_masks(b, "b", {"a": b"shared"}, b"round 0")
    >>> bool((masked[0] == a).any()), from_words(add(*masked))
    (False, array([3.]))
    """
    for other in sorted(secrets):
        stream = hashlib.shake_256(hashlib.sha256(secrets[other]).digest() + context).digest(words.nbytes)
        mask = np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(words.shape)
        words = add(words, mask if name < other else negative(mask))
    return words


# -- rounds -----------------------------------------------------------------------------------------


class Addend(Protocol):
    """How answers of one kind are added up."""

    def outline(self, answer: Message) -> dict[str, Any]:
        """What of one node's answer is sent in the clear."""

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        """What the outlines have in common, and by node why it cannot be used."""

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        """What is summed."""

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: Any) -> Message:
        """The answer of these nodes together, for the coordinator within; numbers that cannot be raise."""


class SumWorker:
    """A node's side: sends the answers of the worker within as addends, under masks.

    Attributes
    ----------
    masked : without masks the server sees every node's numbers
    group_secret : bytes that all nodes have and the server does not: then it cannot replace public keys
    """

    def __init__(self, within: Any, addends: Mapping[str, Addend], masked: bool = True) -> None:
        self.within, self.addends, self.masked = within, addends, masked
        self.group_secret = b""
        self.private = ""  # key of the sum that is open
        self.answer: Message | None = None  # of the worker within, to this round
        self.asked = ""  # digest of the question that it answers

    def __getattr__(self, name: str) -> Any:
        if name == "within":
            raise AttributeError(name)
        return getattr(self.within, name)

    def work(self, message: Message) -> Message:
        """Answer the server."""
        asked = message.facts.get("sum")
        if not isinstance(asked, Mapping) or asked.get("step") not in ANSWERS:
            raise ProtocolError(
                f"node {self.within.name!r} answers by masked sums alone; found {message.kind!r} in the clear: set "
                f"secure = true at the server too"
            )
        if self.answer is not None and message.round < self.answer.round:
            raise ProtocolError(f"round {self.answer.round} was answered, and rounds go forward; found {message.round}")
        if asked["step"] == "open":
            return self._open(message)
        if self.answer is None or self.answer.round != message.round or (self.masked and not self.private):
            raise ProtocolError(f"node {self.within.name!r} has opened no sum in round {message.round}")
        keys, agreed = dict(asked["keys"]), asked["agreed"]
        if self.within.name not in keys or (self.masked and len(keys) < MIN_NODES):
            raise ProtocolError(f"a sum is over at least {MIN_NODES} nodes, this one among them; found {sorted(keys)}")
        words = to_words(self.addends[self.answer.kind].numbers(self.answer, agreed), len(keys))
        if self.masked:
            # nodes that were asked something else, or were given other keys, have masks that do not cancel
            context = json.dumps([message.round, self.asked, agreed, sorted(keys.items())], sort_keys=True).encode()
            others = {n: pair_secret(self.private, key) + self.group_secret for n, key in keys.items()
                      if n != self.within.name}  # fmt: skip
            words = add_masks(words, self.within.name, others, context)
        return Message("masked", self.within.name, message.round, {}, {"words": words})

    def _open(self, message: Message) -> Message:
        """A round is answered once by the worker within; if it is repeated, its numbers go under other masks."""
        if self.answer is None or self.answer.round != message.round:
            within = {k: v for k, v in message.facts.items() if k != "sum"}
            self.asked = replace(message, facts={k: v for k, v in within.items() if k != "position"}).digest()
            self.answer = replace(self.within.work(replace(message, facts=within)), round=message.round)
        self.private, public = new_key() if self.masked else ("", "")
        facts = {"kind": self.answer.kind, "records": self.answer.facts["records"], "key": public}
        facts["outline"] = self.addends[self.answer.kind].outline(self.answer)
        return Message("opened", self.within.name, message.round, facts)

    def state(self) -> State:
        tree = {"private": self.private, "asked": self.asked, "answer": _tree(self.answer)}
        return parted(tree | {"within": dict(zip(("arrays", "facts"), self.within.state(), strict=True))})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        tree = joined(arrays, facts)
        self.within.restore(tree["within"]["arrays"], tree["within"]["facts"])
        self.private, self.asked, self.answer = tree["private"], tree["asked"], _message(tree["answer"])


class SumCoordinator:
    """The server's side: two exchanges for each round of the coordinator within, to which all nodes are one."""

    kept = ("members", "contributed", "dropped", "log", "retries", "step", "kind", "opened", "common")

    def __init__(
        self, within: Any, names: Sequence[str], min_nodes: int, addends: Mapping[str, Addend], masked: bool = True
    ) -> None:
        self.within, self.names, self.addends, self.masked = within, list(names), addends, masked
        self.min_nodes = max(MIN_NODES if masked else 1, min_nodes)
        if masked and self.names and len(self.names) < MIN_NODES:
            raise InputError(f"a masked sum needs at least {MIN_NODES} nodes; found {', '.join(self.names)} alone")
        self.members: dict[str, int] = {}  # node -> records
        self.contributed: dict[str, int] = {}  # those in the last sum
        self.dropped: list[str] = []  # in this round: it is repeated without them
        self.log: list[dict[str, Any]] = []
        self.request: Message | None = None  # of the coordinator within
        self.retries = 0
        self._renew()

    def _renew(self) -> None:
        """Begin a sum."""
        self.step, self.kind = "open", ""
        self.opened: dict[str, dict[str, Any]] = {}
        self.common: dict[str, Any] = {}  # what was agreed of the outlines

    def __getattr__(self, name: str) -> Any:
        if name == "within":
            raise AttributeError(name)
        return getattr(self.within, name)

    def requests(self, available: Sequence[str] | None = None) -> list[Message]:
        """What to send now."""
        if self.request is None:
            if any(n not in self.contributed for n in self.members) and hasattr(self.within, "in_step"):
                self.within.in_step = []  # a node that missed a round needs all of the encoder; all are asked alike
            (self.request,) = self.within.requests([ALL])
        here = self.names if available is None else list(available)
        nodes = list(self.members) or self.names or sorted(here)
        among = [n for n in nodes if n not in self.dropped] if self.step == "open" else list(self.opened)
        self._sent = [self._ask(n) for n in among if n in here]
        return self._sent

    def _ask(self, node: str) -> Message:
        assert self.request is not None
        if self.step == "open":
            facts = {**self.request.facts, "sum": {"step": "open"}}
            if "position" in facts:
                facts["position"] = list(self.members).index(node)
            return replace(self.request, node=node, facts=facts)
        keys = {n: opened["key"] for n, opened in self.opened.items()}
        return Message("sum", node, self.request.round, {"sum": {"step": "mask", "agreed": self.common, "keys": keys}})

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        """Take the answers that came in time."""
        assert self.request is not None
        line: dict[str, Any] = {"round": self.request.round, "step": self.step, "nodes": [], "rejected": {}}
        line |= {"failed": dict(failures or {}), "bytes_down": sum(m.nbytes for m in self._sent)}
        self.log.append(line | {"bytes_up": sum(m.nbytes for m in answers)})
        line = self.log[-1]
        asked = {m.node for m in self._sent}
        usable, line["rejected"] = sift([m for m in answers if m.node in asked], self._check)
        if self.step == "open":
            usable = self._agree(usable, line)
        else:  # of another length these fit into no sum
            sizes = Counter(m.arrays["words"].shape for m in usable).most_common(1)
            odd = [m.node for m in usable if m.arrays["words"].shape != sizes[0][0]]
            line["rejected"] |= dict.fromkeys(odd, "sent masked numbers of another length than the others")
            usable = [m for m in usable if m.node not in odd]
        line["nodes"] = sorted(m.node for m in usable)
        if self.step == "open":
            if len(usable) < self.min_nodes:
                return self._again(f"{len(usable)} of at least {self.min_nodes} nodes can be used", line)
            self.opened = {m.node: dict(m.facts) for m in sorted(usable, key=lambda m: m.node)}
            if not self.members:
                self.members = {n: self.opened[n]["records"] for n in self.names or self.opened if n in self.opened}
            self.step = "mask"
            return None
        if missing := [n for n in self.opened if n not in line["nodes"]]:
            self.dropped += missing
            if len(self.opened) - len(missing) < self.min_nodes:
                return self._again(f"{', '.join(missing)} dropped out", line)
            return self._renew()
        return self._sum(usable)

    def _agree(self, usable: list[Message], line: dict[str, Any]) -> list[Message]:
        kinds = Counter(str(m.facts.get("kind")) for m in usable)
        self.kind = kinds.most_common(1)[0][0] if kinds else ""
        if self.kind not in self.addends:
            return []
        outlines = {m.node: m.facts["outline"] for m in usable if m.facts.get("kind") == self.kind}
        self.common, rejected = self.addends[self.kind].agree(outlines)
        for node, why in rejected.items() if self.names else ():
            raise InputError(f"node {node!r} {why}")
        line["rejected"] |= rejected
        return [m for m in usable if m.node in outlines and m.node not in rejected]

    def _total(self, messages: Sequence[Message]) -> Message:
        """The sum of these nodes' numbers; the masks of all nodes cancel."""
        total = np.zeros_like(messages[0].arrays["words"])
        for message in messages:
            total = add(total, message.arrays["words"])
        records = sum(self.opened[m.node]["records"] for m in messages)
        return self.addends[self.kind].total(from_words(total), self.common, records, self.within)

    def _sum(self, usable: Sequence[Message]) -> None:
        """Hand the total to the coordinator within."""
        assert self.request is not None
        self.contributed = {n: opened["records"] for n, opened in self.opened.items()}
        try:
            self.within.receive([self._total(usable)])
            faults = self.within.log[-1]["rejected"]
        except TacitError as error:
            faults = {ALL: str(error)}
        if faults:
            raise ProtocolError(
                f"round {self.request.round}: the sum of {', '.join(self.contributed)} cannot be used: it "
                f"{faults[ALL]}. Whose numbers spoil it nobody can see; leave out one node after another"
            )
        self.request, self.retries, self.dropped = None, 0, []
        self._renew()

    def _again(self, why: str, line: Mapping[str, Any]) -> None:
        """Open another sum of this round; after too many times in a row, give up and say which nodes failed and why."""
        assert self.request is not None
        self.retries, self.dropped = self.retries + 1, []
        if self.retries > RETRIES:
            reasons = "; ".join(f"{n}: {fault}" for n, fault in (line["rejected"] | line["failed"]).items())
            raise ProtocolError(
                f"round {self.request.round}, step {self.step!r}: {why}, {self.retries} times in a row "
                f"({reasons or 'no answer came'})"
            )
        self._renew()

    def _check(self, message: Message) -> None:
        """Raise unless an answer of this step can be used."""
        assert self.request is not None
        kind, facts, masked = ANSWERS[self.step], message.facts, self.masked
        check_head(message, kind, self.request.round, records=self.step == "open")
        if self.step == "open":
            if len(bytes.fromhex(facts["key"])) != (32 if masked else 0) or not isinstance(facts["outline"], dict):
                raise ProtocolError("sent a key or an outline that cannot be read")
            return
        words = message.arrays["words"]
        if words.dtype != np.uint64 or words.ndim != 2 or len(words) != 2:
            raise ProtocolError("sent masked numbers that cannot be read")
        if not masked:  # the numbers of one node have to make sense by themselves
            self._total([message])

    def state(self) -> State:
        within = dict(zip(("arrays", "facts"), self.within.state(), strict=True))
        own = {name: getattr(self, name) for name in self.kept}
        return parted({"within": within, "request": _tree(self.request), **own})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        tree = joined(arrays, facts)
        within, request = tree.pop("within"), tree.pop("request")
        self.within.restore(within["arrays"], within["facts"])
        self.request = _message(request)
        for name, value in tree.items():
            setattr(self, name, value)


def _message(tree: Mapping[str, Any] | None) -> Message | None:
    return None if tree is None else Message(**tree)


def _tree(message: Message | None) -> dict[str, Any] | None:
    if message is None:
        return None
    named = {"kind": message.kind, "node": message.node, "round": message.round}
    return {**named, "facts": dict(message.facts), "arrays": dict(message.arrays)}
