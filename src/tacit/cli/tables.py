"""Tables and progress for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tacit.auditing.forgotten_units import forgotten_units
from tacit.records.dataset import Dataset
from tacit.report.report import Report
from tacit.report.results import AnyResult, NumberResult, at_most, interval, shown
from tacit.report.screen import Console


def progress(console: Console) -> Progress:
    """A bar that says what is being done; it disappears when the work is finished."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def said_numbers(texts: Sequence[str] | None) -> dict[str, bool]:
    """Which columns are numbers, as `--numeric` says: NAME, or NAME=no for one that is not.

    Examples
    --------
    >>> said_numbers(["floors", "zip=no"])
    {'floors': True, 'zip': False}
    """
    return {text.removesuffix("=no"): not text.endswith("=no") for text in texts or ()}


def rows_as_people(console: Console, data: Dataset) -> Dataset:
    """A table without units, each row as a person of its own; says so where that looks wrong."""
    if data.units is not None:
        return data
    if doubt := forgotten_units(data):
        console.print(f"[yellow]note:[/yellow] {escape(doubt)}", highlight=False)
    return replace(data, units="rows")


def print_comparison(console: Console, reports: Sequence[Report]) -> None:
    """Per sensitive attribute one table, per release one row: utility, best attacker, guessing, certified or not."""
    for attribute in reports[0].leakage:
        table = Table(box=None, pad_edge=False)
        table.add_column("release", no_wrap=True)
        heads = [f"{target} {_measure(r)}" for target, r in reports[0].utility.items()]
        heads.append(f"{attribute} best attacker{_in_r2(reports[0].leakage[attribute])}")
        for head in (*heads, f"{reports[0].level} interval", "guessing"):
            table.add_column(escape(head), justify="right")
        table.add_column("any attacker", no_wrap=True)
        for r in reports:
            v, c = r.leakage[attribute], r.certificate[attribute]
            utility = [shown(u.value) for u in r.utility.values()]
            status = f"[green]certified ≤ {at_most(c.bound)}[/green]" if c is not None else "[dim]audited only[/dim]"
            table.add_row(r.name, *utility, shown(v.value), interval(v), shown(v.guessing), status)
        console.print(table)


def _measure(r: AnyResult) -> str:
    return "R²" if isinstance(r, NumberResult) else "accuracy"


def _in_r2(r: AnyResult) -> str:
    return " (R²)" if isinstance(r, NumberResult) else ""


def print_table_release(console: Console, reports: Sequence[Report]) -> None:
    """One screen about a table that left as a table: what attackers get, what is kept, what is certified."""
    raw, released = reports
    table = Table(box=None, pad_edge=False)
    for head in ("", "raw data", "released", "guessing"):
        table.add_column(head, justify="right" if head else "left")
    for name, r in released.leakage.items():
        table.add_row(
            f"{escape(name)}: best attacker{_in_r2(r)}",
            shown(raw.leakage[name].value),
            shown(r.value),
            shown(r.guessing),
        )
    change = released.change
    for name, q in change.questions.items() if change else ():
        if q.declared:
            table.add_row(
                f"{escape(name)}: a model learned from it", shown(q.raw), shown(q.released), shown(q.guessing)
            )
    if released.breadth is not None:
        table.add_row("breadth: what is told of every column", shown(1.0), shown(released.breadth.mean), shown(0.0))
    console.print(table)
    if change is not None:
        kept_part = f"{shown(change.kept)} of all values are as they were (numbers: but for rounding); by column:"
        console.print(kept_part, highlight=False)
        kept = Table(box=None, pad_edge=False, show_header=False)
        for name, c in sorted(change.columns.items(), key=lambda pair: -pair[1].kept):
            kept.add_row(escape(name), f"[green]{'█' * round(30 * c.kept)}[/green]", shown(c.kept))
        console.print(kept)
    for name in released.leakage:
        console.print(released.sentence(name), highlight=False, markup=False)
        if (few := released.few_columns(name)) is not None:
            console.print(few, highlight=False, markup=False)
