"""Which certificate a release can have, for every secret and for their product, and why not where none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.certificate import (
    Certificate,
    LocalPrivacyCertificate,
    certify,
    certify_local_privacy,
    product_secret,
    release_cells,
    units_needed,
)
from tacit.audit.gaussian import GaussianCertificate, certify_gaussian
from tacit.audit.released import has_noise, known_classes, plain_frame
from tacit.audit.report import AnyCertificate
from tacit.dataset import Dataset
from tacit.labels import MISSING, encode_labels

VACUOUS = 0.99  # a bound above this tells of epsilon, not of the release
Certifier = Callable[[np.ndarray, np.ndarray, int, float, np.ndarray | None], AnyCertificate]


@dataclass(frozen=True)
class Certified:
    """Per secret (and for the product of several) a certificate or None, and the two-sided upper end."""

    certificate: dict[str, AnyCertificate | None]
    bound: dict[str, float | None]
    notes: list[str]


def certify_release(
    release: Any,
    versions: Sequence[tuple[Any, Dataset, Any, Dataset]],
    level: float,
    candidates: int,
    seed: int,
) -> Certified:
    """Certify every secret on all fresh rows (attackers never touch the filter, so both parts may count).

    Each version is (release of attack, attack, release of test, test); the largest bound over versions counts.
    """
    names = list(versions[0][1].sensitive.columns)
    asked = [*names, " x ".join(names)] if len(names) > 1 else names
    out = Certified(dict.fromkeys(asked), dict.fromkeys(asked), [])
    certifiers = [_certifier(release, version, candidates, seed) for version in versions]
    if any(c is None for c in certifiers):
        kind = "this kind of noise" if has_noise(release) else "a deterministic continuous release"
        out.notes.append(f"no certificate exists for {kind}: audited, not certified")
        return out
    delta = (1 - level) / len(asked) if asked else 0.0  # the statements hold together
    for name in asked:
        columns = names if name not in names else [name]
        found: list[list[AnyCertificate]] = [[], []]
        for certifier, (_, attack, _, test) in zip(certifiers, versions, strict=True):
            secret, n_classes, units = _secret(attack, test, columns)
            for side, share in zip(found, (delta, delta / 2), strict=True):
                side.append(certifier(np.flatnonzero(secret != MISSING), secret, n_classes, share, units))  # type: ignore[misc]
        one_sided, two_sided = (max(side, key=lambda c: c.bound) for side in found)
        reason = _useless(two_sided)
        if reason is None:
            out.certificate[name], out.bound[name] = one_sided, two_sided.bound
        else:
            plan = _plan(versions[0], columns, level)
            out.notes.append(f"{name}: {reason}{plan if isinstance(two_sided, Certificate) else ''}")
    return out


def _certifier(
    release: Any, version: tuple[Any, Dataset, Any, Dataset], candidates: int, seed: int
) -> Certifier | None:
    """The kind of certificate this release can have: by what it declares, by counting, by its noise, or none."""
    Za, attack, Zt, test = version
    if getattr(release, "certified_by", None) == "local privacy":

        def by_local_privacy(rows: Any, secret: Any, m: int, delta: float, units: Any) -> AnyCertificate:
            return certify_local_privacy(release.epsilon_, secret[rows], m, delta, _at(units, rows))

        return by_local_privacy
    cells = _cells(Za, Zt)
    if cells is not None:

        def by_counting(rows: Any, secret: Any, m: int, delta: float, units: Any) -> AnyCertificate:
            return certify(cells[rows], secret[rows], m, delta, _at(units, rows), candidates)

        return by_counting
    if getattr(release, "noise", None) and hasattr(release, "noiseless"):
        codes = np.concatenate([release.noiseless(attack.X), release.noiseless(test.X)])

        def by_noise(rows: Any, secret: Any, m: int, delta: float, units: Any) -> AnyCertificate:
            return certify_gaussian(
                codes[rows], secret[rows], m, release.noise, 0.8 * delta, 0.2 * delta,
                units=_at(units, rows), seed=seed, candidates=candidates,
            )  # fmt: skip

        return by_noise
    return None


def _secret(attack: Dataset, test: Dataset, columns: list[str]) -> tuple[np.ndarray, int, np.ndarray | None]:
    """One secret, or the product of several, over both parts: codes, number of classes, units."""
    frames = attack.sensitive, test.sensitive
    codes = np.column_stack(
        [
            np.concatenate([encode_labels(f[[c]], c, len(f), known_classes(frames, c)).codes[:, 0] for f in frames])
            for c in columns
        ]
    )
    secret = product_secret(codes) if len(columns) > 1 else codes[:, 0]
    units = None
    if attack.units is not None:
        units = pd.factorize(np.concatenate([attack.units_of(columns[0]), test.units_of(columns[0])]))[0]
    return secret, int(secret.max()) + 1, units


def _useless(c: AnyCertificate) -> str | None:
    """Why a bound says nothing about the release; None where it does."""
    if isinstance(c, GaussianCertificate) and c.vacuous:
        return (
            f"the noise certificate would be vacuous (on shuffled labels the same codes give {c.null_plugin:.3f}, "
            f"guessing is {c.guessing:.3f}): audited, not certified. Fewer components or more noise would help"
        )
    if isinstance(c, LocalPrivacyCertificate) and c.bound > VACUOUS:
        return (
            f"local privacy with epsilon {c.epsilon:g} excludes nothing (any attacker <= {c.bound:.3f}): audited, not "
            f"certified. Lower epsilon"
        )
    # a bound of 1 that the slack made, not the leak
    if c.bound >= 1 and c.plugin < (1 + c.guessing) / 2:
        return f"too few units to certify ({c.n_units:,} units)"
    return None


def _plan(version: tuple[Any, Dataset, Any, Dataset], columns: list[str], level: float) -> str:
    """How many units a useful certificate would take, in words."""
    Za, attack, Zt, test = version
    cells = _cells(Za, Zt)
    if cells is None:
        return ""
    secret, m, units = _secret(attack, test, columns)
    known = np.flatnonzero(secret != MISSING)
    aim = (1 + 1 / m) / 2
    needed = units_needed(cells[known], secret[known], m, aim, 1 - level, _at(units, known))
    return "" if needed is None else f"; a bound of {aim:.2f} would take about {needed:,} units a class"


def _cells(Za: Any, Zt: Any) -> np.ndarray | None:
    """The number of each record's release among the distinct ones, both parts in a row; None if not finite."""
    both = pd.concat([plain_frame(Za), plain_frame(Zt)], ignore_index=True)
    return release_cells(
        np.column_stack([pd.factorize(_as_released(both[c]))[0] for c in both.columns]).astype(np.int64)
    )


def _as_released(column: pd.Series) -> Any:
    """Numbers by their bits: 0.0 and -0.0 are equal, but an attacker can tell them apart."""
    return column.to_numpy().view(np.int64) if column.dtype == np.float64 else column


def _at(units: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if units is None else units[rows]
