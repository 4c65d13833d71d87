"""Arrow's functions over columns, as far as a CSV file needs them, where Arrow is not installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tacit.records.plain_columns import Array, ArrowInvalid, DataType, Scalar, array, bool_, string

# as Arrow reads numbers; Python reads more
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"-?[0-9]+")


def _each(text: Array, turn: Callable[[Any], Any], kind: DataType | None = None) -> Array:
    return Array([None if v is None else turn(v) for v in text.values], kind or text.type)


def _cells(value: Any, n: int) -> list[Any]:
    if isinstance(value, Array):
        return value.values
    return [value.value if isinstance(value, Scalar) else value] * n


def utf8_ltrim(text: Array, characters: str) -> Array:
    return _each(text, lambda v: v.lstrip(characters))


def utf8_trim(text: Array, characters: str) -> Array:
    return _each(text, lambda v: v.strip(characters))


def utf8_lower(text: Array) -> Array:
    return _each(text, str.lower)


def utf8_lpad(text: Array, width: int, padding: str) -> Array:
    return _each(text, lambda v: v.rjust(width, padding))


def replace_substring(text: Array, pattern: str, replacement: str) -> Array:
    return _each(text, lambda v: v.replace(pattern, replacement))


def match_substring_regex(text: Array, pattern: str) -> Array:
    # Arrow's $ is the end of the text; Python's is also before a last line break
    found = re.compile(pattern.replace("$", r"\Z"))
    return _each(text, lambda v: found.search(v) is not None, bool_())


def extract_regex(text: Array, pattern: str) -> Array:
    """Named groups, "" for one that took no part; a gap where the pattern does not match."""
    found = re.compile(pattern.replace("$", r"\Z"))
    matches = [None if v is None else found.search(v) for v in text.values]
    return Array([None if m is None else m.groupdict("") for m in matches], DataType("struct"))


def struct_field(structs: Array, name: str) -> Array:
    return _each(structs, lambda v: v[name], string())


def binary_join_element_wise(*parts: Any) -> Array:
    """Texts joined by the last of the arguments, a gap where one is."""
    n = max(len(p) for p in parts if isinstance(p, Array))
    *columns, separator = (_cells(p, n) for p in parts)
    joined = [None if None in row else s.join(row) for s, *row in zip(separator, *columns, strict=True)]
    return Array(joined, string())


def is_in(text: Array, value_set: Array) -> Array:
    known = set(value_set.values)
    return Array([v in known for v in text.values], bool_())


def if_else(condition: Array, yes: Any, no: Any) -> Array:
    n = len(condition)
    rows = zip(condition.values, _cells(yes, n), _cells(no, n), strict=True)
    kind = next(c.type for c in (no, yes) if isinstance(c, Array))
    return Array([None if c is None else a if c else b for c, a, b in rows], kind)


def fill_null(column: Array, value: Any) -> Array:
    return Array([value if v is None else v for v in column.values], column.type)


def equal(column: Array, value: Any) -> Array:
    return _each(column, lambda v: v == value, bool_())


def greater(column: Array, value: Any) -> Array:
    return _each(column, lambda v: v > value, bool_())


def is_nan(column: Array) -> Array:
    return _each(column, lambda v: v != v, bool_())


def and_not(left: Array, right: Array) -> Array:
    return Array([a and not b for a, b in zip(left.values, right.values, strict=True)], bool_())


def any(column: Array) -> Scalar:
    return Scalar(True in column.values)


def all(column: Array) -> Scalar:
    return Scalar(False not in column.values)


def cast(column: Array, kind: DataType) -> Array:
    """Text as numbers, where every cell is one; else an error."""
    if column.type.name != "string":
        return array(column.values, kind)
    rule = _WHOLE if kind.name == "int64" else _FLOAT
    if not _fits(column.values, rule):
        raise ArrowInvalid("a cell is no number")
    return array([None if v is None else (int if rule is _WHOLE else float)(v) for v in column.values], kind)


def _fits(values: list[Any], rule: re.Pattern[str]) -> bool:
    return None not in (rule.fullmatch(v) for v in values if v is not None)
