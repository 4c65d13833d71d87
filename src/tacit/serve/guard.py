"""Around the service: who it is called by, headers of safety, counts, and one line of log without any value."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Set
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("tacit.serve")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
YEAR = "max-age=31536000"
REFUSED = (401, 403, 421, 429, 503)  # answered after a pause: whoever does not wait is made to
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds


class Counts:
    """What is counted: requests by route and answer, their time, releases. Nothing of what is in them."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.within: Counter[float] = Counter()
        self.seconds, self.rows = 0.0, 0
        self.doors: Counter[str] = Counter()
        self.gauges: dict[str, Callable[[], float]] = {}

    def add(self, method: str, route: str, status: int, seconds: float, rows: int) -> None:
        self.requests[method, route, status] += 1
        self.seconds, self.rows = self.seconds + seconds, self.rows + rows
        self.within[next((b for b in BOUNDS if seconds <= b), float("inf"))] += 1

    def text(self) -> str:
        """As Prometheus reads it."""
        lines = ["# TYPE tacit_requests_total counter"]
        lines += [f'tacit_requests_total{{method="{m}",route="{r}",status="{s}"}} {n}'
                  for (m, r, s), n in sorted(self.requests.items())]  # fmt: skip
        lines += ["# TYPE tacit_request_seconds histogram"]
        done = 0
        for bound in (*BOUNDS, float("inf")):
            done += self.within[bound]
            lines.append(f'tacit_request_seconds_bucket{{le="{"+Inf" if bound > 1e9 else bound}"}} {done}')
        lines += [f"tacit_request_seconds_sum {self.seconds:.6f}", f"tacit_request_seconds_count {done}"]
        lines += ["# TYPE tacit_releases_total counter", f"tacit_releases_total {self.rows}"]
        lines += ["# TYPE tacit_connections_ended_total counter"]
        lines += [f'tacit_connections_ended_total{{why="{why}"}} {n}' for why, n in sorted(self.doors.items())]
        for name, value in self.gauges.items():
            lines += [f"# TYPE tacit_{name} gauge", f"tacit_{name} {value()}"]
        return "\n".join(lines) + "\n"


class Guard:
    """Around everything; and no traceback to anyone.

    Parameters
    ----------
    hosts : names that the service has; None: it is not asked
    tls : whether browsers are told to come encrypted only
    pause : seconds before a refusal
    """

    def __init__(
        self, app: ASGIApp, counts: Counts, hosts: Set[str] | None = None, tls: bool = False, pause: float = 0.0
    ) -> None:
        self.app, self.counts, self.hosts, self.pause = app, counts, hosts, pause
        headers = HEADERS | ({"strict-transport-security": YEAR} if tls else {})
        self.headers = [(k.encode(), v.encode()) for k, v in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in self.headers if h[0] not in own)]
                if status in REFUSED:
                    await asyncio.sleep(self.pause)
            await send(message)

        wrong = self._wrong(scope)
        try:
            await (self.app(scope, receive, noted) if wrong is None else _answer(noted, *wrong))
        except ClientDisconnect:
            pass
        except Exception as error:
            # it has been answered; its text may hold values of the request, so the kind has to do
            log.error("failed with %s", type(error).__name__)
        # an unknown path is the sender's text too
        route = getattr(scope.get("route"), "path", "(unknown path)")
        method, took = scope["method"] if scope["method"] in METHODS else "?", time.perf_counter() - began
        self.counts.add(method, route, status, took, scope.get("tacit.rows", 0))
        log.info("%s %s %s rows=%s key=%s %.0f ms", method, route, status, scope.get("tacit.rows", "-"),
                 scope.get("tacit.key", "-"), 1000 * took)  # fmt: skip

    def _wrong(self, scope: Scope) -> tuple[int, str] | None:
        """What is wrong with a request as such."""
        names = [name for name, _ in scope["headers"]]
        if b"content-length" in names and b"transfer-encoding" in names:
            return 400, "a request says its length once: by Content-Length or by Transfer-Encoding"
        if self.hosts is None:
            return None
        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        if host_name(host) not in self.hosts:
            return 421, "this is not a name of this service; its owner can add names with --name"
        return None


def host_name(host: str) -> str:
    """The name in a Host header, without the port.

    Examples
    --------
    >>> host_name("Example.org:8000"), host_name("[::1]:80"), host_name("[::1")
    ('example.org', '::1', '')
    """
    if host.startswith("["):
        return host[1 : host.find("]")].lower() if "]" in host else ""
    return host.partition(":")[0].lower()


async def _answer(send: Any, status: int, detail: str) -> None:
    body = b'{"detail": "%s"}' % detail.encode()
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
            (b"connection", b"close")]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": body})
