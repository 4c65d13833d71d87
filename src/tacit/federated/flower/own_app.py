"""Flower's node process with a guard: it runs Tacit's app and no other, whatever the server sends.

And with patience: a node that was killed and is started again at once is let in when the server has forgotten it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import httpx

from tacit.errors import TacitError
from tacit.federated.flower.node_app import bundle_hash

PATIENCE = 75.0  # seconds; Flower forgets a node a minute after its last heartbeat
PAUSE = 5.0
REFUSED = 412  # "failed to activate": this key is in use, or unknown


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

    def ask(client: Any, request: Any) -> Any:
        until = time.monotonic() + patience
        while True:
            try:
                return activate(client, request)
            except httpx.HTTPStatusError as error:
                if error.response.status_code != REFUSED or time.monotonic() > until:
                    raise
            time.sleep(pause)

    return ask


def main() -> None:
    from flwr.supernode import start_client_internal as internal
    from flwr.supernode.cli.flower_supernode import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    pull, expected = internal._pull_and_store_message, bundle_hash()

    def guarded(*args: Any, **kwargs: Any) -> int | None:
        return pull(*args, **{**kwargs, "get_fab": only(expected, kwargs["get_fab"])})

    internal._pull_and_store_message = guarded
    FleetHttpClient.ActivateNode = patiently(FleetHttpClient.ActivateNode)  # type: ignore[method-assign]
    flower_supernode()


if __name__ == "__main__":
    main()
