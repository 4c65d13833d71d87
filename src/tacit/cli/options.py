"""What options mean, said alike by every command: the words of `--help`, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FILTER, OTHERS, HANDOVER = "The filter", "Recordings and images", "What is handed over"  # groups of options

# What a table's columns are, said alike by every command that reads one.
Targets = Annotated[list[str], typer.Option(help="Column that must keep working (repeat for several).")]
Sensitives = Annotated[list[str], typer.Option(help="Column that must not be recoverable (repeat for several).")]
Released = Annotated[
    Path | None,
    typer.Argument(
        help="The released table, row by row that of --data; a bundle; or the folder of tacit fit --out.",
        show_default=False,
    ),
]
PrivateFit = Annotated[
    float | None,
    typer.Option(
        help="eigan, codebook: a fit that is differentially private at this epsilon, such as 3.", rich_help_panel=FILTER
    ),
]
Minutes = Annotated[
    float | None, typer.Option(min=0, help="A time not to be passed by much; what was left out is said.")
]
Counts = Annotated[
    Path | None, typer.Option(help="Certify what an engine counted instead: the release, --sensitive, --unit and n.")
]
Trusted = Annotated[Path | None, typer.Option("--trusted-key", help="Refuse what this public key has not signed.")]
SignedName = Annotated[
    str | None, typer.Option("--signed-name", help="With --trusted-key: the name it must be signed under; its file's.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load an unsigned bundle of another user or machine. You vouch for it.")
]
Unit = Annotated[str | None, typer.Option(help="Column that says which rows belong together.")]
Dropped = Annotated[list[str] | None, typer.Option(help="Column that is not an input (repeat for several).")]
Expires = Annotated[
    str,
    typer.Option(help="The bundle's last day of use: a date, days such as 90d, or never.", rich_help_panel=HANDOVER),
]
KeyFolder = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="Folder for the keys, which are never handed over; OUT-keys beside it.", rich_help_panel=HANDOVER
    ),
]
Bins = Annotated[int | None, typer.Option(help="Cut numeric targets and sensitive attributes into this many classes.")]
Numeric = Annotated[
    list[str] | None,
    typer.Option(help="Target or sensitive column that is a number, such as floors; or not, zip=no (repeat)."),
]

# `tacit fit` and `tacit audit`
Records = Annotated[
    Path,
    typer.Argument(help="CSV, Parquet, Arrow, Excel, SQLite or DuckDB file; or a folder: see --sensors, --images."),
]
Target = Annotated[
    list[str] | None, typer.Option(help="Column that must keep working (repeat for several).", show_default=False)
]
Sensitive = Annotated[
    list[str] | None,
    typer.Option(help="Column that must not be recoverable (repeat for several).", show_default=False),
]
Sql = Annotated[
    str | None, typer.Option(help='Of an SQLite or DuckDB file: what to read, such as "select * from people".')
]
Preview = Annotated[int | None, typer.Option(min=1, help="Show so many rows before and after; nothing is written.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Answer in seconds, with two attackers; tacit audit OUT does the rest."),
]
Out = Annotated[Path, typer.Option(help="Folder for the release, report.html and the bundle.")]
Seed = Annotated[int, typer.Option(help="Same seed, same split and filter.")]
FilterName = Annotated[
    str | None,
    typer.Option(
        "--filter",
        help="coupling (the default): the table back; codebook, eigan, minimax, ...: codes or numbers.",
        rich_help_panel=FILTER,
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        help="The knob: strength (coupling), leakage_weight (codebook), alpha (eigan), rho (minimax), ...",
        rich_help_panel=FILTER,
    ),
]
PassThrough = Annotated[
    list[str] | None,
    typer.Option(
        help="coupling: column that is carried along as it is, such as a key; nothing is hidden in it.",
        rich_help_panel=FILTER,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="coupling: how much a column matters, such as hours=5 (1 by default).", rich_help_panel=FILTER),
]
Unknown = Annotated[
    str | None,
    typer.Option(
        help="coupling: draw, to draw a missing sensitive value; such rows are protected less.",
        rich_help_panel=FILTER,
    ),
]
MaxOdds = Annotated[
    float | None,
    typer.Option(
        help="codebook: merge cells until no single release moves odds by more, such as 3.", rich_help_panel=FILTER
    ),
]
Sensors = Annotated[
    bool,
    typer.Option("--sensors", help="Recordings: a file, or a folder with a CSV per person.", rich_help_panel=OTHERS),
]
Images = Annotated[bool, typer.Option("--images", help="A folder of photos, with --labels.", rich_help_panel=OTHERS)]
Labels = Annotated[
    Path | None,
    typer.Option(help="Images: a table of file names and labels; labels.csv in the folder.", rich_help_panel=OTHERS),
]
Rate = Annotated[
    float | None,
    typer.Option(min=0.01, help="Recordings: samples a second; from their times without it.", rich_help_panel=OTHERS),
]
Small = Annotated[
    bool,
    typer.Option("--small", help="Settings for two cores; what they cost is said.", rich_help_panel=OTHERS),
]
AllRecords = Annotated[
    bool,
    typer.Option(
        "--all", help="Release those of the fit too, by a second filter; twice the time.", rich_help_panel=OTHERS
    ),
]
Analyzer = Annotated[
    bool,
    typer.Option(
        "--analyzer", help="Also learn what `tacit serve` answers with from releases.", rich_help_panel=HANDOVER
    ),
]
Shuffle = Annotated[
    bool | None,
    typer.Option(
        "--shuffle/--keep-order",
        help="Order of the rows; shuffled by default where it tells something sensitive.",
        rich_help_panel=HANDOVER,
    ),
]
SampleRows = Annotated[
    int,
    typer.Option(
        min=10,
        help="Of a larger table, fit and audit on so many rows by whole units; release all.",
        rich_help_panel=HANDOVER,
    ),
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes that release a larger table.", rich_help_panel=HANDOVER)]
Data = Annotated[Path | None, typer.Option(help="The original table with targets and secrets.")]
TargetOption = Annotated[list[str] | None, typer.Option(help="Column that must keep working (repeat).")]
Alongside = Annotated[list[str] | None, typer.Option(help="Column that travels with the release.")]
Attackers = Annotated[str, typer.Option(help="quick or strong.")]
Require = Annotated[
    list[str] | None,
    typer.Option(help="Gate, such as sex=.60 or linkability=.05: exit 3 if leakage may be higher (repeat)."),
]
Certified = Annotated[bool, typer.Option(help="With --require: only a certificate counts.")]
RequireOdds = Annotated[
    list[str] | None,
    typer.Option(help="Gate, such as sex=3: exit 3 unless no single release moves odds by more (certified)."),
]
Measure = Annotated[
    list[str] | None, typer.Option(help="Measurement to make: auto (default), all, NAME or no-NAME (repeat).")
]
Group = Annotated[list[str] | None, typer.Option(help="Column by which leakage is also shown.")]
AttackerKnows = Annotated[
    list[str] | None,
    typer.Option(help="Raw columns that an attacker knows of the person, such as age,race; or all (repeat)."),
]
OutOption = Annotated[Path | None, typer.Option(help="Folder for report.html, report.md and audit.json.")]
OwnerKey = Annotated[
    Path | None, typer.Option(help="For a bundle: the owner's key, to notice rows that it was fitted on.")
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same split and attackers.")]
