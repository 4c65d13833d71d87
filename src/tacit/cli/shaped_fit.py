"""What `tacit fit` does for recordings and for images alike: time told first, then fit, attack, release, hand over."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from sklearn.base import clone

import tacit
from tacit.auditing.trial import transformed
from tacit.cli.handover import checked_places, clear, tell_files, tell_keys
from tacit.cli.tables import print_comparison, progress
from tacit.errors import InputError, NotInstalled, installed
from tacit.release.manifest import expiry_date
from tacit.report import write_page
from tacit.report.report import Report
from tacit.report.results import shown
from tacit.report.screen import Console

TRIED = 192  # records and one epoch, by which the time to the end is told
AUDIT, AUDIT_EACH = 10.0, 3.2e-6  # seconds of a small audit; and for a number of a record, times classes to tell apart
WINDOWS_APART = ["no-baseline", "no-breadth", "no-linkability", "no-singling_out"]
IN_PARTS = 0.98  # of each part's statements, so that those of both hold together at 96 %

# released records, their numbers, the part each came from (None where all came from one), the folder -> where they lie
Write = Callable[[np.ndarray, np.ndarray, np.ndarray | None, Path], Path]


@dataclass(frozen=True)
class Preset:
    """The filter of one kind of records: its settings by the names of --filter (the first is usual), and smaller ones.

    `filter` is its class in `tacit`, by name, since the class needs torch; `small` is what --small sets besides, and
    `cost` says so.
    """

    records: str
    filter: str
    filters: Mapping[str, Mapping[str, Any]]
    small: Mapping[str, Any]
    cost: str

    def checked_name(self, asked: str | None) -> str:
        """The filter's name, if there is one of that name and what it needs is installed."""
        name = asked or next(iter(self.filters))
        if name not in self.filters:
            raise InputError(f"--filter {name} is not for {self.records}; there is {' and '.join(self.filters)}")
        if not installed("torch"):
            raise NotInstalled(f"a filter of {self.records}", "torch")
        return name

    def chosen(self, console: Console, name: str, small: bool, weight: float | None, seed: int) -> Any:
        """The filter as it was asked for; what --small costs is said."""
        settings = {**self.filters[name], **(self.small if small else {})}
        found = getattr(tacit, self.filter)(**settings, random_state=seed)
        if small:
            console.print(self.cost, highlight=False, markup=False)
        return found if weight is None else found.set_params(**{found.frontier_parameter: weight})


def fit_shaped(
    console: Console,
    data: tacit.Dataset,
    chosen: Any,
    name: str,
    source: Path,
    by: str | None,
    what: str,
    write: Write,
    *,
    out: Path,
    keys: Path | None,
    expires: str,
    seed: int,
    quick: bool,
    book: Any,
    all_records: bool,
    **_: Any,
) -> None:
    """Fit on half of the records, attack the others, release those, and write the three files.

    With `all_records` a second filter, fitted on the other half, releases the first, and is attacked there: whatever
    leaves, leaves through a filter that has not seen it and was measured. `by` is the attribute whose units decide the
    split; `what` the records' name; `write` writes what leaves.
    """
    if book is not None:
        raise InputError(f"--ledger is for tables; write a release of {what} down with tacit release apply --ledger")
    last_day = expiry_date(expires)  # a wrong one is said before the work
    secrets = checked_places(source, out, keys)
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=seed, by=by)
    rest = data.take(np.concatenate([attack.rows, test.rows]))
    _tell_time(console, chosen, train, what, 2 if all_records else 1)
    out.mkdir(parents=True, exist_ok=True)
    second = clone(chosen) if all_records else None
    reports = _fit_and_attack(console, (chosen, second), name, (train, rest, attack, test), what, by, seed, quick)
    own, reports = reports[1], [reports[0], *sorted(reports[1:], key=_most_leakage)]  # the last one is the headline
    print_comparison(console, reports)
    if not reports[-1].leakage:
        kept = ", ".join(f"{t} {shown(u.value)} (guessing {shown(u.guessing)})" for t, u in reports[-1].utility.items())
        text = (
            f"Kept, as accuracy: {kept}. Nothing was named with --sensitive, so what leaks of anybody was not measured"
        )
        console.print(text, highlight=False, markup=False)
    for attribute in reports[-1].leakage:
        console.print(reports[-1].sentence(attribute), highlight=False, markup=False)
    clear(out)
    page = write_page(reports, out / "report.html", f"{source.name}: {name}")
    reports[-1].to_json(out / "audit.json")
    # the bundle carries the audit of its own filter
    bundle = tacit.save(chosen, out / "filter.tacit", own, expires=last_day, keys=secrets)
    tell_keys(console, bundle, secrets)
    leaves = [(chosen, rest)] + ([] if second is None else [(second, train)])
    order = np.random.default_rng().permutation(sum(len(part) for _, part in leaves))
    released = np.concatenate([np.asarray(transformed(f, part)) for f, part in leaves])[order]
    rows = np.concatenate([part.rows for _, part in leaves])[order]
    parts = np.repeat(np.arange(1, 1 + len(leaves)), [len(part) for _, part in leaves])[order]
    place = write(released, rows, None if second is None else parts, out)
    told = _told(place, what, len(rest), len(train), all_records)
    tell_files(console, told, bundle, last_day, page)


