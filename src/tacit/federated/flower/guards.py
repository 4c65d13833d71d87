"""Flower's two processes, each with a guard. It uses names private to Flower: where one is gone, nothing starts.

The server's: from outside, only nodes with registered keys get in. Flower 1.41 serves its three interfaces on one port.
The nodes' one checks keys; the others (which start runs and register keys) ask for nothing, so they answer this
machine alone. Nodes that come before the allowed keys are registered wait.

A node's: it runs Tacit's app and no other, whatever the server sends. And it has patience: a node that was killed and
is started again at once is let in when the server has forgotten it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.errors import TacitError

FOR_NODES = "/v1/fleet/"
READY = "TACIT_FEDERATION_READY"  # names a file that is there once all allowed keys are registered
READY_PATIENCE = 60.0
PATIENCE = 75.0  # seconds; Flower forgets a node a minute after its last heartbeat
PAUSE = 5.0
REFUSED = 412  # "failed to activate": this key is in use, or unknown


class OnlyNodesFromOutside:
    """Refuse, from other machines, whatever is not the nodes' interface."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or allowed(scope.get("path", ""), scope.get("client")):
            if scope.get("path", "").startswith(FOR_NODES):
                await until_ready()
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"this interface answers the server's own machine alone"})


async def until_ready() -> None:
    """Hold a node's first call until the keys are known: it would be refused for good."""
    until = time.monotonic() + READY_PATIENCE
    while READY in os.environ and not Path(os.environ[READY]).exists() and time.monotonic() < until:
        await asyncio.sleep(0.2)


def allowed(path: str, client: Any) -> bool:
    """Whether a request for this path may come from this (host, port)."""
    if path.startswith(FOR_NODES) and ".." not in path:
        return True
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


class ForeignApp(TacitError, RuntimeError):
    """The server asked this node to run code that is not the installed Tacit's."""


def only(expected: str, get_fab: Callable[[str, int], Any]) -> Callable[[str, int], Any]:
    """Fetch an app, and refuse any but the expected one, by the hash of its content."""

    def fetch(fab_hash: str, run_id: int) -> Any:
        fab = get_fab(fab_hash, run_id)
        found = hashlib.sha256(fab.content).hexdigest()
        if found != expected:
            raise ForeignApp(
                f"the server sent an app with hash {found[:12]}; this node runs {expected[:12]} alone. Install the "
                f"same versions of tacit and flwr as the server's, or ask who submitted something else"
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
    extensions.get_middleware = lambda: (Middleware(OnlyNodesFromOutside), *before())
    flower_superlink()


def guard_node() -> None:
    """Run Flower's node."""
    from flwr.supernode import start_client_internal as internal
    from flwr.supernode.cli.flower_supernode import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    from tacit.federated.flower.carried import app_bundle  # a server needs none of it

    pull, expected = internal._pull_and_store_message, hashlib.sha256(app_bundle()).hexdigest()

    def guarded(*args: Any, **kwargs: Any) -> int | None:
        return pull(*args, **{**kwargs, "get_fab": only(expected, kwargs["get_fab"])})

    internal._pull_and_store_message = guarded
    FleetHttpClient.ActivateNode = patiently(FleetHttpClient.ActivateNode)  # type: ignore[method-assign]
    flower_supernode()


if __name__ == "__main__":
    {"server": guard_server, "node": guard_node}[sys.argv.pop(1)]()
