"""What Tacit is made of: every package with its hash (make lock), and a list of them for others (make sbom).

    pip install --dry-run --ignore-installed --report - ... | python tools/supply.py lock > requirements.lock
    python tools/supply.py sbom > sbom.json

The lock holds names, versions and SHA-256 of the files that pip chose on this system (Linux, x86-64, this Python), and
no address of a registry. The list is CycloneDX 1.5: what is installed here, with the hashes of the lock.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

from tacit.serve.browser import PACKAGE, SHA512, VERSION

LOCK = Path(__file__).parent.parent / "requirements.lock"
HEAD = """\
# Every package that Tacit runs, is tested and documented with, and the hash of the file that was installed.
# For {system}.
# Written by `make lock` from constraints.txt. Releases are built and tested with:
#   pip install --require-hashes -r requirements.lock && pip install --no-deps .
# torch is the CPU build, as constraints.txt says.
"""


def lock(report: dict[str, Any]) -> str:
    """pip's report as a file for --require-hashes."""
    system = f"CPython {platform.python_version_tuple()[0]}.{platform.python_version_tuple()[1]}, {platform.system()}"
    lines = []
    for item in report["install"]:
        found, hashes = item["metadata"], item["download_info"].get("archive_info", {}).get("hashes", {})
        if normal(found["name"]) != "tacit":
            lines.append(f"{normal(found['name'])}=={found['version']} --hash=sha256:{hashes['sha256']}")
    return HEAD.format(system=f"{system} {platform.machine()}") + "".join(f"{line}\n" for line in sorted(lines))


def read_lock(text: str) -> dict[str, tuple[str, str]]:
    """By package, its version and its SHA-256."""
    found = re.findall(r"^([a-z0-9-]+)==(\S+) --hash=sha256:([0-9a-f]{64})$", text, re.M)
    return {name: (version, sha256) for name, version, sha256 in found}


def sbom() -> dict[str, Any]:
    """What is installed here, and what the browser's page loads."""
    locked = read_lock(LOCK.read_text())
    components = []
    for item in sorted(importlib.metadata.distributions(), key=lambda d: normal(d.metadata["Name"])):
        name, version = normal(item.metadata["Name"]), item.version
        known = locked.get(name, ("", ""))
        components.append(
            {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}",
             **({"hashes": [{"alg": "SHA-256", "content": known[1]}]} if known[0] == version else {})}
        )  # fmt: skip
    web = {"type": "library", "name": PACKAGE, "version": VERSION, "purl": f"pkg:npm/{PACKAGE}@{VERSION}",
           "hashes": [{"alg": "SHA-512", "content": base64.b64decode(SHA512).hex()}]}  # fmt: skip
    own = next(c for c in components if c["name"] == "tacit")
    others = [c for c in components if c["name"] != "tacit"]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": {**own, "type": "application"}}, "components": [*others, web]}  # fmt: skip


def normal(name: str) -> str:
    """A package's name as registries compare it.

    Examples
    --------
    >>> normal("Flask_Login.X")
    'flask-login-x'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if sys.argv[1:] == ["lock"]:
        sys.stdout.write(lock(json.load(sys.stdin)))
    else:
        sys.stdout.write(json.dumps(sbom(), indent=1) + "\n")
