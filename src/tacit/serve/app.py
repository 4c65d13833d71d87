"""The service: releases in, the analyzer's answers out. It never takes, keeps or logs a raw record.

Everything that comes in is bounded before it is read: bytes of a body and of all bodies, rows, requests in flight and
of one key, and the time that a body or a download may take. Who may see the schema and the filter is decided by the
owner. Answers to bad requests, and the log, name what is wrong and never repeat a value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from tacit import __version__
from tacit.errors import InputError
from tacit.files import strict_json
from tacit.release.answer import Answerer
from tacit.release.bundle import Bundle
from tacit.release.expiry import is_expired
from tacit.serve.browser import FILES, checked_file
from tacit.serve.describe import describe, samples
from tacit.serve.guard import Counts, Guard, log
from tacit.serve.keys import KeyFile
from tacit.serve.openapi import analyze_extra, with_security
from tacit.serve.turns import Slots, Turns

PAGE = Path(__file__).parent / "page"
JSON, BINARY = "application/json", "application/octet-stream"
MODEL = "tacit-model"  # header: SHA-256 of the filter that made a release
CHUNK = 2**16  # bytes of a long answer that are sent at a time
RELEASES_ONLY = (
    "this service takes releases only, and this looks like raw records. Nothing of it was kept. Run the filter where "
    "the data is: tacit client BUNDLE FILE URL, or the page of this service"
)
# The page loads nothing from elsewhere and can send to this service alone; WebAssembly needs its own word.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Limits:
    """How much the service takes at a time.

    Attributes
    ----------
    max_bytes : of a request's body
    max_rows : releases in one request
    in_flight : requests that are read or answered at a time; more get 503 and are asked to come back
    threads : requests that are computed at a time
    body_seconds : that a body may take to arrive
    refuse_expired : whether nothing is answered once the bundle's last day of use is over
    per_key : requests of one key at a time (of one address, where there are no keys); more get 429
    all_bytes : of all bodies that are held at a time
    downloads : of the filter, and of the page's runtime, at a time; two of one
    download_seconds : that one of them may take
    pause : seconds before a refusal is answered, for who would not wait
    """

    max_bytes: int = 2**20
    max_rows: int = 1024
    in_flight: int = 256
    threads: int = 2
    body_seconds: float = 30.0
    refuse_expired: bool = False
    per_key: int = 32
    all_bytes: int = 2**25
    downloads: int = 16
    download_seconds: float = 120.0
    pause: float = 0.25


def make_app(
    bundle: Bundle,
    keys: KeyFile | None,
    limits: Limits | None = None,
    *,
    public: bool = False,
    hosts: Set[str] | None = None,
    tls: bool = False,
    counts: Counts | None = None,
) -> Guard:
    """The service as an ASGI application.

    Parameters
    ----------
    bundle : from `tacit.release.bundle.read_bundle`; it must have an analyzer
    keys : who may ask; None lets everyone (for a service that this machine alone can reach)
    limits : how much is taken at a time
    public : whether schema, filter and audit are shown to who has no key; the page then needs none to show itself
    hosts : names of this service; a request for another one is refused. None: any
    tls : whether it is reached encrypted
    counts : what is shown at /metrics
    """
    limits, counts = limits or Limits(), counts or Counts()
    service = _Service(bundle, keys, limits, public, counts)
    app = FastAPI(title=f"Tacit: {bundle.name}", version=__version__, docs_url=None, redoc_url=None, openapi_url=None,
                  redirect_slashes=False)  # fmt: skip
    app.post("/v1/analyze", openapi_extra=analyze_extra(service.answerer, limits), summary="Answer from releases")(
        service.analyze
    )
    app.get("/health", summary="Whether the service runs")(service.health)
    app.get("/v1/bundle", summary="What goes in, what comes out, what leaks")(service.about)
    app.get("/v1/bundle/model.onnx", summary="The filter, for the browser to run", response_class=Response)(
        service.model
    )
    app.get("/healthz", include_in_schema=False)(service.alive)
    app.get("/readyz", include_in_schema=False)(service.ready)
    app.get("/metrics", include_in_schema=False)(service.metrics)
    for path, (content, kind) in _page_files().items():
        app.get(path, include_in_schema=False)(service.file(content, kind))
    app.add_exception_handler(Exception, _failed)
    with_security(app, keys is not None)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        service.allow(request, "describe")
        return JSONResponse(app.openapi())

    return Guard(app, counts, hosts, tls, limits.pause)


class _Service:
    """What the routes do."""

    def __init__(self, bundle: Bundle, keys: KeyFile | None, limits: Limits, public: bool, counts: Counts) -> None:
        self.bundle, self.keys, self.limits, self.public, self.counts = bundle, keys, limits, public, counts
        self.answerer, self.raw = Answerer(bundle), RawRecords(bundle)
        self.sha256 = bundle.manifest["members"]["model.onnx"]["sha256"]
        self.told = {**describe(bundle), "needs_key": keys is not None, "max_rows": limits.max_rows,
                     "max_bytes": limits.max_bytes, "samples": samples(bundle.manifest["input"])}  # fmt: skip
        self.slots = Slots(limits.in_flight, limits.per_key, limits.all_bytes)
        self.downloads, self.turns = Slots(limits.downloads, 2), Turns(limits.threads)
        counts.gauges["requests_under_way"] = lambda: limits.in_flight - self.slots.free

    def allow(self, request: Request, scope: str) -> str:
        """Who asks: the name of their key, or their address. Raises where they may not."""
        address = request.client.host if request.client else "-"
        if self.keys is None or (scope == "describe" and self.public):
            return address
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        try:
            found = self.keys.find(key.strip()) if kind.lower() == "bearer" else None
        except InputError as error:
            log.error("%s; nobody is let in", error)
            raise HTTPException(503, "the service cannot read its keys; nobody is let in") from None
        if found is None:
            raise HTTPException(401, "send a valid key as: Authorization: Bearer KEY", {"www-authenticate": "Bearer"})
        request.scope["tacit.key"] = found["name"]
        if scope not in found["scope"]:
            raise HTTPException(403, f"this key is not for this; its owner can make one with --scope {scope}")
        return str(found["name"])

    async def analyze(self, request: Request) -> Response:
        """Takes releases (never raw records), returns for each target the likeliest class and all probabilities."""
        who, limits = self.allow(request, "analyze"), self.limits
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in (JSON, BINARY):
            raise HTTPException(415, f"send {JSON}, or {BINARY} (little-endian doubles, one release after the other)")
        if request.headers.get(MODEL, self.sha256) != self.sha256:
            raise HTTPException(409, "these releases were made by another filter than the one this service knows")
        if limits.refuse_expired and is_expired(self.bundle.manifest):
            last = self.bundle.manifest["expires"]
            raise HTTPException(503, f"this service's bundle expired on {last}; ask its owner")
        with self.slots.taken(who), self.slots.held() as hold, Admitted(request.scope):
            body = await _body(request, limits, hold)

            def work() -> tuple[int, bytes]:
                Z = self.answerer.from_bytes(body) if kind == BINARY else self.raw.refuse_or_read(body, self.answerer)
                if len(Z) > limits.max_rows:
                    raise TooMuch(f"found {len(Z)} releases; send at most {limits.max_rows} at a time")
                return len(Z), json.dumps(self.answerer.answer(Z)).encode()

            try:
                rows, answer = await self.turns.run(who, work)
            except TooMuch as error:
                raise HTTPException(413, str(error)) from None
            except InputError as error:
                raise HTTPException(422, str(error)) from None
        request.scope["tacit.rows"] = rows
        return Response(answer, media_type=JSON, headers={"cache-control": "no-store"})

    async def health(self, request: Request) -> dict[str, str]:
        """Whether the service runs; and, for who may see it, of which bundle."""
        told = {"bundle": self.bundle.name, "model": self.sha256} if self.public or self.keys is None else {}
        return {"status": "ok", **told}

    async def about(self, request: Request) -> Response:
        """What the bundle takes, gives and leaks."""
        self.allow(request, "describe")
        return JSONResponse(self.told)

    async def model(self, request: Request) -> Response:
        """The filter."""
        who = self.allow(request, "describe")
        return Streamed(self.bundle.members["model.onnx"], BINARY, self, who)

    def file(self, content: Callable[[], bytes | None], kind: str) -> Callable[[Request], Any]:
        """A route of a file of the page."""

        async def send(request: Request) -> Response:
            data = content()
            if data is None:
                raise HTTPException(
                    404, "the browser's runtime is not here; fetch it with: python -m tacit.serve.browser"
                )
            headers = {"cache-control": "no-cache", "content-security-policy": POLICY}
            if len(data) <= CHUNK:
                return Response(data, media_type=kind, headers=headers)
            return Streamed(data, kind, self, request.client.host if request.client else "-", headers)

        return send

    async def alive(self) -> dict[str, str]:
        """For who starts it again when it does not answer."""
        return {"status": "ok"}

    async def ready(self) -> Response:
        """For who sends it requests: whether it would answer one now."""
        try:
            known = self.keys is None or self.keys.find("") is None
        except InputError:
            known = False
        expired = self.limits.refuse_expired and is_expired(self.bundle.manifest)
        ready = known and self.slots.free > 0 and not expired
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Counts, as Prometheus reads them; nothing of what is in a request."""
        self.allow(request, "metrics")
        return Response(self.counts.text(), media_type="text/plain; version=0.0.4")


