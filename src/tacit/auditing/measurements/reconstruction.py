"""Reconstruction: how well the raw records can be regressed on their releases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.auditing.likeness import mean_ssim, r_squared, reconstruction
from tacit.auditing.measurements import Context, measurement
from tacit.auditing.received import plain
from tacit.auditing.stats import Measure
from tacit.auditing.trial import Trial
from tacit.records.encoding import make_encoder
from tacit.report.findings import Finding

MAX_ROWS = 8000  # that a reconstruction learns from, and is tested on
MAX_PIXELS = 64  # a side of an example image in the report


@measurement("reconstruction", auto=lambda trial: trial.settings.strong, place=240)
def report_reconstruction(trial: Trial, context: Context) -> list[Finding]:
    """Regress the raw records on their releases: R² of all and of each column, SSIM of images."""
    level, seed = trial.settings.level, trial.settings.seed
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.permutation(len(d))[:MAX_ROWS]) for d in trial.data]
    raw, out = make_encoder(plain(trial.attack.X)), make_encoder(plain(trial.Z[0]))
    x, x_test = (raw.transform(plain(d.X))[r] for d, r in zip(trial.data, rows, strict=True))
    z, z_test = (out.transform(plain(Z))[r] for Z, r in zip(trial.Z, rows, strict=True))
    ua, ut = (None if (u := d.units_of()) is None else u[r] for d, r in zip(trial.data, rows, strict=True))
    found = reconstruction(z, x, z_test, x_test, ua, ut, nonlinear=True, level=level, seed=seed)
    findings = [Finding("reconstruction", "record", *found.r2, found.attacker, "R²")]
    if x.ndim == 4:
        span = float(np.ptp(x))
        ssim = mean_ssim(x_test, found.guess, x.mean(axis=0), span or 1.0, ut, level)
        findings.append(Finding("reconstruction", "record", *ssim, found.attacker, "SSIM"))
    shown = []
    for i in range(min(trial.settings.examples, len(x_test)) if x.ndim > 2 else 0):
        released = z_test[i] if z_test.shape == x_test.shape else None
        shown.append((_small(x_test[i]), None if released is None else _small(released), _small(found.guess[i])))
    context.report["examples"] = tuple(shown)
    columns = _by_column(raw, x, x_test, found.guess, level)
    return findings + [Finding("reconstruction", c, *m, found.attacker, "R²") for c, m in columns.items()]


def _by_column(encoder: Any, x: np.ndarray, x_test: np.ndarray, guess: np.ndarray, level: float) -> dict[str, Measure]:
    """R² of each raw column; a category's one-hot numbers count together. Best reconstructed first."""
    if x.ndim != 2 or not hasattr(encoder, "columns"):
        return {}
    error, total = (x_test - guess) ** 2, (x_test - x.mean(axis=0)) ** 2
    who, at, out = np.arange(len(x_test)), 0, {}
    for column in encoder.columns:
        block = slice(at, at + column.width)
        at += column.width
        if total[:, block].sum() > 0:
            out[column.name] = r_squared(error[:, block].sum(1), total[:, block].sum(1), who, level)
    return dict(sorted(out.items(), key=lambda item: -item[1].value))


def _small(record: np.ndarray) -> list[Any]:
    """A record as short lists of numbers: images are thinned to at most MAX_PIXELS a side."""
    if record.ndim == 3:
        step = max(1, -(-max(record.shape[1:]) // MAX_PIXELS))
        record = record[:, ::step, ::step]
    nested: list[Any] = np.round(record.astype(float), 2).tolist()
    return nested
