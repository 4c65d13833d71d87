"""Write CSV as Arrow does, byte for byte, where Arrow is not installed: text in quotes, numbers as short as they go."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import numpy as np

SMALLEST, LARGEST = 1e-6, 1e10  # numbers that are written without an exponent


def write_plainly(file: Any, parts: Iterable[Any], schema: Any) -> None:
    """Header and rows of batches of plain columns, to a file of bytes."""
    file.write((",".join(map(_cell, schema.names)) + "\n").encode())
    for part in parts:
        rows = zip(*([_cell(v) for v in c.to_pylist()] for c in part.columns), strict=True)
        file.write("".join(",".join(row) + "\n" for row in rows).encode())


def _cell(value: Any) -> str:
    """A cell as it is written.

    >>> [_cell(v) for v in (None, "a", True, 3, 1.0, 1e-7, 2.5e12)]
    ['', '"a"', 'true', '3', '1', '1e-7', '2.5e+12']
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return '"{}"'.format(value.replace('"', '""'))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds")
    if isinstance(value, datetime.timedelta):
        return str(value // datetime.timedelta(microseconds=1))
    return str(value)


def _number(value: float) -> str:
    if not np.isfinite(value):
        return str(value)
    if value == 0 or SMALLEST <= abs(value) < LARGEST:
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1)
