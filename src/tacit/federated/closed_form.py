"""Closed-form filters across silos: one round of sums gives the very filter that all records together would.

`LinearARL` and `LinearEraser` depend on the records through counts, means and covariances alone. After the scaling is
agreed each node sends these once; merged they are exact. Per node: the number of encoded records, their mean and
covariance, and per class of its labels its size and mean; of columns where one value is that of at least half of the
node's records, that value and how often (to know columns that hardly vary). The mean of a class of one record is that
record: a class of fewer than `min_count` records is refused. The covariances of a word that one record has are that
record: agree on words beforehand (`categories`), or use masked sums.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from tacit.baselines.linear_arl import LinearARL, solve_moments
from tacit.baselines.linear_eraser import LinearEraser
from tacit.baselines.moments import ClassMeans, Moments, moments_of, noisy_moments
from tacit.errors import InputError, InputTypeError, TacitWarning, check_number
from tacit.federated.common_schema import (
    LARGEST,
    SCALING,
    AgreeingCoordinator,
    AgreeingWorker,
    Descriptions,
    agreed_preparation,
    make_common_encoder,
)
from tacit.federated.masked_sums import Addend, SumCoordinator, SumWorker
from tacit.federated.node import TOLD, Grants, Node, naming, spent_at_nodes
from tacit.federated.protocol import ALL, Message, ProtocolError, check_arrays, under
from tacit.federated.rounds import simulate
from tacit.filters.base import Problem, check_units, finish_fit
from tacit.filters.mechanism import Mechanism
from tacit.filters.notes import note
from tacit.filters.public_intake import tell_spent
from tacit.labels import encode_labels
from tacit.noise.accounting import spent_by_all

ROLES = ("targets", "sensitive")


class SumsCoordinator(AgreeingCoordinator):
    """The server: agrees on columns and scaling, then asks for sums, once. To it all nodes together are one."""

    kept = (*AgreeingCoordinator.kept, "sums")
    n_rounds = 1

    def __init__(self, f: ClosedForm, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(f, names, min_nodes)
        self.sums: dict[str, Any] = {}  # facts and arrays

    def _open(self, nodes: Sequence[str]) -> list[Message]:
        return [Message("sum", n, self.round, *self._agreement()) for n in nodes]

    def _merge(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        self.sums, self.round = {"facts": dict(answers[0].facts), "arrays": dict(answers[0].arrays)}, 1
        return None


class SumsWorker(AgreeingWorker):
    """A node: describes its columns, then sends the sums of its encoded records."""

    task = "sum"

    def __init__(self, f: ClosedForm, node: Node) -> None:
        super().__init__(clone(f.estimator), node)
        self.min_count, self.grants = f.min_count, f.grants
        if f.grants is not None:
            self.min_count = max(f.min_count, f.grants.min_count)

    def _answer(self, message: Message) -> Message:
        encoder = make_common_encoder(message.facts["agreed"], under(SCALING, message.arrays))
        X = encoder.transform(self._records)
        return sums(self.node, X, self.min_count, self.f)


# -- what a node tells of its records ---------------------------------------------------------------


def sums(node: Node, X: np.ndarray, min_count: int = 5, f: Any = None) -> Message:
    """What a node sends of its encoded records; where `f` has dp, with noise of its own for its own people."""
    with naming(f"node {node.name!r}"):
        labels = [
            encode_labels(v, what, len(X), min_classes=1)
            for v, what in ((node.y, "y"), (node.sensitive_features, "sensitive_features"))
        ]
    flat, dp = X.reshape(len(X), -1), getattr(f, "dp", None)
    facts: dict[str, Any] = {"records": len(X)}
    if dp is None:
        moments, means = moments_of(X, *labels)
        middle = np.median(flat, axis=0)  # a value that half of the records have is their median
        often = (middle == flat).sum(axis=0)
        half = 2 * often >= len(X)
    else:
        f.not_covered_, f.notes_ = TOLD, []
        moments, means = noisy_moments(f, Problem(X, labels[0], labels[1], check_units(node.units, len(X)), 0), dp)
        facts["dp"] = {str(node.name): f.dp_.to_dict()}
        middle, often, half = np.zeros(flat.shape[1]), np.zeros(flat.shape[1], int), np.zeros(flat.shape[1], bool)
    arrays = {"mean": moments.mean, "scatter": moments.scatter[np.triu_indices(len(moments.mean))]}
    arrays |= {"common": np.where(half, middle, np.nan), "often": np.where(half, often, 0)}
    known: dict[str, list[Any]] = {}
    for role, running in zip(ROLES, means, strict=True):
        for name, classes in running.columns.items():
            if dp is not None:  # the noise may say that there are more than all
                over = max(1.0, sum(n for n, _ in classes.values()) / len(X))
                classes = {label: (max(1, int(n / over)), mean) for label, (n, mean) in classes.items()}
            small = [label for label, (n, _) in classes.items() if dp is None and n < min_count]
            if small:
                raise InputError(
                    f"node {node.name!r}: class {small[0]!r} of {name!r} has fewer than {min_count} records, whose "
                    f"mean would tell too much of each; leave these rows out (label NaN), or lower min_count"
                )
            key = f"{role}/{name}"
            known[key] = list(classes)
            arrays[f"{key}/counts"] = np.array([n for n, _ in classes.values()], dtype=np.int64)
            arrays[f"{key}/means"] = np.array([mean for _, mean in classes.values()]).reshape(-1, flat.shape[1])
    return Message("sums", str(node.name), 0, {**facts, "classes": known}, arrays)


# -- what the server makes of it --------------------------------------------------------------------


def _solve(f: Any, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], scaling: Any) -> Mechanism:
    width = len(arrays["mean"])
    total, means = Moments(width), {role: ClassMeans(width) for role in ROLES}
    own = Moments(width)
    own.n, own.mean = int(facts["records"]), arrays["mean"]
    own.scatter[np.triu_indices(width)] = arrays["scatter"]
    own.scatter += np.triu(own.scatter, 1).T
    own.values[0], own.counts[0] = arrays["common"], arrays["often"]
    total.merge(own)
    for key, classes in facts["classes"].items():
        role, name = key.split("/", 1)
        each = zip(classes, arrays[f"{key}/counts"], arrays[f"{key}/means"], strict=True)
        means[role].columns[name] = {c: (int(n), mean) for c, n, mean in each}
    for role in ROLES if isinstance(f, LinearARL) else ROLES[1:]:
        poorest = means[role].fewest_classes()
        if poorest is not None and poorest[1] < 2:
            raise InputError(f"column {poorest[0]!r} has one class at all nodes together; leave it out")
    if isinstance(f, LinearARL):
        if not means["targets"].columns:
            raise InputError("LinearARL needs a target (y) at the nodes: say what must keep working")
        return f.take(*solve_moments(total, means["targets"], means["sensitive"], f.lam))
    return f.finish(scaling, total, means["sensitive"])


class SummedStatistics:
    """How `closed_form.sums` are added up."""

    def outline(self, answer: Message) -> dict[str, Any]:
        common = [None if np.isnan(v) else float(v) for v in answer.arrays["common"]]
        return {"classes": answer.facts["classes"], "common": common, "dp": answer.facts.get("dp", {})}

    def agree(self, outlines: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        rejected = {n: "sent classes that cannot be read" for n, told in outlines.items() if not _readable(told)}
        left = {n: told for n, told in sorted(outlines.items()) if n not in rejected}
        if not left:
            return {}, rejected
        forms = {n: (frozenset(told["classes"]), len(told["common"])) for n, told in left.items()}
        usual = Counter(forms.values()).most_common(1)[0][0]
        for node, form in forms.items():
            if form != usual:
                odd = [key.split("/", 1)[1] for key in sorted(usual[0] ^ form[0])]
                rejected[node] = (
                    f"differs from the others in the label columns {', '.join(odd) or 'none'}, or in the number of "
                    f"encoded columns ({form[1]}, the others {usual[1]}); pass the same everywhere"
                )
        told = [told for node, told in left.items() if node not in rejected]
        classes = {key: list(dict.fromkeys(c for t in told for c in t["classes"][key])) for key in told[0]["classes"]}
        by_column = [list(dict.fromkeys(v for v in values if v is not None))[:2] for values in
                     zip(*(t["common"] for t in told), strict=True)]  # fmt: skip
        common = [[values[i] if len(values) > i else None for values in by_column] for i in range(2)]
        spent = {node: own for t in told for node, own in t.get("dp", {}).items()}  # what a private fit cost
        return {"classes": classes, "common": common, "dp": spent}, rejected

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        n, arrays = answer.facts["records"], answer.arrays
        mean, upper = arrays["mean"], np.triu_indices(len(arrays["mean"]))
        parts = [n * mean, arrays["scatter"] + n * np.outer(mean, mean)[upper]]
        for values in agreed["common"]:
            parts.append(np.where(arrays["common"] == np.array(values, dtype=float), arrays["often"], 0))
        for key, classes in agreed["classes"].items():
            mine = answer.facts["classes"][key]
            counts, sums = np.zeros(len(classes)), np.zeros((len(classes), len(mean)))
            at = [classes.index(c) for c in mine]
            counts[at] = arrays[f"{key}/counts"]
            sums[at] = counts[at][:, None] * arrays[f"{key}/means"]
            parts += [counts, sums.reshape(-1)]
        return np.concatenate(parts)

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: Any) -> Message:
        width = len(agreed["common"][0])
        sizes = [width, width * (width + 1) // 2, width, width]
        for classes in agreed["classes"].values():
            sizes += [len(classes), len(classes) * width]
        if numbers.size != sum(sizes):
            raise ProtocolError(f"nodes summed {numbers.size} numbers, expected {sum(sizes)} of {width} columns")
        first, second, *parts = np.split(numbers, np.cumsum(sizes)[:-1])
        mean = first / records
        arrays = {"mean": mean, "scatter": second - records * np.outer(mean, mean)[np.triu_indices(width)]}
        often = np.rint(parts[:2])
        values, more = np.array(agreed["common"], dtype=float), often.argmax(axis=0)
        arrays |= {"common": values[more, np.arange(width)], "often": often.max(axis=0)}
        known = {}
        for key, counts, sums in zip(agreed["classes"], parts[2::2], parts[3::2], strict=True):
            here = np.flatnonzero(np.rint(counts) > 0)  # a class may have left with the one node that had it
            if (np.rint(counts) < 0).any() or np.rint(counts).sum() > records:
                raise ProtocolError(f"sent classes of {key!r} that {records} records cannot have")
            known[key] = [agreed["classes"][key][i] for i in here]
            arrays[f"{key}/counts"] = np.rint(counts[here]).astype(np.int64)
            arrays[f"{key}/means"] = sums.reshape(-1, width)[here] / arrays[f"{key}/counts"][:, None]
        summed = {k: a for k, a in arrays.items() if k != "common"}
        check_arrays(summed, {k: a.shape for k, a in summed.items()}, LARGEST)
        return Message("sums", ALL, 0, {"records": records, "classes": known, "dp": agreed["dp"]}, arrays)


def _readable(outline: Mapping[str, Any]) -> bool:
    """Whether the names of label columns, their classes, and the most frequent values are what they should be."""
    classes, common = outline.get("classes"), outline.get("common")
    if not isinstance(classes, dict) or not isinstance(common, list) or not isinstance(outline.get("dp"), dict):
        return False
    return all(v is None or (isinstance(v, float) and abs(v) <= LARGEST) for v in common) and all(
        key.split("/", 1)[0] in ROLES
        and "/" in key
        and isinstance(known, list)
        and all(isinstance(c, str | int | float | bool) for c in known)
        and len(set(known)) == len(known)
        for key, known in classes.items()
    )


ADDENDS: Mapping[str, Addend] = {"description": Descriptions(), "sums": SummedStatistics()}


def fit_closed_form(
    estimator: Any,
    nodes: Sequence[Node],
    *,
    min_count: int = 5,
    categories: Mapping[str, Sequence[str]] | None = None,
    secure: bool = False,
) -> Any:
    """Fit `LinearARL` or `LinearEraser` from summed statistics of all nodes.

    Parameters
    ----------
    estimator : an unfitted `LinearARL` (without features) or `LinearEraser`; a fitted copy is returned, with
        `rounds_`: the bytes of the two rounds (scaling, then sums), and `nodes_`: the records of each node
    nodes : `Node`s with the same label columns
    min_count : smallest class, in records at one node, whose mean may travel
    categories : words of text columns that were agreed on beforehand, as of `DistributedEIGAN`
    secure : the server sees sums over all nodes alone (`tacit.federated.masked_sums`)

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
    return simulate(nodes, ClosedForm(estimator, min_count=min_count, categories=categories, secure=secure))


