"""Kinds of attack beside the headline, each saying what its attacker knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.bench import Bench, Outcome, measures
from tacit.audit.released import has_noise, plain_frame
from tacit.audit.report import Attack, Result
from tacit.dataset import Dataset
from tacit.errors import InputError
from tacit.labels import looks_continuous

DRAWS = 10  # of the noise, for the averaging attack
MOST_MEMBERS = 4000
FEWEST_UNITS = 30  # a class, for a pooled figure that is more than a range
SCAN_CLASSES = 4  # a number is scanned as quarters


@dataclass(frozen=True)
class Parts:
    """Released fresh rows of both parts, and the data they came from."""

    Za: Any
    attack: Dataset
    Zt: Any
    test: Dataset


def transfer(bench: Bench, parts: Parts) -> Attack | None:
    """Trained on raw data, tested on released data of the same format; None where formats differ."""
    raw, out = plain_frame(parts.attack.X), plain_frame(parts.Zt)
    if np.shape(parts.attack.X)[1:] != np.shape(parts.Zt)[1:]:
        return None
    if isinstance(parts.Zt, pd.DataFrame) and not isinstance(parts.attack.X, pd.DataFrame):
        return None  # an array came in, a table goes out
    if any(_is_number(raw.iloc[:, i]) != _is_number(out.iloc[:, i]) for i in range(raw.shape[1])):
        return None
    results = bench.run(
        parts.attack.X, parts.attack, _like(parts.Zt, parts.attack.X), parts.test, "sensitive", "balanced_accuracy"
    )
    return Attack("transfer", "raw records with their secrets, no released ones (weaker than adaptive)", results)


def pooled(bench: Bench, outcomes: Sequence[Outcome], sizes: Sequence[int]) -> Iterator[Attack]:
    """m releases of the same unit, read together: the sum of the chosen attacker's log-probabilities."""
    for m in sizes:
        results = {}
        for outcome in outcomes:
            c = outcome.contest
            if c.ut is None or not _constant_within(c.yt, c.ut):
                continue
            truth, p = _pool(c.yt, np.log(np.maximum(outcome.best, 1e-6)), c.ut, outcome.prior, m, bench.seed)
            if len(truth) == 0 or len(truth) == len(c.yt):
                continue
            few = np.bincount(truth)[np.unique(truth)].min() < FEWEST_UNITS
            results[c.attribute] = Result(
                c.attribute,
                "balanced_accuracy",
                f"{outcome.chosen}, {m} pooled" + (" (few units: read the range)" if few else ""),
                **measures(truth, p, outcome.prior, None, bench.level),  # type: ignore[arg-type]
                n=len(truth),
                n_units=len(truth),
            )
        if results:
            yield Attack(f"pooled, {m}", f"{m} releases of the same unit", results)


def averaging(bench: Bench, release: Any, parts: Parts) -> Attack | None:
    """Several draws of the noise on the same record, averaged: what keyed noise prevents."""
    if not has_noise(release) or not hasattr(release, "redraw"):
        return None
    copies = [release.redraw() for _ in range(DRAWS)]
    Za, Zt = (np.mean([c.transform(d.X) for c in copies], axis=0) for d in (parts.attack, parts.test))
    results = bench.run(Za, parts.attack, Zt, parts.test, "sensitive", "balanced_accuracy")
    knows = f"{DRAWS} releases of each record under different keys (the same key gives the same noise, and no average)"
    return Attack("averaging", knows, results)


def several_views(bench: Bench, views: Sequence[Any], parts: Parts) -> Attack | None:
    """This release and others of the same records, side by side."""
    if not views:
        return None
    more = [[plain_frame(v.transform(d.X)) for v in views] for d in (parts.attack, parts.test)]
    Za, Zt = (
        pd.concat([plain_frame(Z), *others], axis=1).set_axis(
            range(sum(f.shape[1] for f in [plain_frame(Z), *others])), axis=1
        )
        for Z, others in zip((parts.Za, parts.Zt), more, strict=True)
    )
    results = bench.run(Za, parts.attack, Zt, parts.test, "sensitive", "balanced_accuracy")
    return Attack("several views", f"{len(views) + 1} releases of the same records together", results)


