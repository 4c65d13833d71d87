"""`tacit reproduce`: run the experiments of `papers/`, which a checkout has."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from tacit.cli.console import Console
from tacit.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[3]


def reproduce(
    experiment: Annotated[
        str | None, typer.Argument(help="PAPER/EXPERIMENT, such as eigan/table1; or PAPER for all of it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment of every paper.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small settings; never changes the kept results.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; settings.toml's by default.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    readme: Annotated[bool, typer.Option("--readme", help="Only write the tables of the READMEs.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Forget finished parts of an earlier run.")] = False,
    out: Annotated[Path | None, typer.Option(help="With --quick or --data: folder for its figures.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Data of the paper that you hold: celeba, facescrub, mimic3, enterface.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes for the parts of an experiment.")] = 1,
) -> None:
    """Run a table or figure of a paper and compare it with the printed numbers. Interrupted runs resume.

    Example: tacit reproduce eigan/table1 --quick
    """
    papers, console = command(), Console()
    if show:
        papers.list_experiments(console)
    elif readme:
        papers.rewrite(console, experiment)
    else:
        papers.run(console, experiment, everything, quick, seeds, out, again, data, jobs)


def command(places: Sequence[Path] = ()) -> ModuleType:
    """The module `papers.common.command` of this checkout, or of the current folder.

    An installed Tacit has no papers: they are text, settings and results, not library code.
    """
    tried = [root / "papers" for root in places or (CHECKOUT, Path.cwd())]
    for papers in tried:
        if (papers / "common" / "command.py").exists():
            sys.path.insert(0, str(papers.parent))
            return importlib.import_module("papers.common.command")
    raise InputError(
        f"no folder papers/ (tried {', '.join(map(str, tried))}); it comes with a checkout of Tacit, not with the "
        f"installed package: run `tacit reproduce` from the root of a checkout"
    )
