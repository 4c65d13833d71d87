"""Kinds of attack beside the headline, each saying what its attacker knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.bench import Bench, Outcome, measures
from tacit.audit.released import has_noise, plain_frame
from tacit.errors import InputError
from tacit.filters.base import Filter
from tacit.labels import looks_continuous
from tacit.records.dataset import Dataset
from tacit.release.runtime import Release
from tacit.report.results import AttackResult, Result

DRAWS = 10  # of the noise, for the averaging attack
MOST_MEMBERS = 4000
FEWEST_UNITS = 30  # a class, for a pooled figure that is more than a range
MAX_COMPARED = 8  # columns of a record that are compared with the next one's
SCAN_CLASSES = 4  # a number is scanned as quarters


@dataclass(frozen=True)
class Parts:
    """Released fresh rows of both parts, and the data they came from."""

    Za: Any
    attack: Dataset
    Zt: Any
    test: Dataset


def transfer(bench: Bench, parts: Parts) -> AttackResult | None:
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
    return AttackResult("transfer", "raw records with their secrets, no released ones (weaker than adaptive)", results)


def pooled(bench: Bench, outcomes: Sequence[Outcome], sizes: Sequence[int]) -> Iterator[AttackResult]:
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
            yield AttackResult(f"pooled, {m}", f"{m} releases of the same unit", results)


def joined(bench: Bench, parts: Parts) -> AttackResult | None:
    """Two records of one unit read together by one classifier: side by side, their differences, what is equal.

    For labels that are constant within a unit; None where no label's units have two records in both parts.
    """
    frames = [plain_frame(Z) for Z in (parts.Za, parts.Zt)]
    results: dict[str, Result] = {}
    for column in parts.attack.sensitive.columns:
        sides = []
        for frame, data in zip(frames, (parts.attack, parts.test), strict=True):
            units, labels = data.units_of(column), data.sensitive[column]
            if units is None:
                return None
            sides.append(_pairs(frame, units, labels, bench.seed))
        if any(side is None for side in sides):
            continue
        (Za, attack), (Zt, test) = (side for side in sides if side is not None)
        try:
            results |= bench.run(Za, attack, Zt, test, "sensitive", "balanced_accuracy")
        except InputError:
            continue  # too few units with two records to say anything
    return AttackResult("joined", "two releases of the same unit, side by side", results) if results else None


def row_order(bench: Bench, parts: Parts) -> AttackResult | None:
    """Where a record stands in the file, what stands next to it, and the known labels nearby.

    For releases that are handed over as files or arrays, whose order somebody else chose. Positions are those of the
    data set that both parts were taken from, or else of each part. None where parts overlap.
    """
    where = [np.asarray(d.rows) for d in (parts.attack, parts.test)]
    one_file = len(np.intersect1d(where[0], where[1])) == 0
    if not one_file:
        where = [np.arange(len(p)) for p in where]
    frames = [plain_frame(Z) for Z in (parts.Za, parts.Zt)]
    if one_file:
        at = np.argsort(np.concatenate(where), kind="stable")
        both = pd.concat([f.set_axis(range(f.shape[1]), axis=1) for f in frames], ignore_index=True)
        beside = _beside(both.iloc[at]).iloc[np.argsort(at)].reset_index(drop=True)
        neighbours = [beside.iloc[: len(where[0])], beside.iloc[len(where[0]) :]]
    else:
        neighbours = [_beside(f) for f in frames]
    results: dict[str, Result] = {}
    for column in parts.attack.sensitive.columns:
        labels = pd.factorize(parts.attack.sensitive[column])[0]
        near = None
        if one_file:
            near = [_labels_nearby(where[0], labels, rows, itself=rows is where[0]) for rows in where]
            # known rows that lie together say nothing about rows that lie elsewhere
            if np.median(near[1]["distance before"]) > 3 * np.median(near[0]["distance before"]):
                near = None
        tables = []
        for part, (rows, beside) in enumerate(zip(where, neighbours, strict=True)):
            table = beside.reset_index(drop=True).assign(
                position=rows, **{f"modulo {m}": rows % m for m in (2, 3, 4, 5)}
            )
            if near is not None:
                table = table.assign(**near[part])
            tables.append(table)
        sides = [
            Dataset(table, None, data.sensitive[[column]], data.units)
            for table, data in zip(tables, (parts.attack, parts.test), strict=True)
        ]
        results |= bench.run(tables[0], sides[0], tables[1], sides[1], "sensitive", "balanced_accuracy")
    return (
        AttackResult("row order", "where the record stands in the file, and its neighbours", results)
        if results
        else None
    )


def averaging(bench: Bench, release: Any, parts: Parts) -> AttackResult | None:
    """Several draws of the noise on the same record, averaged: what keyed noise prevents."""
    if not has_noise(release) or not hasattr(release, "redraw"):
        return None
    copies = [release.redraw() for _ in range(DRAWS)]
    Za, Zt = (np.mean([c.transform(d.X) for c in copies], axis=0) for d in (parts.attack, parts.test))
    results = bench.run(Za, parts.attack, Zt, parts.test, "sensitive", "balanced_accuracy")
    knows = f"{DRAWS} releases of each record under different keys (the same key gives the same noise, and no average)"
    return AttackResult("averaging", knows, results)


def several_views(bench: Bench, views: Sequence[Any], parts: Parts) -> AttackResult | None:
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
    return AttackResult("several views", f"{len(views) + 1} releases of the same records together", results)


def mask_only(bench: Bench, release: Any, parts: Parts) -> AttackResult | None:
    """The bare mask, without a pixel: its shape alone may say who it is. For releases that have ``mask``."""
    if not hasattr(release, "mask"):
        return None
    masks = [np.asarray(release.mask(d.X), float) for d in (parts.attack, parts.test)]
    results = bench.run(masks[0], parts.attack, masks[1], parts.test, "sensitive", "balanced_accuracy")
    return AttackResult("mask only", "where the mask lies, but nothing of what it shows", results)


def membership(bench: Bench, release: Any, train: Dataset | None, parts: Parts) -> AttackResult | None:
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
    return AttackResult("membership", "the release and the true labels of a record, and some members by name", results)


def bundle_membership(bench: Bench, release: Any, train: Dataset | None, parts: Parts) -> AttackResult | None:
    """The same, asked of the whole bundle: whoever holds it sees every number its graph computes on the way."""
    if train is None or not isinstance(release, Filter | Release):
        return None
    from tacit.audit.membership import whitebox_membership  # onnx takes half a second to import: only this attack pays

    try:
        found = whitebox_membership(release, train, parts.test, bench.seed, bench.level)
    except InputError:
        return None  # a filter that cannot be saved has no bundle to give away
    knows = "the bundle, and a record with its true labels; some members by name"
    return AttackResult("membership, by the bundle", knows, {"membership": found})


def scan(bench: Bench, parts: Parts, skip: Sequence[str]) -> AttackResult | None:
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
    return AttackResult("scan", "released records with the raw column of others", dict(ranked)) if results else None


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


def _pairs(frame: pd.DataFrame, units: np.ndarray, labels: pd.Series, seed: int) -> tuple[Any, Dataset] | None:
    """Two records of each unit that has two, in the file's order; None where a label varies within units."""
    codes = pd.factorize(labels)[0]
    known = codes >= 0
    if not known.any() or not _constant_within(codes[known], units[known]):
        return None
    order = np.random.default_rng(seed).permutation(np.flatnonzero(known))
    place = pd.Series(units[order]).groupby(units[order]).cumcount().to_numpy()
    chosen = np.sort(order[place < 2])
    chosen = chosen[np.lexsort((chosen, pd.factorize(units[chosen])[0]))]
    single = pd.Series(units[chosen]).groupby(units[chosen]).transform("size").to_numpy() < 2
    chosen = chosen[~single]
    one, two = (frame.iloc[chosen[k::2]].reset_index(drop=True) for k in (0, 1))
    if len(one) < 2:
        return None
    return _compared(one, two), Dataset(
        np.zeros((len(one), 1)), None, labels.iloc[chosen[::2]].reset_index(drop=True).to_frame(), units[chosen[::2]]
    )


