"""Read CSV files: how a file is written is detected from its content, and its cells come as text, batch by batch.

What the cells mean is the rule of `tacit.records.spelling`.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import charset_normalizer
import pyarrow as pa
import pyarrow.csv as arrow_csv

from tacit.errors import InputError
from tacit.records.cells import header_names
from tacit.records.spelling import frame_columns, with_points

BLOCK = 2**22  # bytes that are parsed at a time
LONGEST = 2**24  # characters of a line
ENCODING = "TACIT_ENCODING"  # environment variable: what CSV files are in, where it is not UTF-8
ROWS = 2**14  # at a time, where Python's parser is needed
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
LOOK = 2**16  # bytes by which a file is judged
LINES = 200
ENCODINGS = ("cp1252", "cp1250", "cp1251", "cp1253", "cp1255", "cp1256", "shift_jis", "gb18030", "big5", "euc_kr")
NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"  # which cp1252 does not have
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+")


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


def find_encoding(blocks: Iterable[bytes]) -> str:
    """UTF-8 where all bytes are; UTF-16 by its mark or its zeros; cp1252 (western Windows) where that is possible.

    Of other bytes the most likely encoding, such as cp1251 for Cyrillic text.

    Examples
    --------
    >>> find_encoding([b"caf\\xe9;1"]), find_encoding(["café".encode()]), find_encoding(["café,1".encode("utf-16-le")])
    ('cp1252', 'utf-8', 'utf-16-le')
    """
    decoder, start = codecs.getincrementaldecoder("utf-8")(), True
    for block in blocks:
        if start:
            if block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                return "utf-16"
            even, odd = block[0:LOOK:2].count(0), block[1:LOOK:2].count(0)
            if max(even, odd) > len(block[:LOOK]) / 10 and 10 * min(even, odd) < max(even, odd):
                return "utf-16-le" if odd > even else "utf-16-be"
            if even or odd:
                return "latin-1"  # a binary file, which the reader of the text refuses
        start = False
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return _likely_encoding(block[max(0, error.start - LOOK // 2) :][:LOOK])
    try:
        decoder.decode(b"", final=True)
        return "utf-8"
    except UnicodeDecodeError:
        return "cp1252"


def _likely_encoding(text: bytes) -> str:
    """The encoding of bytes that are not UTF-8.

    charset-normalizer alone takes short western text for cp1250, cp852 or Chinese, so cp1252 comes first.
    """
    found = charset_normalizer.from_bytes(text, cp_isolation=list(ENCODINGS))
    fits = {name for match in found for name in match.could_be_from_charset}
    best = found.best()
    if best is not None and "cp1252" not in fits and best.coherence > 0:
        return best.encoding
    return "latin-1" if any(byte in text for byte in NOT_WINDOWS) else "cp1252"


def find_separator(text: str) -> str:
    """The separator of a file that begins so: what cuts the most lines into as many cells as the header.

    csv.Sniffer names a wrong one for 16 of 240 synthetic tables (decimal commas, words with other separators).

    Examples
    --------
    >>> find_separator("name;price\\nA, B;1,5\\nC;2,0\\n")
    ';'
    """
    lines = text.splitlines()[:LINES]
    best, most = ",", (0.0, 0)
    for separator in SEPARATORS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]
        except csv.Error:  # the reader of the file reports it
            continue
        width = len(rows[0]) if rows else 0
        if width > 1:
            alike = sum(len(row) == width for row in rows) / len(rows)
            if (alike, width) > most:
                best, most = separator, (alike, width)
    return best


def find_decimal(rows: Sequence[Sequence[str]], separator: str) -> str:
    """The decimal sign of a file with such rows: a comma only where one column has them and none has points.

    Examples
    --------
    >>> find_decimal([["a", "1,5"], ["b", "2"]], ";"), find_decimal([["1.5", "2,5"]], ";")
    (',', '.')
    """
    if separator == ",":
        return "."
    cells = [cell.strip() for row in rows for cell in row]
    points = any(_POINT.fullmatch(c) and not _THOUSANDS.fullmatch(c) for c in cells)
    return "," if not points and any(_COMMA.fullmatch(c) for c in cells) else "."


def _as_batch(rows: list[list[str]], at: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([r[k] for r in rows], pa.string()) for k in at], names=[str(k) for k in at])
