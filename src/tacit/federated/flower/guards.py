"""Flower's processes, each with a guard. It uses names private to Flower: where one is gone, nothing starts.

The server's: from outside, only nodes with registered keys get in. Flower 1.41 serves its three interfaces on one port.
The nodes' one checks keys; the others (which start runs, register keys and hand out messages) ask for nothing of their
own. Here they answer this machine alone, and only whoever shows a token that its owner alone can read: otherwise any
user of the machine could run code as the server. A node's process has such an interface too, for its own helpers; it is
guarded alike. Nodes that come before the allowed keys are registered wait.

Whatever was submitted, server and nodes run Tacit's app and no other. And a node has patience: one that was killed and
is started again at once is let in when the server has forgotten it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.release.signing import write_secret

FOR_NODES = "/v1/fleet/"
HEADER = "x-tacit-token"
TOKEN = "TACIT_FEDERATION_TOKEN"  # names the file of the token, which its owner alone can read
MODULE = "tacit.federated.flower.guards"
READY = "TACIT_FEDERATION_READY"  # names a file that is there once all allowed keys are registered
READY_PATIENCE = 60.0
PATIENCE = 75.0  # seconds; Flower forgets a node a minute after its last heartbeat
PAUSE = 5.0
REFUSED = 412  # "failed to activate": this key is in use, or unknown


class OnlyOurs:
    """Refuse who does not show our token, but for paths under `for_all`: the nodes' interface checks keys itself."""

    def __init__(self, app: Any, for_all: str | None = None) -> None:
        self.app, self.for_all, self.token = app, for_all, Path(os.environ[TOKEN]).read_bytes()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        known = self.for_all is not None and path.startswith(self.for_all) and ".." not in path
        shown = dict(scope.get("headers", ())).get(HEADER.encode(), b"")
        if scope["type"] == "lifespan" or known or (from_here(scope) and hmac.compare_digest(shown, self.token)):
            if known:
                await until_ready()
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
        await send(
            {"type": "http.response.body", "body": b"this interface answers the processes of its own user alone"}
        )


def from_here(scope: Any) -> bool:
    """Whether a request comes from this machine."""
    try:
        return scope.get("client") is not None and ipaddress.ip_address(scope["client"][0]).is_loopback
    except ValueError:
        return False


async def until_ready() -> None:
    """Hold a node's first call until the keys are known: it would be refused for good."""
    until = time.monotonic() + READY_PATIENCE
    while READY in os.environ and not Path(os.environ[READY]).exists() and time.monotonic() < until:
        await asyncio.sleep(0.2)


def make_private(home: Path) -> dict[str, str]:
    """Make a folder that its owner alone can read, with a token and our helpers in it: what Flower's processes need.

    Flower starts its helpers by name: those in the folder `bin` are found first, show the token, and run Tacit's app.
    """
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    token = home / "token"
    if not token.exists():
        write_secret(token, secrets.token_hex(32).encode())
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    for name in HELPERS:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m {MODULE} {name} "$@"\n')
        path.chmod(0o700)
    return {TOKEN: str(token), "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}


def show_token() -> None:
    """Let all of Flower's clients in this process show the token."""
    from flwr.supercore.protobuf.client import ProtobufClient

    begin, token = ProtobufClient.__init__, Path(os.environ[TOKEN]).read_text()

    def begin_with_token(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self._client.headers[HEADER] = token

    ProtobufClient.__init__ = begin_with_token  # type: ignore[method-assign]


class ForeignApp(TacitError, RuntimeError):
    """Somebody submitted code that is not the installed Tacit's."""


def only(expected: str, get_fab: Callable[..., Any]) -> Callable[..., Any]:
    """Fetch an app, and refuse any but the expected one, by the hash of its content."""

    def fetch(*args: Any) -> Any:
        fab = get_fab(*args)
        found = hashlib.sha256(fab.content).hexdigest()
        if found != expected:
            raise ForeignApp(
                f"an app with hash {found[:12]} was submitted; {expected[:12]} runs here alone. Install the same "
                f"versions of tacit and flwr on the server and on all nodes, or ask who submitted something else"
            )
        return fab

    return fetch


def patiently(activate: Callable[[Any, Any], Any], patience: float = PATIENCE, pause: float = PAUSE) -> Any:
    """Ask again for a while where the server refuses: it may still wait for the process that had this key before."""

    from httpx import HTTPStatusError  # with Flower

    def ask(client: Any, request: Any) -> Any:
        until = time.monotonic() + patience
        while True:
            try:
                return activate(client, request)
            except HTTPStatusError as error:
                if error.response.status_code != REFUSED or time.monotonic() > until:
                    raise
            time.sleep(pause)

    return ask


def guard_server() -> None:
    """Run Flower's server."""
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    before = extensions.get_middleware
    extensions.get_middleware = lambda: (Middleware(OnlyOurs, for_all=FOR_NODES), *before())
    flower_superlink()


def guard_node() -> None:
    """Run Flower's node."""
    from flwr.supernode import main
    from flwr.supernode import start_client_internal as internal
    from flwr.supernode.cli.flower_supernode import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    pull, create_app, expected = internal._pull_and_store_message, main.create_app, our_hash()

    def guarded(*args: Any, **kwargs: Any) -> int | None:
        return pull(*args, **{**kwargs, "get_fab": only(expected, kwargs["get_fab"])})

    def guarded_app(*args: Any, **kwargs: Any) -> Any:
        app = create_app(*args, **kwargs)
        app.add_middleware(OnlyOurs)
        return app

    internal._pull_and_store_message, main.create_app = guarded, guarded_app
    FleetHttpClient.ActivateNode = patiently(FleetHttpClient.ActivateNode)  # type: ignore[method-assign]
    flower_supernode()


def guard_executor() -> None:
    """Run the helper that starts apps, at the server or at a node."""
    from flwr.supercore.cli import flower_superexec

    show_token()
    flower_superexec()


def guard_server_app() -> None:
    """Run the server's app: ours."""
    from flwr.superlink.cli import flwr_serverapp
    from flwr.superlink.runtime import run_serverapp as runs

    show_token()
    own = sys.modules[runs.__module__]
    own.fab_from_proto = only(our_hash(), own.fab_from_proto)  # type: ignore[attr-defined]
    flwr_serverapp()


def guard_node_app() -> None:
    """Run a node's app; which one was checked when it came."""
    from flwr.supernode.cli import flwr_clientapp

    show_token()
    flwr_clientapp()


def our_hash() -> str:
    """Of the one app that runs here."""
    from tacit.federated.flower.carried import app_bundle  # slow, and the server's own process needs none of it

    return hashlib.sha256(app_bundle()).hexdigest()


HELPERS: Mapping[str, Callable[[], None]] = {
    "flower-superexec": guard_executor,
    "flwr-serverapp": guard_server_app,
    "flwr-clientapp": guard_node_app,
}


if __name__ == "__main__":
    {"server": guard_server, "node": guard_node, **HELPERS}[sys.argv.pop(1)]()
