"""A certificate for attackers who see any two (or three) released columns and no more."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.trial import Trial
from tacit.filters.mechanism import sees_sensitive
from tacit.report.findings import Finding


@measurement("few_columns", auto=lambda trial: sees_sensitive(trial.release))
def few_columns(trial: Trial, context: Context) -> Iterable[Finding]:
    """Report nothing more: `tacit.audit` certifies these attackers with the others, since they share the error."""
    return []
