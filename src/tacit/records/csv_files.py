"""The one parser of CSV files: cells as text, some rows at a time, and columns of them by the rule of `cells`.

Fits and releases read through it, so that a cell means the same to both; `stream` reads lines by the same rule.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from tacit.errors import InputError
from tacit.records.cells import GAPS, TRUTH, header_names, text_number
from tacit.records.spelling import (
    LINES,
    LOOK,
    SEPARATORS,
    find_decimal,
    find_encoding,
    find_separator,
    iso_dates,
    with_points,
    without_gap_words,
)

BLOCK = 2**22  # bytes that are parsed at a time
LONGEST = 2**24  # characters of a line
ENCODING = "TACIT_ENCODING"  # environment variable: what CSV files are in, where it is not UTF-8
ROWS = 2**14  # at a time, where Python's parser is needed


class CsvFile:
    """A CSV file, compressed or not: `names` of its columns, and `batches` of their cells.

    How it is written is found from the file (`tacit.records.spelling`), and said by `written`; `encoding` or the
    variable TACIT_ENCODING overrules what is found. No message of what is wrong with it holds a cell.
    """

    def __init__(self, path: Path, delimiter: str | None = None, encoding: str | None = None) -> None:
        self.path = path
        with self._problems():
            self.encoding = self._known(encoding or os.environ.get(ENCODING))
        with self._problems(), self._text() as file:
            start = file.read(LOOK)
        if "\0" in start[:1024]:
            raise InputError(f"{path.name} is no text file; is it another kind of file under this name?")
        self.delimiter = delimiter or ("\t" if ".tsv" in path.suffixes else find_separator(start))
        with self._problems(), self._text() as file:
            rows = [row for row in itertools.islice(self._rows(file), LINES) if row]
        self.names = header_names(rows[0] if rows else [])
        self.decimal = find_decimal(rows[1:], self.delimiter)
        if not self.names:
            raise InputError(f"{path.name} is empty; its first line must name the columns")

    @property
    def written(self) -> str:
        """How the file is written, in words; "" where it is as most are."""
        found = {
            f"{SEPARATORS.get(self.delimiter, self.delimiter)}s between cells": self.delimiter != ",",
            "decimal commas": self.decimal == ",",
            f"in {self.encoding}": self.encoding != "utf-8",
        }
        return ", ".join(words for words, said in found.items() if said)

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Text cells with decimal points, whatever the file's sign is."""
        if self.decimal == ".":
            return batch
        return pa.record_batch([with_points(c) for c in batch.columns], names=batch.schema.names)

    def batches(self, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Text cells of some columns, in the file's order of rows."""
        at = [self.names.index(n) for n in (self.names if names is None else names)]
        with self._problems():
            for i, batch in enumerate(self._parsed_slowly(at) if self._has_late_quotes() else self._parsed(at)):
                batch = batch if i else batch.slice(1)  # the header
                if batch.num_rows:
                    yield batch.rename_columns([self.names[k] for k in at])

    def columns(self, dates: bool = False) -> dict[str, Any]:
        """The whole file, every column as numbers, booleans or text, by what all of its cells are; or as dates."""
        return frame_columns(self.names, list(self.batches()), self.decimal, dates)

    def _parsed(self, at: list[int]) -> Iterator[pa.RecordBatch]:
        places = [str(k) for k in range(len(self.names))]
        wanted = [places[k] for k in at]
        yield from arrow_csv.open_csv(
            self._bytes(),
            arrow_csv.ReadOptions(block_size=BLOCK, column_names=places),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted),
        )

    def _parsed_slowly(self, at: list[int]) -> Iterator[pa.RecordBatch]:
        rows: list[list[str]] = []
        with self._text() as file:
            for row in self._rows(file):
                if row and len(row) != len(self.names):
                    found = f"{len(row)} cells, but its header names {len(self.names)} columns"
                    raise InputError(f"{self.path.name} cannot be read as CSV: a row has {found}")
                rows += [row] if row else []
                if len(rows) == ROWS:
                    yield _as_batch(rows, at)
                    rows = []
        if rows:
            yield _as_batch(rows, at)

    def _has_late_quotes(self) -> bool:
        """Whether a quote may follow spaces, which Arrow's parser takes for a part of the cell.

        A line without an end, which that parser would hold whole, is refused on the way.
        """
        late, last, length = re.compile(rf'(^|[{self.delimiter}\r\n]) +"'.encode()), b"", 0
        with self._bytes() as file:
            while block := file.read(BLOCK):
                ends = max(block.rfind(b"\n"), block.rfind(b"\r"))
                length = length + len(block) if ends < 0 else len(block) - ends
                if length > LONGEST:
                    raise self._too_long()
                if b' "' in last + block and late.search(last + block):
                    return True
                last = block[-64:]
        return False

    def _rows(self, file: Any) -> Iterator[list[str]]:
        return csv.reader(self._lines(file), delimiter=self.delimiter, skipinitialspace=True)

    def _lines(self, file: Any) -> Iterator[str]:
        while line := file.readline(LONGEST):
            if len(line) == LONGEST:
                raise self._too_long()
            yield line

    def _too_long(self) -> InputError:
        return InputError(f"{self.path.name} has a line of more than {LONGEST:,} characters; is it a CSV file?")

    def _known(self, encoding: str | None) -> str:
        """The encoding of the file: what was said, or what its first bytes say."""
        found = encoding
        if found is None:
            with pa.input_stream(str(self.path), compression="detect") as file:
                found = find_encoding(iter(lambda: bytes(file.read(BLOCK)), b""))
        try:
            return codecs.lookup(found).name
        except LookupError:
            raise InputError(f"there is no encoding {found!r}; such as utf-8, latin-1 or cp1252") from None

    def _bytes(self) -> Any:
        file = pa.input_stream(str(self.path), compression="detect")
        return file if self.encoding == "utf-8" else pa.transcoding_input_stream(file, self.encoding, "utf-8")

    def _text(self) -> Any:
        return io.TextIOWrapper(self._bytes(), encoding="utf-8-sig", newline="")

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, csv.Error, UnicodeError, OSError) as error:
            raise InputError(f"{self.path.name} cannot be read as CSV: {self._said(error)}") from None

    def _said(self, error: Exception) -> str:
        """What is wrong, without any cell: Arrow's own words hold the row."""
        ragged = re.search(r"(Row #\d+: )?Expected (\d+) columns, got (\d+)", str(error))
        if ragged:
            where = (ragged[1] or "a row: ").replace("Row #", "row ").rstrip(": ")
            return f"{where} has {ragged[3]} cells, but its header names {ragged[2]} columns (the header is row 1)"
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            return (
                f"it is not in {self.encoding}; say what it is in, such as latin-1 or cp1252: tacit --encoding latin-1 "
                f"..., or the variable {ENCODING}"
            )
        return "its quotes or its lines do not end" if isinstance(error, pa.ArrowInvalid) else str(error)


