"""The release alone, where columns travel with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding


@measurement("side_information", needs="alongside", place=0)
def side_information(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack the release without the columns that travel with it."""
    beside = trial.settings.alongside
    bare = Trial.of(trial.release, trial.attack, trial.test, replace(trial.settings, alongside=()))
    results = context.suite.measure(bare, "sensitive")
    return context.attacked("without side information", f"the release but not {', '.join(beside)}", results)
