"""The device's side of the service: release here, send releases, receive answers. Raw records are never sent."""

from __future__ import annotations

import json
import math
import os
import random
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from tacit.callback import Callback, silent
from tacit.errors import InputError, TacitError
from tacit.files import strict_json
from tacit.release.runtime import Release
from tacit.serve.keys import is_loopback

TRIES = 7  # the waits between them double: about half a minute in all
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
MAX_ANSWER = 2**26  # bytes


class Answer(BaseModel):
    """Answers about one target: the most likely class and the probabilities of all classes, for each release."""

    model_config = ConfigDict(strict=True)
    label: list[str | bool | int | float]
    probabilities: list[list[float]]


class Answers(BaseModel):
    """The answer of the service to one request."""

    model_config = ConfigDict(strict=True)
    rows: int
    answers: dict[str, Answer]


class ServiceError(TacitError):
    """The service cannot be reached, or rejects the request; the message says what to do."""


class Client:
    """A connection to a service, for one bundle.

    Parameters
    ----------
    url : of the service
    release : the loaded bundle; the service must serve the same filter
    key, key_file : the API key, or a file that holds it
    ca : certificate (PEM) to trust, where the service or its proxy has its own
    allow_http : send the key over a network unencrypted
    transport : of httpx, for tests

    Examples
    --------
    >>> with Client("https://filter.example.org", release, key_file="clinic.key") as client:  # doctest: +SKIP
    ...     client.answer(X)["income"]["label"]
    """

    def __init__(
        self,
        url: str,
        release: Release,
        *,
        key: str | None = None,
        key_file: str | Path | None = None,
        ca: str | Path | None = None,
        allow_http: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if key_file is not None:
            key = _read_key(Path(key_file))
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"a service has a URL such as https://HOST:8000; found {url!r}")
        if key is not None and parts.scheme == "http" and not allow_http and not is_loopback(parts.hostname):
            raise InputError(
                f"{url} is not encrypted and would show the key to the network; use https (or --allow-http)"
            )
        self.release, self.url, self.bytes_sent = release, url.rstrip("/"), 0
        headers = {"tacit-model": release.manifest["members"]["model.onnx"]["sha256"]}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        verify: Any = True if ca is None else ssl.create_default_context(cafile=str(ca))
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=verify, transport=transport)
        self._max_rows: int | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def answer(self, X: Any, units: Any = None, file: Any = None) -> dict[str, dict[str, Any]]:
        """Release records here and ask the service: by target, labels and probabilities, in the order of X.

        `units` and `file` are those of `Release.transform`.
        """
        joined: dict[str, dict[str, Any]] = {}
        Z = self.release.numbers(X, units, file)
        if self._max_rows is None:
            about = _parsed(self._ask("GET", "/v1/bundle"))
            found = about.get("max_rows") if isinstance(about, dict) else None
            if type(found) is not int or not 0 < found < 2**40:
                raise self._not_ours("it does not say how many rows it takes")
            self._max_rows = found
        for at in range(0, len(Z), self._max_rows):
            part = Z[at : at + self._max_rows].tolist()
            body = json.dumps({"release": part}, separators=(",", ":")).encode()
            answers = self._checked(self._ask("POST", "/v1/analyze", body), len(part))
            self.bytes_sent += len(body)
            for target, found in answers.items():
                own = joined.setdefault(target, {"label": [], "probabilities": []})
                own["label"] += found.label
                own["probabilities"] += found.probabilities
        return joined

    def _checked(self, body: bytes, n: int) -> dict[str, Answer]:
        """The answers to n releases; the labels must be classes of the bundle's analyzer."""
        try:
            found = Answers.model_validate_json(body)
        except ValidationError:
            raise self._not_ours("its answer has another form") from None
        targets = self.release.manifest.get("analyzer") and self.release.manifest["analyzer"]["targets"]
        classes = {t["name"]: t["classes"] for t in targets or []}
        if found.rows != n or (classes and set(found.answers) != set(classes)):
            raise self._not_ours("its answer has other rows or targets")
        for target, answer in found.answers.items():
            known = {(type(c), c) for c in classes.get(target, answer.label)}
            width = len(classes.get(target, answer.probabilities[0] if answer.probabilities else ()))
            sound = len(answer.label) == len(answer.probabilities) == n
            sound = sound and all((type(v), v) in known for v in answer.label)
            if not sound or not all(
                len(p) == width > 0 and all(0 <= v <= 1 and math.isfinite(v) for v in p) for p in answer.probabilities
            ):
                raise self._not_ours("its labels or probabilities are not those of the bundle")
        return found.answers

    def _not_ours(self, problem: str) -> ServiceError:
        return ServiceError(f"{self.url} does not answer as a service of this bundle does: {problem}")

    def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """The body of the answer to one request, which is repeated where the service is busy or the link was lost."""
        wait, problem = FIRST_WAIT, ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(wait * random.uniform(0.5, 1.0))  # so that clients do not all come back at once
                wait = min(LONGEST_WAIT, 2 * wait)
            body = b""
            try:
                headers = {} if content is None else {"content-type": "application/json"}
                with self._http.stream(method, path, content=content, headers=headers) as found:
                    for part in found.iter_bytes():
                        body += part
                        if len(body) > MAX_ANSWER:
                            raise self._not_ours(f"its answer has more than {MAX_ANSWER:,} bytes")
            except httpx.DecodingError as error:
                raise self._not_ours(printable(str(error))) from None
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {printable(str(error))}"
                if "CERTIFICATE_VERIFY" in str(error):
                    raise ServiceError(f"{self.url}: its certificate is not trusted ({problem}); pass --ca") from None
                continue
            if found.status_code == 200:
                return body
            detail = _parsed(body)
            detail = detail.get("detail") if isinstance(detail, dict) else body[:200].decode("utf-8", "replace")
            problem = f"{found.status_code}: {printable(str(detail), 500)}"
            if found.status_code not in (429, 502, 503, 504):
                raise ServiceError(f"{self.url} rejects the request ({problem})")
            after = found.headers.get("retry-after", "")
            wait = max(wait, min(LONGEST_WAIT, float(after))) if after.isdecimal() else wait
        raise ServiceError(f"{self.url} did not answer after {TRIES} tries ({problem}); is it running?")


