"""Both sides of D-EIGAN (Algorithm 1 of the EIGAN paper): the server that averages, and a node that plays the game."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import nn

from tacit.errors import InputError
from tacit.federated.common_schema import make_common_encoder
from tacit.federated.grants import crowd_of
from tacit.federated.node import Node, naming
from tacit.federated.private_nodes import TOLD
from tacit.federated.protocol import (
    VALUES,
    Arrays,
    Message,
    ProtocolError,
    aggregate,
    choose_indices,
    fault_of_head,
    fault_of_parameters,
    pack,
    under,
    unpack,
)
from tacit.federated.robust import ROBUST_NODES, capped, clip, clip_answer, doubts, vote
from tacit.federated.rounds import SCALING, AgreeingCoordinator, AgreeingWorker
from tacit.federated.secure_rounds import ALL
from tacit.federated.states import State, joined, parted
from tacit.filters.base import Problem, check_units
from tacit.filters.eigan import new_game
from tacit.filters.eigan_game import Game
from tacit.filters.eigan_players import networks
from tacit.filters.notes import note_copies, note_dependence
from tacit.filters.private_eigan_game import PrivateGame
from tacit.labels import Labels, encode_labels
from tacit.training.device import choose_batch_size
from tacit.training.loop import epoch_seed, load_tensors, tensors_of
from tacit.training.stack import Stack

UP, DOWN = 21, 22  # the streams of random numbers of uplinks and downlinks, apart from those of the games


class EiganCoordinator(AgreeingCoordinator):
    """The server of D-EIGAN: agrees on columns and scaling, then opens rounds and merges what comes back."""

    kept = (*AgreeingCoordinator.kept, "current", "seed", "in_step", "along", "spent")

    def __init__(self, f: Any, names: Sequence[str], min_nodes: int = 1) -> None:
        super().__init__(f, names, min_nodes)
        self.seed = int(check_random_state(f.random_state).randint(2**31 - 1))
        self.min_nodes = max(self.min_nodes, 1 if f.robust is None else ROBUST_NODES)
        self.along: dict[str, list[float]] = {}  # by node: how its updates lay to the others', in the last rounds
        self.in_step: list[str] = []  # nodes that hold what the last round left
        self.current: dict[str, np.ndarray] = {}
        self.spent: dict[str, Any] = {}  # by node, what a private fit cost its people

    @property
    def n_rounds(self) -> int:  # type: ignore[override]
        """From the agreed epochs; with steps as the unit, the node with most steps an epoch decides."""
        if self.f.sync_unit == "epoch":
            return math.ceil(self.f.epochs / self.f.sync_every)
        per_epoch = max(n // min(choose_batch_size(self.f.batch_size, n), n) for n in self.members.values())
        return math.ceil(self.f.epochs * max(1, per_epoch) / self.f.sync_every)

    def _begin(self, answers: Sequence[Message], line: dict[str, Any]) -> str | None:
        why = super()._begin(answers, line)
        self.current = {} if why else parameters_of(self.new_encoder())
        return why

    def _open(self, nodes: Sequence[str]) -> list[Message]:
        """A node that is new or missed a round gets the whole encoder, and what it needs to begin."""
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
        new = [m.kind == "description" and m.node not in self.members for m in answers]
        trained = [m for m, late in zip(answers, new, strict=True) if not late]
        usable = self._sift(trained, self._fault, line)
        if why := self._too_few(usable):
            self.in_step = [n for n in self.in_step if n not in {*line["rejected"], *line["failed"]}]
            return why
        self.current = self._combine(usable, line)
        self.in_step = sorted(m.node for m in usable)
        self._admit([m for m, late in zip(answers, new, strict=True) if late], line)
        self.round += 1
        return None

    def _combine(self, usable: Sequence[Message], line: dict[str, Any]) -> dict[str, np.ndarray]:
        """The one place where answers become a common encoder; robust rules need each answer by itself."""
        f = self.f
        told = [m if f.max_norm is None else clip_answer(self.current, m, f.max_norm) for m in usable]
        records = {m.node: self.members[m.node] for m in usable}
        weights = records if self.names else capped(records)  # strangers state their numbers themselves
        if f.robust is None:
            merged = aggregate(self.current, told, f.aggregation, weights)
        else:
            merged = vote(self.current, told, f.robust)
        self.spent |= {m.node: m.facts["dp"] for m in usable if "dp" in m.facts}
        line["doubtful"] = doubts(self.current, usable, self.along)
        line["doubtful"] |= {node: f"claims {n} records, more than all others together: counts as {weights[node]}"
                             for node, n in records.items() if weights[node] < n}  # fmt: skip
        return merged

    def _fault(self, message: Message) -> str | None:
        fault = fault_of_head(message, "trained", self.round) or fault_of_parameters(message, self.current)
        records, before = message.facts["records"] if fault is None else 0, self.members.get(message.node)
        if fault is None and records != before:
            return f"says it has {records} records, and said {before} at the start"
        return fault

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

    def _begin(self, message: Message) -> None:
        told = {k: message.facts[k] for k in ("agreed", "seed", "position")}
        self._play(told | {"scaling": under(SCALING, message.arrays)})

    def _answer(self, message: Message) -> Message:
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
        if self.grants is not None:
            mine = _blurred(mine, self.grants.blur * self.f.learning_rate * math.sqrt(steps))
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
        steps = int(count * (batches.per_epoch if unit == "epoch" else 1))
        if self.grants is not None and steps < self.grants.min_steps:
            raise ProtocolError(
                f"a round of {steps} steps; this node takes at least {self.grants.min_steps}: raise sync_every on the "
                f"server, or lower min_steps here"
            )
        return steps

    def state(self) -> State:
        game = {} if self.game is None else _game_state(self.game)
        return parted({"phase": self.phase, "told": self._told, "game": game})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        tree = joined(arrays, facts)
        self.phase = tree["phase"]
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


def _blurred(mine: Arrays, spread: float) -> dict[str, np.ndarray]:
    """With noise that nobody else can draw again: what one record moves is less than it (Adam bounds every step)."""
    rng = np.random.default_rng()
    return {k: a + (spread * rng.standard_normal(a.shape)).astype(a.dtype) for k, a in mine.items()}


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
