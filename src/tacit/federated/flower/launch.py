"""Start a server, start a node, submit a federation: what the command line calls, by Flower's own commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit.errors import InputError, TacitError
from tacit.federated.flower.config import NodeConfig, ServerConfig

STARTUP = 60.0
CONNECTION = "tacit"  # the server's name in Flower's configuration
PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tacit-federation"
version = "{version}"
description = "Learning across silos; the code is the installed tacit's"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "tacit"

[tool.flwr.app.components]
serverapp = "tacit_federation.server:app"
clientapp = "tacit_federation.client:app"

[tool.flwr.app.config]
config = ""
"""


class FederationError(TacitError, RuntimeError):
    """A server or node process did not do what it was asked to."""


def run_server(config: ServerConfig, say: Any = print) -> int:
    """Run the server until it is stopped; registers the allowed keys first."""
    host, port = split_address(config.address)
    config.state.mkdir(parents=True, exist_ok=True)
    config.state.chmod(0o700)
    command = [
        "flower-superlink", "--host", host, "--port", str(port),
        "--ssl-certfile", str(config.keys / "server.pem"),
        "--ssl-keyfile", str(config.keys / "server.key"),
        "--ssl-ca-certfile", str(config.keys / "authority.pem"),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        "--database", str(config.state / "flower.db"),
    ]  # fmt: skip
    with _process(command, config.state) as link:
        _wait_for_port(link, port)
        allowed = sorted((config.keys / "allowed").glob("*.pub"))
        for path in allowed:
            _register(config, path)
        say(f"listening on {config.address}; {len(allowed)} nodes are allowed")
        return link.wait()


def run_node(config: NodeConfig, path: Path, say: Any = print) -> int:
    """Run a node until it is stopped."""
    config.parts()  # a table that cannot be read is found out now, not in the first round
    config.state.mkdir(parents=True, exist_ok=True)
    config.state.chmod(0o700)
    command = [
        "flower-supernode", "--superlink", config.server,
        "--root-certificates", str(config.keys / "authority.pem"),
        "--auth-supernode-private-key", str(config.keys / "node.key"),
        "--node-config", f"config={json.dumps(str(path.resolve()))}",
        "--host", "127.0.0.1", "--port", str(free_port()),
    ]  # fmt: skip
    say(f"node {config.name} serves {config.server}; its rows stay here")
    with _process(command, config.state) as node:
        return node.wait()


def submit(config: ServerConfig, path: Path) -> int:
    """Start a federation on the running server (from its own machine); returns Flower's number of the run."""
    app = config.state / "app"
    (app / "tacit_federation").mkdir(parents=True, exist_ok=True)
    (app / "pyproject.toml").write_text(PROJECT.format(version=__version__))
    (app / "tacit_federation" / "__init__.py").write_text("")
    for side in ("server", "client"):
        text = f"from tacit.federated.flower import {side}\n\napp = {side}.app\n"
        (app / "tacit_federation" / f"{side}.py").write_text(text)
    run_config = f"config={json.dumps(str(path.resolve()))}"
    answer = _flwr(config, ["run", str(app), CONNECTION, "--run-config", run_config, "--format", "json"])
    if not answer.get("success"):
        raise FederationError(f"the server did not start the federation: {answer}; is it running?")
    return int(answer["run-id"])


def _register(config: ServerConfig, public: Path) -> None:
    """Let Flower accept this node's key; one that it knows already stays as it is."""
    answer = _flwr(config, ["supernode", "register", str(public), CONNECTION, "--format", "json"])
    if not answer.get("success") and "already" not in str(answer):
        raise FederationError(f"the key {public} could not be registered: {answer}")


def _flwr(config: ServerConfig, words: Sequence[str]) -> dict[str, Any]:
    """Flower's command line on the running server; its answer."""
    address = f"127.0.0.1:{split_address(config.address)[1]}"
    authority = json.dumps(str(config.keys / "authority.pem"))
    (config.state / "config.toml").write_text(
        f'[superlink.{CONNECTION}]\naddress = "{address}"\nroot-certificates = {authority}\n'
    )
    ran = subprocess.run(
        ["flwr", *words], env=flower_environment(config.state), capture_output=True, text=True, check=False
    )
    try:
        return dict(json.loads(ran.stdout))
    except ValueError:
        return {"success": False, "code": ran.returncode, "said": (ran.stdout + ran.stderr)[-500:]}


@contextlib.contextmanager
def _process(command: list[str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child with Flower's environment, ended with us, and its own children with it."""
    process = subprocess.Popen(command, env=flower_environment(home), start_new_session=True)

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
        raise InputError(f"an address is host:port, such as 127.0.0.1:9092; found {address!r}")
    return host, int(port)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def flower_environment(home: Path) -> Mapping[str, str]:
    """The environment Flower's processes run in: nothing is reported, checked for updates, or installed.

    Flower's commands are those of this Python, and no child imports from the current folder.
    """
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONSAFEPATH": "1",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }
