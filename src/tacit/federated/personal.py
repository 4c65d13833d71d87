"""PersonalMinimax: every contributor learns a filter of its own against the others' *filtered* samples.

Implements Algorithm 3 of the minimax filter paper: a common filter, learned from public data, is given to all; in turn
each contributor improves its own by a step or a few of Algorithm 2 on eq. 19, so that its samples cannot be told from
the others' (weighted binary loss, eq. 7) while the target can still be read by one classifier for all. The aggregator
only coordinates. What travels: **filtered samples and target labels** (or statistics of them); never records, never
filters.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError, check_number
from tacit.federated.node import Node
from tacit.federated.personal_asynchronous import in_their_own_time
from tacit.federated.personal_rounds import Aggregator, Contributor
from tacit.federated.protocol import Arrays
from tacit.federated.rounds import agreed_intake
from tacit.federated.simulation import simulate
from tacit.filters.base import Preparation, finish_fit
from tacit.filters.minimax import MinimaxFilter, learned_filter, linear_net
from tacit.records.encoding import TableEncoder
from tacit.records.fingerprints import Memory
from tacit.records.schema import Column

CHOICES = {
    "order": ("sequential", "parallel", "asynchronous"),
    "exchange": ("samples", "statistics"),
    "loss": ("logistic", "squared"),
}


class PersonalMinimax(BaseEstimator):
    """One minimax filter per contributor, learned without sharing records or filters (Algorithm 3).

    Parameters
    ----------
    start : the common initial filter: a linear `MinimaxFilter` without noise, fitted on public data
    rho : weight of the target against the contributors' identity
    rounds : how often every contributor improves its filter (T)
    steps : steps of Algorithm 2 each time (T_s)
    order : "sequential": one contributor after the other, each seeing the others' newest samples; "parallel": all at
        once, each seeing the samples of the round before; "asynchronous": nobody waits, each answers in its own time,
        and sees what was there when it began
    exchange : what travels: "samples" (filtered samples and target labels), or "statistics" of them: number, mean
        and covariance in every class of the target
    loss : "logistic" (the paper's) or "squared". With the squared loss statistics give the very same filters as
        samples; with the logistic loss they are an approximation (see `tacit.federated.samples_of_others`)
    ridge : of the heads
    checkpoint, verbose : as of `tacit.federated.simulate`
    random_state : of the times at which contributors answer, with order="asynchronous"

    Attributes
    ----------
    filters_ : by contributor, its `MinimaxFilter`
    history_ : list of dicts: round, and the mean over contributors of the objective each of them sees
    rounds_ : list of dicts with bytes up and down, and answers that were rejected, with the reason
    bytes_ : {"sent", "samples"}: what went to and fro, and what would have with exchange="samples"

    Examples
    --------
    >>> import tacit
    >>> from tacit.federated import Node, PersonalMinimax
    >>> public = tacit.load_dataset("gaussians", n=300)
    >>> start = tacit.MinimaxFilter(1, max_iter=2, random_state=0)
    >>> start = start.fit(public.X, public.y, sensitive_features=public.sensitive)
    >>> people = tacit.load_dataset("gaussians", n=40, n_nodes=3, random_state=1).split("official")
    >>> f = PersonalMinimax(start, rounds=2).fit([Node(d.X, d.y) for d in people])
    >>> f.transform(people[1].X, "node 2").shape
    (40, 1)
    """

    def __init__(
        self,
        start: MinimaxFilter,
        *,
        rho: float = 1.0,
        rounds: int = 20,
        steps: int = 1,
        order: str = "sequential",
        exchange: str = "samples",
        loss: str = "logistic",
        ridge: float = 1e-6,
        checkpoint: str | None = None,
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.start = start
        self.rho = rho
        self.rounds = rounds
        self.steps = steps
        self.order = order
        self.exchange = exchange
        self.loss = loss
        self.ridge = ridge
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, nodes: Sequence[Node]) -> Self:
        """Learn a filter for every contributor, in this process. Nodes need a target (`y`, one column); who they
        are is the sensitive attribute."""
        if self.order == "asynchronous":
            return in_their_own_time(nodes, self)
        return simulate(nodes, self, checkpoint=self.checkpoint, verbose=self.verbose)

    def transform(self, X: Any, node: Any) -> np.ndarray:
        """Release records by the filter of the contributor they belong to: one name for all, or one per row."""
        check_is_fitted(self, "filters_")
        names = np.asarray(node)
        for name in np.unique(names):
            if name not in self.filters_:
                raise InputError(f"no contributor is called {str(name)!r}; there are {', '.join(self.filters_)}")
        if names.ndim == 0:
            return self.filters_[str(node)].transform(X)
        if len(names) != len(X):
            raise InputError(f"node has {len(names)} names but X has {len(X)} rows; pass one name per row, or one")
        out = np.empty((len(X), self.start.n_components_))
        for name in np.unique(names):
            rows = names == name
            out[rows] = self.filters_[str(name)].transform(X[rows])
        return out

    # -- what an engine calls -------------------------------------------------------------------

    def coordinator(self, names: Sequence[str], min_nodes: int = 2) -> Aggregator:
        """The aggregator: passes filtered samples on."""
        self.check_parameters()
        if len(names) == 1:
            raise InputError("a contributor hides among others; found 1, pass at least 2")
        return Aggregator(self, names, max(2, min_nodes))

    def worker(self, node: Node) -> Contributor:
        """A contributor."""
        self.check_parameters()
        return Contributor(self, node)

    def conclude(self, coordinator: Aggregator, workers: Sequence[Contributor] = ()) -> Self:
        """Take each contributor's filter; in a real federation each stays with its owner."""
        self.filters_ = {w.name: w.filter() for w in workers}
        told = [w.history for w in workers]
        self.history_ = [
            {"round": t, "objective": float(np.mean([h[t] for h in told if len(h) > t]))}
            for t in range(max((len(h) for h in told), default=0))
        ]
        self.rounds_ = copy.deepcopy(coordinator.log)
        sent = sum(line["bytes_up"] + line["bytes_down"] for line in self.rounds_)
        self.bytes_ = {"sent": sent, "samples": sum(line["bytes_samples"] for line in self.rounds_)}
        return self

    def check_settings(self) -> None:
        """Raise where a parameter other than the common filter is not one that can be used."""
        check_number("rho", self.rho, 0)
        check_number("ridge", self.ridge, 0)
        for name in ("rounds", "steps"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be {' or '.join(map(repr, allowed))}; found {getattr(self, name)!r}")

    def check_parameters(self) -> None:
        """Raise where a parameter, or the common filter, is not one that can be used."""
        self.check_settings()
        if not isinstance(self.start, MinimaxFilter) or self.start.network != "linear" or self.start.noise or (
            self.start.adversary == "exact"
        ):  # fmt: skip
            raise InputError("start must be a linear MinimaxFilter without noise, fitted on public data")
        check_is_fitted(self.start)


# -- the common filter as plain facts and arrays, so that it can be given to every node ------------------


def tell_start(f: MinimaxFilter) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A linear filter of tables: its columns with their scaling, and its matrix. All of it is of public data.

    Examples
    --------
    >>> import pandas as pd, tacit
    >>> data = tacit.load_dataset("gaussians", n=300)
    >>> X = pd.DataFrame(data.X, columns=["a", "b"])
    >>> f = tacit.MinimaxFilter(1, max_iter=2, random_state=0).fit(X, data.y, sensitive_features=data.sensitive)
    >>> bool((start_of(*tell_start(f)).transform(X) == f.transform(X)).all())
    True
    """
    if not isinstance(f.mechanism_.schema.encoder, TableEncoder):
        raise InputError("the common filter must be one of tables; fit it on a table of named columns")
    columns = [c.to_dict(scaling=True) for c in f.mechanism_.schema.encoder.columns]
    (weight,) = f.encoder_module_.parameters()
    facts = {"columns": columns, "named": hasattr(f, "feature_names_in_")}
    return facts, {"weight": weight.detach().numpy().copy()}


def start_of(facts: Mapping[str, Any], arrays: Arrays) -> MinimaxFilter:
    """The filter that `tell_start` told of."""
    encoder = TableEncoder()
    encoder.columns = tuple(Column.from_dict(c) for c in facts["columns"])
    weight = arrays["weight"]
    if weight.ndim != 2 or weight.shape[1] != encoder.n_out or not np.isfinite(weight).all():
        raise InputError(f"the common filter has a matrix of shape {weight.shape} for {encoder.n_out} encoded columns")
    if len(weight) >= encoder.n_out:
        raise InputError(
            f"the common filter makes {len(weight)} numbers of {encoder.n_out}, which can be undone; it needs fewer"
        )
    f = MinimaxFilter(len(weight))
    f.encoder_module_ = linear_net(weight.T).eval()
    f.n_components_, f.local_dp_, f.history_, f.notes_ = len(weight), None, [], []
    known = Preparation(agreed_intake(f, facts, encoder), Memory(np.empty(0, dtype=np.uint64)))
    finish_fit(f, None, learned_filter(f, f.encoder_module_), known)
    return f
