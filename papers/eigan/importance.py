"""Fig. 4: what the encoder looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import tacit
from papers.common.run import Run, by_attacker, honest, together

from .protocol import adult_parts, audit
from .tables import ADULT_RELEASES, FASTER, printed_linear


def fig4(run: Run) -> None:
    """How far the code moves when a column is permuted, and its mean absolute gradient: the paper says not which."""
    drawn = Figure(figsize=(10, 3.6), layout="constrained")
    for axis, name in zip(drawn.subplots(1, len(ENCODERS), sharex=True), ENCODERS, strict=True):
        runs = [run.part(f"{name} seed {seed}", importance, name, seed, run.settings) for seed in run.seeds]
        mean = {kind: pd.DataFrame([r[kind] for r in runs]).mean() for kind in ("permutation", "gradient")}
        leak = together([r["audit"] for r in runs])["leakage"]["sex"]
        for kind, shares in mean.items():
            ranks = shares.rank(ascending=False).astype(int)
            for column in ("sex", "relationship", "marital-status", "occupation"):
                printed = "very low" if column == "sex" else "very low, if one of the correlated"
                measure = f"share of importance by {kind} (rank {ranks[column]} of {len(shares)})"
                run.row(f"{name}: {column}", measure, printed if "printed" in name else None, float(shares[column]))
        run.row(f"{name}: the code", "sex, balanced accuracy", guessing=leak["guessing"], **by_attacker(leak))
        order = mean["permutation"].sort_values().index
        for shift, (kind, shares) in zip((-0.2, 0.2), mean.items(), strict=True):
            axis.barh(np.arange(len(order)) + shift, shares[order], 0.4, label=kind)
        axis.set_yticks(np.arange(len(order)), order, fontsize=7)
        axis.set(xlabel="share of importance", title=name)
        if name == FASTER:
            run.note(f"{name}: alpha, chosen as in Table 1: {', '.join(format(r['alpha'], 'g') for r in runs)}.")
        run.audited(f"{name}, sex an input", "adult", [r["audit"] for r in runs])
    drawn.axes[0].legend(frameon=False)
    run.figure("fig4", drawn)


# those of Table 1; of its two printed rows the one that is where print is
ENCODERS: dict[str, Callable[[tacit.Dataset, int, Mapping[str, Any]], Any]] = {
    FASTER: lambda train, seed, s: printed_linear(train, seed, s, 100.0),
    "EIGAN, ours: l=4, noise .3": ADULT_RELEASES["EIGAN, ours: l=4, noise .3"],
}


def importance(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = adult_parts(s["rows"], seed, ["sex"], keep_sensitive=True)
    release = ENCODERS[name](parts[0], seed, s)
    test = parts[2].X
    code = release.noiseless(test)
    size = np.abs(code - code.mean(0)).mean(0) + 1e-12  # columns of an unbounded code are of any size
    rng = np.random.default_rng(seed)
    moved = {}
    for column in test.columns:
        mixed = test.copy()
        mixed[column] = rng.permutation(test[column].to_numpy())
        moved[column] = float((np.abs(release.noiseless(mixed) - code) / size).mean())
    encoded = torch.from_numpy(release.encoder_.transform(test)).requires_grad_()
    out = release.encoder_module_(encoded)
    ((torch.tanh(out) if release.bounded else out) / torch.from_numpy(size)).abs().sum().backward()
    slope, steep, at = (encoded.grad.abs() * encoded.detach().std(0)).mean(0).numpy(), {}, 0
    for column in release.encoder_.columns:
        steep[column.name] = float(slope[at : at + column.width].sum())
        at += column.width
    found = {"permutation": moved, "gradient": steep}
    shares = {kind: {k: v / sum(by.values()) for k, v in by.items()} for kind, by in found.items()}
    return {**shares, "alpha": release.alpha, "audit": honest(audit(release, parts, seed, s, floor=True))}
