"""A network as a classifier of records: trained afresh, class-balanced, on a CPU or a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit.nets.window_nets import Factory


class NetworkClassifier:
    """Fit a network of `make` to codes 0 .. n_classes - 1, every class weighing the same.

    Parameters
    ----------
    make : factory (shape of a record, n_out) -> nn.Module
    epochs, batch_size, learning_rate : training with AdamW, the rate falling along a cosine
    balanced : weigh classes equally, so that the best answer maximizes balanced accuracy

    Examples
    --------
    >>> from tacit.nets.window_nets import wide_classifier
    >>> X = np.random.default_rng(0).standard_normal((40, 2, 32))
    >>> NetworkClassifier(wide_classifier, epochs=1).fit(X, np.arange(40) % 2, 2).predict_proba(X).shape
    (40, 2)
    """

    def __init__(
        self,
        make: Factory,
        epochs: int = 15,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        balanced: bool = True,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.make, self.epochs, self.batch_size, self.rate = make, epochs, batch_size, learning_rate
        self.balanced, self.seed, self.device = balanced, seed, torch.device(device)

    def fit(self, X: Any, codes: np.ndarray, n_classes: int) -> NetworkClassifier:
        """X is an array or a tensor of records; they are standardized channel by channel."""
        rows = self._tensor(X)
        axes = [0, *range(2, rows.ndim)]
        self.mean, self.scale = rows.mean(axes, keepdim=True), rows.std(axes, keepdim=True).clamp_min(1e-6)
        labels = torch.as_tensor(codes, device=self.device)
        counts = torch.bincount(labels, minlength=n_classes).clamp_min(1)
        weight = len(labels) / n_classes / counts if self.balanced else torch.ones(n_classes, device=self.device)
        batch = min(self.batch_size, len(rows))
        steps = self.epochs * max(1, len(rows) // batch)
        rng = np.random.default_rng(self.seed)
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(self.seed)
            self.net = self.make(tuple(rows.shape[1:]), n_classes).to(self.device).train()
            adam = torch.optim.AdamW(self.net.parameters(), lr=self.rate, weight_decay=1e-3)
            decay = torch.optim.lr_scheduler.OneCycleLR(adam, self.rate, total_steps=steps + 1, pct_start=0.15)
            for step in range(steps):
                at = step * batch % (len(rows) // batch * batch)
                if at == 0:
                    order = torch.from_numpy(rng.permutation(len(rows))).to(self.device)
                now = order[at : at + batch]
                logits = self.net((rows[now] - self.mean) / self.scale)
                loss = nn.functional.cross_entropy(logits, labels[now], weight.float())
                adam.zero_grad()
                loss.backward()
                adam.step()
                decay.step()
        self.net.eval()
        return self

    def predict_proba(self, X: Any, chunk: int = 4096) -> np.ndarray:
        rows = self._tensor(X)
        with torch.no_grad():
            parts = [self.net((r - self.mean) / self.scale) for r in rows.split(chunk)]
        return torch.softmax(torch.cat(parts), -1).double().cpu().numpy()

    def _tensor(self, X: Any) -> Tensor:
        return torch.as_tensor(X, dtype=torch.float32, device=self.device)
