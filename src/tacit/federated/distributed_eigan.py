"""D-EIGAN: one encoder for all nodes, learned where the records are (Algorithm 1 of the EIGAN paper).

Every node plays EIGAN's game with its own heads on its own records; after every delta epochs (or steps) a random share
phi of the encoder goes up, is averaged by numbers of records, and a random share of the average comes down. Nodes may
have different targets and sensitive attributes: the common encoder then serves their union, each weighted by the share
of nodes that have it (Proposition 4). Only the encoder and the scaling statistics travel.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import nn

from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.federated.common_schema import (
    SCALING,
    AgreeingCoordinator,
    AgreeingWorker,
    Descriptions,
    agreed_preparation,
    make_common_encoder,
)
from tacit.federated.masked_sums import Addend, SumCoordinator, SumWorker
from tacit.federated.node import TOLD, Grants, Node, crowd_of, naming, spent_at_nodes
from tacit.federated.protocol import (
    AGGREGATIONS,
    ALL,
    INDICES,
    VALUES,
    Arrays,
    Message,
    ProtocolError,
    State,
    aggregate,
    check_head,
    check_parameters,
    choose_indices,
    joined,
    pack,
    parted,
    under,
    unpack,
)
from tacit.federated.rounds import simulate
from tacit.filters.base import Problem, check_units, finish_fit
from tacit.filters.eigan import EIGAN, Game, PrivateGame, learned_encoder, networks, new_game, warn_if_collapsed
from tacit.filters.notes import note, note_copies, note_dependence
from tacit.filters.public_intake import tell_spent
from tacit.labels import Labels, encode_labels
from tacit.noise.accounting import spent_by_all
from tacit.training.device import choose_batch_size
from tacit.training.loop import epoch_seed, load_tensors, tensors_of
from tacit.training.stack import Stack

MEDIAN_NODES = 3  # among fewer no node can be outvoted
UP, DOWN = 21, 22  # the streams of random numbers of uplinks and downlinks, apart from those of the games


class EiganCoordinator(AgreeingCoordinator):
    """The server of D-EIGAN: agrees on columns and scaling, then opens rounds and merges what comes back."""

    kept = (*AgreeingCoordinator.kept, "current", "seed", "in_step", "spent")

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(f, names, min_nodes)
        self.seed = int(check_random_state(f.random_state).randint(2**31 - 1))
        self.min_nodes = max(self.min_nodes, 1 if f.robust is None else MEDIAN_NODES)
        self.in_step: list[str] = []  # nodes that hold what the last round left
        self.current: dict[str, np.ndarray] = {}
        self.spent: dict[str, Any] = {}  # by node, what a private fit cost its people

    @property
    def n_rounds(self) -> int:  # type: ignore[override]
        """From the agreed epochs; with steps as the unit, the node with most steps an epoch decides."""
        if self.f.sync_unit == "epoch":
            return math.ceil(self.f.epochs / self.f.sync_every)
        per_epoch = max(n // min(choose_batch_size(self.f.batch_size, n), n) for n in self.members.values() or [1])
        return math.ceil(self.f.epochs * max(1, per_epoch) / self.f.sync_every)

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        why = super()._begin(answers, line)
        self.current = {} if why else parameters_of(self.new_encoder())
        return why

    def _open(self, nodes: Sequence[str]) -> list[Message]:
        """A node at its first round, or after one that it missed, gets the whole encoder and what it needs to begin."""
        rng = np.random.default_rng((self.seed, self.round, DOWN))
        some = pack(self.current, choose_indices(self.current, self.f.share, rng))
        told, scaling = self._agreement()
        whole = pack(self.current, None) | scaling
        facts = {"count": self.f.sync_every, "unit": self.f.sync_unit}
        places = list(self.members)  # which give nodes their seeds

        def ask(n: str) -> Message:
            if n in self.in_step:
                return Message("train", n, self.round, facts, some)
            begin = {**facts, **told, "seed": self.seed, "position": places.index(n)}
            return Message("train", n, self.round, begin, whole)

        return [ask(n) for n in nodes]

    def _merge(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        usable = self._sift(answers, self._check, line)
        if why := self._too_few(usable):
            self.in_step = [n for n in self.in_step if n not in {*line["rejected"], *line["failed"]}]
            return why
        self.current = self._combine(usable)
        self.in_step = sorted(m.node for m in usable)
        self.round += 1
        return None

    def _combine(self, usable: Sequence[Message]) -> dict[str, np.ndarray]:
        """The one place where answers become a common encoder; the median needs each answer by itself."""
        f = self.f
        clipped = [m if f.max_norm is None else clip_answer(self.current, m, f.max_norm) for m in usable]
        self.spent |= {m.node: m.facts["dp"] for m in usable if "dp" in m.facts}
        if f.robust is not None:
            return median_of(self.current, clipped)
        return aggregate(self.current, clipped, f.aggregation, {m.node: self.members[m.node] for m in usable})

    def _check(self, message: Message) -> None:
        check_head(message, "trained", self.round)
        check_parameters(message, self.current)
        records, before = message.facts["records"], self.members.get(message.node)
        if records != before:
            raise ProtocolError(f"has {records} records, and had {before} at the start")

    def new_encoder(self) -> nn.Module:
        """An encoder of the agreed width with the common start."""
        shape = tuple(self.columns.get("shape", ()))
        n_in: Any = shape if len(shape) > 1 else shape[0] if shape else make_common_encoder(*self.agreed).n_out  # type: ignore[union-attr]
        make = networks(self.f)[0]
        return Stack(lambda: make(n_in, self.f.n_components), [self.seed]).module(0)


class EiganWorker(AgreeingWorker):
    """A node of D-EIGAN: describes its columns, then plays EIGAN's game with its own heads between syncs."""

    task = "train"

    def __init__(self, f: Any, node: Node) -> None:
        super().__init__(clone(f), node)
        self.problem: Problem | None = None
        self.game: Game | None = None
        self.notes: list[str] = []
        self.grants = f.grants
        self._told: dict[str, Any] = {}  # what was agreed, the seed, this node's place

    @property
    def history(self) -> list[dict[str, float]]:
        return [] if self.game is None else self.game.history[0]

    def _answer(self, message: Message) -> Message:
        if self.game is None:
            if "agreed" not in message.facts:
                raise ProtocolError(f"node {self.name!r} has no game: its state is lost, or the agreement did not come")
            told = {k: message.facts[k] for k in ("agreed", "seed", "position")}
            self._play(told | {"scaling": under(SCALING, message.arrays)})
        assert self.game is not None
        encoder = self.game.encoders.alone
        assert encoder is not None
        begun = unpack(message.arrays, parameters_of(encoder))
        set_parameters(encoder, begun)  # line 16
        steps = self._steps(message)
        with torch.random.fork_rng(devices=[]):  # of dropout
            torch.manual_seed(epoch_seed(self._seed, message.round))
            self.game.advance(steps)  # lines 17-19
        mine = parameters_of(encoder)
        if self.f.max_norm is not None:
            mine = clip(begun, mine, self.f.max_norm)
        # of coordinates that one node alone sends, a sum would be its values
        seed = int(self._told["seed"]) if self.f.secure else self._seed
        rng = np.random.default_rng((seed, message.round, UP))
        packed = pack(mine, choose_indices(mine, self.f.share, rng))  # line 20
        return Message("trained", self.name, message.round, {"records": len(self.node), **self._spent()}, packed)

    def _spent(self) -> dict[str, Any]:
        """With the last answer of a private fit: what it cost the people here."""
        private = self.game.private if isinstance(self.game, PrivateGame) else None
        ended = private is not None and private.taken >= private.n_steps
        return {"dp": private.spent(TOLD).to_dict()} if private is not None and ended else {}

    def _steps(self, message: Message) -> int:
        """How many steps are asked for."""
        assert self.game is not None
        count, unit, batches = message.facts["count"], message.facts["unit"], self.game.batches
        if (count, unit) != (self.f.sync_every, self.f.sync_unit):
            raise ProtocolError(
                f"asked for {count!r} {unit!r} in a round, agreed were {self.f.sync_every} {self.f.sync_unit!r}"
            )
        return int(count * (batches.per_epoch if unit == "epoch" else 1))

    def state(self) -> State:
        game = {} if self.game is None else _game_state(self.game)
        return parted({"told": self._told, "game": game})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        tree = joined(arrays, facts)
        if tree["game"]:
            _restore_game(self._play(tree["told"]), tree["game"])

    @property
    def _seed(self) -> int:
        """The first node plays with the federation's own seed, so that one node alone is EIGAN to the bit."""
        seed, position = int(self._told["seed"]), int(self._told["position"])
        return seed if position == 0 else int(np.random.SeedSequence((seed, position)).generate_state(1)[0] >> 1)

    def _play(self, told: dict[str, Any]) -> Game:
        """Begin the game that was agreed on."""
        self._told, f, node = told, self.f, self.node
        f.notes_ = []
        with naming(f"node {self.name!r}"):
            targets = self._labels(node.y, "y")
            sensitive = self._labels(node.sensitive_features, "sensitive_features")
            if not len(targets) + len(sensitive):
                raise InputError(
                    "it has neither targets nor sensitive attributes of at least two classes, so nothing to train"
                )
            X = make_common_encoder(told["agreed"], told["scaling"]).transform(self._records)
            f.target_weights = _own(f.target_weights, targets.names)
            f.sensitive_weights = _own(f.sensitive_weights, sensitive.names)
            self.problem = Problem(X, targets, sensitive, check_units(node.units, len(node)), self._seed)
            self.game = new_game(f, self.problem, [f.alpha], [self._seed])
        if self.grants is not None:
            step = self.game.batches.batch_size
            self.grants.check_rows(crowd_of(node), step, "a step", "raise batch_size on the server")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            note_copies(f, self._records, sensitive)
            note_dependence(f, targets, sensitive)
        self.notes = list(f.notes_)
        return self.game

    def _labels(self, values: Any, what: str) -> Labels:
        """This node's labels; one that has a single class here has nothing to teach, and is left out."""
        labels = encode_labels(values, what, len(self.node), min_classes=1)
        kept = [i for i in range(len(labels)) if labels.n_classes(i) > 1]
        for i in set(range(len(labels))) - set(kept):
            only = labels.classes[i][0] if len(labels.classes[i]) else "missing values"
            self.f.notes_.append(f"{what} column {labels.names[i]!r} has only {only!s} here, so it trains no head")
        names, classes = tuple(labels.names[i] for i in kept), tuple(labels.classes[i] for i in kept)
        return Labels(names, classes, labels.codes[:, kept])


