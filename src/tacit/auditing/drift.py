"""Has the population moved? Statistics of counts of released values alone: no label, no record.

The test. Two samples of one law, of n0 and n1 records: given how often each value occurs in both together (m), which
of the N = n0 + n1 records are the new ones is an urn's draw without replacement, whatever the law. So

    E = sum_c w_c DM(x; c m / N)  /  P(x drawn from the urn m)

has mean at most 1 without drift, DM being the probability of the new records in their order when their law is drawn
around the pooled one (Dirichlet, concentration c). By Markov E >= 1/a happens with probability a at most: exactly, for
few records and rare values too, with the reference's own uncertainty in it, and without Monte Carlo. The mean of such
E over columns and windows is one again, however they depend on each other. The smaller sample is the one drawn. The
t-th look spends 6 a / (pi t)^2, so that all looks together raise a false alarm with probability a at most.

How far a certificate can have moved. Let d bound the total variation of old and new law of released values, and suppose
that P(sensitive | released value) has stayed as it was. Then the best attacker's plain accuracy, the mean of
max_s P(s|z), moves by at most d times the range of that maximum, 1 - 1/m at most. His balanced accuracy has the class
shares in it, which move too. Along q_t = p + t (q - p) the best attacker's B = m BA changes at the rate
sum_z (q - p)(z) h(z), h = max_s x_s - sum_s T_s x_s, with x_s = P(s|z) / P(s), and T_s his hits in class s, whose sum
is B (envelope). So the rate is at most d times the range of h.

Whatever the values tell: h lies between -(1 - 1/m) / pi and 1 / pi, pi the share of the rarest class at t, which is at
least pi_0 - t d; with two classes h spans 1 / pi at most. Hence m (BA' - BA) <= (2 - 1/m) ln(pi_0 / (pi_0 - d)), the
factor being 1 with two classes.

Where x is known to lie between l and u (counted on the audited rows, for values that many share): h lies between
-u (B - 1) and u - l (with two classes, above -(B - 1)), where l and u give way as the class shares move, by a factor
1 +- e, e = d (u - l) + r / pi_0. Values that few share may tell more: their mass r, old and new, counts with the range
above. B - 1 then grows like the solution of B' = d (u - l + u (B - 1)) + r (2 - 1/m) / pi. The smaller bound counts.

Without labels nobody can see a change of P(sensitive | released value): without that condition nothing is bounded
(tests/test_drift.py has the counterexample).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import beta

from tacit.report.released import Telling

CONCENTRATIONS = np.array([10.0, 30.0, 100.0, 300.0, 1000.0])  # of the law that new records may have: far to near
TINY = 1e-9  # a share instead of none, so that figures stay finite
MANY = 50  # records that share a value for something to be told of it


def log_evidence(reference: np.ndarray, new: np.ndarray) -> float:
    """The logarithm of evidence for drift: a number E with a mean of at most 1 where both counts are of one law.

    Parameters
    ----------
    reference, new : (k,) how often each value occurs in two independent samples

    Examples
    --------
    >>> same = log_evidence(np.array([500, 300, 200]), np.array([260, 140, 100]))
    >>> other = log_evidence(np.array([500, 300, 200]), np.array([100, 140, 260]))
    >>> same < 0, other > math.log(1e6)
    (True, True)
    """
    both = np.asarray(reference) + np.asarray(new)
    drawn = np.asarray(new if np.sum(new) <= np.sum(reference) else reference)[both > 0]
    both = both[both > 0]
    n, total = drawn.sum(), both.sum()
    if not 0 < n < total:
        return 0.0
    urn = np.sum(gammaln(both + 1) - gammaln(both - drawn + 1)) - gammaln(total + 1) + gammaln(total - n + 1)
    near = CONCENTRATIONS[:, None] * both / total
    drifted = np.sum(gammaln(drawn + near) - gammaln(near), axis=1)
    drifted -= gammaln(n + CONCENTRATIONS) - gammaln(CONCENTRATIONS)
    return float(logsumexp(drifted) - math.log(len(CONCENTRATIONS)) - urn)


def together(evidence: Sequence[float]) -> float:
    """Several logarithms of evidence as one: that of the mean, which is evidence too however they depend."""
    return float(logsumexp(evidence) - math.log(len(evidence)))


def total_variation_end(reference: np.ndarray, new: np.ndarray, delta: float) -> float:
    """Upper end, at confidence 1 - delta, of the total variation between the laws of two samples.

    The plug-in is convex in both laws, hence biased upward, and a record of a sample of n moves it by 1/n
    (McDiarmid). The last count is of all other values together: they are taken to have nothing in common.

    Examples
    --------
    >>> round(total_variation_end(np.array([500, 500, 0]), np.array([450, 550, 0]), .05), 3)
    0.105
    """
    n0, n1 = np.sum(reference), np.sum(new)
    p, q = np.asarray(reference) / n0, np.asarray(new) / n1
    plugin = (np.abs(p - q)[:-1].sum() + p[-1] + q[-1]) / 2
    return float(min(1.0, plugin + math.sqrt((1 / n0 + 1 / n1) * math.log(1 / delta) / 2)))


def few_share(counts: np.ndarray, many: np.ndarray, delta: float) -> float:
    """Upper end (Clopper-Pearson) of the share of records whose value is not among the many.

    Examples
    --------
    >>> round(few_share(np.array([500, 500, 0]), np.array([True, True, False]), .05), 4)
    0.003
    """
    n, few = int(np.sum(counts)), int(np.sum(counts[~many]))
    return float(beta.ppf(1 - delta, few + 1, n - few)) if few < n else 1.0


def moved_accuracy(bound: float, variation: float, n_classes: int, telling: Telling, few: float = 1.0) -> float:
    """What a bound on plain accuracy has become at most, P(sensitive | released value) being what it was.

    Parameters
    ----------
    variation : between old and new law of released values, at most
    few : mass, old and new together, of values that `telling` is not about; at most

    Examples
    --------
    >>> telling = Telling(.45, (.8, 1.2), (.5, .6))
    >>> round(moved_accuracy(.60, .10, 2, telling), 3), round(moved_accuracy(.60, .10, 2, telling, 0.), 3)
    (0.65, 0.61)
    """
    low, high = telling.best
    wide = 1 - 1 / n_classes
    return min(1.0, bound + min(variation * wide, variation * max(0.0, high - low) + few * wide))


def moved_balanced(bound: float, variation: float, n_classes: int, telling: Telling, few: float = 1.0) -> float:
    """The same of a bound on balanced accuracy.

    Examples
    --------
    >>> telling = Telling(.45, (.8, 1.2), (.5, .6))
    >>> round(moved_balanced(.60, .10, 2, telling), 3), round(moved_balanced(.60, .10, 2, telling, 0.), 3)
    (0.726, 0.636)
    """
    span = 1.0 if n_classes == 2 else 2 - 1 / n_classes
    rarest, (low, high) = telling.rarest, telling.ratio
    if variation >= rarest:
        return 1.0
    whatever = bound - span * math.log1p(-variation / rarest) / n_classes
    moving = variation * (high - low) + few / rarest  # of the class shares, relatively
    if moving >= 1:
        return min(1.0, whatever)
    low, high = low / (1 + moving), high / (1 - moving)
    growth = variation * (1.0 if n_classes == 2 else high)
    rate = variation * (high - low) + few * span / (rarest * (1 - moving))
    over = (n_classes * bound - 1) * math.exp(growth) + rate * (math.expm1(growth) / growth if growth else 1.0)
    return min(1.0, whatever, (1 + over) / n_classes)


def telling_of(table: np.ndarray, many: np.ndarray, delta: float) -> Telling:
    """Ends (Clopper-Pearson, all together) of what values tell, from how often each has each class.

    Parameters
    ----------
    table : (values, classes) independent records
    many : (values,) of which something is told: `many_share`

    Examples
    --------
    >>> telling = telling_of(np.array([[300, 300], [200, 200], [0, 0]]), np.array([True, True, False]), .05)
    >>> round(telling.rarest, 2), [round(x, 2) for x in telling.ratio]
    (0.46, [0.79, 1.24])
    """
    m, classes, n = table.shape[1], table.sum(axis=0), table.sum()
    shares = ends(classes, np.full(m, n), delta / 2 / (2 * m))
    rarest = float(shares[0].min())
    counted = table[many]
    if not len(counted):
        return Telling(rarest, (0.0, 1 / max(rarest, TINY)), (0.0, 1.0))
    lower, upper = ends(counted, counted.sum(axis=1, keepdims=True), delta / 2 / (2 * m * len(table)))
    ratio = float((lower / shares[1]).min()), float((upper / np.maximum(shares[0], TINY)).max())
    return Telling(rarest, ratio, (float(lower.max(axis=1).min()), float(upper.max())))


def many_share(counts: np.ndarray) -> np.ndarray:
    """Which values enough records share for something to be told of each; never all others together, the last."""
    found = np.asarray(counts) >= MANY
    found[-1] = False
    return np.asarray(found)


def ends(counts: np.ndarray, n: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Clopper-Pearson ends of shares, each of which fails with probability `tail` at most."""
    with np.errstate(invalid="ignore"):
        lower, upper = beta.ppf(tail, counts, n - counts + 1), beta.ppf(1 - tail, counts + 1, n - counts)
    return np.where(counts > 0, lower, 0.0), np.where(counts < n, upper, 1.0)
