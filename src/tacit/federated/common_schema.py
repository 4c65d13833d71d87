"""Common columns and common scaling: what nodes tell of their tables, and what they agree on.

A node tells the names and kinds of its columns, how many values each number column has, their mean and variance, its
range rounded outwards (`round_range`), and the categories that at least two of its own records have. Nothing else of
a record travels. Categories that were stated beforehand are checked at the node and not told. The agreed mean and
variance are those of all records together, exactly; the agreed categories are the union.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.federated.node import Grants, Node, crowd_of, naming
from tacit.federated.protocol import ALL, Arrays, Kept, Message, ProtocolError, check_arrays, check_head, over, sift
from tacit.federated.rounds import Rounds
from tacit.filters.base import Filter
from tacit.labels import encode_labels
from tacit.records.dataset import unit_columns
from tacit.records.encoding import ArrayEncoder, TableEncoder
from tacit.records.fingerprints import Memory, fingerprints
from tacit.records.intake import Intake, check_records
from tacit.records.people import Crowd
from tacit.records.schema import Column

SCALING = "scaling/"
STATISTICS = ("count", "mean", "variance")
# what a node on another machine may say at most: more would stop or drown the others
MAX_WORDS = 10_000  # of a text column: the common encoder has a column for each
LARGEST = 1e100  # of a number: its square must be one too
KINDS = {"number": "numbers", "category": "text"}


def describe(
    records: pd.DataFrame | np.ndarray,
    node: str,
    categories: Mapping[str, Sequence[str]] | None = None,
    crowd: Crowd | None = None,
) -> Message:
    """What a node tells of its (checked) records; of columns whose categories were fixed beforehand, not even these.

    With a crowd, words that too few people have are not told, nor a mean of too few people's values.
    """
    facts: dict[str, Any] = {"records": len(records)}
    if not isinstance(records, pd.DataFrame):
        axes, n = (0, *range(2, records.ndim)), records.shape[1]
        arrays = {"count": np.full(n, records.size // n), "mean": records.mean(axes), "variance": records.var(axes)}
        return Message("description", node, facts={**facts, "shape": list(records.shape[1:])}, arrays=arrays)
    with naming(f"node {node!r}"):
        columns = TableEncoder().fit(records).columns
        if crowd is not None:
            common = TableEncoder().fit(records, crowd).columns
            columns = tuple(b if b.kind == "category" else a for a, b in zip(columns, common, strict=True))
    told, found = list[dict[str, Any]](), []
    for i, c in enumerate(columns):
        if c.kind == "category":
            fixed = None if categories is None else categories.get(c.name)
            if fixed is not None and not set(c.categories) <= set(fixed):
                raise InputError(
                    f"node {node!r}: column {c.name!r} has the categories {_few(set(c.categories) - set(fixed))}, "
                    f"which are not among those agreed on ({_few(set(fixed))}); recode them there, or agree on more"
                )
            told.append((c if fixed is None else replace(c, categories=tuple(fixed))).to_dict())
            continue
        number, _ = c.read(records.iloc[:, i])
        here = ~np.isnan(number)
        if crowd is not None and (few := crowd.count(here)) < crowd.min_people:
            raise InputError(
                f"column {c.name!r} has values of {few} people here, whose mean and variance would tell too much of "
                f"each; at least {crowd.min_people} are needed: leave the column out at all nodes (drop), or lower "
                f"min_count"
            )
        present = number[here]
        found.append((len(present), present.mean(), present.var()))
        told.append(c.to_dict())
    count, mean, variance = np.array(found, dtype=np.float64).reshape(-1, 3).T
    arrays = {"count": count.astype(np.int64), "mean": mean.copy(), "variance": variance.copy()}
    return Message("description", node, facts={**facts, "columns": told}, arrays=arrays)


def agree(
    descriptions: Sequence[Message],
) -> tuple[list[Message], dict[str, Any], dict[str, np.ndarray], dict[str, str]]:
    """Find what nodes have in common.

    Returns
    -------
    usable : the descriptions of the nodes that can agree
    facts, arrays : what they agree on: columns, or a shape; number, mean and variance of all their values
    rejected : by other node, why it does not fit in
    """
    usable, rejected = sift(descriptions, check_description)
    usable.sort(key=lambda m: m.node)
    outlines = {m.node: _outline(m) for m in usable}
    usual = Counter(outlines.values()).most_common(1)[0][0] if usable else ()
    rejected |= {node: _difference(mine, usual) for node, mine in outlines.items() if mine != usual}
    usable = [m for m in usable if m.node not in rejected]
    for i, (_, kind) in enumerate(usual if usable and "shape" not in usable[0].facts else ()):
        for m in list(usable) if kind == "category" else ():
            column = m.facts["columns"][i]
            others = {word for other in usable if other is not m for word in other.facts["columns"][i]["categories"]}
            if column["categories"] and others and not others & set(column["categories"]):
                rejected[m.node] = (
                    f"has in column {column['name']!r} the categories {_few(set(column['categories']))}, none of which "
                    f"another node has ({_few(others)}); use the same words at all nodes, or state them beforehand: "
                    f"categories={{{column['name']!r}: [...]}}"
                )
                usable.remove(m)
    if not usable:
        return [], {}, {}, rejected
    arrays = pooled([m.arrays for m in usable])
    if "shape" in usable[0].facts:
        return usable, {"shape": usable[0].facts["shape"]}, arrays, rejected
    columns = [_agree_column(told) for told in zip(*(m.facts["columns"] for m in usable), strict=True)]
    return usable, {"columns": columns}, arrays, rejected


def pooled(parts: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Number, mean and variance of all values together, column by column.

    Examples
    --------
    >>> a, b = np.array([1., 2., 6.]), np.array([4., 8.])
    >>> told = [{"count": np.array([len(x)]), "mean": x.mean(keepdims=True), "variance": x.var(keepdims=True)}
    ...         for x in (a, b)]
    >>> both, together = pooled(told), np.concatenate([a, b])
    >>> bool(np.isclose(both["variance"][0], together.var()) and np.isclose(both["mean"][0], together.mean()))
    True
    """
    counts, means, variances = (np.array([part[word] for part in parts]) for word in STATISTICS)
    count = counts.sum(axis=0)
    shares = counts / np.maximum(count, 1)
    mean = (shares * means).sum(axis=0)
    return {"count": count, "mean": mean, "variance": (shares * (variances + (means - mean) ** 2)).sum(axis=0)}


