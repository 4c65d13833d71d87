"""What `tacit fit` does for recordings and for images alike: time told first, then fit, attack, release, hand over."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from sklearn.base import clone

import tacit
from tacit.cli.handover import checked_places, clear, tell_files, tell_keys
from tacit.cli.tables import print_comparison, progress
from tacit.errors import InputError
from tacit.release.expiry import expiry_date
from tacit.report import write_page
from tacit.report.report import Report
from tacit.report.screen import Console

TRIED = 192  # records and one epoch, by which the time to the end is told
AUDIT_SHARE = 1.5  # the audit takes about half as long again
WINDOWS_APART = {"linkability": False, "singling_out": False, "breadth": False, "power": False}


def fit_shaped(
    console: Console,
    data: tacit.Dataset,
    chosen: Any,
    name: str,
    source: Path,
    by: str | None,
    what: str,
    write: Callable[[np.ndarray, np.ndarray, Path], Path],
    *,
    out: Path,
    keys: Path | None,
    expires: str,
    seed: int,
    quick: bool,
    book: Any,
    **_: Any,
) -> None:
    """Fit on half of the records, attack the others, release those, and write the three files.

    `by` is the attribute whose units decide the split; `what` the records' name; `write` writes released records, given
    them and their numbers, and returns where.
    """
    if book is not None:
        raise InputError(f"--ledger is for tables; write a release of {what} down with tacit release apply --ledger")
    last_day = expiry_date(expires)  # a wrong one is said before the work
    secrets = checked_places(source, out, keys)
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=seed, by=by)
    _tell_time(console, chosen, train, what)
    out.mkdir(parents=True, exist_ok=True)
    with progress(console) as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tacit.TacitWarning)
        task = bar.add_task(f"fitting {name} on {len(train):,} {what}", total=4)
        chosen.fit(train.X, train.y, sensitive_features=_or_none(train.sensitive), units=train.units_of(by))
        bar.advance(task)
        asked: dict[str, Any] = {"floor": False, "random_state": seed, **WINDOWS_APART}
        asked |= {"attackers": ["trees", "logistic"]} if quick else {}
        reports: list[Report] = []
        for called, release in ((name, chosen), ("raw data", None)):
            bar.update(task, description=f"attacking {called}")
            reports.insert(0, tacit.audit(release, attack, test, name=called, **asked))
            bar.advance(task)
    for warning in sorted({str(w.message) for w in caught if issubclass(w.category, tacit.TacitWarning)}):
        console.print(f"[yellow]note:[/yellow] {escape(warning)}", highlight=False)
    print_comparison(console, reports)
    for attribute in reports[-1].leakage:
        console.print(reports[-1].sentence(attribute), highlight=False, markup=False)
    clear(out)
    page = write_page(reports, out / "report.html", f"{source.name}: {name}")
    reports[-1].to_json(out / "audit.json")
    bundle = tacit.save(chosen, out / "filter.tacit", reports[-1], expires=last_day, keys=secrets)
    tell_keys(console, bundle, secrets)
    rows = np.random.default_rng().permutation(np.concatenate([attack.rows, test.rows]))
    place = write(np.asarray(chosen.transform(data.X[rows])), rows, out)
    told = (
        f"Released {len(rows):,} {what}, in random order: [bold]{place}[/bold]. The {len(train):,} of the fit are kept "
        f"back: what was found holds for {what} that the filter has not seen"
    )
    tell_files(console, told, bundle, last_day, page)


def _or_none(sensitive: Any) -> Any:
    return sensitive if sensitive.shape[1] else None


def _tell_time(console: Console, chosen: Any, train: tacit.Dataset, what: str) -> None:
    """How long it will take, by one epoch on a few records."""
    some = train.take(np.arange(min(TRIED, len(train))))
    few = clone(chosen).set_params(epochs=1) if "epochs" in chosen.get_params() else None
    if few is None or len(some) < 20:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        try:
            few.fit(some.X, some.y, sensitive_features=_or_none(some.sensitive))
        except tacit.TacitError:
            return  # too few of some class among them; the fit itself says what is wrong
        seconds = (time.perf_counter() - start) * len(train) / len(some) * chosen.epochs * AUDIT_SHARE
    told = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(5, round(seconds, -1)):.0f} seconds"
    console.print(f"{len(train):,} {what} to learn from, {chosen.epochs} epochs at most: about {told}", highlight=False)
