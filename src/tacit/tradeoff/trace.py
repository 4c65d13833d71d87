"""`tacit.frontier`: lay out the points, train them, attack them, keep what is finished."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from sklearn.base import clone

from tacit import __version__
from tacit.auditing.attackers import resolve
from tacit.auditing.budget import Budget
from tacit.auditing.certification import Terms
from tacit.auditing.looks import count_look
from tacit.auditing.trial import check_pair
from tacit.callback import Callback, silent
from tacit.cores import safe_path
from tacit.errors import InputError, TacitWarning, check_number
from tacit.records.dataset import Dataset
from tacit.report.certificates import AnyCertificate
from tacit.report.plain_data import plain_parameter, read
from tacit.report.results import Result
from tacit.tradeoff.attacking import MAX_ROWS, audit_points, read_reference, write_reference
from tacit.tradeoff.checkpoint import Folder, Scratch, data_identity
from tacit.tradeoff.curve import Frontier, Traced
from tacit.tradeoff.fitting import fit_group, release_group, restore, train_group, wake
from tacit.tradeoff.points import (
    FEW,
    GAMES_ON_CPU,
    GAMES_ON_GPU,
    Point,
    by_what_they_tell,
    groups,
    lay_out,
    name_filters,
    parts_of,
)
from tacit.tradeoff.streaming import stream

PARTS = 4  # for each process
STACKED = 8  # points for each process, from which on their networks are trained on the GPU


def frontier(
    filter: Any,
    train: Dataset | str | Path,
    attack: Dataset,
    test: Dataset,
    values: Any = 8,
    seeds: int | Sequence[int] = 3,
    attackers: str | Sequence[Any] = "quick",
    *,
    knob: str | None = None,
    checkpoint: str | Path | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    confidence_level: float = 0.95,
    limit: bool | None = None,
    minutes: float | None = None,
    callback: Callback = silent,
) -> Frontier:
    """Trace the curve of utility against leakage that a filter's knob draws, and choose from it.

    All knob values with all seeds are trained together where the filter can (`EIGAN`, `CodebookFilter`), and one
    by one otherwise. Every point is attacked afresh with the same budget (codes by counting, others by `attackers`
    on at most 10,000 rows), and every interval and certificate is simultaneous over all points: whatever you
    choose, by rule or by eye, its statements hold.

    Parameters
    ----------
    filter : a filter or a scikit-learn transformer; several in a list or by name in a mapping
    train, attack, test : the filter learns from `train`; attackers learn from `attack` and are measured on `test`;
        certificates count both. For `EIGAN`, `train` may be the path of a Parquet file larger than memory, with the
        columns of `attack`; mini-batches are then read from disk
    values : how many values, spread over the filter's default ones, or the values themselves (a mapping from
        filter name to either, where there are several filters)
    seeds : how many, or the seeds themselves
    attackers : as for `tacit.audit`
    knob : the parameter to vary, where it is not the filter's `frontier_parameter`
    checkpoint : folder that keeps finished points; the same call resumes after a kill. None keeps nothing
    device : for filters that have a ``device``; "auto" leaves theirs
    n_jobs : processes; all cores by default (a GPU trains in one)
    confidence_level : of all certificates of the curve together; of all intervals of utility; of all of leakage
    limit : estimate the best that any release could do (None: where that takes seconds)
    minutes : a time that is not to be passed by much: points come in the order of what they tell (the ends and the
        middle of the knob first, the second seed when the first is done), and those that are not reached are left out
        and counted in ``left_out``. The same call with the same `checkpoint` goes on
    callback : called with (what, done, total), to show progress

    Examples
    --------
    >>> import tacit
    >>> parts = tacit.load_dataset("quadrants", n=900).split((.5, .2, .3), random_state=0)
    >>> front = tacit.frontier(tacit.CodebookFilter(4), *parts, values=[0., 3.], seeds=1, n_jobs=1, limit=False)
    >>> len(front.table())
    2
    >>> best = front.choose(max_leakage={"shape": .99})
    >>> best.report_.leakage["shape"].high <= .99
    True
    """
    check_number("n_jobs", n_jobs, 1, whole=True, optional=True)
    _check(train, attack, test, confidence_level)
    named = resolve(attackers)  # a wrong name should not wait for the training
    filters = {name: _on_device(f, device) for name, f in name_filters(filter).items()}
    points = lay_out(filters, values, seeds, knob)
    on_gpu = any(_device_of(f) == "cuda" for f in filters.values())
    n_jobs, budget = n_jobs or os.cpu_count() or 1, Budget(minutes)
    most = GAMES_ON_GPU if on_gpu else GAMES_ON_CPU if minutes is None else FEW
    ordered = points if minutes is None else by_what_they_tell(points)
    together = groups(filters, ordered, most, 1 if on_gpu else n_jobs)
    temporary = Scratch() if checkpoint is None else None
    folder = Folder(temporary.name if temporary else str(checkpoint))
    rows, sample, identity = _rows(train, attack, test, filters, folder)
    plan = folder.agree_on(_plan(filters, points, together, identity, attackers, confidence_level, limit))
    together = [[points[i] for i in group] for group in plan["groups"]]
    # one look at these rows, shared by all points of the curve
    look = count_look(attack, test, json.dumps(plan, sort_keys=True, default=str).encode())
    terms = Terms(confidence_level, len(points), look=look)
    job = _Job(filters, rows, attack, test, folder, terms, attackers, n_jobs, on_gpu, callback)
    reference: list[Any] = [delayed(write_reference)(sample, attack, test, folder, terms, limit)]
    reached: list[Point] = []
    size, longest = len(together) if minutes is None else 1 if on_gpu else n_jobs, 0.0
    for at in range(0, len(together), size):
        before = budget.left
        if reached and before < longest:
            break
        reached += job.trace(together[at : at + size], reference)
        reference, longest = [], max(longest, before - budget.left if minutes is not None else 0.0)

    return Frontier(
        traced=tuple(_read(folder, p) for p in sorted(reached, key=lambda p: p.number)),
        test=test,
        level=confidence_level,
        attackers=attackers if isinstance(attackers, str) else ", ".join(named),
        reference=read_reference(folder),
        rows={"train": len(rows), "attack": len(attack), "test": len(test)},
        candidates=len(points),
        fitted=lambda point: restore(filters[point.filter], point, rows, attack, test, folder),
        left_out=len(points) - len(reached),
        _keep=temporary,
    )


@dataclass(frozen=True)
class _Job:
    """Trains groups of points and attacks them, in so many processes."""

    filters: Mapping[str, Any]
    rows: Any
    attack: Dataset
    test: Dataset
    folder: Folder
    terms: Terms
    attackers: Any
    n_jobs: int
    on_gpu: bool
    callback: Callback

    def trace(self, together: Sequence[Sequence[Point]], beside: Sequence[Any]) -> list[Point]:
        """All points of these groups, and other work beside their attacks."""
        points = [p for group in together for p in group]
        waking: Iterable[Any] = ()
        if self.on_gpu:  # while one process trains, the others begin
            calls = [*beside, *(delayed(wake)() for _ in range(self.n_jobs))]
            with safe_path():
                waking, beside = Parallel(n_jobs=self.n_jobs, return_as="generator")(calls), []
        told = self._train_on_gpu(together) if self.on_gpu else self._train(together)
        for text in dict.fromkeys(told):
            warnings.warn(text, TacitWarning, stacklevel=4)
        parts = self._shared_out(points)
        # a stack of few networks is quicker on a processor than on a GPU that all processes share
        device = "cuda" if self.on_gpu and len(points) >= STACKED * self.n_jobs else "cpu"
        how = self.attackers, self.terms.candidates, self.terms.level, device
        work = [delayed(audit_points)([p.number for p in s], self.attack, self.test, self.folder, *how) for s in parts]
        self._run("attacking", [*beside, *work], [*[1 for _ in beside], *map(len, parts)])
        list(waking)
        return points

    def _train(self, together: Sequence[Sequence[Point]]) -> list[str]:
        where = self.rows, self.attack, self.test, self.folder, self.terms
        work = [delayed(train_group)(self.filters[g[0].filter], g, *where) for g in together]
        return [line for lines in self._run("training", work, [len(g) for g in together]) for line in lines]

    def _train_on_gpu(self, together: Sequence[Sequence[Point]]) -> list[str]:
        """One process trains, and all of them release."""
        told, work, done = [], [], 0
        total = sum(map(len, together))
        self.callback("training", 0, total)
        for group in together:
            fitted, lines = fit_group(self.filters[group[0].filter], group, self.rows, self.folder)
            told += lines
            own = dict(zip(group, fitted, strict=False))
            for some in self._shared_out([p for p in group if p in own]):
                filters = [own[p] for p in some]
                work.append(delayed(release_group)(filters, some, self.attack, self.test, self.folder, self.terms))
            done += len(group)
            self.callback("training", done, total)
        if work:
            self._run("releasing", work, [len(w[1][1]) for w in work])
        return told

    def _shared_out(self, points: Sequence[Point]) -> list[list[Point]]:
        """Parts for the processes: some for each, so that they finish together, and not too many, for each is sent.

        On a GPU one for each: the networks of a part are one stack.
        """
        return parts_of(points, min(len(points), (1 if self.on_gpu else PARTS) * self.n_jobs)) if points else []

    def _run(self, what: str, work: Sequence[Any], weights: Sequence[int]) -> list[Any]:
        """Run calls in processes (here, where one is enough), telling what is done."""
        done, out = 0, []
        self.callback(what, 0, sum(weights))
        n = min(self.n_jobs, len(work))
        results: Iterable[Any]
        if n == 1:
            results = (f(*args, **kwargs) for f, args, kwargs in work)
        else:
            with safe_path():
                results = Parallel(n_jobs=n, return_as="generator")(work)
        for weight, result in zip(weights, results, strict=True):
            done += weight
            out.append(result)
            self.callback(what, done, sum(weights))
        return out


def _rows(
    train: Any, attack: Dataset, test: Dataset, filters: Mapping[str, Any], folder: Folder
) -> tuple[Any, Dataset, str]:
    """What filters learn from, in memory or in a file; some of it in memory; and what names all of the data."""
    if isinstance(train, Dataset):
        return train, train, data_identity(train, attack, test)
    if other := [n for n, f in filters.items() if not getattr(f, "streams", False)]:
        raise InputError(f"{other[0]} needs its rows in memory: pass `train` as a Dataset (EIGAN can stream)")
    rows = stream(train, attack, folder.path)
    return rows, rows.sample, rows.identity + data_identity(attack, test)


def _plan(
    filters: Mapping[str, Any],
    points: Sequence[Point],
    together: Sequence[Sequence[Point]],
    identity: str,
    attackers: Any,
    level: float,
    limit: bool | None,
) -> dict[str, Any]:
    """What is traced, as a folder keeps it."""
    kinds = {n: {"kind": type(f).__name__, "parameters": plain_parameter(f.get_params())} for n, f in filters.items()}
    return {
        "version": __version__,
        "filters": kinds,
        "points": [[p.filter, p.knob, p.value, p.seed] for p in points],
        "settings": {"attackers": plain_parameter(attackers), "level": level, "limit": limit, "rows": MAX_ROWS},
        "data": identity,
        "groups": [[p.number for p in group] for group in together],
    }


def _check(train: Any, attack: Dataset, test: Dataset, level: float) -> None:
    """Refuse what cannot be traced; attackers need two classes to learn from. None of this should wait."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.95; found {level!r}")
    if not isinstance(train, Dataset | str | Path):
        raise InputError(f"`train` is a {type(train).__name__}; pass a tacit.Dataset, or a Parquet file's path")
    check_pair(attack, test)
    if not len(test.y.columns) or not len(test.sensitive.columns):
        raise InputError("a frontier needs at least one target and one sensitive attribute; the data has none")
    for side in ("y", "sensitive"):
        for name in getattr(attack, side).columns:
            own = getattr(train, side) if isinstance(train, Dataset) else {}
            if name in own and own[name].nunique() < 2:
                continue  # a filter says so, and what to do
            classes, known = getattr(attack, side)[name].nunique(), int(getattr(test, side)[name].notna().sum())
            if classes < 2 or known < 2:
                raise InputError(
                    f"{name!r} has {classes} classes in `attack` and {known} known labels in `test`; attackers need "
                    f"two classes and two rows: use larger parts"
                )


def _on_device(f: Any, device: str) -> Any:
    if device == "auto" or "device" not in f.get_params():
        return f
    return clone(f).set_params(device=device)


def _device_of(f: Any) -> str:
    """Where a filter would train; the import is late, for transformers need no torch."""
    if "device" not in f.get_params():
        return "cpu"
    from tacit.training.device import choose_device  # transformers need no torch

    return choose_device(f.get_params()["device"]).type


def _read(folder: Folder, point: Point) -> Traced:
    _, trained = folder.read("trained", point.number)
    right, results = folder.read("audited", point.number)
    return Traced(
        point=point,
        utility=read(Mapping[str, Result], results["utility"], "utility"),
        leakage=read(Mapping[str, Result], results["leakage"], "leakage"),
        certificate=read(Mapping[str, AnyCertificate | None], trained["certificate"], "certificate"),
        bound=trained["bound"],
        notes=tuple(trained["notes"]),
        right=right,
        seconds=results["seconds"],
        breadth=results.get("breadth"),
    )
