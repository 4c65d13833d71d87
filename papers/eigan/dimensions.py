"""Fig. 6: numbers of adversaries and of allies. Fig. 17, 18: size of the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import tacit
from papers.common.run import Run, by_attacker, together

from .protocol import adult_parts, cut, fitted, history, mean_in_print, measured, mimic3_parts, titanic_parts

# -- Fig. 6 -------------------------------------------------------------------------------------------


def fig6(run: Run) -> None:
    """Objectives are a table's attributes: (a) 1 to 4 adversaries and one ally, (b) 1 to 4 allies and one adversary."""
    s = run.settings
    ally, adversary = (names[0] for names in OBJECTIVES[s.get("data", "adult")])
    drawn = Figure(figsize=(8, 3.2), layout="constrained")
    for axis, kind in zip(drawn.subplots(1, 2), ("adversaries", "allies"), strict=True):
        counts = list(range(1, s["most"] + 1))
        for game, style in ((PRINTED, "-"), (OURS, ":")):
            found = [
                [run.part(f"{n} {kind} {game} seed {seed}", objectives, kind, n, game, seed, s) for seed in run.seeds]
                for n in counts
            ]
            for n, runs in zip(counts, found, strict=True):
                what = f"{n} {kind if n > 1 else {'allies': 'ally', 'adversaries': 'adversary'}[kind]}, {game}"
                leak = together([r["audit"] for r in runs])["leakage"][adversary]
                words = "constant" if game == PRINTED else None
                mean_in_print(run, what, ally, runs, words, loss=True)
                mean_in_print(run, what, adversary, runs, words, loss=True, leak=leak)
            for label, colour in ((ally, "tab:blue"), (adversary, "tab:orange")):
                losses = np.array([[r["print"][label]["log_loss"] for r in runs] for runs in found])
                axis.errorbar(counts, losses.mean(1), losses.std(1), fmt=f"o{style}", color=colour, capsize=2,
                              label=f"{label}, {game}")  # fmt: skip
        axis.set(xlabel=f"number of {kind}", xticks=counts, ylabel="cross-entropy on test rows", ylim=(0, 0.75))
    drawn.axes[0].legend(frameon=False, fontsize=7)
    run.figure("fig6", drawn)


PRINTED, OURS = "EIGAN as printed", "EIGAN, ours"


def game_of(name: str, size: int, seed: int, s: Mapping[str, Any]) -> tacit.EIGAN:
    if name == PRINTED:
        return tacit.EIGAN.as_printed(size, epochs=10 * s["epochs"], batch_size=1024, random_state=seed)
    return tacit.EIGAN(size, noise=0.3, epochs=s["epochs"], random_state=seed)


# allies and adversaries, the first of each as in Table 1 and Fig. 3; the paper does not name those it adds
OBJECTIVES = {
    "adult": (
        ["income", "education", "workclass", "occupation"],
        ["sex", "race", "relationship", "native-country"],
    ),
    "mimic3": (
        ["HOSPITAL_EXPIRE_FLAG", "FIRST_CAREUNIT", "ADMISSION_TYPE", "ADMISSION_LOCATION"],
        ["GENDER", "RACE", "MARITAL_STATUS", "INSURANCE"],
    ),
}
TOLD_TWICE = "education-num"


