"""`tacit reproduce`: every table and figure of the papers, one command each."""

from __future__ import annotations

import tempfile
import time
import traceback
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers.common.papers import PAPERS, Paper, all_papers, choose, load_paper
from papers.common.run import Run, run_experiment
from papers.common.shown import shown
from papers.common.tables import effort, write_readme, write_summary
from tacit.errors import TacitError


def run(
    console: Console,
    asked: str | None,
    everything: bool,
    quick: bool,
    seeds: int | None,
    out: Path | None,
    again: bool,
    data: str | None = None,
    jobs: int = 1,
) -> None:
    chosen = choose(asked, everything)
    root = out or (Path(tempfile.mkdtemp(prefix="tacit-quick-")) if quick else Path("reproduced") if data else None)
    failed = []
    for paper, experiment in chosen:
        name = f"{paper.name}/{experiment}"
        if missing := paper.missing_data(experiment, data):
            where = f"not here: {', '.join(missing)} (python -m papers.data {missing[0]})"
            if len(chosen) == 1:
                raise TacitError(f"{name} needs data that is {where}")
            console.print(f"{name}: skipped, {where}", highlight=False)
            continue
        began = time.perf_counter()
        try:
            _one(console, paper, experiment, quick, seeds, root, again, data, jobs)
        except Exception as error:  # one broken experiment must not cost the others' hours
            if len(chosen) == 1:
                raise
            failed.append(name)
            console.print(f"[red]{name}: failed[/red]\n{escape(traceback.format_exc())}", highlight=False)
            console.print(f"{name}: {escape(str(error))}", highlight=False)
            continue
        console.print(f"{name}: done in {time.perf_counter() - began:.0f} s", highlight=False)
    if quick:
        console.print(f"Quick figures, not for quoting: [bold]{root}[/bold]", highlight=False)
    if failed:
        raise TacitError(f"{len(failed)} of {len(chosen)} experiments failed: {', '.join(failed)}")


def _one(
    console: Console,
    paper: Paper,
    experiment: str,
    quick: bool,
    seeds: int | None,
    root: Path | None,
    again: bool,
    data: str | None,
    jobs: int,
) -> None:
    own = f"{experiment}-{data}" if data else experiment
    out = root / paper.name / own if root is not None else None
    tell = lambda text: console.print(f"  {text}", highlight=False)  # noqa: E731
    this = Run(paper, experiment, quick, seeds, out, again, tell, data)
    run_experiment(this, jobs)
    table = Table(box=None, pad_edge=False, title=escape(this.settings.get("title", experiment)), title_justify="left")
    for head in ("", "measure", "printed", "ours", "adaptive attacker"):
        table.add_column(head)
    for row in this.rows:
        table.add_row(*(escape(shown(row[k])) for k in ("what", "measure", "printed", "ours", "adaptive")))
    console.print(table)
    if data and not quick:
        console.print(f"Figures and results: [bold]{this.folder}[/bold]", highlight=False)
    elif not quick:
        write_readme(paper)
        write_summary(paper.folder.parent)


def rewrite(console: Console, asked: str | None) -> None:
    """The READMEs anew from results.json: one paper's or all, and the summary."""
    for name in [asked] if asked else all_papers():
        console.print(str(write_readme(load_paper(name))), highlight=False)
    console.print(str(write_summary(PAPERS)), highlight=False)


def list_experiments(console: Console) -> None:
    """Every experiment: what it reproduces, what its full run took or reads, and whose data is not here."""
    missing: set[str] = set()
    for name in all_papers():
        paper = load_paper(name)
        results = paper.results
        table = Table(box=None, pad_edge=False, show_header=False, expand=True)  # one a paper: its own width of names
        table.add_column(no_wrap=True)  # names are there to be copied
        table.add_column(overflow="fold", ratio=1)
        table.add_column(no_wrap=True, justify="right")
        for experiment in paper.experiments:
            absent = paper.missing_data(experiment)
            missing.update(absent)
            title = paper.settings_of(experiment, quick=False).get("title", "")
            took = "not run yet" if experiment not in results else effort(results[experiment])
            table.add_row(f"{name}/{experiment}", escape(title), took + ("*" if absent else ""))
        console.print(table, highlight=False)
        console.print()
    console.print("Right: the full run's time, or the script whose figures it reads", highlight=False)
    if missing:
        console.print(f"* data that is not here: {', '.join(sorted(missing))} (python -m papers.data)", highlight=False)
