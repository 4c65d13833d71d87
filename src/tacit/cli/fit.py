"""`tacit fit`: learn a filter for a table, attack what it releases, and write the release, a report and a bundle.

Recordings and photos are fitted in `fit_records`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import typer
from rich.markup import escape
from rich.table import Table

import tacit
from tacit.auditing.measurements.row_order import attack_order
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial, TrialSettings, transformed
from tacit.cli.console import (
    Book,
    Console,
    checked_places,
    clear,
    note,
    numeric_columns,
    open_book,
    print_comparison,
    print_table_release,
    rows_as_people,
    takes,
    tell_files,
    tell_keys,
    working,
)
from tacit.errors import InputError
from tacit.files import replacing, write_whole
from tacit.filters.registry import make_filter
from tacit.options import FitOptions, read_options
from tacit.records.csv_files import CsvFile
from tacit.records.dataset import as_dataset
from tacit.records.sampling import Sample, may_exceed, read_sample
from tacit.records.table_files import kind_of, open_table
from tacit.release.arrow_columns import as_columns
from tacit.release.bulk import apply
from tacit.release.bundle import read_manifest
from tacit.release.keys import key_path
from tacit.release.manifest import expiry_date
from tacit.release.record_files import shuffle_parquet, write_parts
from tacit.report import write_page
from tacit.report.report import Report

QUICK_LESS = ("breadth", "linkability", "singling_out")
QUICKLY = (
    "audited quickly (--quick): two attackers, and neither breadth, linking nor singling out was "
    "measured; tacit audit FOLDER does the whole"
)
ORDER_TELLS = 0.01  # above guessing, by the lower end: then the order of rows gives something away
PREVIEWED = 3000  # rows that a preview is fitted on, at most


@takes(FitOptions)
def fit(
    table: Annotated[
        Path,
        typer.Argument(help="CSV, Parquet, Arrow, Excel, SQLite or DuckDB file; or a folder: --sensors, --images."),
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Rarer option or parameter of the filter: expires=90d, max_odds=3 (repeat)."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Read [fit] of this file; of tacit.toml in the current folder by default.")
    ] = None,
    **typed: Any,
) -> None:
    """Learn a filter, attack what it releases, and write the release, a report and a bundle.

    A table comes back with the same columns and few values changed; the sensitive ones are dropped. With --filter
    codebook (and others) codes or numbers are released instead. Rows of the fit are released by parts that never saw
    them. Of recordings and images half are released, those that the filter has not seen; with --set all=true the
    others too.

    Example: tacit fit people.csv --target income --sensitive sex --out handover
    """
    options = read_options(FitOptions, "fit", config, setting or [], typed)
    if options.sensors or options.images:
        from tacit.cli.fit_records import fit_images, fit_recordings

        (fit_recordings if options.sensors else fit_images)(Console(), table, options)
    else:
        fit_table(Console(), table, options)


def fit_table(console: Console, table: Path, o: FitOptions) -> None:
    """Release a table, audited, into a folder."""
    # what is wrong is said before the work
    book = open_book(o.ledger, o.to, o.ledger_key)
    last_day, keys = expiry_date(o.expires), checked_places(table, o.out, o.keys)
    _check_roles(table, o)
    name = o.filter or "coupling"
    chosen = make_filter(name, o.weight, o.settings, random_state=o.seed)
    large = None if o.sql else large_table(console, table, o, chosen.sees_sensitive)
    if large is None:
        file = open_table(table, o.sql, dates=chosen.sees_sensitive)  # coupling, which takes them
        frame = file.table
        if file.written:
            console.print(f"Read {escape(table.name)}: {escape(file.written)}", highlight=False)
    else:
        frame = large.sample.table
    places = None if large is None else large.sample.rows
    data = as_dataset(
        frame, table.name, o.target, o.sensitive, o.unit, o.drop, o.bins, rows=places,
        numeric=numeric_columns(o.numeric),
    )  # fmt: skip
    data, names = rows_as_people(console, data), [str(c) for c in frame.columns]
    large = None if large is None or large.sample.whole else large
    if large is not None and getattr(chosen, "dp", None) is not None:
        raise InputError("dp is for a table that is fitted whole; this one is larger: take part of its rows")
    _check_gaps(chosen, data)
    if o.preview is not None:
        preview(console, chosen, name, data, o.preview, o.seed)
        return
    o.out.mkdir(parents=True, exist_ok=True)
    parts = data.split((0.5, 0.2, 0.3), random_state=o.seed)
    reports = _fit_and_attack(console, chosen, name, parts, o, large)
    released = None
    if large is None:
        released = _release_every_row(chosen, data if o.unit else replace(data, units=None), parts[0])
    leaks = _leaked_by_order(parts[1], parts[2], o.seed)
    shuffle = bool(o.shuffle or (o.shuffle is None and leaks))
    if shuffle:
        order = "shuffled" + (f", since their order tells {' and '.join(leaks)}" if leaks else "")
    else:
        order = f"in the order of {table.name}" + (f", WHICH TELLS {' and '.join(leaks)}" if leaks else "")
    answers = None
    if o.analyzer:
        answers = tacit.serve.fit_analyzer(chosen, parts[1])
        console.print(f"Analyzer, for tacit serve: {answers}", highlight=False, markup=False)
    clear(o.out)
    page = write_page(reports, o.out / "report.html", f"{table.name}: {name}")
    reports[-1].to_json(o.out / "audit.json")
    bundle = tacit.save(chosen, o.out / "filter.tacit", reports[-1], analyzer=answers, expires=last_day, keys=keys)
    tell_keys(console, bundle, keys)
    if book is not None:  # before the table leaves, and instead of it where it may not
        _record(book, bundle, chosen, data, table, o.unit, large is not None)
    if large is not None:
        place = o.out / "release.parquet"
        n = large.release(console, chosen, parts[0], bundle, place, shuffle, o.jobs, keys)
    else:
        place, n = write_release(released, o.out, table, names, shuffle), len(data)
    Source.of(table, o).write(keys, bundle)
    how = "rows of the fit by parts that did not see them"
    if getattr(chosen, "dp", None) is not None:
        console.print(str(chosen.dp_), highlight=False, markup=False)
        how = "without the rows of the private fit"
    told = f"Released {n:,} rows, {escape(order)}: [bold]{place}[/bold] ({how})"
    tell_files(console, told, bundle, last_day, page, o.out if o.quick else None)


# -- before the fit --------------------------------------------------------------------------------


def _check_roles(table: Path, o: FitOptions) -> None:
    """Show the columns where it was not typed what they are for."""
    lacks = [f"--{name} COLUMN" for name in ("target", "sensitive") if not getattr(o, name)]
    if lacks:
        names = ", ".join(map(str, open_table(table, o.sql).table.columns[:30]))
        raise InputError(f"say what must keep working and what must stay hidden: {' and '.join(lacks)} is missing; the "
                         f"columns of {table.name} are {names}")  # fmt: skip
    if both := [c for c in o.target if c in o.sensitive]:
        raise InputError(f"{both[0]!r} is named as --target and as --sensitive; a column cannot be kept and hidden")


def _check_gaps(chosen: Any, data: tacit.Dataset) -> None:
    """Refuse gaps where the release uses the sensitive column, by the rows of the file; the fit sees a part."""
    if not chosen.sees_sensitive or getattr(chosen, "unknown", None) == "draw":
        return
    for name, column in data.sensitive.items():
        if rows := np.flatnonzero(column.isna()).tolist():
            raise InputError(
                f"--sensitive {name}: column {name!r} is missing in {len(rows):,} of {len(data):,} rows, first in row "
                f"{rows[0]} (from 0), and this release uses it; --set unknown=draw releases such rows too (they are "
                f"protected less), or leave them out"
            )


def preview(console: Console, chosen: Any, name: str, data: tacit.Dataset, rows: int, seed: int) -> None:
    """Fit on half of some rows, and show some of the others before and after."""
    some = data.take(np.sort(np.random.default_rng(seed).permutation(len(data))[:PREVIEWED]))
    train, rest = some.split((0.5, 0.5), random_state=seed)
    with working(console, f"fitting {name} on {len(train):,} rows"):
        chosen.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    shown = rest.take(np.arange(min(rows, len(rest))))
    before = pd.concat([shown.X, shown.y, shown.sensitive], axis=1)
    after = _as_frame(chosen, transformed(chosen, shown))
    same = [c for c in before.columns if c in after.columns]

    def cell(value: Any) -> str:
        if isinstance(value, float | np.floating):
            return "" if value != value else f"{value:.6g}"
        return "" if value is None or value is pd.NaT else escape(str(value))

    for i in range(len(shown)):
        table = Table(box=None, pad_edge=False, title=f"row {i + 1}", title_justify="left")
        for head in ("", "before", "after"):
            table.add_column(head, overflow="fold")
        for c in before.columns:
            old = cell(before[c].iloc[i])
            new = cell(after[c].iloc[i]) if c in same else ""
            table.add_row(escape(str(c)), old, new if c not in same or old == new else f"[bold]{new}[/bold]")
        for c in after.columns.difference(same, sort=False):
            table.add_row(escape(str(c)), "", f"[bold]{cell(after[c].iloc[i])}[/bold]")
        console.print(table)
    gone = [str(c) for c in before.columns if c not in same]
    text = f"Not released: {', '.join(gone)}. " if gone else ""
    console.print(f"{text}Nothing was written, and nothing was attacked; without --preview both are done.",
                  highlight=False, markup=False)  # fmt: skip


# -- the fit and the audit -------------------------------------------------------------------------


def _fit_and_attack(
    console: Console, chosen: Any, name: str, parts: Sequence[tacit.Dataset], o: FitOptions, large: LargeTable | None
) -> list[Report]:
    """Fit, and attack what is handed over and what it is compared with; the last report is of the former."""
    train, attack, test = parts
    with working(console, f"fitting {name} on {len(train):,} rows") as doing:
        chosen.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
        chosen.notes_ += [*([] if large is None else [large.note]), *([QUICKLY] if o.quick else [])]
        whole = chosen.mechanism_.columns is not None
        if whole:  # the raw table holds the targets too
            others: list[Any] = [("raw data", tuple(pd.concat([d.X, d.y], axis=1) for d in (attack, test)))]
        else:
            label = tacit.baselines.LabelOnly(random_state=o.seed)
            label.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
            others = [("label-only", label), ("raw data", None)]
        reports: list[Report] = []
        # what is handed over comes first: its certificate then pays for no look at the others
        for done, (called, release) in enumerate(((name, chosen), *others), 2):
            doing(f"attacking {called}", done, 2 + len(others) + 1)
            less = [f"no-{m}" for m in (QUICK_LESS if o.quick else () if release is chosen else ("breadth",))]
            less += [] if release is None else ["no-baseline"]
            asked: Any = {"measurements": ["auto", *less]} | ({"attackers": ["trees", "logistic"]} if o.quick else {})
            options = tacit.AuditOptions(name=called)
            reports.insert(0, tacit.audit(release, attack, test, **asked, random_state=o.seed, options=options))
    (print_table_release if whole else print_comparison)(console, reports)
    for attribute in [] if whole else reports[-1].leakage:
        told = filter(None, (reports[-1].sentence(attribute), reports[-1].worst(attribute)))
        console.print("\n".join(told), highlight=False, markup=False)
    return reports


def _leaked_by_order(attack: tacit.Dataset, test: tacit.Dataset, seed: int) -> list[str]:
    """Sensitive attributes that can be inferred from where a row stands in the file."""
    blank = tuple(pd.DataFrame({"nothing": np.zeros(len(d))}) for d in (attack, test))
    results = attack_order(Trial((attack, test), blank, settings=TrialSettings(level=0.99)), AttackSuite("trees", seed))
    return [n for n, r in results.items() if r.low > r.guessing + ORDER_TELLS]


# -- the release -----------------------------------------------------------------------------------


def _as_frame(chosen: Any, released: Any) -> pd.DataFrame:
    if isinstance(released, pd.DataFrame):
        return released
    return pd.DataFrame(np.asarray(released), columns=chosen.get_feature_names_out())


def _release_every_row(chosen: Any, data: tacit.Dataset, train: tacit.Dataset) -> pd.DataFrame:
    """Training rows out of fold, the others by the filter, in the order of the file; under dp the others alone.

    Noise is named as `tacit release apply` names it (by the record, where no column names groups), so that a row
    released by both gets one draw and the noise cannot be averaged away.
    """
    rest = np.setdiff1d(np.arange(len(data)), train.rows)
    others = data.take(rest)
    if getattr(chosen, "dp", None) is not None:  # fits on parts of these rows would have to be paid for
        return _as_frame(chosen, transformed(chosen, others))
    frames = [_as_frame(chosen, p) for p in (chosen.release_training_rows(), transformed(chosen, others))]
    back = np.argsort(np.concatenate([train.rows, rest]), kind="stable")
    return pd.concat(frames, ignore_index=True).iloc[back].reset_index(drop=True)


def _record(
    book: Book, bundle: Path, chosen: Any, data: tacit.Dataset, table: Path, unit: str | None, large: bool
) -> None:
    """Write the release into the ledger, or refuse it."""
    from tacit.ledger.recording import record_file, record_rows  # only with --ledger

    if large:
        opening: dict[str, Any] = {"unit": unit, "noise_key": chosen.noise_key, "by": "fit", "way": "fit"}
        book.tell(record_file(book.ledger, book.to, bundle, table, table.stem.split(".")[0], **opening))
    else:
        release = tacit.load(bundle, noise_key=chosen.noise_key)
        units = None if unit is None else data.units_of()
        book.tell(record_rows(book.ledger, release, data, "fit", data.name or "table", book.to, "fit", units))


def write_release(released: Any, out: Path, table: Path, names: list[str], shuffle: bool) -> Path:
    """The release in the form of the file that came in, where it is a table of the same columns; else as Parquet.

    It is CSV of an Excel file too, where text that begins with = would be run.
    """
    if shuffle:
        released = released.iloc[np.random.default_rng().permutation(len(released))].reset_index(drop=True)
    same = set(released.columns) <= set(names)
    if same:
        released = released[[c for c in names if c in released]]
    if not same or kind_of(table) not in ("text", "excel"):
        place = out / "release.parquet"
        write_parts(place, iter(pa.Table.from_pandas(released, preserve_index=False).to_batches()))
        return place
    place, form = out / "release.csv", CsvFile(table) if kind_of(table) == "text" else None
    floats = released.select_dtypes("float")
    whole = [c for c in floats if (floats[c].dropna() % 1 == 0).all()]  # counts that had gaps, not 40.0
    with replacing(place) as partial:
        plain = released.astype(dict.fromkeys(whole, "Int64"))
        signs = {"sep": form.delimiter, "decimal": form.decimal} if form else {}
        plain.to_csv(partial, index=False, **signs)
    return place


@dataclass(frozen=True)
class Source:
    """What a release was made from: `tacit audit FOLDER` finds the raw rows by it. It never leaves the owner."""

    table: str
    target: list[str]
    sensitive: list[str]
    unit: str | None = None
    drop: list[str] | None = None
    bins: int | None = None
    sql: str | None = None
    seed: int = 0
    numeric: list[str] | None = None

    @classmethod
    def of(cls, table: Path, o: FitOptions) -> Source:
        """The source of a fit with these options."""
        roles = (list(o.target), list(o.sensitive), o.unit, list(o.drop), o.bins)
        return cls(str(table.resolve()), *roles, o.sql, o.seed, list(o.numeric))

    def write(self, keys: Path, bundle: Path) -> None:
        """Write it into the folder of keys, under the name of its bundle."""
        write_whole(self._place(keys, bundle), json.dumps(asdict(self), indent=1), private=True)

    @staticmethod
    def _place(keys: Path, bundle: Path) -> Path:
        return key_path(keys, read_manifest(bundle), "source").with_suffix(".json")

    @classmethod
    def read(cls, keys: Path, bundle: Path) -> Source | None:
        """The source of a bundle that lies in a folder of keys; None where there is none."""
        try:
            return cls(**json.loads(cls._place(keys, bundle).read_text()))
        except (OSError, ValueError, TypeError):
            return None


# -- tables that are too large to hold -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A table, and the rows of it that are held: fitted and audited on these, released in a stream."""

    path: Path
    unit: str | None
    sample: Sample

    @property
    def note(self) -> str:
        """What the reader of a report must know."""
        held, total = len(self.sample.rows), self.sample.total
        by = "rows drawn by their number" if self.unit is None else f"whole units by the hash of {self.unit!r}"
        return (
            f"fitted and audited on a sample of {held:,} of the {total:,} rows of {self.path.name} "
            f"({100 * held / total:.2g} %; {by}); every other row is released by the same bundle, and what is said of "
            f"fresh rows holds for it as far as the sample is like the table"
        )

    def release(
        self, console: Console, chosen: Any, train: tacit.Dataset, bundle: Path, place: Path, shuffle: bool, jobs: int,
        aside: Path,
    ) -> int:  # fmt: skip
        """Rows of the fit by parts that did not see them, all others by the bundle, part by part; how many.

        Raw rows that do not fit go to the folder `aside`: they are not handed over.
        """
        opened = tacit.load(bundle)
        own = chosen.release_training_rows()
        cells = own.to_numpy(dtype=object) if isinstance(own, pd.DataFrame) else np.asarray(own)
        order = np.argsort(train.rows)
        instead = (train.rows[order], as_columns(opened, cells[order]))
        made = place.with_name(f".{place.stem}-in-order{place.suffix}") if shuffle else place
        with working(console) as doing:
            done = apply(
                bundle, self.path, made, noise_key=chosen.noise_key, unit=self.unit, on_error="quarantine", n_jobs=jobs,
                instead=instead,
                callback=lambda what, now, total: doing(f"releasing {escape(self.path.name)}", now, self.sample.total),
            )  # fmt: skip
        if shuffle:
            shuffle_parquet(made, place)
            made.unlink()
        if done.quarantine is not None:
            kept = write_whole(aside / f"{place.name}.quarantine.jsonl", done.quarantine.read_bytes(), private=True)
            done.quarantine.unlink()
            note(console, f"{done.quarantined:,} rows do not fit what was learned and were set aside: {kept}")
        return done.released


def large_table(console: Console, path: Path, o: FitOptions, sees_sensitive: bool) -> LargeTable | None:
    """The table with a sample of its rows, where it has more than this; else None, or all of a folder's rows."""
    if not may_exceed(path, o.sample_rows):
        return None
    with working(console, f"sampling {escape(path.name)}"):
        found = LargeTable(path, o.unit, read_sample(path, o.unit, o.sample_rows, o.seed))
    if not found.sample.whole:
        if o.bins is not None and sees_sensitive:
            raise InputError(
                "bins cuts columns that this filter uses in every row, and a large table is released from its "
                "file; store the column as classes there"
            )
        note(console, found.note)
    return found
