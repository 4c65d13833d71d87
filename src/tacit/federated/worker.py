"""A node's side of D-EIGAN."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from tacit.errors import InputError
from tacit.federated.agreement import SCALING, AgreeingWorker
from tacit.federated.common_schema import make_common_encoder
from tacit.federated.node import Node, naming
from tacit.federated.node_state import encoder_of, game_state, parameters_of, restore_game, set_parameters
from tacit.federated.protocol import NODE, Arrays, Message, ProtocolError, choose_indices, follow, pack, under, unpack
from tacit.filters.base import Problem
from tacit.filters.eigan import Game
from tacit.filters.notes import note_copies, note_dependence
from tacit.labels import Labels, encode_labels

UP = 21  # the stream of random numbers of uplinks, apart from those of the games


class EiganWorker(AgreeingWorker):
    """A node of D-EIGAN: describes its columns, then plays EIGAN's game with its own heads between syncs."""

    def __init__(self, f: Any, node: Node) -> None:
        super().__init__(clone(f), node)
        self.problem: Problem | None = None
        self.game: Game | None = None
        self.notes: list[str] = []
        self._begun: tuple[dict[str, Any], dict[str, np.ndarray]] = ({}, {})

    @property
    def history(self) -> list[dict[str, float]]:
        return [] if self.game is None else self.game.history[0]

    def work(self, message: Message) -> Message:
        """Answer the server."""
        if message.kind == "describe":
            return self._description(message)
        if message.kind != "train":
            raise ProtocolError(f"node {self.name!r} knows 'describe' and 'train'; found {message.kind!r}")
        if "agreed" in message.facts and self.phase != "started":
            self.phase = follow(NODE, self.phase, "start")
            self._begin({k: message.facts[k] for k in ("agreed", "seed", "position")}, under(SCALING, message.arrays))
        self.phase = follow(NODE, self.phase, "train")
        assert self.game is not None
        encoder = encoder_of(self.game)
        set_parameters(encoder, unpack(message.arrays, parameters_of(encoder)))  # line 16
        per_epoch = self.game.batches.per_epoch if message.facts["unit"] == "epoch" else 1
        self.game.advance(message.facts["count"] * per_epoch)  # lines 17-19
        mine = parameters_of(encoder)
        rng = np.random.default_rng((self._seed, message.round, UP))
        packed = pack(mine, choose_indices(mine, self.f.share, rng))  # line 20
        return Message("trained", self.name, message.round, {"records": len(self.node)}, packed)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        facts: dict[str, Any] = {"phase": self.phase, "begun": self._begun[0]}
        arrays = {SCALING + k: v for k, v in self._begun[1].items()}
        if self.game is not None:
            played, told = game_state(self.game)
            arrays |= {f"game/{k}": v for k, v in played.items()}
            facts["game"] = told
        return arrays, facts

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        self.phase = facts["phase"]
        if "game" in facts:
            self._begin(dict(facts["begun"]), under(SCALING, arrays))
            played = under("game/", arrays)
            assert self.game is not None
            restore_game(self.game, played, facts["game"])

    def _labels(self, values: Any, what: str) -> Labels:
        """This node's labels; one that has a single class here has nothing to teach, and is left out."""
        labels = encode_labels(values, what, len(self.node), min_classes=1)
        kept = [i for i in range(len(labels)) if labels.n_classes(i) > 1]
        for i in set(range(len(labels))) - set(kept):
            only = labels.classes[i][0] if len(labels.classes[i]) else "missing values"
            self.f.notes_.append(f"{what} column {labels.names[i]!r} has only {only!s} here, so it trains no head")
        names, classes = tuple(labels.names[i] for i in kept), tuple(labels.classes[i] for i in kept)
        return Labels(names, classes, labels.codes[:, kept])

    @property
    def _seed(self) -> int:
        """The first node plays with the federation's own seed, so that one node alone is EIGAN to the bit."""
        seed, position = int(self._begun[0]["seed"]), int(self._begun[0]["position"])
        return seed if position == 0 else int(np.random.SeedSequence((seed, position)).generate_state(1)[0] >> 1)

    def _begin(self, begun: dict[str, Any], scaling: dict[str, np.ndarray]) -> None:
        self._begun = begun, scaling
        encoder = make_common_encoder(begun["agreed"], scaling)
        node, f = self.node, self.f
        f.notes_ = []
        with naming(f"node {self.name!r}"):
            targets = self._labels(node.y, "y")
            sensitive = self._labels(node.sensitive_features, "sensitive_features")
            if not len(targets) + len(sensitive):
                raise InputError(
                    "it has neither targets nor sensitive attributes of at least two classes, so nothing to train"
                )
            X = encoder.transform(self._records)
            f.target_weights = _own(f.target_weights, targets.names)
            f.sensitive_weights = _own(f.sensitive_weights, sensitive.names)
            self.problem = Problem(X, targets, sensitive, None, self._seed)
            self.game = Game(f, self.problem, [f.alpha], [self._seed])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            note_copies(f, self._records, sensitive)
            note_dependence(f, targets, sensitive)
        self.notes = list(f.notes_)


def _own(weights: Any, names: Sequence[str]) -> dict[str, float] | None:
    return None if weights is None else {n: weights[n] for n in names if n in weights}
