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
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacit.errors import InputError, TacitError, check_number
from tacit.federated.node import Node
from tacit.federated.others import LeastSquares, WeightedSoftmax, made_samples, statistics_of, sums_of
from tacit.federated.protocol import SERVER, Arrays, Message, ProtocolError, follow, traffic
from tacit.federated.simulation import simulate
from tacit.filters.minimax import MinimaxFilter, linear_net
from tacit.games.heads import Weighted
from tacit.games.inner import LinearCode
from tacit.games.kiwiel import kiwiel
from tacit.labels import MISSING, encode_labels
from tacit.tables import fingerprints

CHOICES = {"order": ("sequential", "parallel"), "exchange": ("samples", "statistics"), "loss": ("logistic", "squared")}


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
        samples; with the logistic loss they are an approximation (see `tacit.federated.others`)
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
    >>> people = tacit.load_dataset("gaussians", n=40, n_nodes=3, seed=1).split("official")
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
        are is the secret."""
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

    def coordinator(self, names: Sequence[str]) -> Aggregator:
        """The aggregator: passes filtered samples on."""
        self._check_parameters()
        if len(names) < 2:
            raise InputError(f"a contributor hides among others; found {len(names)}, pass at least 2")
        return Aggregator(self, names)

    def worker(self, node: Node) -> Contributor:
        """A contributor."""
        self._check_parameters()
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

    def _check_parameters(self) -> None:
        check_number("rho", self.rho, 0)
        check_number("ridge", self.ridge, 0)
        for name in ("rounds", "steps"):
            check_number(name, getattr(self, name), 1, whole=True)
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be {' or '.join(map(repr, allowed))}; found {getattr(self, name)!r}")
        if not isinstance(self.start, MinimaxFilter) or self.start.network != "linear" or self.start.noise or (
            self.start.adversary == "exact"
        ):  # fmt: skip
            raise InputError("start must be a linear MinimaxFilter without noise, fitted on public data")
        check_is_fitted(self.start)


class PersonalFilter(MinimaxFilter):
    """One contributor's filter: its samples cannot be told from the others' by a linear reader."""

    def _release_out_of_fold(self) -> np.ndarray:
        raise InputError(
            "a personal filter was fitted against the others' samples, which are not here; release rows that took no "
            "part in its training"
        )


class Aggregator:
    """Main routine of Algorithm 3: collects filtered samples and labels, and hands them to the contributors."""

    def __init__(self, f: PersonalMinimax, names: Sequence[str]) -> None:
        self.f, self.names = f, list(names)
        self.phase, self.round, self.turn = "recruiting", 0, 0
        self.held: dict[str, dict[str, np.ndarray]] = {}  # by contributor: samples or statistics, and labels
        self.classes: list[Any] = []
        self.log: list[dict[str, Any]] = []
        self._sent: list[Message] = []

    @property
    def finished(self) -> bool:
        return self.phase == "finished"

    @property
    def n_rounds(self) -> int:
        return self.f.rounds

    def requests(self, available: Sequence[str] | None = None) -> list[Message]:
        if self.phase == "recruiting":
            self.phase = follow(SERVER, self.phase, "describe")
            self._sent = [Message("begin", n) for n in self.names]
            return self._sent
        self.phase = follow(SERVER, self.phase, "open")
        asked = self.names if self.f.order == "parallel" else [self.names[self.turn]]
        self._sent = [self._improve(n) for n in asked]
        return self._sent

    def _improve(self, node: str) -> Message:
        arrays: dict[str, np.ndarray] = {}
        for i, name in enumerate(n for n in self.names if n != node):
            # labels do not change: they are handed out once
            some = {k: v for k, v in self.held[name].items() if k != "labels" or self.round == 0}
            arrays |= {f"{i}/{k}": v for k, v in some.items()}
        return Message("improve", node, self.round, {"classes": self.classes}, arrays)

    def receive(self, answers: Sequence[Message], failures: Mapping[str, str] | None = None) -> None:
        line: dict[str, Any] = {"round": self.round, "nodes": [], "rejected": {}, "failed": dict(failures or {})}
        line |= traffic(self._sent, answers)
        if self.phase == "agreeing":
            self._begin(answers, line)
        else:
            for message in answers:
                fault = self._fault(message)
                if fault is None:
                    self.held[message.node] |= dict(message.arrays)
                    line["nodes"].append(message.node)
                else:
                    line["rejected"][message.node] = fault
            self.phase = follow(SERVER, self.phase, "merge")
            self.turn = 0 if self.f.order == "parallel" else (self.turn + 1) % len(self.names)
            self.round += self.turn == 0
            if self.round >= self.f.rounds:
                self.phase = follow(SERVER, self.phase, "finish")
        line["bytes_samples"] = sum(self._as_samples(m) for m in [*self._sent, *answers])
        self.log.append(line)

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> None:
        line["round"] = -1
        self.classes = sorted({c for m in answers for c in m.facts["classes"]}, key=str)
        for message in answers:
            fault = _unusable(message.arrays, self.f.start.n_components_)
            if fault is not None:
                raise ProtocolError(f"contributor {message.node!r} {fault}; repair it, or leave it out")
            held = dict(message.arrays)
            place = np.array([self.classes.index(c) for c in message.facts["classes"]], dtype=np.int64)
            if "labels" in held:
                held["labels"] = np.where(held["labels"] == MISSING, MISSING, place[held["labels"]])
            else:
                held = {k: _placed(v, place, len(self.classes)) for k, v in held.items()}
            self.held[message.node] = held
            line["nodes"].append(message.node)
        self.phase = follow(SERVER, self.phase, "agree")

    def _fault(self, message: Message) -> str | None:
        if message.kind != "improved" or message.round != self.round:
            return f"answered {message.kind!r} of round {message.round}, expected 'improved' of round {self.round}"
        before = self.held[message.node]
        for name, array in message.arrays.items():
            if name not in before or array.shape != before[name].shape:
                return f"{name!r} has shape {array.shape}, expected {before[name].shape if name in before else None}"
        return _unusable(message.arrays, self.f.start.n_components_)

    def _as_samples(self, message: Message) -> int:
        """Bytes of the same message with samples instead of statistics (which say how many there are)."""
        if self.f.exchange == "samples":
            return message.nbytes
        counts = [a for k, a in message.arrays.items() if k.endswith("counts")]
        per_row = 8 * self.f.start.n_components_ + (8 if message.round <= 0 else 0)
        return sum(int(c.sum()) for c in counts) * per_row

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {f"{self.names.index(n)}/{k}": v for n, held in self.held.items() for k, v in held.items()}
        facts = {"phase": self.phase, "round": self.round, "turn": self.turn, "classes": self.classes}
        return arrays, {**facts, "log": self.log}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        for key, value in arrays.items():
            at, name = key.split("/", 1)
            self.held.setdefault(self.names[int(at)], {})[name] = value
        self.phase, self.round, self.turn = facts["phase"], facts["round"], facts["turn"]
        self.classes, self.log = list(facts["classes"]), list(facts["log"])


class Contributor:
    """Contributor's routine of Algorithm 3: improves its own filter, sends its filtered samples."""

    def __init__(self, f: PersonalMinimax, node: Node) -> None:
        self.f, self.node, self.name = f, node, str(node.name)
        try:
            self.X = np.ascontiguousarray(f.start._encode(node.X).reshape(len(node), -1))
            labels = encode_labels(node.y, "y", len(node), min_classes=1)
            if len(labels) != 1:
                raise InputError(f"y must be one target; found {len(labels)} columns")
        except TacitError as error:
            raise type(error)(f"contributor {self.name!r}: {error}") from None
        self.mine = [c.item() if isinstance(c, np.generic) else c for c in labels.classes[0]]
        self.codes = labels.codes[:, 0]
        self.u = torch.cat([p.detach().reshape(-1) for p in f.start.encoder_module_.parameters()])
        self.step, self.history = 1.0, list[float]()
        self.labels: dict[str, np.ndarray] = {}  # of the others, handed out once

    def digest(self) -> str:
        return hashlib.sha256(self.X.tobytes() + self.codes.tobytes()).hexdigest()

    def filter(self) -> MinimaxFilter:
        """This contributor's own filter; it knows the contributor's rows, and the public ones, again."""
        own = PersonalFilter(**self.f.start.get_params(deep=False))
        own.__dict__.update(self.f.start.__dict__)
        mine = fingerprints(own._check_records(self.node.X, reset=False))
        own._fingerprints = np.union1d(own._fingerprints, mine)
        G = self.u.view(own.n_components_, -1).numpy().T.copy()
        own.encoder_module_ = linear_net(G).eval()
        return own

    def work(self, message: Message) -> Message:
        if message.kind == "begin":
            return self._answer("filtered", -1, {"classes": self.mine})
        if message.kind != "improve":
            raise ProtocolError(f"contributor {self.name!r} knows 'begin' and 'improve'; found {message.kind!r}")
        self.labels |= {k: v for k, v in message.arrays.items() if k.endswith("/labels")}
        self._improve({**message.arrays, **self.labels}, list(message.facts["classes"]))
        return self._answer("improved", message.round, {})

    def _answer(self, kind: str, round_: int, facts: dict[str, Any]) -> Message:
        z = self._code(self.u).numpy()
        if self.f.exchange == "samples":
            arrays = {"samples": z} | ({"labels": self.codes} if kind == "filtered" else {})
            return Message(kind, self.name, round_, facts, arrays)
        known = self.codes != MISSING
        n_classes = len(self.mine) if kind == "filtered" else len(self._classes)
        codes = self.codes if kind == "filtered" else self._place[self.codes]
        return Message(kind, self.name, round_, facts, statistics_of(z[known], codes[known], n_classes))

    def _improve(self, told: Arrays, classes: list[Any]) -> None:
        """A few steps of Algorithm 2 on eq. 19."""
        self._classes = classes
        self._place = np.array([classes.index(c) for c in self.mine], dtype=np.int64)
        known = self.codes != MISSING
        own = self._place[self.codes[known]]
        self._known = torch.from_numpy(np.flatnonzero(known))
        parts = [{k.split("/", 1)[1]: v for k, v in told.items() if k.startswith(f"{i}/")} for i in range(_count(told))]
        adversary, ally = self._heads(own, parts, len(classes))
        code = LinearCode(torch.from_numpy(self.X[known]), self.f.start.n_components_)
        result = kiwiel(
            Weighted(adversary, -1.0),
            self.u,
            adversary.start(),
            code=code,
            ally=Weighted(ally, self.f.rho),
            w=ally.start(),
            max_iter=self.f.steps,
            tolerance=1e-9,
            step=self.step,
            inner_tolerance=1e-7,
            inner_max_iter=50,
        )
        self.u, self.step = result.u, max(result.step, 1e-6)
        self.history.append(result.phi)

    def _heads(self, own: np.ndarray, parts: Sequence[Mapping[str, np.ndarray]], m: int) -> tuple[Any, Any]:
        """The adversary (own against the rest, each side weighing a half) and the ally (the target, over all)."""
        n, ridge = len(own), self.f.ridge
        if self.f.loss == "squared":
            sums = [self._sums(p, m) for p in parts]
            gram, cross = np.sum([s[0] for s in sums], axis=0), np.sum([s[1] for s in sums], axis=0)
            rest = float(gram[-1, -1])
            others = np.zeros((len(gram), 2))
            others[:, 0] = gram[:, -1] / rest
            adversary: Any = LeastSquares(np.ones(n, dtype=int), np.full(n, 1 / n), gram / rest, others, ridge)
            return adversary, LeastSquares(own, np.ones(n), gram, cross, ridge)
        rows, codes, weights = (np.concatenate(x) for x in zip(*[self._rows(p) for p in parts], strict=True))
        side = np.zeros(len(rows), dtype=int), weights / weights.sum()
        adversary = WeightedSoftmax(np.ones(n, dtype=int), np.full(n, 1 / n), rows, *side, 2, ridge)
        return adversary, WeightedSoftmax(own, np.ones(n), rows, codes, weights, m, ridge)

    def _sums(self, part: Mapping[str, np.ndarray], m: int) -> tuple[np.ndarray, np.ndarray]:
        if "samples" not in part:
            return sums_of(part)
        known = part["labels"] != MISSING
        return sums_of(statistics_of(part["samples"][known], part["labels"][known], m))

    def _rows(self, part: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if "samples" not in part:
            return made_samples(part)
        known = part["labels"] != MISSING
        return part["samples"][known], part["labels"][known], np.ones(int(known.sum()))

    def _code(self, u: torch.Tensor) -> torch.Tensor:
        return LinearCode(torch.from_numpy(self.X), self.f.start.n_components_)(u)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"u": self.u.numpy()} | {f"labels {k}": v for k, v in self.labels.items()}
        return arrays, {"step": self.step, "history": self.history}

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        self.u = torch.from_numpy(arrays["u"])
        self.labels = {k.removeprefix("labels "): v for k, v in arrays.items() if k.startswith("labels ")}
        self.step, self.history = facts["step"], list(facts["history"])


def _count(told: Arrays) -> int:
    return len({k.split("/", 1)[0] for k in told})


def _placed(array: np.ndarray, place: np.ndarray, n_classes: int) -> np.ndarray:
    """Statistics by a contributor's own classes, in the order of all classes."""
    out = np.zeros((n_classes, *array.shape[1:]), dtype=array.dtype)
    out[place] = array
    return out


def _unusable(arrays: Arrays, width: int) -> str | None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            return f"sent {name!r} with NaN or infinity"
        if name in ("samples", "means") and (array.ndim != 2 or array.shape[1] != width or not len(array)):
            return f"sent {name!r} of shape {array.shape}; expected rows of {width} numbers"
    return None
