"""Figures of a network cut in two: reconstructions, and accuracy against privacy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tacit.errors import InputError

PRIVACY = {
    "log_rank": "log-rank privacy, best of our attackers",
    "kernel_log_rank": "log-rank privacy, kernel density (the paper's reader)",
    "nn_error": "1-NN error",
    "rank_mean": "mean rank",
}


def draw_curves(curves: Mapping[str, pd.DataFrame], privacy: str = "log_rank") -> Figure:
    """Privacy against accuracy over the noise, one line a model (DPFE, figure 6).

    Parameters
    ----------
    curves : by the model's name, what `papers.common.noise_curve.noise_curve` returns
    privacy : the column to draw: "log_rank", "nn_error" or "rank_mean"
    """
    for name, curve in curves.items():
        if privacy not in curve:
            raise InputError(f"the curve of {name!r} has no column {privacy!r}; it has {', '.join(curve.columns)}")
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    guessing = next(iter(curves.values()))[f"{privacy}_guessing"].iloc[0]
    axes.axhline(guessing, color="#888888", linestyle=":", linewidth=1)
    for i, (name, curve) in enumerate(curves.items()):
        axes.errorbar(
            curve["accuracy"],
            curve[privacy],
            xerr=_bars(curve, "accuracy"),
            yerr=_bars(curve, privacy),
            fmt="o-",
            color=f"C{i}",
            capsize=2,
            linewidth=1,
            markersize=4,
            label=name,
        )
        axes.annotate(f"r={curve['ratio'].iloc[0]:g}", (curve["accuracy"].iloc[0], curve[privacy].iloc[0]), fontsize=7)
    axes.set_xlabel("accuracy of the cloud's answers (mean over targets)")
    axes.set_ylabel(f"{PRIVACY.get(privacy, privacy)} (up is private)")
    axes.set_title("Better is up and to the right; the dotted line is guessing; points are noise ratios", fontsize=9)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_reconstructions(raw: np.ndarray, rebuilt: Mapping[str, np.ndarray], most: int = 8) -> Figure:
    """Records above what an attacker rebuilds from each release (DPFE, figure 10).

    Parameters
    ----------
    raw : (n, c, h, w) images or (n, channels, length) windows
    rebuilt : by the release's name, the same records as rebuilt: ``tacit.auditing.likeness.reconstruction(...).guess``
    most : how many records to show
    """
    rows = {"original": np.asarray(raw), **{name: np.asarray(r) for name, r in rebuilt.items()}}
    for name, values in rows.items():
        if values.shape != rows["original"].shape or values.ndim not in (3, 4):
            raise InputError(f"{name!r} has shape {values.shape}; images or windows of the originals' shape are needed")
    n = min(most, len(raw))
    figure = Figure(figsize=(1.1 * n + 1, 1.1 * len(rows) + 0.4), layout="constrained")
    grid = figure.subplots(len(rows), n, squeeze=False)
    low, high = float(np.min(raw[:n])), float(np.max(raw[:n]))
    for line, (name, values) in zip(grid, rows.items(), strict=True):
        for axes, value in zip(line, values[:n], strict=True):
            if value.ndim == 3:
                shown = value[0] if value.shape[0] == 1 else np.clip(np.moveaxis(value[:3], 0, -1), 0, 1)
                axes.imshow(shown, cmap="gray", vmin=low, vmax=high)
            else:
                axes.plot(value.T, linewidth=0.7)
                axes.set_ylim(low, high)
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_ylabel(name, fontsize=8)
    return figure


def _bars(curve: pd.DataFrame, name: str) -> np.ndarray:
    low, high = curve[name] - curve[f"{name}_low"], curve[f"{name}_high"] - curve[name]
    return np.clip(np.stack([low, high]), 0, None)
