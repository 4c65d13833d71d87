"""`tacit data prepare`: pack a publisher's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.report.screen import Console

Name = Annotated[str, typer.Argument(help="A name from `tacit data list`, such as fer_plus.")]
Handed = Annotated[
    Path, typer.Argument(help="What its publisher hands out: a folder, or the zip or tar file as it is.")
]
Out = Annotated[Path | None, typer.Option(help="Where to write; the folder of TACIT_DATA by default, else the cache.")]


def prepare(name: Name, folder: Handed, out: Out = None) -> None:
    """Pack the publisher's own files of a data set, so that it can be loaded by its name."""
    from tacit.datasets.publishers.packing import prepare as pack  # every command starts quickly

    done = pack(name, folder, out)
    console = Console()
    for file in done.files:
        console.print(f"wrote {done.folder / file}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{done.name}: {done.rows}", highlight=False, markup=False)
    for note in done.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
