"""What became of a table that left as a table: values kept, shares, associations, and what a model learns from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.report.results import shown


@dataclass(frozen=True)
class ColumnChange:
    """One column before and after.

    Attributes
    ----------
    kept : share of values that are as they were, at the resolution of the release
    values : the released values as text, the most frequent first
    before, after : the share of records with each of them
    """

    kept: float
    values: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True)
class Question:
    """How often a model of one column, made from the others, is right on raw rows that it did not see.

    Attributes
    ----------
    released : a model that learned from the release
    raw : one that learned from raw rows
    guessing : the share of the most frequent answer
    declared : whether the column is a target
    """

    released: float
    raw: float
    guessing: float
    declared: bool


@dataclass(frozen=True)
class TableChange:
    """A released table beside the raw one.

    Attributes
    ----------
    columns : by name
    questions : by column, the targets first
    before, after : how much each pair of columns tells of each other (Cramer's V, 0 to 1), in the order of `columns`
    """

    columns: Mapping[str, ColumnChange]
    questions: Mapping[str, Question]
    before: tuple[tuple[float, ...], ...]
    after: tuple[tuple[float, ...], ...]

    @property
    def kept(self) -> float:
        """The share of all values that are as they were, at the resolution of the release."""
        return sum(c.kept for c in self.columns.values()) / max(1, len(self.columns))

    @property
    def sentences(self) -> list[str]:
        """What became of the table, in words."""
        least = sorted(self.columns, key=lambda name: self.columns[name].kept)[:3]
        told = ", ".join(f"{name} {shown(self.columns[name].kept)}" for name in least)
        asked = [
            f"a model of {name} that learned from the release is right {shown(q.released)} of the time on raw rows "
            f"(learned from raw rows {shown(q.raw)}, the most frequent answer {shown(q.guessing)})"
            for name, q in self.questions.items()
            if q.declared
        ]
        kept = f"kept: {shown(self.kept)} of all values are as they were, numbers but for rounding (least: {told})"
        return [kept, *asked]
