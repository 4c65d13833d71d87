"""`tacit serve`, `tacit client` and `tacit keys`: the client/cloud split."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tacit.cli.ledger_command import Book, LedgerKey, LedgerOption, ToOption, open_book
from tacit.errors import InputError
from tacit.report.screen import Console
from tacit.serve.keys import is_loopback

keys_app = typer.Typer(help="API keys of a service.", no_args_is_help=True)

Bundle = Annotated[Path, typer.Argument(help="The bundle, NAME.tacit.")]
Trusted = Annotated[Path | None, typer.Option("--trusted-key", help="Refuse what this public key has not signed.")]
Keys = Annotated[Path, typer.Argument(help="The keys file of a service.")]

RecordsPerPerson = Annotated[
    int, typer.Option(min=1, help="With --ledger: how many records of one person come at most, as you know it.")
]
RefuseExpired = Annotated[
    bool, typer.Option("--refuse-expired", help="Answer no more when the bundle's last day of use is over.")
]


def serve(
    bundle: Bundle,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    keys: Annotated[Path | None, typer.Option(help="Who may ask: a file made by `tacit keys add`.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Let everyone ask; on loopback only.")] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM), to serve https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its secret key (PEM).")] = None,
    behind_proxy: Annotated[
        str | None, typer.Option(help="Address or network of a proxy that does TLS; nobody else may connect.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="A name of this service, as in its URL (repeat).")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Show schema, filter and audit to who has no key; the page then works.")
    ] = False,
    max_bytes: Annotated[int, typer.Option(help="Most bytes of a request.", min=1024)] = 2**20,
    max_rows: Annotated[int, typer.Option(help="Most releases in a request.", min=1)] = 1024,
    in_flight: Annotated[int, typer.Option(help="Requests at a time; more are asked to come back.", min=1)] = 256,
    per_key: Annotated[int, typer.Option(help="Of them, of one key; more are asked to come back.", min=1)] = 32,
    per_address: Annotated[int, typer.Option(help="Connections from one address.", min=1)] = 512,
    trusted_key: Trusted = None,
    ledger: LedgerOption = None,
    to: ToOption = None,
    ledger_key: LedgerKey = None,
    records_per_person: RecordsPerPerson = 1,
    refuse_expired: RefuseExpired = False,
) -> None:
    """Answer from releases: the cloud half of a filter, and a page that runs the other half in the browser."""
    needs_extra()
    from tacit.serve.app import Limits, make_app  # every command starts quickly
    from tacit.serve.doors import Patience
    from tacit.serve.guard import Counts
    from tacit.serve.keys import KeyFile

    proxy = _check_open(host, keys, no_auth, tls_cert, tls_key, behind_proxy, name)
    hosts = _names(host, tls_cert, name)
    found = _checked(bundle, trusted_key, refuse_expired)
    _write_down(open_book({"ledger": ledger, "to": to, "ledger_key": ledger_key}), found, records_per_person)
    limits = Limits(max_bytes, max_rows, in_flight, refuse_expired=refuse_expired, per_key=per_key)
    known, counts, tls = None if keys is None else KeyFile(keys), Counts(), tls_cert is not None or proxy is not None
    app = make_app(found, known, limits, public=public, hosts=hosts, tls=tls, counts=counts)
    patience = Patience(per_address=per_address, proxy=proxy)
    with _listening(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        url = f"{'https' if tls_cert else 'http'}://{shown}:{listening.getsockname()[1]}/"
        # plain print: whoever started this as a process reads the line
        print(f"Serving {bundle.name} at {url}", flush=True)
        _run(app, counts, patience, listening, tls_cert, tls_key)


def _run(app: Any, counts: Any, patience: Any, listening: Any, cert: Path | None, key: Path | None) -> None:
    """Serve until told to stop."""
    import uvicorn  # an extra

    from tacit.serve.doors import Doors, allow_many_files  # an extra

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    allow_many_files(patience.connections)
    sys.setswitchinterval(0.0005)  # so that connections are not kept waiting by what is computed
    config = uvicorn.Config(
        app,
        http="h11",  # which bounds the headers of a request
        ws="none",  # nothing here speaks WebSocket
        lifespan="off",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        # uvicorn's own line for each request would hold its query
        access_log=False,
        log_config=None,
        log_level="error",  # what is not HTTP is the sender's business, and may come a thousand times a second
        proxy_headers=patience.proxy is not None,  # then, and only then, whose address it is stands in a header
        forwarded_allow_ips=str(patience.proxy),
        server_header=False,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
    doors = Doors(config, patience, counts.doors)
    counts.gauges["connections"] = lambda: len(doors.server_state.connections)
    doors.run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


def client(
    bundle: Bundle,
    source: Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow or npz file of raw records.")],
    url: Annotated[str, typer.Argument(help="The service, such as https://HOST:8000.")],
    key_file: Annotated[Path | None, typer.Option(help="File that holds the API key.")] = None,
    out: Annotated[
        Path, typer.Option(help="File for the answers; its suffix says the format: .csv, .parquet or .arrow.")
    ] = Path("answers.csv"),
    noise_key: Annotated[Path | None, typer.Option(help="The owner's noise key, for noisy releases.")] = None,
    unit: Annotated[str | None, typer.Option(help="Column that says whose each record is, for noisy releases.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Certificate (PEM) to trust, of a service with its own.")] = None,
    allow_http: Annotated[bool, typer.Option(help="Send the key over a network unencrypted.")] = False,
    trusted_key: Trusted = None,
) -> None:
    """Run a file through the filter here, send the releases alone, write the service's answers."""
    needs_extra()
    from rich.progress import Progress

    from tacit.release.runtime import load  # every command starts quickly
    from tacit.serve.client import Client, answer_file

    release = load(bundle, trusted_key, noise_key=noise_key)
    console = Console(stderr=True)
    with Client(url, release, key_file=key_file, ca=ca, allow_http=allow_http) as service:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(f"releasing {escape(source.name)}", total=None)
            done = answer_file(
                service, source, out, lambda what, n, total: bar.update(task, completed=n, total=total), unit
            )
        Console().print(
            f"{done:,} answers: {out}. Sent: {service.bytes_sent:,} bytes of releases, no raw record",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


Whose = Annotated[str, typer.Argument(help="Whose key it is.")]
Until = Annotated[str | None, typer.Option(help="How long it is good: 90d, 12h, or a last day; for ever without it.")]


@keys_app.command("add")
def keys_add(
    file: Keys,
    name: Whose,
    expires: Until = None,
    scope: Annotated[
        list[str], typer.Option(help="What it is for: analyze, describe (schema, filter, audit) or metrics (repeat).")
    ] = ["analyze", "describe"],  # noqa: B006
) -> None:
    """Make a key. It is shown once; the file keeps its hash."""
    from tacit.serve.keys import add_key  # every command starts quickly

    _show_once(add_key(file, name, expires, scope), file, name)


@keys_app.command("rotate")
def keys_rotate(
    file: Keys,
    name: Whose,
    overlap: Annotated[str, typer.Option(help="How long the old key stays good: 7d, 12h, 0m.")] = "7d",
    expires: Until = None,
) -> None:
    """Make a new key for somebody; the old one ends after the overlap."""
    from tacit.serve.keys import rotate_key  # every command starts quickly

    _show_once(rotate_key(file, name, overlap, expires), file, name)


@keys_app.command("list")
def keys_list(file: Keys) -> None:
    """Whose keys there are, what they are for, and until when."""
    from tacit.serve.keys import is_valid, read_keys  # every command starts quickly

    for entry in read_keys(file):
        until = "for ever" if entry["expires"] is None else f"until {entry['expires']}"
        until += "" if is_valid(entry) else " (over)"
        print(f"{entry['created']}  {until}  {','.join(entry['scope'])}  {entry['name']}")


@keys_app.command("revoke")
def keys_revoke(file: Keys, name: Whose) -> None:
    """End all keys of somebody, for ever; a running service refuses them at once."""
    from tacit.serve.keys import revoke_key  # every command starts quickly

    revoke_key(file, name)
    Console().print(f"{name} has no key any more.", highlight=False, markup=False)


def _show_once(key: str, file: Path, name: str) -> None:
    print(key)
    Console(stderr=True).print(
        f"This key of {name} is shown once; {file} keeps its hash.", highlight=False, markup=False, soft_wrap=True
    )


def _write_down(book: Book | None, bundle: Any, records_per_person: int) -> None:
    """Write the service down in the ledger; it does not start where the policy forbids it."""
    if book is not None:
        from tacit.ledger.recording import record_service  # only where it is asked for
        from tacit.release.runtime import Release

        book.tell(record_service(book.ledger, Release(bundle), bundle.name, book.to, records_per_person))


def _checked(bundle: Path, trusted_key: Path | None, refuse_expired: bool) -> Any:
    """The bundle, if it may be served."""
    from tacit.release.bundle import read_bundle  # every command starts quickly
    from tacit.release.expiry import check_expiry

    found = read_bundle(bundle)
    if trusted_key is not None:
        from tacit.release.signing import require_signature  # every command starts quickly

        require_signature(found, trusted_key)
    check_expiry(found.manifest, found.name, refuse_expired)
    return found


def _check_open(
    host: str,
    keys: Path | None,
    no_auth: bool,
    cert: Path | None,
    key: Path | None,
    behind: str | None,
    names: list[str] | None,
) -> Any:
    """Refuse to open a service that anyone could ask, or listen to; the network of its proxy, where it has one."""
    if keys is None and not no_auth:
        raise InputError(
            "a service needs keys: tacit keys add keys.json NAME, then --keys keys.json; or, for yourself on this "
            "machine, --no-auth"
        )
    if keys is not None and no_auth:
        raise InputError("--keys and --no-auth contradict each other; leave one out")
    if no_auth and (not is_loopback(host) or behind):
        raise InputError(f"--no-auth is for loopback (127.0.0.1) only, and others can reach {host}; pass --keys FILE")
    if (cert is None) != (key is None):
        raise InputError("TLS needs both --tls-cert and --tls-key")
    for file in (cert, key):
        if file is not None and not file.is_file():
            raise InputError(f"there is no file {file}")
    if cert is None and behind is None and not is_loopback(host):
        raise InputError(
            f"others can reach {host}, and without TLS keys and releases cross the network readable; pass --tls-cert "
            f"and --tls-key, or --behind-proxy ADDRESS where a proxy does TLS"
        )
    if behind is None:
        return None
    if not names:
        raise InputError("--behind-proxy needs --name, the name by which the service is called from outside")
    try:
        return ipaddress.ip_network(behind, strict=False)
    except ValueError:
        raise InputError(f"--behind-proxy takes an address or a network, such as 10.0.0.7; found {behind!r}") from None


def _names(host: str, cert: Path | None, names: list[str] | None) -> set[str]:
    """What the service is called: the address it listens on, what its certificate is for, and what was said."""
    found = {host.lower(), *(n.lower() for n in names or [])}
    if is_loopback(host):
        found |= {"127.0.0.1", "::1", "localhost"}
    if cert is not None:
        from cryptography import x509  # every command starts quickly

        try:
            told = x509.load_pem_x509_certificates(cert.read_bytes())[0].extensions
            other = told.get_extension_for_class(x509.SubjectAlternativeName).value
            found |= {n.lower() for n in other.get_values_for_type(x509.DNSName)}
            found |= {str(a) for a in other.get_values_for_type(x509.IPAddress)}
        except (ValueError, x509.ExtensionNotFound):
            pass  # one without names: --name says them
    if found <= {"0.0.0.0", "::"}:
        raise InputError(f"{host} is no name, and the certificate has none; pass --name, the name in the service's URL")
    return found


def needs_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import httpx  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"{error.name} is not installed; in a checkout: pip install -c constraints.txt '.[serve]'"
        ) from None
