"""The figure of `tacit release profile` (DPFE, Figure 11): what each cut costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

PANELS = (
    ("milliseconds", "time, ms"),
    ("memory", "memory, bytes"),
    ("multiply_adds", "multiply-adds"),
    ("bytes", "sent, bytes (log scale)"),
)


def profile_figure(costs: pd.DataFrame, title: str = "") -> Figure:
    """Time, memory, multiply-adds and bytes sent, a bar for each cut in the order of the layers.

    Parameters
    ----------
    costs : of `tacit.profile`

    Examples
    --------
    >>> from torch import nn, ones
    >>> import tacit
    >>> len(profile_figure(tacit.profile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), ones(1, 4))).axes)
    4
    """
    figure = Figure(figsize=(11, 1.4 + 0.28 * len(costs)), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, (column, label) in zip(axes, PANELS, strict=True):
        colours = ["#c44e52" if column == "bytes" else "#4c72b0"] * len(costs)
        axis.barh(range(len(costs)), costs[column], color=colours)
        axis.set_xlabel(label)
        axis.grid(axis="x", linewidth=0.4, alpha=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        if column == "bytes":
            axis.set_xscale("log")  # a narrow layer sends hundreds of times less than a wide one
        else:
            axis.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))
        axis.tick_params(labelsize=8)
    axes[0].set_yticks(range(len(costs)), [str(c) for c in costs["cut"]], fontsize=8)
    axes[0].invert_yaxis()  # the first layer on top, as a record passes them
    figure.suptitle(title, fontsize=10)
    return figure
