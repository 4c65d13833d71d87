"""`tacit fit --preview N`: what would leave, row by row, and nothing is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

import tacit
from tacit.auditing.trial import transformed
from tacit.cli.tables import progress
from tacit.report.screen import Console

ROWS = 3000  # that are fitted, at most: this is a look, not a release


def preview(console: Console, chosen: Any, name: str, data: tacit.Dataset, rows: int, seed: int) -> None:
    """Fit on half of some rows, and show so many of the others before and after."""
    some = data.take(np.sort(np.random.default_rng(seed).permutation(len(data))[:ROWS]))
    train, rest = some.split((0.5, 0.5), random_state=seed)
    with progress(console) as bar:
        bar.add_task(f"fitting {name} on {len(train):,} rows", total=None)
        chosen.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of())
    shown = rest.take(np.arange(min(rows, len(rest))))
    before = pd.concat([shown.X, shown.y, shown.sensitive], axis=1)
    released = transformed(chosen, shown)
    names = chosen.get_feature_names_out()
    after = released if isinstance(released, pd.DataFrame) else pd.DataFrame(np.asarray(released), columns=names)
    same = [c for c in before.columns if c in after.columns]
    for i in range(len(shown)):
        table = Table(box=None, pad_edge=False, title=f"row {i + 1}", title_justify="left")
        for head in ("", "before", "after"):
            table.add_column(head, overflow="fold")
        for c in before.columns:
            table.add_row(escape(str(c)), _cell(before[c].iloc[i]), _after(before, after, c, i) if c in same else "")
        for c in [c for c in after.columns if c not in same]:
            table.add_row(escape(str(c)), "", f"[bold]{_cell(after[c].iloc[i])}[/bold]")
        console.print(table)
    gone = [c for c in before.columns if c not in same]
    text = f"Not released: {', '.join(map(str, gone))}. " if gone else ""
    console.print(f"{text}Nothing was written, and nothing was attacked; without --preview both are done.",
                  highlight=False, markup=False)  # fmt: skip


def _after(before: pd.DataFrame, after: pd.DataFrame, column: str, i: int) -> str:
    old, new = _cell(before[column].iloc[i]), _cell(after[column].iloc[i])
    return f"[bold]{new}[/bold]" if old != new else new


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None or value is pd.NaT else escape(str(value))
