"""What a node tells of its encoded records for a closed form: sums, and how the server checks and merges them.

Per node: the number of records, their mean and covariance, and per class of its labels its size and mean; of columns
where one value is that of at least half of the node's records, that value and how often (to know columns that hardly
vary). The mean of a class of one record is that record: a class of fewer than `min_count` records is refused.
And the covariances of a word that one record has are that record: see `coarsened`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.baselines.moments import ClassMeans, Moments, moments_of
from tacit.errors import InputError
from tacit.federated.common_schema import LARGEST
from tacit.federated.node import Node, naming
from tacit.federated.protocol import Message, fault_of_head
from tacit.labels import encode_labels
from tacit.records.encoding import ArrayEncoder, TableEncoder

ROLES = ("targets", "sensitive")


def sums(node: Node, X: np.ndarray, min_count: int = 5) -> Message:
    """What a node sends of its encoded records."""
    arrays, known = dict[str, np.ndarray](), dict[str, Any]()
    with naming(f"node {node.name!r}"):
        labels = [
            encode_labels(v, what, len(X), min_classes=1)
            for v, what in ((node.y, "y"), (node.sensitive_features, "sensitive_features"))
        ]
    moments, means = moments_of(X, *labels)
    arrays |= {"mean": moments.mean, "scatter": moments.scatter[np.triu_indices(len(moments.mean))]}
    arrays |= dict(zip(("common", "often"), _common(X.reshape(len(X), -1)), strict=True))
    for role, running in zip(ROLES, means, strict=True):
        for name, classes in running.columns.items():
            small = [label for label, (n, _) in classes.items() if n < min_count]
            if small:
                raise InputError(
                    f"node {node.name!r}: class {small[0]!r} of {name!r} has fewer than {min_count} records, whose "
                    f"mean would tell too much of each; leave these rows out (label NaN), or lower min_count"
                )
            known[f"{role}/{name}"] = list(classes)
            arrays[f"{role}/{name}/counts"] = np.array([n for n, _ in classes.values()], dtype=np.int64)
            arrays[f"{role}/{name}/means"] = np.array([mean for _, mean in classes.values()]).reshape(
                len(classes), len(moments.mean)
            )
    return Message("sums", str(node.name), 0, {"records": len(X), "classes": known}, arrays)


def coarsened(X: np.ndarray, encoder: TableEncoder | ArrayEncoder, min_count: int) -> np.ndarray:
    """Encoded records without what fewer than `min_count` of them have: covariances with it would be these records.

    Records with a rare word (or with one of few gaps) count as having the commonest; a number that all but a few
    records have in common counts as common to all.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"job": ["cook"] * 5 + ["nurse"] * 6 + ["pilot"]})
    >>> encoder = TableEncoder().fit(table)
    >>> coarsened(encoder.transform(table), encoder, 5).sum(axis=0).astype(int).tolist()  # cook, nurse, other, missing
    [5, 7, 0, 0]
    """
    out = X.reshape(len(X), -1).copy()
    at, numbers = 0, []
    for column in encoder.columns if isinstance(encoder, TableEncoder) else ():
        slots = np.arange(at, at + column.width)
        at += column.width
        if column.kind != "category":
            numbers += slots.tolist()
            continue
        counts = out[:, slots].sum(axis=0)
        rare = out[:, slots[counts < min_count]].any(axis=1)
        out[np.ix_(rare, slots)] = np.eye(len(slots))[counts.argmax()]
    for j in numbers if isinstance(encoder, TableEncoder) else range(out.shape[1]):
        values, counts = np.unique(out[:, j], return_counts=True)
        if len(out) - counts.max() < min_count:
            out[:, j] = values[counts.argmax()]
    return out.reshape(X.shape)


def sift_sums(answers: Sequence[Message], width: int) -> tuple[list[Message], dict[str, str]]:
    """The answers that can be merged, and by node why each other one cannot."""
    rejected = {m.node: fault for m in answers if (fault := _fault(m, width)) is not None}
    usable = [m for m in answers if m.node not in rejected]
    usual = Counter(frozenset(m.facts["classes"]) for m in usable).most_common(1)
    for message in usable:
        odd = sorted(usual[0][0] ^ set(message.facts["classes"]))
        if odd:
            column = odd[0].split("/", 1)[1]
            rejected[message.node] = f"the label column {column!r} is not at all nodes; pass it everywhere"
    return [m for m in usable if m.node not in rejected], rejected


def merged(answers: Sequence[Message]) -> tuple[Moments, dict[str, ClassMeans]]:
    """The statistics of all nodes' records together, whatever order the answers came in."""
    answers = sorted(answers, key=lambda m: m.node)
    width = len(answers[0].arrays["mean"])
    total, means = Moments(width), {role: ClassMeans(width) for role in ROLES}
    for message in answers:
        total.merge(_moments(message))
        for key, classes in message.facts["classes"].items():
            role, name = key.split("/", 1)
            counts, centres = message.arrays[f"{key}/counts"], message.arrays[f"{key}/means"]
            part = ClassMeans(width)
            part.columns[name] = {c: (int(n), mean) for c, n, mean in zip(classes, counts, centres, strict=True)}
            means[role].merge(part)
    return total, means


