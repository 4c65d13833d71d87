"""Similarity of releases to their own records: by an embedding, or by dynamic time warping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.dtw import dtw_rank
from tacit.auditing.likeness import similarity
from tacit.auditing.measurements import Context, measurement
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.records.encoding import make_encoder
from tacit.report.findings import Finding

NAMES = range(3, 101)  # numbers of classes for which a rank among "users" says something


@measurement("similarity", place=250)
def measure_similarity(trial: Trial, context: Context) -> list[Finding]:
    """Compare releases with their records, where both have one shape."""
    settings, test, Zt = trial.settings, trial.test, trial.Z[1]
    findings = []
    same_shape = not isinstance(Zt, pd.DataFrame) and np.shape(Zt) == np.shape(test.X)
    if settings.embed is not None:
        if not same_shape:
            raise InputError(
                f"embed compares a release with its record, so both need one shape; found {np.shape(Zt)[1:]} "
                f"and {np.shape(test.X)[1:]}"
            )
        originals, releases = np.asarray(test.X), np.asarray(Zt)
        found = similarity(settings.embed, originals, releases, test.units_of(), settings.level)
        findings.append(Finding("similarity", "record", *found, "embedding", "similarity"))
    if same_shape and np.ndim(Zt) == 3 and trial.release is not None:
        scale: Any = make_encoder(np.asarray(trial.attack.X, float))
        raw, out = scale.transform(np.asarray(test.X, float)), scale.transform(np.asarray(Zt, float))
        for name, users in test.sensitive.items():
            if users.notna().all() and users.nunique() in NAMES:
                windows = 40 if settings.strong else 10
                who = users.astype(str).to_numpy()
                ranked = dtw_rank(raw, out, who, windows, level=settings.level, seed=settings.seed)
                findings.append(Finding("similarity", str(name), *ranked.rank, "time warping", "DTW rank"))
    return findings
