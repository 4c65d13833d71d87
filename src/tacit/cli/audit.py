"""`tacit audit`: attack a released table, print what was found, and say no where a gate is not met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import tacit
from tacit.auditing import measurement_names
from tacit.auditing.received import read_cells
from tacit.cli.console import (
    Attackers,
    Bins,
    Console,
    Drop,
    Minutes,
    Numeric,
    SignedName,
    Trust,
    Trusted,
    Unit,
    note,
    numeric_columns,
    rows_as_people,
    working,
)
from tacit.cli.fit import Source
from tacit.errors import InputError
from tacit.records.csv_files import CsvFile
from tacit.records.dataset import as_dataset, read_file
from tacit.records.schema import TIMES
from tacit.records.table_files import open_table
from tacit.release.bundle import read_manifest
from tacit.release.keys import key_folder, own_key
from tacit.report.report import Report

NEEDS_ROWS = ("release", "data", "target", "bins", "numeric", "alongside", "measure", "group", "attacker_knows",
              "minutes", "out", "owner_key")  # fmt: skip


WHAT_TO_PASS = (
    "pass RELEASE --data TABLE --target COLUMN --sensitive COLUMN to attack a release, or the folder that tacit fit "
    "wrote; --counts FILE certifies counts"
)


def epilog() -> str:
    """Name the registered measurements under the help."""
    return f"Measurements: {', '.join(measurement_names())}"


def audit(
    release: Annotated[
        Path | None,
        typer.Argument(
            help="The released table, row by row that of --data; a bundle; or the folder of tacit fit --out.",
            show_default=False,
        ),
    ] = None,
    sensitive: Annotated[list[str] | None, typer.Option(help="Column to hide (repeat for several).")] = None,
    data: Annotated[Path | None, typer.Option(help="The raw table with targets and sensitive columns.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Column to preserve (repeat for several).")] = None,
    counts: Annotated[
        Path | None,
        typer.Option(help="Certify what an engine counted instead: the release, --sensitive, --unit and n."),
    ] = None,
    unit: Unit = None,
    drop: Drop = None,
    bins: Bins = None,
    numeric: Numeric = None,
    alongside: Annotated[list[str] | None, typer.Option(help="Column that travels with the release.")] = None,
    attackers: Attackers = "quick",
    require: Annotated[
        list[str] | None,
        typer.Option(help="Gate, such as sex=.60 or linkability=.05: exit 3 if it may be higher (repeat)."),
    ] = None,
    certified: Annotated[bool, typer.Option("--certified", help="With --require: only a certificate counts.")] = False,
    require_odds: Annotated[
        list[str] | None,
        typer.Option(help="Gate, such as sex=3: exit 3 unless no single release moves odds by more (certified)."),
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="Measurement: auto (default), all, NAME or no-NAME (repeat).")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Column by which leakage is also shown.")] = None,
    attacker_knows: Annotated[
        list[str] | None,
        typer.Option(help="Raw columns that an attacker knows of the person, such as age,race; or all (repeat)."),
    ] = None,
    minutes: Minutes = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, report.md and audit.json.")] = None,
    owner_key: Annotated[
        Path | None, typer.Option(help="For a bundle: the owner's key, to notice rows that it was fitted on.")
    ] = None,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(help="Same seed, same split and attackers.")] = 0,
) -> None:
    """Attack a release: what it keeps, what it gives away. Usable as a gate in a pipeline.

    A folder of tacit fit is audited in full: raw rows, columns and keys are found beside it, in FOLDER-keys.

    Example: tacit audit handover --data people.csv
    """
    options, console = dict(locals()), Console()
    options.pop("counts")
    if counts is not None:
        _certify(console, counts, **options)
        return
    parts: tuple[float, ...] = (0.5, 0.5)
    if release is not None and release.is_dir():
        parts = _complete(console, options)
    _attack(console, parts=parts, **options)


def _complete(console: Console, options: dict[str, Any]) -> tuple[float, ...]:
    """Of a folder that `tacit fit` wrote: its bundle, and what lies in the folder of its keys. How rows are split."""
    folder = options["release"]
    bundle, keys = folder / "filter.tacit", key_folder(folder)
    if not bundle.exists():
        raise InputError(f"{folder} has no filter.tacit; name a folder that tacit fit --out wrote, a bundle or a file")
    options["release"], source = bundle, Source.read(keys, bundle)
    told = json.loads((folder / "audit.json").read_text()) if (folder / "audit.json").exists() else {}
    options["target"] = options["target"] or (source.target if source else list(told.get("utility", [])))
    options["sensitive"] = options["sensitive"] or (source.sensitive if source else list(told.get("leakage", [])))
    options["out"] = options["out"] or folder
    options["owner_key"] = options["owner_key"] or own_key(bundle, keys, "owner")
    options["noise_key"] = own_key(bundle, keys, "noise")
    same = source is not None and options["data"] is None
    if source is not None and same:
        for name in ("unit", "drop", "bins", "numeric"):
            options[name] = options[name] or getattr(source, name)
        options["data"], options["sql"], options["seed"] = Path(source.table), source.sql, source.seed
    if options["data"] is None:
        raise InputError(f"{folder} is what was handed over: it holds no raw rows, and {keys} does not say where they "
                         f"are; name them: tacit audit {folder} --data TABLE")  # fmt: skip
    if options["owner_key"] is None:
        told = f"the owner's key is not in {keys}: nobody can tell which rows the bundle was fitted on; those leak more"
        note(console, told)
    console.print(f"Auditing {escape(str(bundle))} on {escape(options['data'].name)}", highlight=False)
    return (0.5, 0.2, 0.3) if same else (0.5, 0.5)


def _attack(
    console: Console,
    release: Path | None,
    sensitive: list[str] | None,
    data: Path | None,
    target: list[str] | None,
    unit: str | None,
    drop: list[str] | None,
    bins: int | None,
    numeric: list[str] | None,
    alongside: list[str] | None,
    attackers: str,
    require: list[str] | None,
    certified: bool,
    require_odds: list[str] | None,
    measure: list[str] | None,
    group: list[str] | None,
    attacker_knows: list[str] | None,
    minutes: float | None,
    out: Path | None,
    owner_key: Path | None,
    trusted_key: Path | None,
    signed_name: str | None,
    trust: bool,
    seed: int,
    parts: tuple[float, ...] = (0.5, 0.5),
    noise_key: Path | None = None,
    sql: str | None = None,
) -> None:
    gates, odds = (dict(map(_gate, asked or [])) for asked in (require, require_odds))
    limits = {name: gates.pop(name) for name in measurement_names() if name in gates and name not in (sensitive or [])}
    measure = [*(measure or ["auto"]), *limits]
    if release is None or data is None or not target or not sensitive:
        raise InputError(WHAT_TO_PASS)
    (out or Path()).mkdir(parents=True, exist_ok=True)  # before the work, not after it
    own = (open_table(data, sql, _takes_dates(release)).table, data.name, target, sensitive, unit, drop or [], bins)
    rows = rows_as_people(console, as_dataset(*own, numeric=numeric_columns(numeric)))
    attack, test = rows.split(parts, random_state=seed)[-2:]
    keys: dict[str, Any] = {
        "owner_key": owner_key,
        "noise_key": noise_key,
        "trusted_key": trusted_key,
        "name": signed_name,
    }
    what = read_release(release, rows, (attack, test), data.name, **keys, trust=trust)
    with working(console) as doing:
        report = tacit.audit(
            what,
            attack,
            test,
            attackers,
            measure,
            attacker_knows=[c if c == "all" else c.split(",") for c in attacker_knows] if attacker_knows else None,
            alongside=alongside or [],
            minutes=minutes,
            random_state=seed,
            options=tacit.AuditOptions(
                release.name, groups=tuple(group or ()), callback=lambda what, *_: doing(f"attacking {what}")
            ),
        )
    _tell(console, report, out, gates, certified, {"odds": odds, "measured": limits})


def _tell(
    console: Console, report: Report, out: Path | None, gates: dict[str, float], certified: bool, limits: dict[str, Any]
) -> None:
    """Print the report, write it where asked, and say no where a gate is not met."""
    console.print(report, highlight=False)
    if out is not None:
        report.to_json(out / "audit.json")
        report.to_markdown(out / "report.md")
        console.print(f"Report: {report.to_html(out / 'report.html')}", highlight=False, markup=False)
    if gates or any(limit not in (None, {}) for limit in limits.values()):
        report.require(gates, certified=certified, **limits)
        console.print("[green]required bounds are met[/green]")


def _certify(
    console: Console,
    counts: Path,
    sensitive: list[str] | None,
    unit: str | None,
    drop: list[str] | None,
    require: list[str] | None,
    require_odds: list[str] | None,
    **others: Any,
) -> None:
    """The certificates of what an engine has counted; what would attack rows has none to attack."""
    if wrong := [name for name in NEEDS_ROWS if others[name] not in (None, False)]:
        raise InputError(
            f"{wrong[0]} needs rows, and counts have none; --counts goes with --sensitive, --unit, --drop, --require "
            f"and --require-odds"
        )
    if not sensitive:
        raise InputError("--counts goes with --sensitive COLUMN: which column of the counts must stay hidden?")
    found = tacit.certify(read_file(counts).drop(columns=drop or []), sensitive, unit=unit)
    console.print(str(found), highlight=False, markup=False)
    gates, odds = (dict(map(_gate, asked or [])) for asked in (require, require_odds))
    if gates or odds:
        found.require(gates, odds)
        console.print("[green]required bounds are met[/green]")


def _takes_dates(release: Path) -> bool:
    """Whether a bundle has columns of dates."""
    if release.suffix != ".tacit":
        return False
    columns = read_manifest(release)["input"].get("columns", ())
    return any(c.get("type") in TIMES for c in columns)


def read_release(
    release: Path,
    rows: tacit.Dataset,
    parts: tuple[tacit.Dataset, tacit.Dataset],
    data: str,
    owner_key: Path | None = None,
    **opening: Any,
) -> Any:
    """A bundle, opened as by `tacit.load`, or the released rows of both parts as their receiver has them."""
    if release.suffix == ".tacit":
        if owner_key is None:
            owner_key = own_key(release, key_folder(release.parent), "owner")  # where tacit fit put it
        return tacit.load(release, owner_key=owner_key, **opening)  # what it releases, noise and all
    released = read_file(release)
    if len(released) != len(rows):
        raise InputError(
            f"{release.name} has {len(released)} rows but {data} has {len(rows)}; "
            f"the release must have one row for every row of the data, in the same order"
        )
    if release.suffix == ".csv":
        released = read_cells(
            release, released, CsvFile(release).delimiter
        )  # a receiver has the cells, not what they mean
    return tuple(released.iloc[part.rows].reset_index(drop=True) for part in parts)


def _gate(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        return name, float(value)
    except ValueError:
        raise InputError(f"--require and --require-odds take NAME=BOUND, such as sex=.60; found {text!r}") from None
