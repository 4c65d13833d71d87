"""An ensemble of networks in one: the members share their weights but for a vector on each side of every layer.

After TabM (Gorishniy, Kotelnikov and Babenko, 2025), smaller: the members' probabilities are averaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MEMBERS, WIDTH, BATCH = 8, 96, 256
MIN_STEPS, MAX_STEPS, EPOCHS = 200, 1000, 15
HELD, MAX_JUDGES = 0.15, 3000  # a share of the rows says when to stop
LOOKS, PATIENCE = 20, 5  # of them at most; so many without gain end the training
DROPPED = 26 / 256  # of hidden units, as bytes draw it


class Ensemble:
    """Eight multi-layer perceptrons that share weights; each scales a layer's inputs and outputs for itself."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Ensemble:
        import torch
        from torch import nn

        self.classes_, codes = np.unique(y, return_inverse=True)
        rng = np.random.default_rng(self.seed)
        rows, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(codes)
        held = rng.random(len(X)) < HELD
        learn, judge = np.flatnonzero(~held), np.flatnonzero(held)[:MAX_JUDGES]
        steps = int(np.clip(len(learn) * EPOCHS / BATCH, MIN_STEPS, MAX_STEPS))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.net = _shared_network(X.shape[1], len(self.classes_), rng)
            adam = torch.optim.AdamW(self.net.parameters(), lr=3e-3, weight_decay=3e-3, fused=True)
            decay = torch.optim.lr_scheduler.OneCycleLR(adam, 6e-3, steps)
            best, kept, bad = np.inf, None, 0
            for step in range(steps):
                self.net.train()
                now = torch.from_numpy(rng.choice(learn, size=min(BATCH, len(learn)), replace=False))
                answer = self.net(rows[now])
                each = labels[now].expand(MEMBERS, -1).reshape(-1)
                loss = nn.functional.cross_entropy(answer.reshape(-1, len(self.classes_)), each)
                adam.zero_grad()
                loss.backward()
                adam.step()
                decay.step()
                if len(judge) >= 30 and (step + 1) % max(1, steps // LOOKS) == 0:
                    p = self.predict_proba(X[judge])
                    found = -np.log(np.maximum(p[np.arange(len(judge)), codes[judge]], 1e-9)).mean()
                    if found < best:
                        best, bad = found, 0
                        kept = {k: v.clone() for k, v in self.net.state_dict().items()}
                    elif (bad := bad + 1) >= PATIENCE:
                        break
            if kept is not None:
                self.net.load_state_dict(kept)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        import torch

        self.net.eval()
        rows = torch.as_tensor(X, dtype=torch.float32)
        with torch.no_grad():
            parts = [torch.softmax(self.net(rows[i : i + 4096]), -1).mean(0) for i in range(0, len(rows), 4096)]
        return torch.cat(parts).numpy().astype(np.float64)


def _shared_network(n_in: int, n_out: int, rng: np.random.Generator) -> Any:
    import torch
    from torch import nn

    class Shared(nn.Module):
        """A linear layer for all members: (members, n, in) * r_k -> W -> * s_k + b_k."""

        def __init__(self, wide_in: int, wide_out: int, first: bool = False) -> None:
            super().__init__()
            self.linear = nn.Linear(wide_in, wide_out, bias=False)
            # signs make the members differ from the start; behind the first layer they differ anyway
            signs = torch.randint(0, 2, (MEMBERS, 1, wide_in)) * 2.0 - 1.0
            self.before = nn.Parameter(signs if first else torch.ones(MEMBERS, 1, wide_in))
            self.after = nn.Parameter(torch.ones(MEMBERS, 1, wide_out))
            self.offset = nn.Parameter(0.1 * torch.randn(MEMBERS, 1, wide_out))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addcmul(self.offset, self.linear(x * self.before), self.after)

    class Dropout(nn.Module):
        """The usual one, drawn byte by byte: that is five times quicker than number by number."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.training:
                return x
            kept = np.frombuffer(rng.bytes(x.numel()), dtype=np.uint8) >= round(256 * DROPPED)
            return x * torch.from_numpy(kept.astype(np.float32) / (1 - DROPPED)).view(x.shape)

    return nn.Sequential(
        Shared(n_in, WIDTH, first=True),
        nn.ReLU(),
        Dropout(),
        Shared(WIDTH, WIDTH),
        nn.ReLU(),
        Dropout(),
        Shared(WIDTH, n_out),
    )
