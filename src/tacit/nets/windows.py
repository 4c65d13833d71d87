"""Networks for sensor windows (channels, length): an autoencoder, and classifiers of several families.

Those that are called printed are Figures 4 and 5 of the anonymizing autoencoder's paper, layer by layer. Where the text
and the figures leave something open (where the regularizers are halved, that normalization follows the activation) it
is as in the authors' published code.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Shape = tuple[int, int]  # channels, length
Factory = Callable[[Any, int], nn.Module]
SHORTEST = 16  # samples; a shorter window leaves fewer than 4 points after two halvings


class Encoder(nn.Module):
    """Windows to a code a quarter as long: (n, channels, length) -> (n, channels, ceil(length / 4)).

    Four convolutions of width 3 with SELU and normalization, halved after the second and the third, then one
    linear map per channel (Figure 4 of the anonymizing autoencoder's paper). Theirs are 1x3 over a
    channels x length picture, which never lets the sensors meet; here the first layer reads them together.
    And theirs see half a second: here what the whole window tells (mean, maximum and spread over time) is added to
    every place, because an activity is longer than that.
    """

    def __init__(self, shape: Shape, n_maps: int = 100, bounded: bool = False) -> None:
        super().__init__()
        channels, length = shape
        self.bounded = bounded  # to -1..1, so that noise has a size to compare with
        self.padding = -length % 4
        self.body = nn.Sequential(
            *_block(nn.Conv1d(channels, n_maps, 3, padding=1), n_maps),
            *_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.MaxPool1d(2),
            *_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.MaxPool1d(2),
            *_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
        )
        self.whole = nn.Sequential(nn.Linear(3 * n_maps, n_maps), nn.SELU(), nn.Linear(n_maps, n_maps))
        self.last = nn.Conv1d(n_maps, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        if self.padding:
            x = nn.functional.pad(x, (0, self.padding), mode="replicate")
        maps: Tensor = self.body(x)
        code: Tensor = self.last(maps + self.whole(over_time(maps))[..., None])
        return torch.tanh(code) if self.bounded else code


class Decoder(nn.Module):
    """The mirror of `Encoder`: transposed convolutions of strides 1, 2, 2, 1, then one linear map per channel."""

    def __init__(self, shape: Shape, n_maps: int = 100) -> None:
        super().__init__()
        channels, self.length = shape
        self.body = nn.Sequential(
            *_block(nn.ConvTranspose1d(channels, n_maps, 3, padding=1), n_maps),
            *_block(nn.ConvTranspose1d(n_maps, n_maps, 4, stride=2, padding=1), n_maps),
            *_block(nn.ConvTranspose1d(n_maps, n_maps, 4, stride=2, padding=1), n_maps),
            *_block(nn.ConvTranspose1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.Conv1d(n_maps, channels, 3, padding=1),
        )

    def forward(self, code: Tensor) -> Tensor:
        return self.body(code)[..., : self.length]


def _block(layer: nn.Module, n_maps: int) -> list[nn.Module]:
    # Normalized window by window, not over the batch as in the paper: in a game the batch's statistics never settle,
    # and what is released (by running means) is then not what the regularizers played against
    return [layer, nn.SELU(), nn.GroupNorm(1, n_maps)]


def deep_classifier(shape: Shape, n_out: int) -> nn.Module:
    """Five convolutions of width 5 and 32 maps, halved three times, then 256 and 64 (Figure 5, with batch norm).

    Examples
    --------
    >>> deep_classifier((2, 128), 24)(torch.zeros(3, 2, 128)).shape
    torch.Size([3, 24])
    """
    channels, length = shape
    layers: list[nn.Module] = []
    for i in range(5):
        layers += [nn.Conv1d(channels if i == 0 else 32, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU()]
        layers.append(nn.Dropout(0.1))
        if i in (0, 1, 2) and length > 4:
            layers.append(nn.MaxPool1d(2))
            length //= 2
    return nn.Sequential(*layers, nn.Flatten(), *_dense(32 * length, (256, 64), n_out))


def wide_classifier(shape: Shape, n_out: int, n_maps: int = 32) -> nn.Module:
    """Three convolutions of widths 9, 7, 5 with stride 2, then mean and maximum over time: sees longer shapes."""
    layers: list[nn.Module] = []
    width = shape[0]
    for kernel, maps in ((9, n_maps), (7, 2 * n_maps), (5, 2 * n_maps)):
        layers += [nn.Conv1d(width, maps, kernel, stride=2, padding=kernel // 2), nn.BatchNorm1d(maps), nn.ReLU()]
        width = maps
    return nn.Sequential(*layers, _OverTime(), nn.Dropout(0.3), nn.Linear(3 * width, n_out))


def dense_classifier(shape: Shape, n_out: int) -> nn.Module:
    """The samples themselves, without convolution: what an attacker that reads columns sees."""
    return nn.Sequential(nn.Flatten(), *_dense(prod(shape), (256, 128), n_out))


def spectrum_classifier(shape: Shape, n_out: int) -> nn.Module:
    """Level, spread and power spectrum of every channel: what stays the same when a window is shifted."""
    channels, length = shape
    return nn.Sequential(_Spectrum(), *_dense(channels * (length // 2 + 3), (256, 128), n_out))


def code_classifier(shape: Shape, n_out: int) -> nn.Module:
    """The wide classifier with twice the maps: what chooses cells must read the activity well."""
    return wide_classifier(shape, n_out, n_maps=64)


def _dense(width: int, hidden: tuple[int, ...], n_out: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for units in hidden:
        # against learning windows by heart: the autoencoder should hear of what is true of other windows too
        layers += [nn.Linear(width, units), nn.BatchNorm1d(units), nn.ReLU(), nn.Dropout(0.3)]
        width = units
    return [*layers, nn.Linear(width, n_out)]


def over_time(x: Tensor) -> Tensor:
    """Mean, maximum and spread over time of every map."""
    mean = x.mean(-1)
    spread = ((x - mean[..., None]).pow(2).mean(-1) + 1e-6).sqrt()
    return torch.cat([mean, x.amax(-1), spread], dim=-1)


class _OverTime(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return over_time(x)


class _Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        spread = ((x - mean).pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
        # the root of the power is not smooth at 0, its logarithm with an offset is
        power = torch.fft.rfft(x - mean).abs().pow(2) / x.shape[-1]
        return torch.cat([mean, spread, (power + 1e-3).log()], dim=-1).flatten(1)


PENALTY = 1e-3  # of the regularizers' squared weights, in their loss


class PrintedEncoder(nn.Module):
    """Figure 4: four 1x3 convolutions over a channels x length picture, halved after the second and the third.

    The sensors never meet in it: every channel is read by the same convolutions.

    Examples
    --------
    >>> PrintedEncoder((2, 128))(torch.zeros(3, 2, 128)).shape
    torch.Size([3, 2, 32])
    """

    def __init__(self, shape: Shape, n_maps: int = 100) -> None:
        super().__init__()
        self.padding = -shape[1] % 4
        self.body = nn.Sequential(
            *_printed_block(nn.Conv1d(1, n_maps, 3, padding=1), n_maps),
            *_printed_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.MaxPool1d(2),
            *_printed_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.MaxPool1d(2),
            *_printed_block(nn.Conv1d(n_maps, n_maps, 3, padding=1), n_maps),
            nn.Conv1d(n_maps, 1, 3, padding=1),
            nn.BatchNorm1d(1),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.padding:
            x = nn.functional.pad(x, (0, self.padding), mode="replicate")
        return _each_channel(self.body, x)


class PrintedDecoder(nn.Module):
    """Figure 4, the mirror: transposed 1x3 convolutions of strides 1, 2, 2, 1, then one linear map."""

    def __init__(self, shape: Shape, n_maps: int = 100) -> None:
        super().__init__()
        self.length = shape[1]
        self.body = nn.Sequential(
            *_printed_block(nn.ConvTranspose1d(1, n_maps, 3, padding=1), n_maps),
            *_printed_block(nn.ConvTranspose1d(n_maps, n_maps, 3, stride=2, padding=1, output_padding=1), n_maps),
            *_printed_block(nn.ConvTranspose1d(n_maps, n_maps, 3, stride=2, padding=1, output_padding=1), n_maps),
            nn.ConvTranspose1d(n_maps, n_maps, 3, padding=1),
            nn.SELU(),
            nn.Conv1d(n_maps, 1, 3, padding=1),
        )

    def forward(self, code: Tensor) -> Tensor:
        return _each_channel(self.body, code)[..., : self.length]


def printed_classifier(shape: Shape, n_out: int) -> nn.Module:
    """Figure 5 on windows (DecReg and ActReg): halved after every convolution but the first, then 256 and 64.

    Examples
    --------
    >>> printed_classifier((2, 128), 24)(torch.zeros(3, 2, 128)).shape
    torch.Size([3, 24])
    """
    return _figure5(shape, n_out, halved=(1, 2, 3, 4), hidden=(256, 64))


def printed_latent_classifier(shape: Shape, n_out: int) -> nn.Module:
    """Figure 5 on the code (EncReg): halved after the third and the fifth convolution, then 128 and 32."""
    return _figure5(shape, n_out, halved=(2, 4), hidden=(128, 32))


def _figure5(shape: Shape, n_out: int, halved: tuple[int, ...], hidden: tuple[int, int]) -> nn.Module:
    """Five 2x5 convolutions of 32 maps, each with dropout .25; dense layers with dropout .5."""
    channels, length = shape
    layers: list[nn.Module] = [nn.Unflatten(1, (1, channels))]
    for i in range(5):
        layers += [nn.ZeroPad2d((2, 2, 0, 1)), nn.Conv2d(1 if i == 0 else 32, 32, (2, 5)), nn.ReLU()]
        if i in halved and length > 1:
            layers.append(nn.MaxPool2d((1, 2)))
            length //= 2
        layers.append(nn.Dropout(0.25))
    layers.append(nn.Flatten())
    width = 32 * channels * length
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(0.5)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, n_out))


def penalty(classifier: nn.Module) -> Tensor:
    """L2 of the paper's regularizers: all weights but those of the last layer, no offsets."""
    layers = [m for m in classifier.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Linear)]
    return PENALTY * sum((m.weight.pow(2).sum() for m in layers[:-1]), layers[-1].weight.new_zeros(()))


def _printed_block(layer: nn.Module, n_maps: int) -> list[nn.Module]:
    return [layer, nn.SELU(), nn.BatchNorm1d(n_maps)]


def _each_channel(body: nn.Module, x: Tensor) -> Tensor:
    """A 1xk convolution of a picture is a convolution of each of its rows by itself."""
    return body(x.flatten(0, 1)[:, None]).unflatten(0, (-1, x.shape[1]))[:, :, 0]


CLASSIFIERS: dict[str, Factory] = {
    "deep": deep_classifier,
    "wide": wide_classifier,
    "dense": dense_classifier,
    "spectrum": spectrum_classifier,
    "printed": printed_classifier,
}


class NetworkClassifier:
    """Fit a network of `make` to codes 0 .. n_classes - 1, every class weighing the same.

    Parameters
    ----------
    make : factory (shape of a record, n_out) -> nn.Module
    epochs, batch_size, learning_rate : training with AdamW, the rate falling along a cosine
    balanced : weigh classes equally, so that the best answer maximizes balanced accuracy

    Examples
    --------
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
