"""A real headless Chromium for tests of pages."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


class Page:
    """A page that is driven over the DevTools protocol; it records every request that it makes."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.count = socket, itertools.count(1)
        self.requests: list[dict[str, Any]] = []
        self.console: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.count)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=600))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.evaluate(until("document.readyState === 'complete'"))

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def screenshot(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _note(self, message: dict[str, Any]) -> None:
        what, parameters = message.get("method"), message.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(parameters["request"])
        elif what in ("Network.webSocketCreated", "Network.webTransportCreated"):
            self.requests.append({"url": parameters["url"], "method": what})
        elif what == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"]))
        elif what == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.console.append(parameters["entry"]["text"])


def until(condition: str) -> str:
    """A promise, in the page, that a condition comes true."""
    return f"new Promise(done => {{ const look = () => ({condition}) ? done(true) : setTimeout(look, 15); look(); }})"


@contextlib.contextmanager
def driven(profile: Path) -> Iterator[Page]:
    """A blank page in a Chromium of its own, which is ended afterwards."""
    import httpx
    from websockets.sync.client import connect

    command = [find(), *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            port = next(line.split(":")[2].split("/")[0] for line in process.stderr if "DevTools listening" in line)
            targets = httpx.get(f"http://127.0.0.1:{port}/json", timeout=600, trust_env=False).json()
            address = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            with connect(address, max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            process.kill()
