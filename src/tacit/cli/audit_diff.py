"""`tacit audit diff`: what changed between two audits, or between two releases on the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import tacit
from tacit.auditing.paired_change import paired_change
from tacit.cli.audit_command import read_release
from tacit.cli.tables import progress, said_numbers
from tacit.errors import InputError
from tacit.release.bundle import read_bundle
from tacit.report.difference import Difference, difference
from tacit.report.report import Report
from tacit.report.screen import Console


def run(
    console: Console,
    old: Path,
    new: Path,
    most: float | None,
    data: Path | None,
    target: list[str] | None,
    sensitive: list[str] | None,
    unit: str | None,
    drop: list[str] | None,
    bins: int | None,
    numeric: list[str] | None,
    attackers: str,
    as_json: bool,
    trust: bool,
    seed: int,
) -> None:
    if data is None:
        if target or sensitive or unit or drop or bins or numeric:
            raise InputError("--target, --sensitive, --unit, --drop, --bins, --numeric go with --data TABLE")
        found = difference(read_audit(old), read_audit(new))
    else:
        if not target or not sensitive:
            raise InputError("--data needs --target COLUMN and --sensitive COLUMN")
        rows = tacit.read_table(data, target, sensitive, unit, drop or [], bins, numeric=said_numbers(numeric))
        found = _paired(console, (old, new), rows, data.name, attackers, seed, trust)
    print(json.dumps(found.to_dict(), indent=1)) if as_json else console.print(
        str(found), highlight=False, markup=False
    )
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


def _paired(
    console: Console,
    releases: tuple[Path, Path],
    rows: tacit.Dataset,
    name: str,
    attackers: str,
    seed: int,
    trust: bool,
) -> Difference:
    attack, test = rows.split((0.5, 0.5), random_state=seed)
    old, new = (read_release(r, rows, (attack, test), name, trust=trust) for r in releases)
    with progress(console) as bar:
        task = bar.add_task("", total=None)
        told = lambda what, done, total: bar.update(task, description=f"attacking {what}")  # noqa: E731
        return paired_change(old, new, attack, test, attackers, random_state=seed, callback=told)
