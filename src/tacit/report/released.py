"""Counts of the values that were released of the audited rows; a later audit compares its own with them.

Counts travel in every bundle, so nothing in them is about few people: a value that fewer than `FEWEST` share is counted
with all others, and no sensitive label is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FEWEST = 5  # records that share a value for it to be named


@dataclass(frozen=True)
class ReleasedColumn:
    """Counts of one released column, or of all that is released of a record.

    Attributes
    ----------
    counts : of each value (or stretch of numbers), then of all other values together
    values : that are counted apart, as text; empty where stretches of numbers are counted
    edges : between the stretches, to four digits
    """

    counts: tuple[int, ...]
    values: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()


@dataclass(frozen=True)
class Released:
    """Counts of the audited rows' releases, one record a unit.

    Attributes
    ----------
    names : the released columns that were counted
    whole : whether a value is all that is released of a record; else columns are counted one by one
    columns : what was counted, by column; under "release" where that is the whole
    """

    names: tuple[str, ...]
    whole: bool
    columns: Mapping[str, ReleasedColumn]

    @property
    def n(self) -> int:
        """Records that were counted."""
        return sum(next(iter(self.columns.values())).counts)
