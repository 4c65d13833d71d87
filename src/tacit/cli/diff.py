"""`tacit diff`: what changed between two audits, or between two releases on the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import tacit
from tacit.auditing.paired_change import paired_change
from tacit.cli.audit import read_release
from tacit.cli.console import Attackers, Bins, Drop, Numeric, Trust, Unit, numeric_columns, working
from tacit.errors import InputError
from tacit.release.bundle import read_bundle
from tacit.report.difference import difference
from tacit.report.report import Report
from tacit.report.screen import Console


def diff(
    old: Annotated[Path, typer.Argument(help="audit.json, a bundle, or a folder with one; with --data a release.")],
    new: Annotated[Path, typer.Argument(help="The later audit, in the same form.")],
    most: Annotated[
        float | None, typer.Option(help="Exit 3 if a risk may have risen by more, by the upper end of its interval.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The raw table: attack both releases on its rows, for a paired interval.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="With --data: column to preserve.")] = None,
    sensitive: Annotated[list[str] | None, typer.Option(help="With --data: column to hide.")] = None,
    unit: Unit = None,
    drop: Drop = None,
    bins: Bins = None,
    numeric: Numeric = None,
    attackers: Attackers = "quick",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(help="Same seed, same split and attackers.")] = 0,
) -> None:
    """Compare two audits. Exit 3: leakage has risen, or may have risen by more than --most.

    Example: tacit diff old/audit.json new/audit.json --most .02
    """
    console = Console()
    if data is None:
        if target or sensitive or unit or drop or bins or numeric:
            raise InputError("--target, --sensitive, --unit, --drop, --bins, --numeric go with --data TABLE")
        found = difference(read_audit(old), read_audit(new))
    else:
        if not target or not sensitive:
            raise InputError("--data needs --target COLUMN and --sensitive COLUMN")
        rows = tacit.read_table(data, target, sensitive, unit, drop or [], bins, numeric=numeric_columns(numeric))
        attack, test = rows.split((0.5, 0.5), random_state=seed)
        before, after = (read_release(r, rows, (attack, test), data.name, trust=trust) for r in (old, new))
        with working(console) as doing:
            found = paired_change(
                before, after, attack, test, attackers, random_state=seed,
                callback=lambda what, *_: doing(f"attacking {what}"),
            )  # fmt: skip
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        console.print(str(found), highlight=False, markup=False)
    found.require(most)


def read_audit(path: Path) -> Report:
    """The audit in a JSON file, in a bundle, or in a folder that `tacit fit` or `tacit audit --out` wrote."""
    path = path / "audit.json" if path.is_dir() else path
    if path.suffix == ".tacit":
        bundle = read_bundle(path, trust=True)  # its audit alone is read
        if bundle.members["audit.json"].strip() == b"null":
            raise InputError(f"{path.name} was saved without an audit; audit it: tacit audit {path.name} --data TABLE")
        return Report.from_json(bundle.members["audit.json"])
    if path.suffix != ".json":
        raise InputError(
            f"{path.name} is not an audit; pass audit.json, a bundle, or a folder that holds one. To compare two "
            f"released tables, name the raw one: --data TABLE --target ... --sensitive ..."
        )
    return Report.from_json(path.read_bytes())
