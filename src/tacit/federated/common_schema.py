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
from tacit.federated.protocol import MAX_RECORDS, Arrays, Message, fault_of_head
from tacit.records.encoding import ArrayEncoder, TableEncoder
from tacit.records.schema import Column

STATISTICS = ("count", "mean", "variance")
# what a node on another machine may say at most: more would stop or drown the others
MAX_WORDS = 10_000  # of a text column: the common encoder has a column for each
LARGEST = 1e100  # of a number: its square must be one too


class SchemaMismatch(InputError):
    """A node that does not fit in with the others; `node` says which."""

    def __init__(self, text: str, node: str = "") -> None:
        super().__init__(text)
        self.node = node


def describe(
    records: pd.DataFrame | np.ndarray, node: str, categories: Mapping[str, Sequence[str]] | None = None
) -> Message:
    """What a node tells of its (checked) records; of columns whose categories were fixed beforehand, not even these."""
    facts: dict[str, Any] = {"records": len(records)}
    if not isinstance(records, pd.DataFrame):
        axes = (0, *range(2, records.ndim))
        per_channel = records.size // records.shape[1]
        arrays = {
            "count": np.full(records.shape[1], per_channel, dtype=np.int64),
            "mean": records.mean(axis=axes),
            "variance": records.var(axis=axes),
        }
        return Message("description", node, facts={**facts, "shape": list(records.shape[1:])}, arrays=arrays)
    try:
        columns = TableEncoder().fit(records).columns
    except InputError as error:
        raise type(error)(f"node {node!r}: {error}") from None
    told: list[dict[str, Any]] = []
    found = []
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
        present = number[~np.isnan(number)]
        found.append((len(present), present.mean(), present.var()))
        told.append(c.to_dict())
    count, mean, variance = np.array(found, dtype=np.float64).reshape(-1, 3).T
    arrays = {"count": count.astype(np.int64), "mean": mean.copy(), "variance": variance.copy()}
    return Message("description", node, facts={**facts, "columns": told}, arrays=arrays)


