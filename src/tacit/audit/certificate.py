"""The certificate: a finite-sample upper bound on what *any* attacker could do with a finite release.

With probability at least 1 - delta over the certification records,

    BA* <= BA_plugin + (1/m) sqrt( sum_s sum_b w_sb^2  ln(1/delta) / 2 ),

BA_plugin = (1/m) sum_z max_s P(z|s) counted from the data, w_sb the share of class s's records that
unit b holds (1/n_s without units). BA is convex in the class-conditional laws, so the plug-in is
biased upward; one unit moves it by at most w_sb/m (McDiarmid). The bound holds for one release of
a fresh record of the same population, and an attacker who knows nothing else about the person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_CELLS = 4096


@dataclass(frozen=True)
class Certificate:
    """An upper bound on any attacker's balanced accuracy, and what it rests on.

    Attributes
    ----------
    bound : no attacker exceeds this balanced accuracy (with confidence 1 - delta)
    plugin : what the best attacker gets on the certification records themselves
    accuracy_bound : the same for plain accuracy, which a rare, fully exposed class cannot hide behind
    guessing : 1 / number of classes
    n, n_units, cells : records, independent units and distinct releases counted
    smallest_cell : the fewest records that share a release
    delta : probability that the statement fails
    """

    bound: float
    plugin: float
    accuracy_bound: float
    guessing: float
    n: int
    n_units: int
    cells: int
    smallest_cell: int
    delta: float


def certify(
    cells: np.ndarray,
    secret: np.ndarray,
    n_classes: int,
    delta: float = 0.05,
    units: np.ndarray | None = None,
) -> Certificate:
    """Bound any attacker on a finite release.

    Parameters
    ----------
    cells : (n,) which of the finitely many releases each record got
    secret : (n,) class of the secret, 0 .. n_classes - 1; records the filter and its choice never saw
    units : (n,) the independent unit of each record
    """
    cells = np.unique(cells, return_inverse=True)[1].ravel()
    table = np.zeros((cells.max() + 1, n_classes))
    np.add.at(table, (cells, secret), 1)
    n_s = table.sum(axis=0)
    present = n_s > 0
    m, n = int(present.sum()), len(cells)
    law = table[:, present] / n_s[present]
    plugin = float(law.max(axis=1).sum() / m)
    slack = np.sqrt(_square_shares(secret, units) * np.log(1 / delta) / 2) / m
    plain = float(table.max(axis=1).sum() / n)
    unit_share = 1 / n if units is None else float(((np.unique(units, return_counts=True)[1] / n) ** 2).sum())
    return Certificate(
        bound=min(1.0, plugin + float(slack)),
        plugin=plugin,
        accuracy_bound=min(1.0, plain + float(np.sqrt(unit_share * np.log(1 / delta) / 2))),
        guessing=1 / m,
        n=n,
        n_units=n if units is None else len(np.unique(units)),
        cells=len(table),
        smallest_cell=int(table.sum(axis=1).min()),
        delta=delta,
    )


def _square_shares(secret: np.ndarray, units: np.ndarray | None) -> float:
    """sum over classes and units of w_sb^2; 1/n_s per class when every record is its own unit.

    A unit with records of several classes moves several terms at once: its shares add before squaring.
    """
    counts = np.bincount(secret)
    if units is None:
        return float((1 / counts[counts > 0]).sum())
    share = np.bincount(np.unique(units, return_inverse=True)[1].ravel(), 1 / counts[secret])
    return float((share**2).sum())


def release_cells(Z: np.ndarray) -> np.ndarray | None:
    """The number of each record's release among the distinct ones; None when there are too many to count."""
    flat = np.ascontiguousarray(Z.reshape(len(Z), -1))
    cells = np.unique(flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel(), return_inverse=True)[
        1
    ]
    n_cells = int(cells.max()) + 1
    return cells if n_cells <= MOST_CELLS and n_cells <= max(2, len(Z) / 2) else None
