"""A number as the sensitive attribute: age of Adult, withheld in bins or as it is, read by regressors.

The paper's adversary guesses a class, so age is cut into bins for its game (quantiles of the training rows); ours also
plays against one that guesses the number. What is left
of it is measured on the number itself: the best of three regressors, trained afresh on released rows that the filter
never saw and chosen on validation rows, by R2 (0 is what guessing the mean gets).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacit
from papers.common.run import Run, by_attacker, honest, over_seeds, together

from .protocol import audit, encoding_of, fitted


def age(run: Run) -> None:
    """Income kept, age withheld; age itself is no input."""
    found = {
        name: [run.part(f"{name} seed {seed}", aged, name, seed, run.settings) for seed in run.seeds]
        for name in RELEASES
    }
    for name, runs in found.items():
        one = together([r["audit"] for r in runs])
        kept, leak = one["utility"]["income"], one["leakage"]["age"]
        run.row(name, "income, accuracy", None, kept["value"], guessing=kept["guessing"])
        run.row(name, "age in four bins, balanced accuracy", guessing=leak["guessing"], **by_attacker(leak))
        run.row(
            name,
            "age in years, R2",
            guessing=0.0,
            **by_attacker(over_seeds([r["years"] for r in runs], lowest=-np.inf)),
        )
        run.audited(name, "adult, age withheld", [r["audit"] for r in runs], floor=found["raw data"][0]["audit"])


RELEASES: dict[str, Callable[[int, Mapping[str, Any]], Any]] = {
    "raw data": lambda seed, s: None,
    "label-only": lambda seed, s: tacit.baselines.LabelOnly(random_state=seed),
    "EIGAN as printed, l=8": lambda seed, s: tacit.EIGAN.as_printed(
        8, epochs=s["printed_epochs"], batch_size=1024, random_state=seed
    ),
    "EIGAN, ours: l=8, noise .3": lambda seed, s: tacit.EIGAN(8, 0.3, noise=0.3, epochs=s["epochs"], random_state=seed),
}
BINS = 4
AS_NUMBER = "age as a number"
RELEASES[f"EIGAN, ours: l=8, noise .3, {AS_NUMBER}"] = RELEASES["EIGAN, ours: l=8, noise .3"]


def aged(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("adult")
    train, others = data.split("official")
    rng = np.random.default_rng(seed)
    train = train.take(rng.permutation(len(train))[: s["rows"][0]])
    others = others.take(rng.permutation(len(others))[: sum(s["rows"][1:])])
    attack, test = others.split(s["rows"][1:], random_state=seed)
    years = [p.X["age"].to_numpy(float) for p in (train, attack, test)]
    cuts = np.quantile(years[0], np.linspace(0, 1, BINS + 1)[1:-1])
    parts = tuple(
        tacit.Dataset(p.X.drop(columns="age"), p.y, pd.DataFrame({"age": np.searchsorted(cuts, y)}), name="adult")
        for p, y in zip((train, attack, test), years, strict=True)
    )
    seen = parts[0]
    if name.endswith(AS_NUMBER):
        numbers = pd.DataFrame({"age": pd.array(years[0], dtype="Float64")})
        seen = tacit.Dataset(seen.X, seen.y, numbers, name="adult", numeric=["age"])
    release = fitted(RELEASES[name](seed, s), seen, seed)
    encode = encoding_of(release, parts[0].X)
    read = read_years(encode(parts[1].X), years[1], encode(parts[2].X), years[2], seed)
    return {"audit": honest(audit(release, parts, seed, s, floor=release is None)), "years": read}


def read_years(Z: np.ndarray, y: np.ndarray, Zt: np.ndarray, yt: np.ndarray, seed: int) -> dict[str, Any]:
    """The best of three regressors, chosen on a quarter of the attackers' rows, with a bootstrap interval."""
    network = MLPRegressor(hidden_layer_sizes=(64, 64), early_stopping=True, random_state=seed)
    regressors = {
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 7))),
        "trees": HistGradientBoostingRegressor(max_iter=150, random_state=seed),
        "mlp": make_pipeline(StandardScaler(), network),
    }
    mean, size = y.mean(), y.std()
    A, V, a, v = train_test_split(Z, (y - mean) / size, test_size=0.25, random_state=seed)
    score = {name: r2_score(v, model.fit(A, a).predict(V)) for name, model in regressors.items()}
    best = max(score, key=score.__getitem__)
    truth = (yt - mean) / size
    guess = regressors[best].predict(Zt)
    rng = np.random.default_rng((seed, 4))
    draws = [rng.integers(len(truth), size=len(truth)) for _ in range(500)]
    low, high = np.quantile([r2_score(truth[d], guess[d]) for d in draws], [0.025, 0.975])
    return {"value": float(r2_score(truth, guess)), "low": float(low), "high": float(high), "by": best,
            "guessing": 0.0, "regressors": score}  # fmt: skip