def agree(descriptions: Sequence[Message]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The common columns and scaling (facts, arrays); a node that does not fit in raises, named with its column."""
    descriptions = sorted(descriptions, key=lambda m: m.node)
    for message in descriptions:
        _check_outline(message)
        _check_numbers(message)
    arrays = pooled([m.arrays for m in descriptions]) if _alike(descriptions) else {}
    if "shape" in descriptions[0].facts:
        return {"shape": descriptions[0].facts["shape"]}, arrays
    columns = [_agree_column([(m.node, m.facts["columns"][i]) for m in descriptions]) for i in
               range(len(descriptions[0].facts["columns"]))]  # fmt: skip
    return {"columns": columns}, arrays


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


def admit(description: Message, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Raise unless a node that came later has the agreed columns."""
    told = Message("description", "the federation", -1, {**facts, "records": MAX_RECORDS}, arrays)
    try:
        agree([description, told, told])
    except SchemaMismatch as error:
        raise SchemaMismatch(str(error), description.node) from None


def pooled(parts: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Number, mean and variance of all values together, column by column (Chan, Golub & LeVeque).

    Examples
    --------
    >>> a, b = np.array([1., 2., 6.]), np.array([4., 8.])
    >>> told = [{"count": np.array([len(x)]), "mean": x.mean(keepdims=True), "variance": x.var(keepdims=True)}
    ...         for x in (a, b)]
    >>> both, together = pooled(told), np.concatenate([a, b])
    >>> bool(np.isclose(both["variance"][0], together.var()) and np.isclose(both["mean"][0], together.mean()))
    True
    """
    count, mean, variance = (parts[0][word] for word in STATISTICS)
    for part in parts[1:]:
        n = count + part["count"]
        share = part["count"] / np.maximum(n, 1)
        step = part["mean"] - mean
        variance = (1 - share) * variance + share * part["variance"] + (1 - share) * share * step**2
        mean, count = mean + share * step, n
    return {"count": count, "mean": mean, "variance": variance}


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


def _check_outline(message: Message) -> None:
    """What a node on another machine sends may be anything: here it is found out, not further on."""
    facts = message.facts
    try:
        readable = message.kind == "description" and ("shape" in facts) != ("columns" in facts)
        readable &= bool(facts.get("columns", True))
        readable &= all(isinstance(n, int) and n > 0 for n in facts.get("shape", [1])) and bool(facts.get("shape", [1]))
        for c in facts.get("columns", []):
            readable &= isinstance(c["name"], str | int) and c["kind"] in ("number", "category")
            if c["kind"] == "number":
                low, high = map(float, c["range"])
                readable &= (
                    -LARGEST <= low <= high <= LARGEST and isinstance(c["gaps"], bool) and isinstance(c["type"], str)
                )
            else:
                readable &= all(isinstance(word, str) for word in c["categories"])
                readable &= len(c["categories"]) <= MAX_WORDS
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        readable = False
    if not readable:
        raise SchemaMismatch(
            f"node {message.node!r} sent a description of its columns that cannot be read (or numbers beyond "
            f"{LARGEST:g}, or over {MAX_WORDS:,} words in a column); check its table, and install the same version of "
            f"tacit there",
            message.node,
        )


def _check_numbers(message: Message) -> None:
    fault = fault_of_head(message, message.kind, message.round)
    if fault is not None:
        raise SchemaMismatch(f"node {message.node!r} {fault}", message.node)
    columns = message.facts.get("columns")
    wide = message.facts["shape"][0] if columns is None else sum(c["kind"] == "number" for c in columns)
    for word in STATISTICS:
        array = message.arrays.get(word)
        usable = array is not None and array.shape == (wide,) and array.dtype.kind in "fiu"
        if not usable or not np.isfinite(array).all():  # type: ignore[arg-type]
            raise SchemaMismatch(
                f"node {message.node!r} sent no usable {word} of its {wide} number columns; check that node's table",
                message.node,
            )
    if (message.arrays["variance"] < 0).any() or (message.arrays["count"] < 0).any():
        raise SchemaMismatch(f"node {message.node!r} sent a negative count or variance; check that node", message.node)
    _check_possible(message, message.facts["records"])


def _check_possible(message: Message, records: int) -> None:
    """Numbers that no records can have would spoil the scaling of all nodes, and nobody would know whose they are."""
    count, mean, variance = (message.arrays[word].astype(np.float64) for word in STATISTICS)
    columns = [c for c in message.facts.get("columns", ()) if c["kind"] == "number"]
    per_record = math.prod(message.facts["shape"][1:]) if "shape" in message.facts else 1
    low, high = (
        np.array([c["range"] for c in columns], dtype=float).reshape(-1, 2).T if columns else (-LARGEST, LARGEST)
    )
    slack = 1e-6 * (1 + np.abs(low) + np.abs(high)) if columns else 0.0
    possible = (count <= records * per_record) & (low - slack <= mean) & (mean <= high + slack)
    possible &= variance <= ((high - low) / 2 + slack) ** 2  # no values in a range have more (Popoviciu)
    if not possible.all():
        odd = int(np.flatnonzero(~possible)[0])
        name = columns[odd]["name"] if columns else odd
        raise SchemaMismatch(
            f"node {message.node!r}: no {records} records have this count, mean and variance within their range in "
            f"column {name!r}; check that node's table",
            message.node,
        )


def _alike(descriptions: Sequence[Message]) -> bool:
    """True where all nodes have the same columns of the same kinds; else the odd node is named."""

    def outline(m: Message) -> tuple[Any, ...]:
        if "shape" in m.facts:
            return ("array", *m.facts["shape"])
        return tuple((c["name"], c["kind"]) for c in m.facts["columns"])

    usual = Counter(outline(m) for m in descriptions).most_common(1)[0][0]
    for message in descriptions:
        mine = outline(message)
        if mine == usual:
            continue
        who = f"node {message.node!r}"
        if "array" in (mine[0], usual[0]):
            raise SchemaMismatch(
                f"{who} has {_words(mine)}, the others have {_words(usual)}; bring all nodes' records to one form",
                message.node,
            )
        names, others = [n for n, _ in mine], [n for n, _ in usual]
        for name in others:
            if name not in names:
                text = f"{who} has no column {name!r}, which the others have; add it, or drop it everywhere"
                raise SchemaMismatch(text, message.node)
        for name in names:
            if name not in others:
                text = f"{who} has a column {name!r}, which the others do not have; drop it there"
                raise SchemaMismatch(text, message.node)
        for (name, kind), (other, usual_kind) in zip(mine, usual, strict=True):
            if name != other:
                text = f"{who} has column {name!r} where the others have {other!r}; use one order of columns"
                raise SchemaMismatch(text, message.node)
            if kind != usual_kind:
                raise SchemaMismatch(
                    f"{who}: column {name!r} holds {_kind(kind)}, at the others {_kind(usual_kind)}; convert it there",
                    message.node,
                )
    return True


def _agree_column(told: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    name, kind = told[0][1]["name"], told[0][1]["kind"]
    if kind == "number":
        types = {c["type"] for _, c in told}
        low, high = min(c["range"][0] for _, c in told), max(c["range"][1] for _, c in told)
        return {
            "name": name,
            "kind": kind,
            "type": types.pop() if len(types) == 1 else "float",
            "gaps": any(c["gaps"] for _, c in told),
            "range": [low, high],
        }
    for node, c in told:
        mine = set(c["categories"])
        others = {v for other, d in told if other != node for v in d["categories"]}
        if mine and others and not mine & others:
            raise SchemaMismatch(
                f"node {node!r}: column {name!r} has the categories {_few(mine)}, none of which another node has "
                f"({_few(others)}); use the same words at all nodes, or state them beforehand: "
                f"categories={{{name!r}: [...]}}",
                node,
            )
    union = sorted({v for _, c in told for v in c["categories"]})
    return {"name": name, "kind": kind, "categories": union}


def _few(values: set[str]) -> str:
    shown = sorted(values)[:5]
    return ", ".join(map(repr, shown)) + (", ..." if len(values) > 5 else "")


def _words(outline: tuple[Any, ...]) -> str:
    return f"arrays of shape {outline[1:]}" if outline[0] == "array" else f"a table of {len(outline)} columns"


def _kind(kind: str) -> str:
    return "numbers" if kind == "number" else "text"