def _common(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By column the value that at least half of the records have, and how many do; NaN and 0 where there is none."""
    middle = np.median(X, axis=0)  # a value that half of the records have is their median
    often = (middle == X).sum(axis=0)
    enough = 2 * often >= len(X)
    return np.where(enough, middle, np.nan), np.where(enough, often, 0)


def _moments(message: Message) -> Moments:
    width = len(message.arrays["mean"])
    out = Moments(width)
    out.n, out.mean = int(message.facts["records"]), message.arrays["mean"]
    out.scatter[np.triu_indices(width)] = message.arrays["scatter"]
    out.scatter += np.triu(out.scatter, 1).T
    out.values[0], out.counts[0] = message.arrays["common"], message.arrays["often"]
    return out


def _fault(message: Message, width: int) -> str | None:
    """What is wrong with sums over this many columns; None if nothing is."""
    fault = fault_of_head(message, "sums", 0)
    if fault is not None:
        return fault
    classes = message.facts.get("classes")
    if not isinstance(classes, dict) or not all(_readable(key, known) for key, known in classes.items()):
        return "sent classes that cannot be read"
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("mean", "common", "often"), (width,))
    shapes["scatter"] = (width * (width + 1) // 2,)
    for key, known in classes.items():
        shapes |= {f"{key}/counts": (len(known),), f"{key}/means": (len(known), width)}
    for name in sorted(set(shapes) ^ set(message.arrays)):
        return f"{'has no' if name in shapes else 'has an unknown'} array {name!r}"
    for name, shape in shapes.items():
        array = message.arrays[name]
        if array.shape != shape or array.dtype.kind not in "fiu":
            return f"{name!r} has shape {array.shape} and type {array.dtype}, expected {shape} and numbers"
        if name != "common" and not np.isfinite(array).all():
            return f"{name!r} holds NaN or infinity"
        if np.abs(np.nan_to_num(array.astype(np.float64))).max(initial=0) > LARGEST:
            return f"{name!r} holds numbers beyond {LARGEST:g}"
    for key in classes:
        counts = message.arrays[f"{key}/counts"]
        if (counts < 1).any() or int(counts.sum()) > message.facts["records"]:
            return f"{key!r} has classes of {counts.tolist()} of {message.facts['records']} records"
    return None


def _readable(key: Any, known: Any) -> bool:
    plain = isinstance(known, list) and all(isinstance(c, str | int | float | bool) for c in known)
    return plain and str(key).split("/", 1)[0] in ROLES and "/" in key and len(set(known)) == len(known)
