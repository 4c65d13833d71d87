"""The certificate of a locally differentially private release: it needs no data but for plain accuracy."""

from __future__ import annotations

import math

import numpy as np

from tacit.auditing.odds import private_odds
from tacit.auditing.population import check_records, independent_units, share_delta
from tacit.errors import check_number
from tacit.report.certificates import LocalPrivacyCertificate
from tacit.report.leakage_units import accuracy_from_odds

CONFIDENT = 0.9  # the posterior from which on a class counts as named


def certify_local_privacy(
    epsilon: float,
    sensitive: np.ndarray,
    n_classes: int,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    per: str = "unit",
    max_unit_size: int | None = None,
) -> LocalPrivacyCertificate:
    """Bound any attacker on an epsilon-locally-private release.

    Given a release, the posterior of a class of share p is at most p e^eps / (p e^eps + 1 - p). The bound on balanced
    accuracy counts the declared classes, whether they were seen or not: it rests on no record.

    Parameters
    ----------
    epsilon : P(z|x) / P(z|x') is at most e^epsilon for all records x, x' and releases z
    sensitive : (n,) class, 0 .. n_classes - 1; says how common the commonest class is
    delta : probability that the statement on plain accuracy may fail
    units : (n,) the independent unit of each record
    per, max_unit_size : as for `tacit.auditing.certificate.certify`
    """
    check_records(sensitive, sensitive, n_classes, units)
    sample = independent_units(sensitive, n_classes, units, per, max_unit_size)
    n = sample.n_units
    slack = math.sqrt(math.log(n_classes / share_delta(delta, 1)) / (2 * n))  # for each class, at delta/m
    commonest = min(1.0, float(sample.counts.max()) / n + slack)
    bound = local_dp_bound(epsilon, max(2, n_classes))
    return LocalPrivacyCertificate(
        bound=bound,
        plugin=bound,
        accuracy_bound=commonest / (commonest + (1 - commonest) * math.exp(-epsilon)),
        epsilon=epsilon,
        odds=private_odds(epsilon),
        exposed=float(bound >= CONFIDENT),
        **sample.facts(len(sensitive), delta, 1, per),
    )


def local_dp_bound(epsilon: float, n_classes: int) -> float:
    """Balanced accuracy that no attacker exceeds on an epsilon-locally-private release; needs no data.

    Parameters
    ----------
    epsilon : P(z|x) / P(z|x') is at most e^epsilon for all records x, x' and releases z
    n_classes : number of classes of the sensitive attribute
    """
    check_number("epsilon", epsilon, 0)
    check_number("n_classes", n_classes, 2, whole=True)
    return accuracy_from_odds(private_odds(epsilon).bound, n_classes)
