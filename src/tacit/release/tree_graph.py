"""Boosted trees as ONNX: thresholds in double precision, all trees of a label in one ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tacit.errors import InputError


def posterior_graph(g: Any, x: str, models: Sequence[Any], name: str) -> str:
    """The mean of the folds' p(class | x), as `Posteriors.predict` computes it."""
    trees, links = Ensemble(), []
    for model in models:
        links.append(None if model.model is None else trees.add(model.model))
    scores = trees.write(g, x) if trees.n_targets else None
    n_classes = models[0].n_classes
    constant = np.zeros((1, n_classes))
    total = None
    for model, columns in zip(models, links, strict=True):
        if columns is None or scores is None:
            constant += model.prior
            continue
        raw = g.columns(scores, columns)
        if len(columns) == 1:
            one = g.op("Sigmoid", raw)
            p = g.join(g.op("Sub", g.number(1.0), one), one)
        else:
            p = g.op("Softmax", raw, axis=1)
        place = np.zeros((len(model.classes), n_classes))
        place[np.arange(len(model.classes)), model.classes] = 1.0
        p = g.op("Add", g.op("MatMul", p, g.tensor(place, "place")), g.number(1e-4))
        p = g.op("Div", p, g.sum(p))
        total = p if total is None else g.op("Add", total, p)
    if total is None:  # every fold knows the class frequencies alone
        total = g.op("MatMul", x, g.tensor(np.zeros((g.shapes[x][0], n_classes)), "none"))
    mean = g.op("Mul", g.op("Add", total, g.constant(f"{name}.constant", constant)), g.number(1 / len(models)))
    g.shapes[mean] = (n_classes,)
    return mean


def student_graph(g: Any, x: str, student: Any) -> str:
    """p(class | x), as a `tacit.filters.posterior.Student` computes it."""
    trees = Ensemble()
    for model in student.trees:
        trees.add(model, student.bins.edges)
    raw = trees.write(g, x)
    if student.n_classes == 2:
        one = g.op("Sigmoid", raw)
        p = g.join(g.op("Sub", g.number(1.0), one), one)
    else:
        p = g.op("Softmax", raw, axis=1)
    g.shapes[p] = (student.n_classes,)
    return str(p)


class Ensemble:
    """Trees of several models; every model has its own outputs."""

    def __init__(self) -> None:
        self.n_targets = self.n_trees = 0
        self.nodes: list[tuple[int, int, int, str, float, int, int]] = []  # tree, node, feature, mode, value, yes, no
        self.leaves: list[tuple[int, int, int, float]] = []  # tree, node, target, weight
        self.base: list[float] = []

    def add(self, model: Any, edges: Sequence[np.ndarray] | None = None) -> list[int]:
        """Take a model in; returns the numbers of its outputs: one score, or one for each class.

        With `edges` its columns are numbers of bins, and a tree that cuts after bin b cuts the column at edge b.
        """
        first = self.n_targets
        if hasattr(model, "booster_"):
            grown = [_lightgbm_tree(t["tree_structure"]) for t in model.booster_.dump_model()["tree_info"]]
            width = 1 if getattr(model, "n_classes_", 2) == 2 else int(model.n_classes_)
            base = [0.0] * width
        elif type(model).__name__ in ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"):
            grown = [_sklearn_tree(t.nodes) for step in model._predictors for t in step]
            width = len(model._predictors[0])
            base = np.ravel(model._baseline_prediction).tolist()
        else:
            raise InputError(f"a {type(model).__name__} cannot be saved in a bundle; use the default, boosted trees")
        self.n_targets += width
        self.base += base
        for i, nodes in enumerate(grown):
            if edges is not None:
                nodes = [(f, value if f < 0 else float(edges[f][int(value)]), yes, no) for f, value, yes, no in nodes]
            self._add_tree(nodes, first + i % width)
        return list(range(first, first + width))

    def _add_tree(self, nodes: list[tuple[int, float, int, int]], target: int) -> None:
        tree = self.n_trees
        self.n_trees += 1
        for i, (feature, value, yes, no) in enumerate(nodes):
            if feature < 0:
                self.nodes.append((tree, i, 0, "LEAF", 0.0, 0, 0))
                self.leaves.append((tree, i, target, value))
            else:
                self.nodes.append((tree, i, feature, "BRANCH_LEQ", value, yes, no))

    def write(self, g: Any, x: str) -> str:
        tree, node, feature, mode, value, yes, no = map(list, zip(*self.nodes, strict=True))
        leaf_tree, leaf, target, weight = map(list, zip(*self.leaves, strict=True))
        scores = g.op(
            "TreeEnsembleRegressor",
            x,
            domain="ai.onnx.ml",
            nodes_treeids=tree,
            nodes_nodeids=node,
            nodes_featureids=feature,
            nodes_modes=mode,
            nodes_values_as_tensor=_doubles(value),
            nodes_truenodeids=yes,
            nodes_falsenodeids=no,
            target_treeids=leaf_tree,
            target_nodeids=leaf,
            target_ids=target,
            target_weights_as_tensor=_doubles(weight),
            base_values_as_tensor=_doubles(self.base),
            n_targets=self.n_targets,
        )
        return g.op("Cast", scores, to=TensorProto.DOUBLE)


def _doubles(values: Sequence[float]) -> Any:
    return numpy_helper.from_array(np.asarray(values, dtype=np.float64))


def _lightgbm_tree(root: dict[str, Any]) -> list[tuple[int, float, int, int]]:
    """Nodes as (feature, threshold, yes, no), leaves as (-1, value, 0, 0), the root first."""
    nodes: list[tuple[int, float, int, int]] = []

    def visit(node: dict[str, Any]) -> int:
        at = len(nodes)
        nodes.append((-1, float(node.get("leaf_value", 0.0)), 0, 0))
        if "split_feature" in node:
            if node["decision_type"] != "<=":
                raise InputError(f"a tree decides by {node['decision_type']!r}, which is not exported")
            yes, no = visit(node["left_child"]), visit(node["right_child"])
            nodes[at] = (int(node["split_feature"]), float(node["threshold"]), yes, no)
        return at

    visit(root)
    return nodes


def _sklearn_tree(nodes: np.ndarray) -> list[tuple[int, float, int, int]]:
    return [
        (-1, float(n["value"]), 0, 0)
        if n["is_leaf"]
        else (int(n["feature_idx"]), float(n["num_threshold"]), int(n["left"]), int(n["right"]))
        for n in nodes
    ]