def frame_columns(
    names: Sequence[str], parts: Sequence[pa.RecordBatch], decimal: str = ".", dates: bool = False
) -> dict[str, Any]:
    """Columns of text cells as numbers, booleans or text, by what all of their cells are; with `dates` as those too."""
    columns = [pa.chunked_array([b.column(i) for b in parts], pa.string()) for i in range(len(names))]
    return {name: _typed(c, decimal, dates) for name, c in zip(names, columns, strict=True)}


def _as_batch(rows: list[list[str]], at: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([r[k] for r in rows], pa.string()) for k in at], names=[str(k) for k in at])


def cells_of(text: Any) -> Any:
    """An Arrow column of cells by the rule `cell_value`, for all at once: gaps are null."""
    text = pc.utf8_ltrim(text, " ")
    return pc.if_else(pc.is_in(text, value_set=pa.array(GAPS)), pa.scalar(None, pa.string()), text)


def spelled_numbers(text: Any) -> Any:
    """Cells with booleans as 1 and 0."""
    lower = pc.utf8_lower(text)
    for word, value in TRUTH.items():
        text = pc.if_else(pc.equal(lower, word), str(int(value)), text)
    return text


def as_floats(text: Any) -> Any:
    """Cells as doubles, where every one of them is a number; else None."""
    try:
        found = pc.cast(text, pa.float64())
        return None if pc.any(pc.is_nan(found)).as_py() else found  # "NAN" is not among the gaps
    except pa.ArrowInvalid:
        return None


def _times(dates: Any, text: Any) -> Any:
    """Dates in the form of ISO as points in time; as text where one does not exist."""
    try:
        found = [None if d is None else datetime.datetime.fromisoformat(d) for d in dates.to_pylist()]
        utc = [d if d is None or d.tzinfo is None else d.astimezone(datetime.UTC).replace(tzinfo=None) for d in found]
        return np.array(utc, dtype="datetime64[us]")
    except (ValueError, OverflowError):
        return text.to_pylist()


def _typed(text: pa.ChunkedArray, decimal: str, dates: bool) -> Any:
    """A column for a fit: booleans, whole numbers, numbers, dates or text."""
    text = cells_of(text)
    numeric = without_gap_words(with_points(text) if decimal == "," else text)
    if numeric.null_count < len(numeric) and (as_floats(numeric) is not None):
        text = numeric
    if text.null_count == len(text):
        return np.full(len(text), np.nan)
    if pc.all(pc.is_in(pc.utf8_lower(text.drop_null()), value_set=pa.array(list(TRUTH)))).as_py():
        truth = pc.equal(pc.utf8_lower(text), "true")
        return truth.to_numpy() if not text.null_count else np.array(truth.to_pylist(), dtype=object)
    numbers = as_floats(text)
    if numbers is None:
        try:
            found = [None if t is None else text_number(t) for t in text.to_pylist()]
        except ValueError:
            found_dates = iso_dates(text) if dates else None
            return text.to_pylist() if found_dates is None else _times(found_dates, text)
        numbers = pa.chunked_array([pa.array(found, pa.float64())])
    if not text.null_count:
        try:
            return pc.cast(text, pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            pass
    return numbers.to_numpy()
