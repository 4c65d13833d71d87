"""`tacit frontier`: trace the trade-off curves of several filters for a table, and choose a point."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import tacit
from tacit.cli.console import (
    Attackers,
    Bins,
    Console,
    Drop,
    KeyFolder,
    Minutes,
    Numeric,
    Sensitive,
    Target,
    Unit,
    numeric_columns,
    rows_as_people,
    say,
    tell_keys,
    working,
)
from tacit.errors import InputError
from tacit.filters.registry import make_filter
from tacit.release.keys import key_folder


def frontier(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    target: Target,
    sensitive: Sensitive,
    unit: Unit = None,
    drop: Drop = None,
    bins: Bins = None,
    numeric: Numeric = None,
    filter_name: Annotated[
        list[str] | None, typer.Option("--filter", help="codebook, eigan, ... (repeat for several).")
    ] = None,
    values: Annotated[str, typer.Option(help="How many values of the parameter, or the values: 0,.5,2.")] = "8",
    seeds: Annotated[int, typer.Option(help="Seeds for every value.")] = 3,
    attackers: Attackers = "quick",
    minutes: Minutes = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder of finished points; run again to resume.")] = None,
    out: Annotated[Path | None, typer.Option(help="Page to write, such as curve.html.")] = None,
    choose: Annotated[
        list[str] | None, typer.Option(help="'sex<=.55' or 'income>=.84' (repeat): the best point within limits.")
    ] = None,
    certified: Annotated[bool, typer.Option("--certified", help="With --choose: only certificates count.")] = False,
    save: Annotated[Path | None, typer.Option(help="With --choose: write the filter as NAME.tacit.")] = None,
    keys: KeyFolder = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
) -> None:
    """Trace utility against leakage for a table, and choose a point within limits. Exit 3: there is none.

    Example: tacit frontier people.csv --target income --sensitive sex --out curve.html
    """
    console, limits = Console(), [limit(text) for text in choose or []]
    if (save is not None or certified) and not limits:
        raise InputError("--save and --certified go with --choose, such as --choose 'sex<=.55'")
    if save is not None:
        if save.suffix != ".tacit":
            raise InputError(f"--save: a bundle is called NAME.tacit; found {save.name!r}")
        keys = key_folder(save, keys)
    rows = tacit.read_table(table, target, sensitive, unit, drop or [], bins, numeric=numeric_columns(numeric))
    for name, sign, _ in limits:
        known = sensitive if sign == "<=" else target
        if name not in known:
            raise InputError(f"--choose {name}{sign}...: {name!r} is not among {', '.join(known)}")
    filters = {name: make_filter(name, random_state=seed) for name in dict.fromkeys(filter_name or ["codebook"])}
    train, attack, test = rows_as_people(console, rows).split((0.5, 0.2, 0.3), random_state=seed)
    with working(console) as doing:
        front = tacit.frontier(
            *(filters, train, attack, test, _values(values), seeds, attackers),
            checkpoint=checkpoint,
            device=device,
            n_jobs=jobs,
            minutes=minutes,
            callback=lambda what, done, total: doing(f"{what} {done}/{total}", done, total),
        )
    console.print(front, highlight=False)
    if front.left_out:
        go_on = "the same command without --minutes goes on" if checkpoint else "with --checkpoint a later run goes on"
        told = f"{minutes:g} minutes were given: {front.left_out} of {front.candidates} points are left out; {go_on}"
        console.print(told, highlight=False)
    if out is not None:
        say(f"Page: {front.to_html(out)}", console)
    if not limits:
        return
    most, least = ({name: v for name, sign, v in limits if sign == s} for s in ("<=", ">="))
    point = front.find(most, least, certified)
    report = front.report(point)
    console.print(f"\nChosen: [bold]{escape(str(point.point))}[/bold]", highlight=False)
    for name in report.leakage:
        console.print(report.sentence(name), highlight=False, markup=False)
    if save is not None and keys is not None:
        bundle = tacit.save(front.build(point), save, keys=keys)
        say(f"Bundle: {bundle}", console)
        tell_keys(console, bundle, keys)


def limit(text: str) -> tuple[str, str, float]:
    """Parse a limit of `--choose`.

    Examples
    --------
    >>> limit("income >= .84")
    ('income', '>=', 0.84)
    """
    parts = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*(\d*\.?\d+)\s*", text)
    if parts is None:
        raise InputError(f"--choose takes NAME<=BOUND (a leakage) or NAME>=BOUND (a utility); found {text!r}")
    return parts[1], parts[2], float(parts[3])


def _values(text: str) -> int | list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
        return int(text) if len(numbers) == 1 and text.strip().isdigit() else numbers
    except ValueError:
        raise InputError(f"--values takes how many (8) or the values (0,.5,2); found {text!r}") from None
