"""Figures of windows before and after a filter (Figures 7 to 9 of the anonymizing autoencoder's paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.signal import spectrogram
from sklearn.decomposition import PCA

from tacit.errors import InputError


def latent_figure(codes: Any, labels: Sequence[tuple[str, Any]], seed: int = 0, most: int = 3000) -> Figure:
    """Codes in two dimensions (their first principal components), once per label column (Figure 7).

    Parameters
    ----------
    codes : (n, ...) latents or releases; flattened
    labels : (title, one label per record) pairs, such as [("activity", ...), ("user", ...)]
    most : records drawn, chosen at random

    Examples
    --------
    >>> codes = np.random.default_rng(0).standard_normal((50, 2, 8))
    >>> len(latent_figure(codes, [("activity", ["walk", "run"] * 25)]).axes)
    1
    """
    flat = np.asarray(codes, dtype=float).reshape(len(codes), -1)
    if len(flat) < 3 or flat.shape[1] < 2:
        raise InputError(f"a plane needs three records of two numbers at least; found {flat.shape}")
    chosen = np.random.default_rng(seed).permutation(len(flat))[:most]
    plane = PCA(2, random_state=seed).fit_transform(flat[chosen])
    figure = Figure(figsize=(5 * len(labels), 4.2), layout="constrained")
    for axis, (title, column) in zip(figure.subplots(1, len(labels), squeeze=False)[0], labels, strict=True):
        names, which = np.unique(np.asarray(column)[chosen].astype(str), return_inverse=True)
        axis.scatter(*plane.T, c=which, s=5, cmap="tab10" if len(names) <= 10 else "nipy_spectral", linewidths=0)
        axis.set(title=f"by {title}", xlabel="first component", ylabel="second component")
        if len(names) <= 10:
            colours = axis.collections[0]
            for i, name in enumerate(names):
                axis.scatter([], [], s=20, color=colours.cmap(colours.norm(i)), label=name)
            axis.legend(frameon=False, fontsize=8)
    return figure


def waveform_figure(raw: Any, released: Any, titles: Sequence[str], channels: Sequence[str] = ()) -> Figure:
    """Windows before and after, one column per window, two rows per channel (Figure 8).

    Parameters
    ----------
    raw, released : (n, channels, length), row by row of the same record; a few of them
    titles : one per window, such as the activities
    channels : their names

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((2, 1, 32))
    >>> len(waveform_figure(X, X, ["walk", "run"]).axes)
    4
    """

    def draw(axis: Any, wave: np.ndarray) -> None:
        axis.plot(wave, linewidth=1)

    return _before_and_after(raw, released, titles, channels, draw, "sample")


def spectrogram_figure(
    raw: Any, released: Any, titles: Sequence[str], channels: Sequence[str] = (), rate: float = 50.0
) -> Figure:
    """Spectrograms before and after, arranged as `waveform_figure` (Figure 9); `rate` in samples a second."""

    def power(wave: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        size = max(8, len(wave) // 4)
        frequency, moment, found = spectrogram(wave, rate, nperseg=min(size, len(wave)), noverlap=size // 2)
        return moment, frequency, 10 * np.log10(found + 1e-10)

    def draw(axis: Any, wave: np.ndarray) -> None:
        axis.pcolormesh(*power(wave), shading="nearest", vmin=top - 80, vmax=top)

    waves = np.asarray(raw, dtype=float).reshape(-1, np.shape(raw)[-1])
    top = max((float(power(wave)[2].max()) for wave in waves), default=0.0)
    figure = _before_and_after(raw, released, titles, channels, draw, "seconds")
    figure.suptitle(f"Hz over seconds; dark to bright: {top - 80:.0f} to {top:.0f} dB", fontsize=8)
    return figure


def _before_and_after(
    raw: Any, released: Any, titles: Sequence[str], channels: Sequence[str], draw: Any, across: str
) -> Figure:
    """A window and its release stand on one scale, so that heights compare; `across` is what runs to the right."""
    raw, released = np.asarray(raw, dtype=float), np.asarray(released, dtype=float)
    if raw.ndim != 3 or raw.shape != released.shape or len(titles) != len(raw):
        raise InputError(
            f"raw and released windows must be (n, channels, length) alike, with n titles; found {raw.shape}, "
            f"{released.shape} and {len(titles)} titles"
        )
    names = list(channels) or [f"channel {c}" for c in range(raw.shape[1])]
    figure = Figure(figsize=(2.6 * len(raw), 1.7 * 2 * len(names)), layout="constrained")
    axes = figure.subplots(2 * len(names), len(raw), squeeze=False)
    for column, title in enumerate(titles):
        axes[0, column].set_title(title, fontsize=9)
        for c, name in enumerate(names):
            for row, (word, windows) in enumerate((("raw", raw), ("released", released))):
                axis = axes[2 * c + row, column]
                draw(axis, windows[column, c])
                axis.tick_params(labelsize=6)
                if column == 0:
                    axis.set_ylabel(f"{name}\n{word}", fontsize=8)
            axes[2 * c, column].sharey(axes[2 * c + 1, column])
            axes[2 * c, column].autoscale()
        axes[-1, column].set_xlabel(across, fontsize=8)
    return figure
