"""Closed-form filters across silos: one round of sums gives the very filter that all records together would.

`LinearARL` and `LinearEraser` depend on the records through counts, means and covariances alone. After the scaling is
agreed each node sends these once, for its encoded records and by class of its labels; merged they are exact. What
travels is in `tacit.federated.sums`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from tacit.baselines.linear_arl import LinearARL, solve_moments
from tacit.baselines.linear_eraser import LinearEraser
from tacit.errors import InputError, InputTypeError, TacitWarning, check_number
from tacit.federated.agreement import (
    SCALING,
    AgreeingCoordinator,
    AgreeingWorker,
    agreed_preparation,
)
from tacit.federated.common_schema import make_common_encoder
from tacit.federated.node import Node
from tacit.federated.protocol import NODE, SERVER, Arrays, Message, ProtocolError, follow, under
from tacit.federated.simulation import simulate
from tacit.federated.sums import ROLES, coarsened, merged, sift_sums, sums
from tacit.filters.base import finish_fit
from tacit.filters.mechanism import Learned
from tacit.filters.notes import note
from tacit.renamed import renamed


@renamed(fewest="min_count")
def fit_closed_form(
    estimator: Any, nodes: Sequence[Node], *, min_count: int = 5, categories: Mapping[str, Sequence[str]] | None = None
) -> Any:
    """Fit `LinearARL` or `LinearEraser` from summed statistics of all nodes.

    Parameters
    ----------
    estimator : an unfitted `LinearARL` (without features) or `LinearEraser`; a fitted copy is returned, with
        `rounds_`: the bytes of the two rounds (scaling, then sums), and `nodes_`: the records of each node
    nodes : `Node`s with the same label columns
    min_count : smallest class, in records at one node, whose mean may travel
    categories : words of text columns that were agreed on beforehand, as of `DistributedEIGAN`

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
    return simulate(nodes, ClosedForm(estimator, min_count=min_count, categories=categories))


class ClosedForm(BaseEstimator):
    """The algorithm behind `fit_closed_form`, for `simulate` and for Flower; parameters as there."""

    leaves = False  # True where sums leave the machine: rare words are then hidden in them (`coarsened`)

    def __init__(
        self, estimator: Any, *, min_count: int = 5, categories: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.estimator = estimator
        self.min_count = min_count
        self.categories = categories

    def coordinator(self, names: Sequence[str], min_nodes: int = 1) -> SumsCoordinator:
        """The server's side."""
        self.check_parameters()
        return SumsCoordinator(self, names, min_nodes)

    def worker(self, node: Node) -> SumsWorker:
        """A node's side."""
        self.check_parameters()
        return SumsWorker(self, node)

    def conclude(self, coordinator: SumsCoordinator, workers: Sequence[SumsWorker] = ()) -> Any:
        """The fitted filter. `workers` are those of this process: none between machines."""
        f = clone(self.estimator)
        f.rounds_ = copy.deepcopy(coordinator.log)
        f.nodes_ = {m.node: int(m.facts["records"]) for m in coordinator.sums}
        f.notes_ = []
        known = agreed_preparation(f, coordinator.agreed, workers)
        finish_fit(f, None, _solve(f, coordinator.sums, known.intake.scaling), known)
        for line in f.rounds_:
            for node, why in line["rejected"].items():
                note(f, f"{node}: what it sent was rejected, so its records have no part: {why}", TacitWarning)
        return f

    def check_parameters(self) -> None:
        """Raise where a parameter is not one that can be used."""
        f = self.estimator
        if type(f) not in (LinearARL, LinearEraser):
            raise InputTypeError(
                f"sums of statistics are enough for LinearARL and LinearEraser; found a {type(f).__name__}"
            )
        check_number("min_count", self.min_count, 1, whole=True)
        if isinstance(f, LinearARL):
            check_number("lam", f.lam, 0, 1)
            check_number("n_components", f.n_components, 1, whole=True, optional=True)
        else:
            check_number("min_frequency", f.min_frequency, 0, 1)


class SumsCoordinator(AgreeingCoordinator):
    """The server: agrees on columns and scaling, then asks for sums, once."""

    n_rounds = 1

    def __init__(self, f: ClosedForm, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(names, min_nodes)
        self.f, self.categories = f, f.categories
        self.sums: list[Message] = []

    def _open(self, available: Sequence[str]) -> list[Message]:
        """Nodes that turn up after the scaling was agreed are too late."""
        told, scaling = self._agreement()
        return [Message("sum", n, self.round, told, scaling) for n in available if n in self.members]

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        if self.phase == "agreeing":
            self._receive_descriptions(answers, failures)
            return
        line = self._line(self.round, answers, failures)
        usable, line["rejected"] = sift_sums(answers, self._width)
        line["nodes"] = sorted(m.node for m in usable)
        for node, why in line["rejected"].items() if self.names else ():  # the sums of some are not those of all
            raise InputError(f"node {node!r}: {why}")
        if len(usable) < max(1, self.min_nodes):
            return self._retry(f"sums of {len(usable)} of at least {self.min_nodes} nodes can be used", line)
        self.phase, self.sums, self.round = follow(SERVER, self.phase, "merge"), usable, 1
        self.phase = follow(SERVER, self.phase, "finish")

    @property
    def _width(self) -> int:
        facts = self.agreed[0]
        return math.prod(facts["shape"]) if "shape" in facts else make_common_encoder(*self.agreed).n_out  # type: ignore[union-attr]

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, facts = super().state()
        arrays |= {f"sums/{i}/{k}": a for i, m in enumerate(self.sums) for k, a in m.arrays.items()}
        return arrays, {**facts, "sums": [[m.node, dict(m.facts)] for m in self.sums]}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        super().restore(arrays, facts)
        self.sums = []
        for i, (node, told) in enumerate(facts["sums"]):
            self.sums.append(Message("sums", node, 0, told, under(f"sums/{i}/", arrays)))


class SumsWorker(AgreeingWorker):
    """A node: describes its columns, then sends the sums of its encoded records. It keeps nothing but its phase."""

    def __init__(self, f: ClosedForm, node: Node) -> None:
        super().__init__(clone(f.estimator), node)
        self.min_count, self.leaves = f.min_count, f.leaves

    def work(self, message: Message) -> Message:
        """Answer the server."""
        if message.kind == "describe":
            return self._description(message)
        if message.kind != "sum":
            raise ProtocolError(f"node {self.name!r} knows 'describe' and 'sum'; found {message.kind!r}")
        if self.phase != "started":
            self.phase = follow(NODE, self.phase, "start")
        self.phase = follow(NODE, self.phase, "train")
        encoder = make_common_encoder(message.facts["agreed"], under(SCALING, message.arrays))
        X = encoder.transform(self._records)
        return sums(self.node, coarsened(X, encoder, self.min_count) if self.leaves else X, self.min_count)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {}, {"phase": self.phase}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        self.phase = facts["phase"]


def _solve(f: Any, answers: Sequence[Message], scaling: Any) -> Learned:
    total, means = merged(answers)
    for role in ROLES if isinstance(f, LinearARL) else ROLES[1:]:
        poorest = means[role].fewest_classes()
        if poorest is not None and poorest[1] < 2:
            raise InputError(f"column {poorest[0]!r} has one class at all nodes together; leave it out")
    if isinstance(f, LinearARL):
        if not means["targets"].columns:
            raise InputError("LinearARL needs a target (y) at the nodes: say what must keep working")
        return f.take(*solve_moments(total, means["targets"], means["sensitive"], f.lam))
    return f.finish(scaling, total, means["sensitive"])
