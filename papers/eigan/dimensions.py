"""Fig. 6: numbers of adversaries and of allies. Fig. 17, 18: size of the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import tacit
from papers.common.run import Run, by_attacker, together

from .protocol import adult_parts, fitted, history, mean_in_print, measured, titanic_parts

# -- Fig. 6 -------------------------------------------------------------------------------------------


def fig6(run: Run) -> None:
    """Objectives are attributes of Adult: (a) 1 to 4 adversaries and one ally, (b) 1 to 4 allies and one adversary."""
    s = run.settings
    drawn = Figure(figsize=(8, 3), layout="constrained")
    for axis, kind in zip(drawn.subplots(1, 2), ("adversaries", "allies"), strict=True):
        counts = list(range(1, s["most"] + 1))
        found = [
            [run.part(f"{n} {kind} seed {seed}", objectives, kind, n, seed, s) for seed in run.seeds] for n in counts
        ]
        for n, runs in zip(counts, found, strict=True):
            what = f"{n} {kind if n > 1 else {'allies': 'ally', 'adversaries': 'adversary'}[kind]}"
            leak = together([r["audit"] for r in runs])["leakage"]["sex"]
            mean_in_print(run, what, "income", runs, "constant", loss=True)
            mean_in_print(run, what, "sex", runs, "constant", loss=True, leak=leak)
        for label in ("income", "sex"):
            losses = np.array([[r["print"][label]["log_loss"] for r in runs] for runs in found])
            axis.errorbar(counts, losses.mean(1), losses.std(1), fmt="o-", capsize=2, label=label)
        axis.set(xlabel=f"number of {kind}", xticks=counts, ylabel="cross-entropy on test rows", ylim=(0, 0.75))
        axis.legend(frameon=False)
    run.figure("fig6", drawn)


ADVERSARIES = ["sex", "race", "relationship", "native-country"]
ALLIES = ["income", "education", "workclass", "occupation"]


def objectives(kind: str, n: int, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    hide, keep = (ADVERSARIES[:n], ["income"]) if kind == "adversaries" else (["sex"], ALLIES[:n])
    data = tacit.load_dataset("adult", sensitive=hide)
    X = data.X.drop(columns=[c for c in (*ADVERSARIES, *ALLIES, "education-num") if c in data.X])
    y = pd.DataFrame({c: data.y[c] if c in data.y else data.X[c] for c in keep})
    data = tacit.Dataset(X, y, data.sensitive, name="adult")
    data = data.take(np.random.default_rng(seed).permutation(len(data))[: sum(s["rows"])])
    parts = data.split(s["rows"], random_state=seed)
    release = fitted(tacit.EIGAN(8, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    first = tuple(tacit.Dataset(p.X, p.y[["income"]], p.sensitive[["sex"]], name="adult") for p in parts)
    return measured(release, first, seed, s)


# -- Fig. 17 and 18 -----------------------------------------------------------------------------------


def fig17(run: Run) -> None:
    """How fast the encoder's training loss settles, and the loss on test rows, by size of the code."""
    sizes = run.settings["sizes"]
    drawn = Figure(figsize=(9, 3), layout="constrained")
    for axis, data in zip(drawn.subplots(1, 2), ("adult", "titanic"), strict=True):
        found = {
            size: [run.part(f"{data} l={size} seed {seed}", dimension, data, size, seed, run.settings)
                   for seed in run.seeds]
            for size in sizes
        }  # fmt: skip
        mean = {
            key: {size: float(np.mean([r[key] for r in runs])) for size, runs in found.items()}
            for key in ("loss", "settled")
        }
        for size, runs in found.items():
            (secret,) = runs[0]["audit"]["leakage"]
            leak = together([r["audit"] for r in runs])["leakage"][secret]
            run.row(f"{data}, l={size}", "encoder loss on test rows", "falls with l", mean["loss"][size])
            run.row(f"{data}, l={size}", "epochs to nine tenths of the way", "falls with l", mean["settled"][size])
            run.row(f"{data}, l={size}", f"{secret}, balanced accuracy", guessing=leak["guessing"],
                    **by_attacker(leak))  # fmt: skip
        spread = {key: [float(np.std([r[key] for r in runs])) for runs in found.values()] for key in mean}
        axis.errorbar(sizes, list(mean["settled"].values()), spread["settled"], fmt="o-", capsize=2, color="tab:blue")
        axis.set(
            xscale="log",
            xlabel="size of the code",
            ylabel="epochs (blue)",
            title=data,
            ylim=(0, run.settings["epochs"]),
        )
        twin = axis.twinx()
        twin.errorbar(sizes, list(mean["loss"].values()), spread["loss"], fmt="s-", capsize=2, color="tab:red")
        twin.set_ylabel("encoder loss on test rows (red)")
    run.figure("fig17", drawn)


def dimension(data: str, size: int, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed) if data == "adult" else titanic_parts(seed, ["Sex"])
    release = fitted(tacit.EIGAN(size, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    found = measured(release, parts, seed, s)
    (target,), (secret,) = parts[0].y.columns, parts[0].sensitive.columns
    # eq. 3 with heads trained afresh on the code
    loss = 0.5 * found["print"][target]["log_loss"] - 0.5 * found["print"][secret]["log_loss"]
    return {**found, "loss": loss, "settled": settled(history(release)["encoder"])}


def settled(path: Sequence[float], window: int = 5) -> int:
    """Epochs until the loss, averaged over a window, has gone nine tenths of its way (1 % would be below its noise)."""
    window = min(window, len(path))
    smooth = np.convolve(path, np.ones(window) / window, "valid")
    near = np.abs(smooth - smooth[-1]) <= 0.1 * abs(path[0] - smooth[-1])
    return int(np.argmax(near)) + window
