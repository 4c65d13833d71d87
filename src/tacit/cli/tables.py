"""Tables and progress for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tacit.audit.report import Report, _p


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


def comparison(reports: Sequence[Report]) -> Table:
    """One row per release: utility, best attacker with its interval, guessing, certified or not."""
    target, secret = next(iter(reports[0].utility)), next(iter(reports[0].leakage))
    shown = Table(box=None, pad_edge=False)
    shown.add_column("release", no_wrap=True)
    for head in (
        f"{target} accuracy",
        f"{secret} best attacker",
        "95 % interval",
        "guessing",
        "any attacker",
    ):
        shown.add_column(head, justify="right")
    for r in reports:
        u, v, c = r.utility[target], r.leakage[secret], r.certificate[secret]
        status = f"[green]certified ≤ {_p(c.bound)}[/green]" if c is not None else "[dim]audited only[/dim]"
        shown.add_row(r.name, _p(u.value), _p(v.value), f"{_p(v.low)}–{_p(v.high)}", _p(v.guessing), status)
    return shown
