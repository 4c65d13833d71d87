"""Networks for sensor windows (channels, length): an autoencoder, and classifiers of several families."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from tacit.nets.printed_window_nets import printed_classifier

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


CLASSIFIERS: dict[str, Factory] = {
    "deep": deep_classifier,
    "wide": wide_classifier,
    "dense": dense_classifier,
    "spectrum": spectrum_classifier,
    "printed": printed_classifier,
}


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