def _fit_and_attack(
    console: Console,
    filters: tuple[Any, Any],
    name: str,
    parts: tuple[tacit.Dataset, ...],
    what: str,
    by: str | None,
    seed: int,
    quick: bool,
) -> list[Report]:
    """Audit the raw records and what the filter releases; with a second filter also what that one releases.

    The second report is of the first filter.
    """
    (chosen, second), (train, rest, attack, test) = filters, parts
    asked: dict[str, Any] = {"measurements": WINDOWS_APART, "random_state": seed}
    asked |= {"attackers": ["trees", "logistic"]} if quick else {}
    asked |= {} if second is None else {"confidence_level": IN_PARTS}
    called = name if second is None else f"{name}, part 1"
    steps: list[tuple[str, Callable[[], Report | None]]] = [
        (f"fitting {name} on {len(train):,} {what}", lambda: _fit(chosen, train, by)),
        (
            f"attacking {called}",
            lambda: tacit.audit(chosen, attack, test, **asked, options=tacit.AuditOptions(name=called)),
        ),
        (
            "attacking raw data",
            lambda: tacit.audit(None, attack, test, **asked, options=tacit.AuditOptions(name="raw data")),
        ),
    ]
    if second is not None:
        learn, look = train.split((0.4, 0.6), random_state=seed, by=by)
        steps += [
            (f"fitting {name} on the other {len(rest):,}", lambda: _fit(second, rest, by)),
            (
                f"attacking {name}, part 2",
                lambda: tacit.audit(second, learn, look, **asked, options=tacit.AuditOptions(name=f"{name}, part 2")),
            ),
        ]
    with progress(console) as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tacit.TacitWarning)
        task, reports = bar.add_task("", total=len(steps)), list[Report]()
        for doing, work in steps:
            bar.update(task, description=doing)
            if (found := work()) is not None:
                reports.append(found)
            bar.advance(task)
    for warning in sorted({str(w.message) for w in caught if issubclass(w.category, tacit.TacitWarning)}):
        console.print(f"[yellow]note:[/yellow] {escape(warning)}", highlight=False)
    own, raw, *other = reports
    return [raw, own, *other]


def _most_leakage(report: Report) -> float:
    """How far above chance the most exposed attribute may be, by the upper end of its bound or interval."""
    upper = {s: report.bound.get(s) or r.high for s, r in report.leakage.items()}
    return max((upper[s] - r.guessing for s, r in report.leakage.items()), default=0.0)


def _told(place: Path, what: str, first: int, second: int, all_records: bool) -> str:
    """What was released, and what was not and how to have it."""
    if all_records:
        return (
            f"Released all {first + second:,} {what}, in random order: [bold]{place}[/bold]\n"
            f"Part 1: {first:,} by the filter of the bundle. Part 2: {second:,}, which it was fitted on, by a second "
            f"filter that was fitted on part 1"
        )
    return (
        f"Released {first:,} of {first + second:,} {what}, in random order: [bold]{place}[/bold]\n"
        f"[yellow]Left out: {second:,} {what} that the filter was fitted on[/yellow]; what was measured does not hold "
        f"for them. --all releases them too, by a second filter, in about twice the time"
    )


def _fit(chosen: Any, part: tacit.Dataset, by: str | None) -> None:
    chosen.fit(part.X, part.y, sensitive_features=_or_none(part.sensitive), units=part.units_of(by))


def _or_none(sensitive: Any) -> Any:
    return sensitive if sensitive.shape[1] else None


def _tell_time(console: Console, chosen: Any, train: tacit.Dataset, what: str, times: int) -> None:
    """How long it will take, by one epoch on some records and by how many numbers attackers will read."""
    some = train.take(np.random.default_rng(0).permutation(len(train))[:TRIED])  # of all classes, not the first ones
    few = clone(chosen).set_params(epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _fit(few, some, None)  # what is loaded at the first fit is not counted
            start = time.perf_counter()
            _fit(few, some, None)
        except tacit.TacitError:
            return  # too few of some class among them; the fit itself says what is wrong
    fitting = (time.perf_counter() - start) * len(train) / len(some) * chosen.epochs
    classes = max(len(train.classes_of(c)) for c in (*train.y.columns, *train.sensitive.columns))
    seconds = fitting * times + (AUDIT + AUDIT_EACH * train.X.size * classes) * (1 + times)
    told = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(10, round(seconds, -1)):.0f} seconds"
    console.print(
        f"{len(train):,} {what} to learn from, {chosen.epochs} epochs at most, then the attacks: about {told}",
        highlight=False,
    )
