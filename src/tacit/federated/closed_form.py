"""Closed-form filters across silos: one round of sums gives the very filter that all records together would.

`LinearARL` and `LinearEraser` depend on the records through counts, means and covariances alone. After the scaling is
agreed each node sends these once, for its encoded records and by class of its labels; merged they are exact. What
travels per node: the number of records, their mean and covariance, and per class its size and mean; of columns where
one value is that of at least half of the node's records, that value and how often (to know columns that hardly vary).
The mean of a class of one record is that record: classes of fewer than `fewest` records at a node are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from tacit.baselines.linear_arl import LinearARL, solve_moments
from tacit.baselines.linear_eraser import LinearEraser
from tacit.baselines.moments import ClassMeans, Moments, moments_of
from tacit.errors import InputError, InputTypeError, TacitError, check_number
from tacit.federated.node import Node, named
from tacit.federated.protocol import Message, ProtocolError, traffic
from tacit.federated.schema import agree, describe, make_common_encoder
from tacit.filters.base import Filter
from tacit.labels import encode_labels
from tacit.tables import fingerprints

ROLES = ("targets", "sensitive")


def fit_closed_form(estimator: Any, nodes: Sequence[Node], *, fewest: int = 5) -> Any:
    """Fit `LinearARL` or `LinearEraser` from summed statistics of all nodes.

    Parameters
    ----------
    estimator : an unfitted `LinearARL` (without features) or `LinearEraser`; a fitted copy is returned, with
        `rounds_`: the bytes of the two rounds (scaling, then sums)
    nodes : `Node`s with the same label columns
    fewest : smallest class, in records at one node, whose mean may travel

    Examples
    --------
    >>> import numpy as np, tacit
    >>> from tacit.federated import Node, fit_closed_form
    >>> data = tacit.load_dataset("gaussians", n=200, n_nodes=3)
    >>> nodes = [Node(d.X, d.y, sensitive_features=d.sensitive) for d in data.split("official")]
    >>> f = fit_closed_form(tacit.baselines.LinearARL(), nodes)
    >>> pooled = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> bool(np.allclose(f.transform(data.X), pooled.transform(data.X), atol=1e-8))
    True
    """
    if type(estimator) not in (LinearARL, LinearEraser):
        raise InputTypeError(
            f"sums of statistics are enough for LinearARL and LinearEraser; found a {type(estimator).__name__}"
        )
    check_number("fewest", fewest, 1, whole=True)
    nodes = named(nodes)
    f = clone(estimator)
    records = {str(node.name): _checked(f, node) for node in nodes}
    told = [_describe(f, records[name], name) for name in records]
    facts, scaling = agree(told)
    f.encoder_ = make_common_encoder(facts, scaling)
    asked = [Message("sum", name, 0, {"agreed": facts}, scaling) for name in records]
    answers = [sums(node, f.encoder_.transform(records[str(node.name)]), fewest) for node in nodes]
    f.rounds_ = [{"round": -1, **traffic([], told)}, {"round": 0, **traffic(asked, answers)}]
    _conclude(f, answers)
    f._fingerprints = np.sort(np.concatenate([fingerprints(r) for r in records.values()]))
    return f


def sums(node: Node, X: np.ndarray, fewest: int = 5) -> Message:
    """What a node sends of its encoded records."""
    arrays, facts = dict[str, np.ndarray](), {"records": len(X), "classes": dict[str, Any]()}
    try:
        labels = [
            encode_labels(v, what, len(X), min_classes=1)
            for v, what in ((node.y, "y"), (node.sensitive_features, "sensitive_features"))
        ]
    except TacitError as error:
        raise type(error)(f"node {node.name!r}: {error}") from None
    moments, means = moments_of(X, *labels)
    arrays |= {"mean": moments.mean, "scatter": moments.scatter[np.triu_indices(len(moments.mean))]}
    arrays |= dict(zip(("common", "often"), _common(X.reshape(len(X), -1)), strict=True))
    for role, running in zip(ROLES, means, strict=True):
        for name, classes in running.columns.items():
            small = [label for label, (n, _) in classes.items() if n < fewest]
            if small:
                raise InputError(
                    f"node {node.name!r}: class {small[0]!r} of {name!r} has fewer than {fewest} records, whose mean "
                    f"would tell too much of each; leave these rows out (label NaN), or lower fewest"
                )
            facts["classes"][f"{role}/{name}"] = list(classes)  # type: ignore[index]
            arrays[f"{role}/{name}/counts"] = np.array([n for n, _ in classes.values()])
            arrays[f"{role}/{name}/means"] = np.array([mean for _, mean in classes.values()])
    return Message("sums", str(node.name), 0, facts, arrays)


def merged(answers: Sequence[Message]) -> tuple[Moments, dict[str, ClassMeans]]:
    """The statistics of all nodes' records together."""
    answers = sorted(answers, key=lambda m: m.node)
    width = len(answers[0].arrays["mean"])
    total, means = Moments(width), {role: ClassMeans(width) for role in ROLES}
    columns = set(answers[0].facts["classes"])
    for message in answers:
        _check_sums(message, width, columns)
        total.merge(_moments(message))
        for key, classes in message.facts["classes"].items():
            role, name = key.split("/", 1)
            counts, centres = message.arrays[f"{key}/counts"], message.arrays[f"{key}/means"]
            part = ClassMeans(width)
            part.columns[name] = {c: (int(n), mean) for c, n, mean in zip(classes, counts, centres, strict=True)}
            means[role].merge(part)
    return total, means


def _conclude(f: Any, answers: Sequence[Message]) -> None:
    total, means = merged(answers)
    f._units, f._problem, f.notes_ = None, None, []
    for role in ROLES if isinstance(f, LinearARL) else ROLES[1:]:
        poorest = means[role].fewest_classes()
        if poorest is not None and poorest[1] < 2:
            raise InputError(f"column {poorest[0]!r} has one class at all nodes together; leave it out")
    if isinstance(f, LinearARL):
        if not means["targets"].columns:
            raise InputError("LinearARL needs a target (y) at the nodes: say what must keep working")
        check_number("lam", f.lam, 0, 1)
        check_number("n_components", f.n_components, 1, whole=True, optional=True)
        f._take(*solve_moments(total, means["targets"], means["sensitive"], f.lam))
    else:
        check_number("rare", f.rare, 0, 1)
        f._moments, f._means, f._n_features_out = total, means["sensitive"], len(total.mean)
        f._finish()


def _checked(f: Filter, node: Node) -> Any:
    try:
        return f._check_records(node.X, reset=True)
    except TacitError as error:
        raise type(error)(f"node {node.name!r}: {error}") from None


def _describe(f: Filter, records: Any, name: str) -> Message:
    return describe(records, name)


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


def _check_sums(message: Message, width: int, columns: set[str]) -> None:
    who, facts = f"node {message.node!r}", message.facts
    if set(facts["classes"]) != columns:
        odd = sorted(set(facts["classes"]) ^ columns)[0]
        raise InputError(f"{who}: the label column {odd.split('/', 1)[1]!r} is not at all nodes; pass it everywhere")
    fine: Mapping[str, np.ndarray] = {k: v for k, v in message.arrays.items() if k != "common"}
    if len(message.arrays["mean"]) != width or not all(np.isfinite(v).all() for v in fine.values()):
        raise ProtocolError(
            f"{who} sent statistics of {len(message.arrays['mean'])} columns (expected {width}), or NaN"
        )
