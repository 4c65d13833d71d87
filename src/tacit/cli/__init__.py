"""The command line: thin; every command is a few calls that a Python user could make."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

from tacit.cores import threads

os.environ.setdefault("OMP_NUM_THREADS", str(threads()))  # before numpy and the others read it
os.environ["PYTHONSAFEPATH"] = "1"  # no child process runs a file of the current folder as a module

try:
    import typer
    from rich.markup import escape

    from tacit.report.screen import Console
except ModuleNotFoundError as missing:  # a device install: bundles run without the command line
    raise SystemExit(
        f"tacit: the command line needs {missing.name}, which is not installed here. Install typer and rich (and "
        f"pyarrow for files), or run bundles from Python: tacit.load('NAME.tacit').transform(X)"
    ) from None

from tacit.cli.evidence_command import evidence
from tacit.cli.federated import federated_app
from tacit.cli.front_door import FIRST, Verbs, furnish
from tacit.cli.ledger_command import LedgerKey, LedgerOption, ToOption, ledger_app, open_book
from tacit.cli.options import (
    AllRecords,
    Alongside,
    Analyzer,
    AttackerKnows,
    Attackers,
    Bins,
    Certified,
    Counts,
    Data,
    Dropped,
    Expires,
    FilterName,
    Group,
    Images,
    Jobs,
    Keep,
    KeyFolder,
    Labels,
    MaxOdds,
    Measure,
    Minutes,
    Numeric,
    Out,
    OutOption,
    OwnerKey,
    PassThrough,
    Preview,
    PrivateFit,
    Quick,
    Rate,
    Records,
    Released,
    Require,
    RequireOdds,
    SampleRows,
    Seed,
    SeedOption,
    Sensitive,
    Sensitives,
    Sensors,
    Shuffle,
    SignedName,
    Small,
    Sql,
    Target,
    TargetOption,
    Targets,
    Trust,
    Trusted,
    Unit,
    Unknown,
    Weight,
)
from tacit.cli.release import release_app
from tacit.cli.serve import serve_app
from tacit.errors import NotInstalled, RequirementNotMet, TacitError, TacitWarning

app = typer.Typer(
    name="tacit",
    cls=Verbs,
    help="Private representation learning: keep what the task needs, withhold the rest, measure what leaks.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs are filled, whatever their lines in the source
)
app.add_typer(release_app, name="release")
app.add_typer(ledger_app, name="ledger")
app.add_typer(serve_app, name="serve")
app.command()(evidence)
app.add_typer(federated_app, name="federated")
console = Console()


@app.callback()
def every_command(
    context: typer.Context,
    encoding: Annotated[
        str | None, typer.Option(help="What CSV files are in, such as latin-1; found without it.")
    ] = None,
) -> None:
    """Private representation learning: keep what the task needs, withhold the rest, measure what leaks."""
    if encoding is not None:
        os.environ["TACIT_ENCODING"] = encoding  # so that it reaches processes that release beside this one
    if context.invoked_subcommand is None:
        print(FIRST)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("tacit-demo"),
    seed: Annotated[
        int, typer.Option(help="Same seed, same split and filters; the noise of a release is always fresh.")
    ] = 0,
) -> None:
    """Filters, floors and attackers on handwritten digits, in under a minute. No network."""
    from tacit.cli.demo import run  # every command starts quickly

    run(console, out, seed)


@app.command()
def fit(
    table: Records,
    target: Target = None,
    sensitive: Sensitive = None,
    unit: Unit = None,
    drop: Dropped = None,
    bins: Bins = None,
    numeric: Numeric = None,
    sql: Sql = None,
    preview: Preview = None,
    quick: Quick = False,
    out: Out = Path("tacit-out"),
    seed: Seed = 0,
    filter_name: FilterName = None,
    weight: Weight = None,
    pass_through: PassThrough = None,
    keep: Keep = None,
    unknown: Unknown = None,
    max_odds: MaxOdds = None,
    dp: PrivateFit = None,
    sensors: Sensors = False,
    images: Images = False,
    labels: Labels = None,
    rate: Rate = None,
    small: Small = False,
    all_records: AllRecords = False,
    analyzer: Analyzer = False,
    shuffle: Shuffle = None,
    expires: Expires = "365d",
    keys: KeyFolder = None,
    ledger: LedgerOption = None,
    to: ToOption = None,
    ledger_key: LedgerKey = None,
    sample_rows: SampleRows = 1_000_000,
    jobs: Jobs = 1,
) -> None:
    """Hand data over: learn a filter, attack what it releases, and write the release, a report and a bundle.

    A table comes back with the same columns and few values changed; the sensitive ones are dropped. With --filter
    codebook (and others) codes or numbers are released instead. Rows of the fit are released by parts that never saw
    them. Of recordings and images half are released, those that the filter has not seen; with --all the others too.
    """
    options = dict(locals())
    from tacit.cli.what_to_fit import run  # every command starts quickly

    run(console, book=open_book(options), **options)


@app.command()
def audit(
    release: Released = None,
    sensitive: Sensitive = None,
    data: Data = None,
    target: TargetOption = None,
    counts: Counts = None,
    unit: Unit = None,
    drop: Dropped = None,
    bins: Bins = None,
    numeric: Numeric = None,
    alongside: Alongside = None,
    attackers: Attackers = "quick",
    require: Require = None,
    certified: Certified = False,
    require_odds: RequireOdds = None,
    measure: Measure = None,
    group: Group = None,
    attacker_knows: AttackerKnows = None,
    minutes: Minutes = None,
    out: OutOption = None,
    owner_key: OwnerKey = None,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
    seed: SeedOption = 0,
) -> None:
    """Attack a release: what it keeps, what it gives away. Usable as a gate in a pipeline.

    A folder of tacit fit is audited in full: raw rows, columns and keys are found beside it, in FOLDER-keys.

    What changed between two audits: tacit audit diff OLD NEW.
    """
    options = dict(locals())
    from tacit.cli.audit_command import run  # every command starts quickly

    run(console, **options)


@app.command("audit diff")
def audit_diff(
    old: Annotated[Path, typer.Argument(help="audit.json, a bundle, or a folder with one; with --data a release.")],
    new: Annotated[Path, typer.Argument(help="The same, of what came after.")],
    most: Annotated[
        float | None, typer.Option(help="Exit 3 if a risk may have risen by more, by the upper end of its interval.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The raw table: attack both releases on its rows, for a paired interval.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="With --data, as of audit.")] = None,
    sensitive: Annotated[list[str] | None, typer.Option(help="With --data, as of audit.")] = None,
    unit: Unit = None,
    drop: Dropped = None,
    bins: Bins = None,
    numeric: Numeric = None,
    attackers: Annotated[str, typer.Option(help="quick or strong.")] = "quick",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(help="Same seed, same split and attackers.")] = 0,
) -> None:
    """Say what changed between two audits. Exit 3: leakage has risen, or may have risen by more than --most."""
    options = dict(locals())
    from tacit.cli.audit_diff import run  # every command starts quickly

    run(console, **options)


@app.command()
def doctor() -> None:
    """What is missing on this machine, and how to get it."""
    from tacit.cli.doctor import run  # every command starts quickly

    run(console)


@app.command()
def check(
    policy: Annotated[Path, typer.Argument(help="The policy, tacit.toml, or its folder.")] = Path("tacit.toml"),
    bundle: Annotated[Path | None, typer.Option(help="Check this bundle, whatever the policy names.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the limits as a JUnit file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html and audit.json.")] = None,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
) -> None:
    """Fit or load what a policy names, audit it, and exit 3 unless every limit is kept. For version control."""
    from tacit.cli.check import run  # every command starts quickly

    run(console, policy, bundle, junit, out, {"trusted_key": trusted_key, "name": signed_name, "trust": trust})


@app.command()
def profile(
    model: Annotated[Path, typer.Argument(help="A bundle, NAME.tacit, or an ONNX file.")],
    figure: Annotated[Path | None, typer.Option(help="Also draw it: a file that ends in .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Passes, of which the median time is taken.")] = 20,
    trust: Trust = False,
) -> None:
    """What a filter costs on a device, and what each possible cut of it would send: time, memory, work, bytes."""
    from tacit.cli.profile_command import run  # every command starts quickly

    run(console, model, figure, as_json, repeats, trust)


@app.command()
def frontier(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    target: Targets,
    sensitive: Sensitives,
    unit: Unit = None,
    drop: Dropped = None,
    bins: Bins = None,
    numeric: Numeric = None,
    filter_name: Annotated[
        list[str] | None, typer.Option("--filter", help="codebook, eigan, ... (repeat: several in one picture).")
    ] = None,
    values: Annotated[str, typer.Option(help="How many knob values, or the values: 0,.5,2.")] = "8",
    seeds: Annotated[int, typer.Option(help="How many seeds for every value.")] = 3,
    attackers: Annotated[str, typer.Option(help="quick or strong.")] = "quick",
    minutes: Minutes = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder of finished points; run again to resume.")] = None,
    out: Annotated[Path | None, typer.Option(help="Page to write, such as curve.html.")] = None,
    choose: Annotated[
        list[str] | None, typer.Option(help="'sex<=.55' or 'income>=.84' (repeat): the best point that keeps it.")
    ] = None,
    certified: Annotated[bool, typer.Option(help="With --choose: only certificates count.")] = False,
    save: Annotated[Path | None, typer.Option(help="With --choose: write the filter as NAME.tacit.")] = None,
    keys: KeyFolder = None,
    ledger: LedgerOption = None,
    to: ToOption = None,
    ledger_key: LedgerKey = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of the split.")] = 0,
) -> None:
    """Trace utility against leakage for a table, and choose a point by what you can accept. Exit 3: no point does."""
    options = dict(locals())
    from tacit.cli.frontier_command import run  # every command starts quickly

    run(console, book=open_book(options), **options)


@app.command()
def reproduce(
    experiment: Annotated[
        str | None, typer.Argument(help="PAPER/EXPERIMENT, such as eigan/table1; or PAPER for all of it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment of every paper.")] = False,
    quick: Annotated[bool, typer.Option(help="Small settings: does it run? Never touches the kept results.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, over what settings.toml says.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    readme: Annotated[bool, typer.Option("--readme", help="Only write the READMEs' tables anew.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Forget finished parts of an earlier run.")] = False,
    out: Annotated[Path | None, typer.Option(help="With --quick or --data: folder for its figures.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Data of the paper that you hold: celeba, facescrub, mimic3, enterface.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes: parts of an experiment side by side.")] = 1,
) -> None:
    """Run a paper's table or figure and set it beside the printed numbers. Interrupted full runs resume."""
    from tacit.cli.reproduce import command  # every command starts quickly

    papers = command()
    if show:
        papers.list_experiments(console)
    elif readme:
        papers.rewrite(console, experiment)
    else:
        papers.run(console, experiment, everything, quick, seeds, out, again, data, jobs)


