"""Several draws of the noise on one record, averaged: what keyed noise prevents."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.trial import Trial, has_noise
from tacit.filters.mechanism import sees_sensitive
from tacit.report.findings import Finding

DRAWS = 10  # of the noise
KNOWS = f"{DRAWS} releases of each record under different keys (the same key gives the same noise, and no average)"


def _has_draws(trial: Trial) -> bool:
    """Whether the release is numbers with noise that can be drawn again; a table has no average."""
    numbers = not sees_sensitive(trial.release)
    return numbers and has_noise(trial.release) and hasattr(trial.release, "redraw")


@measurement("averaging", needs=_has_draws, place=50)
def averaging(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack the mean of several releases of each record."""
    copies = [trial.release.redraw() for _ in range(DRAWS)]
    means = [np.mean([c.transform(d.X) for c in copies], axis=0) for d in trial.data]
    return context.attacked("averaging", KNOWS, context.suite.measure(trial.showing(means), "sensitive"))