def median_of(current: Arrays, answers: Sequence[Message]) -> dict[str, np.ndarray]:
    """The median over nodes of every parameter; what fewer than `MEDIAN_NODES` sent keeps its value.

    Examples
    --------
    >>> told = [Message("trained", str(w), 0, {}, {"values/w": np.array([w])}) for w in (1., 2., 1000.)]
    >>> median_of({"w": np.zeros(1)}, told)["w"]
    array([2.])
    """
    out = {}
    for name, array in current.items():
        rows = np.full((len(answers), array.size), np.nan)
        for row, message in zip(rows, answers, strict=True):
            row[message.arrays.get(INDICES + name, slice(None))] = message.arrays[VALUES + name].reshape(-1)
        merged = array.reshape(-1).astype(np.float64)
        enough = (~np.isnan(rows)).sum(axis=0) >= MEDIAN_NODES
        merged[enough] = np.nanmedian(rows[:, enough], axis=0)
        out[name] = merged.reshape(array.shape).astype(array.dtype)
    return out


def length(arrays: Arrays) -> float:
    """The norm of all arrays together."""
    return math.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in arrays.values()))


def clip(current: Arrays, new: Arrays, max_norm: float) -> dict[str, np.ndarray]:
    """Arrays that differ from the current ones by at most this norm; what is nearer is not touched.

    Examples
    --------
    >>> clip({"w": np.zeros(2)}, {"w": np.array([30., 40.])}, 5)["w"]
    array([3., 4.])
    """
    far = length({k: v - current[k] for k, v in new.items()})
    if far <= max_norm:
        return dict(new)
    return {k: (current[k] + max_norm / far * (v - current[k])).astype(v.dtype) for k, v in new.items()}


