"""A frontier in a terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from tacit.errors import InputError
from tacit.files import write_whole
from tacit.report.page import render
from tacit.report.results import at_most, interval, percent, shown

MAX_SHOWN = 24  # points in a terminal


def rich_frontier(front: Any) -> Any:
    """The points that no other beats, then the curve in numbers; fits 80 columns."""
    best = front.pareto()
    step = max(1, -(-len(best) // MAX_SHOWN))
    listed = best[::step]
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.title = f"{len(front.traced)} points, {len(best)} of them beaten by none"
    table.add_column("filter", overflow="ellipsis", no_wrap=True, max_width=18)
    for head in ("knob", "seed", *front.targets):
        table.add_column(escape(head), justify="right")
    for s in front.sensitive:
        table.add_column(escape(s), justify="right")
        table.add_column("interval", justify="right")
        table.add_column("certified", justify="right")
    for t in listed:
        row = [escape(t.point.filter), f"{t.point.value:g}", str(t.point.seed)]
        row += [shown(r.value) for r in t.utility.values()]
        for s, r in t.leakage.items():
            c = t.certificate[s]
            row += [shown(r.value), interval(r), "–" if c is None else f"[green]≤ {at_most(c.bound)}[/green]"]
        table.add_row(*row)
    return Group(table, "", *(escape(line) for line in summary(front)))


def summary(front: Any) -> list[str]:
    """What the curve amounts to, in sentences."""
    level = percent(front.level)
    lines = []
    for s in front.sensitive:
        for name in front.filters:
            part = front.only(name)
            area = part.hypervolume(sensitive=s)
            lines.append(f"{name}: hypervolume {shown(area.value)} [{shown(area.low)}, {shown(area.high)}] for {s}")
            try:
                far = part.distance_to_limit(s)
            except InputError:
                continue
            if len(far):
                worst = max(0.0, far["distance"].max())
                lines.append(
                    f"{name}: at most {shown(worst)} in accuracy below the estimated limit (median "
                    f"{shown(max(0.0, far['distance'].median()))}) at equal certificate or leakage of {s}"
                )
        if s in front.reference.label_only:
            u = front.targets[0]
            floor = front.reference.label_only_utility[u].value
            lines.append(f"label-only: {u} {shown(floor)}, {s} {shown(front.reference.label_only[s].value)}")
    lines.append(
        f"leakage: balanced accuracy{_numbers(front)} of fresh attackers ({front.attackers}; codes are counted). "
        f"Certificates hold for all {front.candidates} points together ({level}); so do intervals of utility, and "
        f"those of leakage, each kind by itself; hypervolume: bootstrap over "
        f"{'units' if front.test.units is not None else 'rows'} of test"
    )
    if front.reference.note:
        lines.append(f"note: {front.reference.note}")
    return lines


def write_frontier(front: Any, path: str | Path) -> Path:
    """One self-contained page: an interactive figure per target and sensitive attribute, and the table."""
    best = {t.point.number for t in front.pareto()}
    data = {
        "filters": front.filters,
        "points": [_plain(t, t.point.number in best) for t in front.traced],
        "measures": _words(front),
        "limit": {s: [tuple(p) for p in curve] for s, curve in front.reference.limit.items()},
        "label_only": {
            "utility": {k: _measure(r) for k, r in front.reference.label_only_utility.items()},
            "leakage": {k: _measure(r) for k, r in front.reference.label_only.items()},
        },
    }
    text = render(
        "frontier.html.j2",
        data,
        title=f"Frontier of {', '.join(front.filters)}" + (f" on {front.test.name}" if front.test.name else ""),
        front=front,
        points=data["points"],
        summary=summary(front),
        words=data["measures"],
    )
    return write_whole(path, text)


def drawn(front: Any, sensitive: str) -> Any:
    """Utility of the first target against leakage, with intervals and certified bounds."""
    from matplotlib.figure import Figure  # slow to import

    target = front.targets[0]
    fig = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = fig.subplots()
    for i, name in enumerate(front.filters):
        points = front.only(name).traced
        u, v = [t.utility[target] for t in points], [t.leakage[sensitive] for t in points]
        arms = [np.abs([[r.value - r.low for r in side], [r.high - r.value for r in side]]) for side in (v, u)]
        axes.errorbar([r.value for r in v], [r.value for r in u], xerr=arms[0], yerr=arms[1], fmt="o", ms=4, lw=0.7,
                      color=f"C{i}", label=name)  # fmt: skip
        bounds = [(t.certificate[sensitive], t.utility[target].value) for t in points]
        known = [(c.bound, value) for c, value in bounds if c is not None]
        if known:
            axes.plot(*zip(*known, strict=True), "|", color=f"C{i}", ms=12)
    limit = front.reference.limit.get(sensitive, ())
    if limit:
        axes.plot([p.leakage for p in limit], [p.accuracy for p in limit], color="0.6", lw=1, label="limit (estimate)")
    axes.axvline(front.traced[0].leakage[sensitive].guessing, color="0.5", ls=":", lw=1)
    axes.set(xlabel=f"leakage of {sensitive} (dotted: guessing; | certified bound)", ylabel=f"utility: {target}")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return fig


def _plain(t: Any, best: bool) -> dict[str, Any]:
    return {
        "filter": t.point.filter,
        "knob": t.point.knob,
        "value": t.point.value,
        "seed": t.point.seed,
        "utility": {k: _measure(r) for k, r in t.utility.items()},
        "leakage": {k: _measure(r) for k, r in t.leakage.items()},
        "certified": {k: None if c is None else c.bound for k, c in t.certificate.items()},
        "pareto": best,
    }


def _measure(r: Any) -> dict[str, Any]:
    m = r.measure
    return {"value": m.value, "low": m.low, "high": m.high, "guessing": m.guessing, "by": r.attacker}


def _words(front: Any) -> dict[str, str]:
    """By target and sensitive attribute, what is measured of it."""
    first = front.traced[0]
    told = {name: "R²" if r.headline == "r2" else "accuracy" for name, r in first.utility.items()}
    return told | {s: "R²" if r.headline == "r2" else "balanced accuracy" for s, r in first.leakage.items()}


def _numbers(front: Any) -> str:
    """Which attributes are numbers, in words; nothing where none is."""
    names = [name for name, word in _words(front).items() if word == "R²"]
    return f" (R² of {', '.join(names)})" if names else ""
