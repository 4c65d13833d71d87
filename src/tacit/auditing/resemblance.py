"""How much a release resembles its record: reconstruction, embeddings, warped distance. Wired to the audit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.dtw import dtw_rank
from tacit.auditing.likeness import mean_ssim, r_squared, reconstruction, similarity
from tacit.auditing.received import plain
from tacit.auditing.stats import Measure
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.records.encoding import make_encoder
from tacit.report.results import Resemblance

MAX_ROWS = 8000  # that a reconstruction learns from, and is tested on
MAX_PIXELS = 64  # a side of an example image in the report
NAMES = range(3, 101)  # numbers of classes for which a rank among "users" says something


def resemblance(trial: Trial) -> Resemblance:
    """Measure everything that applies to this kind of release."""
    asked, test, Zt = trial.asked, trial.test, trial.Z[1]
    measures: dict[str, Measure] = {}
    found = Resemblance()
    if asked.strong if asked.reconstruct is None else asked.reconstruct:
        found = _reconstruct(trial)
        measures |= found.measures
    same_shape = not isinstance(Zt, pd.DataFrame) and np.shape(Zt) == np.shape(test.X)
    if asked.embed is not None:
        if not same_shape:
            raise InputError(
                f"embed compares a release with its record, so both need one shape; found {np.shape(Zt)[1:]} "
                f"and {np.shape(test.X)[1:]}"
            )
        originals, releases = np.asarray(test.X), np.asarray(Zt)
        measures["similarity"] = similarity(asked.embed, originals, releases, test.units_of(), asked.level)
    if same_shape and np.ndim(Zt) == 3 and trial.release is not None:
        scale: Any = make_encoder(np.asarray(trial.attack.X, float))
        raw, out = scale.transform(np.asarray(test.X, float)), scale.transform(np.asarray(Zt, float))
        for name, users in test.sensitive.items():
            if users.notna().all() and users.nunique() in NAMES:
                windows = 40 if asked.strong else 10
                who = users.astype(str).to_numpy()
                ranked = dtw_rank(raw, out, who, windows, level=asked.level, seed=asked.seed)
                measures[f"DTW rank of {name}"] = ranked.rank
    return Resemblance(measures, found.columns, found.attacker, found.examples)


def _reconstruct(trial: Trial) -> Resemblance:
    """Regress the raw records on their releases: R² of all and of each column, SSIM for images."""
    level, seed = trial.asked.level, trial.asked.seed
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.permutation(len(d))[:MAX_ROWS]) for d in trial.data]
    raw, out = make_encoder(plain(trial.attack.X)), make_encoder(plain(trial.Z[0]))
    x, x_test = (raw.transform(plain(d.X))[r] for d, r in zip(trial.data, rows, strict=True))
    z, z_test = (out.transform(plain(Z))[r] for Z, r in zip(trial.Z, rows, strict=True))
    ua, ut = (None if (u := d.units_of()) is None else u[r] for d, r in zip(trial.data, rows, strict=True))
    found = reconstruction(z, x, z_test, x_test, ua, ut, nonlinear=True, level=level, seed=seed)
    measures = {"reconstruction R²": found.r2}
    if x.ndim == 4:
        span = float(np.ptp(x))
        measures["SSIM"] = mean_ssim(x_test, found.guess, x.mean(axis=0), span or 1.0, ut, level)
    shown = []
    for i in range(min(trial.asked.examples, len(x_test)) if x.ndim > 2 else 0):
        released = z_test[i] if z_test.shape == x_test.shape else None
        shown.append((_small(x_test[i]), None if released is None else _small(released), _small(found.guess[i])))
    return Resemblance(measures, _by_column(raw, x, x_test, found.guess, level), found.attacker, tuple(shown))


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
