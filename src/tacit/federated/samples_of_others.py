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

from tacit.solvers.inner import Evaluation


class WeightedSoftmax:
    """Softmax regression over own rows and fixed rows, every row with its weight (weights sum to 1).

    Parameters
    ----------
    own, own_weight : class of each own row (n,), and its weight
    fixed, labels, weight : the others' rows (m, d), their classes, their weights
    """

    def __init__(
        self,
        own: np.ndarray,
        own_weight: np.ndarray,
        fixed: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray,
        n_classes: int,
        ridge: float,
    ) -> None:
        self.fixed, self.width, self.ridge = torch.from_numpy(fixed), fixed.shape[1], ridge
        codes = np.concatenate([own, labels])
        weights = np.concatenate([own_weight, weight])
        self.weights = weights / weights.sum()
        self.own_rows = (np.eye(n_classes)[codes] * self.weights[:, None]).T  # weight at the row's own class
        self.codes, self.n_classes = torch.from_numpy(codes), n_classes

    def start(self) -> Tensor:
        return torch.zeros((self.width + 1) * self.n_classes, dtype=torch.float64)

    def risk(self, z: Tensor, parameters: Tensor) -> Tensor:
        table = parameters.view(self.width + 1, -1)
        logits = torch.addmm(table[-1], torch.cat([z, self.fixed]), table[:-1])
        losses = torch.nn.functional.cross_entropy(logits, self.codes, reduction="none")
        return (torch.from_numpy(self.weights) * losses).sum() + self.ridge * (parameters * parameters).sum()

    def at(self, z: Tensor, dz: Tensor | None = None) -> Evaluation:
        """The risk (plus its slope along dz, where only own rows move) and its gradient, written out for speed."""
        rows = np.concatenate([torch.cat([z, self.fixed]).numpy().T, np.ones((1, len(self.weights)))])
        n = len(z)
        moved = None if dz is None else np.concatenate([dz.numpy().T, np.zeros((1, n))])

        def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
            table = flat.reshape(self.width + 1, -1)
            logits = table.T @ rows
            logits -= logits.max(axis=0)
            p = np.exp(logits)
            sums = p.sum(axis=0)
            p /= sums
            total = self.ridge * float(flat @ flat)
            total += float(np.log(sums) @ self.weights) - float(np.vdot(self.own_rows, logits))
            residual = p * self.weights - self.own_rows
            gradient = 2 * self.ridge * table + rows @ residual.T
            if moved is not None:
                slope = table.T @ moved
                total += float(np.vdot(residual[:, :n], slope))
                turn = p[:, :n] * (slope - (p[:, :n] * slope).sum(axis=0)) * self.weights[:n]
                gradient += moved @ residual[:, :n].T + rows[:, :n] @ turn.T
            return total, gradient.ravel()

        return evaluate


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
    counts, means = statistics["counts"].astype(float), statistics["means"]
    d = means.shape[1]
    gram, cross = np.zeros((d + 1, d + 1)), np.zeros((d + 1, len(counts)))
    for c, n in enumerate(counts):
        mean = np.append(means[c], 1.0)
        gram += n * np.outer(mean, mean)
        gram[:d, :d] += _square(statistics["scatter"][c], d)
        cross[:, c] = n * mean
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
