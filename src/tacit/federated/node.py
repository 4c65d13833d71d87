"""One holder of records in a federation, and what it agrees to.

A server chooses batches, weights, columns and filters, and could choose them such that an answer is one person's
record. In one process (`simulate`) nothing leaves, and nothing of this applies; between machines a node answers within
its own `Grants`. They are a floor, no proof: differential privacy and masked sums say more.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit import files
from tacit.errors import InputError, InputTypeError, TacitError, check_number
from tacit.federated.protocol import ProtocolError
from tacit.labels import MISSING, encode_labels
from tacit.noise.accounting import DP, Spent, read_spent
from tacit.records.people import Crowd


@dataclass(frozen=True, eq=False)
class Node:
    """One silo: its records, what must keep working there, what must not be recoverable.

    Parameters
    ----------
    X : records, as for any filter; the same columns at every node
    y, sensitive_features : one column or a table; nodes may have different ones (each has its own heads)
    units : which records belong together
    name : for messages and reports; "node 1", "node 2", ... by default

    Examples
    --------
    >>> import tacit
    >>> data = tacit.load_dataset("quadrants", n=100)
    >>> Node(data.X, data.y, sensitive_features=data.sensitive, name="north")
    Node('north': 100 records)
    """

    X: Any
    y: Any = None
    sensitive_features: Any = None
    units: Any = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.X, "shape") or len(self.X.shape) < 2:
            raise InputTypeError(f"{self._called}: X must be a table or an array of records; found {type(self.X)}")
        if len(self) == 0:
            raise InputError(f"{self._called} has no record; leave it out of the federation")

    @property
    def _called(self) -> str:
        return "a node" if self.name is None else f"node {self.name!r}"

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Node({self.name!r}: {len(self):,} records)"


def named(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, checked, each with a name of its own, in the order of their names' positions given."""
    if isinstance(nodes, Node):
        nodes = [nodes]
    nodes = list(nodes)
    if not nodes:
        raise InputError("there is no node; pass a list of tacit.federated.Node")
    for node in nodes:
        if not isinstance(node, Node):
            raise InputTypeError(
                f"fit takes a list of tacit.federated.Node (records with their labels); found a {type(node).__name__}"
            )
    width = len(str(len(nodes)))
    out = [n if n.name is not None else replace(n, name=f"node {i + 1:0{width}d}") for i, n in enumerate(nodes)]
    names = [str(n.name) for n in out]
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise InputError(f"two nodes are called {twice[0]!r}; give each its own name")
    return out


@contextlib.contextmanager
def naming(who: str) -> Iterator[None]:
    """Errors of what is done inside say whose records they are about."""
    try:
        yield
    except TacitError as error:
        raise type(error)(f"{who}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Grants:
    """What leaves a node at most.

    Attributes
    ----------
    min_people : people that a table and every step of training is over at least
    min_count : people that a class, a word or a column's mean needs to count at all
    fit_budget : where set, every fit must be differentially private (`[training.dp]`), and all together, for as long as
        the node keeps its state, spend at most this epsilon
    """

    min_people: int = 20
    min_count: int = 5
    fit_budget: float | None = None

    def check(self) -> None:
        """Raise where one is not a number that can be used."""
        for name in ("min_people", "min_count"):
            check_number(name, getattr(self, name), 1, whole=True)
        check_number("fit_budget", self.fit_budget, 1e-3, optional=True)

    def check_rows(self, crowd: Crowd, n_rows: int, what: str, remedy: str) -> None:
        """Refuse so few rows that they may be of too few people."""
        found = fewest_people(crowd, n_rows)
        if found < self.min_people:
            raise InputError(
                f"{what} of {n_rows} rows may be of {found} people; this node answers for at least {self.min_people}: "
                f"{remedy}, or lower min_people here"
            )

    def check_node(self, node: Node) -> None:
        """Refuse a table, or a class of a label, of too few people: what is learned from it is learned of them."""
        crowd = crowd_of(node)
        self.check_rows(crowd, len(node), "a table", "take part with more")
        for values, what in ((node.y, "y"), (node.sensitive_features, "sensitive_features")):
            labels = encode_labels(values, what, len(node), min_classes=1)
            for name, codes in zip(labels.names, labels.codes.T, strict=True):
                few = [c for c in np.unique(codes[codes != MISSING]) if crowd.count(codes == c) < self.min_count]
                if few:
                    raise InputError(
                        f"a class of {name!r} has {crowd.count(codes == few[0])} people here, and what is learned of "
                        f"it is learned of them; at least {self.min_count} are needed: leave these rows out (label "
                        f"NaN), or lower min_count"
                    )


def crowd_of(node: Node) -> Crowd:
    """Who the rows of a node belong to."""
    return Crowd(len(node), None if node.units is None else np.asarray(node.units))


def fewest_people(crowd: Crowd, n_rows: int) -> int:
    """How many people so many rows are of, at least, whichever rows they are.

    Examples
    --------
    >>> fewest_people(Crowd(6, np.array(["a", "a", "a", "b", "b", "c"])), 4)
    2
    """
    if crowd.units is None:
        return min(n_rows, crowd.n_rows)
    return int(np.searchsorted(np.cumsum(np.sort(np.bincount(crowd.units))[::-1]), n_rows)) + 1


# -- what a node has answered before ----------------------------------------------------------------


def spend_fit(folder: Path, grants: Grants, dp: Any) -> None:
    """Count what a fit will spend, where this node has a budget for fits; refuse one that would exceed it."""
    if grants.fit_budget is None:
        return
    if not isinstance(dp, dict) or not isinstance(dp.get("epsilon", 3.0), int | float):
        raise ProtocolError(
            "this node takes part in differentially private fits alone (fit_budget in its file); set [training.dp] "
            "epsilon on the server"
        )
    path = folder / "fits.json"
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / "fits.lock"):
        spent = json.loads(path.read_text())["epsilon"] if path.exists() else 0.0
        total = spent + float(dp.get("epsilon", 3.0))
        if total > grants.fit_budget + 1e-9:
            raise ProtocolError(
                f"fits here have spent an epsilon of {spent:g} of {grants.fit_budget:g}; this one would make it "
                f"{total:g}. Take part with other people, or raise fit_budget"
            )
        files.write_whole(path, json.dumps({"epsilon": total}), private=True)


# -- what private fits cost ---------------------------------------------------------------------------

TOLD = (
    "columns, words, ranges, means and variances, which nodes agree on",
    "somebody whose records are at several nodes, who pays at each",
)
SETTINGS = ("epsilon", "delta", "clip")
SILENT = "a node that told nothing of what it spent: the budget is told in its place"


def private_settings(told: Any) -> DP:
    """`[training.dp]` of a server's file, as plain numbers that reach every node.

    Examples
    --------
    >>> private_settings({"epsilon": 3.0}).epsilon
    3.0
    """
    wrong = sorted(set(told) - set(SETTINGS)) if isinstance(told, Mapping) else [str(told)]
    if wrong:
        raise InputError(f"[training.dp] has epsilon, delta and clip; found {wrong[0]!r}. Scaling is agreed by nodes")
    dp = DP(**told)
    dp.check(1)
    return dp


def spent_at_nodes(dp: DP, nodes: Mapping[str, int], told: Mapping[str, Any]) -> list[Spent]:
    """By node what it spent; of one that told nothing that can be read, all that it may have spent."""
    out = []
    for node, records in nodes.items():
        spent = read_spent(told.get(node))
        out.append(spent or Spent(dp.epsilon, dp.delta, "record", records, 0.0, dp.clip, 1.0, 0, (SILENT,)))
    return out
