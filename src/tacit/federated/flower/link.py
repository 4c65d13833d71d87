"""Flower's server process with a guard: from outside, only nodes with registered keys get in.

Flower 1.41 serves its three interfaces on one port. The nodes' one checks keys; the others (which start runs and
register keys) ask for nothing, so they answer this machine alone. Nodes that come before the allowed keys are
registered wait. The names used here are private to Flower: where one is gone, nothing starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from pathlib import Path
from typing import Any

FOR_NODES = "/v1/fleet/"
READY = "TACIT_FEDERATION_READY"  # names a file that is there once all allowed keys are registered
PATIENCE = 60.0


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
    until = time.monotonic() + PATIENCE
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


def main() -> None:
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    before = extensions.get_middleware

    def guarded() -> tuple[Middleware, ...]:
        return (Middleware(OnlyNodesFromOutside), *before())

    extensions.get_middleware = guarded
    flower_superlink()


if __name__ == "__main__":
    main()
