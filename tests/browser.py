"""A real headless Chromium for tests of pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--hide-scrollbars",
]


def find() -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium here; install the Debian package chromium to test pages in a browser")
    return path


def dump(page: Path, profile: Path, *flags: str) -> tuple[str, list[str]]:
    """The page's DOM after its scripts ran, and what it wrote to the console."""
    ran = subprocess.run(
        [find(), *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", page.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
