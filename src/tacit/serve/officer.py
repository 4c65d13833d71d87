"""The officer's page: releases of a ledger with their verdicts, their reports, and a decision that is signed.

It runs on this machine alone. The address holds a token that works once and is exchanged for a cookie; a decision needs
the cookie, a proof that the page itself was read, and a request from this very page. There is no script on it, and
everything that a ledger says is shown as text.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from tacit.errors import InputError, TacitError
from tacit.ledger.account import find_policy, officers
from tacit.ledger.chain import Ledger, Line
from tacit.ledger.decisions import MOST, decide, releases_of
from tacit.ledger.evidence import Handover
from tacit.release.signing import raw_bytes, read_public_key, read_secret_key
from tacit.report import page as pages
from tacit.report.page import render

STYLE = Path(pages.__file__).parent / "page.css"
BASE = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
POLICY = BASE + "style-src 'self'; img-src data:; form-action 'self'"
# a report draws its figures itself: in an origin of its own, which can reach neither this page nor anything else
REPORT = BASE + "sandbox allow-scripts; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
# a form without any referrer would come from nowhere (Origin: null)
HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "same-origin", "cache-control": "no-store",
           "cross-origin-resource-policy": "same-origin"}  # fmt: skip


class Desk:
    """One officer at one ledger.

    Parameters
    ----------
    path : ledger.jsonl
    key : the officer's secret key; None to read only
    ledger_key : the ledger's, as of `Ledger.open`
    reports : a folder of folders that `tacit fit --out` wrote; the ledger's own folder without it
    """

    def __init__(
        self,
        path: str | Path,
        key: str | Path | None = None,
        ledger_key: str | Path | None = None,
        reports: str | Path | None = None,
    ) -> None:
        self.path, self.key = Path(path), key
        self.folder = Path(reports) if reports is not None else self.path.parent
        self.ledger = Ledger(path) if key is None else Ledger.open(path, ledger_key)
        self.ledger.verify()
        self.officer = None if key is None else raw_bytes(read_secret_key(key).public_key()).hex()
        known = [raw_bytes(read_public_key(o)).hex() for o in officers(find_policy(self.ledger))]
        if self.officer is not None and known and self.officer not in known:
            raise InputError(f"{key} is not the key of an officer whom the policy beside {self.path.name} names")

    def releases(self) -> tuple[list[Line], list[tuple[Line, tuple[Line, ...]]]]:
        """All lines, and every release, the latest first, with what officers decided."""
        lines = self.ledger.verify()
        return lines, releases_of(lines, officers(find_policy(self.ledger)))[::-1]

    def decide(self, of: str, verdict: str, comment: str) -> Line:
        """Sign a decision about a release, and write it down."""
        if self.key is None:
            raise InputError("this page was opened without a key; start it with --key FILE to decide")
        return decide(self.ledger, of, verdict, comment, self.key)

    def reports(self) -> dict[str, Path]:
        """The reports that are near, by what a ledger's lines call the mechanism that they are of."""
        found: dict[str, Path] = {}
        for folder in (self.folder, *sorted(p for p in self.folder.iterdir() if p.is_dir())):
            if (folder / "report.html").is_file() and (folder / "filter.tacit").is_file():
                try:
                    found |= dict.fromkeys(Handover(folder).mechanisms(), folder / "report.html")
                except TacitError:
                    continue  # a stranger's bundle is no report
        return found


class Door:
    """Who is let in: whoever has the address once, then their browser, on this page alone."""

    def __init__(self, port: int) -> None:
        self.token: str | None = secrets.token_urlsafe(32)
        self.cookie, self.session = f"tacit-officer-{port}", secrets.token_urlsafe(32)
        self.proof = hmac.new(secrets.token_bytes(32), self.session.encode(), hashlib.sha256).hexdigest()
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    def enter(self, token: str) -> Response | None:
        """The cookie, for the token; the token is spent."""
        if not token or self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = None
        response = RedirectResponse("/", 303)
        response.set_cookie(self.cookie, self.session, httponly=True, samesite="strict")
        return response

    def check(self, request: Request) -> None:
        """Refuse whoever has no cookie."""
        if not hmac.compare_digest(request.cookies.get(self.cookie, "").encode(), self.session.encode()):
            raise HTTPException(403, "open the address that tacit officer printed; it works once")

    def check_form(self, request: Request, told: dict[str, str]) -> None:
        """Refuse a form that is not this page's own."""
        origin = request.headers.get("origin", "").removeprefix("http://")
        if origin not in self.hosts or not hmac.compare_digest(told.get("proof", "").encode(), self.proof.encode()):
            raise HTTPException(403, "a decision is made on the officer's own page")

    async def guard(self, request: Request, answer: Callable[[Request], Any]) -> Response:
        """Around everything: another site's name that points here is not this page; headers of safety."""
        own = request.headers.get("host") in self.hosts
        response: Response = await answer(request) if own else Response("this is not the officer's address", 403)
        for name, value in (HEADERS | {"content-security-policy": POLICY}).items():
            response.headers.setdefault(name, value)
        return response


def make_page(desk: Desk, port: int) -> tuple[FastAPI, str]:
    """The page as an application, and the token that its address must have once."""
    door = Door(port)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.middleware("http")(door.guard)

    @app.get("/")
    async def listed(request: Request, token: str = "") -> Response:
        if (entered := door.enter(token)) is not None:
            return entered
        door.check(request)
        return await run_in_threadpool(_shown, desk, door)

    @app.get("/page.css")
    async def style() -> Response:
        return Response(STYLE.read_bytes(), media_type="text/css")

    @app.get("/report/{number}")
    async def report(request: Request, number: int) -> Response:
        door.check(request)
        line = next((x for x, _ in desk.releases()[1] if x.number == number), None)
        found = None if line is None else desk.reports().get(line.body["mechanism"])
        if found is None:
            raise HTTPException(404, "there is no report of this line")
        return HTMLResponse(found.read_bytes(), headers={"content-security-policy": REPORT})

    @app.post("/decide")
    async def decided(request: Request) -> Response:
        door.check(request)
        told = await _form(request)
        door.check_form(request, told)
        try:
            asked = (told.get("of", ""), told.get("verdict", ""), told.get("comment", "").strip())
            line = await run_in_threadpool(desk.decide, *asked)
        except TacitError as error:
            return await run_in_threadpool(_shown, desk, door, str(error), 400)
        of = next(x for x, _ in desk.releases()[1] if x.hash == line.body["of"])
        return RedirectResponse(f"/#line-{of.number}", 303)

    return app, str(door.token)


def _shown(desk: Desk, door: Door, problem: str = "", status: int = 200) -> Response:
    """The list as it is now; a ledger that was edited is shown as such, and nothing of it."""
    try:
        lines, releases = desk.releases()
    except TacitError as error:
        lines, releases, problem = [], [], f"The ledger cannot be trusted: {error}"
    near = desk.reports()
    reports = {line.number for line, _ in releases if line.body["mechanism"] in near}
    text = render("officer.html.j2", None, ledger=desk.path.name, lines=lines, releases=releases, problem=problem,
                  officer=desk.officer if lines else None, proof=door.proof, reports=reports)  # fmt: skip
    return HTMLResponse(text, status)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; more than a form of this page can have is refused unread."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > 64 * MOST:
            raise HTTPException(413, "that is more than a comment")
    try:
        told = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=8, errors="strict")
    except ValueError:
        raise HTTPException(400, "this is not a form of the officer's page") from None
    return {name: values[0] for name, values in told.items()}
