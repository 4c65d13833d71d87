"""How a text file is written: its encoding, separator and decimal sign, and how people spell dates and gaps.

Found from the file itself, the same for a fit and for a release, and told in words by the command line.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
LOOK = 2**16  # bytes by which a file is judged
LINES = 200
NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"  # which cp1252 does not have
# what stands for a gap in a column of numbers or dates, in any case; in a column of words these are words
NO_NUMBER = ("-", "--", "---", ".", "..", "...", "?", "n.a.", "n.a", "n/a.", "k.a.", "k. a.", "k.a", "na", "none",
             "missing", "unknown", "null", "nil", "(null)", "\\n", "#null!", "#div/0!", "#value!", "#ref!")  # fmt: skip
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+")
COMMA_NUMBER = r"^[+-]?[0-9]{1,3}(\.[0-9]{3})*(,[0-9]+)?$|^[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?$"
ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
TURNED = (
    r"^(?P<a>[0-9]{1,2})(?P<s>[./-])(?P<b>[0-9]{1,2})[./-](?P<y>[0-9]{4})(?P<t>[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?$"
)


def find_encoding(blocks: Sequence[bytes] | Any) -> str:
    """UTF-8 where all bytes are; UTF-16 by its mark or its zeros; else what Windows writes in the west, cp1252.

    Examples
    --------
    >>> find_encoding([b"caf\\xe9;1"]), find_encoding(["café".encode()]), find_encoding(["café,1".encode("utf-16-le")])
    ('cp1252', 'utf-8', 'utf-16-le')
    """
    decoder, start = codecs.getincrementaldecoder("utf-8")(), True
    try:
        for block in blocks:
            if start:
                if block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    return "utf-16"
                even, odd = block[0:LOOK:2].count(0), block[1:LOOK:2].count(0)
                if max(even, odd) > len(block[:LOOK]) / 10 and 10 * min(even, odd) < max(even, odd):
                    return "utf-16-le" if odd > even else "utf-16-be"
                if even or odd:
                    return "latin-1"  # no text at all, which whoever reads it says
            decoder.decode(block)
            start = False
        decoder.decode(b"", final=True)
        return "utf-8"
    except UnicodeDecodeError:
        return "latin-1" if any(byte in block for byte in NOT_WINDOWS) else "cp1252"


def find_separator(text: str) -> str:
    """What separates the cells of a file that begins so: what cuts the most lines into as many cells as the header.

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
        except csv.Error:  # whoever reads the file says what is wrong
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


def with_points(text: Any) -> Any:
    """An Arrow column of cells: numbers with a decimal comma get a point, other cells stay as they are."""
    points = pc.replace_substring(pc.replace_substring(pc.utf8_trim(text, " "), ".", ""), ",", ".")
    return pc.if_else(pc.fill_null(pc.match_substring_regex(text, COMMA_NUMBER), False), points, text)


def without_gap_words(text: Any) -> Any:
    """An Arrow column of cells, null where a word stands for a missing number."""
    words = pc.is_in(pc.utf8_lower(pc.utf8_trim(text, " ")), value_set=pa.array(NO_NUMBER))
    return pc.if_else(pc.fill_null(words, False), pa.scalar(None, pa.string()), text)


def iso_dates(text: Any) -> Any:
    """An Arrow column of dates as people write them, in the form of ISO 8601; None where it is no column of dates.

    3.4.2024 is the third of April; 3/4/2024 and 3-4-2024 are what the other cells of the column say (one has a day
    above 12), and no dates where none does.
    """
    text = pc.utf8_trim(without_gap_words(text), " ")
    known = text.drop_null()
    if not len(known):
        return None
    if pc.all(pc.match_substring_regex(known, ISO)).as_py():
        return text
    found = pc.extract_regex(known, TURNED)
    if found.null_count:
        return None
    parts = {k: pc.struct_field(found, k) for k in "asbyt"}
    first, second = (pc.cast(parts[k], pa.int64()) for k in "ab")
    dotted = pc.all(pc.equal(parts["s"], ".")).as_py()
    day_first, month_first = (bool(pc.any(pc.greater(n, 12)).as_py()) for n in (first, second))
    if (day_first and month_first) or not (dotted or day_first or month_first) or (dotted and month_first):
        return None
    if dotted:
        day_first = True
    every = pc.extract_regex(text, TURNED)
    day, month = (pc.utf8_lpad(pc.struct_field(every, k), 2, "0") for k in ("ab" if day_first else "ba"))
    dates = pc.binary_join_element_wise(pc.struct_field(every, "y"), month, day, "-")
    return pc.binary_join_element_wise(dates, pc.struct_field(every, "t"), "")
