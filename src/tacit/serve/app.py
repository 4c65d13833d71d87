"""The service: releases in, the analyzer's answers out. It never takes, keeps or logs a raw record.

Everything that comes in is bounded before it is read: bytes of a body, rows, requests in flight, and the time that a
body may take. Answers to bad requests, and the log, name what is wrong and never repeat a value.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit import __version__
from tacit.errors import InputError
from tacit.files import strict_json
from tacit.release.answer import Answerer
from tacit.release.bundle import Bundle
from tacit.release.expiry import is_expired
from tacit.serve.browser import FILES, FOLDER
from tacit.serve.describe import describe, samples
from tacit.serve.keys import KeyFile
from tacit.serve.openapi import analyze_extra, with_security

log = logging.getLogger("tacit.serve")
PAGE = Path(__file__).parent / "page"
JSON, BINARY = "application/json", "application/octet-stream"
MODEL = "tacit-model"  # header: SHA-256 of the filter that made a release
RELEASES_ONLY = (
    "this service takes releases only, and this looks like raw records. Nothing of it was kept. Run the filter where "
    "the data is: tacit client BUNDLE FILE URL, or the page of this service"
)
# The page loads nothing from elsewhere and can send to this service alone; WebAssembly needs its own word.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


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
    """

    max_bytes: int = 2**20
    max_rows: int = 1024
    in_flight: int = 256
    threads: int = 2
    body_seconds: float = 30.0
    refuse_expired: bool = False


class Slots:
    """So many requests at a time; no queue beyond them, so that memory is bounded."""

    def __init__(self, most: int) -> None:
        self.free = most

    def __enter__(self) -> None:
        if self.free <= 0:
            raise HTTPException(503, "the service is busy; try again", {"retry-after": "1"})
        self.free -= 1

    def __exit__(self, *_: object) -> None:
        self.free += 1


def make_app(bundle: Bundle, keys: KeyFile | None, limits: Limits | None = None) -> ASGIApp:
    """The service as an ASGI application.

    Parameters
    ----------
    bundle : from `tacit.release.bundle.read_bundle`; it must have an analyzer
    keys : who may ask; None lets everyone (for a service that this machine alone can reach)
    limits : how much is taken at a time
    """
    limits = limits or Limits()
    answerer = Answerer(bundle)
    public = {**describe(bundle), "needs_key": keys is not None,
              "max_rows": limits.max_rows, "max_bytes": limits.max_bytes}  # fmt: skip
    made_up = samples(bundle.manifest["input"])
    slots, threads = Slots(limits.in_flight), CapacityLimiter(limits.threads)
    model = bundle.manifest["members"]["model.onnx"]["sha256"]
    raw = RawRecords(bundle)
    app = FastAPI(
        title=f"Tacit: {bundle.name}", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )

    @app.post("/v1/analyze", openapi_extra=analyze_extra(answerer, limits), summary="Answer from releases")
    async def analyze(request: Request) -> Response:
        """Takes releases (never raw records), returns for each target the likeliest class and all probabilities."""
        if keys is not None:
            request.scope["tacit.key"] = _known_key(request, keys)
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in (JSON, BINARY):
            raise HTTPException(415, f"send {JSON}, or {BINARY} (little-endian doubles, one release after the other)")
        if request.headers.get(MODEL, model) != model:
            raise HTTPException(409, "these releases were made by another filter than the one this service knows")
        if limits.refuse_expired and is_expired(bundle.manifest):
            raise HTTPException(503, f"this service's bundle expired on {bundle.manifest['expires']}; ask its owner")
        with slots:
            body = await _body(request, limits)

            def work() -> tuple[int, bytes]:
                Z = answerer.from_bytes(body) if kind == BINARY else raw.refuse_or_read(body, answerer)
                if len(Z) > limits.max_rows:
                    raise TooMuch(f"found {len(Z)} releases; send at most {limits.max_rows} at a time")
                return len(Z), json.dumps(answerer.answer(Z)).encode()

            try:
                rows, answer = await anyio.to_thread.run_sync(work, limiter=threads)
            except TooMuch as error:
                raise HTTPException(413, str(error)) from None
            except InputError as error:
                raise HTTPException(422, str(error)) from None
        request.scope["tacit.rows"] = rows
        return Response(answer, media_type=JSON, headers={"cache-control": "no-store"})

    @app.get("/health", summary="Whether the service runs")
    async def health() -> dict[str, str]:
        return {"status": "ok", "bundle": bundle.name, "model": model}

    @app.get("/v1/bundle", summary="What goes in, what comes out, what leaks")
    async def about() -> JSONResponse:
        return JSONResponse({**public, "samples": made_up})

    @app.get("/v1/bundle/model.onnx", summary="The filter, for the browser to run", response_class=Response)
    async def graph() -> Response:
        return Response(bundle.members["model.onnx"], media_type=BINARY)

    for path, (file, kind) in _page_files().items():
        app.get(path, include_in_schema=False)(_file(file, kind))
    app.add_exception_handler(Exception, _failed)
    with_security(app, keys is not None)
    return Guard(app)


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


def _known_key(request: Request, keys: KeyFile) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    try:
        name = keys.name_of(key.strip()) if scheme.lower() == "bearer" else None
    except InputError as error:
        log.error("%s; nobody is let in", error)
        raise HTTPException(503, "the service cannot read its keys; nobody is let in") from None
    if name is None:
        raise HTTPException(401, "send a valid key as: Authorization: Bearer KEY", {"www-authenticate": "Bearer"})
    return name


async def _body(request: Request, limits: Limits) -> bytes:
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


def _page_files() -> dict[str, tuple[Path, str]]:
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
             ".wasm": "application/wasm", ".svg": "image/svg+xml"}  # fmt: skip
    files = {"/": PAGE / "index.html"}
    files |= {f"/page/{p.name}": p for p in sorted(PAGE.iterdir()) if p.is_file() and p.suffix in kinds}
    files |= {f"/page/runtime/{name}": FOLDER / name for name in FILES}
    return {url: (path, kinds[path.suffix]) for url, path in files.items()}


def _file(path: Path, kind: str) -> Callable[[], Any]:
    async def send() -> Response:
        if not path.is_file():
            raise HTTPException(404, "the browser's runtime is not here; fetch it with: python -m tacit.serve.browser")
        return FileResponse(path, media_type=kind, headers={"cache-control": "no-cache"})

    return send


class Guard:
    """Around everything: headers of safety, one line of log without any value, and no traceback to anyone."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except ClientDisconnect:
            pass
        except Exception as error:
            # it has been answered; its text may hold values of the request, so the kind has to do
            log.error("failed with %s", type(error).__name__)
        # an unknown path is the sender's text too
        route = getattr(scope.get("route"), "path", "(unknown path)")
        log.info("%s %s %s rows=%s key=%s %.0f ms", scope["method"] if scope["method"] in METHODS else "?", route,
                 status, scope.get("tacit.rows", "-"), scope.get("tacit.key", "-"),
                 1000 * (time.perf_counter() - began))  # fmt: skip


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