def mask_only(bench: Bench, release: Any, parts: Parts) -> Attack | None:
    """The bare mask, without a pixel: its shape alone may say who it is. For releases that have ``mask``."""
    if not hasattr(release, "mask"):
        return None
    masks = [np.asarray(release.mask(d.X), float) for d in (parts.attack, parts.test)]
    results = bench.run(masks[0], parts.attack, masks[1], parts.test, "sensitive", "balanced_accuracy")
    return Attack("mask only", "where the mask lies, but nothing of what it shows", results)


def membership(bench: Bench, release: Any, train: Dataset | None, parts: Parts) -> Attack | None:
    """Was this record used to fit the filter? From its release and its true labels."""
    if train is None:
        return None
    n = min(len(train), len(parts.test), MOST_MEMBERS)
    rng = np.random.default_rng(bench.seed)
    inside, outside = (d.take(np.sort(rng.permutation(len(d))[:n])) for d in (train, parts.test))
    Z = [plain_frame(release.transform(d.X)).assign(**_labels(d)) for d in (inside, outside)]
    member = pd.DataFrame({"membership": np.repeat(["in", "out"], n)})
    both = Dataset(pd.concat(Z, ignore_index=True), None, member)
    one, two = both.split((0.5, 0.5), seed=bench.seed)
    results = bench.run(one.X, one, two.X, two, "sensitive", "balanced_accuracy")
    return Attack("membership", "the release and the true labels of a record, and some members by name", results)


def scan(bench: Bench, parts: Parts, skip: Sequence[str]) -> Attack | None:
    """Which other columns of the raw data the release gives away, most exposed first."""
    raw = [plain_frame(d.X) for d in (parts.attack, parts.test)]
    results: dict[str, Result] = {}
    for column in raw[0].columns:
        both = pd.concat([r[column] for r in raw], ignore_index=True)
        if column in skip or both.nunique() < 2:
            continue
        if _is_number(both) and (looks_continuous(both) or both.nunique() > SCAN_CLASSES):
            both = pd.qcut(both, SCAN_CLASSES, duplicates="drop").astype(str).where(both.notna())
        common = both.value_counts()
        both = both.where(both.isin(common.index[common >= 20][:20]))  # rare values cannot be measured
        if both.nunique() < 2:
            continue
        labels = both.iloc[: len(raw[0])], both.iloc[len(raw[0]) :].reset_index(drop=True)
        parts_ = [
            Dataset(d.X, None, pd.DataFrame({column: s}), d.units)
            for d, s in zip((parts.attack, parts.test), labels, strict=True)
        ]
        try:
            results |= bench.run(parts.Za, parts_[0], parts.Zt, parts_[1], "sensitive", "balanced_accuracy")
        except InputError:
            continue  # too rare in one part to say anything
    ranked = sorted(results.items(), key=lambda item: item[1].guessing - item[1].value)
    return Attack("scan", "released records with the raw column of others", dict(ranked)) if results else None


def _pool(
    truth: np.ndarray, logs: np.ndarray, units: np.ndarray, prior: np.ndarray, m: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Units with at least m records: their class, and the probabilities after m random records each."""
    rng = np.random.default_rng(seed)
    kept, sums = [], []
    for u in np.unique(units):
        rows = np.flatnonzero(units == u)
        if len(rows) >= m:
            some = rng.permutation(rows)[:m]
            # the prior counts once, not m times
            total = logs[some].sum(axis=0) - (m - 1) * np.log(prior)
            kept.append(truth[rows[0]])
            sums.append(np.exp(total - total.max()))
    if not kept:
        return np.empty(0, dtype=np.int64), np.empty((0, logs.shape[1]))
    p = np.array(sums)
    return np.array(kept), p / p.sum(axis=1, keepdims=True)


def _constant_within(truth: np.ndarray, units: np.ndarray) -> bool:
    pairs = np.unique(np.column_stack([np.unique(units, return_inverse=True)[1].ravel(), truth]), axis=0)
    return len(pairs) == len(np.unique(units)) < len(units)


def _labels(data: Dataset) -> dict[str, Any]:
    named = {**{f"y {c}": data.y[c] for c in data.y}, **{f"s {c}": data.sensitive[c] for c in data.sensitive}}
    return {k: v.astype(object).where(v.notna(), "unknown").astype(str).to_numpy() for k, v in named.items()}


def _like(Z: Any, raw: Any) -> Any:
    return plain_frame(Z).set_axis(raw.columns, axis=1) if isinstance(raw, pd.DataFrame) else Z


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column)
