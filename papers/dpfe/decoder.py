"""An image from a code: transposed convolutions, to see what a release shows (DPFE, figure 10)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

WIDTHS = (128, 64, 32)


def decoder(n_in: int, image: tuple[int, int, int]) -> nn.Sequential:
    """A dense layer, then three transposed convolutions that double the size, then the picture's channels, 0 to 1.

    Examples
    --------
    >>> decoder(10, (1, 30, 32))(torch.zeros(2, 10)).shape
    torch.Size([2, 1, 30, 32])
    """
    channels, height, width = image
    start = (-(-height // 8), -(-width // 8))
    layers: list[nn.Module] = [nn.Linear(n_in, WIDTHS[0] * start[0] * start[1]), nn.Unflatten(1, (WIDTHS[0], *start))]
    for before, after in zip(WIDTHS, (*WIDTHS[1:], WIDTHS[-1]), strict=True):
        layers += [nn.BatchNorm2d(before), nn.LeakyReLU(0.2), nn.ConvTranspose2d(before, after, 4, 2, 1)]
    layers += [nn.LeakyReLU(0.2), nn.Conv2d(WIDTHS[-1], channels, 3, padding=1), nn.Sigmoid(), Cropped(height, width)]
    return nn.Sequential(*layers)


class Cropped(nn.Module):
    """The upper left corner of this size: doubling gives multiples of eight."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, x: Tensor) -> Tensor:
        return x[..., : self.height, : self.width]


def rebuild(
    released: np.ndarray,
    images: np.ndarray,
    others: np.ndarray,
    epochs: int,
    seed: int = 0,
    device: torch.device | str = "cpu",
    batch_size: int = 32,
    learning_rate: float = 1e-3,
) -> np.ndarray:
    """Learn to draw `images` (n, channels, height, width; 0 to 1) from their releases, and draw those of `others`.

    A fifth of the rows is kept back, and the state that draws these best is the one that draws the others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, x = rng.standard_normal((40, 4)), rng.random((40, 1, 16, 16))
    >>> rebuild(z, x, z[:3], epochs=1).shape
    (3, 1, 16, 16)
    """
    rng = np.random.default_rng(seed)
    flat = [np.asarray(a, np.float32).reshape(len(a), -1) for a in (released, others)]
    mean, spread = flat[0].mean(axis=0), flat[0].std(axis=0) + 1e-6
    z, new = (torch.from_numpy((a - mean) / spread).to(device) for a in flat)
    x = torch.as_tensor(np.asarray(images, np.float32), device=device)
    order = rng.permutation(len(z))
    held, rows = order[: max(1, len(z) // 5)], order[max(1, len(z) // 5) :]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = decoder(z.shape[1], (x.shape[1], x.shape[2], x.shape[3])).to(device)
    adam = torch.optim.Adam(net.parameters(), lr=learning_rate)
    best, drawn = float("inf"), new.new_zeros((len(new), *x.shape[1:]))
    for _ in range(epochs):
        net.train()
        for part in np.array_split(rng.permutation(rows), max(1, len(rows) // batch_size)):
            chosen = torch.from_numpy(part).to(device)
            loss = nn.functional.mse_loss(net(z[chosen]), x[chosen])
            adam.zero_grad()
            loss.backward()
            adam.step()
        net.eval()
        with torch.no_grad():
            error = float(nn.functional.mse_loss(net(z[torch.from_numpy(held).to(device)]), x[held]))
            if error < best:
                best, drawn = error, net(new)
    return drawn.cpu().numpy().astype(float)
