"""What a private fit has cost the people of every node, as the nodes told it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.errors import InputError
from tacit.noise.fit_privacy import DP, Spent, read_spent

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
