"""Fig. 2, 10, 11, 12: synthetic groups before and after. Fig. 5, 13: overlapping classes, EIGAN and Bertran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import mannwhitneyu

import tacit
from papers.common.run import Run, honest, together
from tacit.filters.eigan import linear_map, one_hidden

from .protocol import audit, fitted, in_print, mean_in_print, measured, validation

# -- Fig. 2, 10, 11, 12 -------------------------------------------------------------------------------


def synthetic(run: Run) -> None:
    """Groups of points before and after: the adversary's axis collapses, the ally's stays."""
    drawn = Figure(figsize=(10.5, 7.6), layout="constrained")
    for column, (figure, (data, options, heads)) in enumerate(SHAPES.items()):
        settings = {PRINTED: run.settings | {"heads": heads}, OURS: run.settings}
        found = {
            game: [
                run.part(f"{figure} {game} seed {seed}", points, data, options, game, seed, settings[game])
                for seed in run.seeds
            ]
            for game in GAMES
        }
        for game, runs in found.items():
            leaks = together([r["audit"] for r in runs])["leakage"]
            for label in runs[0]["print"]:
                words = ("collapsed" if label in leaks else "kept") if game == PRINTED else None
                mean_in_print(run, f"{figure}, {data}: {game}", label, runs, words, leak=leaks.get(label))
            run.audited(f"{game}, l={len(runs[0]['after'][0])}", f"{data}, {figure}", [r["audit"] for r in runs])
        panels = {"before": (found[PRINTED], "before"), **{f"after, {g}": (r, "after") for g, r in found.items()}}
        for row, (title, (runs, which)) in enumerate(panels.items()):
            where = np.array(runs[0][which])
            axis = drawn.add_subplot(
                len(panels),
                len(SHAPES),
                1 + column + row * len(SHAPES),
                projection="3d" if where.shape[1] > 2 else None,
            )
            scatter(axis, where, runs[0]["colour"], runs[0]["marker"])
            axis.tick_params(labelsize=6)
            axis.set_title(f"{figure}: {data}, {title}" if not row else title, fontsize=8)
    drawn.supxlabel(
        "one dot a record: its colour is what the ally wants to know, its shape what the adversary does", fontsize=8
    )
    run.figure("synthetic", drawn)


# the data, and the printed game's heads: appendix C names those of Fig. 10 and 11. Octants are as straight as quadrants
SHAPES: dict[str, tuple[str, dict[str, int], str]] = {
    "Fig. 2": ("octants", {"allies": 2}, "logistic"),
    "Fig. 10": ("quadrants", {}, "logistic"),
    "Fig. 11": ("circles", {}, "one hidden layer"),
    "Fig. 12": ("octants", {"allies": 1}, "logistic"),
}
HEADS = {"logistic": linear_map, "one hidden layer": partial(one_hidden, dropout=0.2)}


def ours(train: tacit.Dataset, seed: int, s: Mapping[str, Any]) -> tacit.EIGAN:
    """As long as validation rows say: the length of training whose adversaries read least there."""
    own, held_out = validation(train, seed)
    secrets = list(train.sensitive.columns)
    read = {}
    for epochs in (s["epochs"] // 3, s["epochs"], 2 * s["epochs"]):
        found = in_print(fitted(tacit.EIGAN(2, epochs=epochs, random_state=seed), own, seed), own, [held_out], seed,
                         s["evaluation"], secrets)  # fmt: skip
        read[epochs] = max(found[label]["accuracy"] for label in secrets)
    return fitted(tacit.EIGAN(2, epochs=min(read, key=read.__getitem__), random_state=seed), train, seed)


def printed(train: tacit.Dataset, seed: int, s: Mapping[str, Any]) -> tacit.EIGAN:
    """Algorithm A1 with appendix C's heads; for as many epochs, with batches as large, as in the authors' code."""
    size = train.X.shape[1]  # the authors' code is as wide as its input
    head = HEADS[s["heads"]]
    game = tacit.EIGAN.as_printed(size, target_head=head, sensitive_head=head, epochs=25 * s["epochs"],
                                  batch_size=1024, random_state=seed)  # fmt: skip
    return fitted(game, train, seed)


PRINTED, OURS = "EIGAN as printed", "EIGAN, ours"
GAMES = {PRINTED: printed, OURS: ours}


def points(data: str, options: Mapping[str, int], game: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = tacit.load_dataset(data, n=2 * s["n"], random_state=seed, **options).split(
        (0.7, 0.15, 0.15), random_state=seed
    )
    release = GAMES[game](parts[0], seed, s)
    shown = parts[2].take(np.arange(min(250, len(parts[2]))))
    return {
        **measured(release, parts, seed, s, floor=True),
        "epochs": release.epochs,
        "before": np.asarray(shown.X).round(3),
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
                    positions=np.arange(len(boxes)) + 0.2 * (i - 1.5),
                    widths=0.16,
                    patch_artist=True,
                    manage_ticks=False,
                )
                for box in drawn_boxes["boxes"]:
                    box.set_facecolor(COLOURS[i])
                axis.plot([], [], "s", color=COLOURS[i], label=name)
            axis.set_xticks(range(len(runs)), [f"{v:g}" for v in runs])
            axis.set(title=f"{'adversary' if label == 'shape' else 'ally'}", xlabel=f"deviation of the {side}'s axis",
                     ylim=(0.42, 1.08))  # fmt: skip
            axis.axhline(0.5, color="0.7", lw=0.8)
            for spread, found in runs.items():
                values = {name: [r[name][label] for r in found] for name in GAUSSIAN_RELEASES}
                p = float(mannwhitneyu(values[PRINTED], values["Bertran"], alternative=better).pvalue)
                axis.text(list(runs).index(spread), 1.045, f"p {p:.2f}", ha="center", va="center", fontsize=6)
                what = f"deviation {spread:g} ({side}): {PRINTED} against Bertran"
                run.row(
                    what, f"{label}, p-value that EIGAN is {'lower' if better == 'less' else 'higher'}", "< .002", p
                )
                for name in reversed(GAUSSIAN_RELEASES):
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


GAUSSIAN_RELEASES = ("raw data", "Bertran", PRINTED, OURS)
COLOURS = ("0.8", "tab:olive", "tab:red", "tab:purple")


def overlap(side: str, spread: float, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    """Attackers trained afresh on each of the releases of one draw of the data."""
    both = {"ally": (spread, 0.2), "adversary": (0.2, spread)}[side]
    parts = tacit.load_dataset("gaussians", n=2 * s["n"], variance=both, deviation=True, random_state=seed).split(
        (0.7, 0.15, 0.15), random_state=seed
    )
    releases = {
        "raw data": None,
        "Bertran": tacit.baselines.VariationalObfuscator(s["budget"], epochs=s["epochs"], random_state=seed),
        PRINTED: tacit.EIGAN.as_printed(2, epochs=60 * s["epochs"], random_state=seed),
        OURS: tacit.EIGAN(1, epochs=s["epochs"], random_state=seed),
    }
    out = {}
    for name, release in releases.items():
        found = honest(audit(fitted(release, parts[0], seed), parts, seed, s))
        leak = found["leakage"]["shape"]
        out[name] = {"colour": found["utility"]["colour"]["value"], "shape": leak["value"],
                     "shape_interval": [leak["low"], leak["high"]], "by": leak["by"]}  # fmt: skip
    return out