class Admitted:
    """While a request is worked on its connection is not put out (`doors.py`); afterwards it was of use."""

    def __init__(self, scope: Scope) -> None:
        self.visit = scope.get("tacit.visit")

    def __enter__(self) -> None:
        if self.visit is not None:
            self.visit.admitted = True

    def __exit__(self, kind: Any, *_: object) -> None:
        if self.visit is not None:
            self.visit.admitted, self.visit.proven = False, self.visit.proven or kind is None


class Streamed(Response):
    """A long answer, a piece at a time and no faster than it is read, in a slot and within a time."""

    def __init__(
        self, data: bytes, kind: str, service: _Service, who: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(None, headers=headers, media_type=kind)
        del self.headers["content-length"]
        self.headers["content-length"] = str(len(data))
        self.data, self.service, self.who = memoryview(data), service, who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = self.service.limits.download_seconds
        with self.service.downloads.taken(self.who), Admitted(scope):
            async with asyncio.timeout(seconds):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                for at in range(0, len(self.data), CHUNK):
                    piece = bytes(self.data[at : at + CHUNK])
                    more = at + CHUNK < len(self.data)
                    await send({"type": "http.response.body", "body": piece, "more_body": more})


async def _failed(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the service failed"}, 500)


class TooMuch(InputError):
    """More releases than are taken at a time."""


class RawRecords:
    """Tells records that were sent raw by mistake from releases, by the columns and the shape of the bundle's input."""

    def __init__(self, bundle: Bundle) -> None:
        declared = bundle.manifest["input"]
        self.columns = {c["name"] for c in declared["columns"]} if declared["kind"] == "table" else set()
        self.width = len(self.columns) or declared["shape"][0]
        self.out = bundle.manifest["output"]["shape"][0]

    def refuse_or_read(self, body: bytes, answerer: Answerer) -> Any:
        found = parse(body)
        value = found.get("release") if isinstance(found, dict) else found
        first = value[0] if isinstance(value, list) and value else None
        named = found.keys() if isinstance(found, dict) else ()
        wide = isinstance(first, list) and len(first) == self.width != self.out
        if isinstance(first, dict) or wide or not self.columns.isdisjoint(named):
            raise InputError(RELEASES_ONLY)
        if not isinstance(found, dict) or set(found) != {"release"}:
            raise InputError('the body must be a JSON object with the one field "release"')
        return answerer.from_lists(value)


def parse(body: bytes) -> Any:
    try:
        return strict_json(body)
    except ValueError:
        raise InputError(
            "the body cannot be read as JSON (numbers must be finite, and no key may occur twice)"
        ) from None


async def _body(request: Request, limits: Limits, hold: Callable[[int], None]) -> bytes:
    """The body, read no further than is allowed, whatever it says of its own length."""
    too_long = HTTPException(413, f"a request has at most {limits.max_bytes} bytes; send fewer releases at a time")
    declared = request.headers.get("content-length", "0")
    most = limits.max_bytes
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            if declared.isdecimal() and len(declared) < 20 and int(declared) > 8 * most:
                raise too_long
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    hold(len(part))
                    parts.append(part)
                elif size > 8 * most:
                    raise too_long  # the connection is closed
                else:
                    parts.clear()  # a little more is read and dropped, so that the sender hears the answer
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {limits.body_seconds:g} seconds") from None
    if size > most:
        raise too_long
    return b"".join(parts)


def _page_files() -> dict[str, tuple[Callable[[], bytes | None], str]]:
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
             ".wasm": "application/wasm", ".svg": "image/svg+xml"}  # fmt: skip
    own = [p for p in sorted(PAGE.iterdir()) if p.is_file() and p.suffix in kinds]
    files: dict[str, Callable[[], bytes | None]] = {f"/page/{p.name}": p.read_bytes for p in own}
    for name in FILES:
        checked_file(name)  # hashing takes a moment: before the first request
    files |= {f"/page/runtime/{name}": partial(checked_file, name) for name in FILES}
    files["/"] = (PAGE / "index.html").read_bytes
    return {url: (read, kinds[Path(url).suffix or ".html"]) for url, read in files.items()}
