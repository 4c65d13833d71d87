"""`tacit fit`: the main job for a data engineer: a table in, an audited release out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape

import tacit
from tacit.auditing.measurements.row_order import attack_order
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Asked, Trial, transformed
from tacit.cli.handover import (
    Source,
    checked_places,
    clear,
    tell_files,
    tell_keys,
    write_release,
)
from tacit.cli.large_table import LargeTable, large_table
from tacit.cli.ledger_command import Book
from tacit.cli.preview import preview as show_rows
from tacit.cli.tables import print_comparison, print_table_release, progress, rows_as_people, said_numbers
from tacit.errors import InputError
from tacit.filters.registry import make_filter
from tacit.records.dataset import as_dataset
from tacit.records.table_files import open_table
from tacit.release.manifest import expiry_date
from tacit.report import write_page
from tacit.report.report import Report
from tacit.report.screen import Console

Roles = tuple[list[str], list[str], str | None, list[str], int | None]  # targets, sensitive, unit, drop, bins


def run(
    console: Console,
    table: Path,
    target: list[str],
    sensitive: list[str],
    unit: str | None,
    drop: list[str] | None,
    bins: int | None,
    numeric: list[str] | None,
    filter_name: str,
    weight: float | None,
    pass_through: list[str] | None,
    keep: list[str] | None,
    unknown: str | None,
    max_odds: float | None,
    dp: float | None,
    analyzer: bool,
    shuffle: bool | None,
    expires: str,
    out: Path,
    keys: Path | None,
    book: Book | None,
    sample_rows: int,
    jobs: int,
    seed: int,
    sql: str | None = None,
    preview: int | None = None,
    quick: bool = False,
) -> None:
    last_day, secrets = expiry_date(expires), checked_places(table, out, keys)  # what is wrong is said before the work
    _need_roles(table, target, sensitive, sql)
    chosen = chosen_filter(filter_name, weight, seed)
    large = None if sql else large_table(console, table, unit, sample_rows, seed, chosen, bins)
    roles = (target, sensitive, unit, drop or [], bins)
    data, names, large = _read(console, table, sql, large, chosen, roles, said_numbers(numeric))
    asked = {"pass_through": pass_through, "keep": _weights(keep), "unknown": unknown, "max_odds": max_odds}
    _set(chosen, filter_name, data, **asked, dp=_private(dp, large is not None))
    if preview is not None:
        return show_rows(console, chosen, filter_name, data, preview, seed)
    out.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    parts = data.split((0.5, 0.2, 0.3), random_state=seed)
    reports = _fit_and_attack(console, chosen, filter_name, parts, seed, large, quick)
    released = (
        None if large is not None else _release_every_row(chosen, data if unit else replace(data, units=None), parts[0])
    )
    order, shuffle = _order(_told_by_order(parts[1], parts[2], seed), shuffle, table.name)
    answers = _analyzer(console, chosen, parts[1]) if analyzer else None
    clear(out)
    page = write_page(reports, out / "report.html", f"{table.name}: {filter_name}")
    reports[-1].to_json(out / "audit.json")
    bundle = tacit.save(chosen, out / "filter.tacit", reports[-1], analyzer=answers, expires=last_day, keys=secrets)
    tell_keys(console, bundle, secrets)
    if large is not None:
        large.write_down(book, bundle, chosen)
        place = out / "release.parquet"
        n = large.release(console, chosen, parts[0], bundle, place, shuffle, jobs, secrets)
    else:
        _write_down(book, bundle, chosen, data, unit)  # before the table leaves, and instead of it where it may not
        place, n = write_release(released, out, table, names, shuffle), len(data)
    Source(str(table.resolve()), target, sensitive, unit, drop, bins, sql, seed, numeric).write(secrets, bundle)
    told = f"Released {n:,} rows, {escape(order)}: [bold]{place}[/bold] ({_whose(console, chosen)})"
    tell_files(console, told, bundle, last_day, page, out if quick else None)


def _fit_and_attack(
    console: Console,
    chosen: Any,
    name: str,
    parts: Sequence[tacit.Dataset],
    seed: int,
    large: LargeTable | None,
    quick: bool = False,
) -> list[Report]:
    """Fit, and attack what is handed over and what it is compared with; the last report is of the former."""
    train, attack, test = parts
    with progress(console) as bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tacit.TacitWarning)
        task = bar.add_task(f"fitting {name} on {len(train):,} rows", total=5)
        chosen.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
        chosen.notes_ += [*([] if large is None else [large.note]), *([QUICKLY] if quick else [])]
        bar.advance(task)
        whole = chosen.mechanism_.columns is not None
        others = [_raw_table(attack, test)] if whole else _floor_and_raw(train, seed)
        bar.advance(task)
        reports: list[Report] = []
        # what is handed over comes first: its certificate then pays for no look at the others
        for called, release in ((name, chosen), *others):
            bar.update(task, description=f"attacking {called}")
            less = [f"no-{m}" for m in (QUICK_LESS if quick else () if release is chosen else ("breadth",))]
            less += [] if release is None else ["no-baseline"]
            asked: Any = {"measurements": ["auto", *less]} | ({"attackers": ["trees", "logistic"]} if quick else {})
            reports.insert(
                0,
                tacit.audit(release, attack, test, **asked, random_state=seed, options=tacit.AuditOptions(name=called)),
            )
            bar.advance(task)
    _print_notes(console, caught)
    (print_table_release if whole else print_comparison)(console, reports)
    for attribute in [] if whole else reports[-1].leakage:
        told = filter(None, (reports[-1].sentence(attribute), reports[-1].worst(attribute)))
        console.print("\n".join(told), highlight=False, markup=False)
    return reports


def _read(
    console: Console,
    table: Path,
    sql: str | None,
    large: LargeTable | None,
    chosen: Any,
    roles: Roles,
    numeric: Any,
) -> tuple[tacit.Dataset, list[str], LargeTable | None]:
    """The rows that are held, the names of all columns, and what is not held; how the file is written is said."""
    if large is None:
        file = open_table(table, sql, dates=chosen.sees_sensitive)  # coupling, which takes them
        names = [str(c) for c in file.table.columns]
        if file.written:
            console.print(f"Read {escape(table.name)}: {escape(file.written)}", highlight=False)
        data = as_dataset(file.table, table.name, *roles, numeric=numeric)
    else:
        names = [str(c) for c in large.sample.table.columns]
        data = large.data(roles[0], roles[1], roles[3], roles[4], numeric)
    return rows_as_people(console, data), names, None if large is None or large.sample.whole else large


def _need_roles(table: Path, target: Sequence[str], sensitive: Sequence[str], sql: str | None) -> None:
    """Say which columns there are where it was not said what they are for."""
    lacks = [f"--{name} COLUMN" for name, given in (("target", target), ("sensitive", sensitive)) if not given]
    if lacks:
        names = ", ".join(map(str, open_table(table, sql).table.columns[:30]))
        raise InputError(f"say what must keep working and what must stay hidden: {' and '.join(lacks)} is missing; the "
                         f"columns of {table.name} are {names}")  # fmt: skip
    if both := [c for c in target if c in sensitive]:
        raise InputError(f"{both[0]!r} is named as --target and as --sensitive; a column cannot be kept and hidden")


def _need_sensitive(chosen: Any, data: tacit.Dataset) -> None:
    """Refuse gaps where the release looks at the sensitive column, by the rows of the file; the fit sees a part."""
    if not chosen.sees_sensitive or getattr(chosen, "unknown", None) == "draw":
        return
    for name, column in data.sensitive.items():
        if rows := np.flatnonzero(column.isna()).tolist():
            raise InputError(
                f"column {name!r} is missing in {len(rows):,} of {len(data):,} rows, first in row {rows[0]} (from 0), "
                f"and this release looks at it; --unknown draw releases such rows too (they are protected less), or "
                f"leave them out"
            )


def _write_down(book: Book | None, bundle: Path, chosen: Any, data: tacit.Dataset, unit: str | None) -> None:
    """Write the release down in the ledger, or refuse it."""
    if book is None:
        return
    from tacit.ledger.recording import record_rows  # only where it is asked for

    release = tacit.load(bundle, noise_key=chosen.noise_key)
    units = None if unit is None else data.units_of()
    book.tell(record_rows(book.ledger, release, data, "fit", data.name or "table", book.to, "fit", units))


def _analyzer(console: Console, chosen: Any, attack: tacit.Dataset) -> Any:
    """What a service answers with, learned from releases."""
    answers = tacit.serve.fit_analyzer(chosen, attack)
    console.print(f"Analyzer, for tacit serve: {answers}", highlight=False, markup=False)
    return answers


def _print_notes(console: Console, caught: Sequence[warnings.WarningMessage]) -> None:
    """What was warned of, each once."""
    for warning in {str(w.message) for w in caught if issubclass(w.category, tacit.TacitWarning)}:
        console.print(f"[yellow]note:[/yellow] {escape(warning)}", highlight=False)


def _set(chosen: Any, name: str, data: tacit.Dataset, **asked: Any) -> None:
    """Set what was asked for; a filter that does not know it is an error, and so are gaps that it cannot take."""
    for parameter, value in asked.items():
        if value:
            if parameter not in chosen.get_params():
                whose = {"max_odds": "codebook", "dp": "codebook, eigan or a closed form"}.get(parameter, "coupling")
                raise InputError(f"--{parameter.replace('_', '-')} is for the {whose}; {name} has no such parameter")
            chosen.set_params(**{parameter: value})
    _need_sensitive(chosen, data)


def _weights(keep: list[str] | None) -> dict[str, float]:
    """Columns and how much they matter, from COLUMN=WEIGHT."""
    found = {}
    for asked in keep or []:
        name, _, weight = asked.rpartition("=")
        try:
            found[name] = float(weight)
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"--keep takes COLUMN=WEIGHT, such as hours=5; found {asked!r}")
    return found


def _raw_table(attack: tacit.Dataset, test: tacit.Dataset) -> tuple[str, Any]:
    """What a released table is compared with: the raw one, which holds the targets too."""
    return "raw data", tuple(pd.concat([d.X, d.y], axis=1) for d in (attack, test))


def _floor_and_raw(train: tacit.Dataset, seed: int) -> list[tuple[str, Any]]:
    """What codes are compared with: the predicted label alone, and everything."""
    label = tacit.baselines.LabelOnly(random_state=seed)
    label.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    return [("label-only", label), ("raw data", None)]


def _order(told: list[str], shuffle: bool | None, name: str) -> tuple[str, bool]:
    """The order in which rows are handed over, in words, and whether it is a fresh one."""
    if shuffle or (shuffle is None and told):
        return "shuffled" + (f", since their order tells {' and '.join(told)}" if told else ""), True
    return f"in the order of {name}" + (f", WHICH TELLS {' and '.join(told)}" if told else ""), False


QUICK_LESS = ("breadth", "linkability", "singling_out")
QUICKLY = (
    "audited quickly (--quick): two attackers, and neither breadth, linking nor singling out was "
    "measured; tacit audit FOLDER does the whole"
)
ORDER_TELLS = 0.01  # above guessing, by the lower end: then the order of rows gives something away


def chosen_filter(name: str, weight: float | None, seed: int) -> Any:
    """The filter of that name, its knob turned to `weight`."""
    chosen = make_filter(name, random_state=seed)
    return chosen if weight is None else chosen.set_params(**{chosen.frontier_parameter: weight})


def _private(epsilon: float | None, sampled: bool) -> tacit.DP | None:
    if epsilon is not None and sampled:
        raise InputError("--dp is for a table that is fitted whole; this one is larger: take part of its rows")
    return None if epsilon is None else tacit.DP(epsilon=epsilon)


def _whose(console: Console, chosen: Any) -> str:
    """How the rows of the fit are released; and what a private fit has spent."""
    if getattr(chosen, "dp", None) is None:
        return "rows of the fit by parts that did not see them"
    console.print(str(chosen.dp_), highlight=False, markup=False)
    return "without the rows of the private fit"


def _release_every_row(chosen: Any, data: tacit.Dataset, train: tacit.Dataset) -> pd.DataFrame:
    """Training rows out of fold, the others by the filter, in the order of the file; under --dp the others alone.

    Noise is named as `tacit release apply` names it (by the record, where no column names groups), so that a row
    released by both gets one draw and the noise cannot be averaged away.
    """
    names = chosen.get_feature_names_out()
    rest = np.setdiff1d(np.arange(len(data)), train.rows)
    others = data.take(rest)
    if getattr(chosen, "dp", None) is not None:  # fits on parts of these rows would have to be paid for
        return pd.DataFrame(np.asarray(transformed(chosen, others)), columns=names)
    parts = [chosen.release_training_rows(), transformed(chosen, others)]
    frames = [p if isinstance(p, pd.DataFrame) else pd.DataFrame(np.asarray(p), columns=names) for p in parts]
    back = np.argsort(np.concatenate([train.rows, rest]), kind="stable")
    return pd.concat(frames, ignore_index=True).iloc[back].reset_index(drop=True)


def _told_by_order(attack: tacit.Dataset, test: tacit.Dataset, seed: int) -> list[str]:
    """Sensitive attributes that can be read from where a row stands in the file."""
    blank = tuple(pd.DataFrame({"nothing": np.zeros(len(d))}) for d in (attack, test))
    found = attack_order(Trial((attack, test), blank, asked=Asked(level=0.99)), AttackSuite("trees", seed))
    return [n for n, r in found.items() if r.low > r.guessing + ORDER_TELLS]
