"""The network among the attackers: two hidden layers, trained for any number of releases and labels as one stack.

Its weights are the mean over the second half of the training, which knows the noise of its rows less by heart.

A stack is one set of arrays with a leading axis; every member goes the way it would go alone, step by step: its first
weights and its batches depend on its own seed and rows. Written for arrays, so that NumPy trains it on a processor,
and PyTorch, where a device is named, on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tacit.training.adam import adam_step

RATE, DECAY = 2e-3, 1e-3  # Adam's, and the weights' decay
AT_ONCE = 16_384  # rows that are answered
CHUNK = 40  # steps whose batches are drawn at once


class Perceptron:
    """A multi-layer perceptron: softmax over two hidden layers of rectifiers, by Adam.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> together = fit_together([Perceptron(0), Perceptron(0)], [X, X], [y, 1 - y])
    >>> bool((Perceptron(0).fit(X, y).predict_proba(X) == together[0].predict_proba(X)).all())
    True
    """

    classes_: np.ndarray
    weights: list[np.ndarray]

    def __init__(self, seed: int, width: int = 64, epochs: int = 20) -> None:
        self.seed, self.width, self.epochs = seed, width, epochs

    def fit(self, X: np.ndarray, y: np.ndarray) -> Perceptron:
        return fit_together([self], [X], [y])[0]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        parts = [self._answers(X[i : i + AT_ONCE].astype(np.float32)) for i in range(0, len(X), AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes_)))

    def _answers(self, X: np.ndarray) -> np.ndarray:
        *_, logits = _forward([w[None] for w in self.weights], X[None])
        return _softmax(np, logits[0].astype(np.float64))


def fit_together(
    models: Sequence[Perceptron], tables: Sequence[np.ndarray], labels: Sequence[np.ndarray], device: str = "cpu"
) -> list[Perceptron]:
    """Train each on its own rows, those of one shape side by side."""
    games = [_Game(*given) for given in zip(models, tables, labels, strict=True)]
    # who takes most steps comes first: those that are done leave the stack at its end
    for _, alike in groupby(sorted(games, key=lambda g: (g.shape, -g.steps)), key=lambda g: g.shape):
        _train(list(alike), device)
    return list(models)


class _Game:
    """One network's rows, batches and first weights."""

    def __init__(self, model: Perceptron, X: np.ndarray, y: np.ndarray) -> None:
        model.classes_, codes = np.unique(y, return_inverse=True)
        self.model, self.X, self.codes = model, np.ascontiguousarray(X, dtype=np.float32), codes.ravel()
        self.shape = X.shape[1], model.width, len(model.classes_)
        self.batch = min(len(X), int(np.clip(len(X) // 40, 32, 512)))
        self.per_epoch = max(1, len(X) // self.batch)
        self.steps = model.epochs * self.per_epoch
        self.rng = np.random.default_rng(model.seed)
        n, w, m = self.shape
        self.start = [part for pair in ((n, w), (w, w), (w, m)) for part in self._layer(*pair)]
        if m == 2:
            for part in self.start[-2:]:
                part[:, 0] = 0
        self.order = np.empty(0, dtype=np.int64)

    def _layer(self, n_in: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
        reach = np.sqrt(6 / (n_in + n_out))
        drawn = self.rng.uniform(-reach, reach, size=(n_in + 1, n_out)).astype(np.float32)
        return drawn[:-1], drawn[-1:]

    def rows(self, steps: int, wide: int) -> np.ndarray:
        """The next batches, (steps, wide); a new shuffle begins when one is used up. Places beyond a batch are 0."""
        out = np.zeros((steps, wide), dtype=np.int64)
        for now in out:
            if len(self.order) < self.batch:
                self.order = self.rng.permutation(len(self.X))
            now[: self.batch], self.order = self.order[: self.batch], self.order[self.batch :]
        return out


def _train(games: list[_Game], device: str) -> None:
    """All steps of networks of one shape; `games` is ordered by their number."""
    xp, put = _arrays(device)
    weights = [put(np.stack(parts)) for parts in zip(*(g.start for g in games), strict=True)]
    state = [(xp.zeros_like(w), xp.zeros_like(w)) for w in weights]
    means = [xp.zeros_like(w) for w in weights]
    wide, long, (n, _, m) = max(g.batch for g in games), max(len(g.X) for g in games), games[0].shape
    X, truth = np.zeros((len(games), long, n), np.float32), np.zeros((len(games), long, m), np.float32)
    for i, g in enumerate(games):
        X[i, : len(g.X)], truth[i, np.arange(len(g.X)), g.codes] = g.X, 1
    batches = np.array([g.batch for g in games])[:, None, None]
    share = np.where(np.arange(wide)[:, None] < batches, 1 / batches, 0).astype(np.float32)
    X, truth, share, decay = put(X), put(truth), put(share), put((DECAY / batches).astype(np.float32))
    member, steps = put(np.arange(len(games))[:, None]), np.array([g.steps for g in games])
    half = steps // 2
    for step in range(games[0].steps):
        if step % CHUNK == 0:
            rows = put(np.stack([g.rows(CHUNK, wide) for g in games], axis=1))
        k = int((steps > step).sum())
        now, own = (member[:k], rows[step % CHUNK, :k]), [w[:k] for w in weights]
        slopes = _slopes(xp, own, X[now], truth[now], share[:k], decay[:k])
        for w, slope, moments in zip(own, slopes, state, strict=True):
            adam_step(w, slope, [moment[:k] for moment in moments], step + 1, RATE)
        if step >= half[k - 1]:  # who takes fewest steps is halfway first
            ending = put(((step >= half) / (steps - half))[:k, None, None].astype(np.float32))
            for w, mean in zip(own, means, strict=True):
                mean[:k] += ending * w
    for i, g in enumerate(games):
        g.model.weights = [mean[i] if xp is np else mean[i].cpu().numpy() for mean in means]


def _forward(weights: Sequence[Any], X: Any) -> tuple[Any, Any, Any]:
    """Both hidden layers and the logits, (members, rows, ...) each."""
    a, a0, b, b0, c, c0 = weights
    one = X @ a
    one += a0
    one *= one > 0
    two = one @ b
    two += b0
    two *= two > 0
    return one, two, two @ c + c0


def _slopes(xp: Any, weights: Sequence[Any], X: Any, truth: Any, share: Any, decay: Any) -> list[Any]:
    """Of the mean cross-entropy over a batch and the weights' decay, for each array of weights."""
    one, two, logits = _forward(weights, X)
    error = _softmax(xp, logits)
    error -= truth
    error *= share
    if logits.shape[-1] == 2:  # one logit is enough, and learns a little less by heart
        error[..., 0] = 0
    back_two = error @ weights[4].swapaxes(1, 2)
    back_two *= two > 0
    back_one = back_two @ weights[2].swapaxes(1, 2)
    back_one *= one > 0
    slopes = []
    for below, back, w in ((X, back_one, weights[0]), (one, back_two, weights[2]), (two, error, weights[4])):
        slopes += [below.swapaxes(1, 2) @ back + decay * w, back.sum(1)[:, None]]
    return slopes


def _softmax(xp: Any, logits: Any) -> Any:
    p = xp.exp(logits - xp.amax(logits, -1)[..., None])
    p /= p.sum(-1)[..., None]
    return p


def _arrays(device: str) -> tuple[Any, Any]:
    """NumPy, or PyTorch on its device; and what brings an array there."""
    if device == "cpu":
        return np, lambda array: array
    import torch  # only where a GPU is asked for

    return torch, lambda array: torch.as_tensor(array, device=device)
