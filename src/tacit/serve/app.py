"""The HTTP service: releases in, the analyzer's answers out. It takes, keeps and logs no raw record.

Uvicorn bounds connections and headers, this module bounds the body of a request before it is parsed. Encryption, time
limits and limits per client belong to a reverse proxy; docs/serve.md has a tested configuration.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, create_model
from starlette.concurrency import run_in_threadpool
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from tacit import __version__
from tacit.errors import ContradictionError, InputError
from tacit.records.cells import GAPS
from tacit.records.schema import TIMES, Column, TableSchema, schema_of
from tacit.release.answer import Answerer
from tacit.release.bundle import Bundle, parse_json
from tacit.release.manifest import is_expired
from tacit.report.report import Report
from tacit.report.verdict import leak_in_words
from tacit.serve.browser import check_files
from tacit.serve.client import Answers
from tacit.serve.keys import KeyFile

log = logging.getLogger("tacit.serve")
bearer = HTTPBearer(auto_error=False)
PAGE = Path(__file__).parent / "page"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
N_SAMPLES = 6
NUMBER_BYTES = 32  # the most that a double, its brackets and its comma take as JSON
# networks run in single precision: larger numbers have no answer
LARGEST = 1e30
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# WebAssembly needs its own word
PAGE_POLICY = f"{NOTHING}; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src data:; connect-src 'self'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and what happens after the bundle's last day of use.

    Attributes
    ----------
    max_rows : releases in one request; fewer where a release is so wide that `max_bytes` would be exceeded
    max_bytes : of the body of a request, unless a single release is larger
    refuse_expired : stop answering after the bundle's last day of use
    """

    max_rows: int = 1024
    max_bytes: int = 2**20
    refuse_expired: bool = False

    def of_body(self, width: int) -> tuple[int, int]:
        """Return the rows and bytes of a request whose releases have `width` numbers each."""
        rows = min(self.max_rows, max(1, self.max_bytes // (NUMBER_BYTES * width)))
        return rows, 1024 + rows * width * NUMBER_BYTES


def make_app(
    bundle: Bundle,
    keys: KeyFile | None,
    limits: Limits | None = None,
    *,
    public: bool = False,
    hosts: Sequence[str] = ("*",),
) -> FastAPI:
    """Build the service as an ASGI application.

    Parameters
    ----------
    bundle : from `tacit.release.bundle.read_bundle`; it must have an analyzer
    keys : the API keys; None lets everyone in (for a service that only this machine can reach)
    limits : of a request
    public : show schema, filter and audit without a key, so that the page works without one
    hosts : names of this service; requests for another host are rejected

    Examples
    --------
    >>> import tacit                                                           # doctest: +SKIP
    >>> app = make_app(tacit.release.bundle.read_bundle("people.tacit"), None)  # doctest: +SKIP
    """
    limits = limits or Limits()
    answerer, sha256 = Answerer(bundle), bundle.manifest["members"]["model.onnx"]["sha256"]
    max_rows, max_bytes = limits.of_body(math.prod(answerer.shape))
    releases = releases_model(answerer, max_rows)
    about = {**describe(bundle), "needs_key": keys is not None, "max_rows": max_rows}
    check_files()
    app = FastAPI(
        title=f"Tacit: {bundle.name}", version=__version__, openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    registry = CollectorRegistry()
    answered = Counter("tacit_requests", "Requests answered.", ["method", "route", "status"], registry=registry)
    seconds = Histogram("tacit_request_seconds", "Time until the answer began.", registry=registry)
    rows_answered = Counter("tacit_releases", "Releases answered.", registry=registry)

    def needs(scope: str) -> list[Any]:
        """The dependencies of a route that needs a key; they run before the body is read."""

        async def check(
            request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
        ) -> None:
            assert keys is not None
            try:
                entry = keys.find(credentials.credentials) if credentials else None
            except InputError as error:
                log.error("%s; all keys are rejected", error)
                raise HTTPException(503, "the service cannot read its keys") from None
            if entry is None:
                raise HTTPException(
                    401, "send a valid key as: Authorization: Bearer KEY", {"www-authenticate": "Bearer"}
                )
            request.state.key = entry["name"]
            if entry["scope"] != scope:
                raise HTTPException(403, f"this key has another scope than {scope}")

        return [] if keys is None else [Depends(check)]

    describes = [] if public else needs("analyze")

    @app.post(
        "/v1/analyze",
        summary="Answer from releases",
        dependencies=needs("analyze"),
        response_model=Answers,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": releases.model_json_schema()}},
            }
        },
    )
    async def analyze(request: Request, tacit_model: Annotated[str, Header()] = sha256) -> Response:
        """Return the most likely class and all probabilities of each target. Raw records are rejected."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "send application/json")
        if tacit_model != sha256:
            raise HTTPException(409, "these releases come from another filter than the one of this service")
        if limits.refuse_expired and is_expired(bundle.manifest):
            raise HTTPException(503, f"the bundle of this service expired on {bundle.manifest['expires']}")
        too_long = HTTPException(413, f"send at most {max_rows} releases and {max_bytes} bytes at a time")
        declared, body = request.headers.get("content-length", "0"), bytearray()
        if len(declared) > 15 or int(declared) > max_bytes:
            raise too_long
        async for part in request.stream():
            body += part
            if len(body) > max_bytes:
                raise too_long

        def answer() -> dict[str, Any]:
            found = releases.model_validate_json(bytes(body))
            return answerer.answer(np.asarray(found.release, dtype=np.float64))  # type: ignore[attr-defined]

        try:
            answers = await run_in_threadpool(answer)
        except ValidationError as error:
            raise HTTPException(422, _problem(error, answerer)) from None
        request.state.rows = answers["rows"]
        return JSONResponse(answers)

    @app.get("/health", summary="Whether the service can answer")
    async def health() -> Response:
        try:
            ready = not (limits.refuse_expired and is_expired(bundle.manifest))
            if keys is not None:
                keys.find("")
        except InputError:
            ready = False
        return JSONResponse({"status": "ok" if ready else "not ready"}, 200 if ready else 503)

    @app.get("/v1/bundle", summary="Input, output and audited leakage of the bundle", dependencies=describes)
    async def described() -> Response:
        return JSONResponse(about)

    @app.get("/v1/bundle/model.onnx", summary="The filter, for the browser", dependencies=describes)
    async def model() -> Response:
        return Response(bundle.graph("model.onnx"), media_type="application/octet-stream")

    @app.get("/openapi.json", include_in_schema=False, dependencies=describes)
    async def openapi() -> Response:
        return JSONResponse(app.openapi())

    @app.get("/metrics", include_in_schema=False, dependencies=needs("metrics"))
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=PAGE))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)

    @app.middleware("http")
    async def observe(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        """Add security headers, count and log the request, and hide what an error says."""
        began = time.perf_counter()
        try:
            response = await call_next(request)
        except Exception as error:
            # the text of the error may hold values of the request
            log.error("failed with %s", type(error).__name__)
            response = JSONResponse({"detail": "the service failed"}, 500)
        page = request.url.path == "/" or request.url.path.startswith("/page/")
        response.headers.update(HEADERS)
        response.headers["content-security-policy"] = PAGE_POLICY if page else NOTHING
        response.headers["cache-control"] = "no-cache" if page else "no-store"
        # paths and methods that the service does not have are text of the sender
        method = request.method if request.method in METHODS else "?"
        route = getattr(request.scope.get("route"), "path", "(page)" if page else "(unknown)")
        took, rows = time.perf_counter() - began, getattr(request.state, "rows", 0)
        answered.labels(method, route, response.status_code).inc()
        seconds.observe(took)
        rows_answered.inc(rows)
        key = getattr(request.state, "key", "-")
        log.info("%s %s %s rows=%s key=%s %.0f ms", method, route, response.status_code, rows, key, 1000 * took)
        return response

    return app


def releases_model(answerer: Answerer, max_rows: int) -> type[BaseModel]:
    """Return the body of a request: at most `max_rows` releases of the shape and range of the bundle's output."""
    limits: dict[str, Any] = {"ge": -LARGEST, "le": LARGEST}
    if answerer.codes is not None:
        limits = {"ge": 0, "le": answerer.codes - 1, "multiple_of": 1}
    release: Any = Annotated[float, Field(**limits)]
    for n in reversed(answerer.shape):
        release = Annotated[list[release], Field(min_length=n, max_length=n), FailFast()]
    several = Annotated[list[release], Field(min_length=1, max_length=max_rows), FailFast()]
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return create_model("Releases", __config__=config, release=(several, ...))


def _problem(error: ValidationError, answerer: Answerer) -> str:
    """Say what is wrong with a body, without a value or a name that the sender chose."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = [f"release {first['loc'][1]}: "] if len(first["loc"]) > 1 and type(first["loc"][1]) is int else []
    expected = "finite numbers" if answerer.codes is None else f"whole numbers from 0 to {answerer.codes - 1}"
    return (
        f'{"".join(place)}{first["type"].replace("_", " ")}; send {{"release": [...]}} with releases of shape '
        f"{list(answerer.shape)}, {expected}. This service takes releases only, never raw records"
    )


def describe(bundle: Bundle) -> dict[str, Any]:
    """Return the public description of a bundle as plain data."""
    m = bundle.manifest
    return {
        "name": bundle.name,
        "filter": m["filter"],
        "input": m["input"],
        "gaps": list(GAPS),
        "output": m["output"],
        "noise": m["noise"],
        "expires": m.get("expires"),
        "analyzer": m["analyzer"],
        "model": m["members"]["model.onnx"],
        "audit": summary(parse_json(bundle.members["audit.json"], "audit.json")),
        "samples": samples(m["input"]),
    }


def summary(audit: Any) -> dict[str, Any] | None:
    """Return the audited leakage of each sensitive attribute, in figures and in words."""
    try:
        report = Report.from_dict(audit)
    except (InputError, ContradictionError):
        return None  # no audit, one of another version, or one that contradicts itself
    leakage = {}
    for name, result in report.leakage.items():
        bound, m = report.bound.get(name), result.measure
        leakage[name] = {
            "value": m.value,
            "low": max(m.low, m.guessing),
            "high": m.high if bound is None else bound,
            "guessing": m.guessing,
            "certified": bound is not None,
            "attacker": result.attacker,
            "words": leak_in_words(report, name),
        }
    return {"level": report.level, "fresh": report.fresh, "leakage": leakage}


def samples(declared: dict[str, Any], seed: int = 0) -> list[Any]:
    """Return synthetic records from the ranges and categories of a schema; the page starts with them."""
    schema, rng = schema_of(declared), np.random.default_rng(seed)
    if isinstance(schema, TableSchema):
        made = schema.made_up(N_SAMPLES, rng, odd=False)
        return [{c.name: _plain(c, made[c.name][i]) for c in schema.columns} for i in range(N_SAMPLES)]
    # the visitor draws images
    return [] if len(schema.shape) == 3 else schema.made_up(N_SAMPLES, rng).round(4).tolist()


def _plain(column: Column, value: Any) -> Any:
    if column.kind == "category":
        return value
    if column.type == "duration":
        return value / np.timedelta64(1, "s")
    if column.type in TIMES:
        return str(value.astype("M8[D]" if column.type == "day" else "M8[m]"))
    return int(value) if column.type != "float" else float(f"{value:.4g}")
