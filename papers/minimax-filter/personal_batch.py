"""All personal filters at once: eq. 16 of the minimax filter paper solved in batch, the reference for Algorithm 3.

Whoever does this sees everybody's records; the protocol of `PersonalMinimax` exists so that nobody has to. It says how
far the contributors, who each see only eq. 19, stay from what could be had together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tacit.federated.node import Node, named
from tacit.filters.minimax import MinimaxFilter
from tacit.labels import encode_labels
from tacit.solvers.heads import SoftmaxHeads, Weighted
from tacit.solvers.kiwiel import InnerGame, kiwiel, starting_point


class PersonalGame:
    """Eq. 16 to 18: a filter for each contributor, who reads whom (weighted binary, eq. 7), and one target for all.

    Parameters
    ----------
    start : the common filter
    nodes : contributors with their records and one target
    rho, ridge : as of `PersonalMinimax`
    """

    def __init__(self, start: MinimaxFilter, nodes: Sequence[Node], rho: float = 1.0, ridge: float = 1e-6) -> None:
        nodes = named(nodes)
        self.names = [str(n.name) for n in nodes]
        self.d = start.n_components_
        encoded = [start.mechanism_.schema.encode(n.X).reshape(len(n), -1) for n in nodes]
        self.rows = [torch.from_numpy(np.ascontiguousarray(X)) for X in encoded]
        who = np.repeat(self.names, [len(X) for X in encoded])
        target = np.concatenate([np.asarray(pd.DataFrame(n.y).iloc[:, 0]) for n in nodes])
        identity, labels = encode_labels(who, "who", len(who)), encode_labels(target, "y", len(target))
        self.adversary = SoftmaxHeads(identity, self.d, binary=True, ridge=ridge)
        self.ally = SoftmaxHeads(labels, self.d, ridge=ridge)
        (weight,) = start.encoder_module_.parameters()
        self.begun = weight.detach().flatten().repeat(len(nodes))
        self.rho = rho

    def code(self, u: Tensor) -> Tensor:
        """Everybody's filtered samples, one after the other."""
        filters = u.view(len(self.rows), self.d, -1)
        return torch.cat([X @ G.T for X, G in zip(self.rows, filters, strict=True)])

    def objective(self, filters: Mapping[str, MinimaxFilter]) -> float:
        """Phi of eq. 16 at these filters: the best readers' gain plus rho times the best target's loss."""
        u = torch.cat([next(iter(filters[n].encoder_module_.parameters())).detach().flatten() for n in self.names])
        return self._phi(u)

    def _phi(self, u: Tensor) -> float:
        game = InnerGame(Weighted(self.adversary, -1.0), self.code, Weighted(self.ally, self.rho), 1e-9, 300)
        return starting_point(game, u, self.adversary.start(), self.ally.start()).phi

    def solve(self, max_iter: int = 20) -> tuple[dict[str, Any], list[float]]:
        """All filters at once by Algorithm 2: each contributor's matrix, and Phi before and after every step."""
        result = kiwiel(
            Weighted(self.adversary, -1.0),
            self.begun,
            self.adversary.start(),
            code=self.code,
            ally=Weighted(self.ally, self.rho),
            w=self.ally.start(),
            max_iter=max_iter,
            inner_tolerance=1e-7,
            inner_max_iter=50,
        )
        matrices = result.u.view(len(self.rows), self.d, -1).numpy()
        return dict(zip(self.names, matrices, strict=True)), [*result.history[:-1], self._phi(result.u)]
