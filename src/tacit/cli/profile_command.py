"""`tacit profile`: a table of what each cut of a filter costs."""

from __future__ import annotations

import json
from pathlib import Path

from rich.table import Table

from tacit.errors import InputError
from tacit.release.profiling import ALL, RAW, in_words, profile
from tacit.report.screen import Console

UNITS = ("", "k", "M", "G", "T")
CAUTION = "Only the last row is what was audited: a cut before the end sends values that nobody has attacked yet."


def run(console: Console, model: Path, figure: Path | None, as_json: bool, repeats: int, trust: bool) -> None:
    if model.suffix not in (".tacit", ".onnx"):
        raise InputError(
            f"{model.name}: a bundle (.tacit) or an ONNX file (.onnx) can be profiled; for a torch network call "
            f"tacit.profile(network, example)"
        )
    if figure is not None and figure.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"{figure.name}: a figure ends in .svg, .png or .pdf")
    costs = profile(model, repeats=repeats, trust=trust)
    if figure is not None:
        from tacit.report.profile_figure import profile_figure  # every command starts quickly

        profile_figure(costs, f"Cuts of {model.name}").savefig(figure)
    if as_json:
        print(json.dumps({"model": model.name, "cuts": costs.to_dict("records"), "words": in_words(costs)}, indent=1))
        return
    shown = Table(box=None, pad_edge=False)
    shown.add_column("cut after", overflow="fold", min_width=12)
    for head in ("ms", "memory", "multiply-adds", "parameters", "bytes sent"):
        shown.add_column(head, justify="right", overflow="fold")
    for row in costs.to_dict("records"):
        style = "dim" if row["cut"] == RAW else "bold" if row["cut"] == ALL else ""
        counts = [short(row[k]) for k in ("memory", "multiply_adds", "parameters")]
        shown.add_row(str(row["cut"]), f"{row['milliseconds']:.3f}", *counts, f"{row['bytes']:,}", style=style)
    console.print(shown)
    console.print(f"\n{in_words(costs)}\n{CAUTION}", highlight=False, markup=False)
    if figure is not None:
        console.print(f"Figure: {figure}", highlight=False, markup=False)


def short(number: float) -> str:
    """Three digits and a unit of thousands.

    Examples
    --------
    >>> short(980), short(14_592_000), short(51_200)
    ('980', '14.6M', '51.2k')
    """
    power = 0
    while abs(number) >= 999.5 and power < len(UNITS) - 1:
        number, power = number / 1000, power + 1
    return f"{number:.3g}{UNITS[power]}"
