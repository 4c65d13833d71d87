"""Records as lines of JSON in, releases as lines of JSON out: one for one, in order, as soon as they are known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tacit.errors import InputError, TacitError
from tacit.release.runtime import Release


def release_lines(release: Release, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """For every line of JSON (an object of named values, or an array) the release, or what is wrong with it.

    Yields ``{"release": ...}`` (by name for rows, nested lists for windows and images) or
    ``{"error": ..., "line": n}``.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield {"release": _release(release, line)}
        except TacitError as error:
            yield {"error": str(error), "line": number}


def _release(release: Release, line: str) -> Any:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the line is no JSON ({error})") from None
    if isinstance(record, dict):
        columns = {k: [v] for k, v in record.items()}
        out = release.transform(columns)
    elif isinstance(record, list):
        try:
            values = np.array([record], dtype=np.float64 if release.manifest["input"]["kind"] == "array" else object)
        except (ValueError, TypeError) as error:
            raise InputError(f"the record is no array of numbers ({error})") from None
        out = release.transform(values)
    else:
        raise InputError(f"a record is an object or an array; found {type(record).__name__}")
    first = out[0]
    if first.ndim == 1:
        return dict(zip(release.manifest["output"]["names"], first.tolist(), strict=True))
    return first.tolist()
