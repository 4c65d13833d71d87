"""What a cell of a text file means: one rule for `apply`, `stream` and the client. Needs nothing but Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# what pandas, with which tables are fitted, takes for a gap
GAPS = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null")  # fmt: skip
TRUTH = {"true": "1", "false": "0"}  # in any case, where a column holds booleans
_GAPS = frozenset(GAPS)


def cell_value(text: str, column: Mapping[str, Any] | None) -> str | None:
    """A cell as a bundle's schema has it: None for a gap, a boolean as 1 or 0, else its text without leading spaces.

    Parameters
    ----------
    text : the cell, quotes already off
    column : the schema's entry of its column; None where the schema has no names
    """
    text = text.lstrip(" ")  # spaces after a comma do not count
    if text in _GAPS:
        return None
    return TRUTH.get(text.lower(), text) if column is not None and column.get("type") == "boolean" else text
