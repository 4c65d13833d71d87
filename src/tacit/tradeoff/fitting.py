"""Fitting the points of a group and releasing rows with each; getting a fitted filter back from its folder."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from tacit.auditing.certification import Terms, certify_trial
from tacit.auditing.trial import Trial, can_tell
from tacit.callback import whole_trainings
from tacit.errors import InputError
from tacit.filters.base import Filter, draw_seed, learn_many, prepare, relearn
from tacit.filters.mechanism import mechanism_of
from tacit.records.dataset import Dataset
from tacit.records.intake import encoded_once
from tacit.report.plain_data import plain as to_plain
from tacit.tradeoff.checkpoint import Folder, packed
from tacit.tradeoff.points import Point
from tacit.tradeoff.streaming import StreamedTable

Rows = Dataset | StreamedTable


def fit_points(template: Any, points: Sequence[Point], train: Rows) -> list[Any]:
    """The fitted filters of points that learn together."""
    if not isinstance(template, Filter):
        assert isinstance(train, Dataset)
        return [_fit_other(template, p, train) for p in points]
    filters, problems = _prepared(template, points, train)
    with whole_trainings():
        learn_many(filters, problems)
    return filters


def train_group(
    template: Any,
    points: Sequence[Point],
    train: Rows,
    attack: Dataset,
    test: Dataset,
    folder: Folder,
    terms: Terms,
) -> list[str]:
    """Fit, release and certify a group; what an audit needs goes to the folder. Returns what was warned of."""
    if all(folder.has("trained", p.number) for p in points):
        return []
    with _told() as told:
        release_group(fit_points(template, points, train), points, attack, test, folder, terms)
    return told


def fit_group(template: Any, points: Sequence[Point], train: Rows, folder: Folder) -> tuple[list[Any], list[str]]:
    """Only fit a group, for others to release with: none where all is done already. And what was warned of."""
    if all(folder.has("trained", p.number) for p in points):
        return [], []
    with _told() as told:
        filters = fit_points(template, points, train)
    for f in filters:
        f.__dict__.pop("_problem", None)  # the training rows stay here
    return filters, told


def wake() -> None:
    """A process that has read this module has what it takes to release, and now a GPU that answers."""
    import torch  # only where there is a GPU

    torch.zeros(1, device="cuda")


def release_group(
    filters: Sequence[Any], points: Sequence[Point], attack: Dataset, test: Dataset, folder: Folder, terms: Terms
) -> int:
    """Release and certify with fitted filters; what an audit needs goes to the folder."""
    seen = None  # the same rows by all filters of the group, which share one reading of the data
    with encoded_once():
        for point, f in zip(points, filters, strict=True):
            trial = Trial.of(_audited(f, point), attack, test, seen=seen)
            seen = trial.seen if isinstance(f, Filter) else None
            folder.write("trained", point.number, *_halves(f, trial, terms))
    return len(points)


@contextmanager
def _told() -> Iterator[list[str]]:
    """What is warned of in here, once each; filled in at the end."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    told += dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))


def restore(template: Any, point: Point, train: Rows, attack: Dataset, test: Dataset, folder: Folder) -> Any:
    """The fitted filter of a point: from its weights, or fitted again with the same seed; its releases are compared."""
    arrays, _ = folder.read("trained", point.number)
    state = {k.removeprefix("state/"): v for k, v in arrays.items() if k.startswith("state/")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if state and isinstance(template, Filter):
            [f], [problem] = _prepared(template, [point], train)
            relearn(f, problem, state)
        else:
            [f] = fit_points(template, [point], train)
    again = _releases(Trial.of(_audited(f, point), attack, test))
    same = all(
        np.array_equal(again[k], arrays[k])
        if again[k].dtype.kind in "ui"
        else np.allclose(again[k], arrays[k], atol=1e-5)
        for k in again
    )
    if not same:
        raise InputError(
            f"{point}: fitted again, the filter releases other records than the audited one; its random_state does "
            f"not fix its result (or libraries changed), so the audit does not hold for it"
        )
    return f


def _prepared(template: Filter, points: Sequence[Point], train: Rows) -> tuple[list[Any], list[Any]]:
    """Unfitted twins that share one reading of the data, and the problem of each."""
    first = clone(template)
    if isinstance(train, StreamedTable):
        problem = train.prepare(first)
    else:
        problem = prepare(first, train.X, train.y if len(train.y.columns) else None, train.sensitive, train.units_of())
    filters = []
    for p in points:
        other = copy.copy(first).set_params(**_setting(first, p))
        other.notes_ = list(first.notes_)
        filters.append(other)
    return filters, [dataclasses.replace(problem, seed=draw_seed(f)) for f in filters]


def _fit_other(template: Any, point: Point, train: Dataset) -> Any:
    """A plain scikit-learn transformer or pipeline."""
    f = clone(template).set_params(**_setting(template, point))
    y = train.y.iloc[:, 0] if len(train.y.columns) == 1 else (train.y if len(train.y.columns) else None)
    takes = hasattr(f, "get_metadata_routing") and any(isinstance(step, Filter) for _, step in getattr(f, "steps", []))
    return f.fit(train.X, y, sensitive_features=train.sensitive) if takes else f.fit(train.X, y)


def _setting(template: Any, point: Point) -> dict[str, Any]:
    seeds = [p for p in template.get_params() if p.split("__")[-1] == "random_state"]
    # a frontier keeps its points in a folder; one file could hold only one of them
    kept = {"checkpoint": None} if "checkpoint" in template.get_params() else {}
    return {point.knob: point.value, **dict.fromkeys(seeds, point.seed), **kept}


def _halves(f: Any, trial: Trial, terms: Terms) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What the folder keeps of a fitted point: weights, releases, which rows were seen; certificates and notes."""
    state = f.mechanism_.arrays() if isinstance(f, Filter) else None
    arrays = {f"state/{k}": v for k, v in (state or {}).items()}
    arrays |= _releases(trial)
    for part, seen in zip(("attack", "test"), trial.seen, strict=True):
        if seen.all():
            raise InputError(f"every row of `{part}` was used to fit the filter; split the data first")
        arrays[f"seen/{part}"] = seen
    certified = certify_trial(trial, terms)
    notes = [*certified.notes, *getattr(f, "notes_", [])]
    if not can_tell(f):
        notes.append("this release cannot tell which rows it was fitted on; the figures assume that it saw none")
    return arrays, {"certificate": to_plain(certified.certificate), "bound": certified.bound, "notes": notes}


def _releases(trial: Trial) -> dict[str, np.ndarray]:
    """The releases of both parts: cells where there are few distinct ones, numbers otherwise."""
    table = getattr(mechanism_of(trial.release), "columns", None) is not None  # whose columns say more than their row
    if trial.cells is not None and not table:
        return {"cells": trial.cells}
    return {k: packed(Z) for k, Z in zip(("attack", "test"), trial.Z, strict=True)}


def _audited(f: Any, point: Point) -> Any:
    """The same filter under a key of this audit alone: a resumed run must draw the same noise.

    The filter that is handed out has its own secret key, as every fitted filter.
    """
    return f.redraw(hashlib.sha256(f"audit of {point}".encode()).digest()) if isinstance(f, Filter) else f
