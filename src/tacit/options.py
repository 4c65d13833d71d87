"""Options that Python and the command line share, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.callback import Callback, silent

if TYPE_CHECKING:
    from tacit.records.dataset import Dataset  # pandas is slow to import


@dataclass(frozen=True, eq=False)
class AuditOptions:
    """Hold the settings of an audit that are rarely changed.

    Parameters
    ----------
    name : str, optional
        Name of the release in the report
    train : Dataset, optional
        The rows the filter was fitted on: measures how much more they leak, and membership inference
    pooled : tuple of int
        Numbers of releases of one group of rows that an attacker reads together
    groups : tuple of str
        Columns of X by which leakage is also shown, next to the label columns
    embed : callable, optional
        Maps images to (n, d) embeddings; then the similarity of releases to their originals is measured
    examples : int
        How many windows or images the report shows next to their reconstructions. They are real records of `test`
    candidates : int
        How many releases, fixed beforehand, are certified on these rows to choose among; they share the error
    per : str
        "unit" gives everyone the same weight where people have several records, "record" every record
    max_unit_size : int, optional
        The most records that a unit can have, known beforehand; a certificate per record needs it
    few_columns : int
        How many released columns an attacker of the measurement "few_columns" sees
    callback : callable
        Called with (what, done, total) whenever an attacker starts, to show progress

    Examples
    --------
    >>> AuditOptions(candidates=20).per
    'unit'
    """

    name: str | None = None
    train: Dataset | None = None
    pooled: tuple[int, ...] = (5, 20)
    groups: tuple[str, ...] = ()
    embed: Callable[[Any], Any] | None = None
    examples: int = 0
    candidates: int = 1
    per: str = "unit"
    max_unit_size: int | None = None
    few_columns: int = 2
    callback: Callback = silent
