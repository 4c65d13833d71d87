"""Dynamic time warping between windows, and the rank of the true user by it (anonymizing autoencoder, Table 2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats as sps

from tacit.auditing.measures import check_rows, mean_measure
from tacit.auditing.stats import Measure
from tacit.errors import InputError, check_number

PAIRS_AT_ONCE = 4096  # keeps the band of one row of all pairs' tables inside the processor's cache


class DtwRank(NamedTuple):
    """Where the true user stands among users by nearness of raw data to released data; 0 is nearest, high is private.

    Attributes
    ----------
    rank : mean over users with its interval (users are the units) and (n_users - 1) / 2, a random order's
    rank_sd : over users (the paper's "var" cannot be a variance: see `dtw_rank`)
    ranks : (n_users,) of each user, in the order of `np.unique(users)`
    """

    rank: Measure
    rank_sd: float
    ranks: np.ndarray
    n_users: int


def dtw_rank(
    raw: np.ndarray,
    released: np.ndarray,
    users: np.ndarray,
    windows: int = 40,
    band: int | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> DtwRank:
    """Rank of the true user among all users by DTW between released and raw windows.

    The paper (section 4, last paragraph; Table 2): "Using DTW, we measure the similarity between the transformed data
    of a target user k and the raw data of each user l [...] to find the nearest neighbors of user l and check the
    rank of k among them", 24 users. Raw data have rank 0 in the table, so ranks count from 0 and a window may meet
    its own original. The text leaves open, and here is chosen:

    - who is ranked ("of user l" contradicts "target user k"): for each k's release, k among the raw data of all l;
    - from windows to users: the mean, over k's released windows, of the distance to the *nearest* raw window of l;
    - the local cost: squared Euclidean over the channels together, the root of the path's sum, values as given;
    - the band: a tenth of the window's length either side; ties: the average rank;
    - which windows: `windows` of each user, drawn at random, the same records raw and released;
    - "var Rank": 24 equally likely ranks have variance 48 and deviation 6.9; the printed 4.7 to 5.8 are deviations.

    Parameters
    ----------
    raw, released : (n, length) or (n, channels, length) windows, row by row of the same record
    users : (n,) whose window it is
    windows : most windows a user. 24 users with 40 windows of 2 x 128 take about 20 s on one core; the time grows
        with the square of both
    band : largest shift in samples (Sakoe-Chiba); None is a tenth of the length

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> raw, users = rng.standard_normal((12, 2, 16)), np.repeat([0, 1, 2], 4)
    >>> dtw_rank(raw, raw, users).rank.value
    0.0
    """
    check_rows(raw=raw, released=released, users=users)
    check_number("windows", windows, 1, whole=True)
    names, who = np.unique(users, return_inverse=True)
    n_users = len(names)
    if n_users < 2:
        raise InputError("dtw_rank needs windows of at least two users; found one")
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(np.flatnonzero(who == u))[:windows] for u in range(n_users)]
    first = np.cumsum([0, *map(len, chosen)])[:-1]
    gallery = raw[np.concatenate(chosen)]
    ranks = np.empty(n_users)
    for u, rows in enumerate(chosen):
        nearest = np.minimum.reduceat(dtw_distances(released[rows], gallery, band), first, axis=1)
        ranks[u] = sps.rankdata(nearest.mean(axis=0))[u] - 1
    rank = mean_measure(ranks, (n_users - 1) / 2, None, level, bounds=(0.0, n_users - 1.0))
    return DtwRank(rank, float(ranks.std()), ranks, n_users)


def dtw_distances(a: np.ndarray, b: np.ndarray, band: int | None = None) -> np.ndarray:
    """DTW distance of every window of a to every window of b, samples at most `band` apart.

    Parameters
    ----------
    a, b : (n, length) or (n, channels, length)

    Returns
    -------
    (len(a), len(b)) roots of the least sums of squared differences along a warping path

    Examples
    --------
    >>> dtw_distances(np.array([[0., 0., 1., 2.]]), np.array([[0., 1., 2., 2.], [0., 0., 1., 5.]]), band=1).tolist()
    [[0.0, 3.0]]
    """
    a, b = _as_channels(a), _as_channels(b)
    if a.shape[1:] != b.shape[1:]:
        raise InputError(f"windows of shape {a.shape[1:]} cannot be compared with windows of shape {b.shape[1:]}")
    check_number("band", band, 0, whole=True, optional=True)
    width = -(-a.shape[2] // 10) if band is None else band
    step = max(1, PAIRS_AT_ONCE // len(b))
    return np.concatenate([_dtw_all_pairs(a[i : i + step], b, width) for i in range(0, len(a), step)])


def _dtw_all_pairs(a: np.ndarray, b: np.ndarray, band: int) -> np.ndarray:
    """The textbook recursion, row by row inside the band, for all pairs at once."""
    n_channels, length = a.shape[1:]
    # time first, so that one cell of all pairs' tables is one contiguous block
    a, b = np.ascontiguousarray(a.transpose(2, 1, 0)), np.ascontiguousarray(b.transpose(2, 1, 0))
    shape = (length + 1, a.shape[2], b.shape[2])
    above, row, cost, difference = np.full(shape, np.inf), np.full(shape, np.inf), np.empty(shape), np.empty(shape)
    above[0] = 0  # before the first sample of both; cell j + 1 of a row belongs to sample j of b
    for i in range(length):
        start, stop = max(0, i - band), min(length, i + band + 1)
        here, step = cost[start:stop], difference[start:stop]
        here[:] = 0
        for c in range(n_channels):
            np.subtract(a[i, c, :, None], b[start:stop, c, None, :], out=step)
            np.multiply(step, step, out=step)
            here += step
        np.minimum(above[start + 1 : stop + 1], above[start:stop], out=row[start + 1 : stop + 1])
        row[start] = np.inf  # left of the band; it may hold an older row
        for j in range(start, stop):
            np.minimum(row[j + 1], row[j], out=row[j + 1])
            row[j + 1] += cost[j]
        if stop < length:
            row[stop + 1] = np.inf  # right of the band, where the next row looks
        above, row = row, above
    result: np.ndarray = np.sqrt(above[length])
    return result


def _as_channels(windows: np.ndarray) -> np.ndarray:
    windows = np.asarray(windows, float)
    if windows.ndim not in (2, 3) or 0 in windows.shape:
        raise InputError(f"windows must be (n, length) or (n, channels, length), none of them 0; found {windows.shape}")
    return windows[:, None] if windows.ndim == 2 else windows
