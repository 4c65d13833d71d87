"""`tacit serve`: run the service that answers from releases, ask it, and manage its API keys."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress

from tacit.cli import PLAIN
from tacit.cli.console import (
    Bundle,
    LedgerKey,
    LedgerOption,
    NoiseKey,
    RefuseExpired,
    SignedName,
    ToOption,
    Trust,
    Trusted,
    Unit,
    open_book,
)
from tacit.errors import InputError
from tacit.files import write_whole
from tacit.ledger.recording import record_service
from tacit.release.bundle import read_bundle
from tacit.release.manifest import check_expiry
from tacit.release.runtime import Release, load
from tacit.report.screen import Console
from tacit.serve.keys import KeyFile, add_key, is_loopback, is_valid, read_keys, revoke_key

app = typer.Typer(help="Answer from releases: the cloud half of a filter.", **PLAIN)
keys_app = typer.Typer(help="Manage the API keys of a service.", **PLAIN)
app.add_typer(keys_app, name="keys")

KeysFile = Annotated[Path, typer.Argument(help="The keys file of a service.")]
KeyName = Annotated[str, typer.Argument(help="The client that the key is for.")]


@app.command()
def run(
    bundle: Bundle,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    api_keys: Annotated[Path | None, typer.Option(help="Keys file, made by `tacit serve keys add`.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Answer without a key; on loopback only.")] = False,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A reverse proxy stands in front; required beyond loopback.")
    ] = False,
    name: Annotated[list[str] | None, typer.Option(help="Host name of this service, as in its URL (repeat).")] = None,
    public: Annotated[bool, typer.Option("--public", help="Show schema, filter and audit without a key.")] = False,
    max_rows: Annotated[int, typer.Option(help="Most releases in a request.", min=1)] = 1024,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
    refuse_expired: RefuseExpired = False,
    ledger: LedgerOption = None,
    to: ToOption = None,
    ledger_key: LedgerKey = None,
    records_per_person: Annotated[
        int, typer.Option(min=1, help="With --ledger: the most records of one person, as you know it.")
    ] = 1,
) -> None:
    """Run the service, and a page that runs the filter in the browser.

    Example: tacit serve run handover/filter.tacit --api-keys keys.json
    """
    needs_extra()
    import uvicorn  # an extra

    from tacit.serve.app import Limits, make_app

    if (api_keys is None) != no_auth:
        raise InputError(
            "a service needs keys: tacit serve keys add keys.json NAME, then --api-keys keys.json; or, for yourself "
            "on this machine, --no-auth"
        )
    if no_auth and (behind_proxy or not is_loopback(host)):
        raise InputError("--no-auth is for loopback (127.0.0.1) only; pass --api-keys FILE")
    if not is_loopback(host) and not behind_proxy:
        raise InputError(
            f"others can reach {host}, and the service itself neither encrypts nor limits its clients; put a reverse "
            f"proxy in front (docs/serve.md has a configuration) and pass --behind-proxy"
        )
    if behind_proxy and not name:
        raise InputError("--behind-proxy needs --name, the host name in the URL of the service")
    found = read_bundle(bundle, trusted_key, name=signed_name, trust=trust)
    check_expiry(found.manifest, found.name, refuse_expired)
    book = open_book(ledger, to, ledger_key)
    if book is not None:
        book.tell(record_service(book.ledger, Release(found), found.name, book.to, records_per_person))
    hosts = [n.lower() for n in name or []] + (["127.0.0.1", "localhost"] if is_loopback(host) else [])
    if ":" in host and not name:
        hosts.append("[")  # what Starlette takes for the name of an IPv6 address
    keys = None if api_keys is None else KeyFile(api_keys)
    app = make_app(found, keys, Limits(max_rows, refuse_expired=refuse_expired), public=public, hosts=hosts)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        limit_concurrency=256,
        h11_max_incomplete_event_size=2**14,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        access_log=False,  # uvicorn's line would hold the query; the service writes its own
        log_config=None,
        log_level="error",  # invalid HTTP is the sender's problem
        proxy_headers=False,  # the service does not use the address of a client
        server_header=False,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        shown = f"[{host}]" if ":" in host else host
        # plain print: a program that started this reads the line
        print(f"Serving {bundle.name} at http://{shown}:{listening.getsockname()[1]}/", flush=True)
        uvicorn.Server(config).run(sockets=[listening])


@app.command()
def client(
    bundle: Bundle,
    source: Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow or npz file of raw records.")],
    url: Annotated[str, typer.Argument(help="The service, such as https://filter.example.org.")],
    api_key: Annotated[Path | None, typer.Option(help="File that holds the API key.")] = None,
    out: Annotated[
        Path, typer.Option(help="File for the answers; its suffix says the format: .csv, .parquet or .arrow.")
    ] = Path("answers.csv"),
    noise_key: NoiseKey = None,
    unit: Unit = None,
    ca: Annotated[Path | None, typer.Option(help="Certificate (PEM) to trust, of a service with its own.")] = None,
    allow_http: Annotated[bool, typer.Option("--allow-http", help="Send the key over a network unencrypted.")] = False,
    trusted_key: Trusted = None,
    signed_name: SignedName = None,
    trust: Trust = False,
) -> None:
    """Run a file through the filter here, send only the releases, write the service's answers.

    Example: tacit serve client filter.tacit people.csv http://127.0.0.1:8000 --api-key analyst.key
    """
    needs_extra()
    from tacit.serve.client import Client, answer_file

    release = load(bundle, trusted_key, name=signed_name, trust=trust, noise_key=noise_key)
    with Client(url, release, key_file=api_key, ca=ca, allow_http=allow_http) as service:
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"releasing {escape(source.name)}", total=None)
            done = answer_file(
                service, source, out, lambda what, n, total: bar.update(task, completed=n, total=total), unit
            )
        print(f"{done:,} answers: {out}. Sent: {service.bytes_sent:,} bytes of releases, no raw record")


@keys_app.command("add")
def keys_add(
    file: KeysFile,
    name: KeyName,
    out: Annotated[
        Path | None, typer.Option(help="File for the key, readable by you alone; printed without it.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Lifetime such as 90d or 12h, or a last day; no end without it.")
    ] = None,
    scope: Annotated[str, typer.Option(help="analyze, or metrics (for /metrics alone).")] = "analyze",
) -> None:
    """Make a key. It is shown or written once; the keys file stores its hash.

    Example: tacit serve keys add keys.json analyst --out analyst.key
    """
    if out is not None and out.exists():
        raise InputError(f"{out} exists; write the key to a new file")
    key = add_key(file, name, expires, scope)
    if out is None:
        print(key)
    else:
        write_whole(out, f"{key}\n", private=True)
        print(f"Key of {name}: {out}")


@keys_app.command("list")
def keys_list(file: KeysFile) -> None:
    """List the keys: name, scope and end.

    Example: tacit serve keys list keys.json
    """
    for entry in read_keys(file):
        end = f"until {entry['expires']}" if entry["expires"] else "no end"
        print(f"{entry['name']}  {entry['scope']}  {end}{'' if is_valid(entry) else ' (expired)'}")


@keys_app.command("revoke")
def keys_revoke(file: KeysFile, name: KeyName) -> None:
    """Remove all keys of a client; a running service rejects them from the next request on.

    Example: tacit serve keys revoke keys.json analyst
    """
    revoke_key(file, name)
    print(f"{name} has no key any more.")


def needs_extra() -> None:
    """Say how to install the service where it is not installed."""
    try:
        import fastapi  # noqa: F401
        import httpx  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{error.name} is not installed; in a checkout: pip install -c constraints.txt '.[serve]'"
        ) from None
