"""The certificate of a locally differentially private release: it needs no data but for plain accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.audit.population import check_records, independent_units, share_delta, unseen_mass
from tacit.errors import check_number

CONFIDENT = 0.9  # the posterior from which on a class counts as named


@dataclass(frozen=True)
class LocalPrivacyCertificate:
    """An upper bound on any attacker's balanced accuracy against a release that is locally differentially private.

    Attributes
    ----------
    bound : no attacker exceeds this balanced accuracy; holds for sure and for any population
    plugin : the same: there is nothing to count
    accuracy_bound : the same for plain accuracy, given how common the commonest class is (with confidence 1 - delta)
    guessing : 1 / number of declared classes
    epsilon : the local privacy that the release declares
    n, n_units : records, and units that the commonest class was counted from
    exposed : largest share of records whose class may have a posterior of at least .9 when all classes are equally
        likely beforehand: 0 where the bound excludes it, else 1
    delta : probability that the statement on plain accuracy fails
    per : whose average plain accuracy is: the "unit"'s or the "record"'s
    n_classes, absent : classes declared, and how many of them no unit has
    unseen_mass : at most this share of units has a class that was not seen (confidence 1 - delta, by itself)
    """

    bound: float
    plugin: float
    accuracy_bound: float
    guessing: float
    epsilon: float
    n: int
    n_units: int
    exposed: float
    delta: float
    per: str
    n_classes: int
    absent: int
    unseen_mass: float


def certify_local_privacy(
    epsilon: float,
    secret: np.ndarray,
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
    secret : (n,) class of the secret, 0 .. n_classes - 1; says how common the commonest class is
    delta : probability that the statement on plain accuracy may fail
    units : (n,) the independent unit of each record
    per, max_unit_size : as for `tacit.audit.certificate.certify`
    """
    check_records(secret, secret, n_classes, units)
    sample = independent_units(secret, n_classes, units, per, max_unit_size)
    n = sample.n_units
    slack = math.sqrt(math.log(n_classes / share_delta(delta, 1)) / (2 * n))  # for each class, at delta/m
    commonest = min(1.0, float(sample.counts.max()) / n + slack)
    bound = local_dp_bound(epsilon, max(2, n_classes))
    return LocalPrivacyCertificate(
        bound=bound,
        plugin=bound,
        accuracy_bound=commonest / (commonest + (1 - commonest) * math.exp(-epsilon)),
        guessing=1 / n_classes,
        epsilon=epsilon,
        n=len(secret),
        n_units=n,
        exposed=float(bound >= CONFIDENT),
        delta=delta,
        per=per,
        n_classes=n_classes,
        absent=sample.absent,
        unseen_mass=unseen_mass(n, n_classes, sample.absent, delta),
    )


def local_dp_bound(epsilon: float, n_classes: int) -> float:
    """Balanced accuracy that no attacker exceeds on an epsilon-locally-private release; needs no data.

    Parameters
    ----------
    epsilon : P(z|x) / P(z|x') is at most e^epsilon for all records x, x' and releases z
    n_classes : number of classes of the secret
    """
    check_number("epsilon", epsilon, 0)
    check_number("n_classes", n_classes, 2, whole=True)
    return 1 / (1 + (n_classes - 1) * math.exp(-epsilon))
