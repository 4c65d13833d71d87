"""How much a release resembles its record: reconstruction, embeddings, warped distance. Wired to the audit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.dtw import dtw_rank
from tacit.audit.likeness import mean_ssim, r_squared, reconstruction, similarity
from tacit.audit.released import plain
from tacit.audit.stats import Measure
from tacit.errors import InputError
from tacit.records.dataset import Dataset
from tacit.records.encoding import make_encoder
from tacit.report.results import Resemblance

MOST_ROWS = 8000  # that a reconstruction learns from, and is tested on
MOST_PIXELS = 64  # a side of an example image in the report
NAMES = range(3, 101)  # numbers of classes for which a rank among "users" says something


def resemblance(
    Za: Any,
    attack: Dataset,
    Zt: Any,
    test: Dataset,
    *,
    reconstruct: bool,
    embed: Callable[[np.ndarray], np.ndarray] | None,
    dtw_windows: int,
    examples: int,
    level: float,
    seed: int,
) -> Resemblance:
    """Measure everything that applies to this kind of release."""
    measures: dict[str, Measure] = {}
    found = Resemblance()
    if reconstruct:
        found = _reconstruct(Za, attack, Zt, test, examples, level, seed)
        measures |= found.measures
    same_shape = not isinstance(Zt, pd.DataFrame) and np.shape(Zt) == np.shape(test.X)
    if embed is not None:
        if not same_shape:
            raise InputError(
                f"embed compares a release with its record, so both need one shape; found {np.shape(Zt)[1:]} "
                f"and {np.shape(test.X)[1:]}"
            )
        measures["similarity"] = similarity(embed, np.asarray(test.X), np.asarray(Zt), test.units_of(), level)
    if same_shape and np.ndim(Zt) == 3 and dtw_windows:
        scale: Any = make_encoder(np.asarray(attack.X, float))
        raw, out = scale.transform(np.asarray(test.X, float)), scale.transform(np.asarray(Zt, float))
        for name, users in test.sensitive.items():
            if users.notna().all() and users.nunique() in NAMES:
                ranked = dtw_rank(raw, out, users.astype(str).to_numpy(), dtw_windows, level=level, seed=seed)
                measures[f"DTW rank of {name}"] = ranked.rank
    return Resemblance(measures, found.columns, found.attacker, found.examples)


def _reconstruct(
    Za: Any, attack: Dataset, Zt: Any, test: Dataset, examples: int, level: float, seed: int
) -> Resemblance:
    """Regress the raw records on their releases: R² of all and of each column, SSIM for images."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.permutation(len(d))[:MOST_ROWS]) for d in (attack, test)]
    raw, out = make_encoder(plain(attack.X)), make_encoder(plain(Za))
    x, x_test = (raw.transform(plain(d.X))[r] for d, r in zip((attack, test), rows, strict=True))
    z, z_test = (out.transform(plain(Z))[r] for Z, r in zip((Za, Zt), rows, strict=True))
    ua, ut = (None if (u := d.units_of()) is None else u[r] for d, r in zip((attack, test), rows, strict=True))
    found = reconstruction(z, x, z_test, x_test, ua, ut, nonlinear=True, level=level, seed=seed)
    measures = {"reconstruction R²": found.r2}
    if x.ndim == 4:
        span = float(np.ptp(x))
        measures["SSIM"] = mean_ssim(x_test, found.guess, x.mean(axis=0), span or 1.0, ut, level)
    shown = []
    for i in range(min(examples, len(x_test)) if x.ndim > 2 else 0):
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
    """A record as short lists of numbers: images are thinned to at most MOST_PIXELS a side."""
    if record.ndim == 3:
        step = max(1, -(-max(record.shape[1:]) // MOST_PIXELS))
        record = record[:, ::step, ::step]
    nested: list[Any] = np.round(record.astype(float), 2).tolist()
    return nested
