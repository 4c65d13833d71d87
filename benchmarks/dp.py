"""Differential privacy of the fit: what it costs on Adult, and what a membership attack gets of it.

    python -m benchmarks.dp [--rows 20000] [--seeds 3] [--runs 20]

Writes benchmarks/dp.json. The trade-off: EIGAN on a sample of Adult without dp and at epsilon 1, 3 and 8 (delta 1e-5,
public ranges and words), what a receiver's own model gets of the target and what attackers who are trained afresh get
of sex, both on rows that no filter has seen. Membership: small fits that memorize, attacked with the whole bundle in
hand, with dp at epsilon 1 and without; the advantage is that of the better of two attacks, 2 AUC - 1, and its bound
that of the accountant.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn

import papers.data  # noqa: F401
import tacit
from tacit.auditing.attacks.membership import whitebox_membership
from tacit.errors import TacitWarning
from tacit.nets.mlp import mlp

EPSILONS = (1.0, 3.0, 8.0)
ALPHAS = (0.5, 0.7, 0.9)  # all are told, none is chosen
RANGES = {"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 100_000),
          "capital-loss": (0, 5000), "hours-per-week": (1, 99)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=10)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", TacitWarning)
    path = Path(__file__).with_suffix(".json")
    found = json.loads(path.read_text()) if path.exists() else {}
    found["machine"] = f"{platform.machine()}, one thread"

    def keep(**parts: dict) -> None:
        path.write_text(json.dumps(found | parts, indent=1) + "\n")
        found.update(parts)

    if asked.seeds:
        trade_off(asked.rows, asked.seeds, asked.epochs, found.get("adult"), keep)
    if asked.runs:
        keep(membership=membership(asked.runs))


def small(n_in: int, n_out: int) -> nn.Module:
    """Noise grows with the number of weights: sixteen hidden units are enough for Adult, with dp and without."""
    return mlp(n_in, n_out, hidden=(16,))


# -- the trade-off on Adult --------------------------------------------------------------------------


def trade_off(rows: int, seeds: int, epochs: int, before: dict | None, keep: Any) -> None:
    """One line for each epsilon, alpha and seed; those that are there already are not measured again."""
    data = tacit.load_dataset("adult")
    data = data.take(np.sort(np.random.default_rng(0).permutation(len(data))[:rows]))
    ranges = {c: RANGES[c] for c in data.X.columns if c in RANGES}
    # the words of the census form, known to everybody; here read from the whole table, which a real user may not do
    words = {c: tuple(sorted(map(str, set(data.X[c].dropna())))) for c in data.X.columns if c not in ranges}
    told: dict = {"rows": rows, "epochs": epochs, "figures": "value, low, high, guessing", "lines": []}
    if before is not None and (before["rows"], before["epochs"]) == (rows, epochs):
        told["lines"] = before["lines"]
    done = {(line["epsilon"], line["alpha"], line["seed"]) for line in told["lines"]}
    for seed, epsilon, alpha in itertools.product(range(seeds), (None, *EPSILONS), ALPHAS):
        if (epsilon, alpha, seed) in done:
            continue
        dp = None if epsilon is None else tacit.DP(epsilon, 1e-5, ranges=ranges, categories=words)
        line = {"epsilon": epsilon, "alpha": alpha, "seed": seed, **measured(data, dp, alpha, seed, epochs)}
        print(line, flush=True)
        told["lines"].append(line)
        keep(adult=told)


def measured(data: tacit.Dataset, dp: tacit.DP | None, alpha: float, seed: int, epochs: int) -> dict:
    train, attack, test = data.split((0.5, 0.25, 0.25), random_state=seed)
    f = tacit.EIGAN(4, alpha, noise=0.3, epochs=epochs, batch_size=512, learning_rate=5e-3, adversary_steps=1,
                    encoder=small, target_head=small, sensitive_head=small, random_state=seed, dp=dp)  # fmt: skip
    started = time.perf_counter()
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    line: dict = {"fit_seconds": round(time.perf_counter() - started, 1)}
    report = tacit.audit(f, attack, test, attackers="quick", floor=False)
    for role, results in (("utility", report.utility), ("leakage", report.leakage)):
        for name, r in results.items():
            line[f"{role} {name}"] = [round(v, 3) for v in (r.value, r.low, r.high, r.guessing)]
    return line if dp is None else {**line, "spent": round(f.dp_.epsilon, 3)}


# -- membership --------------------------------------------------------------------------------------


def members(seed: int, n: int = 200, width: int = 100) -> tuple[tacit.Dataset, tacit.Dataset]:
    """Records whose labels are coin flips: what a filter knows of them it has memorized."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, width)).clip(-3, 3)
    data = tacit.Dataset(X, rng.integers(2, size=2 * n), rng.integers(2, size=2 * n))
    return data.take(np.arange(n)), data.take(np.arange(n, 2 * n))


def memorizing(train: tacit.Dataset, dp: tacit.DP | None, seed: int) -> tacit.EIGAN:
    f = tacit.EIGAN(4, 0.9, epochs=60, batch_size=30, learning_rate=3e-3, adversary_steps=1, random_state=seed, dp=dp)
    return f.fit(train.X, train.y, sensitive_features=train.sensitive)


def by_margin(f: tacit.EIGAN, train: tacit.Dataset, other: tacit.Dataset) -> float:
    """The advantage of who learns from half of the members how codes go with labels, and looks how well others fit."""
    codes, labels = zip(*((f.transform(d.X), d.y.iloc[:, 0].to_numpy()) for d in (train, other)), strict=True)
    half = len(train) // 2
    model = LogisticRegression().fit(codes[0][:half], labels[0][:half])
    scores = [model.predict_proba(z)[np.arange(len(y)), y] for z, y in zip(codes, labels, strict=True)]
    known = np.repeat([1, 0], [len(train) - half, len(other)])
    return 2 * roc_auc_score(known, np.concatenate([scores[0][half:], scores[1]])) - 1


def membership(runs: int) -> dict:
    dp = tacit.DP(1.0, 1e-3, ranges=(-3.0, 3.0))
    out: dict = {"runs": runs, "epsilon": dp.epsilon, "delta": dp.delta, "with": [], "without": []}
    for seed in range(runs):
        train, other = members(seed)
        for word, asked in (("with", dp), ("without", None)):
            f = memorizing(train, asked, seed)
            white = 2 * whitebox_membership(f, train, other, random_state=seed).value - 1
            out[word].append(round(max(white, by_margin(f, train, other)), 3))
            if asked is not None:
                out["bound"] = round(f.dp_.advantage, 3)
        print(seed, out["with"][-1], out["without"][-1], out["bound"], flush=True)
    out["above_the_bound"] = {word: sum(a > out["bound"] for a in out[word]) for word in ("with", "without")}
    return out


if __name__ == "__main__":
    main()
