"""Boosted trees of a stranger: every tree is one, of bounded depth, and asks only for columns that there are.

Read without recursion: a tree that is as deep as its file is long must not end the process that looks at it.
Standard library alone.
"""

from __future__ import annotations

from typing import Any

from tacit.errors import BundleError

DEEPEST = 1000  # runtimes descend by recursion, and end the process somewhere beyond 10,000
MODES = {"BRANCH_LEQ", "LEAF"}
PLACES = ("nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids")


def check_trees(attributes: dict[str, Any], columns: int) -> int:
    """How many steps a record takes through all trees, at most; raises where they are not trees over these columns."""
    trees = attributes["nodes_treeids"]
    lists = [attributes[name] for name in PLACES]
    values, weights = attributes["nodes_values_as_tensor"], attributes["target_weights_as_tensor"]
    _need({len(v) for v in lists} == {len(trees)} and values.shape == (len(trees),) and trees, "has uneven lists")
    base = attributes.get("base_values_as_tensor")
    _need(base is None or base.shape == (attributes["n_targets"],), "has base values that do not fit")
    _need({v.type for v in (values, weights, base) if v is not None} in ({1}, {11}), "has numbers of several types")
    grown: dict[int, dict[int, tuple[int, int] | None]] = {}
    for tree, node, feature, mode, yes, no in zip(trees, *lists, strict=True):
        nodes = grown.setdefault(tree, {})
        _need(mode in MODES, f"decides by {mode[:40]!r}")
        _need(node == len(nodes), "does not number its nodes in their order")
        _need(mode == "LEAF" or 0 <= feature < columns, f"asks for column {feature} of {columns}")
        nodes[node] = None if mode == "LEAF" else (yes, no)
    _need(sorted(grown) == list(range(len(grown))), "does not number its trees in their order")
    _check_leaves(attributes, grown, weights)
    return sum(_depth(nodes) for nodes in grown.values())


def _check_leaves(attributes: dict[str, Any], grown: dict[int, dict[int, Any]], weights: Any) -> None:
    of, at, targets = (attributes[n] for n in ("target_treeids", "target_nodeids", "target_ids"))
    _need(len(of) == len(at) == len(targets) and weights.shape == (len(of),), "has uneven lists of leaves")
    seen = set(zip(of, at, targets, strict=True))
    _need(len(seen) == len(of), "weighs a leaf twice")
    for tree, node, target in seen:
        _need(node in grown.get(tree, {}) and grown[tree][node] is None, "weighs what is not a leaf")
        _need(0 <= target < attributes["n_targets"], f"names target {target} of {attributes['n_targets']}")
    leaves = {(tree, node) for tree, nodes in grown.items() for node, children in nodes.items() if children is None}
    _need({(tree, node) for tree, node, _ in seen} == leaves, "has a leaf without a weight")


def _depth(nodes: dict[int, tuple[int, int] | None]) -> int:
    """How deep a tree is; raises unless every node but the root has one parent, and all hang on the root."""
    depth, ahead = {0: 1}, [0]
    while ahead:
        node = ahead.pop()
        for child in nodes[node] or ():
            _need(child in nodes and child not in depth, "is not a tree: a node has two parents, or none that is there")
            depth[child] = depth[node] + 1
            _need(depth[child] <= DEEPEST, f"is more than {DEEPEST:,} deep")
            ahead.append(child)
    _need(len(depth) == len(nodes), "is not a tree: it has nodes that no record reaches")
    return max(depth.values())


def _need(fine: Any, why: str) -> None:
    if not fine:
        raise BundleError(f"model.onnx: TreeEnsembleRegressor {why}; it is not run")
