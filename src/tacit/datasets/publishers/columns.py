"""Numbers in text: CSV files with a header and files of bare numbers. Errors name file and line, never a value."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from tacit.datasets.publishers.source import Source
from tacit.errors import InputError

AGAIN = "fetch the file again, or mend that line"


def rows(source: Source, name: str, columns: Sequence[str], remedy: str = AGAIN) -> Iterator[tuple[int, list[str]]]:
    """Line number and the cells of these columns, line by line; names are compared without case and blanks."""
    # the publisher may use a tab or a semicolon; no cell of these sets has a line break in it
    lines = source.lines(name)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{source.where(name)} is empty; expected a line of column names; {remedy}")
    mark = max(",;\t", key=first[1].count)
    heads = next(csv.reader([first[1]], delimiter=mark))
    at = places(heads, columns, source.where(name), remedy)
    for number, line in lines:
        cells = next(csv.reader([line], delimiter=mark), [])
        if len(cells) != len(heads):
            raise InputError(
                f"{source.where(name)}, line {number}: {len(cells)} cells where line {first[0]} names {len(heads)} "
                f"columns; {AGAIN}"
            )
        yield number, [cells[p].strip() for p in at]


def places(heads: Sequence[str], columns: Sequence[str], where: str, remedy: str = AGAIN) -> list[int]:
    """Where these columns are in a line of names."""
    plain = [h.strip().strip('"').lower() for h in heads]
    missing = [c for c in columns if c.lower() not in plain]
    if len(missing) == len(columns) > 1:  # a line of data, perhaps: it is not quoted
        raise InputError(f"{where}, line 1 names none of the columns {', '.join(columns)}; {remedy}")
    if missing:
        of = ", ".join(h.strip() or "(no name)" for h in heads)
        raise InputError(f"{where} has no column {missing[0]!r}; its columns are {of}; {remedy}")
    return [plain.index(c.lower()) for c in columns]


def table(source: Source, name: str, columns: Sequence[str]) -> np.ndarray:
    """These columns of a CSV file as numbers, (rows, columns)."""
    content = source.read(name)
    first = content.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace")
    heads = next(csv.reader([first]), [])
    try:
        at = places(heads, columns, name)
        read = pd.read_csv(io.BytesIO(content), encoding="utf-8-sig", dtype=float, usecols=sorted(at), index_col=False)
        values = read.to_numpy()[:, np.argsort(np.argsort(at))]
        # a line that is short ends in NaN, one that is long is refused only beyond the last column: count the marks
        whole = content.count(b",") == (len(values) + 1) * (len(heads) - 1)
        if whole and len(values) and np.isfinite(values).all():
            return values
    except (ValueError, InputError):  # of which line, is found out below
        pass
    found = [[number_in(cell, source, name, n, c) for cell, c in zip(cells, columns, strict=True)]
             for n, cells in rows(source, name, columns)]  # fmt: skip
    if not found:
        raise InputError(f"{source.where(name)} has no line of data below its header; {AGAIN}")
    return np.array(found)


def matrix(source: Source, name: str, width: int | None = None) -> np.ndarray:
    """A file of numbers between blanks, as many in every line: (lines, numbers)."""
    content = source.read(name)
    try:
        values = pd.read_csv(io.BytesIO(content), sep=r"\s+", header=None, dtype=float, encoding="utf-8-sig").to_numpy()
        if np.isfinite(values).all() and width in (None, values.shape[1]):
            return values
    except ValueError:  # of which line, is found out below
        pass
    found = []
    for number, line in source.lines(name):
        words = line.split()
        width = len(words) if width is None else width
        if len(words) != width:
            raise InputError(f"{source.where(name)}, line {number}: {len(words)} numbers; expected {width}; {AGAIN}")
        found.append([number_in(w, source, name, number, f"number {i}") for i, w in enumerate(words, 1)])
    if not found:
        raise InputError(f"{source.where(name)} is empty; expected lines of numbers; fetch it again")
    return np.array(found)


def whole_numbers(source: Source, name: str, low: int, high: int) -> np.ndarray:
    """A file of one whole number a line, within these limits."""
    found = []
    for number, line in source.lines(name):
        found.append(whole_in(line, source, name, number, low, high))
    return np.array(found, dtype=int)


def whole_in(cell: str, source: Source, name: str, line: int, low: int, high: int, what: str = "the line") -> int:
    """One whole number of a cell."""
    value = number_in(cell, source, name, line, what)
    if value != int(value) or not low <= value <= high:
        raise InputError(
            f"{source.where(name)}, line {line}: {what} is not a whole number from {low} to {high}; {AGAIN}"
        )
    return int(value)


def number_in(cell: str, source: Source, name: str, line: int, what: str) -> float:
    """One number of a cell."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{source.where(name)}, line {line}: {what} is not a number; {AGAIN}")
    return value


def same_length(source: Source, lengths: dict[str, int]) -> int:
    """One row each in files that go together."""
    (first, count), *others = lengths.items()
    for name, other in others:
        if other != count:
            raise InputError(
                f"{source.where(name)} has {other:,} rows but {source.where(first)} has {count:,}; "
                f"one of the two is cut: fetch both again"
            )
    return count
