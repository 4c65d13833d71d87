"""What a curve is drawn against: the label-only release, and the estimated limit of any release."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tacit.audit.certification import Terms, certify_release
from tacit.audit.floor import MOST_FOR_LIMIT, SLOPES
from tacit.frontier.attacking import bench_for
from tacit.frontier.checkpoint import Folder
from tacit.records.dataset import Dataset
from tacit.report.plain_data import plain, read
from tacit.report.results import LimitPoint, Result


class Reference(NamedTuple):
    """Label-only by counting, and by secret the closed rule's curve (empty where it was not estimated)."""

    label_only_utility: dict[str, Result]
    label_only: dict[str, Result]
    limit: dict[str, tuple[LimitPoint, ...]]
    note: str | None


def write_reference(
    train: Dataset, attack: Dataset, test: Dataset, folder: Folder, terms: Terms, limit: bool | None
) -> None:
    """Fit label-only and the closed rules on `train`, as any filter, and count both on the rows of the curve."""
    if folder.has("done", "reference"):
        return
    from tacit.baselines import LabelOnly  # transformers need no torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = train.y.notna().all(axis=1).to_numpy()
        own = train.take(known)
        label = LabelOnly(random_state=0)
        label.min_people = 1  # it leaves nobody's hands: as good as labels can be predicted
        label.fit(own.X, own.y, units=own.units_of())
        bench = bench_for(True, "quick", 1 - (1 - terms.level) / terms.candidates, 0)
        parts = label.transform(attack.X), attack, label.transform(test.X), test
        told: dict[str, Any] = {
            "utility": plain(bench.run(*parts, "y", "accuracy")),
            "leakage": plain(bench.run(*parts, "sensitive", "balanced_accuracy")),
            "limit": {},
            "note": _why_not(train, limit),
        }
        if told["note"] is None:
            told["limit"] = {s: _closed_curve(train, attack, test, s, terms) for s in train.sensitive}
    folder.write("done", "reference", {}, told)


def read_reference(folder: Folder) -> Reference:
    _, told = folder.read("done", "reference")
    utility, leakage = (read(Mapping[str, Result], told[side], side) for side in ("utility", "leakage"))
    curves = {s: tuple(LimitPoint(*p) for p in curve) for s, curve in told["limit"].items()}
    return Reference(utility, leakage, curves, told["note"])


def _why_not(train: Dataset, limit: bool | None) -> str | None:
    """Why the limit is not estimated; None where it is."""
    if limit is False:
        return "the limit was not asked for"
    if len(train.y.columns) != 1:
        return "the limit is known for one target only"
    classes = sum(train.sensitive[c].nunique() for c in train.sensitive)
    if limit is None and (np.ndim(train.X) != 2 or np.size(train.X) * classes > MOST_FOR_LIMIT):
        return "the limit was not estimated: it takes minutes here; limit=True does"
    return None


def _closed_curve(
    train: Dataset, attack: Dataset, test: Dataset, secret: str, terms: Terms
) -> list[list[float | None]]:
    """The best release for accuracy at every slope, as far as boosted trees fitted on `train` know the posteriors."""
    from tacit.filters.codebook import CodebookFilter  # transformers need no torch
    from tacit.frontier.fitting import fit_points
    from tacit.frontier.points import Point

    alone = [Dataset(d.X, d.y, d.sensitive[[secret]], d.units) for d in (train, attack, test)]
    points = [Point(i, "closed", "leakage_weight", slope, 0) for i, slope in enumerate(SLOPES)]
    template = CodebookFilter(2, solver="closed", features="posterior", output="code")
    bench = bench_for(True, "quick", terms.level, 0)
    curve: list[list[float | None]] = []
    for f in fit_points(template, points, alone[0]):
        parts = f.transform(attack.X), alone[1], f.transform(test.X), alone[2]
        accuracy = next(iter(bench.run(*parts, "y", "accuracy").values())).value
        leak = bench.run(*parts, "sensitive", "balanced_accuracy")[secret]
        found = certify_release(f, [parts], terms).certificate[secret]
        curve.append([accuracy, max(leak.value, leak.guessing), None if found is None else found.bound])
    return curve
