"""The mask alone, without a pixel: its shape may give a record away."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding


@measurement("mask", needs=lambda trial: hasattr(trial.release, "mask"), place=70)
def mask(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack the bare mask of a release that has ``mask``."""
    masks = [np.asarray(trial.release.mask(d.X), float) for d in trial.data]
    results = context.suite.measure(trial.showing(masks), "sensitive")
    return context.attacked("mask only", "where the mask lies, but nothing of what it shows", results)
