"""One leak in several units: accuracy, odds, bits, Bayes security. Pure: numbers in, numbers out.

All for a sensitive attribute of m classes that are equally likely beforehand. *Odds* R: for every release z and all
classes s, s', P(z|s) <= R P(z|s'). Given such a release the posteriors lie within a factor R of each other, and

- none exceeds R / (R + m - 1): `accuracy_from_odds`.
- Information is the mean over releases of D(z), how far the posterior of z is from uniform. D is convex, so for a
  given largest posterior t it is greatest where all posteriors but one are t or t / R, and along each such family
  convex in t: whatever the mean of t, no more information can be had than on the upper hull of the m - 1 points "j
  classes at t_j, the others at t_j / R" and of "nothing". The mean of t is what the best attacker gets: `bits_from`.
- An attacker's accuracy needs the information that Fano's inequality says: `accuracy_from_bits`.
"""

from __future__ import annotations

import math
from itertools import pairwise

from tacit.errors import InputError, check_number


def accuracy_from_odds(odds: float, n_classes: int) -> float:
    """Balanced accuracy that no attacker exceeds where odds are at most `odds`.

    Examples
    --------
    >>> accuracy_from_odds(3, 2), accuracy_from_odds(math.inf, 2)
    (0.75, 1.0)
    """
    _check(odds, n_classes)
    return 1 / (1 + (n_classes - 1) / odds)


def bits_from(bound: float, odds: float, n_classes: int) -> float:
    """Information in bits that a release has at most on an attribute of equally likely classes.

    Parameters
    ----------
    bound : no attacker's balanced accuracy exceeds this
    odds : no release's odds exceed this; infinity where they are not bounded

    Examples
    --------
    >>> round(bits_from(.55, math.inf, 2), 3), round(bits_from(.55, 3, 2), 3), bits_from(.5, 3, 2)
    (0.1, 0.038, 0.0)
    """
    _check(odds, n_classes)
    check_number("bound", bound, 0, 1)
    m = n_classes
    # from no information to the surest release; the later ones reach further but may tell less
    hull = [(1 / m, 0.0)]
    for j in range(m - 1, 0, -1):
        point = (1 / (j + (m - j) / odds), _divergence(j, odds, m))
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        if _slope(hull[-1], point) > 0:
            hull.append(point)
    for a, b in pairwise(hull):
        if bound < b[0]:
            return max(0.0, a[1] + _slope(a, b) * (bound - a[0]))
    return hull[-1][1]


def accuracy_from_bits(bits: float, n_classes: int) -> float:
    """Balanced accuracy that no attacker exceeds who is told at most `bits` (Fano's inequality, inverted).

    Examples
    --------
    >>> round(accuracy_from_bits(.1, 2), 3), accuracy_from_bits(0, 4), accuracy_from_bits(2, 4)
    (0.684, 0.25, 1.0)
    """
    check_number("bits", bits, 0)
    check_number("n_classes", n_classes, 2, whole=True)
    low, high = 1 / n_classes, 1.0
    if bits <= 0 or bits >= math.log2(n_classes):
        return low if bits <= 0 else high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _least_bits(middle, n_classes) >= bits else (middle, high)
    return high


def bayes_security(bound: float, guessing: float) -> float:
    """The share of guessing's errors that the best attacker still makes: 1 nothing is told, 0 all is.

    Examples
    --------
    >>> round(bayes_security(.55, .5), 3)
    0.9
    """
    return (1 - bound) / (1 - guessing) if guessing < 1 else 1.0


def _divergence(j: int, odds: float, m: int) -> float:
    """Bits from uniform to the posterior with j classes `odds` times as likely as the others."""
    if math.isinf(odds):
        return math.log2(m / j)
    high = odds / (j * odds + m - j)
    return max(0.0, math.log2(m * high) - (m - j) * high / odds * math.log2(odds))


def _least_bits(accuracy: float, m: int) -> float:
    """Information that an accuracy of at least 1/m needs."""
    wrong = 1 - accuracy
    told = math.log2(m) + accuracy * math.log2(accuracy)
    return told + (wrong * math.log2(wrong / (m - 1)) if wrong > 0 else 0.0)


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0]) if b[0] > a[0] else 0.0


def _check(odds: float, n_classes: int) -> None:
    check_number("n_classes", n_classes, 2, whole=True)
    if not odds >= 1:
        raise InputError(f"odds must be a number of at least 1 (infinity where they are not bounded); found {odds!r}")
