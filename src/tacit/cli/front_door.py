"""What somebody sees first: order and groups of `tacit --help`, an example of every command, the first words."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from tacit.auditing import measurement_names

START, PROMISE, PLACES, STUDY = "Start here", "Keep the promise", "Where it runs", "Study"
GROUPS = {
    START: ("demo", "fit", "audit", "audit diff", "frontier", "release", "doctor"),
    PROMISE: ("check", "ledger", "evidence"),
    PLACES: ("serve", "profile", "federated"),
    STUDY: ("reproduce",),
}
EXAMPLES = {
    "demo": "tacit demo",
    "fit": "tacit fit people.csv --target income --sensitive sex --out handover",
    "audit": "tacit audit handover --data people.csv",
    "audit diff": "tacit audit diff old/audit.json new/audit.json --most .02",
    "frontier": "tacit frontier people.csv --target income --sensitive sex --out curve.html",
    "release apply": "tacit release apply handover/filter.tacit next-month.csv released.csv",
    "release stream": "tacit release stream filter.tacit --format csv < people.csv",
    "release show": "tacit release show handover/filter.tacit",
    "release sign": "tacit release sign handover/filter.tacit --key signing.key",
    "release verify": "tacit release verify filter.tacit --trusted-key signing.key.pub",
    "release keys": "tacit release keys signing.key",
    "release key": "tacit release key noise.key",
    "doctor": "tacit doctor",
    "check": "tacit check tacit.toml --junit limits.xml",
    "ledger new": "tacit ledger new ledger.jsonl",
    "ledger show": "tacit ledger show ledger.jsonl --to analyst",
    "ledger verify": "tacit ledger verify ledger.jsonl",
    "ledger what-if": "tacit ledger what-if ledger.jsonl filter.tacit --to analyst",
    "ledger together": "tacit ledger together l.jsonl a.tacit b.tacit --data p.csv --target income --sensitive sex",
    "evidence": "tacit evidence handover --out evidence.zip",
    "serve run": "tacit serve run handover/filter.tacit --api-keys keys.json",
    "serve client": "tacit serve client filter.tacit people.csv http://127.0.0.1:8000 --api-key analyst.key",
    "serve keys add": "tacit serve keys add keys.json analyst --out analyst.key",
    "serve keys list": "tacit serve keys list keys.json",
    "serve keys revoke": "tacit serve keys revoke keys.json analyst",
    "profile": "tacit profile handover/filter.tacit",
    "federated simulate": "tacit federated simulate three/*.csv --target survived --sensitive sex",
    "federated server": "tacit federated server server.toml",
    "federated node": "tacit federated node node.toml",
    "federated submit": "tacit federated submit server.toml",
    "reproduce": "tacit reproduce eigan/table1 --quick",
}
FIRST = """To see what it does:       tacit demo
To hand over your table:   tacit fit people.csv --target income --sensitive sex --out handover
All commands: tacit --help   Something does not work: tacit doctor"""


class Verbs(TyperGroup):
    """Commands in the order a person needs them, in groups; one may have two words: `audit diff` beside `audit`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.suggest_commands = False  # click says what may have been meant; typer would say it once more
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)

    def list_commands(self, ctx: Any) -> list[str]:
        order = [name for names in GROUPS.values() for name in names]
        known = [n for n in order if n in self.commands]
        return [*known, *(n for n in super().list_commands(ctx) if n not in known)]


def furnish(command: Any, path: tuple[str, ...] = ()) -> None:
    """Give every command its group and its example."""
    for name, inner in getattr(command, "commands", {}).items():
        here = (*path, name)
        if not path:
            inner.rich_help_panel = next((group for group, names in GROUPS.items() if name in names), None)
        if (example := EXAMPLES.get(" ".join(here))) is not None:
            inner.epilog = f"Example: {example}"
        if here == ("audit",):
            inner.epilog = f"Measurements: {', '.join(measurement_names())}\n\n{inner.epilog or ''}"
        furnish(inner, here)
