"""The synthetic sets of the EIGAN paper: Fig. 2, 5, 7, 10, 11 and 12, and section 3.2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tacit.datasets.registry import register
from tacit.errors import InputError
from tacit.records.dataset import Dataset


@register
def quadrants(n: int = 2000, spread: float = 0.3, random_state: int = 0) -> Dataset:
    """Four Gaussian groups in the plane (Fig. 10): keep left/right, hide up/down."""
    rng = np.random.default_rng(random_state)
    centres = np.array([(-0.5, -0.5), (-0.5, 1.5), (1.5, -1.5), (1.5, 1.5)])
    group = rng.integers(4, size=n)
    X = centres[group] + spread * rng.standard_normal((n, 2))
    return _plane(X, colour=group >= 2, shape=group % 2 == 1, name="quadrants")


@register
def circles(n: int = 2000, spread: float = 0.1, random_state: int = 0) -> Dataset:
    """Two rings (Fig. 11): keep inner/outer, which no line separates; hide upper/lower half."""
    rng = np.random.default_rng(random_state)
    outer = rng.integers(2, size=n).astype(bool)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(outer, 1.0, 0.4) + spread * rng.standard_normal(n)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return _plane(X, colour=outer, shape=X[:, 1] > 0, name="circles")


@register
def octants(n: int = 4000, allies: int = 2, spread: float = 0.3, random_state: int = 0) -> Dataset:
    """Eight Gaussian groups, one per octant: two allies and one adversary (Fig. 2), or one and two (Fig. 12)."""
    if allies not in (1, 2):
        raise InputError(f"octants: allies must be 1 or 2 of the three axes; found {allies}")
    rng = np.random.default_rng(random_state)
    corner = rng.integers(2, size=(n, 3))
    X = 2.0 * corner - 1 + spread * rng.standard_normal((n, 3))
    labels = pd.DataFrame(np.where(corner == 1, "high", "low"), columns=["x", "y", "z"])
    keep = ["x", "y"][:allies]
    return Dataset(X, labels[keep], labels.drop(columns=keep), name="octants", modality="table")


@register
def gaussians(
    n: int = 2000,
    n_nodes: int = 1,
    variance: float | Sequence[float] = 0.1,
    adversary_variance: float | None = None,
    iid: bool = False,
    deviation: bool = False,
    random_state: int = 0,
) -> Dataset:
    """Four Gaussians on the unit square at (1|2, 1|2): Fig. 5 and 7, and D-EIGAN's nodes.

    Parameters
    ----------
    n : records per node
    n_nodes : node k has variance k times `variance`, as in Fig. 7 (the same at all with ``iid=True``);
        ``split("official")`` gives one part per node
    variance : along the axis of the target; a pair gives both axes
    adversary_variance : along the axis of the sensitive label, where it differs
    deviation : read the numbers as standard deviations, as the authors' script does
    """
    rng = np.random.default_rng(random_state)
    across, along = (variance, adversary_variance) if np.isscalar(variance) else tuple(variance)  # type: ignore[arg-type]
    both = np.array([across, across if along is None else along], dtype=float)
    if not (both > 0).all() or n_nodes < 1 or n < 1:
        raise InputError(f"gaussians needs n, n_nodes and variance above 0; found {n}, {n_nodes}, {both.tolist()}")
    node = np.repeat(np.arange(1, n_nodes + 1), n)
    corner = rng.integers(2, size=(len(node), 2))
    spread = np.outer(np.ones_like(node) if iid else node, both)
    X = 1.0 + corner + (spread if deviation else np.sqrt(spread)) * rng.standard_normal((len(node), 2))
    data = _plane(X, colour=corner[:, 0] == 1, shape=corner[:, 1] == 1, name="gaussians")
    if n_nodes == 1:
        return data
    # the node is where a record is held, not what it is about: records stay independent units
    return Dataset(data.X, data.y, data.sensitive, name="gaussians", official=[f"node {k}" for k in node])


def _plane(X: np.ndarray, colour: np.ndarray, shape: np.ndarray, name: str) -> Dataset:
    return Dataset(
        X,
        pd.DataFrame({"colour": np.where(colour, "red", "blue")}),
        pd.DataFrame({"shape": np.where(shape, "x", "o")}),
        name=name,
        modality="table",
    )
