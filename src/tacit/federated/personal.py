"""PersonalMinimax: every contributor learns a filter of its own against the others' *filtered* samples.

Implements Algorithm 3 of the minimax filter paper: a common filter, learned from public data, is given to all; in turn
each contributor improves its own by a step or a few of Algorithm 2 on eq. 19, so that its samples cannot be told from
the others' (weighted binary loss, eq. 7) while the target can still be read by one classifier for all. The aggregator
only coordinates. What travels: **filtered samples and target labels** (or statistics of them); never records, never
filters.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tacit.errors import InputError, check_number
from tacit.federated.common_schema import agreed_intake
from tacit.federated.node import Node, naming
from tacit.federated.protocol import Arrays, Kept, Message, ProtocolError, check_arrays, check_head
from tacit.federated.rounds import Rounds, simulate
from tacit.filters.base import Filter, finish_fit
from tacit.filters.mechanism import Mechanism, NetworkOutput
from tacit.filters.minimax import MinimaxFilter, learned_filter, linear_net
from tacit.labels import MISSING, Labels, encode_labels
from tacit.records.encoding import TableEncoder
from tacit.records.fingerprints import Memory
from tacit.records.schema import Column
from tacit.solvers.heads import SoftmaxHeads, Weighted
from tacit.solvers.kiwiel import LinearCode, kiwiel

CHOICES = {
    "order": ("sequential", "parallel"),
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
        once, each seeing the samples of the round before
    exchange : what travels: "samples" (filtered samples and target labels), or "statistics" of them: number, mean
        and covariance in every class of the target
    loss : "logistic" (the paper's) or "squared". With the squared loss statistics give the very same filters as
        samples; with the logistic loss they are an approximation (see `tacit.federated.personal`)
    ridge : of the heads
    checkpoint, verbose : as of `tacit.federated.simulate`

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

    def fit(self, nodes: Sequence[Node]) -> Self:
        """Learn a filter for every contributor, in this process. Nodes need a target (`y`, one column); who they
        are is the sensitive attribute."""
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
    known: dict[str, Any] = {"memory": Memory(np.empty(0, dtype=np.uint64))}
    known["schema"] = agreed_intake(f, facts, encoder)
    finish_fit(f, None, replace(learned_filter(f, f.encoder_module_), **known))
    return f


LARGEST = 1e12  # inputs are scaled, so that filtered samples (and sums of their squares) come nowhere near


class Aggregator(Rounds):
    """Main routine of Algorithm 3: collects filtered samples and labels, and hands them to the contributors.

    A contributor that cannot be reached loses its turn; the others see the samples it sent last.
    """

    kept = (*Rounds.kept, "held", "turn", "classes", "improved", "knows")

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 2) -> None:
        super().__init__(f, names, min_nodes)
        self.n_rounds, self.turn = f.rounds, 0
        self.held: dict[str, dict[str, np.ndarray]] = {}  # by contributor: samples or statistics, and labels
        self.classes: list[Any] = []
        self.improved = 0  # filters, in this round
        self.knows: dict[str, list[int]] = {}  # by contributor: of whom it has the labels, which do not change

    @property
    def _asked(self) -> list[str]:
        members = list(self.members)
        return [members[self.turn]] if self.f.order == "sequential" else members

    @property
    def _awaited(self) -> list[str]:
        """Contributors without whose answer the turn is lost to them."""
        return self._asked

    def _first(self, node: str) -> Message:
        return Message("begin", node, -1)

    def _open(self, nodes: Sequence[str]) -> list[Message]:
        """The others' samples, under numbers instead of their names."""
        out = []
        for node in nodes:
            arrays: dict[str, np.ndarray] = {}
            for i, name in enumerate(self.members):
                known = i in self.knows.get(node, [])
                held = {} if name == node else self.held[name]
                arrays |= {f"{i}/{k}": v for k, v in held.items() if k != "labels" or not known}
            out.append(Message("improve", node, self.round, {"classes": self.classes}, arrays))
        return out

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        usable = self._sift(answers, self._check_first, line)
        line["bytes_samples"] = self._as_samples(answers)
        if why := self._too_few(usable):
            return why
        self.classes = sorted({c for m in usable for c in m.facts["classes"]}, key=str)
        for message in sorted(usable, key=lambda m: self.names.index(m.node) if self.names else m.node):
            self._take(message)
        return None

    def _merge(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        sent = {m.node for m in self._sent}
        line["bytes_samples"] = self._as_samples(answers)
        line["failed"] |= {n: "cannot be reached" for n in self._awaited if n not in sent}
        improved = self._sift(answers, self._check, line)
        for message in improved:
            self.held[message.node] |= dict(message.arrays)
            self.knows[message.node] = list(range(len(self.members)))
        self.improved += len(improved)
        for node in {*line["rejected"], *line["failed"]}:  # it may have lost what it was told
            self.knows.pop(node, None)
        return self._end_turn(improved)

    def _end_turn(self, improved: Sequence[Message]) -> str | None:
        """Count the turn; the reason where it has to be repeated."""
        self.turn = 0 if self.f.order == "parallel" else (self.turn + 1) % len(self.members)
        if self.turn == 0 and not self.improved:
            return "nobody improved its filter"
        if self.turn == 0:
            self.round, self.improved = self.round + 1, 0
        return None

    def _take(self, message: Message) -> None:
        """A contributor's first samples, in the order of all classes."""
        place = np.array([self.classes.index(c) for c in message.facts["classes"]], dtype=np.int64)
        held = dict(message.arrays)
        if "labels" in held:
            held["labels"] = np.where(held["labels"] == MISSING, MISSING, place[held["labels"]])
        else:
            for name, array in message.arrays.items():
                held[name] = np.zeros((len(self.classes), *array.shape[1:]), dtype=array.dtype)
                held[name][place] = array
        self.held[message.node], self.members[message.node] = held, _number(held)

    # -- what cannot be used --------------------------------------------------------------------

    def _check_first(self, message: Message) -> None:
        """Raise unless a contributor's first samples can be used."""
        check_head(message, "filtered", -1, records=False)
        classes, arrays = message.facts["classes"], message.arrays
        if not isinstance(classes, list) or not all(isinstance(c, str | int | float | bool) for c in classes):
            raise ProtocolError("sent classes of the target that cannot be read")
        m, width, n = len(classes), self.f.start.n_components_, _number(arrays)
        shapes: dict[str, tuple[int, ...]] = {"samples": (n, width), "labels": (n,)}
        if self.f.exchange == "statistics":
            shapes = {"counts": (m,), "means": (m, width), "scatter": (m, width * (width + 1) // 2)}
        check_arrays(arrays, shapes, LARGEST)
        if (arrays.get("counts", np.zeros(1)) < 0).any():
            raise ProtocolError("'counts' holds negative numbers")
        if n and "labels" in shapes:
            labels = arrays["labels"]
            if labels.dtype.kind not in "iu" or labels.min() < MISSING or labels.max() >= m:
                raise ProtocolError(f"sent labels outside its {m} classes")
            n = int((labels != MISSING).sum())
        if n <= 0 or m == 0:
            raise ProtocolError("has no record with a target")

    def _check(self, message: Message) -> None:
        """Raise unless improved samples can be used."""
        if message.kind != "improved" or not self._in_time(message) or message.node not in self._asked:
            raise ProtocolError(f"answered {message.kind!r} of round {message.round}, which it was not asked")
        before = {k: v for k, v in self.held[message.node].items() if k != "labels"}
        check_arrays(message.arrays, {k: v.shape for k, v in before.items()}, LARGEST)
        if "counts" in before and not np.array_equal(message.arrays["counts"], before["counts"]):
            raise ProtocolError("sent other counts than at the start")

    def _in_time(self, message: Message) -> bool:
        return message.round == self.round

    def _as_samples(self, answers: Sequence[Message]) -> int:
        """Bytes of the same messages with samples instead of statistics (which say how many there are)."""
        messages = [*self._sent, *answers]
        if self.f.exchange == "samples":
            return sum(m.nbytes for m in messages)
        per_row = 8 * self.f.start.n_components_
        return sum(
            _number({"counts": a}) * (per_row + (8 if m.round <= 0 else 0))
            for m in messages
            for k, a in m.arrays.items()
            if k.endswith("counts")
        )


def _number(arrays: Arrays) -> int:
    """How many samples these are, or are of."""
    if "counts" in arrays:  # which may still be anything: a usable sum is below 2**53
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(arrays["counts"].sum(dtype=np.float64))
        return int(total) if abs(total) < 2**53 else 0
    return len(arrays["samples"]) if arrays.get("samples", np.zeros(())).ndim else 0


class Contributor(Kept):
    """Contributor's routine of Algorithm 3: improves its own filter, sends its filtered samples."""

    kept = ("u", "step", "history", "labels")

    def __init__(self, f: Any, node: Node) -> None:
        self.f, self.node, self.name = f, node, str(node.name)
        with naming(f"contributor {self.name!r}"):
            self.X = np.ascontiguousarray(f.start.mechanism_.schema.encode(node.X).reshape(len(node), -1))
            labels = encode_labels(node.y, "y", len(node), min_classes=1)
            if len(labels) != 1:
                raise InputError(f"y must be one target; found {len(labels)} columns")
        self.mine = [c.item() if isinstance(c, np.generic) else c for c in labels.classes[0]]
        self.codes = labels.codes[:, 0]
        self.known = self.codes != MISSING
        (weight,) = f.start.encoder_module_.parameters()
        self.u = self._begun = weight.detach().numpy().flatten()
        self.step, self.history = 1.0, list[float]()
        self.labels: dict[str, np.ndarray] = {}  # of the others, handed out once

    def digest(self) -> str:
        """Of this contributor's data and the common filter, to know a checkpoint of others."""
        return hashlib.sha256(self.X.tobytes() + self.codes.tobytes() + self._begun.tobytes()).hexdigest()

    def own_filter(self) -> Filter | None:
        """The filter that stays here; None while it is still the common one."""
        return self.filter() if self.history else None

    def filter(self) -> MinimaxFilter:
        """This contributor's own filter; it knows the contributor's rows, and the public ones, again."""
        common = self.f.start.mechanism_
        own = PersonalFilter(**self.f.start.get_params(deep=False))
        own.__dict__.update({k: v for k, v in vars(self.f.start).items() if k.endswith("_") and k != "mechanism_"})
        own.encoder_module_ = linear_net(self.u.reshape(own.n_components_, -1).T.copy()).eval()
        memory = common.memory or Memory(np.empty(0, dtype=np.uint64))
        memory = memory.joined(common.schema.check(self.node.X), None)
        code = LinearProduct(own.encoder_module_)
        finish_fit(own, None, Mechanism(code, own.n_components_, schema=common.schema, memory=memory))
        return own

    def work(self, message: Message) -> Message:
        """Answer the aggregator."""
        if message.kind == "begin":
            return self._answer("filtered", message.round, self.codes, self.mine)
        if message.kind != "improve":
            raise ProtocolError(f"contributor {self.name!r} knows 'begin' and 'improve'; found {message.kind!r}")
        self.labels |= {k: v for k, v in message.arrays.items() if k.endswith("/labels")}
        classes = list(message.facts["classes"])
        codes = np.array([classes.index(c) for c in self.mine], dtype=np.int64)[self.codes]
        self._improve(self._others(message.arrays), codes[self.known], len(classes))
        return self._answer("improved", message.round, codes, classes)

    def _answer(self, kind: str, round_: int, codes: np.ndarray, classes: list[Any]) -> Message:
        first = kind == "filtered"
        z = LinearCode(torch.from_numpy(self.X), self.f.start.n_components_)(torch.from_numpy(self.u)).numpy()
        arrays = {"samples": z} | ({"labels": codes} if first else {})
        if self.f.exchange == "statistics":
            arrays = statistics_of(z[self.known], codes[self.known], len(classes))
        return Message(kind, self.name, round_, {"classes": classes} if first else {}, arrays)

    def _improve(self, others: list[dict[str, np.ndarray]], own: np.ndarray, n_classes: int) -> None:
        """A few steps of Algorithm 2 on eq. 19."""
        adversary, ally = self._heads(own, others, n_classes)
        result = kiwiel(
            Weighted(adversary, -1.0),
            torch.from_numpy(self.u),
            adversary.start(),
            code=LinearCode(torch.from_numpy(self.X[self.known]), self.f.start.n_components_),
            ally=Weighted(ally, self.f.rho),
            w=ally.start(),
            max_iter=self.f.steps,
            tolerance=1e-9,
            step=self.step,
            inner_tolerance=1e-7,
            inner_max_iter=50,
        )
        self.u, self.step = result.u.numpy(), max(result.step, 1e-6)
        self.history.append(result.phi)

    def _others(self, told: Arrays) -> list[dict[str, np.ndarray]]:
        """By contributor, in the order of their places: samples and labels, or statistics."""
        parts: dict[int, dict[str, np.ndarray]] = {}
        for key, value in {**told, **self.labels}.items():
            place, name = key.split("/", 1)
            parts.setdefault(int(place), {})[name] = value
        if any("samples" in part and "labels" not in part for part in parts.values()):
            raise ProtocolError(
                f"contributor {self.name!r} does not know the others' labels any more: its state is lost; it gets "
                f"them with the next message"
            )
        return [parts[place] for place in sorted(parts) if set(parts[place]) != {"labels"}]

    def _heads(self, own: np.ndarray, parts: Sequence[Mapping[str, np.ndarray]], m: int) -> tuple[Any, Any]:
        """The adversary (own against the rest, each side weighing a half) and the ally (the target, over all)."""
        n, ridge = len(own), self.f.ridge
        mine = np.ones(n, dtype=int), np.full(n, 1 / n)
        samples = [_with_target(p) for p in parts]
        if self.f.loss == "squared":
            told = [p if z is None else statistics_of(*z, m) for p, z in zip(parts, samples, strict=True)]
            gram, cross = (np.sum(sums, axis=0) for sums in zip(*map(sums_of, told), strict=True))
            rest = float(gram[-1, -1])
            others = np.column_stack([gram[:, -1] / rest, np.zeros(len(gram))])
            return LeastSquares(*mine, gram / rest, others, ridge), LeastSquares(own, np.ones(n), gram, cross, ridge)
        made = [made_samples(p) if z is None else (*z, np.ones(len(z[0]))) for p, z in zip(parts, samples, strict=True)]
        rows, codes, weights = (np.concatenate(x) for x in zip(*made, strict=True))
        side = np.zeros(len(rows), dtype=int), weights / weights.sum()
        adversary = weighted_softmax(*mine, rows, *side, 2, ridge)
        return adversary, weighted_softmax(own, np.ones(n), rows, codes, weights, m, ridge)


def _with_target(part: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Samples that have a target, and their targets; None of statistics."""
    if "samples" not in part:
        return None
    known = part["labels"] != MISSING
    return part["samples"][known], part["labels"][known]


class PersonalFilter(MinimaxFilter):
    """One contributor's filter: its samples cannot be told from the others' by a linear reader."""


class LinearProduct(NetworkOutput):
    """A linear network, written as one product: a node writes it after every step; torch's exporter takes seconds."""

    def graph(self, g: Any, x: str) -> str:
        (weight,) = self.net.parameters()
        matrix = weight.detach().numpy().T
        return g.linear(g.flat(x), g.constant("encoder.weight", matrix), matrix.shape[1])


def weighted_softmax(
    own: np.ndarray,
    own_weight: np.ndarray,
    fixed: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    n_classes: int,
    ridge: float,
) -> SoftmaxHeads:
    """Softmax regression over own rows (their classes and weights) and the others' rows, which stand still."""
    others, weights = torch.from_numpy(fixed), np.concatenate([own_weight, weight])
    known = Labels(("class",), (np.arange(n_classes),), np.concatenate([own, labels])[:, None])
    return SoftmaxHeads(
        known,
        fixed.shape[1],
        ridge=ridge,
        features=lambda z: torch.cat([z, others]),
        weight=weights * (len(weights) / weights.sum()),
    )


class LeastSquares:
    """The best linear regression of one-hot labels on own rows and on others of whom only sums are known.

    Its parameters are solved for, so it has none. `gram` is the weighted sum of [z; 1][z; 1]' over the others,
    `cross` that of [z; 1] y'.
    """

    def __init__(self, own: np.ndarray, own_weight: np.ndarray, gram: np.ndarray, cross: np.ndarray, ridge: float):
        total = float(own_weight.sum() + gram[-1, -1])
        labels = np.eye(cross.shape[1])[own]
        self.labels, self.weight = torch.from_numpy(labels), torch.from_numpy(own_weight[:, None] / total)
        self.gram, self.cross = torch.from_numpy(gram / total), torch.from_numpy(cross / total)
        self.ridge = ridge
        self.square = 1.0  # one-hot labels, weights that sum to 1

    def start(self) -> Tensor:
        return torch.zeros(0, dtype=torch.float64)

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        z = torch.cat([z, torch.ones_like(z[:, :1])], dim=1)
        gram = self.gram + z.T @ (self.weight * z)
        gram = gram + self.ridge * torch.eye(len(gram), dtype=z.dtype)
        cross = self.cross + z.T @ (self.weight * self.labels)
        return self.square - (cross * torch.linalg.solve(gram, cross)).sum()


# -- statistics instead of samples ----------------------------------------------------------------


def statistics_of(z: np.ndarray, codes: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    """By class of the target: number, mean and scatter about the mean (upper triangle): all that travels."""
    d = z.shape[1]
    counts, means = np.zeros(n_classes, dtype=np.int64), np.zeros((n_classes, d))
    scatter, upper = np.zeros((n_classes, d * (d + 1) // 2)), np.triu_indices(d)
    for c in np.unique(codes):
        rows = z[codes == c]
        counts[c], means[c] = len(rows), rows.mean(axis=0)
        away = rows - means[c]
        scatter[c] = (away.T @ away)[upper]
    return {"counts": counts, "means": means, "scatter": scatter}


def sums_of(statistics: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The sums of [z; 1][z; 1]' and of [z; 1] y' over the samples that the statistics are of, exactly.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.normal(size=(50, 3)), rng.integers(2, size=50)
    >>> rows = np.column_stack([z, np.ones(50)])
    >>> gram, cross = sums_of(statistics_of(z, y, 2))
    >>> bool(np.allclose(gram, rows.T @ rows) and np.allclose(cross, rows.T @ np.eye(2)[y]))
    True
    """
    d = statistics["means"].shape[1]
    rows = np.column_stack([statistics["means"], np.ones(len(statistics["means"]))])
    cross = (rows * statistics["counts"][:, None]).T
    gram = cross @ rows
    gram[:d, :d] += _square(statistics["scatter"].sum(axis=0), d)
    return gram, cross


def made_samples(statistics: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes and weights with the same class means and covariances as the samples."""
    d = statistics["means"].shape[1]
    rows, codes, weights = [], [], []
    for c, n in enumerate(statistics["counts"]):
        if n == 0:
            continue
        values, vectors = np.linalg.eigh(_square(statistics["scatter"][c], d) / n)
        kept = values > 1e-12 * max(float(values[-1]), 1e-300)
        spread = (vectors[:, kept] * np.sqrt(values[kept] * kept.sum())).T
        made = statistics["means"][c] + np.concatenate([spread, -spread, np.zeros((0 if kept.any() else 1, d))])
        rows.append(made)
        codes.append(np.full(len(made), c))
        weights.append(np.full(len(made), n / len(made)))
    return np.concatenate(rows), np.concatenate(codes), np.concatenate(weights)


def _square(upper: np.ndarray, d: int) -> np.ndarray:
    full = np.zeros((d, d))
    full[np.triu_indices(d)] = upper
    return full + np.triu(full, 1).T
