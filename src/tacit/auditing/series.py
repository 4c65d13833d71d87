"""Attackers for windows: quantiles of intervals, and random convolutions, each with a plain head.

After QUANT (Dempster, Schmidt and Webb, 2024) and ROCKET and Hydra (Dempster, Petitjean and Webb, 2020; Dempster,
Schmidt and Webb, 2023), written afresh and smaller.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import RidgeCV

from tacit.auditing.weighing import softmax_link
from tacit.cores import threads

DEPTHS = 5  # intervals: the whole, halves, quarters, eighths, sixteenths
SHARE = 4  # one quantile for this many samples
MAX_QUANTILES = 3000
KERNEL, KERNELS, GROUP = 9, 64, 8  # samples of a kernel, kernels of a dilation, kernels that compete
CHANNELS = 4  # that one kernel reads at most
BATCH = 512


class IntervalQuantiles:
    """A forest on quantiles of intervals of each channel, of its differences and of its spectrum."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape, self.seed = shape, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> IntervalQuantiles:
        features = self._features(X)
        self.model = ExtraTreesClassifier(
            150, max_features=0.05, criterion="entropy", random_state=self.seed, n_jobs=threads()
        ).fit(features, y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.model.predict_proba(self._features(X))
        return found

    def _features(self, X: np.ndarray) -> np.ndarray:
        windows = X.reshape(len(X), *self.shape).astype(np.float32)
        views = [windows, np.diff(windows, axis=-1), np.abs(np.fft.rfft(windows, axis=-1)).astype(np.float32)]
        each = sum(v.shape[-1] for v in views) * self.shape[0] / SHARE
        depths = int(np.clip(MAX_QUANTILES // max(each, 1), 1, DEPTHS))
        parts = [q for v in views for d in range(depths) for q in _quantiles(v, 2**d)]
        return np.concatenate(parts, axis=1)


def _quantiles(view: np.ndarray, pieces: int) -> list[np.ndarray]:
    length = view.shape[-1]
    if length < pieces:
        return []
    out = []
    edges = np.linspace(0, length, pieces + 1).astype(int)
    for low, high in pairwise(edges):
        ordered = np.sort(view[..., low:high], axis=-1)
        at = np.linspace(0, high - low - 1, max(1, (high - low) // SHARE)).round().astype(int)
        if len(at) == 1:
            at = np.array([(high - low) // 2])
        out.append(ordered[..., at].reshape(len(view), -1))
    return out


class RandomConvolutions:
    """Ridge regression on what random kernels find: how often, how strongly, and which of a group most often."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape, self.seed = shape, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> RandomConvolutions:
        self.classes_, codes = np.unique(y, return_inverse=True)
        rng = np.random.default_rng(self.seed)
        self._draw(X, rng)
        features = self._features(X)
        self.mean, self.scale = features.mean(axis=0), features.std(axis=0) + 1e-6
        features = (features - self.mean) / self.scale
        signs = np.where(np.eye(len(self.classes_))[codes] > 0, 1.0, -1.0)
        held = rng.random(len(y)) < 0.2
        if any(len(np.unique(codes[part])) < len(self.classes_) for part in (held, ~held)):
            held[:] = False  # too few rows to hold any back
        judge = held if held.any() else ~held
        self.ridge = RidgeCV(np.logspace(0, 5, 6)).fit(features[~held], signs[~held])
        self.slope, self.offsets, _ = softmax_link(self._margins(features[judge]), codes[judge])
        if held.any():
            self.ridge = RidgeCV([self.ridge.alpha_]).fit(features, signs)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        margins = self._margins((self._features(X) - self.mean) / self.scale)
        logits = self.slope * margins + self.offsets
        p: np.ndarray = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def _margins(self, features: np.ndarray) -> np.ndarray:
        margins: np.ndarray = self.ridge.predict(features)
        return margins

    def _draw(self, X: np.ndarray, rng: np.random.Generator) -> None:
        """Kernels of every dilation that fits, and thresholds that their answers to a few windows cross."""
        channels, length = self.shape
        self.dilations = [2**i for i in range(12) if (KERNEL - 1) * 2**i < length] or [1]
        self.kernels = []
        for _ in self.dilations:
            kernel = rng.standard_normal((KERNELS, channels, KERNEL))
            kernel -= kernel.mean(axis=-1, keepdims=True)
            for one in kernel:
                one[rng.permutation(channels)[int(rng.integers(1, CHANNELS + 1)) :]] = 0
            self.kernels.append(kernel.astype(np.float32))
        some = X[rng.permutation(len(X))[:64]]
        share = rng.random(KERNELS)
        self.thresholds = []
        for i in range(len(self.dilations)):
            answers = self._answers(some, i)  # (64, KERNELS, length)
            flat = answers.transpose(1, 0, 2).reshape(KERNELS, -1)
            self.thresholds.append(np.array([np.quantile(a, q) for a, q in zip(flat, share, strict=True)], np.float32))

    def _answers(self, X: np.ndarray, i: int) -> np.ndarray:
        import torch

        dilation = self.dilations[i]
        rows = torch.as_tensor(X.reshape(len(X), *self.shape), dtype=torch.float32)
        with torch.no_grad():
            answer = torch.nn.functional.conv1d(
                rows, torch.from_numpy(self.kernels[i]), padding=(KERNEL - 1) * dilation // 2, dilation=dilation
            )
        found: np.ndarray = answer.numpy()
        return found

    def _features(self, X: np.ndarray) -> np.ndarray:
        parts = []
        for low in range(0, len(X), BATCH):
            found = []
            for i, threshold in enumerate(self.thresholds):
                answers = self._answers(X[low : low + BATCH], i)
                found += [(answers > threshold[:, None]).mean(axis=-1), answers.max(axis=-1)]
                groups = answers.reshape(len(answers), -1, GROUP, answers.shape[-1])
                winner = groups.argmax(axis=2)
                found += [(winner == k).mean(axis=-1) for k in range(GROUP)]
            parts.append(np.concatenate(found, axis=1))
        return np.concatenate(parts).astype(np.float64)
