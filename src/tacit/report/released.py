"""What was released of the audited rows, counted: what later releases are compared with to notice drift.

Counts travel in every bundle, so nothing in them is about few people: a value that fewer than `FEWEST` share is counted
with all others, and no sensitive label is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
class Telling:
    """What released values tell of one sensitive attribute: ends that hold together, over values that many share.

    Attributes
    ----------
    rarest : lower end of the share of the rarest class
    ratio : ends of P(class | value) / P(class), over all classes and values
    best : ends of the largest P(class | value), over all values
    """

    rarest: float
    ratio: tuple[float, float]
    best: tuple[float, float]


@dataclass(frozen=True)
class Released:
    """Counts of the audited rows' releases, one record a unit.

    Attributes
    ----------
    names : the released columns that were counted
    whole : whether a value is all that is released of a record; else columns are counted one by one
    columns : what was counted, by column; under "release" where that is the whole
    telling : by sensitive attribute, what a value tells of it; where values are whole releases
    """

    names: tuple[str, ...]
    whole: bool
    columns: Mapping[str, ReleasedColumn]
    telling: Mapping[str, Telling] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Records that were counted."""
        return sum(next(iter(self.columns.values())).counts)
