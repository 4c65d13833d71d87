"""Attackers trained on raw records, tested on released ones of the same format."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain_frame
from tacit.auditing.trial import Trial
from tacit.report.findings import Finding


def _same_format(trial: Trial) -> bool:
    """Whether raw and released records have one shape and columns of the same kinds."""
    raw, Zt = trial.attack.X, trial.Z[1]
    if trial.release is None or np.shape(raw)[1:] != np.shape(Zt)[1:]:
        return False
    if isinstance(Zt, pd.DataFrame) and not isinstance(raw, pd.DataFrame):
        return False  # an array came in, a table goes out
    kinds = ([pd.api.types.is_numeric_dtype(kind) for kind in plain_frame(Z).dtypes] for Z in (raw, Zt))
    return next(kinds) == next(kinds)


@measurement("transfer", needs=_same_format, place=30)
def transfer(trial: Trial, context: Context) -> Iterable[Finding]:
    """Attack with models of raw data: weaker than attackers trained on releases."""
    raw, Zt = trial.attack.X, trial.Z[1]
    if isinstance(raw, pd.DataFrame):
        Zt = plain_frame(Zt).set_axis(raw.columns, axis=1)
    results = context.suite.measure(trial.showing([raw, Zt]), "sensitive")
    knows = "raw records with their sensitive attributes, no released ones (weaker than adaptive)"
    return context.attacked("transfer", knows, results)
