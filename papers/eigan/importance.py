"""Fig. 4: what the encoder looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import tacit
from papers.common.run import Run, by_attacker, honest, together

from .protocol import adult_parts, audit, fitted


def fig4(run: Run) -> None:
    """How far the code moves when a column is permuted, and its mean absolute gradient: the paper says not which."""
    runs = [run.part(f"seed {seed}", importance, seed, run.settings) for seed in run.seeds]
    mean = {kind: pd.DataFrame([r[kind] for r in runs]).mean() for kind in ("permutation", "gradient")}
    leak = together([r["audit"] for r in runs])["leakage"]["sex"]
    for kind, shares in mean.items():
        ranks = shares.rank(ascending=False).astype(int)
        for column in ("sex", "relationship", "marital-status", "occupation"):
            printed = "very low" if column == "sex" else "very low, if one of the correlated"
            measure = f"share of importance by {kind} (rank {ranks[column]} of {len(shares)})"
            run.row(column, measure, printed, float(shares[column]))
    run.row("the code", "sex, balanced accuracy", guessing=leak["guessing"], **by_attacker(leak))
    drawn = Figure(figsize=(7, 3.4), layout="constrained")
    axis = drawn.subplots()
    order = mean["permutation"].sort_values().index
    for shift, (kind, shares) in zip((-0.2, 0.2), mean.items(), strict=True):
        axis.barh(np.arange(len(order)) + shift, shares[order], 0.4, label=kind)
    axis.set_yticks(np.arange(len(order)), order, fontsize=7)
    axis.set_xlabel("share of importance")
    axis.legend(frameon=False)
    run.figure("fig4", drawn)
    run.audited("EIGAN, l=4, noise .3, sex an input", "adult", [r["audit"] for r in runs])


def importance(seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed, ["sex"], keep_sensitive=True)
    release = fitted(tacit.EIGAN(4, 0.3, noise=0.3, epochs=s["epochs"], random_state=seed), parts[0], seed)
    test = parts[2].X
    code = release.noiseless(test)
    rng = np.random.default_rng(seed)
    moved = {}
    for column in test.columns:
        mixed = test.copy()
        mixed[column] = rng.permutation(test[column].to_numpy())
        moved[column] = float(np.abs(release.noiseless(mixed) - code).mean())
    encoded = torch.from_numpy(release.encoder_.transform(test)).requires_grad_()
    torch.tanh(release.encoder_module_(encoded)).abs().sum().backward()
    slope, steep, at = (encoded.grad.abs() * encoded.detach().std(0)).mean(0).numpy(), {}, 0
    for column in release.encoder_.columns:
        steep[column.name] = float(slope[at : at + column.width].sum())
        at += column.width
    found = {"permutation": moved, "gradient": steep}
    shares = {kind: {k: v / sum(by.values()) for k, v in by.items()} for kind, by in found.items()}
    return {**shares, "audit": honest(audit(release, parts, seed, s, floor=True))}
