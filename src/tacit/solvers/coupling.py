"""The maximal coupling: let a value follow a target distribution, and change it as rarely as possible.

A value x with the law `own` is kept with probability min(1, target(x) / own(x)); else another is drawn from where the
target exceeds `own`. What comes out follows the target, and it differs from x with probability TV(own, target): no
way of following the target changes fewer values. Where the target is the same for every sensitive class, what comes
out is independent of the class.
"""

from __future__ import annotations

import numpy as np


def common_target(laws: np.ndarray, shares: np.ndarray, own: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """What released values follow: the mixture over the sensitive classes, and `own` for what strength leaves.

    Parameters
    ----------
    laws : (n, classes, values) for each record, the distribution of its value in each sensitive class
    shares : (classes,) how frequent each class is
    own : (n, values) the distribution in the record's own class
    strength : 1: the mixture alone, so that nothing is told; 0: `own`, so that nothing is changed

    Examples
    --------
    >>> laws = np.array([[[0.9, 0.1], [0.5, 0.5]]])
    >>> common_target(laws, np.array([0.5, 0.5]), laws[:, 0]).round(2).tolist()
    [[0.7, 0.3]]
    """
    mixture = np.einsum("s,nsv->nv", shares, laws)
    return strength * mixture + (1 - strength) * own


def couple(values: np.ndarray, own: np.ndarray, target: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Values that follow the target, each of them kept as often as can be.

    Parameters
    ----------
    values : (n,) numbers of values; -1 for what is none of them, which is drawn from the target
    own, target : (n, values) the distribution that each value comes from, and the one it shall follow
    uniform : (n,) draws between 0 and 1, one a record

    Examples
    --------
    >>> own, target = np.array([[0.9, 0.1]] * 3), np.array([[0.7, 0.3]] * 3)
    >>> couple(np.array([0, 0, 1]), own, target, np.array([0.5, 0.9, 0.9])).tolist()
    [0, 1, 1]
    """
    rows, known = np.arange(len(values)), values >= 0
    at = np.where(known, values, 0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a value that could not come is drawn anew
        kept = np.where(known & (own[rows, at] > 0), np.minimum(1.0, target[rows, at] / own[rows, at]), 0.0)
        # the same draw, where it does not keep, is uniform once more beyond the share that keeps
        rest = np.where(kept < 1, (uniform - kept) / (1 - kept), 0.0)
    excess = np.where(known[:, None], np.maximum(target - own, 0.0), target)
    upto = excess.cumsum(axis=1)
    drawn = (upto <= (rest * upto[:, -1])[:, None]).sum(axis=1)
    return np.where(uniform < kept, at, np.minimum(drawn, own.shape[1] - 1))


def kept_share(own: np.ndarray, target: np.ndarray) -> np.ndarray:
    """How often a value of each record is kept: one minus the total variation between the two, (n,)."""
    return np.minimum(own, target).sum(axis=1)
