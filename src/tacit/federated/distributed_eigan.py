"""D-EIGAN: one encoder for all nodes, learned where the records are (Algorithm 1 of the EIGAN paper).

Every node plays EIGAN's game with its own heads on its own records; after every delta epochs (or steps) a random share
phi of the encoder goes up, is averaged by numbers of records, and a random share of the average comes down. Nodes may
have different targets and sensitive attributes: the common encoder then serves their union, each weighted by the share
of nodes that have it (Proposition 4). Only the encoder and the scaling statistics travel.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.federated.eigan_rounds import EiganCoordinator, EiganWorker, Trained, set_parameters
from tacit.federated.grants import Grants
from tacit.federated.node import Node
from tacit.federated.private_nodes import spent_at_nodes
from tacit.federated.protocol import AGGREGATIONS
from tacit.federated.robust import ROBUST
from tacit.federated.rounds import agreed_preparation
from tacit.federated.secure_rounds import Addend, Descriptions, SecureCoordinator, SecureWorker
from tacit.federated.simulation import simulate
from tacit.filters.base import Problem, check_units, finish_fit
from tacit.filters.eigan import EIGAN, learned_encoder, warn_if_collapsed
from tacit.filters.notes import note
from tacit.filters.out_of_fold import release_by_folds
from tacit.filters.public_intake import tell_spent
from tacit.labels import Labels, encode_labels, joint_codes
from tacit.noise.fit_privacy import spent_by_all
from tacit.records.intake import Intake

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
    robust : None averages by records. "median" or "trimmed" (without the largest and the smallest fifth) give every
        node one vote on each parameter and on the scaling, so that few liars move little; it takes three nodes
    max_norm : the longest update of a node, agreed beforehand; longer ones are cut to it, at the node and at the server
    categories : words of text columns that were agreed on beforehand, by column; of other text columns each
        node tells those words that at least two of its records have
    dp : as of `EIGAN`: every node clips, samples and adds noise for its own people, so that it trusts nobody
    secure : the server sees sums of the nodes' encoders and statistics alone (`tacit.federated.secure_sums`), and all
        nodes send the same share of the encoder
    checkpoint : file that is written as training continues, and read at the start if it is there
    n_components, alpha, noise, ... : as of `EIGAN`; weights per head by name, of which each node uses its own

    Attributes
    ----------
    nodes_ : by name, the number of records
    rounds_ : list of dicts: round (-1: columns and scaling), nodes that took part, rejected and failed ones with the
        reason, doubtful ones (whose update is odd beside the others'), bytes up and down
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
            return SecureCoordinator(EiganCoordinator(self, []), names, min_nodes, ADDENDS)
        return EiganCoordinator(self, names, min_nodes)

    def worker(self, node: Node) -> Any:
        """A node's side."""
        made = EiganWorker(self, node)
        return SecureWorker(made, ADDENDS) if self.secure else made

    def conclude(self, coordinator: EiganCoordinator, workers: Sequence[EiganWorker] = ()) -> Self:
        """Become the filter that was learned. `workers` are those of this process: none between machines."""
        self.__dict__.pop("dp_", None)  # of an earlier fit
        self.encoder_module_ = coordinator.new_encoder()
        set_parameters(self.encoder_module_, coordinator.current)
        self.encoder_module_ = self.encoder_module_.double().eval()
        learned = learned_encoder(self.encoder_module_, self.n_components, self.noise, [], self.bounded)
        known = agreed_preparation(self, coordinator.agreed, workers)
        finish_fit(self, _pooled(workers, known.intake, coordinator.seed) if workers else None, learned, known)
        self.nodes_, self.rounds_ = dict(coordinator.members), copy.deepcopy(coordinator.log)
        self.node_history_ = {w.name: w.history for w in workers}
        self.history_ = _mean_history([(w.history, self.nodes_[w.name]) for w in workers if w.history])
        self._nodes = [w.node for w in workers]
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

    def _out_of_fold(self, problem: Problem, drawn: np.ndarray | None) -> np.ndarray:
        """All nodes' rows, node after node in the order of `fit`, each by a federation that trained without it."""
        nodes, rows = self._nodes, np.arange(len(problem.X))
        ends = np.cumsum([len(node) for node in nodes])[:-1]

        def learn(part: Problem) -> Any:
            kept = np.split(np.isin(rows, part.X), ends)
            refit = clone(self).set_params(checkpoint=None, verbose=False, random_state=problem.seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                refit.fit([node.take(here) for node, here in zip(nodes, kept, strict=True) if here.any()])
            return refit.mechanism_.learned.code(problem.X).__getitem__

        main = self.mechanism_.learned.code(problem.X)
        released = release_by_folds(replace(problem, X=rows), learn, like=main.__getitem__)
        return np.clip(released, -1, 1) if self.bounded else released

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
        if self.robust not in (None, *ROBUST):
            raise InputError(f"robust must be 'median', 'trimmed' or None; found {self.robust!r}")
        if self.robust is not None and (self.aggregation != "unbiased" or getattr(self, "secure", False)):
            raise InputError(
                "robust rules look at each node's answer by itself, and leave what was not sent as it is: use them "
                "without secure sums and without aggregation='paper'; with secure sums there is max_norm"
            )
        check_number("max_norm", self.max_norm, 1e-9, optional=True)
        for name in ("target_weights", "sensitive_weights"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise InputError(
                    f"{name} must be a mapping from column to weight, since nodes may have different columns; "
                    f"found {getattr(self, name)!r}"
                )


def _pooled(workers: Sequence[EiganWorker], intake: Intake, seed: int) -> Problem:
    """The training rows of all nodes; folds of them have their share of every node and of its labels."""
    who = np.repeat(np.arange(len(workers)), [len(w.node) for w in workers])
    strata = joint_codes(np.column_stack([who, np.concatenate([joint_codes(w.codes) for w in workers])]))
    units = None
    if any(w.node.units is not None for w in workers):  # where there are none, every record is a unit
        named = [check_units(w.node.units, len(w.node)) for w in workers]
        units = np.concatenate([np.array([f"{w.name} {i}" for i in range(len(w.node))]) if u is None else u
                                for w, u in zip(workers, named, strict=True)])  # fmt: skip
    X = np.concatenate([intake.encode(w.node.X) for w in workers])
    return Problem(
        X, Labels(("stratum",), (np.unique(strata),), strata[:, None]), encode_labels(None, "", len(X)), units, seed
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
