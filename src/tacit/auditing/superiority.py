"""Acc-Priv superiority (DPFE, definition 11): more privacy at every accuracy. Pure: two curves in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.errors import InputError, check_number

STEPS = 400


@dataclass(frozen=True)
class Superiority:
    """Whether one curve gives more privacy than another at every accuracy that both reach.

    Attributes
    ----------
    superior : nowhere on the common range less private (beyond `tolerance`), and somewhere more
    common : (lowest, highest) accuracy that both curves reach
    where_not : the ranges of accuracy in which it is less private
    unreached : accuracies the other curve reaches and this one does not, as (low, high); None where there are none
    smallest, mean, largest : the gain in privacy over the common range
    tolerance : a deficit up to this counts as none
    """

    superior: bool
    common: tuple[float, float]
    where_not: tuple[tuple[float, float], ...]
    unreached: tuple[float, float] | None
    smallest: float
    mean: float
    largest: float
    tolerance: float

    def __str__(self) -> str:
        told = f"gain {self.mean:+.3f} ({self.smallest:+.3f} to {self.largest:+.3f}) over accuracy "
        told += f"{self.common[0]:.3f} to {self.common[1]:.3f}"
        where = ", ".join(f"{a:.3f} to {b:.3f}" for a, b in self.where_not)
        told += f"; not superior at accuracy {where}" if where else ""
        told += f"; accuracy {self.unreached[0]:.3f} to {self.unreached[1]:.3f} not reached" if self.unreached else ""
        return f"{'superior' if self.superior else 'not superior'}: {told}"


def superiority(ours: Any, theirs: Any, tolerance: float = 0.0) -> Superiority:
    """Compare two curves of (accuracy, privacy) by definition 11.

    A curve's privacy at accuracy a is the most it offers with an accuracy of *at least* a, interpolated linearly
    between its points: an operating point that is beaten by another of its own curve is one nobody would use.

    Parameters
    ----------
    ours, theirs : (n, 2) points: accuracy, privacy; in any order. Privacy is a number of which more is better
    tolerance : a deficit of privacy up to this counts as none (for instance half the width of an interval)

    Examples
    --------
    >>> simple = [(.90, .1), (.80, .4), (.60, .7)]
    >>> print(superiority([(.91, .2), (.80, .5), (.60, .8)], simple))
    superior: gain +0.105 (+0.100 to +0.127) over accuracy 0.600 to 0.900
    >>> superiority([(.90, .2), (.80, .3), (.60, .8)], simple).where_not
    ((0.7, 0.85),)
    """
    check_number("tolerance", tolerance, 0)
    mine, other = _checked(ours, "ours"), _checked(theirs, "theirs")
    low = max(mine[:, 0].min(), other[:, 0].min())
    high = min(mine[:, 0].max(), other[:, 0].max())
    if low > high:
        raise InputError(
            f"the curves have no accuracy in common ({mine[:, 0].min():.3f} to {mine[:, 0].max():.3f} and "
            f"{other[:, 0].min():.3f} to {other[:, 0].max():.3f}); trace both further"
        )
    knots = [a for a in (*mine[:, 0], *other[:, 0]) if low <= a <= high]
    at = np.unique([*knots, *np.linspace(low, high, STEPS + 1)])
    gain = _privacy_at(mine, at) - _privacy_at(other, at)
    beyond = (float(mine[:, 0].max()), float(other[:, 0].max()))
    where = _below(at, gain + tolerance)
    return Superiority(
        superior=not where and bool((gain > 1e-12).any()),
        common=(float(low), float(high)),
        where_not=where,
        unreached=beyond if beyond[1] > beyond[0] else None,
        smallest=float(gain.min()),
        mean=float(np.trapezoid(gain, at) / (high - low)) if high > low else float(gain.mean()),
        largest=float(gain.max()),
        tolerance=float(tolerance),
    )


def _checked(curve: Any, name: str) -> np.ndarray:
    points = np.asarray(curve, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2 or len(points) == 0 or not np.isfinite(points).all():
        raise InputError(f"{name} must be points (accuracy, privacy), at least one; found shape {points.shape}")
    return points


def _privacy_at(points: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The most privacy at an accuracy of at least this: linear between the points that none of the curve beats."""
    front = points[np.lexsort((points[:, 1], points[:, 0]))][::-1]  # from the most accurate down
    most = np.maximum.accumulate(front[:, 1])
    front = front[np.r_[True, front[1:, 1] > most[:-1]]][::-1]
    return np.interp(at, front[:, 0], front[:, 1])


def _below(at: np.ndarray, gain: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Ranges where the gain is negative; between neighbors it is linear, so each end is where it crosses zero."""
    negative = gain < -1e-12
    edges = np.flatnonzero(np.diff(np.r_[False, negative, False].astype(int)))
    ranges = []
    for start, stop in zip(edges[::2], edges[1::2] - 1, strict=True):
        low, high = at[start], at[stop]
        if start > 0:
            low = at[start - 1] + (at[start] - at[start - 1]) * gain[start - 1] / (gain[start - 1] - gain[start])
        if stop < len(at) - 1:
            high = at[stop] + (at[stop + 1] - at[stop]) * gain[stop] / (gain[stop] - gain[stop + 1])
        ranges.append((round(float(low), 6), round(float(high), 6)))
    return tuple(ranges)
