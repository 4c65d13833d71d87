"""Records as lines in, releases as lines of JSON out: one for one, in order, as soon as they are known.

What comes out may leave the owner's hands, error lines too: they name the line and the column, never a value.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from tacit.errors import InputError, TacitError
from tacit.noise.keyed import Occurrences
from tacit.records.cells import cell_value, header_names, text_number
from tacit.release.runtime import Release

LONGEST = 2**24  # bytes of a line


def release_lines(
    release: Release, lines: Iterable[str], form: str = "json", unit: str | None = None
) -> Iterator[dict[str, Any]]:
    """For every line the release, or what is wrong with it.

    Parameters
    ----------
    lines : text. "json": each an object of named values, or an array. "csv": a header, then rows of cells
    form : "json" or "csv"
    unit : the field that says whose each record is, for releases with noise. Without it, equal records of this
        stream are told apart by their order

    Yields ``{"release": ...}`` (by name for rows, nested lists for windows and images) or
    ``{"error": ..., "line": n}``.
    """
    file = Occurrences()
    for number, record in records(lines, form):
        try:
            if isinstance(record, TacitError):
                raise record
            one, who = _one(release, record), None
            if unit is not None:
                who = record.get(unit) if isinstance(record, dict) else None
                if who is None:
                    raise InputError(f"{unit}: missing; every record needs its unit")
            yield {"release": released(release, one, who, file)}
        except TacitError as error:
            yield {"error": str(error), "line": number}


def records(lines: Iterable[str], form: str) -> Iterator[tuple[int, Any]]:
    """The number of each line and its record, or the error that it is; empty lines are left out."""
    if form not in ("json", "csv"):
        raise InputError(f"form must be 'json' or 'csv'; found {form!r}")
    header: list[str] | None = None
    for number, line in enumerate(lines, start=1):
        line = line.removeprefix("\ufeff") if number == 1 else line  # a byte order mark
        if not line.strip():
            continue
        try:
            if form == "json":
                yield number, _json(line)
            elif header is None:
                header = header_names(_cells(line))
            else:
                cells = _cells(line)
                if len(cells) != len(header):
                    raise InputError(f"{len(cells)} cells, but the header names {len(header)} columns")
                yield number, {name: cell_value(cell) for name, cell in zip(header, cells, strict=True)}
        except TacitError as error:
            if form == "csv" and header is None:
                raise InputError(f"line {number}: {error}; the first line must name the columns") from None
            yield number, error


def text_lines(source: BinaryIO) -> Iterator[str]:
    """Lines of a stream of bytes, of bounded length; what is not UTF-8 stays what it is, and fits no schema."""
    while line := source.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(b"\n"):
            while (rest := source.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            line = b"\x00"  # too long to be a record: refused below like any other nonsense
        yield line.decode("utf-8", "replace")


def released(release: Release, records: Any, who: Any = None, file: Occurrences | None = None) -> Any:
    """The release of one record, as JSON has it; `who` is its unit, `file` counts those without."""
    units = None if who is None else [who]
    found = release.transform(records, units, on_error="quarantine", file=file)
    if found.problems:
        columns = ", ".join(dict.fromkeys(p.column for p in found.problems[:5]))
        raise InputError(f"{columns}: the value does not fit the bundle's schema")
    first = found.release[0]
    if first.ndim == 1:
        return dict(zip(release.manifest["output"]["names"], first.tolist(), strict=True))
    return first.tolist()


def _one(release: Release, record: Any) -> Any:
    if isinstance(record, dict):
        return {k: [v] for k, v in record.items()}
    if not isinstance(record, list):
        raise InputError(f"a record is an object or an array; found {type(record).__name__}")
    try:
        return np.array([record], dtype=np.float64 if release.manifest["input"]["kind"] == "array" else object)
    except (ValueError, TypeError, OverflowError):  # whose message holds the value
        raise InputError("the record is not an array of numbers") from None


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the line is not JSON ({getattr(error, 'msg', type(error).__name__)})") from None


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error as error:
        raise InputError(f"the line is not CSV ({error})") from None


def number(value: Any) -> float:
    """A finite number, or NaN for anything else."""
    try:
        found = text_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) and not isinstance(value, bool) else math.nan
