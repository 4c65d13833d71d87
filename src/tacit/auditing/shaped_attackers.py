"""Attackers that know the shape of a record: a small convolutional network, and trees on spectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.auditing.series import IntervalQuantiles, RandomConvolutions
from tacit.training.trees import boosted_trees


class Convolutional:
    """A small convolutional network for windows (channels, length) or images (channels, height, width)."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape, self.seed = shape, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Convolutional:
        import torch
        from torch import nn

        conv, pool = (nn.Conv1d, nn.AdaptiveMaxPool1d) if len(self.shape) == 2 else (nn.Conv2d, nn.AdaptiveMaxPool2d)
        self.classes_ = np.unique(y)
        steps = int(np.clip(len(X) / 128 * 30, 150, 600))  # thirty epochs, within reason
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.net = nn.Sequential(
                conv(self.shape[0], 32, 5, padding=2, stride=2),
                nn.ReLU(),
                conv(32, 64, 3, padding=1, stride=2),
                nn.ReLU(),
                conv(64, 64, 3, padding=1),
                nn.ReLU(),
                pool(4 if len(self.shape) == 2 else 3),
                nn.Flatten(),
                nn.Dropout(0.25),
                nn.LazyLinear(len(self.classes_)),
            )
            rows = torch.as_tensor(X.reshape(len(X), *self.shape), dtype=torch.float32)
            labels = torch.as_tensor(np.searchsorted(self.classes_, y))
            self.net(rows[:2])  # sets the last layer's width
            rng = np.random.default_rng(self.seed)
            adam = torch.optim.AdamW(self.net.parameters(), lr=2e-3, weight_decay=1e-3)
            decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
            self.net.train()
            for _ in range(steps):
                now = torch.from_numpy(rng.integers(len(rows), size=min(128, len(rows))))
                loss = nn.functional.cross_entropy(self.net(rows[now]), labels[now])
                adam.zero_grad()
                loss.backward()
                adam.step()
                decay.step()
        self.net.eval()
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        import torch

        rows = torch.as_tensor(X.reshape(len(X), *self.shape), dtype=torch.float32)
        with torch.no_grad():
            parts = [torch.softmax(self.net(rows[i : i + 2048]), -1).numpy() for i in range(0, len(rows), 2048)]
        return np.concatenate(parts).astype(np.float64)


class SpectralTrees:
    """Boosted trees on what a window's channels look like: level, spread, range and power spectrum."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape, self.seed = shape, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> SpectralTrees:
        features = self._features(X)
        self.model: Any = boosted_trees(features.shape, len(np.unique(y)), self.seed, rounds=100).fit(features, y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(self._features(X))

    def _features(self, X: np.ndarray) -> np.ndarray:
        return spectral_features(X.reshape(len(X), *self.shape))


def spectral_features(windows: np.ndarray) -> np.ndarray:
    """What the channels of windows (n, channels, length) look like: level, spread, range and power spectrum."""
    power = np.log(np.abs(np.fft.rfft(windows, axis=-1)) ** 2 + 1e-6)
    moments = [windows.mean(-1), windows.std(-1), windows.min(-1), windows.max(-1)]
    return np.concatenate([*moments, power.reshape(len(windows), -1)], axis=1)


# by name: the attacker, and the numbers of axes of a record that it reads
SHAPED: dict[str, tuple[Any, tuple[int, ...]]] = {
    "convolutional": (Convolutional, (2, 3)),
    "spectrum": (SpectralTrees, (2,)),
    "quantiles": (IntervalQuantiles, (2,)),
    "convolutions": (RandomConvolutions, (2,)),
}
QUICK_SHAPED = ("convolutional", "spectrum")
