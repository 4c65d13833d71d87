"""Node: one holder of records in a federation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.errors import InputError, InputTypeError, TacitError
from tacit.labels import label_frame


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

    def take(self, rows: np.ndarray) -> Node:
        """The records where the mask is true."""

        def of(values: Any, what: str) -> Any:
            return None if values is None else label_frame(values, what)[rows]

        y, sensitive = of(self.y, "y"), of(self.sensitive_features, "sensitive_features")
        return Node(self.X[rows], y, sensitive, of(self.units, "*"), self.name)

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
