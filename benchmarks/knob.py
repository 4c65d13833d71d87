"""Is the codebook's knob felt all along? Certified bounds over its grid, on every table data set.

    python benchmarks/knob.py [--only "titanic;together"]

Each set with its own target, and again with two more made of its columns (whether a number lies above its median);
besides them the two cases in which the knob once was dead: Adult with five targets, and a table whose label
and secret go together. Of every grid three things are asked: neighbours' bounds do not rise (within what chance
does to a bound), the last is within .02 of what a constant is certified at, and no step down is wider than a
fifth of the range, chance or not; where one is not met, why. Writes benchmarks/knob.json.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tacit
from tacit.auditing.certificate import Certificate, certify
from tacit.datasets import declarations
from tacit.filters.base import learn_many, prepare
from tacit.labels import encode_labels

WEIGHTS = tacit.CodebookFilter.knob.values
MOST_ROWS = 6_000
LIKE_A_CONSTANT = 0.02
WIDEST_STEP = 0.2  # of the range


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    out = Path(__file__).with_suffix(".json")
    for name, make in cases().items():
        if chosen.only and name not in chosen.only.split(";"):
            continue
        began = time.perf_counter()
        data, n_codes = make()
        if data is None:
            continue
        found = {**curve(data, n_codes), "rows": len(data)}
        found["seconds"] = round(time.perf_counter() - began, 1)
        print(
            f"{name:26s} {' '.join(f'{b:.3f}'[1:] for b in found['bounds'])} | constant {found['constant']:.3f}, "
            f"chance {found['chance']:.3f}, widest step {found['widest_step']:.2f} of the range, "
            f"rise {found['rise']:.3f}: {'felt' if found['felt'] else '; '.join(found['why_not'])} "
            f"({found['seconds']:.0f} s)",
            flush=True,
        )
        results = json.loads(out.read_text()) if out.exists() else {}  # another process may have written
        out.write_text(json.dumps(dict(sorted((results | {name: found}).items())), indent=1))


def cases():
    """name -> () -> (data, n_codes)."""
    tables = [name for name, d in sorted(declarations().items()) if d.modality == "table" and d.present]
    some = {name: lambda name=name: (few_rows(tacit.load_dataset(name)), 16) for name in tables}
    more = {f"{name}, three targets": lambda name=name: (more_targets(name), 16) for name in tables}
    return {**some, **more, "adult, five targets": lambda: (adult_five(), 64), "together": lambda: (together(), 16)}


def few_rows(data: tacit.Dataset) -> tacit.Dataset:
    return data if len(data) <= MOST_ROWS else data.split((MOST_ROWS, len(data) - MOST_ROWS), random_state=0)[0]


def more_targets(name: str) -> tacit.Dataset | None:
    """Two more targets: is a column of numbers above its median? The columns stay inputs."""
    data = few_rows(tacit.load_dataset(name))
    X = pd.DataFrame(np.asarray(data.X).reshape(len(data), -1)) if not isinstance(data.X, pd.DataFrame) else data.X
    numbers = [c for c in X.select_dtypes("number") if 0.2 < (X[c] > X[c].median()).mean() < 0.8][:2]
    if not numbers:
        return None
    y = data.y.assign(**{f"{c} is high": (X[c] > X[c].median()).to_numpy() for c in numbers})
    return tacit.Dataset(data.X, y, data.sensitive, data.units, data.name, "table")


def adult_five() -> tacit.Dataset:
    data = few_rows(tacit.load_dataset("adult"))
    desks = ("Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales", "Tech-support")
    y = data.y.assign(
        education=(data.X["education-num"] >= 10).to_numpy(),
        hours=(data.X["hours-per-week"] > 40).to_numpy(),
        age=(data.X["age"] >= 40).to_numpy(),
        white_collar=data.X["occupation"].isin(desks).to_numpy(),
    )
    return tacit.Dataset(data.X, y, data.sensitive, name="adult", modality="table")


def together(n: int = 6_000, seed: int = 0) -> tacit.Dataset:
    """All that X tells of the secret it tells through the label."""
    rng = np.random.default_rng(seed)
    s = rng.random(n) < 0.5
    y = rng.random(n) < np.where(s, 0.6, 0.4)
    X = np.column_stack([1.3 * (2 * y - 1), np.zeros(n), np.zeros(n)]) + rng.standard_normal((n, 3))
    return tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}), name="together", modality="table")


def curve(data: tacit.Dataset, n_codes: int, weights: Sequence[float] = WEIGHTS, seed: int = 0) -> dict[str, Any]:
    """The highest bound of any sensitive label and the mean utility at every weight, on fresh rows.

    Posteriors do not depend on the weight, so the codes of all weights are learned together. The utility is how
    often the commonest label of a cell is right, counted on the fresh rows themselves.
    """
    train, fresh = data.split((0.5, 0.5), random_state=seed)
    filters = [tacit.CodebookFilter(n_codes, weight, random_state=seed) for weight in weights]
    given = train.X, train.y, train.sensitive, train.units_of()
    began = time.process_time()
    learn_many(filters, [prepare(f, *given) for f in filters])
    seconds = time.process_time() - began
    cells = [f.codes(fresh.X) for f in filters]
    bounds = [max(c.bound for c in certificates(z, fresh)) for z in cells]
    y = encode_labels(fresh.y, "y", len(fresh)).codes.T
    return {
        "weights": list(weights),
        "bounds": bounds,
        "utility": [float(np.mean([right(z, column) for column in y])) for z in cells],
        "cells": [int(np.unique(z).size) for z in cells],
        "fit_cpu_seconds": round(seconds, 1),
        **judge(bounds, certificates(np.zeros(len(fresh), dtype=int), fresh)),
    }


def certificates(cells: np.ndarray, fresh: tacit.Dataset) -> list[Certificate]:
    """Each by itself: all releases are fixed beforehand."""
    hidden = encode_labels(fresh.sensitive, "sensitive", len(fresh))
    units = fresh.units_of()
    return [certify(cells, s, len(c), units=units) for s, c in zip(hidden.codes.T, hidden.classes, strict=True)]


def right(cells: np.ndarray, labels: np.ndarray) -> float:
    return float(pd.crosstab(cells, labels).max(axis=1).sum() / len(cells))


def judge(bounds: Sequence[float], nothing: Iterable[Certificate]) -> dict[str, Any]:
    """Whether the knob is felt. A bound is counted on few rows: two standard errors of it are chance."""
    constant = max(c.bound for c in nothing)
    # one standard error of the plug-in is at most half the slack of a 95 % bound divided by sqrt(ln 20 / 2)
    chance = 2 * max(c.bound - c.guessing for c in nothing) / 2 / math.sqrt(math.log(20) / 2)
    span = max(bounds) - constant
    steps = [a - b for a, b in pairwise(bounds)]
    widest, rise = max(steps), max(0.0, -min(steps))
    like_constant = abs(bounds[-1] - constant) <= LIKE_A_CONSTANT
    felt = rise <= chance and like_constant and widest <= WIDEST_STEP * span
    why = {
        "it rises by more than chance": rise > chance,
        "it does not end like a constant": not like_constant,
        "the range is within chance: there is nothing to take away": span <= chance,
        "a step is wider than a fifth, by less than chance": 0 < widest - WIDEST_STEP * span <= chance < span,
        "a step is wider than a fifth, by more than chance": widest - WIDEST_STEP * span > chance,
    }
    found = {"constant": constant, "chance": chance, "rise": rise, "widest_step": widest / max(span, 1e-9)}
    return {**found, "felt": felt, "why_not": [] if felt else [reason for reason, holds in why.items() if holds]}


if __name__ == "__main__":
    main()
