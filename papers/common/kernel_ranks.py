"""Log-rank privacy as DPFE's authors read it: by a kernel density per person (definition 10, eq. 8 and 9).

A weak attacker: it knows a few records of each person, no prior, and does not learn what tells people apart. It is
here so that figures can be compared with print; `tacit.auditing.measures.log_rank` takes any attacker's probabilities.
Also the rank of a number, for a secret that has no classes.
"""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from tacit.auditing.measures import RankPrivacy, check_rows, log_rank
from tacit.errors import InputError, check_number

SHAPES = ("common", "own")
FEWEST_BINS = 2


def kernel_posterior(
    known: np.ndarray, who: np.ndarray, released: np.ndarray, n_classes: int, shape: str = "common"
) -> np.ndarray:
    """p(person | release) from a Gaussian kernel density of every person's known releases, all persons as likely.

    Parameters
    ----------
    known : (n, d) releases of which it is known `who` (0 .. n_classes - 1) they are from; nothing is taken to
        be from somebody of whom none is known
    released : (n', d) those to tell
    shape : of the kernels. "common": the paper's text, every column first scaled to variance 1, one round kernel of
        Silverman's width for a person's number of records. "own": the authors' script, Scott's width times the
        covariance of the person's own records, of which each person needs more than d + 1

    Examples
    --------
    >>> known = np.array([[0.], [1.], [5.], [6.]])
    >>> kernel_posterior(known, np.array([0, 0, 1, 1]), np.array([[0.5], [3.0]]), 2).round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """
    check_rows(known=known, who=who)
    if shape not in SHAPES:
        raise InputError(f"shape is {shape!r}; it is one of {', '.join(SHAPES)}")
    known, released = (np.asarray(a, float).reshape(len(a), -1) for a in (known, released))
    count = np.bincount(who, minlength=n_classes)
    fewest = 1 if shape == "common" else known.shape[1] + 2
    if count[count > 0].min() < fewest:
        raise InputError(
            f"a person has {count[count > 0].min()} known releases of {known.shape[1]} numbers, and a covariance "
            f"of their own needs {fewest}; pass more of each person, or take shape='common'"
        )
    if shape == "common":
        spread = known.std(axis=0)
        scale = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
        known, released = known * scale, released * scale
    density = np.full((len(released), n_classes), -np.inf)
    for c in np.flatnonzero(count):
        density[:, c] = _log_density(known[who == c], released, shape)
    result: np.ndarray = special.softmax(density, axis=1)
    return result


def kernel_log_rank(
    known: np.ndarray,
    who: np.ndarray,
    released: np.ndarray,
    truth: np.ndarray,
    n_classes: int,
    shape: str = "common",
    units: np.ndarray | None = None,
    level: float = 0.95,
) -> RankPrivacy:
    """The paper's estimate of log-rank privacy: ranks of the truth among `kernel_posterior`.

    Examples
    --------
    >>> known, who = np.array([[0.], [1.], [5.], [6.]]), np.array([0, 0, 1, 1])
    >>> kernel_log_rank(known, who, np.array([[0.5], [5.5]]), np.array([0, 0]), 2).ranks.tolist()
    [0.5, 1.0]
    """
    return log_rank(truth, kernel_posterior(known, who, released, n_classes, shape), units, level)


def number_log_rank(
    known: np.ndarray,
    numbers: np.ndarray,
    released: np.ndarray,
    truth: np.ndarray,
    n_bins: int = 20,
    units: np.ndarray | None = None,
    level: float = 0.95,
) -> RankPrivacy:
    """Log-rank privacy of a number, such as an age: the rank of its bin under a kernel density of number and release.

    The bins hold as many of the known numbers each, so that a blind reader finds all of them as likely. The density of
    the number given a release is Nadaraya's and Watson's: the known numbers, weighed by how near their releases are.

    Parameters
    ----------
    known, numbers : (n, d) releases and the number that each hides
    released, truth : (n', d) others and what they hide
    n_bins : of the number; fewer where many of the numbers are equal

    Examples
    --------
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> number_log_rank(x, x[:, 0], x, x[:, 0], n_bins=5).log_rank.value < .1  # the release is the number
    True
    """
    check_rows(known=known, numbers=numbers)
    check_rows(released=released, truth=truth)
    check_number("n_bins", n_bins, FEWEST_BINS, whole=True)
    known, released = (np.asarray(a, float).reshape(len(a), -1) for a in (known, released))
    edges = np.unique(np.quantile(numbers, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
    edges = edges[edges < np.max(numbers)]  # each the largest number of its bin, so that no bin is empty
    if len(edges) + 1 < FEWEST_BINS:
        raise InputError("the known numbers are all alike, so there is nothing to rank; pass more different ones")
    spread = known.std(axis=0)
    scale = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    weight = -cdist(released * scale, known * scale, "sqeuclidean") / 2 / silverman(*known.shape) ** 2
    weight = special.softmax(weight, axis=1)
    bins = np.searchsorted(edges, numbers, "left")
    share = np.bincount(bins, minlength=len(edges) + 1) / len(bins)
    p = weight @ (bins[:, None] == np.arange(len(share)))
    return log_rank(np.searchsorted(edges, truth, "left"), p / share, units, level)  # bins need not be quite equal


def silverman(n: int, d: int) -> float:
    """Silverman's width of a Gaussian kernel for n records of d numbers, each of variance 1.

    Examples
    --------
    >>> round(silverman(100, 1), 3)
    0.422
    """
    return float((4 / (d + 2) / n) ** (1 / (d + 4)))


def _log_density(known: np.ndarray, released: np.ndarray, shape: str) -> np.ndarray:
    """Of one person's kernels at each release, as logarithms: far away the densities themselves are all zero."""
    n, d = known.shape
    if shape == "common":
        width = silverman(n, d)
        squares, log_size = cdist(released, known, "sqeuclidean") / width**2, 2 * d * np.log(width)
    else:
        covariance = np.atleast_2d(np.cov(known, rowvar=False)) * n ** (-2 / (d + 4))  # Scott
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 1e-9 * values.max() + 1e-300)
        root = vectors / np.sqrt(values)
        squares, log_size = cdist(released @ root, known @ root, "sqeuclidean"), np.log(values).sum()
    result: np.ndarray = special.logsumexp(-squares / 2, axis=1) - np.log(n) - log_size / 2
    return result
