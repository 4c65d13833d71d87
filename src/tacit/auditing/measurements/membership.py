"""Membership inference: was this record used in the fit? From its release, or from all that a bundle computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tacit.auditing.attackers import ATTACKERS
from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain_frame
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.filters.base import Filter
from tacit.filters.mechanism import transformed
from tacit.labels import encode_labels
from tacit.records.dataset import Dataset
from tacit.records.schema import schema_of
from tacit.release.runtime import Release
from tacit.report.findings import Finding
from tacit.report.results import Result

READERS = ("logistic", "trees", "forest")
MAX_MEMBERS = 4000
OTHERS = 4  # for each member, in the white-box attack: those who are no members are easy to come by
NEAREST = 5  # distances to where trees cut that are read
MAX_WIDTH = 64  # numbers of one step of a graph that are read; of wider steps the smallest, mean, deviation and largest


@measurement("membership", needs="options.train", place=80)
def membership(trial: Trial, context: Context) -> Iterable[Finding]:
    """Infer whether a record was used in the fit, from its release or from the whole bundle, and its true labels."""
    train, suite = trial.settings.train, context.suite
    assert train is not None
    n = min(len(train), len(trial.test), MAX_MEMBERS)
    rng = np.random.default_rng(suite.seed)
    sides = [d.take(np.sort(rng.permutation(len(d))[:n])) for d in (train, trial.test)]
    Z = [plain_frame(transformed(trial.release, d)).assign(**_words(d)) for d in sides]
    member = pd.DataFrame({"membership": np.repeat(["in", "out"], n)})
    both = Dataset(pd.concat(Z, ignore_index=True), None, member)
    halves = both.split((0.5, 0.5), random_state=suite.seed)
    results = suite.measure(Trial(halves, (halves[0].X, halves[1].X)), "sensitive", trial.level)
    context.attacked("membership", "the release and the true labels of a record, and some members by name", results)
    if isinstance(trial.release, Filter | Release):
        try:
            found = whitebox_membership(trial.release, train, trial.test, suite.seed, trial.level)
        except InputError:
            return []  # a filter that cannot be saved has no bundle to give away
        knows = "the bundle, and a record with its true labels; some members by name"
        context.attacked("membership, by the bundle", knows, {"membership": found})
    return []


def whitebox_membership(
    release: Filter | Release, train: Dataset, test: Dataset, random_state: int = 0, confidence_level: float = 0.95
) -> Result:
    """How well an attacker who holds the bundle and a record with its labels tells members of the fit from others.

    Parameters
    ----------
    release : a fitted filter, or its bundle
    train : rows it was fitted on
    test : rows it was not fitted on
    random_state, confidence_level : of the split between rows to learn from and rows to be tested on; of the interval

    Returns
    -------
    a `Result` whose headline is the AUC (guessing .5)

    Examples
    --------
    >>> import tacit
    >>> train, test = tacit.load_dataset("quadrants", n=400).split((.5, .5), random_state=0)
    >>> f = tacit.CodebookFilter(n_codes=4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> whitebox_membership(f, train, test).guessing
    0.5
    """
    rng, n = np.random.default_rng(random_state), min(len(train), MAX_MEMBERS)
    sizes = n, min(len(test), MAX_MEMBERS, OTHERS * n)
    parts = [d.take(np.sort(rng.permutation(len(d))[:size])) for d, size in zip((train, test), sizes, strict=True)]
    steps = _steps(release, [d.X for d in parts])
    losses, rest = (X[:, X.std(axis=0) > 0] for X in _features(steps, parts))
    member = pd.DataFrame({"membership": np.repeat(["in", "out"], sizes)})
    both = Dataset(np.concatenate([losses, rest], axis=1), None, member, _units(parts))
    learn, tested = both.split((0.5, 0.5), random_state=random_state)
    # with few members to learn from, an attacker who reads less is often the better one
    attackers: dict[str, Any] = {name: ATTACKERS[name] for name in READERS}
    if losses.shape[1]:
        attackers |= {f"{name}, losses": _reading(losses.shape[1], name) for name in READERS}
        attackers["sum of losses"] = _reading(1, "logistic")
    suite = AttackSuite(attackers, random_state)
    task = Trial((learn, tested), (learn.X, tested.X)).task("sensitive", 0)
    return suite.result(suite.run(task, "auc"), "auc", confidence_level)


def _steps(release: Any, records: Sequence[Any]) -> list[np.ndarray]:
    """(n, numbers) of every numeric step of the release's graph, the parts of the records one after the other."""
    import onnx  # takes half a second: only this attack pays

    from tacit.files import onnx_session
    from tacit.release.onnx import export

    if isinstance(release, Release):
        model, declared = release._bundle.members["model.onnx"], release.manifest["input"]
    elif isinstance(release, Filter):
        model, declared = export(release.mechanism_)[0], release.mechanism_.schema.declared.to_dict()
    else:
        raise InputError(
            f"a white-box attack needs a fitted filter of Tacit or a loaded bundle; found a {type(release).__name__}"
        )
    graph = onnx.load_model_from_string(model)
    given = {o.name for o in graph.graph.output}
    inner = [out for node in graph.graph.node for out in node.output if out and out not in given]
    graph.graph.output.extend(onnx.ValueInfoProto(name=s) for s in inner)
    session, runs = onnx_session(graph.SerializeToString(), optimise=False), []
    for X in records:
        feeds, n, problems = schema_of(declared).check(X)
        if problems:
            raise InputError(f"{type(release).__name__}: {problems[0]}")
        for i in graph.graph.input:
            if i.name == "noise":  # drawn by the key; a receiver who has none reads the code as it is
                feeds["noise"] = np.zeros((n, i.type.tensor_type.shape.dim[1].dim_value))
        found = {o.name: np.asarray(v) for o, v in zip(session.get_outputs(), session.run(None, feeds), strict=True)}
        numeric = {k: v for k, v in found.items() if v.ndim and len(v) == n and v.dtype.kind in "fiub" and v.size}
        runs.append({k: v.reshape(n, -1).astype(np.float64) for k, v in numeric.items()})
    steps = {k: np.concatenate([run[k] for run in runs]) for k in runs[0] if all(k in run for run in runs)}
    cuts = _cuts(graph)
    return [*steps.values(), *([_distances(steps["encoded"], cuts)] if cuts else [])]


def _cuts(model: Any) -> dict[int, np.ndarray]:
    """By encoded column, where trees cut it: free cuts lie between records of the fit."""
    from onnx import numpy_helper

    found: dict[int, set[float]] = {}
    for node in model.graph.node:
        if node.op_type == "TreeEnsembleRegressor":
            attribute = {a.name: a for a in node.attribute}
            values = numpy_helper.to_array(attribute["nodes_values_as_tensor"].t)
            modes = attribute["nodes_modes"].strings
            for column, mode, value in zip(attribute["nodes_featureids"].ints, modes, values, strict=True):
                if mode != b"LEAF":
                    found.setdefault(int(column), set()).add(float(value))
    return {column: np.sort(list(values)) for column, values in found.items()}


def _distances(encoded: np.ndarray, cuts: Mapping[int, np.ndarray]) -> np.ndarray:
    """How near a record lies to where trees cut: the smallest distances, and their mean."""
    apart = np.column_stack([np.abs(encoded[:, [c]] - at).min(axis=1) for c, at in cuts.items()])
    nearest = np.sort(apart, axis=1)[:, :NEAREST]
    return np.column_stack([nearest, apart.mean(axis=1)])


def _features(steps: Sequence[np.ndarray], parts: Sequence[Dataset]) -> tuple[np.ndarray, np.ndarray]:
    """The loss of each label by each step that gives its probabilities, their best sum first; labels and all steps."""
    both = pd.concat([pd.concat([d.y, d.sensitive], axis=1) for d in parts], ignore_index=True)
    codes = encode_labels(both, "labels", len(both), min_classes=1, numbers=True).codes
    truths = [(c[:, None] == np.arange(int(c.max()) + 1)).astype(np.float64) for c in codes.T]
    total, losses = np.zeros((len(both), 1)), []
    for truth in truths:
        known = truth.any(axis=1, keepdims=True)
        found = [p for p in steps if p.shape[1] == truth.shape[1] and _are_probabilities(p)]
        each = [-np.log(np.maximum((p * truth).sum(axis=1, keepdims=True), 1e-9)) * known for p in found]
        total += min(each, key=np.mean, default=0)
        losses += [np.column_stack([loss, loss * truth, p]) for p, loss in zip(found, each, strict=True)]
    narrow = [
        s if s.shape[1] <= MAX_WIDTH else np.column_stack([s.min(1), s.mean(1), s.std(1), s.max(1)]) for s in steps
    ]
    return np.concatenate([total, *losses], axis=1), np.nan_to_num(np.concatenate([*truths, *narrow], axis=1))


def _are_probabilities(p: np.ndarray) -> bool:
    """Whether rows look like probabilities of classes; a one-hot column gives none."""
    return bool(
        p.shape[1] > 1 and p.min() >= 0 and np.allclose(p.sum(1), 1, atol=1e-6) and not np.isin(p, (0, 1)).all()
    )


def _reading(first: int, name: str) -> Any:
    """An attacker who reads the first columns alone."""

    def make(shape: tuple[int, int], n_classes: int, seed: int) -> Any:
        model = ATTACKERS[name]((shape[0], first), n_classes, seed)
        return make_pipeline(FunctionTransformer(lambda X: X[:, :first]), model)

    return make


def _units(parts: Sequence[Dataset]) -> np.ndarray | None:
    """Rows of one person stay on one side of the split."""
    units = [d.units_of() for d in parts]
    if any(u is None for u in units):
        return None
    return np.concatenate([[f"{i} {u}" for u in part] for i, part in enumerate(units)])  # type: ignore[union-attr]


def _words(data: Dataset) -> dict[str, Any]:
    """The labels of every record, as words."""
    y, sensitive = data.by_class("y"), data.by_class("sensitive")
    named = {**{f"y {c}": y[c] for c in y}, **{f"s {c}": sensitive[c] for c in sensitive}}
    return {k: v.astype(object).where(v.notna(), "unknown").astype(str).to_numpy() for k, v in named.items()}
