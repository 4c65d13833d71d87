"""The device's side of the service: release here, send releases, bring back answers. Raw records are never sent."""

from __future__ import annotations

import os
import random
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from tacit.callback import Callback, silent
from tacit.errors import InputError, TacitError
from tacit.files import strict_json
from tacit.release.runtime import Release
from tacit.serve.keys import is_loopback

TRIES = 7  # the waits between them double: about half a minute in all
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
MOST = 2**26  # bytes of an answer


class ServiceError(TacitError):
    """The service cannot be reached, or refuses; the message says what to do."""


class Client:
    """A connection to a service, for one bundle.

    Parameters
    ----------
    url : of the service
    release : the loaded bundle; the service must know the same filter
    key, key_file : the API key, or a file that holds it
    ca : certificate (PEM) to trust, where the service has its own
    allow_http : send the key over a network unencrypted
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
                f"{url} is not encrypted, so the key could be read on the way; use https (or --allow-http)"
            )
        self.release, self.url, self.bytes_sent = release, url.rstrip("/"), 0
        headers = {"tacit-model": release.manifest["members"]["model.onnx"]["sha256"]}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        verify: Any = True if ca is None else ssl.create_default_context(cafile=str(ca))
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=verify, transport=transport)
        self._step: int | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def answer(self, X: Any, units: Any = None, file: Any = None) -> dict[str, dict[str, Any]]:
        """Release records here and ask the service: by target, labels and probabilities, in the order of X.

        `units` and `file` say whose records these are, as in `Release.transform`.
        """
        return _joined(list(self._batches(self.release.numbers(X, units, file))))

    def _batches(self, Z: np.ndarray) -> Iterator[dict[str, Any]]:
        step = self._rows_at_a_time(Z)
        for at in range(0, len(Z), step):
            part = np.ascontiguousarray(Z[at : at + step], dtype="<f8").tobytes()
            found = self._ask("POST", "/v1/analyze", part)
            self.bytes_sent += len(part)
            problem = _problem(found, len(Z[at : at + step]), self.release.manifest.get("analyzer"))
            if problem:
                raise ServiceError(f"{self.url} does not answer as a service of this bundle does: {problem}")
            yield found["answers"]

    def _rows_at_a_time(self, Z: np.ndarray) -> int:
        if self._step is None:
            about = self._ask("GET", "/v1/bundle")
            most: list[Any] = [about.get(n) if isinstance(about, dict) else None for n in ("max_rows", "max_bytes")]
            if any(type(n) is not int or not 0 < n < 2**40 for n in most):
                raise ServiceError(f"{self.url} does not say how much it takes; is it a service of tacit serve?")
            size = 8 * int(np.prod(Z.shape[1:]))
            self._step = max(1, min(most[0], most[1] // size))
        return self._step

    def _ask(self, method: str, path: str, content: bytes | None = None) -> Any:
        """The answer to one request. Where the service is busy or the connection was lost it is tried again."""
        wait, problem = FIRST_WAIT, ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(wait * random.uniform(0.5, 1.0))  # so that clients do not all come back at once
                wait = min(LONGEST_WAIT, 2 * wait)
            try:
                kind = {} if content is None else {"content-type": "application/octet-stream"}
                with self._http.stream(method, path, content=content, headers=kind) as found:
                    body = self._bounded(found)
            except httpx.DecodingError as error:
                raise ServiceError(f"{self.url} does not answer as tacit serve does: {printable(str(error))}") from None
            except httpx.TransportError as error:
                if isinstance(error.__cause__ or error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(
                    error
                ):
                    raise ServiceError(
                        f"{self.url}: its certificate is not trusted ({printable(str(error))}); pass it as --ca"
                    ) from None
                problem = f"{type(error).__name__}: {printable(str(error))}"
                continue
            if found.status_code in (429, 502, 503, 504):
                problem = f"{found.status_code}: {_detail(body)}"
                after = found.headers.get("retry-after", "")
                wait = max(wait, min(LONGEST_WAIT, float(after))) if after.isdecimal() else wait
                continue
            if found.status_code != 200:
                raise ServiceError(f"{self.url} refuses ({found.status_code}): {_detail(body)}")
            try:
                return strict_json(body)
            except ValueError:
                raise ServiceError(
                    f"{self.url} answered {path} with something that is not JSON ({len(body)} bytes, "
                    f"{printable(found.headers.get('content-type', 'of no kind'))}); is it a service of tacit serve?"
                ) from None
        raise ServiceError(f"{self.url} did not answer after {TRIES} tries ({problem}); is it running?")

    def _bounded(self, found: httpx.Response) -> bytes:
        """The body of an answer, which is never longer than one of ours could be."""
        parts, size = [], 0
        for part in found.iter_bytes():
            size += len(part)
            if size > MOST:
                raise ServiceError(f"{self.url} answers with more than {MOST:,} bytes, which no service of ours does")
            parts.append(part)
        return b"".join(parts)


def answer_file(
    client: Client,
    source: Path,
    out: Path,
    callback: Callback = silent,
    unit: str | None = None,
) -> int:
    """Answers for all records of a file, part by part: the whole output or none. Returns how many."""
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


def _joined(parts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    if not parts:
        return {}
    return {
        target: {field: [v for p in parts for v in p[target][field]] for field in found}
        for target, found in parts[0].items()
    }


def _problem(found: Any, n: int, analyzer: Any) -> str | None:
    """What is wrong with an answer to n releases; labels are those of the bundle's analyzer, and nothing else."""
    if not isinstance(found, dict) or found.get("rows") != n or not isinstance(found.get("answers"), dict):
        return f"it does not hold {n} answers"
    classes = None if analyzer is None else {t["name"]: t["classes"] for t in analyzer["targets"]}
    if classes is not None and set(found["answers"]) != set(classes):
        return f"its targets are not {', '.join(classes)}"
    for target, answer in found["answers"].items():
        labels, shares = (answer.get(k) if isinstance(answer, dict) else None for k in ("label", "probabilities"))
        if not (isinstance(labels, list) and isinstance(shares, list) and len(labels) == len(shares) == n):
            return f"{printable(target)} has no label and probabilities for each release"
        width = None if classes is None else len(classes[target])
        if not all(_are_shares(p, width) for p in shares):
            return f"{printable(target)} has probabilities that are none"
        if classes is None:
            strange = [v for v in labels if not isinstance(v, str | int | float)]
        else:
            strange = [v for v in labels if not any(type(v) is type(c) and v == c for c in classes[target])]
        if strange:
            return f"{printable(target)} has labels that the bundle does not know"
    return None


def _are_shares(p: Any, width: int | None) -> bool:
    return (
        isinstance(p, list)
        and len(p) == (width or len(p)) > 0
        and all(type(v) in (int, float) and 0 <= v <= 1 for v in p)
    )


def _read_key(path: Path) -> str:
    try:
        key = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"no API key can be read from {path} ({type(error).__name__}); `tacit keys add` prints one"
                         ) from None  # fmt: skip
    if not key or not key.isprintable() or " " in key:
        raise InputError(f"{path} does not hold one API key; `tacit keys add` prints one")
    return key


def printable(text: str, most: int = 300) -> str:
    """What a stranger says, without what a terminal would obey.

    Examples
    --------
    >>> printable("fine\\x1b[2J")
    'fine?[2J'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:most])


def _detail(body: bytes) -> str:
    try:
        return printable(str(strict_json(body)["detail"]), 500)
    except (ValueError, KeyError, TypeError, IndexError):
        return printable(body[:200].decode("utf-8", "replace"))
