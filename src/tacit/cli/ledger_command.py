"""`tacit ledger`: what was released to whom, what it adds up to, and what one release more would."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.markup import escape
from rich.table import Table

from tacit.cli.options import Trust
from tacit.errors import InputError, RequirementNotMet
from tacit.report.results import at_most
from tacit.report.screen import Console

ledger_app = typer.Typer(help="What was released to whom, and what it adds up to.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The ledger, ledger.jsonl.")]
Key = Annotated[
    Path | None,
    typer.Option("--ledger-key", help="Its key; TACIT_LEDGER_KEY, or LEDGER.key beside it."),
]
Bundle = Annotated[Path, typer.Argument(help="The bundle, NAME.tacit.")]
NoiseKey = Annotated[Path | None, typer.Option("--noise-key", "--key", help="The noise key, for noisy releases.")]
To = Annotated[str, typer.Option(help="Who would receive it: a name of the policy.")]

# The same options for every command that releases.
LedgerOption = Annotated[
    Path | None,
    typer.Option("--ledger", help="Write the release down here; refused where tacit.toml beside it says so."),
]
ToOption = Annotated[str | None, typer.Option("--to", help="With --ledger: who receives it.")]
LedgerKey = Annotated[
    Path | None, typer.Option("--ledger-key", help="With --ledger: its key; TACIT_LEDGER_KEY, or LEDGER.key beside it.")
]


class Book(NamedTuple):
    """The ledger that a command names, and who receives."""

    ledger: Any
    to: str

    def tell(self, line: Any) -> None:
        """Say where a release was written down."""
        unheld = "" if line.body["policy"] else "; there is no tacit.toml beside it, so no limit was held against it"
        _print(f"Written down as line {line.number} of {self.ledger.path}{unheld}")


def open_book(options: dict[str, Any]) -> Book | None:
    """Take --ledger, --to and --ledger-key out of a command's options: the ledger they name, or None."""
    ledger, to, key = (options.pop(name) for name in ("ledger", "to", "ledger_key"))
    if ledger is None:
        if to is not None or key is not None:
            raise InputError("--to and --ledger-key go with --ledger FILE")
        return None
    if to is None:
        raise InputError("--ledger needs --to NAME: who receives this release")
    from tacit.ledger.ledger import Ledger  # every command starts quickly

    return Book(Ledger(ledger, key), to)


@ledger_app.command()
def new(
    file: File,
    key: Annotated[
        Path | None,
        typer.Option("--ledger-key", help="Its secret key; made where it is not there. LEDGER.key by default."),
    ] = None,
) -> None:
    """Begin a ledger, with a key under which people are hashed. Keep the key where the receivers are not."""
    from tacit.ledger.ledger import Ledger  # every command starts quickly

    Ledger.new(file, key)
    _print(f"Ledger: {file}\nSecret key: {key or file.with_suffix('.key')} (keep it)")


@ledger_app.command()
def show(file: File, to: Annotated[str | None, typer.Option(help="Only what this receiver holds.")] = None) -> None:
    """List what was released, and what each receiver holds of a person in all."""
    from tacit.ledger.account import find_policy, holdings  # every command starts quickly
    from tacit.ledger.ledger import Ledger

    ledger = Ledger(file)
    lines, policy = ledger.verify(), find_policy(ledger)
    table = Table(box=None, pad_edge=False)
    for head in ("line", "when (UTC)", "what", "to", "rows", "people", "certified"):
        table.add_column(head, justify="right" if head in ("line", "rows", "people") else "left")
    for line in lines:
        b = line.body
        if line.kind == "release" and to in (None, b["to"]):
            bounds = ", ".join(f"{n} {_bound(t)}" for n, t in b["bounds"].items())
            people = "?" if b["people"] is None else f"{b['people']['count']:,}"
            rows = "" if b["rows"] is None else f"{b['rows']:,}"
            more = [str(line.number), _day(b["when"]), f"{b['what']} ({b['by']})", b["to"], rows, people, bounds]
            table.add_row(*map(escape, more))
    console = Console()
    console.print(table)
    receivers = [to] if to else dict.fromkeys(x.body["to"] for x in lines if x.kind == "release")
    for name in receivers:
        for verdict in holdings(lines, ledger.folder, name, policy):
            text = f"{name} holds of {verdict.who}, {verdict.attribute}: {verdict.composed.sentence}"
            colour = "green" if verdict.good and verdict.limit is not None else "red" if not verdict.good else ""
            limit = "" if verdict.limit is None else f"; the policy allows {verdict.limit:g}"
            console.print(f"{text}{limit}", style=colour, highlight=False, markup=False)
    _print(f"{len(lines)} lines, the chain is whole; head {lines[-1].hash[:16]}")


