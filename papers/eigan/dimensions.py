"""Fig. 6: numbers of adversaries and of allies. Fig. 17, 18: size of the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import tacit
from tacit.reproduce import Run
from tacit.reproduce.run import by_attacker, honest

from .protocol import adult_parts, audit, fitted, history, in_print, measured, titanic_parts

# -- Fig. 6 -------------------------------------------------------------------------------------------


def fig6(run: Run) -> None:
    """Objectives are attributes of Adult: (a) 1 to 4 adversaries and one ally, (b) 1 to 4 allies and one adversary."""
    s = run.settings
    drawn = Figure(figsize=(8, 3), layout="constrained")
    for axis, kind in zip(drawn.subplots(1, 2), ("adversaries", "allies"), strict=True):
        counts = list(range(1, s["most"] + 1))
        found = [run.part(f"{n} {kind}", objectives, kind, n, 0, s) for n in counts]
        for n, row in zip(counts, found, strict=True):
            leak = row["audit"]["leakage"]["sex"]
            run.row(f"{n} {kind}", "income, cross-entropy", "constant", row["print"]["income"]["log_loss"])
            run.row(
                f"{n} {kind}",
                "sex, cross-entropy; adaptive: balanced accuracy",
                "constant",
                row["print"]["sex"]["log_loss"],
                **by_attacker(leak),
            )
        for label in ("income", "sex"):
            axis.plot(counts, [row["print"][label]["log_loss"] for row in found], "o-", label=label)
        axis.set(xlabel=f"number of {kind}", xticks=counts, ylabel="cross-entropy on test rows", ylim=(0, None))
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
    parts = data.split(s["rows"], seed=seed)
    release = fitted(tacit.EIGAN(8, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    first = tuple(tacit.Dataset(p.X, p.y[["income"]], p.sensitive[["sex"]], name="adult") for p in parts)
    return measured(release, first, seed, s)


# -- Fig. 17 and 18 -----------------------------------------------------------------------------------


def fig17(run: Run) -> None:
    """Epochs until the encoder's loss stays within 1 % of its end, and the loss on test rows, by size of the code."""
    sizes = run.settings["sizes"]
    drawn = Figure(figsize=(9, 3), layout="constrained")
    for axis, data in zip(drawn.subplots(1, 2), ("adult", "titanic"), strict=True):
        found = [run.part(f"{data} l={size}", dimension, data, size, 0, run.settings) for size in sizes]
        for size, row in zip(sizes, found, strict=True):
            secret, leak = next(iter(row["audit"]["leakage"].items()))
            run.row(f"{data}, l={size}", "encoder loss on test rows", "falls with l", row["loss"])
            run.row(f"{data}, l={size}", "epochs to within 1 %", "falls with l", row["settled"])
            run.row(f"{data}, l={size}", f"{secret}, balanced accuracy", **by_attacker(leak))
        axis.plot(sizes, [r["settled"] for r in found], "o-", color="tab:blue")
        axis.set(xscale="log", xlabel="size of the code", ylabel="epochs (blue)", title=data)
        twin = axis.twinx()
        twin.plot(sizes, [r["loss"] for r in found], "s-", color="tab:red")
        twin.set_ylabel("encoder loss on test rows (red)")
    run.figure("fig17", drawn)


def dimension(data: str, size: int, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed) if data == "adult" else titanic_parts(seed, ["Sex"])
    release = fitted(tacit.EIGAN(size, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    losses = in_print(release, parts, seed, s["evaluation"])
    (target,), (secret,) = parts[0].y.columns, parts[0].sensitive.columns
    path = np.array(history(release)["encoder"])
    near = np.abs(path - path[-1]) <= 0.01 * max(abs(path[0] - path[-1]), 1e-9)
    settled = len(path) - int(np.argmin(near[::-1])) if not near.all() else 1
    # eq. 3 with heads trained afresh on the code
    loss = 0.5 * losses[target]["log_loss"] - 0.5 * losses[secret]["log_loss"]
    return {"loss": loss, "settled": settled, "audit": honest(audit(release, parts, seed, s))}
