"""Rounds in which the server sees sums alone: around any coordinator and any worker, for any engine.

To the coordinator within, all nodes together are one node, `ALL`, whose answers are the unmasked sums. Each of its
rounds takes four exchanges (`secure_sums`): open, share, mask, unmask. What of an answer is told in the clear (its
outline) and what is summed is said by an `Addend` for each kind of answer.

A node gives its numbers of a round once: a server that asks again gets the same ones, under other masks, until a sum
was unmasked; then none. Two sums that differ by one node would tell of that node.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tacit.errors import InputError
from tacit.federated.common_schema import agree_among
from tacit.federated.protocol import Arrays, Message, ProtocolError, fault_of_head, sift
from tacit.federated.secure_sums import MASK, MIN_NODES, SEAL, Identity, SumNode, threshold, unmasked
from tacit.federated.states import State, joined, parted

ALL = "all nodes"
RETRIES = 2
STEPS = {"open": "opened", "share": "shared", "mask": "masked", "unmask": "told"}  # questions and their answers


class Addend(Protocol):
    """How answers of one kind are added up."""

    def outline(self, answer: Message) -> dict[str, Any]:
        """What is told of one node's answer."""

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        """What all nodes' numbers have in common, and by node why it does not fit in."""

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        """What is summed."""

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: Any) -> Message:
        """The answer of all nodes together, for the coordinator within."""


class SecureWorker:
    """A node's side: answers for the worker within, under masks."""

    def __init__(self, within: Any, addends: Mapping[str, Addend]) -> None:
        self.within, self.addends = within, addends
        self.identity: Identity | None = None
        self.closed = -2  # the last round of which a sum was unmasked
        self.sum: SumNode | None = None
        self.answer: Message | None = None  # of the worker within, to this round
        self.asked = ""  # what that is the answer to
        self.last: tuple[str, Message] | None = None  # the question before, and what was answered

    def __getattr__(self, name: str) -> Any:
        if name == "within":
            raise AttributeError(name)
        return getattr(self.within, name)

    def work(self, message: Message) -> Message:
        """Answer the server."""
        asked = message.facts.get("secure")
        if not isinstance(asked, Mapping) or asked.get("step") not in STEPS:
            raise ProtocolError(
                f"node {self.within.name!r} answers in secure sums alone; found {message.kind!r} in the clear: set "
                f"secure = true at the server too"
            )
        digest = message.digest()
        if self.last is not None and self.last[0] == digest:  # it was lost on its way
            return self.last[1]
        told = self._answer(message, asked)
        self.last = digest, told
        return told

    def _answer(self, message: Message, asked: Mapping[str, Any]) -> Message:
        if message.round <= self.closed:
            raise ProtocolError(
                f"a sum of round {message.round} was unmasked with node {self.within.name!r}; of two sums one node's "
                f"numbers might be told, so that it takes part in no second"
            )
        step = asked["step"]
        if step == "open":
            facts, arrays = self._open(message), dict[str, np.ndarray]()
        elif self.sum is None or self.answer is None or self.answer.round != message.round:
            raise ProtocolError(f"node {self.within.name!r} has opened no sum in round {message.round}")
        elif step == "share":
            facts, arrays = {"sealed": self.sum.share(asked["keys"], self.identity)}, {}
        elif step == "mask":
            numbers = self.addends[self.answer.kind].numbers(self.answer, asked["agreed"])
            about = hashlib.sha256(f"{self.asked}{json.dumps(asked['agreed'], sort_keys=True)}".encode()).hexdigest()
            facts, arrays = {"about": about}, {"masked": self.sum.mask(numbers, asked["sealed"], about)}
        else:
            facts, arrays = {"shares": self.sum.unmask(asked["survivors"])}, {}
            self.closed, self.sum, self.answer = message.round, None, None
        return Message(STEPS[step], self.within.name, message.round, facts, arrays)

    def _open(self, message: Message) -> dict[str, Any]:
        if self.answer is None or self.answer.round != message.round:
            within = {k: v for k, v in message.facts.items() if k != "secure"}
            common = {k: v for k, v in within.items() if k != "position"}  # all nodes are asked the rest alike
            self.asked = replace(message, facts=common).digest()
            answer = self.within.work(replace(message, facts=within))
            self.answer = replace(answer, round=message.round)
        self.sum = SumNode(self.within.name)
        told = {"kind": self.answer.kind, "outline": self.addends[self.answer.kind].outline(self.answer)}
        return {"keys": self.sum.advertise(self.identity), "records": self.answer.facts["records"], **told}

    def state(self) -> State:
        tree: dict[str, Any] = {"closed": self.closed, "answer": _tree(self.answer), "asked": self.asked}
        tree["sum"] = None if self.sum is None else dict(vars(self.sum))
        tree["last"] = None if self.last is None else {"asked": self.last[0], "answered": _tree(self.last[1])}
        return parted(tree | {"within": dict(zip(("arrays", "facts"), self.within.state(), strict=True))})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        tree = joined(arrays, facts)
        self.within.restore(tree["within"]["arrays"], tree["within"]["facts"])
        self.closed, self.answer, last = tree["closed"], _message(tree["answer"]), tree["last"]
        self.asked = tree["asked"]
        self.last = None if last is None else (last["asked"], Message(**last["answered"]))
        self.sum = None
        if tree["sum"] is not None:
            self.sum = SumNode(self.within.name)
            vars(self.sum).update(tree["sum"])


class SecureCoordinator:
    """The server's side: four exchanges for each round of the coordinator within."""

    def __init__(self, within: Any, names: Sequence[str], min_nodes: int, addends: Mapping[str, Addend]) -> None:
        self.within, self.names, self.addends = within, list(names), addends
        self.min_nodes = max(MIN_NODES, min_nodes)
        if self.names and len(self.names) < MIN_NODES:
            raise InputError(f"a secure sum needs at least {MIN_NODES} nodes; found {', '.join(self.names)} alone")
        self.members: dict[str, int] = {}  # node -> records
        self.contributed: dict[str, int] = {}  # those in the last sum
        self.log: list[dict[str, Any]] = []
        self.request: Message | None = None  # of the coordinator within
        self.retries = 0
        self._renew()

    def _renew(self) -> None:
        """Begin a sum."""
        self.step, self.kind, self.about = "open", "", ""
        self.opened: dict[str, dict[str, Any]] = {}
        self.common: dict[str, Any] = {}  # what was agreed of the outlines
        self.sealed: dict[str, dict[str, str]] = {}
        self.masked: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "within":
            raise AttributeError(name)
        return getattr(self.within, name)

    def requests(self, available: Sequence[str] | None = None) -> list[Message]:
        """What to send now."""
        if self.request is None:
            behind = [n for n in self.members if n not in self.contributed]
            if behind and hasattr(self.within, "in_step"):
                self.within.in_step = []  # who missed a round gets all of the encoder; so do the others then
            (self.request,) = self.within.requests([ALL])
        here = self.names if available is None else list(available)
        nodes = list(self.members) or self.names or sorted(here)
        among = {"open": nodes, "share": self.opened, "mask": self.sealed, "unmask": self.masked}[self.step]
        self._sent = [self._ask(n) for n in nodes if n in among and n in here]
        return self._sent

    def _ask(self, node: str) -> Message:
        assert self.request is not None
        if self.step == "open":
            facts = {**self.request.facts, "secure": {"step": "open"}}
            if "position" in facts:
                facts["position"] = list(self.members).index(node)
            return replace(self.request, node=node, facts=facts)
        told: dict[str, Any] = {"keys": self._keys} if self.step == "share" else {"survivors": sorted(self.masked)}
        if self.step == "mask":
            told = {"agreed": self.common, "sealed": {n: s[node] for n, s in self.sealed.items() if n != node}}
        return Message("secure", node, self.request.round, {"secure": {"step": self.step, **told}})

    @property
    def _keys(self) -> dict[str, dict[str, str]]:
        return {n: told["keys"] for n, told in self.opened.items()}

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        """Take the answers that came in time."""
        assert self.request is not None
        line: dict[str, Any] = {"round": self.request.round, "step": self.step, "nodes": [], "rejected": {}}
        line |= {"failed": dict(failures or {}), "bytes_down": sum(m.nbytes for m in self._sent)}
        self.log.append(line | {"bytes_up": sum(m.nbytes for m in answers)})
        line = self.log[-1]
        asked = {m.node for m in self._sent}
        usable, line["rejected"] = sift([m for m in answers if m.node in asked], self._fault)
        if self.step == "open":
            usable = self._agree(usable, line)
        if self.step == "mask":  # these fit into no sum
            forms = {m.node: (m.arrays["masked"].shape, str(m.facts.get("about"))) for m in usable}
            usual = Counter(forms.values()).most_common(1)
            odd = [node for node, form in forms.items() if form != usual[0][0]]
            why = "sent masked numbers of another length than the others, or was asked something else"
            line["rejected"] |= dict.fromkeys(odd, why)
            usable = [m for m in usable if m.node not in odd]
        line["nodes"] = sorted(m.node for m in usable)
        needed = self.min_nodes if self.step == "open" else threshold(len(self.opened))
        if len(usable) < needed:
            return self._again(f"{len(usable)} of at least {needed} nodes can be used", line)
        return self._take(sorted(usable, key=lambda m: m.node))

    def _agree(self, usable: list[Message], line: dict[str, Any]) -> list[Message]:
        kinds = Counter(str(m.facts.get("kind")) for m in usable)
        self.kind = kinds.most_common(1)[0][0] if kinds else ""
        if self.kind not in self.addends:
            return []
        outlines = {m.node: m.facts["outline"] for m in usable if m.facts.get("kind") == self.kind}
        self.common, rejected = self.addends[self.kind].agree(outlines)
        for why in rejected.values() if self.names else ():
            raise InputError(why)
        line["rejected"] |= rejected
        return [m for m in usable if m.node in outlines and m.node not in rejected]

    def _take(self, usable: Sequence[Message]) -> None:
        assert self.request is not None
        if self.step == "open":
            self.opened = {m.node: dict(m.facts) for m in usable}
            if not self.members:
                self.members = {n: self.opened[n]["records"] for n in self.names or self.opened if n in self.opened}
        elif self.step == "share":
            self.sealed = {m.node: m.facts["sealed"] for m in usable}
        elif self.step == "mask":
            self.masked, self.about = {m.node: m.arrays["masked"] for m in usable}, str(usable[0].facts.get("about"))
        else:
            shares = {m.node: m.facts["shares"] for m in usable}
            numbers = unmasked(self.masked, self._keys, list(self.sealed), shares, self.about)
            self.contributed = {n: self.opened[n]["records"] for n in self.masked}
            records = sum(self.contributed.values())
            self.within.receive([self.addends[self.kind].total(numbers, self.common, records, self.within)])
            if faults := self.within.log[-1]["rejected"]:
                raise ProtocolError(
                    f"round {self.request.round}: the sum of {', '.join(self.contributed)} cannot be used: it "
                    f"{faults[ALL]}. Whose numbers spoil it nobody can see; leave out one node after another"
                )
            self.request, self.retries = None, 0
            return self._renew()
        self.step = list(STEPS)[list(STEPS).index(self.step) + 1]
        return None

    def _again(self, why: str, line: Mapping[str, Any]) -> None:
        """Open another sum of this round; after too many times in a row, give up and say who was left out and why."""
        assert self.request is not None
        self.retries += 1
        if self.retries > RETRIES:
            told = "; ".join(f"{n}: {fault}" for n, fault in (line["rejected"] | line["failed"]).items())
            raise ProtocolError(
                f"round {self.request.round}, step {self.step!r}: {why}, {self.retries} times in a row "
                f"({told or 'no answer came'})"
            )
        self._renew()

    def _fault(self, message: Message) -> str | None:
        """What is wrong with an answer of this step; None if nothing is."""
        assert self.request is not None
        kind, facts = STEPS[self.step], message.facts
        if message.kind != kind or message.round != self.request.round:
            return f"answered {message.kind!r} of round {message.round}, expected {kind!r} of {self.request.round}"
        if self.step == "open":
            keys = facts.get("keys")
            if not isinstance(keys, dict) or not all(_hexadecimal(keys.get(k), 64) for k in (SEAL, MASK)):
                return "sent keys that cannot be read"
            if not isinstance(facts.get("outline"), dict):
                return "sent an outline that cannot be read"
            return fault_of_head(message, kind, message.round)
        if self.step == "mask":
            words = message.arrays.get("masked")
            fits = words is not None and words.dtype == np.uint64 and words.ndim == 2 and len(words) == 2
            return None if fits else "sent masked numbers that cannot be read"
        word, expected = ("sealed", self.opened) if self.step == "share" else ("shares", self.sealed)
        told = facts.get(word)
        others = set(expected) - ({message.node} if self.step == "share" else set())
        fits = isinstance(told, dict) and set(told) == others and all(_hexadecimal(t) for t in told.values())
        return None if fits else f"sent {word} that cannot be read, or of other nodes than it was asked"

    kept = ("members", "contributed", "log", "retries", "step", "kind", "about", "opened", "common", "sealed", "masked")

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


