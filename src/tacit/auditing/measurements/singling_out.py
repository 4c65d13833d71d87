"""Singling out: whether predicates that hold in the release pick out one person of the raw table."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.singling_out import measure_singling_out
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding


@measurement("singling_out", place=210)
def singling_out(trial: Trial, context: Context) -> Iterable[Finding]:
    """Count how often a predicate that the release suggests picks out exactly one person."""
    context.report["singling_out"] = measure_singling_out(trial)
    return []
