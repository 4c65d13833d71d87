"""What the commands share: options, the terminal, notes and tables."""

from __future__ import annotations

import inspect
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tacit.errors import InputError, TacitWarning
from tacit.report.screen import Console

HANDED_OVER = ("filter.tacit", "release.csv", "release.parquet", "release.npz", "released", "report.html", "audit.json")

# -- options that several commands have -----------------------------------------------------------

Bundle = Annotated[Path, typer.Argument(help="The bundle, NAME.tacit.")]
Target = Annotated[list[str], typer.Option(help="Column to preserve (repeat for several).")]
Sensitive = Annotated[list[str], typer.Option(help="Column to hide (repeat for several).")]
Unit = Annotated[str | None, typer.Option(help="Column of the person that a row belongs to.")]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out (repeat for several).")]
Bins = Annotated[int | None, typer.Option(help="Cut numeric targets and sensitive columns into this many classes.")]
Numeric = Annotated[
    list[str] | None, typer.Option(help="Target or sensitive column that is a number; zip=no: is not (repeat).")
]
Attackers = Annotated[str, typer.Option(help="quick or strong.")]
Minutes = Annotated[float | None, typer.Option(min=0, help="Time limit; the report says what was left out.")]
NoiseKey = Annotated[Path | None, typer.Option("--noise-key", help="The owner's noise key, for noisy releases.")]
KeyFolder = Annotated[Path | None, typer.Option("--keys", help="Folder of the keys; OUT-keys by default.")]
Trusted = Annotated[Path | None, typer.Option("--trusted-key", help="Public key that must have signed the bundle.")]
SignedName = Annotated[str | None, typer.Option(help="Name that the bundle must be signed under; its file's.")]
Trust = Annotated[bool, typer.Option("--trust", help="Load an unsigned bundle of another user or machine.")]
RefuseExpired = Annotated[bool, typer.Option("--refuse-expired", help="Refuse a bundle after its last day of use.")]

LedgerKey = Annotated[
    Path | None, typer.Option("--ledger-key", help="Key of the ledger; TACIT_LEDGER_KEY, or LEDGER.key beside it.")
]
LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="Record the release here, unless tacit.toml beside it forbids it.")
]
ToOption = Annotated[str | None, typer.Option("--to", help="With --ledger: name of the receiver.")]


def takes(options: type) -> Callable[[Any], Any]:
    """Give a command the options that a dataclass declares for the command line; it gets those that were typed."""

    def decorate(command: Any) -> Any:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = own[:1]  # the argument
        hints = get_type_hints(options)
        for f in fields(options):
            if flags := f.metadata.get("flags"):
                kind = list[str] | None if get_origin(hints[f.name]) is tuple else hints[f.name]
                default = False if kind is bool else None
                kind = kind if kind is bool else kind | None
                said = typer.Option(*flags, help=f.metadata["help"], min=f.metadata.get("min"), show_default=False)
                annotation = Annotated[kind, said]  # type: ignore[valid-type]
                parameters.append(
                    inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                )
        parameters += [p.replace(kind=p.KEYWORD_ONLY) for p in own[1:]]
        command.__signature__ = inspect.Signature(parameters)
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorate


def numeric_columns(texts: Sequence[str] | None) -> dict[str, bool]:
    """Parse `--numeric`: NAME for a column that is a number, NAME=no for one that is not.

    Examples
    --------
    >>> numeric_columns(["floors", "zip=no"])
    {'floors': True, 'zip': False}
    """
    return {text.removesuffix("=no"): not text.endswith("=no") for text in texts or ()}


class Book(NamedTuple):
    """The ledger that a command names, and who receives."""

    ledger: Any
    to: str

    def tell(self, line: Any) -> None:
        """Print where a release was recorded."""
        unheld = "" if line.body["policy"] else "; there is no tacit.toml beside it, so no limit was held against it"
        say(f"Written down as line {line.number} of {self.ledger.path}{unheld}")


def open_book(ledger: Path | None, to: str | None, key: Path | None) -> Book | None:
    """Open the ledger that --ledger, --to and --ledger-key name; None without them."""
    if ledger is None:
        if to is not None or key is not None:
            raise InputError("--to and --ledger-key go with --ledger FILE")
        return None
    if to is None:
        raise InputError("--ledger needs --to NAME: who receives this release")
    from tacit.ledger.ledger import Ledger

    return Book(Ledger(ledger, key), to)


# -- the terminal ----------------------------------------------------------------------------------


def say(text: Any, console: Console | None = None) -> None:
    """Print plain text; a long line stays whole, so that a path can be copied."""
    (console or Console()).print(text, highlight=False, markup=False, soft_wrap=True)


def note(console: Console, text: Any) -> None:
    """Print a note."""
    console.print(f"[yellow]note:[/yellow] {escape(str(text))}", highlight=False)


