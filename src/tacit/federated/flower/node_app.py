"""The app that Flower carries to the nodes: three tiny files that import Tacit. A node runs this one and no other."""

from __future__ import annotations

import hashlib

from tacit import __version__

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


def app_bundle() -> bytes:
    """The bundle, byte for byte the same wherever these versions are installed."""
    from flwr.cli.build import build_fab_from_files

    files: dict[str, bytes] = {
        "pyproject.toml": PROJECT.format(version=__version__).encode(),
        "tacit_federation/__init__.py": b"",
        "tacit_federation/server.py": b"from tacit.federated.flower.server_app import app as app\n",
        "tacit_federation/client.py": b"from tacit.federated.flower.client_app import app as app\n",
    }
    return build_fab_from_files(files)[0]


def bundle_hash() -> str:
    return hashlib.sha256(app_bundle()).hexdigest()