class Descriptions:
    """Columns are told as without masks; counts, means and variances are summed, measured in the agreed ranges."""

    def outline(self, answer: Message) -> dict[str, Any]:
        return dict(answer.facts)

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        told = []
        for node, facts in outlines.items():
            try:
                middle, half = _scale(facts)
            except (KeyError, TypeError, ValueError):  # the outline itself is judged below
                middle = half = np.zeros(0)
            nothing = {"count": 0 * half, "mean": middle, "variance": 0 * half}
            told.append(Message("description", node, -1, facts, nothing))
        usable, agreed, _, rejected = agree_among(told)
        return agreed | {"named": all(m.facts.get("named") for m in usable)}, rejected

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        middle, half = _scale(agreed)
        count = answer.arrays["count"].astype(np.float64)
        mean = (answer.arrays["mean"] - middle) / half
        return np.concatenate([count, count * mean, count * (answer.arrays["variance"] / half**2 + mean**2)])

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: Any) -> Message:
        middle, half = _scale(agreed)
        count, first, second = numbers.reshape(3, -1)
        mean, square = first / np.maximum(count, 1), second / np.maximum(count, 1)
        arrays = {"count": np.rint(count).astype(np.int64), "mean": middle + half * mean}
        arrays["variance"] = half**2 * np.maximum(square - mean**2, 0)
        return Message("description", ALL, -1, {**agreed, "records": records}, arrays)


def _scale(facts: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half width of the ranges of number columns; arrays have none, and are summed as they are."""
    if "shape" in facts:
        return np.zeros(int(facts["shape"][0])), np.ones(int(facts["shape"][0]))
    ranges = np.array([c["range"] for c in facts["columns"] if c["kind"] == "number"], dtype=np.float64).reshape(-1, 2)
    half = (ranges[:, 1] - ranges[:, 0]) / 2
    return ranges.mean(axis=1), np.where(half > 0, half, 1.0)


def _hexadecimal(text: Any, length: int | None = None) -> bool:
    return isinstance(text, str) and text.isalnum() and set(text) <= set("0123456789abcdef") and (
        length is None or len(text) == length
    )  # fmt: skip


def _message(tree: Mapping[str, Any] | None) -> Message | None:
    return None if tree is None else Message(**tree)


def _tree(message: Message | None) -> dict[str, Any] | None:
    if message is None:
        return None
    told = {"kind": message.kind, "node": message.node, "round": message.round}
    return {**told, "facts": dict(message.facts), "arrays": dict(message.arrays)}
