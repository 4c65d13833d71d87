"""A stranger's bundle is loaded elsewhere first: in a process of its own, with limits on memory and time.

The checks of a graph keep out what is known to end or fill a process; this keeps out what is not known yet. A bundle
that this process has saved, or that a trusted key has signed, is not tried, and none is tried twice. The process is
`tacit.release.first_use`: a bundle on stdin, a verdict on stdout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tacit.errors import BundleError
from tacit.release.bundle import Bundle, digest, members_zip

SECONDS = 20  # of the clock: another process may need the machine too
PROCESSOR_SECONDS = 5
MEMORY = 300 * 2**20  # bytes, beyond what the process takes without a bundle
PROGRAM = ("-m", "tacit.release.first_use")
_known: set[str] = set()


def trust(bundle: Bundle) -> None:
    """Take a bundle as known: it was made here, or signed by whom we trust."""
    _known.add(_name(bundle))


def try_elsewhere(bundle: Bundle) -> None:
    """Raise unless a process with limits can load the bundle and release records by it, or it is known."""
    if _name(bundle) in _known:
        return
    places = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")}
    command = [sys.executable, *PROGRAM, bundle.name, str(MEMORY), str(PROCESSOR_SECONDS)]
    settings: dict[str, Any] = {"capture_output": True, "timeout": SECONDS, "env": kept | places, "check": False}
    try:
        done = subprocess.run(command, input=members_zip(bundle.members), **settings)
    except subprocess.TimeoutExpired:
        raise BundleError(
            f"{bundle.name} was not loaded in {SECONDS} s by a process of its own; it is refused"
        ) from None
    except OSError as error:
        raise BundleError(f"{bundle.name} is a stranger's, and no process can be started to try it in ({error}); "
                          f"load it with trust='known' if you know whose it is") from None  # fmt: skip
    if done.returncode:
        raise BundleError(_reason(bundle.name, done))
    trust(bundle)


def _reason(name: str, done: Any) -> str:
    try:
        said = json.loads(done.stdout)["refused"]
        if isinstance(said, str):
            return said
    except (ValueError, KeyError, TypeError):
        pass
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"{name} took more than {PROCESSOR_SECONDS} s in a process of its own; it is refused"
    ended = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
    return f"{name} ended the process that loaded it first ({ended}); it is refused"


def _name(bundle: Bundle) -> str:
    """The hash of the manifest, which holds those of all members but the signature."""
    return digest(bundle.members["manifest.json"])