def clip_answer(current: Arrays, message: Message, max_norm: float) -> Message:
    """The same of an answer, which may hold a part of them."""
    before = {VALUES + k: a.reshape(-1)[message.arrays[INDICES + k]] if INDICES + k in message.arrays else a
              for k, a in current.items()}  # fmt: skip
    values = clip(before, {k: message.arrays[k].reshape(v.shape) for k, v in before.items()}, max_norm)
    return replace(message, arrays={**message.arrays, **values})


class Trained:
    """Encoders as addends of a secure sum: parameters times records. Told in the clear is what a private fit cost."""

    def outline(self, answer: Message) -> dict[str, Any]:
        return {"dp": answer.facts["dp"]} if "dp" in answer.facts else {}

    def agree(self, outlines: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        return {"dp": {n: told["dp"] for n, told in outlines.items() if "dp" in told}}, {}

    def numbers(self, answer: Message, agreed: Mapping[str, Any]) -> np.ndarray:
        values = under(VALUES, answer.arrays)
        flat = [values[name].reshape(-1).astype(np.float64) for name in sorted(values)]
        return answer.facts["records"] * np.concatenate(flat)

    def total(self, numbers: np.ndarray, agreed: Mapping[str, Any], records: int, within: EiganCoordinator) -> Message:
        rng = np.random.default_rng((within.seed, within.round, UP))
        packed = pack(within.current, choose_indices(within.current, within.f.share, rng))
        names = sorted(name for name in packed if name.startswith(VALUES))
        parts = np.split(numbers / records, np.cumsum([packed[name].size for name in names]))
        if numbers.size != sum(packed[name].size for name in names):
            raise ProtocolError(f"nodes summed {numbers.size} numbers, which is not what the encoder has")
        for name, part in zip(names, parts, strict=False):
            packed[name] = part.reshape(packed[name].shape).astype(packed[name].dtype)
        within.spent |= agreed.get("dp", {})
        return Message("trained", ALL, within.round, {"records": within.members[ALL]}, packed)


def parameters_of(module: nn.Module) -> dict[str, np.ndarray]:
    """All floating-point weights and buffers by name, as arrays of their own."""
    state = module.state_dict()
    return {name: value.cpu().numpy().copy() for name, value in state.items() if value.is_floating_point()}


def set_parameters(module: nn.Module, arrays: Arrays) -> None:
    """Write arrays over the weights and buffers of these names, in place: optimisers keep pointing at them."""
    state = module.state_dict()
    for name, array in arrays.items():
        state[name].copy_(torch.from_numpy(array))


def _game_state(game: Game) -> dict[str, Any]:
    """Everything a game needs to resume with the same bits: weights, optimisers, shuffles, noise, history."""
    learned = {k: v.detach().cpu().numpy().copy() for k, v in tensors_of(game.modules, game.optimisers).items()}
    taken = {"taken": game.private.taken} if isinstance(game, PrivateGame) else {}  # of a privacy budget
    shuffle, noise = game.batches.generators[0].bit_generator.state, game.generators[0].get_state().numpy()
    return {"learned": learned, "left": game.batches.left.copy(), "noise": noise, "shuffle": shuffle,
            "history": game.history[0], **taken}  # fmt: skip


def _restore_game(game: Game, kept: Mapping[str, Any]) -> None:
    """Put a fresh game of the same shape into the state that `_game_state` gave."""
    learned = {k: torch.from_numpy(np.array(v)) for k, v in kept["learned"].items()}
    load_tensors(learned, game.modules, game.optimisers)
    game.batches.left = kept["left"]
    game.generators[0].set_state(torch.from_numpy(kept["noise"]))
    game.batches.generators[0].bit_generator.state = kept["shuffle"]
    game.history[0] = list(kept["history"])
    if isinstance(game, PrivateGame):
        game.private.taken = kept["taken"]


def _own(weights: Any, names: Sequence[str]) -> dict[str, float] | None:
    return None if weights is None else {n: weights[n] for n in names if n in weights}


ADDENDS: Mapping[str, Addend] = {"description": Descriptions(), "trained": Trained()}


@dataclass(eq=False, repr=False)
class DistributedEIGAN(EIGAN):
    """EIGAN across silos: nodes keep their records, labels and heads; a common encoder is averaged.

    Parameters
    ----------
    share : phi, the share of the encoder's parameters that a node sends up and gets back, chosen at random each time
    sync_every : delta, how many epochs (or steps) a node trains between two syncs
    sync_unit : "epoch" or "step" (of the encoder)
    aggregation : "unbiased" averages a parameter over the nodes that sent it; "paper" counts what was not sent as 0
    robust : None averages by records. "median" gives every node one vote on each parameter and on the scaling, so that
        a few nodes that send something else move little; it takes three nodes
    max_norm : the longest update of a node, agreed beforehand; longer ones are cut to it, at the node and at the server
    categories : words of text columns that were agreed on beforehand, by column; of other text columns each
        node tells those words that at least two of its records have
    dp : as of `EIGAN`: every node clips, samples and adds noise for its own people, so that it trusts nobody
    secure : the server sees sums of the nodes' encoders and statistics alone (`tacit.federated.masked_sums`), and all
        nodes send the same share of the encoder
    checkpoint : file that is written as training continues, and read at the start if it is there
    n_components, alpha, noise, ... : as of `EIGAN`; weights per head by name, of which each node uses its own

    Attributes
    ----------
    nodes_ : by name, the number of records
    rounds_ : list of dicts: round (-1: columns and scaling), nodes that took part, rejected and failed ones with the
        reason, bytes up and down
    node_history_ : by node, the losses of its game (these stay at the node in a real federation)
    history_ : their mean over nodes, weighted by records

    Examples
    --------
    >>> import tacit
    >>> from tacit.federated import DistributedEIGAN, Node
    >>> data = tacit.load_dataset("gaussians", n=200, n_nodes=3)
    >>> nodes = [Node(d.X, d.y, sensitive_features=d.sensitive) for d in data.split("official")]
    >>> f = DistributedEIGAN(n_components=2, epochs=2, random_state=0).fit(nodes)
    >>> f.transform(data.X).shape, f.rounds_[-1]["nodes"]
    ((600, 2), ['node 1', 'node 2', 'node 3'])
    """

    _: KW_ONLY
    share: float = 1.0
    sync_every: int = 1
    sync_unit: str = "epoch"
    aggregation: str = "unbiased"
    robust: str | None = None
    max_norm: float | None = None
    categories: Mapping[str, Sequence[str]] | None = None
    secure: bool = False
    device: str = "cpu"
    grants: ClassVar[Grants | None] = None  # a node's, where answers leave the machine

    def fit(self, nodes: Sequence[Node]) -> Self:  # type: ignore[override]
        """Learn from all nodes, in this process (`tacit.federated.simulate` shows how)."""
        return simulate(nodes, self, checkpoint=self.checkpoint, verbose=self.verbose)

    # -- what an engine calls -------------------------------------------------------------------

    def coordinator(self, names: Sequence[str], min_nodes: int = 1) -> Any:
        """The server's side."""
        self.check_parameters()
        if self.secure:
            return SumCoordinator(EiganCoordinator(self, []), names, min_nodes, ADDENDS)
        return EiganCoordinator(self, names, min_nodes)

    def worker(self, node: Node) -> Any:
        """A node's side."""
        made = EiganWorker(self, node)
        return SumWorker(made, ADDENDS) if self.secure else made

    def conclude(self, coordinator: EiganCoordinator, workers: Sequence[EiganWorker] = ()) -> Self:
        """Become the filter that was learned. `workers` are those of this process: none between machines."""
        self.__dict__.pop("dp_", None)  # of an earlier fit
        self.encoder_module_ = coordinator.new_encoder()
        set_parameters(self.encoder_module_, coordinator.current)
        self.encoder_module_ = self.encoder_module_.double().eval()
        learned = learned_encoder(self.encoder_module_, self.n_components, self.noise, [], self.bounded)
        schema, memory = agreed_preparation(self, coordinator.agreed, workers)
        finish_fit(self, None, replace(learned, schema=schema, memory=memory))
        self.nodes_, self.rounds_ = dict(coordinator.members), copy.deepcopy(coordinator.log)
        self.node_history_ = {w.name: w.history for w in workers}
        self.history_ = _mean_history([(w.history, self.nodes_[w.name]) for w in workers if w.history])
        self.notes_: list[str] = []
        self._tell_notes(workers)
        if self.dp is not None:
            tell_spent(self, spent_by_all(spent_at_nodes(self.dp, self.nodes_, coordinator.spent)))
        return self

    def _tell_notes(self, workers: Sequence[EiganWorker]) -> None:
        """Each remark once, with the nodes it is about."""
        about: dict[tuple[str, type[Warning]], list[str]] = {}
        for node in sorted({n for line in self.rounds_ for n in line["rejected"]}):
            reasons = [line["rejected"][node] for line in self.rounds_ if node in line["rejected"]]
            text = f"what it sent was rejected in {len(reasons)} of {len(self.rounds_)} rounds: {reasons[-1]}"
            about.setdefault((text, TacitWarning), []).append(node)
        for worker in workers:
            notes = [(text, TacitWarning) for text in worker.notes]
            if worker.problem is not None and worker.history:
                probe = copy.copy(self)
                probe.notes_ = []
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    warn_if_collapsed(probe, worker.problem, worker.history[-1])
                notes += [(text, CollapseWarning) for text in probe.notes_]
            for remark in notes:
                about.setdefault(remark, []).append(worker.name)
        for (text, kind), names in about.items():
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            note(self, f"{', '.join(names[:5])}{more}: {text}", kind)

    @property
    def planned_epochs(self) -> int:
        return -(-self.epochs // self.sync_every) * self.sync_every

    def check_parameters(self) -> None:
        """Raise where a parameter is not one that can be used."""
        self._check_parameters()
        if self.dp is not None and self.sync_unit == "step":
            raise InputError("dp is paid by epochs: nodes know beforehand how many there are; take sync_unit='epoch'")
        if self.n_bins is not None:
            raise InputError(f"n_bins={self.n_bins} needs all records in one place; leave it out")
        check_number("share", self.share, 1e-6, 1)
        check_number("sync_every", self.sync_every, 1, whole=True)
        if self.sync_unit not in ("epoch", "step"):
            raise InputError(f"sync_unit must be 'epoch' or 'step'; found {self.sync_unit!r}")
        if self.secure and self.sync_unit == "step":
            raise InputError(
                "sync_unit='step' needs each node's steps an epoch at the server; secure=True takes 'epoch'"
            )
        if self.aggregation not in AGGREGATIONS:
            raise InputError(f"aggregation must be 'unbiased' or 'paper'; found {self.aggregation!r}")
        if self.robust not in (None, "median"):
            raise InputError(f"robust must be 'median' or None; found {self.robust!r}")
        if self.robust is not None and (self.aggregation != "unbiased" or getattr(self, "secure", False)):
            raise InputError(
                "the median needs each node's answer by itself, and leaves what was not sent as it is: use it without "
                "masked sums and without aggregation='paper'; with masked sums there is max_norm"
            )
        check_number("max_norm", self.max_norm, 1e-9, optional=True)
        for name in ("target_weights", "sensitive_weights"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise InputError(
                    f"{name} must be a mapping from column to weight, since nodes may have different columns; "
                    f"found {getattr(self, name)!r}"
                )


def _mean_history(parts: Sequence[tuple[list[dict[str, float]], int]]) -> list[dict[str, float]]:
    """Losses averaged over the nodes that have that head, weighted by records."""
    out = []
    for t in range(max((len(history) for history, _ in parts), default=0)):
        lines = [(history[t], n) for history, n in parts if len(history) > t]
        means: dict[str, float] = {"epoch": t}
        for key in dict.fromkeys(k for line, _ in lines for k in line if k != "epoch"):
            values, weights = zip(*[(line[key], n) for line, n in lines if key in line], strict=True)
            means[key] = float(np.average(values, weights=weights))
        out.append(means)
    return out