def _tell_warnings() -> None:
    """Our warnings are a note for the user; that a library will drop a name some day is none of their business."""
    warnings.simplefilter("default")
    for category in (DeprecationWarning, PendingDeprecationWarning):
        warnings.simplefilter("ignore", category)
    of_others = warnings.showwarning

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if not issubclass(category, TacitWarning):
            of_others(message, category, *where, **more)
            return
        Console(stderr=True).print(f"[yellow]note:[/yellow] {escape(str(message))}", highlight=False)

    warnings.showwarning = show


def main() -> None:
    """Run the command line; errors of the user's input are one line, not a traceback."""
    _tell_warnings()
    command = typer.main.get_command(app)
    furnish(command)
    try:
        command()
    except RequirementNotMet as error:
        Console(stderr=True).print(f"[bold red]not met:[/bold red] {escape(str(error))}", highlight=False)
        sys.exit(3)
    except TacitError as error:
        Console(stderr=True).print(f"[bold red]error:[/bold red] {escape(str(error))}", highlight=False)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "tacit":
            raise
        told = NotInstalled("this command", error.name)
        Console(stderr=True).print(f"[bold red]error:[/bold red] {escape(str(told))}", highlight=False)
        sys.exit(2)
    except OSError as error:
        Console(stderr=True).print(f"[bold red]error:[/bold red] {escape(str(error))}", highlight=False)
        sys.exit(1)
