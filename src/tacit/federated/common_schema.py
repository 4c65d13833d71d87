"""Common columns and common scaling: what nodes tell of their tables, and what they agree on.

A node tells the names and kinds of its columns, how many values each number column has, their mean and variance, its
range rounded outwards (`round_range`), and the categories that at least two of its own records have. Nothing else of
a record travels. Categories that were stated beforehand are checked at the node and not told. The agreed mean and
variance are those of all records together, exactly; the agreed categories are the union.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tacit.errors import InputError
from tacit.federated.node import naming
from tacit.federated.protocol import ALL, Arrays, Message, fault_of_arrays, fault_of_head
from tacit.records.encoding import ArrayEncoder, TableEncoder
from tacit.records.people import Crowd
from tacit.records.schema import Column

STATISTICS = ("count", "mean", "variance")
# what a node on another machine may say at most: more would stop or drown the others
MAX_WORDS = 10_000  # of a text column: the common encoder has a column for each
LARGEST = 1e100  # of a number: its square must be one too
KINDS = {"number": "numbers", "category": "text"}


class SchemaMismatch(InputError):
    """A node that does not fit in with the others."""

    def __init__(self, node: str, fault: str) -> None:
        super().__init__(f"node {node!r} {fault}")
        self.node = node


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


def agree(descriptions: Sequence[Message]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The common columns and scaling (facts, arrays); a node that does not fit in raises, named with its column."""
    descriptions = sorted(descriptions, key=lambda m: m.node)
    for m in descriptions:
        fault = fault_of_head(m, "description", m.round) or _fault_of_outline(m.facts) or _fault_of_numbers(m)
        if fault is not None:
            raise SchemaMismatch(m.node, fault)
    outlines = [_outline(m) for m in descriptions]
    usual = Counter(outlines).most_common(1)[0][0]
    for m, mine in zip(descriptions, outlines, strict=True):
        if mine != usual:
            raise SchemaMismatch(m.node, _difference(mine, usual))
    arrays = pooled([m.arrays for m in descriptions])
    if "shape" in descriptions[0].facts:
        return {"shape": descriptions[0].facts["shape"]}, arrays
    by_column = zip(*[m.facts["columns"] for m in descriptions], strict=True)
    return {"columns": [_agree_column([m.node for m in descriptions], told) for told in by_column]}, arrays


def agree_among(
    descriptions: Sequence[Message],
) -> tuple[list[Message], dict[str, Any], dict[str, np.ndarray], dict[str, str]]:
    """The nodes that can agree, what they agree on (facts, arrays), and by node why each other one is left out."""
    left, rejected = list(descriptions), dict[str, str]()
    while left:
        try:
            return (left, *agree(left), rejected)
        except SchemaMismatch as error:
            rejected[error.node] = str(error)
            left = [m for m in left if m.node != error.node]
    return [], {}, {}, rejected


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


def _fault_of_outline(facts: Mapping[str, Any]) -> str | None:
    """What a node on another machine sends may be anything: here it is found out, not further on."""
    try:
        shape, columns = facts.get("shape", [1]), facts.get("columns", [])
        readable = ("shape" in facts) != bool(columns) and all(isinstance(n, int) and n > 0 for n in shape)
        readable &= bool(shape)
        for c in columns:
            readable &= isinstance(c["name"], str | int) and c["kind"] in ("number", "category")
            if c["kind"] == "number":
                low, high = map(float, c["range"])
                readable &= -LARGEST <= low <= high <= LARGEST
                readable &= isinstance(c["gaps"], bool) and isinstance(c["type"], str)
            else:
                readable &= all(isinstance(word, str) for word in c["categories"])
                readable &= len(c["categories"]) <= MAX_WORDS
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        readable = False
    for name, times in Counter(c["name"] for c in columns).items() if readable else ():
        if times > 1:
            return f"has column {name!r} twice; rename one"
    return None if readable else (
        f"sent a description of its columns that cannot be read (or numbers beyond {LARGEST:g}, or over {MAX_WORDS:,} "
        f"words in a column); check its table, and install the same version of tacit there"
    )  # fmt: skip


def _fault_of_numbers(message: Message) -> str | None:
    """Numbers that no records can have would spoil the scaling of all nodes, and nobody would know whose they are."""
    columns, shape = message.facts.get("columns", ()), message.facts.get("shape")
    numbers = [c for c in columns if c["kind"] == "number"]
    wide = len(numbers) if shape is None else shape[0]
    if fault := fault_of_arrays(message.arrays, dict.fromkeys(STATISTICS, (wide,)), np.inf):
        return fault
    count, mean, variance = (message.arrays[word].astype(np.float64) for word in STATISTICS)
    if (variance < 0).any() or (count < 0).any():
        return "sent a negative count or variance; check that node"
    records = message.facts["records"]
    low: Any = -LARGEST
    high: Any = LARGEST
    slack: Any = 0.0
    if shape is None:
        low, high = np.array([c["range"] for c in numbers], dtype=float).reshape(-1, 2).T
        slack = 1e-6 * (1 + np.abs(low) + np.abs(high))
    possible = (count <= records * math.prod((shape or [1])[1:])) & (low - slack <= mean) & (mean <= high + slack)
    possible &= variance <= ((high - low) / 2 + slack) ** 2  # no values in a range have more (Popoviciu)
    for odd in np.flatnonzero(~possible):
        name = numbers[odd]["name"] if shape is None else odd
        return f"says what no {records} records have: this count, mean and variance within the range of {name!r}"
    return None


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


def _agree_column(nodes: Sequence[str], told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    name, kind = told[0]["name"], told[0]["kind"]
    if kind == "number":
        types, (lows, highs) = {c["type"] for c in told}, zip(*[c["range"] for c in told], strict=True)
        number = {"type": types.pop() if len(types) == 1 else "float", "gaps": any(c["gaps"] for c in told)}
        return {"name": name, "kind": kind, **number, "range": [min(lows), max(highs)]}
    for node, c in zip(nodes, told, strict=True):
        mine, others = set(c["categories"]), {v for d in told if d is not c for v in d["categories"]}
        if mine and others and not mine & others:
            raise SchemaMismatch(
                node,
                f"has in column {name!r} the categories {_few(mine)}, none of which another node has ({_few(others)}); "
                f"use the same words at all nodes, or state them beforehand: categories={{{name!r}: [...]}}",
            )
    return {"name": name, "kind": kind, "categories": sorted({v for c in told for v in c["categories"]})}


def _few(values: set[str]) -> str:
    shown = sorted(values)[:5]
    return ", ".join(map(repr, shown)) + (", ..." if len(values) > 5 else "")


def _words(outline: tuple[Any, ...]) -> str:
    return f"arrays of shape {outline[1:]}" if outline[0] == "array" else f"a table of {len(outline)} columns"


class Descriptions:
    """Addends of a masked sum: columns travel in the clear, counts, means and variances are summed in agreed ranges."""

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
