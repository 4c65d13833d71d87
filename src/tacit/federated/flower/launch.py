"""Start a server, start a node, submit a federation: what the command line calls."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tacit.errors import InputError, TacitError
from tacit.federated.flower.config import NodeConfig, ServerConfig
from tacit.federated.flower.guards import HEADER, MODULE, READY, make_private

STARTUP = 60.0


class FederationError(TacitError, RuntimeError):
    """A server or node process did not do what it was asked to."""


def run_server(config: ServerConfig, say: Any = print) -> int:
    """Run the server until it is stopped; registers the allowed keys first."""
    host, port = split_address(config.address)
    private, database = make_private(config.state), config.state / "flower.db"
    database.touch(mode=0o600)
    database.chmod(0o600)
    command = [
        sys.executable, "-P", "-m", MODULE, "server",
        "--host", host, "--port", str(port),
        "--ssl-certfile", str(config.keys / "server.pem"),
        "--ssl-keyfile", str(config.keys / "server.key"),
        "--ssl-ca-certfile", str(config.keys / "authority.pem"),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        "--database", str(database),
    ]  # fmt: skip
    ready = config.state / "ready"
    ready.unlink(missing_ok=True)
    with _process(command, config.state, private | {READY: str(ready)}) as link:
        _wait_for_port(link, port)
        register_nodes(config)
        ready.touch()
        say(f"listening on {config.address}; {len(list((config.keys / 'allowed').glob('*.pub')))} nodes are allowed")
        return link.wait()


def run_node(config: NodeConfig, path: Path, say: Any = print) -> int:
    """Run a node until it is stopped."""
    config.parts()  # a table that cannot be read is found out now, not in the first round
    settings = f'config="{path.resolve()}" data="{config.data}" secure="{"yes" if config.secure else "no"}"'
    command = [
        sys.executable, "-P", "-m", MODULE, "node",
        "--superlink", config.server,
        "--root-certificates", str(config.keys / "authority.pem"),
        "--auth-supernode-private-key", str(config.keys / "node.key"),
        "--node-config", settings,
        "--host", "127.0.0.1", "--port", str(free_port()),
    ]  # fmt: skip
    say(f"node {config.name} serves {config.server}; its rows stay here")
    with _process(command, config.state, make_private(config.state)) as node:
        return node.wait()


def register_nodes(config: ServerConfig) -> None:
    """Make the keys that Flower lets in those of the folder `allowed`: no fewer, and no others."""
    from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest

    from tacit.federated.flower.server_app import registered_names  # every message starts a new Python at a node

    names = registered_names(config.keys / "allowed")
    with _control(config) as control:
        known = {
            n.public_key: n.node_id for n in control.ListNodes(ListNodesRequest()).nodes_info if not n.unregistered_at
        }
        for key, node_id in known.items():
            if key not in names:
                control.UnregisterNode(UnregisterNodeRequest(node_id=node_id))
        for key, name in names.items():
            if key in known:
                continue
            try:
                control.RegisterNode(request=RegisterNodeRequest(public_key=key, name=name))
            except Exception as error:
                raise FederationError(
                    f"the key of node {name!r} could not be registered: a key that was taken out of "
                    f"{config.keys}/allowed cannot come back; make a new one ({error})"
                ) from error


def submit(config: ServerConfig, path: Path) -> int:
    """Start a federation on the running server (from its own machine); returns Flower's number of the run."""
    from flwr.common.serde import fab_to_proto, user_config_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.fab import Fab

    from tacit.federated.flower.carried import app_bundle  # every command starts quickly

    content = app_bundle()
    told: dict[str, bool | float | int | str] = {
        "config": str(path.resolve()),
        "secure": "yes" if config.training.get("secure") else "no",
    }
    fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
    with _control(config) as control:
        answer = control.StartRun(StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(told)))
    if not answer.HasField("run_id"):
        raise FederationError("the server did not start the federation; see its log")
    return int(answer.run_id)


@contextlib.contextmanager
def _control(config: ServerConfig) -> Iterator[Any]:
    os.environ.update({k: v for k, v in flower_environment(config.state).items() if k.startswith("FLWR_")})
    from flwr.cli.typing import SuperLinkConnection
    from flwr.cli.utils import init_http_client_from_connection

    token = config.state / "token"
    if not token.exists():
        raise FederationError(f"there is no {token}; start the server first: tacit federated server")
    address = f"127.0.0.1:{split_address(config.address)[1]}"
    client = init_http_client_from_connection(
        SuperLinkConnection("tacit", address, str(config.keys / "authority.pem"), False)
    )
    client._client.headers[HEADER] = token.read_text()
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def _process(command: list[str], home: Path, more: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A child with Flower's environment, ended with us, and its own children with it."""
    process = subprocess.Popen(command, env=flower_environment(home) | dict(more), start_new_session=True)

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield process
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + STARTUP
    while time.monotonic() < until:
        if process.poll() is not None:
            raise FederationError(f"the server ended with code {process.returncode} before it listened")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise FederationError(f"the server does not listen on port {port} after {STARTUP:g} s")


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"an address is host:port, such as 0.0.0.0:9092; found {address!r}")
    return host, int(port)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def flower_environment(home: Path) -> dict[str, str]:
    """The environment Flower's processes run in: nothing is reported, checked for updates, or installed."""
    return {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }
