"""A report in a terminal: one table of figures, then what the reader must know."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from tacit.report.foreign import on_screen
from tacit.report.results import AnyResult, NumberResult, digits, interval, shown
from tacit.report.screen import Console
from tacit.report.verdict import DOES_NOT_PROTECT

MOST = 5  # findings of one measurement in a terminal
WIDE = 10_000  # so that no line is broken


def as_text(told: Any, width: int) -> str:
    """Plain text, so that it can go into a log; `width` where no terminal says its own, up to 100."""
    console = Console(file=io.StringIO(), width=min(100, shutil.get_terminal_size((width, 24)).columns))
    console.print(told, highlight=False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def as_markdown(report: Any) -> str:
    """The text of a report as a code block, in which names are never tags or links, then what it does not cover."""
    out = io.StringIO()
    Console(file=out, width=WIDE).print(report, highlight=False)
    lines = [line.rstrip().replace("`", "'") for line in out.getvalue().splitlines()]
    s = report.settings
    lines.append(
        f"Data {s.data or 'unnamed'}, {s.rows['attack']:,} rows to attack and {s.rows['test']:,} to test, "
        f"seed {s.seed}, {s.seconds} s, {', '.join(f'{k} {v}' for k, v in s.versions.items())}, {s.when}."
    )
    return "\n".join(["```text", *map(on_screen, lines), "```", "", *(f"- {t}" for t in DOES_NOT_PROTECT)]) + "\n"


def rich_report(report: Any) -> Any:  # a Report, which calls this and so cannot be imported here
    """What ``rich.print(report)`` and the command line show; fits 80 columns."""
    table = Table(title=f"Audit of {escape(report.name)}", title_justify="left", box=None, pad_edge=False)
    for head, right in (("", False), ("attribute", False), ("value", True), ("interval", True), ("guessing", True)):
        table.add_column(head, justify="right" if right else "left")
    table.add_column("by")
    for role, results in (
        ("keeps", report.utility),
        ("gives away", report.leakage),
        ("label-only", report.label_only),
        ("rows of the fit", report.in_sample),
        *((attack.kind, dict(list(attack.results.items())[:5])) for attack in report.other_attacks),
    ):
        for name, r in results.items():
            table.add_row(*_row(role, name, r))
            for line in _number_rows(r) if role in ("keeps", "gives away") else ():
                table.add_row(*map(escape, line))
    shown_of: Counter[str] = Counter()
    for f in report.findings:
        shown_of[f.name] += 1
        if shown_of[f.name] <= MOST:  # the page and the JSON have all
            ends = "" if f.low is None else interval(f)
            chance = "" if f.chance is None else shown(f.chance)
            what = f"{f.subject} ({f.kind})" if f.kind else f.subject
            table.add_row(f.name.replace("_", " "), escape(what), shown(f.value), ends, chance, escape(f.attacker))
    lines = [""]
    for name in report.leakage:
        colour = "green" if report.certificate[name] is not None else "yellow"
        lines.append(f"[{colour}]{escape(report.sentence(name))}[/{colour}]")
        if beaten := report.beaten_by_label(name):
            lines.append(f"[red]{escape(name)}: dominated; {escape(beaten)}[/red]")
        if worst := report.worst(name):
            lines.append(escape(worst))
        if name in report.exposure:
            lines.append(escape(f"{name}: {report.exposure[name].sentence}"))
        if text := report.smallest_detectable(name):
            lines.append(f"[cyan]{escape(f'{name}: {text}')}[/cyan]")
    lines += [escape(f"{name}: {c.explain(report.level)}") for name, c in report.certificate.items() if c is not None]
    lines += [escape(text) for name in report.pairs if (text := report.few_columns(name))]
    lines += [escape(k.figures(name)) for name, sets in report.knowledge.items() for k in sets.values()]
    lines += [escape(text) for text in report.change.sentences] if report.change is not None else []
    lines += [
        f"[dim]{escape(attack.kind)}: the attacker knows {escape(attack.knows)}[/dim]"
        for attack in report.other_attacks
    ]
    lines += [f"[dim]note: {escape(note)}[/dim]" for note in report.notes]
    return Group(table, *lines)


def _row(role: str, name: str, r: AnyResult) -> list[str]:
    called = f"{name} (R²)" if isinstance(r, NumberResult) else name
    return [role, escape(called), shown(r.value), interval(r), shown(r.guessing), escape(r.attacker)]


def _number_rows(r: AnyResult) -> list[list[str]]:
    """What else is told of a number, one line each."""
    if not isinstance(r, NumberResult):
        return []
    rank, off = r.rank_correlation, r.mae
    ends = f"{digits(off.low)}–{digits(off.high)}"
    return [
        ["", "  rank correlation", shown(rank.value), interval(rank), shown(0.0), r.by.get("rank_correlation", "")],
        ["", "  mean error", digits(off.value), ends, digits(off.guessing), r.by.get("mae", "")],
    ]