class ClosedForm(BaseEstimator):
    """The algorithm behind `fit_closed_form`, for `simulate` and for Flower; parameters as there."""

    grants: Grants | None = None  # a node's, where sums leave the machine

    def __init__(
        self,
        estimator: Any,
        *,
        min_count: int = 5,
        categories: Mapping[str, Sequence[str]] | None = None,
        secure: bool = False,
    ) -> None:
        self.estimator = estimator
        self.min_count = min_count
        self.categories = categories
        self.secure = secure

    def coordinator(self, names: Sequence[str], min_nodes: int = 1) -> Any:
        """The server's side."""
        self.check_parameters()
        return SumCoordinator(SumsCoordinator(self, []), names, min_nodes, ADDENDS, self.secure)

    def worker(self, node: Node) -> Any:
        """A node's side."""
        self.check_parameters()
        return SumWorker(SumsWorker(self, node), ADDENDS, self.secure)

    def conclude(self, coordinator: Any, workers: Sequence[SumsWorker] = ()) -> Any:
        """The fitted filter. `workers` are those of this process: none between machines."""
        f = clone(self.estimator)
        f.rounds_ = copy.deepcopy(coordinator.log)
        f.nodes_ = dict(coordinator.contributed)
        f.notes_ = []
        schema, memory = agreed_preparation(f, coordinator.agreed, workers)
        learned = _solve(f, **coordinator.sums, scaling=schema.scaling)
        finish_fit(f, None, replace(learned, schema=schema, memory=memory))
        if f.dp is not None:
            tell_spent(f, spent_by_all(spent_at_nodes(f.dp, f.nodes_, coordinator.sums["facts"]["dp"])))
        for line in f.rounds_:
            for node, why in line["rejected"].items():
                if node not in f.nodes_:
                    note(f, f"{node}: what it sent was rejected, so its records have no part: {why}", TacitWarning)
        return f

    def check_parameters(self) -> None:
        """Raise where a parameter is not one that can be used."""
        f = self.estimator
        if type(f) not in (LinearARL, LinearEraser):
            raise InputTypeError(
                f"sums of statistics are enough for LinearARL and LinearEraser; found a {type(f).__name__}"
            )
        if f.dp is not None and (f.dp.ranges is not None or f.dp.categories is not None):
            raise InputError("nodes agree on scaling and words: leave ranges and categories out of dp")
        check_number("min_count", self.min_count, 1, whole=True)
        if isinstance(f, LinearARL):
            check_number("lam", f.lam, 0, 1)
            check_number("n_components", f.n_components, 1, whole=True, optional=True)
        else:
            check_number("min_frequency", f.min_frequency, 0, 1)
