"""Merge cells until none can move anybody's odds by more than is allowed, as far as a certificate could say so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.labels import MISSING, Labels
from tacit.records.people import Crowd
from tacit.solvers.cell_odds import worst_odds

DELTA = 0.05
AUDITED = 0.4  # of the people of the fit: as many as a certificate will have at least


def merge_cells(
    cells: np.ndarray, n_codes: int, expected: Sequence[np.ndarray], secrets: Labels, crowd: Crowd, most: float
) -> np.ndarray:
    """Which released cell each of the code's cells belongs to.

    The worst cell joins the one it is most like for the targets, again and again; a single cell is always allowed.

    Parameters
    ----------
    cells : (n,) cell of each row, by parts that did not see it
    expected : per target, the (n, classes) probabilities of its classes
    secrets : what is withheld
    most : the odds allowed
    """
    one = np.arange(len(cells)) if crowd.units is None else np.unique(crowd.units, return_index=True)[1]
    known = [one[secrets.codes[one, i] != MISSING] for i in range(len(secrets))]
    tables = [
        np.floor(AUDITED * _count(cells[rows], secrets.codes[rows, i], n_codes, len(secrets.classes[i])))
        for i, rows in enumerate(known)
    ]
    kept = [np.stack([p[cells == z].sum(axis=0) for z in range(n_codes)]) for p in expected]
    group = np.arange(n_codes)
    while group.max() > 0:
        joined = np.eye(group.max() + 1)[group].T
        worst = max((worst_odds(joined @ t, DELTA / len(tables)) for t in tables), key=lambda w: w.bound)
        if worst.bound <= most:
            break
        mass = [joined @ t for t in kept]
        cost = sum(_loss(m + m[worst.cell]) - _loss(m) for m in mass)
        cost[worst.cell] = np.inf
        into = int(cost.argmin())
        group[group == worst.cell] = into
        group = np.unique(group, return_inverse=True)[1].ravel()
    return group


def _count(cells: np.ndarray, classes: np.ndarray, n_codes: int, m: int) -> np.ndarray:
    return np.bincount(cells * m + classes, minlength=n_codes * m).reshape(n_codes, m)


def _loss(mass: np.ndarray) -> np.ndarray:
    """How unsure each cell leaves a target, in nats times people."""
    total = mass.sum(axis=1, keepdims=True)
    return -(mass * np.log(np.maximum(mass, 1e-12) / np.maximum(total, 1e-12))).sum(axis=1)
