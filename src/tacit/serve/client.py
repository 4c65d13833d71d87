"""The device's side of the service: release here, send releases, bring back answers. Raw records are never sent."""

from __future__ import annotations

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
from tacit.release.runtime import Release
from tacit.serve.keys import is_loopback

TRIES = 7  # the waits between them double: about half a minute in all
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0


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
            key = Path(key_file).read_text().strip()
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
            found = self._ask("POST", "/v1/analyze", part).json()
            if found["rows"] != len(Z[at : at + step]):
                raise ServiceError(f"{self.url} answered {found['rows']} releases of {len(Z[at : at + step])}")
            self.bytes_sent += len(part)
            yield found["answers"]

    def _rows_at_a_time(self, Z: np.ndarray) -> int:
        if self._step is None:
            about = self._ask("GET", "/v1/bundle").json()
            size = 8 * int(np.prod(Z.shape[1:]))
            self._step = max(1, min(about["max_rows"], about["max_bytes"] // size))
        return self._step

    def _ask(self, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        """One request, tried again where the service is busy or the connection was lost: asking twice does no harm."""
        wait, problem = FIRST_WAIT, ""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(wait * random.uniform(0.5, 1.0))  # so that clients do not all come back at once
                wait = min(LONGEST_WAIT, 2 * wait)
            try:
                kind = {} if content is None else {"content-type": "application/octet-stream"}
                found = self._http.request(method, path, content=content, headers=kind)
            except httpx.TransportError as error:
                if isinstance(error.__cause__ or error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(
                    error
                ):
                    raise ServiceError(
                        f"{self.url}: its certificate is not trusted ({error}); pass it as --ca"
                    ) from None
                problem = f"{type(error).__name__}: {error}"
                continue
            if found.status_code in (429, 502, 503, 504):
                problem = f"{found.status_code}: {_detail(found)}"
                after = found.headers.get("retry-after", "")
                wait = max(wait, min(LONGEST_WAIT, float(after))) if after.isdecimal() else wait
                continue
            if found.status_code != 200:
                raise ServiceError(f"{self.url} refuses ({found.status_code}): {_detail(found)}")
            return found
        raise ServiceError(f"{self.url} did not answer after {TRIES} tries ({problem}); is it running?")


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


def _detail(found: httpx.Response) -> str:
    try:
        return str(found.json()["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        return found.text[:200]