def make_common_encoder(facts: Mapping[str, Any], arrays: Arrays) -> TableEncoder | ArrayEncoder:
    """The encoder that every node uses, from what was agreed."""
    spread = np.sqrt(arrays["variance"])
    scale = np.where(spread > 1e-12 * (1 + np.abs(arrays["mean"])), spread, 1.0)
    if "shape" in facts:
        encoder = ArrayEncoder()
        broadcast = (1, -1, *[1] * (len(facts["shape"]) - 1))
        encoder.mean, encoder.scale = arrays["mean"].reshape(broadcast), scale.reshape(broadcast)
        return encoder
    scaling = zip(arrays["mean"].tolist(), scale.tolist(), strict=True)
    table = TableEncoder()
    table.columns = tuple(
        Column.from_dict(c, *(next(scaling) if c["kind"] == "number" else ())) for c in facts["columns"]
    )
    return table


def check_description(message: Message) -> None:
    """Raise unless a description can be used: numbers that no records can have would spoil the scaling of all."""
    check_head(message, "description", message.round)
    records, columns, each = message.facts["records"], message.facts.get("columns", []), 1
    low: Any = -LARGEST
    high: Any = LARGEST
    slack: Any = 0.0
    if "shape" in message.facts:
        width, *rest = message.facts["shape"]
        each = math.prod(rest)
        if columns or not all(type(n) is int and n > 0 for n in (width, *rest)):
            raise ProtocolError("sent a shape that cannot be read; install the same version of tacit there")
    else:
        names = [c["name"] for c in columns]
        for name in names:
            if not isinstance(name, str | int) or names.count(name) > 1:
                raise ProtocolError(f"has column {name!r} twice; rename one")
        ranges = [c["range"] for c in columns if c["kind"] == "number"]
        width, good = len(ranges), bool(columns)
        low, high = np.array(ranges, dtype=np.float64).reshape(-1, 2).T
        good &= bool((low >= -LARGEST).all() and (low <= high).all() and (high <= LARGEST).all())
        for c in columns:
            if c["kind"] == "number":
                good &= isinstance(c["gaps"], bool) and isinstance(c["type"], str)
            else:
                good &= c["kind"] == "category" and all(isinstance(word, str) for word in c["categories"])
                good &= len(c["categories"]) <= MAX_WORDS
        if not good:
            raise ProtocolError(
                f"sent a description of its columns that cannot be read (or numbers beyond {LARGEST:g}, or over "
                f"{MAX_WORDS:,} words in a column); check its table, and install the same version of tacit there"
            )
        slack = 1e-6 * (1 + np.abs(low) + np.abs(high))
    check_arrays(message.arrays, dict.fromkeys(STATISTICS, (width,)), LARGEST**2)
    count, mean, variance = (message.arrays[word].astype(np.float64) for word in STATISTICS)
    possible = (count >= 0) & (count <= records * each) & (low - slack <= mean) & (mean <= high + slack)
    possible &= (variance >= 0) & (variance <= ((high - low) / 2 + slack) ** 2)  # in a range no more (Popoviciu)
    if not possible.all():
        raise ProtocolError(f"sent a count, mean or variance that no {records} records in its ranges have")


