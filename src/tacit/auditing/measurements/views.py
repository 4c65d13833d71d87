"""This release and others of the same records, read together."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain_frame
from tacit.auditing.trial import Trial, released_parts
from tacit.report.findings import Finding


@measurement("views", needs="views", place=60)
def views(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack several releases of the same records together."""
    others = [released_parts(v, trial.data) for v in trial.settings.views]
    tables = ([plain_frame(Z) for Z in part] for part in zip(trial.Z, *others, strict=True))
    both = [pd.concat(part, axis=1) for part in tables]
    both = [table.set_axis(range(table.shape[1]), axis=1) for table in both]
    results = context.suite.measure(trial.showing(both), "sensitive")
    return context.attacked("several views", f"{len(others) + 1} releases of the same records together", results)