def objectives(kind: str, n: int, game: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    name = s.get("data", "adult")
    allies, adversaries = OBJECTIVES[name]
    hide, keep = (adversaries[:n], allies[:1]) if kind == "adversaries" else (adversaries[:1], allies[:n])
    data = tacit.load_dataset(name, sensitive=hide)
    X = data.X.drop(columns=[c for c in (*adversaries, *allies, TOLD_TWICE) if c in data.X])
    y = pd.DataFrame({c: data.y[c] if c in data.y else data.X[c] for c in keep})
    parts = cut(tacit.Dataset(X, y, data.sensitive, units=data.units, name=name), s["rows"], seed)
    release = fitted(game_of(game, 8, seed, s), parts[0], seed)
    first = tuple(tacit.Dataset(p.X, p.y[keep[:1]], p.sensitive[hide[:1]], units=p.units, name=name) for p in parts)
    return measured(release, first, seed, s)


# -- Fig. 17 and 18 -----------------------------------------------------------------------------------


def fig17(run: Run) -> None:
    """How fast the encoder's training loss settles, and the loss on test rows, by size of the code."""
    sizes, sets = run.settings["sizes"], run.settings.get("data", ["adult", "titanic"])
    drawn = Figure(figsize=(9, 5.6), layout="constrained")
    panels = [(data, game) for game in (PRINTED, OURS) for data in sets]
    for axis, (data, game) in zip(drawn.subplots(2, len(sets), squeeze=False).flat, panels, strict=True):
        found = {
            size: [run.part(f"{data} {game} l={size} seed {seed}", dimension, data, game, size, seed, run.settings)
                   for seed in run.seeds]
            for size in sizes
        }  # fmt: skip
        mean = {
            key: {size: float(np.mean([r[key] for r in runs])) for size, runs in found.items()}
            for key in ("loss", "settled", "within")
        }
        words = "falls with l" if game == PRINTED else None
        for size, runs in found.items():
            (secret,) = runs[0]["audit"]["leakage"]
            leak = together([r["audit"] for r in runs])["leakage"][secret]
            what = f"{data}, {game}, l={size}"
            run.row(what, "encoder loss on test rows, heads trained afresh", words, mean["loss"][size])
            run.row(what, "share of training until within 1 % of the way to the last loss", words, mean["within"][size])
            run.row(what, "share of training to nine tenths of the way", None, mean["settled"][size])
            run.row(what, f"{secret}, balanced accuracy", guessing=leak["guessing"], **by_attacker(leak))
        spread = {key: [float(np.std([r[key] for r in runs])) for runs in found.values()] for key in mean}
        axis.errorbar(sizes, list(mean["within"].values()), spread["within"], fmt="o-", capsize=2, color="tab:blue")
        axis.set(xscale="log", xlabel="size of the code", ylabel="share of training\nuntil within 1 % (blue)",
                 title=f"{data}, {game}", ylim=(0, 1.05))  # fmt: skip
        twin = axis.twinx()
        twin.errorbar(sizes, list(mean["loss"].values()), spread["loss"], fmt="s-", capsize=2, color="tab:red")
        twin.set_ylabel("encoder loss on\ntest rows (red)")
    run.figure("fig17", drawn)


def dimension(data: str, game: str, size: int, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = {"adult": lambda: adult_parts(s["rows"], seed), "titanic": lambda: titanic_parts(seed, ["Sex"]),
             "mimic3": lambda: mimic3_parts(seed, ["GENDER"], s["rows"])}[data]()  # fmt: skip
    release = fitted(game_of(game, size, seed, s), parts[0], seed)
    found = measured(release, parts, seed, s)
    (target,), (secret,) = parts[0].y.columns, parts[0].sensitive.columns
    # eq. 3 with heads trained afresh on the code
    loss = 0.5 * found["print"][target]["log_loss"] - 0.5 * found["print"][secret]["log_loss"]
    path = history(release)["encoder"]
    return {**found, "loss": loss, "settled": settled(path, 0.1), "within": settled(path, 0.01)}


def settled(path: Sequence[float], near: float, window: int = 5) -> float:
    """The share of training until the loss, averaged over a window, comes and stays that near its last value.

    In shares of the way it went from its start. 1 % is the paper's; it is below the noise of some games.
    """
    window = min(window, len(path))
    smooth = np.convolve(path, np.ones(window) / window, "valid")
    far = np.flatnonzero(np.abs(smooth - smooth[-1]) > near * abs(path[0] - smooth[-1]))
    return float((0 if not len(far) else far[-1] + 1) + window) / len(path)
