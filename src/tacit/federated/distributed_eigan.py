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
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from tacit.errors import CollapseWarning, InputError, TacitWarning, check_number
from tacit.federated.agreement import agreed_preparation
from tacit.federated.coordinator import EiganCoordinator
from tacit.federated.node import Node
from tacit.federated.node_state import set_parameters
from tacit.federated.protocol import AGGREGATIONS
from tacit.federated.simulation import simulate
from tacit.federated.worker import EiganWorker
from tacit.filters.base import check_units, finish_fit
from tacit.filters.eigan import EIGAN, Factory, learned_encoder, warn_if_collapsed
from tacit.filters.notes import note
from tacit.labels import encode_labels
from tacit.records.dataset import cross_folds, unit_columns
from tacit.renamed import renamed


class DistributedEIGAN(EIGAN):
    """EIGAN across silos: nodes keep their records, labels and heads; a common encoder is averaged.

    Parameters
    ----------
    share : phi, the share of the encoder's parameters that a node sends up and gets back, chosen at random each time
    sync_every : delta, how many epochs (or steps) a node trains between two syncs
    sync_unit : "epoch" or "step" (of the encoder)
    aggregation : "unbiased" averages a parameter over the nodes that sent it; "paper" counts what was not sent as 0
    categories : words of text columns that were agreed on beforehand, by column; of other text columns each
        node tells those words that at least two of its records have
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

    @renamed(head_speed="head_lr_factor")
    def __init__(
        self,
        n_components: int = 8,
        alpha: float = 0.5,
        *,
        share: float = 1.0,
        sync_every: int = 1,
        sync_unit: str = "epoch",
        aggregation: str = "unbiased",
        categories: Mapping[str, Sequence[str]] | None = None,
        target_weights: Mapping[str, float] | None = None,
        sensitive_weights: Mapping[str, float] | None = None,
        noise: float | None = None,
        adversary_steps: int = 5,
        encoder: Factory | None = None,
        target_head: Factory | None = None,
        sensitive_head: Factory | None = None,
        epochs: int = 20,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        head_lr_factor: float = 3.0,
        checkpoint: str | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        super().__init__(
            n_components,
            alpha,
            target_weights=target_weights,
            sensitive_weights=sensitive_weights,
            noise=noise,
            adversary_steps=adversary_steps,
            encoder=encoder,
            target_head=target_head,
            sensitive_head=sensitive_head,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            head_lr_factor=head_lr_factor,
            random_state=random_state,
            device=device,
            verbose=verbose,
        )
        self.share = share
        self.sync_every = sync_every
        self.sync_unit = sync_unit
        self.aggregation = aggregation
        self.categories = categories
        self.checkpoint = checkpoint

    def fit(self, nodes: Sequence[Node]) -> Self:  # type: ignore[override]
        """Learn from all nodes, in this process (`tacit.federated.simulate` shows how)."""
        return simulate(nodes, self, checkpoint=self.checkpoint, verbose=self.verbose)

    # -- what an engine calls -------------------------------------------------------------------

    def coordinator(self, names: Sequence[str], min_nodes: int = 1) -> EiganCoordinator:
        """The server's side."""
        self.check_parameters()
        return EiganCoordinator(self, names, min_nodes)

    def worker(self, node: Node) -> EiganWorker:
        """A node's side."""
        return EiganWorker(self, node)

    def conclude(self, coordinator: EiganCoordinator, workers: Sequence[EiganWorker] = ()) -> Self:
        """Become the filter that was learned. `workers` are those of this process: none between machines."""
        self.encoder_module_ = coordinator.new_encoder()
        set_parameters(self.encoder_module_, coordinator.current)
        self.encoder_module_ = self.encoder_module_.double().eval()
        learned = learned_encoder(self.encoder_module_, self.n_components, self.noise, [])
        finish_fit(self, None, learned, agreed_preparation(self, coordinator.agreed, workers))
        self.nodes_, self.rounds_ = dict(coordinator.members), copy.deepcopy(coordinator.log)
        self.node_history_ = {w.name: w.history for w in workers}
        self.history_ = _mean_history([(w.history, self.nodes_[w.name]) for w in workers if w.history])
        self._nodes, self._trained_seed = [w.node for w in workers], coordinator.seed
        self.notes_: list[str] = []
        self._tell_notes(workers)
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

    # -- the training rows ----------------------------------------------------------------------

    def release_training_rows(self) -> np.ndarray:
        """All nodes' rows, node after node in the order of `fit`, each by a federation that trained without it."""
        if not self._nodes:
            raise InputError(
                "the training rows are at the nodes, not here; release rows there that took no part in training"
            )
        starts, folds = np.cumsum([0, *map(len, self._nodes)]), []
        for node in self._nodes:
            labels = [
                encode_labels(v, "labels", len(node), min_classes=1).codes for v in (node.y, node.sensitive_features)
            ]
            units = unit_columns(node.units, len(node))
            unit = None if units is None else next(iter(units.values()))
            folds.append(cross_folds(np.concatenate(labels, axis=1), 5, self._trained_seed, unit))
        encoded = [self.noiseless(node.X) for node in self._nodes]
        code = np.empty((starts[-1], self.n_components))
        for f in range(max(int(fold.max()) for fold in folds) + 1):
            outside = [node.take(fold != f) for node, fold in zip(self._nodes, folds, strict=True)]
            refit = clone(self).set_params(checkpoint=None, verbose=False, random_state=self._trained_seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TacitWarning)
                refit.fit(outside)
            there = [np.column_stack([refit.noiseless(n.X), np.ones(len(n))]) for n in self._nodes]
            away = np.concatenate([t[fold != f] for t, fold in zip(there, folds, strict=True)])
            main = np.concatenate([e[fold != f] for e, fold in zip(encoded, folds, strict=True)])
            back = np.linalg.lstsq(away, main, rcond=None)[0]
            for k, (t, fold) in enumerate(zip(there, folds, strict=True)):
                code[starts[k] + np.flatnonzero(fold == f)] = np.clip(t[fold == f] @ back, -1, 1)
        m, X = self.mechanism_, np.concatenate([self.mechanism_.schema.encode(node.X) for node in self._nodes])
        named = [u for node in self._nodes if (u := check_units(node.units, len(node))) is not None]
        drawn = m.draw(X, self.noise_key, np.concatenate(named) if len(named) == len(self._nodes) else None)
        return m.leave(code if drawn is None or m.noise is None else m.noise.add(code, drawn))

    def check_parameters(self) -> None:
        """Raise where a parameter is not one that can be used."""
        self._check_parameters()
        check_number("share", self.share, 1e-6, 1)
        check_number("sync_every", self.sync_every, 1, whole=True)
        if self.sync_unit not in ("epoch", "step"):
            raise InputError(f"sync_unit must be 'epoch' or 'step'; found {self.sync_unit!r}")
        if self.aggregation not in AGGREGATIONS:
            raise InputError(f"aggregation must be 'unbiased' or 'paper'; found {self.aggregation!r}")
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
        keys = list(dict.fromkeys(k for line, _ in lines for k in line if k != "epoch"))
        means: dict[str, float] = {"epoch": t}
        for key in keys:
            have = [(line[key], n) for line, n in lines if key in line]
            means[key] = sum(v * n for v, n in have) / sum(n for _, n in have)
        out.append(means)
    return out
