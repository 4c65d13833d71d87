"""`tacit release`: run bundles on files and streams, sign them, and make the keys for it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tacit.cli import PLAIN
from tacit.cli.console import (
    Bundle,
    Console,
    LedgerKey,
    LedgerOption,
    NoiseKey,
    RefuseExpired,
    SignedName,
    ToOption,
    Trust,
    Trusted,
    Unit,
    note,
    open_book,
    say,
    working,
)
from tacit.errors import InputError
from tacit.release.bundle import read_bundle
from tacit.release.bundle import sign as sign_bundle
from tacit.release.keys import key_folder, own_key
from tacit.release.runtime import Release, load

app = typer.Typer(help="Run bundles on files and streams; inspect, profile and sign them.", **PLAIN)
CAUTION = "Only the last row was audited: a cut before the end sends values that no attacker has been run on."


@app.command()
def apply(
    bundle: Bundle,
    source: Annotated[
        Path, typer.Argument(help="CSV, Parquet, Arrow, npz, Excel or database file of records; or a folder of images.")
    ],
    target: Annotated[
        Path, typer.Argument(help="File to write; its suffix says the format. Or a new folder for images.")
    ],
    noise_key: NoiseKey = None,
    unit: Unit = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(help="Name of the sensitive column in this file, if it differs; the column is dropped."),
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
    """Release a file or a folder of images.

    Memory is constant. A run that is killed leaves the old output, or none.

    Example: tacit release apply handover/filter.tacit next-month.csv released.csv
    """
    from tacit.release.bulk import apply as release_file  # loads pyarrow
    from tacit.release.bulk import sensitive_names, what_is_new

    book, console = open_book(ledger, to, ledger_key), Console(stderr=True)
    if noise_key is None and bundle.is_file():
        noise_key = own_key(bundle, key_folder(bundle.parent), "noise")  # where tacit fit put it
        if noise_key is not None:
            console.print(f"Noise key: {escape(str(noise_key))}", highlight=False)
    opening: dict[str, Any] = {"trusted_key": trusted_key, "name": signed_name, "trust": trust}
    opening |= {"noise_key": noise_key, "refuse_expired": refuse_expired}
    with working(console) as doing, as_file(source, sql) as file:
        warnings.filterwarnings("ignore", "records hold numbers far outside the fit")  # counted below
        if book is not None:
            from tacit.ledger.recording import record_file  # loads what audits

            book.tell(record_file(book.ledger, book.to, bundle, file, target, unit, sensitive or (), **opening))
        done = release_file(
            bundle, file, target, unit=unit, sensitive=sensitive or (), on_error=on_error, rows=rows, n_jobs=jobs,
            quote_formulas=quote_formulas, **opening,
            callback=lambda what, now, total: doing(f"releasing {escape(source.name)}", now, total),
        )  # fmt: skip
        if file.suffix != ".npz" and (not file.is_dir() or any(file.rglob("*.parquet"))):
            release = Release(read_bundle(bundle, trust=True))  # which was loaded above, with its checks
            for line in what_is_new(bundle, file, sensitive_names(release, sensitive or [])):
                note(console, f"new in {source.name}: {line}")
    say(f"Released {done.released:,} of {done.rows:,} rows to {target}")
    if done.quarantine is not None:
        say(f"{done.quarantined:,} rows do not fit the schema and were set aside: {done.quarantine}")


@contextmanager
def as_file(source: Path, sql: str | None) -> Iterator[Path]:
    """Open a file that is released in a stream; an Excel file or a query is written to one, for this long."""
    from tacit.records.table_files import DATABASE, EXCEL, open_table  # loads pandas

    known = sql is not None or source.suffix.lower() in (*EXCEL, *DATABASE)
    if not known or not source.is_file():
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / f"{source.name}.csv"
        open_table(source, sql).table.to_csv(place, index=False)
        yield place


@app.command()
def stream(
    bundle: Bundle,
    noise_key: NoiseKey = None,
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
    """Release lines of stdin as lines of JSON on stdout.

    One for one; or, with --windows, sensor samples in and one release for each full window out. A line that does not
    fit gives a line {"error", "line"}, without its content, and the stream continues.

    Example: tacit release stream filter.tacit --format csv < people.csv
    """
    from tacit.release.sensors import Sensors  # devices stream without it
    from tacit.release.stream import release_lines, text_lines

    release = load(
        bundle, trusted_key, name=signed_name, trust=trust, noise_key=noise_key, refuse_expired=refuse_expired
    )
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


@app.command()
def show(bundle: Bundle, trusted_key: Trusted = None, signed_name: SignedName = None, trust: Trust = False) -> None:
    """Show what a bundle takes and gives, and its model card.

    Example: tacit release show handover/filter.tacit
    """
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
                 f"for each record; tacit release profile measures time")  # fmt: skip
    lines.append("never expires" if m["expires"] is None else f"last day of use: {m['expires']}")
    lines.append("signed" if release._bundle.signature is not None else "not signed")
    say("\n".join(lines) + "\n\n" + release.card)


@app.command()
def sign(
    bundle: Bundle,
    signing_key: Annotated[Path, typer.Option(help="The secret key, made by `tacit release key signing`.")],
    name: Annotated[str | None, typer.Option(help="Name to sign it under; the file's by default.")] = None,
    version: Annotated[int, typer.Option(min=1, help="A reader who has seen it refuses older ones of this name.")] = 1,
    trust: Trust = False,
) -> None:
    """Sign a bundle, in place.

    Example: tacit release sign handover/filter.tacit --signing-key signing.key
    """
    say(f"Signed {sign_bundle(bundle, signing_key, name, version, trust=trust)}, version {version}")


@app.command()
def verify(
    bundle: Bundle,
    trusted_key: Annotated[Path, typer.Option("--trusted-key", help="The public key that must have signed it.")],
    signed_name: SignedName = None,
    min_version: Annotated[int | None, typer.Option(min=1, help="Refuse older versions.")] = None,
) -> None:
    """Check a bundle and its signature; exit 2 if anything is wrong.

    The highest version of each name is remembered beside the key, in FILE.seen; older ones are refused from then on.

    Example: tacit release verify filter.tacit --trusted-key signing.key.pub
    """
    told = read_bundle(bundle, trusted_key, name=signed_name, min_version=min_version).signature or {}
    say(f"{bundle.name} is whole and signed by {trusted_key} as version {told['version']} of {told['name']}")


@app.command()
def key(
    kind: Annotated[str, typer.Argument(help="noise or signing.")],
    path: Annotated[Path, typer.Argument(help="File for the secret key; a public signing key is FILE.pub.")],
) -> None:
    """Make a noise key, or a pair of keys for signing.

    The noise of releases is drawn under the owner's noise key. A signing key has a public half, FILE.pub.

    Example: tacit release key signing signing.key
    """
    from tacit.noise.keyed import new_key  # devices have no signing
    from tacit.release.signing import new_signing_key, write_secret

    if kind == "noise":
        write_secret(path, new_key().hex().encode())
        say(f"Noise key: {path} (secret: the noise can be removed with it; without it, records get other noise)")
    elif kind == "signing":
        secret, public = new_signing_key(path)
        say(f"Secret key: {secret} (keep it)\nPublic key: {public} (give it to those who load your bundles)")
    else:
        raise InputError(
            f"KIND is noise or signing; found {kind!r}. API keys are made by tacit serve keys add, the key of a ledger "
            f"by tacit ledger new, the owner's key by tacit fit"
        )


@app.command()
def profile(
    model: Annotated[Path, typer.Argument(help="A bundle, NAME.tacit, or an ONNX file.")],
    figure: Annotated[Path | None, typer.Option(help="Also draw it: a file that ends in .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Passes; the median time is shown.")] = 20,
    trust: Trust = False,
) -> None:
    """Measure each cut of a filter: time, memory, work, bytes sent.

    Example: tacit release profile handover/filter.tacit
    """
    from tacit.release.profiling import ALL, RAW, in_words, profile  # loads onnx

    if model.suffix not in (".tacit", ".onnx"):
        raise InputError(
            f"{model.name}: a bundle (.tacit) or an ONNX file (.onnx) can be profiled; for a torch network call "
            f"tacit.profile(network, example)"
        )
    if figure is not None and figure.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"--figure {figure.name}: a figure ends in .svg, .png or .pdf")
    costs = profile(model, repeats=repeats, trust=trust)
    if figure is not None:
        from tacit.report.profile_figure import profile_figure  # loads matplotlib

        profile_figure(costs, f"Cuts of {model.name}").savefig(figure)
    if as_json:
        print(json.dumps({"model": model.name, "cuts": costs.to_dict("records"), "words": in_words(costs)}, indent=1))
        return
    shown, console = Table(box=None, pad_edge=False), Console()
    shown.add_column("cut after", overflow="fold", min_width=12)
    for head in ("ms", "memory", "multiply-adds", "parameters", "bytes sent"):
        shown.add_column(head, justify="right", overflow="fold")
    for row in costs.to_dict("records"):
        style = "dim" if row["cut"] == RAW else "bold" if row["cut"] == ALL else ""
        counts = [short(row[k]) for k in ("memory", "multiply_adds", "parameters")]
        shown.add_row(str(row["cut"]), f"{row['milliseconds']:.3f}", *counts, f"{row['bytes']:,}", style=style)
    console.print(shown)
    console.print(f"\n{in_words(costs)}\n{CAUTION}", highlight=False, markup=False)
    if figure is not None:
        console.print(f"Figure: {figure}", highlight=False, markup=False)


def short(number: float) -> str:
    """Write a number with three digits and a unit of thousands.

    Examples
    --------
    >>> short(980), short(14_592_000), short(51_200)
    ('980', '14.6M', '51.2k')
    """
    power = 0
    while abs(number) >= 999.5 and power < 4:
        number, power = number / 1000, power + 1
    return f"{number:.3g}{['', 'k', 'M', 'G', 'T'][power]}"
