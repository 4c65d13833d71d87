"""What a contributor of the personal minimax protocol learns of the others: their filtered samples, or statistics.

Heads here read the contributor's own code, which moves, beside the others' samples, which stand still. With the squared
loss the others enter through sums alone, so statistics are exact. With the logistic loss statistics are an
approximation: in every class of the target the others' samples are replaced by made-up ones that have the
same mean and the same covariance (two for each direction of spread).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from tacit.labels import Labels
from tacit.solvers.heads import SoftmaxHeads


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
