"""Was this record used to fit the filter? Asked of the whole bundle, not of its release alone (white box).

A receiver of a bundle has the graph: every number it computes on the way, where its trees cut, what its cells stand
for. This attacker reads all of that for a record whose labels it knows, has some members and some others
by name to learn from, and is tested on the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pandas as pd
from onnx import numpy_helper
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tacit.auditing.attackers import ATTACKERS
from tacit.auditing.stats import Measure, accuracy
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.files import onnx_session
from tacit.filters.base import Filter
from tacit.labels import MISSING, encode_labels
from tacit.records.dataset import Dataset
from tacit.records.schema import schema_of
from tacit.release.onnx import export
from tacit.release.runtime import Release
from tacit.report.results import Result

READERS = ("logistic", "trees", "forest")
MAX_MEMBERS = 4000
OTHERS = 4  # for each member: those who are no members are easy to come by
MAX_WIDTH = 64  # numbers of one step of the graph that are read; wider steps are told by their largest, mean, ...
NEAREST = 5  # distances to where trees cut that are read


def whitebox_membership(
    release: Filter | Release, train: Dataset, test: Dataset, random_state: int = 0, confidence_level: float = 0.95
) -> Result:
    """How well members of the fit are told from others by whoever holds the bundle and a record with its labels.

    Parameters
    ----------
    release : a fitted filter, or its bundle
    train : rows it was fitted on
    test : rows it was not fitted on
    random_state, confidence_level : of the split between rows to learn from and rows to be tested on; of the interval

    Returns
    -------
    a `Result` whose headline is the AUC (guessing .5). Under ``more`` it has, for every label that some step of the
    graph gives the probabilities of, how often that step names the label of members and of others

    Examples
    --------
    >>> import tacit
    >>> train, test = tacit.load_dataset("quadrants", n=400).split((.5, .5), random_state=0)
    >>> f = tacit.CodebookFilter(n_codes=4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> whitebox_membership(f, train, test).guessing
    0.5
    """
    model, declared = _opened(release)
    n = min(len(train), MAX_MEMBERS)
    rng = np.random.default_rng(random_state)
    sizes = n, min(len(test), MAX_MEMBERS, OTHERS * n)
    parts = [d.take(np.sort(rng.permutation(len(d))[:size])) for d, size in zip((train, test), sizes, strict=True)]
    labels = _label_codes(parts)
    graph = _Graph(model, declared, release.name if isinstance(release, Release) else type(release).__name__)
    runs = [graph.run(d.X) for d in parts]
    steps = {name: np.concatenate([run[name] for run in runs]) for name in runs[0] if name in runs[1]}
    losses, rest = _varying(_losses(steps, labels)), _varying(_rest(steps, labels, graph.cuts))
    member = pd.DataFrame({"membership": np.repeat(["in", "out"], sizes)})
    both = Dataset(np.concatenate([losses, rest], axis=1), None, member, _units(parts))
    learn, tested = both.split((0.5, 0.5), random_state=random_state)
    # with few members to learn from, an attacker who reads less is often the better one
    attackers: dict[str, Any] = {name: ATTACKERS[name] for name in READERS}
    if losses.shape[1]:
        attackers |= {f"{name}, losses": _reading(losses.shape[1], name) for name in READERS}
        attackers["sum of losses"] = _reading(1, "logistic")
    trial = Trial((learn, tested), (learn.X, tested.X))
    suite = AttackSuite(attackers, random_state)
    result = suite.result(suite.run(trial.task("sensitive", 0), "auc"), "auc", confidence_level)
    return replace(result, more={**result.more, **_named(steps, labels, n, confidence_level)})


def _opened(release: Any) -> tuple[bytes, Mapping[str, Any]]:
    if isinstance(release, Release):
        return release._bundle.members["model.onnx"], release.manifest["input"]
    if isinstance(release, Filter):
        return export(release.mechanism_)[0], release.mechanism_.schema.declared.to_dict()
    raise InputError(
        f"a white-box attack needs a fitted filter of Tacit or a loaded bundle; found a {type(release).__name__}"
    )


class _Graph:
    """A bundle's graph with every step an output."""

    def __init__(self, model: bytes, declared: Mapping[str, Any], name: str) -> None:
        self.schema, self.name = schema_of(declared), name
        opened = onnx.load_model_from_string(model)
        # noise would be drawn afresh by the key; a receiver who has none reads the code as it is
        self.noise = [i for i in opened.graph.input if i.name == "noise"]
        given = {o.name for o in opened.graph.output}
        steps = [out for node in opened.graph.node for out in node.output if out and out not in given]
        opened.graph.output.extend(onnx.ValueInfoProto(name=s) for s in steps)
        self.session = onnx_session(opened.SerializeToString(), optimise=False)
        self.cuts = _cuts(opened)

    def run(self, X: Any) -> dict[str, np.ndarray]:
        """Every numeric step for these records, (n, numbers)."""
        feeds, n, problems = self.schema.check(X)
        if problems:
            raise InputError(f"{self.name}: {problems[0]}")
        for i in self.noise:
            feeds[i.name] = np.zeros((n, i.type.tensor_type.shape.dim[1].dim_value))
        names = [o.name for o in self.session.get_outputs()]
        found = zip(names, self.session.run(names, feeds), strict=True)
        steps = {k: np.asarray(v) for k, v in found}
        return {
            k: v.reshape(n, -1).astype(np.float64)
            for k, v in steps.items()
            if v.ndim > 0 and len(v) == n and v.dtype.kind in "fiub" and v.size
        }


def _cuts(model: onnx.ModelProto) -> dict[int, np.ndarray]:
    """Per encoded column, where trees cut it."""
    found: dict[int, set[float]] = {}
    for node in model.graph.node:
        if node.op_type != "TreeEnsembleRegressor":
            continue
        attribute = {a.name: a for a in node.attribute}
        modes = [m.decode() for m in attribute["nodes_modes"].strings]
        values = numpy_helper.to_array(attribute["nodes_values_as_tensor"].t)
        for column, mode, value in zip(attribute["nodes_featureids"].ints, modes, values, strict=True):
            if mode != "LEAF":
                found.setdefault(int(column), set()).add(float(value))
    return {column: np.sort(list(values)) for column, values in found.items()}


def _losses(steps: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]) -> np.ndarray:
    """The loss of each label by each step that gives its probabilities; first the sum by those that give them best."""
    total, columns = np.zeros((len(next(iter(steps.values()))), 1)), []
    for codes in labels.values():
        truth = _one_hot(codes)
        found = [(p, _loss(p, truth)) for p in _posteriors(steps, truth.shape[1])]
        if found:
            total += min((loss for _, loss in found), key=np.mean)
        columns += [np.column_stack([loss, loss * truth, p]) for p, loss in found]
    return np.concatenate([total, *columns], axis=1)