@ledger_app.command()
def verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The last hash at an earlier time: finds an older copy.")] = None,
) -> None:
    """Check every line and the chain; exit 2 if a line was edited, removed or moved."""
    from tacit.ledger.ledger import Ledger  # every command starts quickly

    lines = Ledger(file).verify(head)
    _print(f"{file.name}: {len(lines)} lines, the chain is whole; head {lines[-1].hash}")


@ledger_app.command("what-if")
def what_if(
    file: File,
    bundle: Bundle,
    to: To,
    source: Annotated[Path | None, typer.Option("--rows", help="The records; without them, everybody's.")] = None,
    unit: Annotated[str | None, typer.Option(help="Column that says whose each record is.")] = None,
    key: NoiseKey = None,
    ledger_key: Key = None,
    trust: Trust = False,
) -> None:
    """What the receiver would hold after one release more. Nothing is released; exit 3 where the policy forbids it."""
    from tacit.ledger.account import find_policy  # every command starts quickly
    from tacit.ledger.account import what_if as ask
    from tacit.ledger.ledger import Ledger
    from tacit.ledger.recording import entry, people_in
    from tacit.release.runtime import load

    release = load(bundle, noise_key=key, trust=trust)
    ledger = Ledger(file, ledger_key)
    lines, policy = ledger.verify(), find_policy(ledger)
    if policy is None:
        raise InputError(f"there is no policy beside {file.name}; write tacit.toml with [receivers.{to}]")
    pairs = people_in(ledger, release, source, unit)[0] if source is not None and unit is not None else None
    verdicts = ask(lines, ledger.folder, entry(release, "what-if", bundle.name, to, None), pairs, policy)
    for v in verdicts:
        _print(f"{v.attribute} of {v.who}: {v.composed.sentence}; the policy allows {v.limit or '-'}")
    if problems := [text for v in verdicts for text in v.problems]:
        raise RequirementNotMet(f"{to} may not have this release: {'; '.join(problems)}")
    _print(f"{to} may have it")


@ledger_app.command()
def together(
    file: File,
    bundles: Annotated[list[Path], typer.Argument(help="Two bundles or more, whose releases one receiver holds.")],
    data: Annotated[Path, typer.Option(help="Labelled rows that none of them was fitted on.")],
    target: Annotated[list[str], typer.Option(help="Column that must keep working.")],
    sensitive: Annotated[list[str], typer.Option(help="Column that must not be recoverable.")],
    unit: Annotated[str | None, typer.Option(help="Column that says which rows belong together.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column that is not an input.")] = None,
    attackers: Annotated[str, typer.Option(help="quick or strong.")] = "quick",
    owner_key: Annotated[
        list[Path] | None, typer.Option(help="The owner's key of each bundle, in order: rows of its fit are left out.")
    ] = None,
    key: NoiseKey = None,
    ledger_key: Key = None,
    trust: Trust = False,
) -> None:
    """Count several releases of the same records together, and write down what they tell as one."""
    import tacit
    from tacit.cli.tables import progress, rows_as_people  # every command starts quickly
    from tacit.ledger.ledger import Ledger
    from tacit.ledger.recording import audit_together, record_together

    console = Console()
    ledger = Ledger(file, ledger_key)
    owners: Sequence[Path | None] = owner_key or [None] * len(bundles)
    if len(owners) != len(bundles):
        raise InputError(f"found {len(owners)} owner's keys for {len(bundles)} bundles; pass one for each, in order")
    releases = [tacit.load(b, noise_key=key, owner_key=o, trust=trust) for b, o in zip(bundles, owners, strict=True)]
    rows = rows_as_people(console, tacit.read_table(data, target, sensitive, unit, drop or []))
    attack, test = rows.split((0.5, 0.5), random_state=0)
    with progress(console) as bar:
        task = bar.add_task("", total=None)
        report = audit_together(
            releases,
            attack,
            test,
            attackers=attackers,
            measurements="no-baseline",
            options=tacit.AuditOptions(
                callback=lambda what, *_: bar.update(task, description=f"attacking {what}"),
            ),
        )
    for name in report.leakage:
        _print(report.sentence(name))
    line = record_together(ledger, releases, report)
    _print(f"Written down as line {line.number} of {file.name}")


def _day(when: str) -> str:
    return datetime.datetime.fromisoformat(when).strftime("%Y-%m-%d %H:%M")


def _bound(told: Any) -> str:
    return (
        f"≤ {at_most(told['bound'])}" if told["bound"] is not None else f"none (audited ≤ {at_most(told['audited'])})"
    )


def _print(text: Any) -> None:
    Console().print(text, highlight=False, markup=False, soft_wrap=True)