def tell_keys(console: Console, bundle: Path, folder: Path) -> None:
    """Say where the keys of a bundle are."""
    from tacit.release.keys import own_key

    told = {
        "owner": "Owner's key: {} (keep it: with it the bundle knows the rows it was fitted on)",
        "noise": "Noise key: {} (secret: the noise can be removed with it)",
    }
    for kind, text in told.items():
        if (place := own_key(bundle, folder, kind)) is not None:
            console.print(text.format(f"[bold]{escape(str(place))}[/bold]"), highlight=False)


@contextmanager
def working(console: Console, doing: str = "") -> Iterator[Callable[..., None]]:
    """Show a progress bar, and each warning once as a note when the work is done.

    Yields a function of what is being done, how much of it is finished and how much there is.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TacitWarning)
        task = bar.add_task(doing, total=None)
        yield lambda what, done=None, total=None: bar.update(task, description=what, completed=done, total=total)
    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, TacitWarning)):
        note(console, text)


def rows_as_people(console: Console, data: Any) -> Any:
    """Take each row of a table without units as a person; a note says where that is doubtful."""
    from tacit.auditing.forgotten_units import forgotten_units  # loads pandas

    if data.units is not None:
        return data
    if doubt := forgotten_units(data):
        note(console, doubt)
    return replace(data, units="rows")


# -- the folder of a release ----------------------------------------------------------------------


def checked_places(table: Path, out: Path, keys: Path | None) -> Path:
    """The folder for keys, if nothing of the owner's lies where it would be overwritten or handed over."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder for what is handed over")
    if table.parent.resolve() == out.resolve() and table.name in HANDED_OVER:
        raise InputError(f"{table} would be overwritten by what is released of it; name another folder (--out)")
    from tacit.release.keys import key_folder

    folder = key_folder(out, keys)
    for name in ("noise.key", "owner.key"):
        if (out / name).exists():
            raise InputError(f"{out / name} lies in the folder that is handed over; move it away, such as to {folder}")
    return folder


def clear(out: Path) -> None:
    """Take away what an earlier run handed over: wherever this one is stopped, nothing of that is among its own."""
    for place in map(out.joinpath, HANDED_OVER):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def tell_files(
    console: Console, released: str, bundle: Path, last_day: Any, page: Path, quick: Path | None = None
) -> None:
    """Say where the files are; after a quick audit, how to have the whole."""
    text = f"{released}\nBundle, for new rows: [bold]{bundle}[/bold], expires: {last_day or 'never'}\n"
    text += f"Report: [bold]{page}[/bold]"
    if quick is not None:
        text += f"\nAudited quickly. The whole audit: [bold]tacit audit {quick}[/bold]"
    console.print(text, highlight=False, soft_wrap=True)


# -- tables of results -----------------------------------------------------------------------------


def print_comparison(console: Console, reports: Sequence[Any]) -> None:
    """Per sensitive attribute one table, per release one row: utility, best attacker, guessing, certified or not."""
    from tacit.report.results import NumberResult, at_most, interval, shown

    for attribute, first in reports[0].leakage.items():
        table = Table(box=None, pad_edge=False)
        table.add_column("release", no_wrap=True)
        utilities = reports[0].utility.items()
        heads = [f"{target} {'R²' if isinstance(r, NumberResult) else 'accuracy'}" for target, r in utilities]
        heads.append(f"{attribute} best attacker{' (R²)' if isinstance(first, NumberResult) else ''}")
        for head in (*heads, f"{reports[0].level} interval", "guessing"):
            table.add_column(escape(head), justify="right")
        table.add_column("any attacker", no_wrap=True)
        for r in reports:
            v, c = r.leakage[attribute], r.certificate[attribute]
            utility = [shown(u.value) for u in r.utility.values()]
            status = f"[green]certified ≤ {at_most(c.bound)}[/green]" if c is not None else "[dim]audited only[/dim]"
            table.add_row(r.name, *utility, shown(v.value), interval(v), shown(v.guessing), status)
        console.print(table)


def print_table_release(console: Console, reports: Sequence[Any]) -> None:
    """One screen about a table that was released as a table: leakage, what is kept, what is certified."""
    from tacit.report.results import NumberResult, shown

    raw, released = reports
    table = Table(box=None, pad_edge=False)
    for head in ("", "raw data", "released", "guessing"):
        table.add_column(head, justify="right" if head else "left")
    for name, r in released.leakage.items():
        head = f"{escape(name)}: best attacker{' (R²)' if isinstance(r, NumberResult) else ''}"
        table.add_row(head, shown(raw.leakage[name].value), shown(r.value), shown(r.guessing))
    change = released.change
    for name, q in change.questions.items() if change else ():
        if q.declared:
            head = f"{escape(name)}: a model learned from it"
            table.add_row(head, shown(q.raw), shown(q.released), shown(q.guessing))
    if (breadth := released.headline("breadth")) is not None:
        table.add_row("breadth: what is told of every column", shown(1.0), shown(breadth.value), shown(0.0))
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