def _outline(message: Message) -> tuple[Any, ...]:
    if "shape" in message.facts:
        return ("array", *message.facts["shape"])
    return tuple((c["name"], c["kind"]) for c in message.facts["columns"])


def _difference(mine: tuple[Any, ...], usual: tuple[Any, ...]) -> str:
    """In what one node's outline is not the others'."""
    if "array" in (mine[0], usual[0]):
        return f"has {_words(mine)}, the others have {_words(usual)}; bring all nodes' records to one form"
    names, others = [n for n, _ in mine], [n for n, _ in usual]
    for name in others:
        if name not in names:
            return f"has no column {name!r}, which the others have; add it, or drop it everywhere"
    for name in names:
        if name not in others:
            return f"has a column {name!r}, which the others do not have; drop it there"
    both = zip(mine, usual, strict=True)
    (name, kind), (other, usual_kind) = next((one, two) for one, two in both if one != two)
    if name != other:
        return f"has column {name!r} where the others have {other!r}; use one order of columns"
    return f"has {KINDS[kind]} in column {name!r}, where the others have {KINDS[usual_kind]}; convert it there"


def _agree_column(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    name, kind = told[0]["name"], told[0]["kind"]
    if kind == "number":
        types, (lows, highs) = {c["type"] for c in told}, zip(*[c["range"] for c in told], strict=True)
        number = {"type": types.pop() if len(types) == 1 else "float", "gaps": any(c["gaps"] for c in told)}
        return {"name": name, "kind": kind, **number, "range": [min(lows), max(highs)]}
    return {"name": name, "kind": kind, "categories": sorted({v for c in told for v in c["categories"]})}


def _few(values: set[str]) -> str:
    shown = sorted(values)[:5]
    return ", ".join(map(repr, shown)) + (", ..." if len(values) > 5 else "")


def _words(outline: tuple[Any, ...]) -> str:
    return f"arrays of shape {outline[1:]}" if outline[0] == "array" else f"a table of {len(outline)} columns"


class Descriptions:
    """Addends of a sum: columns travel in the clear, counts, means and variances are summed in agreed ranges."""

    def outline(self, answer: Message) -> dict[str, Any]:
        return dict(answer.facts)

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        told, rejected = [], dict[str, str]()
        for node, facts in outlines.items():
            try:
                middle, half = _scale(facts)
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                rejected[node] = f"sent columns that cannot be read ({type(error).__name__})"
            else:
                nothing = {"count": 0 * half, "mean": middle, "variance": 0 * half}
                told.append(Message("description", node, -1, facts, nothing))
        usable, agreed, _, odd = agree(told)
        return agreed | {"named": all(m.facts.get("named") for m in usable)}, rejected | odd

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
        total = Message("description", ALL, -1, {**agreed, "records": records}, arrays)
        check_description(total)
        return total


def _scale(facts: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half width of the ranges of number columns; arrays have none, and are summed as they are."""
    if "shape" in facts:
        return np.zeros(int(facts["shape"][0])), np.ones(int(facts["shape"][0]))
    ranges = np.array([c["range"] for c in facts["columns"] if c["kind"] == "number"], dtype=np.float64).reshape(-1, 2)
    half = (ranges[:, 1] - ranges[:, 0]) / 2
    return ranges.mean(axis=1), np.where(half > 0, half, 1.0)


# -- the first exchange -----------------------------------------------------------------------------


class AgreeingCoordinator(Rounds):
    """A coordinator whose nodes first agree on columns and scaling."""

    kept: Sequence[str] = (*Rounds.kept, "columns", "scaling")

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(f, names, min_nodes)
        self.columns: dict[str, Any] = {}
        self.scaling: dict[str, np.ndarray] = {}

    @property
    def agreed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return self.columns, self.scaling

    def _agreement(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays of a message from which a node learns what was agreed."""
        return {"agreed": self.columns}, over(SCALING, self.scaling)

    def _first(self, node: str) -> Message:
        fixed = None if self.f.categories is None else {k: list(v) for k, v in self.f.categories.items()}
        return Message("describe", node, -1, {"categories": fixed})

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        usable, facts, scaling, rejected = agree(answers)
        self._reject(rejected, line)
        line["nodes"] = [m.node for m in usable]
        if why := self._too_few(usable):
            return why
        if "columns" in facts:
            facts["named"] = all(m.facts.get("named") for m in usable)
        if getattr(self.f, "robust", None):  # one node's numbers must not shift the scaling of all
            votes = {word: np.array([m.arrays[word] for m in usable], dtype=float) for word in STATISTICS}
            scaling = {word: np.median(v, axis=0) for word, v in votes.items()} | {"count": scaling["count"]}
        self.columns, self.scaling = facts, scaling
        records = {m.node: int(m.facts["records"]) for m in usable}
        self.members = {n: records[n] for n in self.names or sorted(records) if n in records}
        return None


class AgreeingWorker(Kept):
    """A node that describes its columns, then does its task; `f` is a filter of its own that checks the records."""

    grants: Grants | None = None  # where answers leave the machine
    task: str  # what it is asked in a round

    def __init__(self, f: Any, node: Node) -> None:
        self.f, self.node, self.name = f, node, str(node.name)
        with naming(f"node {self.name!r}"):
            self._records: Any = check_records(f, node.X, None)
        self.fingerprints = fingerprints(self._records)
        units = unit_columns(node.units, len(node))
        self.units = None if units is None else np.unique(next(iter(units.values())).astype(str))

    def digest(self) -> str:
        """Of this node's data, to know a checkpoint of other data."""
        return hashlib.sha256(self.fingerprints.tobytes() + self.codes.tobytes()).hexdigest()

    @property
    def codes(self) -> np.ndarray:
        """Of all label columns."""
        labels = (self.node.y, self.node.sensitive_features)
        codes = [encode_labels(v, "labels", len(self.node), min_classes=1).codes for v in labels]
        return np.concatenate(codes, axis=1)

    def own_filter(self) -> Filter | None:
        return None

    def work(self, message: Message) -> Message:
        """Answer the server."""
        if message.kind == "describe":
            crowd = None if self.grants is None else replace(crowd_of(self.node), min_people=self.grants.min_count)
            told = describe(self._records, self.name, message.facts.get("categories"), crowd)
            facts = {**told.facts, "named": hasattr(self.f, "feature_names_in_")}
            return Message("description", self.name, message.round, facts, told.arrays)
        if message.kind != self.task:
            raise ProtocolError(f"node {self.name!r} knows 'describe' and {self.task!r}; found {message.kind!r}")
        return self._answer(message)

    _answer: Callable[[Message], Message]  # does the task of a round


def agreed_preparation(
    f: Any, agreed: tuple[Mapping[str, Any], Arrays], workers: Sequence[AgreeingWorker]
) -> tuple[Intake, Memory]:
    """How records of the agreed form come in, and the rows of these nodes; those elsewhere nobody knows here."""
    prints = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *(w.fingerprints for w in workers)]))
    units = [w.units for w in workers if w.units is not None]
    memory = Memory(prints, None, np.unique(np.concatenate(units)) if units else None)
    return agreed_intake(f, agreed[0], make_common_encoder(*agreed)), memory


def agreed_intake(f: Any, facts: Mapping[str, Any], scaling: Any) -> Intake:
    """Let a filter expect records of the agreed form."""
    f.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    names = [c["name"] for c in facts["columns"]] if facts.get("named") and "shape" not in facts else None
    shape = tuple(facts["shape"]) if "shape" in facts else (len(facts["columns"]),)
    f.n_features_in_ = shape[0]
    if names is not None:
        f.feature_names_in_ = np.array(names, dtype=object)
    return Intake(type(f).__name__, shape, None if names is None else tuple(names), scaling)
