"""Fig. 2 to 4 as the paper draws them: a panel for each d, secret across, target up, dotted level sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .rows import OURS, PRINTED, SECOND

MARKS = {
    "random": ("0.5", "v"),
    "PCA": ("tab:orange", "^"),
    "PPLS, as printed": ("tab:green", "s"),
    "PPLS, ours": ("tab:green", "D"),
    "DDD": ("tab:brown", "P"),
    PRINTED: ("tab:blue", "o"),
    OURS: ("tab:red", "o"),
    SECOND: ("tab:purple", "o"),
}


def draw(
    told: Mapping[int, Mapping[str, Any]],
    others: Mapping[str, Any],
    reads: Mapping[tuple[str, int], Any],
    target: str,
    secret: str,
    guessing: Mapping[str, float],
    y: tuple[float, float],
) -> Figure:
    """Filled marks with bars (one deviation over trials): the paper's reader. Crosses: fresh attackers, same filter."""
    figure = Figure(figsize=(2.7 * len(told) + 1.9, 3.4), layout="constrained")
    axes = figure.subplots(1, len(told), sharex=True, sharey=True, squeeze=False)[0]
    first = next(iter(told))
    for axis, (d, methods) in zip(axes, told.items(), strict=True):
        for name, row in {**methods, **others}.items():
            colour, mark = MARKS[name]
            axis.errorbar(row["secret"], row["target"], row["target_sd"], row["secret_sd"], fmt=mark, color=colour,
                          mfc="none" if name.endswith("ours") and "PPLS" in name else colour, ms=6, lw=1,
                          label=name)  # fmt: skip
            found = reads.get((name, first if name in others else d))
            if found:
                leak, kept = found["leakage"][secret], found["utility"][target]
                axis.plot(leak["value"], np.clip(kept["value"], *y), "x", color=colour, ms=8, mew=2)
        axis.axvline(guessing[secret], color="0.8", lw=1)
        axis.set_title(f"d = {d}")
        for gap in np.arange(-1, 1, 0.1):
            axis.plot([0, 1], [gap, 1 + gap], ":", color="0.8", lw=0.7, zorder=0)
        axis.set(xlim=(0.45, 1) if guessing[secret] > 0.4 else (0, 0.85), ylim=y)
    figure.supxlabel(f"{secret}, accuracy", fontsize=10)
    axes[0].set_ylabel(f"{target}, accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    cross = axes[0].plot([], [], "x", color="0.3", ms=8, mew=2)[0]
    figure.legend([*handles, cross], [*labels, "cross: fresh attackers\n(balanced, other rows)"],
                  loc="outside right center", frameon=False, fontsize=8)  # fmt: skip
    return figure
