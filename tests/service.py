"""A real service in a process of its own, for tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def running(bundle: Path, *options: str, log: Path | None = None) -> Iterator[tuple[str, subprocess.Popen]]:
    """`tacit serve run` on a free port: its address and the process, which is ended afterwards."""
    command = [
        sys.executable,
        "-c",
        "from tacit.cli import main; main()",
        "serve",
        "run",
        str(bundle),
        "--port",
        "0",
        *options,
    ]
    with contextlib.ExitStack() as stack:
        errors = subprocess.DEVNULL if log is None else stack.enter_context(open(log, "ab"))
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        try:
            line = process.stdout.readline()
            assert line.startswith("Serving"), f"{line!r} {log.read_text() if log else ''}"
            yield line.split()[-1].rstrip("/"), process
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
