"""DPFE's upper bounds on what a release tells of the person, I(f; y): U1 (theorem 4) and U2 (theorems 7 and 8).

The lower bound (lemma 1, theorem 2) is `tacit.auditing.measures.bits_leaked`. All are in nats here, as in the paper.

What U2 bounds: the release is one of the given features, with Gaussian noise of covariance sigma·I. That is what the
kernel density estimate of the paper says features are, and what a code with noise of ratio r on a normalized code is
(sigma = r). Of the features without noise it bounds nothing: their I(f; y) can be log m, whatever U2 says at a large
sigma.
"""

from __future__ import annotations

import numpy as np

from tacit.auditing.measures import check_rows
from tacit.errors import InputError, check_number


def pairwise_divergence_bound(shares: np.ndarray, divergences: np.ndarray) -> float:
    """U1 (eq. 4): the mean divergence between the releases of two people, each drawn by their shares.

    Parameters
    ----------
    shares : (m,) p(y)
    divergences : (m, m) D_kl[p(f|a) || p(f|b)] in nats; the diagonal is not read

    Examples
    --------
    >>> round(pairwise_divergence_bound(np.array([.5, .5]), np.array([[0, 2.], [2., 0]])), 2)
    1.0
    """
    shares, divergences = np.asarray(shares, float), np.asarray(divergences, float)
    m = len(shares)
    if divergences.shape != (m, m) or abs(shares.sum() - 1) > 1e-6:
        raise InputError(f"{m} shares that add to 1 need {m} x {m} divergences; found {divergences.shape}")
    weight = np.outer(shares, shares)
    np.fill_diagonal(weight, 0)
    return float((weight * np.where(weight > 0, divergences, 0)).sum())


def distance_bound(features: np.ndarray, who: np.ndarray, sigma: float) -> float:
    """U2 (eq. 5): squared distances between features of different people, over sigma N².

    It bounds I(f + noise; y) for noise of covariance sigma·I. For features of k columns of variance 1 it lies between
    (1 - the largest p(y)) k / sigma and k / sigma, whatever they are: with many people it can tell much noise from
    little, and hardly one feature extractor from another.

    Parameters
    ----------
    features : (n, k)
    who : (n,) the person of each
    sigma : the kernel's or the noise's variance in every direction

    Examples
    --------
    >>> distance_bound(np.array([[0.], [1.], [3.]]), np.array([0, 0, 1]), sigma=1.0)  # (9 + 4) / 9
    1.4444444444444444
    """
    features, who = _checked(features, who, sigma)
    # the sum over all pairs less that over pairs of the same person, each by sum_ij |fi - fj|² = 2 n sum |f - mean|²
    return (_spread(features) - sum(_spread(features[who == c]) for c in np.unique(who))) / sigma / len(who) ** 2


def same_person_bound(features: np.ndarray, who: np.ndarray, sigma: float) -> float:
    """The same by eq. 6, from pairs of the same person only: for features of columns of variance 1 (theorem 8).

    c, which the paper calls a function of dimension and number of records, is k N² over the number of such pairs.

    Examples
    --------
    >>> f = np.array([[-1.], [1.], [-1.], [1.]])
    >>> same_person_bound(f, np.array([0, 0, 1, 1]), 1.0) == distance_bound(f, np.array([0, 0, 1, 1]), 1.0)
    True
    """
    features, who = _checked(features, who, sigma)
    n, k = features.shape
    _, count = np.unique(who, return_counts=True)
    pairs = (count * (count - 1) / 2).sum()
    if not pairs:
        raise InputError("no person has two records, so there is no pair of the same person; pass more of some")
    c = k * n**2 / pairs
    same = sum(_spread(features[who == p]) for p in np.unique(who))
    return float(pairs * c - same) / sigma / n**2


def _spread(features: np.ndarray) -> float:
    """Sum over unordered pairs of the squared distance."""
    return float(len(features) * ((features - features.mean(axis=0)) ** 2).sum())


def _checked(features: np.ndarray, who: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    check_rows(features=features, who=who)
    check_number("sigma", sigma, 1e-12)
    return np.asarray(features, float).reshape(len(features), -1), np.asarray(who)
