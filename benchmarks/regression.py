"""Numbers without bins: Adult's age as sensitive attribute and as target, and diabetes' progression as target.

    python benchmarks/regression.py [--rows 12000] [--seeds 3] [--jobs 2] [--out benchmarks/regression.json]

Every filter is fitted on `--rows` training rows of Adult (half of diabetes' patients) with its settings of the command
line; fresh attackers learn from other rows and are measured on yet others. R² of guessing is 0; the mean error stands
beside that of guessing the median. Also prints how often the intervals cover in simulation (nominal 95 %).
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.auditing.looks import new_project
from tacit.auditing.number_stats import mean_absolute_error, r_squared, rank_correlation
from tacit.filters.registry import make_filter
from tacit.report.results import NumberResult

FILTERS = {
    "age hidden": ("raw data", "label-only", "linear-eraser", "linear-arl", "minimax", "eigan", "codebook", "coupling"),
    "age kept": ("raw data", "label-only", "linear-arl", "minimax", "eigan", "codebook"),
    "progression kept": ("raw data", "label-only", "linear-arl", "minimax", "eigan", "codebook"),
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=12_000)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--runs", type=int, default=1000)
    arguments.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    asked = arguments.parse_args()
    told: dict[str, Any] = {"settings": {"rows": asked.rows, "seeds": asked.seeds}, "coverage": coverage(asked.runs)}
    work = [(what, name, seed, asked.rows) for what, names in FILTERS.items() for name in names
            for seed in range(asked.seeds)]  # fmt: skip
    with ProcessPoolExecutor(asked.jobs) as pool:
        for (what, name, seed, _), found in zip(work, pool.map(one, work), strict=True):
            print(f"{what}, {name}, seed {seed}: {found.pop('words')}", flush=True)
            told.setdefault(what, {}).setdefault(name, []).append(found)
            asked.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def one(asked: tuple[str, str, int, int]) -> dict[str, Any]:
    """One filter's audit with one seed."""
    warnings.simplefilter("ignore")
    what, name, seed, rows = asked
    train, attack, test = parts(what, seed, rows)
    release: Any = None
    if name != "raw data":
        release = make_filter(name, random_state=seed)
        release.fit(train.X, train.y, sensitive_features=train.sensitive)
    with new_project():
        report = tacit.audit(
            release, attack, test, floor=False, breadth=False, linkability=False, singling_out=False,
            random_state=seed,
        )  # fmt: skip
    roles = {"keeps": report.utility, "gives away": report.leakage}
    found = {role: {c: figures(r) for c, r in results.items()} for role, results in roles.items()}
    found["certified"] = {n: c.bound for n, c in report.certificate.items() if c is not None}
    words = [f"{role} {c} {figures(r)}" for role, results in roles.items() for c, r in results.items()]
    return {**found, "words": "; ".join([*words, *(f"{n} ≤ {b:.3f}" for n, b in found["certified"].items())])}


def parts(what: str, seed: int, rows: int) -> tuple[tacit.Dataset, ...]:
    if what == "progression kept":
        return tacit.load_dataset("diabetes").split((0.5, 0.25, 0.25), random_state=seed)
    hidden = what == "age hidden"
    data = tacit.load_dataset("adult", sensitive="age" if hidden else "sex", target="income" if hidden else "age")
    train, test = data.split("official")
    train = train.take(np.sort(np.random.default_rng(seed).permutation(len(train))[:rows]))
    return (train, *test.split((0.5, 0.5), random_state=seed))


def figures(r: Any) -> dict[str, Any]:
    """A result in few numbers."""
    out = {"value": r.value, "low": r.low, "high": r.high, "guessing": r.guessing, "by": r.attacker}
    if isinstance(r, NumberResult):
        out |= {"rank": r.rank_correlation.value, "mean error": r.mae.value, "median's": r.mae.guessing}
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in out.items()}


World = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray, np.ndarray | None]]


def _normal(rng: np.random.Generator, n: int) -> Any:
    x, e = rng.normal(size=(2, n))
    return 0.7 * x + 0.71 * e, 0.7 * x, None


def _useless(rng: np.random.Generator, n: int) -> Any:
    truth, guess = rng.normal(size=(2, n))
    return truth, 0.1 * guess, None


def _skewed(rng: np.random.Generator, n: int) -> Any:
    x, e = rng.normal(size=(2, n))
    return np.exp(0.6 * x + 0.5 * e), np.exp(0.6 * x + 0.125), None


def _people(rng: np.random.Generator, n: int) -> Any:
    sizes = rng.integers(1, 10, max(2, n // 5))
    who = np.repeat(np.arange(len(sizes)), sizes)
    x, b = rng.normal(size=(2, len(sizes)))
    return (x + b)[who] + 0.5 * rng.normal(size=len(who)), x[who], who


WORLDS: dict[str, World] = {"normal": _normal, "useless": _useless, "skewed": _skewed, "people of 1 to 9": _people}


def coverage(runs: int) -> dict[str, Any]:
    """How often the intervals hold what the same guesses have in a large population."""
    told = {}
    for name, world in WORLDS.items():
        rng = np.random.default_rng(16)
        truth, guess, units = world(rng, 400_000)
        real = [m.value for m in measured(truth, guess, units)]
        for n in (100, 1000):
            held = np.mean(
                [[m.low <= r <= m.high for m, r in zip(measured(*world(rng, n)), real, strict=True)]
                 for _ in range(runs)], axis=0,
            )  # fmt: skip
            told[f"{name}, {n} rows"] = dict(zip(("R²", "rank", "mean error"), held.round(3).tolist(), strict=True))
            print(f"coverage, {name}, {n} rows: {told[f'{name}, {n} rows']}", flush=True)
    return told


def measured(truth: np.ndarray, guess: np.ndarray, units: np.ndarray | None) -> list[Any]:
    off = mean_absolute_error(truth, guess, 0.0, units)
    return [r_squared(truth, guess, units), rank_correlation(truth, guess, units), off]


if __name__ == "__main__":
    main()
