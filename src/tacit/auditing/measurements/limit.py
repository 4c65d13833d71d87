"""The estimated limit: the best utility that any release could have at each leakage."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.measurements.baseline import floor_of
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding


@measurement("limit", needs="a target", auto=lambda trial: trial.settings.wanted("baseline") is not False, place=151)
def limit(trial: Trial, context: Context) -> Iterable[Finding]:
    """Estimate the limit; without being named, only where that takes seconds."""
    found = floor_of(trial, context)
    context.report["limit"] = found.limit
    if found.note and trial.test.y.shape[1] == 1:
        context.report.setdefault("notes", []).append(found.note)
    return []
