"""How the figures of several seeds are told: curves together, gains of one model over another, the drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from papers.common.run import Run, over_seeds
from tacit.auditing.superiority import Superiority, superiority
from tacit.errors import InputError

Curve = Mapping[str, Sequence[Any]]
NOISE = 0.3  # the ratio whose points are rows of the tables
READERS = {"log_rank": "log-rank", "nn_error": "1-NN error"}


def together(curves: Sequence[Curve]) -> pd.DataFrame:
    """The mean over seeds of every column; intervals are over seeds and rows together."""
    first, out = curves[0], dict[str, list[Any]]()
    for name in first:
        lists = [c[name] for c in curves]
        if isinstance(first[name][0], str):
            out[name] = [", ".join(sorted(set(at))) for at in zip(*lists, strict=True)]
        elif f"{name}_low" in first:
            for i in range(len(first[name])):
                ends = ("", "_low", "_high")
                at = [
                    dict(zip(("value", "low", "high"), (c[f"{name}{e}"][i] for e in ends), strict=True)) for c in curves
                ]
                told = over_seeds(at)
                for end, key in zip(ends, ("value", "low", "high"), strict=True):
                    out.setdefault(f"{name}{end}", []).append(told[key])
        elif name not in out:
            out[name] = [None if None in at else float(np.mean(at)) for at in zip(*lists, strict=True)]
    return pd.DataFrame(out)


def tell_point(run: Run, at: str, point: pd.Series, printed: Mapping[str, str | None]) -> None:
    """Of one noise the measures that `printed` names. "Ours" is the paper's reader; beside it attackers of our own."""
    for key, text in printed.items():
        if key == "log_rank":
            by_kernels = point.get("kernel_log_rank")
            run.row(at, "identity, log-rank privacy", text, by_kernels, point[key], bounds(point, key),
                    point["attacker"], float(point[f"{key}_guessing"]))  # fmt: skip
        elif key == "identified":
            run.row(at, "identity, accuracy", text, None, point[key], bounds(point, key), point["attacker"],
                    float(point[f"{key}_guessing"]))  # fmt: skip
        else:
            told = {"accuracy": "attributes, accuracy", "nn_error": "identity, 1-NN error"}[key]
            run.row(at, told, text, point[key], interval=bounds(point, key), guessing=float(point[f"{key}_guessing"]))


def tell_gain(
    run: Run, one: str, other: str, curves: Mapping[str, Sequence[Curve]], printed: str, what: str = ""
) -> None:
    """Definition 11: how much more private one is at equal accuracy, by kernels, by our attackers, by 1-NN."""
    at = f"{what}{one} over {other} at equal accuracy"
    kernels, strong, nearest = (
        gain(curves[one], curves[other], k) for k in ("kernel_log_rank", "log_rank", "nn_error")
    )
    run.row(at, "log-rank, mean gain", printed, kernels and kernels["mean"], *adaptive(strong))
    run.row(at, "1-NN error, mean gain", printed, nearest and nearest["mean"],
            interval=nearest and (nearest["low"], nearest["high"]))  # fmt: skip
    told = {"kernels": kernels, "our attackers": strong, "1-NN": nearest}
    run.note(f"{at}: " + "; ".join(f"by {who}, {g['told'] if g else 'not told'}" for who, g in told.items()) + ".")


