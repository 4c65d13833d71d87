"""What the cells of a text file mean: gaps, booleans, decimal commas, dates, numbers. For whole Arrow columns at once.

`tacit.records.cells` is the same rule for single values, on devices that have no Arrow.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.records.cells import GAPS, TRUTH, text_number
from tacit.records.schema import TIMES

# what stands for a gap in a column of numbers or dates, in any case; in a column of words these are words
NO_NUMBER = ("-", "--", "---", ".", "..", "...", "?", "n.a.", "n.a", "n/a.", "k.a.", "k. a.", "k.a", "na", "none",
             "missing", "unknown", "null", "nil", "(null)", "\\n", "#null!", "#div/0!", "#value!", "#ref!")  # fmt: skip
COMMA_NUMBER = r"^[+-]?[0-9]{1,3}(\.[0-9]{3})*(,[0-9]+)?$|^[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?$"
ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
TURNED = (
    r"^(?P<a>[0-9]{1,2})(?P<s>[./-])(?P<b>[0-9]{1,2})[./-](?P<y>[0-9]{4})(?P<t>[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?$"
)


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


def frame_columns(
    names: Sequence[str], parts: Sequence[pa.RecordBatch], decimal: str = ".", dates: bool = False
) -> dict[str, Any]:
    """Columns of text cells as numbers, booleans or text, by what all of their cells are; with `dates` as those too."""
    columns = [pa.chunked_array([b.column(i) for b in parts], pa.string()) for i in range(len(names))]
    return {name: typed_column(c, decimal, dates) for name, c in zip(names, columns, strict=True)}


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


def typed_column(text: pa.ChunkedArray, decimal: str, dates: bool) -> Any:
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


def declared_column(text: pa.Array, kind: Mapping[str, Any], decimal: str) -> pa.Array:
    """A column of cells as the schema has it; where one does not fit, as text: the schema finds it and names it."""
    text = cells_of(text)
    if kind["kind"] == "category":
        return text
    if kind["type"] in TIMES:
        dates = iso_dates(text)
        return text if dates is None else dates
    text = without_gap_words(with_points(text) if decimal == "," else text)
    numbers = as_floats(spelled_numbers(text) if kind["type"] == "boolean" else text)
    return text if numbers is None else numbers
