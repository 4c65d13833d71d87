"""`tacit evidence` and `tacit officer`: what is filed about a release, and who decides about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.serve import needs_extra
from tacit.errors import InputError


def evidence(
    folder: Annotated[Path, typer.Argument(help="What tacit fit --out wrote; with --verify, a folder of evidence.")],
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("evidence"),
    ledger: Annotated[Path | None, typer.Option(help="Take what it tells of this release; it is verified.")] = None,
    policy: Annotated[Path | None, typer.Option(help="The policy, tacit.toml.")] = None,
    key: Annotated[Path | None, typer.Option(help="Sign with this secret key (tacit release keys).")] = None,
    keys: Annotated[Path | None, typer.Option(help="Folder of the release's keys, as of tacit fit --keys.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check a folder of evidence instead of making one.")] = False,
    trusted_key: Annotated[Path | None, typer.Option(help="With --verify: who must have signed it.")] = None,
    release: Annotated[
        Path | None, typer.Option(help="With --verify: the folder of the release, to check its files too.")
    ] = None,
) -> None:
    """Make one folder to file about a release: a summary to print, the report, policy, ledger, versions, all signed.

    It holds no record and no value of any column.
    """
    from tacit.ledger.evidence import RELEASED, verify_evidence, write_evidence  # every command starts quickly

    if not verify:
        if trusted_key is not None or release is not None:
            raise InputError("--trusted-key and --release go with --verify")
        made = write_evidence(folder, out, ledger, policy, key, keys)
        print(f"Evidence: {made}/ (print summary.html: two pages)")
        if key is None:
            print("It is not signed: nobody can verify it. Make a key with: tacit release keys FILE")
        return
    if trusted_key is None:
        raise InputError("--verify needs --trusted-key KEY.pub: whose signature do you trust?")
    digests = verify_evidence(folder, trusted_key, release)["digests"]
    own = sum(not name.startswith(RELEASED) for name in digests)
    rest = "" if release is None else f", and so are the {len(digests) - own} files of {release}"
    print(f"{folder}: signed by {trusted_key.name}; its {own} files are as they were signed{rest}")


def officer(
    ledger: Annotated[Path, typer.Argument(help="The ledger, ledger.jsonl.")],
    key: Annotated[Path | None, typer.Option(help="Your secret key, to decide (tacit release keys).")] = None,
    ledger_key: Annotated[
        Path | None, typer.Option(help="The key that signs lines; TACIT_LEDGER_KEY, or LEDGER.key beside it.")
    ] = None,
    reports: Annotated[
        Path | None, typer.Option(help="Folder of folders that tacit fit --out wrote; the ledger's own without it.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port of this machine; 0 takes a free one.")] = 0,
) -> None:
    """Open a page on this machine that lists releases with their verdicts, and takes accept or reject, signed."""
    needs_extra()
    import socket

    import uvicorn

    from tacit.serve.officer import Desk, make_page  # every command starts quickly

    desk = Desk(ledger, key, ledger_key, reports)
    with socket.create_server(("127.0.0.1", port)) as listening:
        port = listening.getsockname()[1]
        app, token = make_page(desk, port)
        # plain print: whoever started this as a process reads the line
        print(f"Open once, on this machine: http://127.0.0.1:{port}/?token={token}", flush=True)
        config = uvicorn.Config(app, http="h11", ws="none", access_log=False, log_config=None, log_level="warning",
                                proxy_headers=False, server_header=False, limit_concurrency=64)  # fmt: skip
        uvicorn.Server(config).run(sockets=[listening])
