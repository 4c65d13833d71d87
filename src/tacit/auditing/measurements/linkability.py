"""Linkability: whether two releases can be recognised as one person's."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.auditing.linkability import measure_linkability
from tacit.auditing.measurements import Context, measurement
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding


@measurement("linkability", place=220)
def linkability(trial: Trial, context: Context) -> Iterable[Finding]:
    """Link two records of one person, two releases of one record (with ``views=``), or two halves of a row."""
    context.report["linkability"] = measure_linkability(trial)
    return []