def _compared(one: pd.DataFrame, two: pd.DataFrame) -> pd.DataFrame:
    """Two records side by side, with differences of numbers and equality of everything."""
    out = pd.concat([one.add_prefix("first "), two.add_prefix("second ")], axis=1)
    more = {}
    for c in one.columns:
        same = one[c].to_numpy() == two[c].to_numpy()
        more[f"equal {c}"] = same.astype(float)
        if _is_number(one[c]) and _is_number(two[c]):
            more[f"difference {c}"] = one[c].to_numpy(float) - two[c].to_numpy(float)
    return pd.concat([out, pd.DataFrame(more)], axis=1)


def _beside(frame: pd.DataFrame) -> pd.DataFrame:
    """How a record compares with the one before it and the one behind it in the file."""
    out = {}
    for name, step in (("before", 1), ("behind", -1)):
        other = frame.shift(step)
        same = frame.eq(other)
        out[f"equal {name}"] = same.mean(axis=1).to_numpy(float)
        for i in range(min(frame.shape[1], MAX_COMPARED)):
            out[f"equal {name}, {i}"] = same.iloc[:, i].to_numpy(float)
    return pd.DataFrame(out, index=frame.index)


def _labels_nearby(known: np.ndarray, labels: np.ndarray, rows: np.ndarray, itself: bool) -> dict[str, np.ndarray]:
    """Labels of the nearest known records before and behind each row, and how far away they are."""
    order = np.argsort(known, kind="stable")
    places, told = known[order], labels[order]
    out = {}
    before = np.searchsorted(places, rows, side="left") - 1
    behind = np.searchsorted(places, rows, side="right" if itself else "left")
    for name, at in (("before", before), ("behind", behind)):
        inside = (at >= 0) & (at < len(places))
        near = np.clip(at, 0, len(places) - 1)
        out[f"label {name}"] = np.where(inside, told[near], -1)
        out[f"distance {name}"] = np.where(inside, np.abs(places[near] - rows), len(rows))
    return out


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