def _loss(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Of the true class; none where it is not known."""
    return -np.log(np.maximum((p * truth).sum(axis=1, keepdims=True), 1e-9)) * truth.any(axis=1, keepdims=True)


def _rest(
    steps: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray], cuts: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Every step of the graph, the labels, and how near the record lies to where trees cut."""
    columns = [_one_hot(codes) for codes in labels.values()]
    for step in steps.values():
        if step.shape[1] <= MAX_WIDTH:
            columns.append(step)
        else:
            columns.append(np.column_stack([step.min(1), step.mean(1), step.std(1), step.max(1)]))
    if cuts:
        columns.append(_distances(steps["encoded"], cuts))
    return np.nan_to_num(np.concatenate(columns, axis=1))


def _one_hot(codes: np.ndarray) -> np.ndarray:
    return (codes[:, None] == np.arange(int(codes.max()) + 1)).astype(np.float64)


def _varying(X: np.ndarray) -> np.ndarray:
    return X[:, X.std(axis=0) > 0]


def _reading(first: int, name: str) -> Any:
    """An attacker who reads the first columns alone."""

    def make(shape: tuple[int, int], n_classes: int, seed: int) -> Any:
        model = ATTACKERS[name]((shape[0], first), n_classes, seed)
        return make_pipeline(FunctionTransformer(lambda X: X[:, :first]), model)

    return make


def _posteriors(steps: Mapping[str, np.ndarray], n_classes: int) -> list[np.ndarray]:
    """Steps that look like the probabilities of n classes."""
    return [
        p
        for p in steps.values()
        if p.shape[1] == n_classes > 1
        and p.min() >= 0
        and np.allclose(p.sum(1), 1, atol=1e-6)
        and not np.isin(p, (0, 1)).all()  # a one-hot column gives no probabilities
    ]


def _distances(encoded: np.ndarray, cuts: Mapping[int, np.ndarray]) -> np.ndarray:
    """How near a record lies to where trees cut: the smallest distances, and their mean."""
    apart = []
    for column, at in cuts.items():
        x = encoded[:, column]
        place = np.searchsorted(at, x).clip(1, len(at) - 1) if len(at) > 1 else np.zeros(len(x), dtype=int)
        apart.append(np.minimum(np.abs(x - at[place]), np.abs(x - at[place - 1])))
    distances = np.sort(np.column_stack(apart), axis=1)
    return np.column_stack([distances[:, :NEAREST], distances.mean(axis=1)])


def _label_codes(parts: Sequence[Dataset]) -> dict[str, np.ndarray]:
    """The codes of every label column, of both parts one after the other."""
    both = pd.concat([pd.concat([d.y, d.sensitive], axis=1) for d in parts], ignore_index=True)
    labels = encode_labels(both, "labels", len(both), min_classes=1, numbers=True)
    return dict(zip(labels.names, labels.codes.T, strict=True))


def _named(
    steps: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray], n_members: int, level: float
) -> dict[str, Measure]:
    """How often the step of the graph that names a label best does so, of members and of others."""
    found = {}
    for name, codes in labels.items():
        truth = _one_hot(codes)
        candidates = _posteriors(steps, truth.shape[1])
        if not candidates:
            continue
        p = min(candidates, key=lambda p: _loss(p, truth).mean())
        for word, rows in (("members", slice(None, n_members)), ("others", slice(n_members, None))):
            known = codes[rows] != MISSING
            if known.any():
                found[f"{name} named, {word}"] = accuracy(codes[rows][known], p[rows][known].argmax(1), None, level)
    return found


def _units(parts: Sequence[Dataset]) -> np.ndarray | None:
    """Rows of one person stay on one side of the split."""
    units = [d.units_of() for d in parts]
    if any(u is None for u in units):
        return None
    return np.concatenate([[f"{i} {u}" for u in part] for i, part in enumerate(units)])  # type: ignore[union-attr]
