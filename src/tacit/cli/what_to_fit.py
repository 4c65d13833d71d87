"""`tacit fit`: a table, recordings or images, by what was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.report.screen import Console

FOR_TABLES = (
    "bins",
    "sql",
    "preview",
    "pass_through",
    "keep",
    "unknown",
    "max_odds",
    "dp",
    "analyzer",
    "shuffle",
    "drop",
)


def run(
    console: Console,
    table: Path,
    sensors: bool,
    images: bool,
    labels: Path | None,
    rate: float | None,
    small: bool,
    all_records: bool,
    filter_name: str | None,
    target: list[str] | None,
    sensitive: list[str] | None,
    **options: Any,
) -> None:
    if sensors and images:
        raise InputError("--sensors and --images do not go together; name one")
    roles: dict[str, Any] = {"target": target or [], "sensitive": sensitive or []}
    if not (sensors or images):
        said = {"labels": labels, "rate": rate, "small": small, "all": all_records}
        if wrong := [n for n, given in said.items() if given]:
            raise InputError(f"--{wrong[0]} goes with --sensors or --images; {table.name} is read as a table")
        from tacit.cli.fit import run as fit_table  # every command starts quickly

        fit_table(console, table=table, filter_name=filter_name or "coupling", **roles, **options)
        return
    asked = "--sensors" if sensors else "--images"
    if wrong := [n for n in FOR_TABLES if options.get(n) not in (None, False, [])]:
        raise InputError(f"--{wrong[0].replace('_', '-')} is for tables, and {asked} was said; leave one of them out")
    options |= {"small": small, "all_records": all_records}
    if sensors:
        from tacit.cli.fit_sensors import run as fit_sensors  # every command starts quickly

        fit_sensors(console, source=table, filter_name=filter_name, rate=rate, **roles, **options)
        return
    from tacit.cli.fit_images import run as fit_images  # every command starts quickly

    fit_images(console, source=table, filter_name=filter_name, labels=labels, **roles, **options)
