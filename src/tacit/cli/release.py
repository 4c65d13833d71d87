"""`tacit release`: run bundles on files and streams, sign them, and make the keys for it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from tacit.cli.ledger_command import LedgerKey, LedgerOption, ToOption, open_book
from tacit.cli.options import SignedName, Trust, Trusted
from tacit.report.screen import Console

if TYPE_CHECKING:
    from tacit.release.bulk import Applied

release_app = typer.Typer(help="Bundles: release files and streams, sign and verify.", no_args_is_help=True)

Bundle = Annotated[Path, typer.Argument(help="The bundle, NAME.tacit.")]
NoiseKey = Annotated[
    Path | None,
    typer.Option(
        "--noise-key", "--key", help="The owner's noise key (made by `tacit release key`), for noisy releases."
    ),
]
Unit = Annotated[
    str | None, typer.Option(help="Column that says whose each record is: people's noise is then independent.")
]
RefuseExpired = Annotated[
    bool, typer.Option("--refuse-expired", help="Refuse a bundle whose last day of use is over, instead of a note.")
]


@release_app.command()
def apply(
    bundle: Bundle,
    source: Annotated[
        Path, typer.Argument(help="CSV, Parquet, Arrow, npz, Excel or database file of records; or a folder of images.")
    ],
    target: Annotated[
        Path, typer.Argument(help="File to write; its suffix says the format. Or a new folder for images.")
    ],
    key: NoiseKey = None,
    unit: Unit = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(help="For a table back: what the bundle's sensitive column is called here; it is dropped."),
    ] = None,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
    on_error: Annotated[str, typer.Option(help="raise, or quarantine: set bad rows aside and continue.")] = "raise",
    rows: Annotated[int, typer.Option(min=1, help="Rows at a time, at most.")] = 65536,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; the output does not depend on it.")] = 1,
    ledger: LedgerOption = None,
    to: ToOption = None,
    ledger_key: LedgerKey = None,
    refuse_expired: RefuseExpired = False,
    quote_formulas: Annotated[
        bool, typer.Option("--quote-formulas", help="CSV: a quote before text that a spreadsheet would run.")
    ] = False,
    sql: Annotated[str | None, typer.Option(help="Of an SQLite or DuckDB file: what to select.")] = None,
) -> None:
    """Release a file or a folder of images in constant memory. A run that is killed leaves the old output, or none."""
    from rich.progress import Progress

    from tacit.cli.handover import as_file  # every command starts quickly
    from tacit.release.bulk import apply as run  # every command starts quickly

    book = open_book({"ledger": ledger, "to": to, "ledger_key": ledger_key})
    console = Console(stderr=True)
    opening: dict[str, Any] = {"trusted_key": trusted_key, "name": signed_name, "trust": trust}
    opening |= {"noise_key": key or _own_noise_key(console, bundle), "refuse_expired": refuse_expired}
    with (
        Progress(console=console, transient=True) as bar,
        warnings.catch_warnings(),
        as_file(source, sql) as file,
    ):
        warnings.filterwarnings("ignore", "records hold numbers far outside the fit")  # counted below
        task = bar.add_task(f"releasing {escape(source.name)}", total=None)
        if book is not None:
            from tacit.ledger.recording import record_file  # only where it is asked for

            book.tell(record_file(book.ledger, book.to, bundle, file, target, unit, sensitive or (), **opening))
        done = run(
            bundle, file, target, unit=unit, sensitive=sensitive or (),
            on_error=on_error, rows=rows, n_jobs=jobs,
            quote_formulas=quote_formulas,
            callback=lambda what, now, total: bar.update(task, completed=now, total=total),
            **opening,
        )  # fmt: skip
        _tell_news(console, bundle, file, sensitive or [], source.name)
    _tell_done(done, target)


def _tell_done(done: Applied, target: Path) -> None:
    """How many rows were released, and where those are that do not fit."""
    Console().print(
        f"Released {done.released:,} of {done.rows:,} rows to {target}",
        highlight=False,
        markup=False,
    )
    if done.quarantine is not None:
        Console().print(
            f"{done.quarantined:,} rows do not fit the schema and were set aside: {done.quarantine}",
            highlight=False,
            markup=False,
        )


def _own_noise_key(console: Console, bundle: Path) -> Path | None:
    """The noise key that `tacit fit` put beside the folder of a bundle, where it is there."""
    if not bundle.is_file():
        return None  # what opens it says so
    from tacit.cli.handover import found_key  # every command starts quickly
    from tacit.release.keys import key_folder  # the same

    place = found_key(bundle, key_folder(bundle.parent), "noise")
    if place is not None:
        console.print(f"Noise key: {escape(str(place))}", highlight=False)
    return place


def _tell_news(console: Console, bundle: Path, source: Path, sensitive: list[str], name: str) -> None:
    """Count what the file has that the fit did not know."""
    if source.suffix == ".npz" or (source.is_dir() and not any(source.rglob("*.parquet"))):
        return
    from tacit.release.bulk import sensitive_names, what_is_new  # every command starts quickly
    from tacit.release.bundle import read_bundle  # the same
    from tacit.release.runtime import Release  # the same

    release = Release(read_bundle(bundle, trust=True))  # which was loaded above, as it was asked for
    for line in what_is_new(bundle, source, sensitive_names(release, sensitive)):
        console.print(f"[yellow]note:[/yellow] new in {escape(name)}: {escape(line)}", highlight=False)


@release_app.command()
def stream(
    bundle: Bundle,
    key: NoiseKey = None,
    unit: Unit = None,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
    form: Annotated[str, typer.Option("--format", help="json: a record a line; csv: a header, then rows.")] = "json",
    windows: Annotated[
        bool, typer.Option("--windows", help="Lines are sensor samples; release windows of the bundle's length.")
    ] = False,
    stride: Annotated[int | None, typer.Option(min=1, help="Samples between windows; half a window.")] = None,
    user: Annotated[str, typer.Option(help="Samples: field of the person; '' for one person.")] = "user",
    time: Annotated[str, typer.Option(help="Samples: field of the time; '' for evenly spaced samples.")] = "time",
    channel: Annotated[
        list[str] | None, typer.Option(help="Samples: field of a signal, in the bundle's order; all others.")
    ] = None,
    max_gap: Annotated[
        float | None, typer.Option(min=0, help="Samples: a longer step ends a stretch; 1.5 times the usual step.")
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Samples: people whose samples are kept, at most.")] = 10_000,
    refuse_expired: RefuseExpired = False,
) -> None:
    """Records as lines on stdin, releases as lines of JSON on stdout.

    One for one; or, with --windows, sensor samples in and one release for each full window out. A line that does not
    fit gives a line {"error", "line"}, without its content, and the stream continues.
    """
    from tacit.release.runtime import load  # every command starts quickly
    from tacit.release.sensors import Sensors
    from tacit.release.stream import release_lines, text_lines

    release = load(bundle, trusted_key, name=signed_name, trust=trust, noise_key=key, refuse_expired=refuse_expired)
    lines = text_lines(sys.stdin.buffer)
    sensors: Sensors | None = None
    if windows:
        sensors = Sensors(release, stride=stride, user=user or None, time=time or None, channels=channel or (),
                          max_gap=max_gap, most_users=users)  # fmt: skip
    answers = release_lines(release, lines, form, unit) if sensors is None else sensors.lines(lines, form)
    done = bad = 0
    try:
        for answer in answers:
            print(json.dumps(answer), flush=True)
            done, bad = done + 1, bad + ("error" in answer)
    except BrokenPipeError:  # the reader has left; so do we, and nothing is to be flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("the reader of stdout has closed it", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    what = "records" if sensors is None else "windows"
    more = (
        ""
        if sensors is None
        else "".join(f", {n:,} {k}" for k, n in sensors.counts.items() if k in ("gaps", "forgotten"))
    )
    print(f"{done - bad:,} {what} released, {bad:,} refused{more}", file=sys.stderr)


@release_app.command()
def show(bundle: Bundle, trusted_key: Trusted = None, signed_name: SignedName = None, trust: Trust = False) -> None:
    """Check a bundle and show what it takes, what it gives, and its model card."""
    from tacit.release.runtime import load  # every command starts quickly

    release = load(bundle, trusted_key, name=signed_name, trust=trust)
    m = release.manifest
    lines = [f"{m['filter']}, format {m['format']}", f"gives: {m['output']['meaning']}"]
    if m["input"]["kind"] == "table":
        lines.append("takes: " + ", ".join(f"{c['name']} ({c['kind']})" for c in m["input"]["columns"]))
    else:
        lines.append(f"takes: arrays, a record of shape {tuple(m['input']['shape'])}")
    if m["noise"] is not None:
        lines.append(f"noise: {m['noise']['distribution']}, scale {m['noise']['scale']:g}; needs the owner's key")
    lines.append(f"costs: a graph of {m['members']['model.onnx']['bytes']:,} bytes, and {m['record_bytes']:,} bytes "
                 f"for each record; tacit profile measures time")  # fmt: skip
    lines.append("never expires" if m["expires"] is None else f"last day of use: {m['expires']}")
    lines.append("signed" if release._bundle.signature is not None else "not signed")
    _print("\n".join(lines) + "\n\n" + release.card)


@release_app.command()
def sign(
    bundle: Bundle,
    key: Annotated[Path, typer.Option("--key", help="The secret signing key (made by `tacit release keys`).")],
    name: Annotated[str | None, typer.Option(help="What it is a version of; the file's name without it.")] = None,
    version: Annotated[int, typer.Option(min=1, help="A reader who has seen it refuses older ones of this name.")] = 1,
    trust: Trust = False,
) -> None:
    """Sign a bundle, in place."""
    from tacit.release.bundle import sign as run  # every command starts quickly

    _print(f"Signed {run(bundle, key, name, version, trust=trust)}, version {version}")


@release_app.command()
def verify(
    bundle: Bundle,
    trusted_key: Annotated[Path, typer.Option("--trusted-key", help="The public key that must have signed it.")],
    signed_name: SignedName = None,
    min_version: Annotated[int | None, typer.Option(min=1, help="Refuse older versions.")] = None,
) -> None:
    """Check a bundle and its signature; exit 2 if anything is wrong.

    The highest version of each name is remembered beside the key, in FILE.seen; older ones are refused from then on.
    """
    from tacit.release.bundle import read_bundle  # every command starts quickly

    told = read_bundle(bundle, trusted_key, name=signed_name, min_version=min_version).signature or {}
    _print(f"{bundle.name} is whole and signed by {trusted_key} as version {told['version']} of {told['name']}")


@release_app.command()
def keys(path: Annotated[Path, typer.Argument(help="File for the secret key; the public one is FILE.pub.")]) -> None:
    """Make a key pair for signing bundles."""
    from tacit.release.signing import new_signing_key  # every command starts quickly

    secret, public = new_signing_key(path)
    _print(f"Secret key: {secret} (keep it)\nPublic key: {public} (give it to whoever loads your bundles)")


@release_app.command()
def key(path: Annotated[Path, typer.Argument(help="File for the noise key.")]) -> None:
    """Make a noise key: the owner's secret, under which the noise of releases is drawn."""
    from tacit.noise.keyed import new_key  # every command starts quickly
    from tacit.release.signing import write_secret

    write_secret(path, new_key().hex().encode())
    _print(f"Noise key: {path} (whoever has it can take the noise off; without it, records get other noise)")


def _print(text: Any) -> None:
    Console().print(text, highlight=False, markup=False, soft_wrap=True)
