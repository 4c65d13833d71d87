"""Fig. 2, 10, 11, 12: synthetic groups before and after. Fig. 5, 13: overlapping classes, EIGAN and Bertran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import mannwhitneyu

import tacit
from papers.common.run import Run, honest, together

from .protocol import audit, fitted, mean_in_print, measured

# -- Fig. 2, 10, 11, 12 -------------------------------------------------------------------------------


def synthetic(run: Run) -> None:
    """Groups of points before and after: the adversary's axis collapses, the ally's stays."""
    drawn = Figure(figsize=(10.5, 5.2), layout="constrained")
    axes = drawn.subplots(2, len(SHAPES))
    for i, (figure, (data, options)) in enumerate(SHAPES.items()):
        runs = [run.part(f"{figure} seed {seed}", points, data, options, seed, run.settings) for seed in run.seeds]
        for label in runs[0]["print"]:
            hidden = label in runs[0]["audit"]["leakage"]
            leak = together([r["audit"] for r in runs])["leakage"][label] if hidden else None
            mean_in_print(run, f"{figure}, {data}", label, runs, "collapsed" if hidden else "kept", leak=leak)
        for row, which in enumerate(("before", "after")):
            scatter(axes[row, i], np.array(runs[0][which]), runs[0]["colour"], runs[0]["marker"])
        axes[0, i].set_title(f"{figure}: {data}", fontsize=9)
        run.audited("EIGAN, l=2", f"{data}, {figure}",
                    [r["audit"] for r in runs])  # fmt: skip
    axes[0, 0].set_ylabel("before")
    axes[1, 0].set_ylabel("after")
    drawn.supxlabel(
        "one dot a record: its colour is what the ally wants to know, its shape what the adversary does", fontsize=8
    )
    run.figure("synthetic", drawn)


SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "Fig. 2": ("octants", {"allies": 2}),
    "Fig. 10": ("quadrants", {}),
    "Fig. 11": ("circles", {}),
    "Fig. 12": ("octants", {"allies": 1}),
}


def points(data: str, options: Mapping[str, int], seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = tacit.load_dataset(data, n=2 * s["n"], random_state=seed, **options).split(
        (0.5, 0.25, 0.25), random_state=seed
    )
    release = fitted(tacit.EIGAN(2, epochs=s["epochs"], random_state=seed), parts[0], seed)
    shown = parts[2].take(np.arange(min(250, len(parts[2]))))
    axes = shown.X[:, [0, 2]] if shown.X.shape[1] == 3 else shown.X  # of three, an ally's and the adversary's
    return {
        **measured(release, parts, seed, s, floor=True),
        "before": axes.round(3),
        "after": release.transform(shown.X).round(3),
        "colour": pd.factorize(shown.y.astype(str).agg(" ".join, axis=1), sort=True)[0],
        "marker": pd.factorize(shown.sensitive.astype(str).agg(" ".join, axis=1), sort=True)[0],
    }


def scatter(axis: Any, where: np.ndarray, colours: Sequence[int], markers: Sequence[int]) -> None:
    """Colours are what the allies want to know, shapes what the adversaries do."""
    palette, shapes = ["tab:blue", "tab:red", "tab:cyan", "tab:orange"], "oxs*"
    for c in np.unique(colours):
        for m in np.unique(markers):
            inside = (np.array(colours) == c) & (np.array(markers) == m)
            axis.plot(*where[inside].T, shapes[m], color=palette[c], ms=3, alpha=0.6, rasterized=True)


# -- Fig. 5 and 13 ------------------------------------------------------------------------------------


def fig5(run: Run) -> None:
    """Four Gaussians at (1|2, 1|2); the spread of the ally's or the adversary's axis grows; box plots over repeats."""
    s = run.settings
    drawn = Figure(figsize=(11, 3), layout="constrained")
    panels = iter(drawn.subplots(1, 4))
    for side in ("ally", "adversary"):
        runs = {
            spread: [
                run.part(f"{side} spread {spread} seed {seed}", overlap, side, spread, seed, s) for seed in run.seeds
            ]
            for spread in s["spreads"]
        }
        for label, better in (("shape", "less"), ("colour", "greater")):
            axis = next(panels)
            for i, name in enumerate(GAUSSIAN_RELEASES):
                boxes = [[r[name][label] for r in found] for found in runs.values()]
                drawn_boxes = axis.boxplot(
                    boxes,
                    positions=np.arange(len(boxes)) + 0.25 * (i - 1),
                    widths=0.2,
                    patch_artist=True,
                    manage_ticks=False,
                )
                for box in drawn_boxes["boxes"]:
                    box.set_facecolor(("0.8", "tab:olive", "tab:red")[i])
                axis.plot([], [], "s", color=("0.8", "tab:olive", "tab:red")[i], label=name)
            axis.set_xticks(range(len(runs)), [f"{v:g}" for v in runs])
            axis.set(title=f"{'adversary' if label == 'shape' else 'ally'}", xlabel=f"deviation of the {side}'s axis",
                     ylim=(0.42, 1.08))  # fmt: skip
            axis.axhline(0.5, color="0.7", lw=0.8)
            for spread, found in runs.items():
                values = {name: [r[name][label] for r in found] for name in GAUSSIAN_RELEASES}
                p = float(mannwhitneyu(values["EIGAN"], values["Bertran"], alternative=better).pvalue)
                axis.text(list(runs).index(spread), 1.045, f"p {p:.2f}", ha="center", va="center", fontsize=6)
                what = f"deviation {spread:g} ({side}): EIGAN against Bertran"
                run.row(
                    what, f"{label}, p-value that EIGAN is {'lower' if better == 'less' else 'higher'}", "< .002", p
                )
                for name in ("EIGAN", "Bertran", "raw data"):
                    middle_one = sorted(found, key=lambda r: r[name][label])[len(found) // 2][name]
                    if label == "shape":
                        run.row(f"{name}, deviation {spread:g} ({side})", "shape, balanced accuracy", None, None,
                                middle_one["shape"], middle_one["shape_interval"], middle_one["by"], 0.5)  # fmt: skip
                    else:
                        run.row(
                            f"{name}, deviation {spread:g} ({side})",
                            "colour, accuracy",
                            None,
                            float(np.median(values[name])),
                            guessing=0.5,  # four groups alike
                        )
    drawn.axes[0].set_ylabel("fresh attackers' accuracy")
    drawn.axes[3].legend(frameon=False, fontsize=7)
    run.figure("fig5", drawn)


GAUSSIAN_RELEASES = ("raw data", "Bertran", "EIGAN")


def overlap(side: str, spread: float, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    """Attackers trained afresh on each of the three releases of one draw of the data."""
    both = {"ally": (spread, 0.2), "adversary": (0.2, spread)}[side]
    parts = tacit.load_dataset("gaussians", n=2 * s["n"], variance=both, deviation=True, random_state=seed).split(
        (0.5, 0.25, 0.25), random_state=seed
    )
    releases = {
        "raw data": None,
        "Bertran": tacit.baselines.VariationalObfuscator(s["budget"], epochs=s["epochs"], random_state=seed),
        "EIGAN": tacit.EIGAN(1, epochs=s["epochs"], random_state=seed),
    }
    out = {}
    for name, release in releases.items():
        found = honest(audit(fitted(release, parts[0], seed), parts, seed, s))
        leak = found["leakage"]["shape"]
        out[name] = {"colour": found["utility"]["colour"]["value"], "shape": leak["value"],
                     "shape_interval": [leak["low"], leak["high"]], "by": leak["by"]}  # fmt: skip
    return out
