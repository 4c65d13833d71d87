"""`tacit ledger`: what was released to whom, what it adds up to, and what one release more would."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import tacit
from tacit.cli import PLAIN
from tacit.cli.console import (
    Attackers,
    Bundle,
    Console,
    Drop,
    LedgerKey,
    NoiseKey,
    Sensitive,
    Target,
    Trust,
    Unit,
    rows_as_people,
    say,
    working,
)
from tacit.errors import InputError, RequirementNotMet
from tacit.ledger.composition import find_policy, holdings
from tacit.ledger.composition import what_if as would_hold
from tacit.ledger.ledger import Ledger
from tacit.ledger.recording import audit_together, entry, people_in, record_together
from tacit.release.runtime import load
from tacit.report.results import at_most

app = typer.Typer(help="Record releases, and add up what each receiver holds.", **PLAIN)

File = Annotated[Path, typer.Argument(help="The ledger, ledger.jsonl.")]


@app.command()
def new(
    file: File,
    key: Annotated[
        Path | None,
        typer.Option("--ledger-key", help="Its secret key; created if missing. LEDGER.key by default."),
    ] = None,
) -> None:
    """Begin a ledger, with a key under which people are hashed. Keep the key where the receivers are not.

    Example: tacit ledger new ledger.jsonl
    """
    Ledger.new(file, key)
    say(f"Ledger: {file}\nSecret key: {key or file.with_suffix('.key')} (keep it)")


@app.command()
def show(file: File, to: Annotated[str | None, typer.Option(help="Only what this receiver holds.")] = None) -> None:
    """List what was released, and what each receiver holds of a person in all.

    Example: tacit ledger show ledger.jsonl --to analyst
    """
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
    say(f"{len(lines)} lines, the chain is whole; head {lines[-1].hash[:16]}")


@app.command()
def verify(
    file: File,
    head: Annotated[str | None, typer.Option(help="The last hash at an earlier time: finds an older copy.")] = None,
) -> None:
    """Check every line and the chain; exit 2 if a line was edited, removed or moved.

    Example: tacit ledger verify ledger.jsonl
    """
    lines = Ledger(file).verify(head)
    say(f"{file.name}: {len(lines)} lines, the chain is whole; head {lines[-1].hash}")


@app.command("what-if")
def what_if(
    file: File,
    bundle: Bundle,
    to: Annotated[str, typer.Option(help="Name of the receiver in the policy.")],
    source: Annotated[Path | None, typer.Option("--rows", help="The records; everybody's by default.")] = None,
    unit: Unit = None,
    noise_key: NoiseKey = None,
    ledger_key: LedgerKey = None,
    trust: Trust = False,
) -> None:
    """Show what the receiver would hold after one more release. Exit 3: the policy forbids it. Nothing is released.

    Example: tacit ledger what-if ledger.jsonl filter.tacit --to analyst
    """
    release = load(bundle, noise_key=noise_key, trust=trust)
    ledger = Ledger(file, ledger_key)
    lines, policy = ledger.verify(), find_policy(ledger)
    if policy is None:
        raise InputError(f"there is no policy beside {file.name}; write tacit.toml with [receivers.{to}]")
    pairs = people_in(ledger, release, source, unit)[0] if source is not None and unit is not None else None
    verdicts = would_hold(lines, ledger.folder, entry(release, "what-if", bundle.name, to, None), pairs, policy)
    for v in verdicts:
        say(f"{v.attribute} of {v.who}: {v.composed.sentence}; the policy allows {v.limit or '-'}")
    if problems := [text for v in verdicts for text in v.problems]:
        raise RequirementNotMet(f"{to} may not have this release: {'; '.join(problems)}")
    say(f"{to} may have it")


@app.command()
def together(
    file: File,
    bundles: Annotated[list[Path], typer.Argument(help="Two bundles or more, whose releases one receiver holds.")],
    data: Annotated[Path, typer.Option(help="Labelled rows that none of them was fitted on.")],
    target: Target,
    sensitive: Sensitive,
    unit: Unit = None,
    drop: Drop = None,
    attackers: Attackers = "quick",
    owner_key: Annotated[
        list[Path] | None, typer.Option(help="The owner's key of each bundle, in order: rows of its fit are left out.")
    ] = None,
    noise_key: NoiseKey = None,
    ledger_key: LedgerKey = None,
    trust: Trust = False,
) -> None:
    """Audit several releases of the same records as one, and record the result.

    Example: tacit ledger together l.jsonl a.tacit b.tacit --data p.csv --target income --sensitive sex
    """
    console = Console()
    ledger = Ledger(file, ledger_key)
    owners: Sequence[Path | None] = owner_key or [None] * len(bundles)
    if len(owners) != len(bundles):
        raise InputError(f"found {len(owners)} owner's keys for {len(bundles)} bundles; pass one for each, in order")
    releases = [
        tacit.load(b, noise_key=noise_key, owner_key=o, trust=trust) for b, o in zip(bundles, owners, strict=True)
    ]
    rows = rows_as_people(console, tacit.read_table(data, target, sensitive, unit, drop or []))
    attack, test = rows.split((0.5, 0.5), random_state=0)
    with working(console) as doing:
        report = audit_together(
            releases,
            attack,
            test,
            attackers=attackers,
            measurements="no-baseline",
            options=tacit.AuditOptions(callback=lambda what, *_: doing(f"attacking {what}")),
        )
    for name in report.leakage:
        say(report.sentence(name))
    line = record_together(ledger, releases, report)
    say(f"Written down as line {line.number} of {file.name}")


def _day(when: str) -> str:
    return datetime.datetime.fromisoformat(when).strftime("%Y-%m-%d %H:%M")


def _bound(told: Any) -> str:
    return (
        f"≤ {at_most(told['bound'])}" if told["bound"] is not None else f"none (audited ≤ {at_most(told['audited'])})"
    )
