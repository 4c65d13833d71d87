"""The certificate of a release with Gaussian noise: a clipped code plus noise of known sigma.

Given the certification records, the released law of a class is a known mixture: one Gaussian around
each of its records, the records of a unit together weighing as much as any other unit's. The plug-in is
the Bayes attacker between these mixtures, each with all its records (without the drawn one the upward
bias, on which the bound rests, would be gone). Classes that nobody has count as fully exposed. It is averaged over M
draws, equally many a class, which adds sqrt(ln(1/delta_mc) / 2M) (Hoeffding) to the slack of
`tacit.auditing.certificate`; the statement fails with probability at most delta + delta_mc.

The bias grows fast with the dimension and the spread of the codes over sigma: with 16,000 records and
sigma .3 of the spread, four dimensions are about the limit. `vacuous` says when it has taken over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.auditing.certificate import slacks
from tacit.auditing.local_privacy_certificate import CONFIDENT
from tacit.auditing.population import check_records, independent_units, share_delta
from tacit.errors import InputError, check_number
from tacit.report.certificates import GaussianCertificate

CHUNK = 1024  # draws by centres held at once: 8 MB a table
MAX_BIAS = 0.05


def certify_gaussian(
    codes: np.ndarray,
    sensitive: np.ndarray,
    n_classes: int,
    sigma: float,
    delta: float = 0.04,
    delta_mc: float = 0.01,
    draws: int = 20_000,
    units: np.ndarray | None = None,
    seed: int = 0,
    candidates: int = 1,
    per: str = "unit",
    max_unit_size: int | None = None,
) -> GaussianCertificate:
    """Bound any attacker on a code released with Gaussian noise.

    Takes time O(draws * n * d), twice (once for the shuffled labels); memory O(draws * (classes + d) + n * d).

    Parameters
    ----------
    codes : (n, d) clipped codes *before* the noise
    sensitive : (n,) class, 0 .. n_classes - 1; records the filter and its choice never saw
    sigma : standard deviation of the noise in every direction
    delta, delta_mc : probability that the statement may fail by the sample, and by Monte Carlo
    draws : Monte Carlo draws, rounded up to equally many a class
    units : (n,) the independent unit of each record
    seed : of the Monte Carlo draws and the shuffle; fix it beforehand. It has nothing to do with released noise
    candidates : how many releases, fixed beforehand, are certified on these records; delta and delta_mc are
        divided by it
    per, max_unit_size : as for `tacit.auditing.certificate.certify`
    """
    check_records(codes, sensitive, n_classes, units)
    check_number("draws", draws, 1, whole=True)
    _check_sigma(sigma)
    points = np.asarray(codes, dtype=float).reshape(len(sensitive), -1)
    if not np.isfinite(points).all():
        raise InputError("codes hold NaN or infinite values; pass the clipped codes as numbers")
    # Centered and in units of sigma: the squared distances below then lose no digits to a common offset.
    points = (points - points.mean(axis=0)) / sigma
    sample = independent_units(sensitive, n_classes, units, per, max_unit_size)
    balanced_slack, plain_slack = slacks(sample, delta, candidates)
    log_draws = math.log(1 / share_delta(delta_mc, candidates)) / 2
    rng = np.random.default_rng(seed)
    points, labels, weight = points[sample.rows], sensitive[sample.rows], sample.weight
    found = _bayes(points, labels, weight, draws, rng)
    kept_units = None if units is None else np.asarray(units)[sample.rows]
    null = _bayes(points, _shuffle(labels, kept_units, rng), weight, draws, rng)
    prior, seen, absent = found.prior, len(found.prior), sample.absent
    # Of m classes the `absent` ones count as exposed, the others as the Bayes attacker has them.
    plugin = (seen * found.balanced + absent) / n_classes
    draws_slack = seen / n_classes * math.sqrt(log_draws / found.draws)
    # Draws are equal per class, so in plain accuracy a draw of class s weighs `seen` * prior_s.
    plain_draws = math.sqrt(seen * float((prior**2).sum()) / found.draws * log_draws)
    return GaussianCertificate(
        bound=min(1.0, plugin + balanced_slack + draws_slack),
        plugin=plugin,
        accuracy_bound=min(1.0, found.accuracy + plain_slack + plain_draws),
        null_plugin=(seen * null.balanced + absent) / n_classes,
        vacuous=null.balanced - 1 / len(null.prior) > MAX_BIAS,
        exposed=found.exposed,
        draws=found.draws,
        sigma=float(sigma),
        **sample.facts(len(sensitive), delta + delta_mc, candidates, per),
    )


@dataclass(frozen=True)
class _Bayes:
    """The Bayes attacker between the mixtures of the classes that occur: its figures by Monte Carlo."""

    balanced: float
    accuracy: float
    exposed: float
    prior: np.ndarray
    draws: int


def _bayes(points: np.ndarray, labels: np.ndarray, weight: np.ndarray, draws: int, rng: np.random.Generator) -> _Bayes:
    classes, label = np.unique(labels, return_inverse=True)
    mass = np.bincount(label, weight)
    m, each, prior = len(classes), -(-draws // len(classes)), mass / mass.sum()
    centres = [points[label == s] for s in range(m)]
    shares = [weight[label == s] / mass[s] for s in range(m)]
    drawn = np.concatenate([c[rng.choice(len(c), size=each, p=w)] for c, w in zip(centres, shares, strict=True)])
    drawn += rng.standard_normal(drawn.shape)
    log_law = np.column_stack([log_mixture(drawn, c, w) for c, w in zip(centres, shares, strict=True)])
    true = np.repeat(np.arange(m), each)
    # The top posterior has the mean of the hit-or-miss indicator and a smaller variance; it too lies in [0, 1].
    posterior = _posterior(log_law)
    top = _posterior(log_law + np.log(prior)).max(axis=1)
    named = posterior[np.arange(len(true)), true] >= CONFIDENT
    return _Bayes(
        balanced=float(posterior.max(axis=1).mean()),
        accuracy=float(prior @ top.reshape(m, each).mean(axis=1)),
        exposed=float(prior @ named.reshape(m, each).mean(axis=1)),
        prior=prior,
        draws=m * each,
    )


def log_mixture(points: np.ndarray, centres: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Log density at points of a mixture of unit Gaussians, less the constant of dimension."""
    found = np.full(len(points), -np.inf)
    for a in range(0, len(points), CHUNK):
        x = points[a : a + CHUNK]
        for b in range(0, len(centres), CHUNK):
            c = centres[b : b + CHUNK]
            exponent = x @ c.T
            exponent += np.log(shares[b : b + CHUNK]) - (c**2).sum(axis=1) / 2
            highest = exponent.max(axis=1)
            exponent -= highest[:, None]
            np.exp(exponent, out=exponent)
            part = highest + np.log(exponent.sum(axis=1))
            found[a : a + CHUNK] = np.logaddexp(found[a : a + CHUNK], part)
    return found - (points**2).sum(axis=1) / 2


def _posterior(log_law: np.ndarray) -> np.ndarray:
    odds = np.exp(log_law - log_law.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _shuffle(sensitive: np.ndarray, units: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Labels that know nothing of the codes; every unit takes the labels of another, repeated or cut to its length."""
    if units is None:
        return rng.permutation(sensitive)
    _, unit, size = np.unique(units, return_inverse=True, return_counts=True)
    by_unit = np.argsort(unit.ravel(), kind="stable")
    labels = np.split(sensitive[by_unit], np.cumsum(size)[:-1])
    given = rng.permutation(len(size))
    shuffled = np.empty_like(sensitive)
    shuffled[by_unit] = np.concatenate([np.resize(labels[g], k) for g, k in zip(given, size, strict=True)])
    return shuffled


def _check_sigma(sigma: float) -> None:
    check_number("sigma", sigma, 0)
    if sigma == 0:
        raise InputError("sigma is 0: without noise no certificate exists for a continuous code; pass a positive sigma")