def answer_file(
    client: Client,
    source: Path,
    out: Path,
    callback: Callback = silent,
    unit: str | None = None,
) -> int:
    """Write answers for all records of a file, the whole output or none. Returns how many."""
    import pyarrow as pa

    from tacit.noise.keyed import Occurrences  # a client that answers single records needs none of these
    from tacit.release.record_files import open_reader, write_parts

    suffixes = (".csv", ".parquet", ".arrow")
    if out.exists() and source.exists() and os.path.samefile(source, out):
        raise InputError(f"{out} is the input itself; write to another place")
    if out.suffix not in suffixes:
        raise InputError(f"{out.name}: answers are written as {', '.join(suffixes)}")
    reader = open_reader(source, client.release.manifest, 8192, unit)
    file, done = Occurrences(), 0

    def answered() -> Iterator[pa.RecordBatch]:
        nonlocal done
        for part in reader:
            columns: dict[str, Any] = {}
            for target, found in client.answer(part, getattr(part, "units", None), file).items():
                columns[target] = pa.array(found["label"])
                columns[f"{target}, probability"] = pa.array([max(p) for p in found["probabilities"]])
            yield pa.record_batch(columns)
            done += len(part)
            callback("answering", done, reader.rows)

    write_parts(out, answered())
    return done


def _read_key(path: Path) -> str:
    try:
        key = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as an API key ({type(error).__name__})") from None
    if not key or not key.isprintable() or " " in key:
        raise InputError(f"{path} does not hold one API key; `tacit serve keys add` makes one")
    return key


def printable(text: str, most: int = 300) -> str:
    """Return what a service says without control characters that a terminal would obey.

    Examples
    --------
    >>> printable("fine\\x1b[2J")
    'fine?[2J'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:most])


def _parsed(body: bytes) -> Any:
    """The JSON of an answer; None where there is none."""
    try:
        return strict_json(body)
    except (ValueError, RecursionError):
        return None
