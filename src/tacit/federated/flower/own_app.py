"""Flower's node process with a guard: it runs Tacit's app and no other, whatever the server sends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from tacit.errors import TacitError
from tacit.federated.flower.bundle import bundle_hash


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


def main() -> None:
    from flwr.supernode import start_client_internal as internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    pull, expected = internal._pull_and_store_message, bundle_hash()

    def guarded(*args: Any, **kwargs: Any) -> int | None:
        return pull(*args, **{**kwargs, "get_fab": only(expected, kwargs["get_fab"])})

    internal._pull_and_store_message = guarded
    flower_supernode()


if __name__ == "__main__":
    main()