def adaptive(found: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return (
        (None, None, None) if found is None else (found["mean"], (found["low"], found["high"]), "best of our attackers")
    )


def gain(one: Sequence[Curve], other: Sequence[Curve], measure: str) -> dict[str, Any] | None:
    """Of each seed's curves the mean gain, with Student's interval over seeds; and the verdict on the mean curves."""
    if measure not in one[0]:
        return None
    try:
        each = [_superior(pd.DataFrame(a), pd.DataFrame(b), measure).mean for a, b in zip(one, other, strict=True)]
        verdict = _superior(together(one), together(other), measure)
    except InputError:
        return None
    n = len(each)
    arm = stats.t.ppf(0.975, n - 1) * np.std(each, ddof=1) / np.sqrt(n) if n > 1 else float("nan")
    mean = float(np.mean(each))
    low, high = (mean - arm, mean + arm) if n > 1 else (verdict.smallest, verdict.largest)
    return {"mean": mean, "low": low, "high": high, "each": each, "told": str(verdict), "superior": verdict.superior}


def _superior(one: pd.DataFrame, other: pd.DataFrame, measure: str) -> Superiority:
    return superiority(*(c[["accuracy", measure]].to_numpy(float) for c in (one, other)))


def at_ratio(curve: pd.DataFrame, ratio: float) -> pd.Series:
    return curve.iloc[(curve["ratio"] - ratio).abs().argmin()]


def bounds(point: pd.Series, key: str) -> tuple[float, float]:
    return float(point[f"{key}_low"]), float(point[f"{key}_high"])


def audit_of(point: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The honest columns at one noise of one seed, as an audit gives them."""
    floor = said["label_only"]

    def result(key: str) -> dict[str, Any]:
        return {k: float(point[f"{key}{end}"]) for k, end in
                (("value", ""), ("low", "_low"), ("high", "_high"), ("guessing", "_guessing"))}  # fmt: skip

    prefix = "accuracy of "
    targets = [
        k.removeprefix(prefix) for k in point if k.startswith(prefix) and not k.endswith(("_low", "_high", "_guessing"))
    ]
    secret = next(k for k in floor if k not in targets)
    return {
        "utility": {t: result(f"{prefix}{t}") for t in targets},
        "leakage": {secret: {**result("identified_balanced"), "by": point["attacker"]}},
        "certificate": {},
        "label_only": {secret: floor[secret]},
        "label_only_utility": {t: floor.get(t) for t in targets},
    }


def point_of(curve: Curve, ratio: float) -> dict[str, Any]:
    i = int(np.argmin(np.abs(np.asarray(curve["ratio"]) - ratio)))
    return {k: v[i] for k, v in curve.items()}


PANELS = (
    ("kernel_log_rank", "log-rank privacy, kernel density\n(the paper's reader)"),
    ("nn_error", "1-NN error\n(the paper's reader)"),
    ("log_rank", "log-rank privacy,\nbest of our attackers"),
)


def draw_tradeoff(means: Mapping[str, pd.DataFrame], title: str = "") -> Figure:
    """Privacy over accuracy, a panel a reader (Fig. 6 to 8): up and to the right is better; dotted: guessing."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = [p for p in PANELS if all(p[0] in c for c in means.values())]
    for axis, (measure, words) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axis.axhline(next(iter(means.values()))[f"{measure}_guessing"].iloc[0], color="0.6", ls=":")
        for i, (name, c) in enumerate(means.items()):
            spread = np.clip([c[measure] - c[f"{measure}_low"], c[f"{measure}_high"] - c[measure]], 0, None)
            axis.errorbar(c["accuracy"], c[measure], yerr=spread, fmt="o-", ms=4, lw=1.2, elinewidth=0.5,
                          color=f"C{i}", label=name)  # fmt: skip
        axis.set(xlabel="accuracy of the attributes (mean)", ylabel=words, ylim=(0, 1))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(lw=0.3, alpha=0.6)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{title}: points are noise ratios, the least accurate has most; bars 95 %", fontsize=10)
    return figure


def draw_ranks(means: Mapping[str, pd.DataFrame]) -> Figure:
    """Mean and deviation of the rank over accuracy, by kernels and by our attackers; dotted: the uniform law's."""
    readers = (("kernel_", "kernel density (the paper's reader)"), ("", "best of our attackers"))
    readers = tuple(r for r in readers if all(f"{r[0]}rank_mean" in c for c in means.values()))
    figure = Figure(figsize=(9, 3 * len(readers)), layout="constrained")
    grid = figure.subplots(len(readers), 2, sharex=True, squeeze=False)
    for line, (kind, who) in zip(grid, readers, strict=True):
        for i, (name, c) in enumerate(means.items()):
            low, high = (c[f"{kind}rank_mean_{end}"] for end in ("low", "high"))
            line[0].fill_between(c["accuracy"], low, high, color=f"C{i}", alpha=0.15, lw=0)
            line[0].plot(c["accuracy"], c[f"{kind}rank_mean"], "o-", ms=3, color=f"C{i}", label=name)
            line[1].plot(c["accuracy"], c[f"{kind}rank_sd"], "o-", ms=3, color=f"C{i}", label=name)
        for axis, level, title in (
            (line[0], 0.5, "mean of the rank (95 %)"),
            (line[1], 0.2887, "deviation of the rank"),
        ):
            axis.axhline(level, color="0.6", ls=":")
            axis.set_title(f"{title}, {who}", fontsize=9)
            axis.spines[["top", "right"]].set_visible(False)
    for axis in grid[-1]:
        axis.set_xlabel("accuracy of the attributes")
    grid[0][0].legend(frameon=False, fontsize=8)
    return figure


def draw_rebuilt(rows: Sequence[Mapping[str, Any]], cuts: Sequence[str], releases: Sequence[str]) -> Figure:
    """Draw, by cut and release, how much of the images a decoder restores and how many of them are named.

    The paper shows rebuilt portraits; the data sets' terms do not allow that here.
    """
    at = {(row["what"], row["measure"].startswith("variance")): row for row in rows}
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = zip(
        figure.subplots(1, 2),
        (True, False),
        ("variance restored, R²", "images whose person is named"),
        strict=True,
    )
    for axes, variance, words in panels:
        for i, release in enumerate(releases):
            points = [at[f"{cut}, {release}", variance] for cut in cuts]
            value, (low, high) = [p["adaptive"] for p in points], zip(*(p["interval"] for p in points), strict=True)
            axes.errorbar(np.arange(len(cuts)) + 0.06 * i, value, fmt="o-", ms=4, lw=1.2, elinewidth=0.6, label=release,
                          yerr=np.clip([np.subtract(value, low), np.subtract(high, value)], 0, None))  # fmt: skip
        axes.set_xticks(range(len(cuts)), cuts)
        axes.set(xlabel="cut after layer", ylabel=words, ylim=(0, 1.02))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(lw=0.3, alpha=0.6)
    axes.axhline(at["raw images", False]["adaptive"], color="0.6", ls="--", lw=1, label="images themselves")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure
