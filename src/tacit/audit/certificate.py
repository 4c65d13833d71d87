"""The certificate: a finite-sample upper bound on what *any* attacker could do with a finite release.

With probability at least 1 - delta over the certification records,

    BA* <= BA_plugin + (1/m) sqrt( sum_s sum_b w_sb^2  ln(1/delta) / 2 ),

BA_plugin = (1/m) sum_z max_s P(z|s) counted from the data, w_sb the share of class s's records that
unit b holds (1/n_s without units). BA is convex in the class-conditional laws, so the plug-in is
biased upward; one unit moves it by at most w_sb/m (McDiarmid). The bound holds for one release of
a fresh record of the same population, and an attacker who knows nothing else about the person.
A known channel after the code (randomised response) changes the laws, not the argument.
Gaussian noise is in `tacit.audit.gaussian`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.errors import InputError, check_number
from tacit.labels import MISSING, joint_codes

MOST_CELLS = 4096
FEWEST_FOR_ODDS = 10  # odds of a cell that fewer units share are chance; `smallest_cell` tells of those
CONFIDENT = 0.9


@dataclass(frozen=True)
class Certificate:
    """An upper bound on any attacker's balanced accuracy, and what it rests on.

    The worst-case facts (the last three) are counted from the certification records and carry no guarantee.

    Attributes
    ----------
    bound : no attacker exceeds this balanced accuracy (with confidence 1 - delta)
    plugin : what the best attacker gets on the certification records themselves
    accuracy_bound : the same for plain accuracy, which a rare, fully exposed class cannot hide behind
    guessing : 1 / number of classes
    n, n_units, cells : records, independent units and distinct releases counted
    smallest_cell : the fewest records that share a release (expected, rounded down, behind a channel)
    delta : probability that the statement fails, for any of the candidates
    candidates : how many releases, fixed beforehand, share delta
    largest_odds : largest P(z|s) / P(z|s') among cells that at least ten units share, None without such a cell.
        A class never seen in a cell counts as seen once, so there the odds are *at least* this
    worst_cell : the cell of those odds
    exposed : share of records whose class has a posterior of at least .9 given the cell, all classes being
        equally likely beforehand; a record alone in its cell counts, so small cells push it up
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
    candidates: int
    largest_odds: float | None
    worst_cell: int | None
    exposed: float


def certify(
    cells: np.ndarray,
    secret: np.ndarray,
    n_classes: int,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    candidates: int = 1,
) -> Certificate:
    """Bound any attacker on a finite release.

    Parameters
    ----------
    cells : (n,) which of the finitely many releases each record got
    secret : (n,) class of the secret, 0 .. n_classes - 1; records the filter and its choice never saw
    delta : probability that the statement may fail
    units : (n,) the independent unit of each record
    candidates : how many releases, fixed beforehand, are certified on these records to choose among; each gets
        delta / candidates
    """
    check_records(cells, secret, n_classes, units)
    names, cells = np.unique(_whole("cells", cells), return_inverse=True)
    cells = cells.ravel()
    table = _count(cells, secret, len(names), n_classes)
    return _certificate(table, _units_per_cell(cells, units, len(names)), names, secret, units, delta, candidates)


def certify_channel(
    cells: np.ndarray,
    secret: np.ndarray,
    n_classes: int,
    channel: np.ndarray,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    candidates: int = 1,
) -> Certificate:
    """Bound any attacker on a code that passes a known random channel, such as randomised response.

    Parameters
    ----------
    cells : (n,) code of each record *before* the channel, 0 .. k - 1
    secret : (n,) class of the secret, 0 .. n_classes - 1; records the filter and its choice never saw
    channel : (k, r) probability of each released symbol given the code; rows sum to one
    delta : probability that the statement may fail
    units : (n,) the independent unit of each record
    candidates : how many releases, fixed beforehand, are certified on these records; each gets delta / candidates
    """
    check_records(cells, secret, n_classes, units)
    cells, channel = _whole("cells", cells), np.asarray(channel, dtype=float)
    if channel.ndim != 2 or (channel < 0).any() or not np.allclose(channel.sum(axis=1), 1, atol=1e-9):
        raise InputError("channel must be a (k, r) table of probabilities whose rows sum to one")
    if cells.min() < 0 or cells.max() >= len(channel):
        raise InputError(
            f"cells run from {cells.min()} to {cells.max()} but channel has {len(channel)} rows; "
            f"number the cells as the rows of channel"
        )
    table = _count(cells, secret, len(channel), n_classes).T @ channel
    used = np.flatnonzero(table.sum(axis=0) > 0)
    reach = _units_per_cell(cells, units, len(channel)) @ channel
    return _certificate(table.T[used], reach[used], used, secret, units, delta, candidates)


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


@dataclass(frozen=True)
class LocalPrivacyCertificate:
    """An upper bound on any attacker's balanced accuracy against a release that is locally differentially private.

    Attributes
    ----------
    bound : no attacker exceeds this balanced accuracy; holds for sure and for any population
    plugin : the same: there is nothing to count
    accuracy_bound : the same for plain accuracy, given how common the commonest class is (with confidence 1 - delta)
    guessing : 1 / number of classes
    epsilon : the local privacy that the release declares
    n, n_units : records and units that the commonest class was counted from
    exposed : largest share of records whose class may have a posterior of at least .9 when all classes are equally
        likely beforehand: 0 where the bound excludes it, else 1
    delta : probability that the statement on plain accuracy fails
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


def certify_local_privacy(
    epsilon: float, secret: np.ndarray, n_classes: int, delta: float = 0.05, units: np.ndarray | None = None
) -> LocalPrivacyCertificate:
    """Bound any attacker on an epsilon-locally-private release.

    Given a release, the posterior of a class of share p is at most p e^eps / (p e^eps + 1 - p).

    Parameters
    ----------
    epsilon : P(z|x) / P(z|x') is at most e^epsilon for all records x, x' and releases z
    secret : (n,) class of the secret, 0 .. n_classes - 1; says how common the commonest class is
    delta : probability that the statement on plain accuracy may fail
    units : (n,) the independent unit of each record
    """
    check_records(secret, secret, n_classes, units)
    counts = np.bincount(secret)
    m, n = int((counts > 0).sum()), len(secret)
    slack = math.sqrt(record_shares(n, units) * math.log(m / share_delta(delta, 1)) / 2)  # for each class, at delta/m
    commonest = min(1.0, float(counts.max()) / n + slack)
    bound = local_dp_bound(epsilon, max(2, m))
    return LocalPrivacyCertificate(
        bound=bound,
        plugin=bound,
        accuracy_bound=commonest / (commonest + (1 - commonest) * math.exp(-epsilon)),
        guessing=1 / m,
        epsilon=epsilon,
        n=n,
        n_units=n if units is None else len(np.unique(units)),
        exposed=float(bound >= CONFIDENT),
        delta=delta,
    )


def units_needed(
    cells: np.ndarray,
    secret: np.ndarray,
    n_classes: int,
    aim: float,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    candidates: int = 1,
) -> int | None:
    """How many units a class would bring the certificate of this code down to `aim`, roughly.

    A plan, not a statement. The plug-in's upward bias is taken as c / sqrt(units): c comes from the rise of the
    plug-in when half the units are left out (mean of 50 halves). That is the worst rate; where the classes differ
    clearly in every cell the bias fades as 1/units, and the truth (hence the answer) is taken somewhat too low.
    The answer makes the *expected* bound equal the aim, with as many units in every class and records spread over
    units as now: about half of such certificates would land above. It varies with the records given, strongly
    where the aim is close to the truth.

    Parameters
    ----------
    cells, secret, n_classes, delta, units, candidates : as for `certify`
    aim : the bound wished for

    Returns
    -------
    units a class, or None where even the plug-in freed of its bias is not under the aim
    """
    now = certify(cells, secret, n_classes, delta, units, candidates)
    units = np.arange(len(secret)) if units is None else np.unique(units, return_inverse=True)[1].ravel()
    cells = np.unique(cells, return_inverse=True)[1].ravel()
    counts = np.bincount(secret)
    pair, row = np.unique(np.column_stack([units, secret]), axis=0, return_inverse=True)
    shares = np.bincount(row.ravel()) / counts[pair[:, 1]]  # w_sb
    units_of_class = np.bincount(pair[:, 1])
    m = int((counts > 0).sum())
    # Unequal units cost more than as many equal ones, and units with several classes move several terms.
    spread = float((np.bincount(pair[:, 1], shares**2) * units_of_class).sum())
    mixed = square_shares(secret, units) / float((shares**2).sum())
    slack_at_one = math.sqrt(spread * mixed * math.log(candidates / delta) / 2) / m
    # The class with the fewest units has most of the bias; the harmonic mean is the balanced design as noisy as this.
    present = units_of_class[units_of_class > 0]
    size = len(present) / float((1 / present).sum())
    rise = max(0.0, _half_sample_plugin(cells, secret, n_classes, units) - now.plugin)
    bias_at_one = rise / (math.sqrt(2) - 1) * math.sqrt(size)
    truth = max(now.guessing, now.plugin - bias_at_one / math.sqrt(size))
    return None if truth >= aim else max(1, math.ceil(((bias_at_one + slack_at_one) / (aim - truth)) ** 2))


def product_secret(codes: np.ndarray) -> np.ndarray:
    """One code for several secrets together, numbered from 0 over the combinations that occur.

    Certify it like any secret, with ``n_classes = product.max() + 1``, after leaving out the missing.

    Parameters
    ----------
    codes : (n, secrets) class of each secret, -1 where it is missing

    Returns
    -------
    (n,) class of the combination, -1 where any secret is missing
    """
    codes = np.asarray(codes)
    known = (codes != MISSING).all(axis=1)
    product = np.full(len(codes), MISSING, dtype=np.int64)
    product[known] = joint_codes(codes[known])
    return product


def release_cells(Z: np.ndarray) -> np.ndarray | None:
    """The number of each record's release among the distinct ones; None when there are too many to count."""
    flat = np.ascontiguousarray(Z.reshape(len(Z), -1))
    cells = np.unique(flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel(), return_inverse=True)[
        1
    ]
    n_cells = int(cells.max()) + 1
    return cells if n_cells <= MOST_CELLS and n_cells <= max(2, len(Z) / 2) else None


def check_records(records: np.ndarray, secret: np.ndarray, n_classes: int, units: np.ndarray | None) -> None:
    """Refuse records, labels and units that do not belong together."""
    if len(secret) == 0:
        raise InputError("there is no record to certify on; pass at least one record of each class")
    for what, values in (("secret", secret), ("units", secret if units is None else units)):
        if len(values) != len(records):
            raise InputError(f"{what} has {len(values)} rows but the release has {len(records)}; pass one per record")
    _whole("secret", secret)
    if secret.min() < 0 or secret.max() >= n_classes:
        raise InputError(
            f"secret runs from {secret.min()} to {secret.max()}; expected 0 .. {n_classes - 1}. "
            f"Leave out records whose secret is unknown"
        )


def share_delta(delta: float, candidates: int) -> float:
    """What each of the candidates may spend of the probability to fail."""
    check_number("candidates", candidates, 1, whole=True)
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, both excluded; found {delta!r}")
    return delta / candidates


def square_shares(secret: np.ndarray, units: np.ndarray | None) -> float:
    """sum over classes and units of w_sb^2; 1/n_s per class when every record is its own unit.

    A unit with records of several classes moves several terms at once: its shares add before squaring.
    """
    counts = np.bincount(secret)
    if units is None:
        return float((1 / counts[counts > 0]).sum())
    share = np.bincount(np.unique(units, return_inverse=True)[1].ravel(), 1 / counts[secret])
    return float((share**2).sum())


def record_shares(n: int, units: np.ndarray | None) -> float:
    """Sum of the squared shares of all records that units hold; what plain accuracy's slack rests on."""
    return 1 / n if units is None else float(((np.unique(units, return_counts=True)[1] / n) ** 2).sum())


def _certificate(
    table: np.ndarray,
    units_per_cell: np.ndarray,
    names: np.ndarray,
    secret: np.ndarray,
    units: np.ndarray | None,
    delta: float,
    candidates: int,
) -> Certificate:
    """The certificate of a (cells, classes) table of counts; behind a channel, of expected counts."""
    log_term = math.log(1 / share_delta(delta, candidates)) / 2
    table = table[:, np.bincount(secret, minlength=table.shape[1]) > 0]
    n, m = len(secret), table.shape[1]
    law = table / table.sum(axis=0)
    plugin = float(law.max(axis=1).sum() / m)
    plain = float(table.max(axis=1).sum() / n)
    seen_once = np.where(law > 0, law, 1 / table.sum(axis=0))
    odds = np.maximum(1, law.max(axis=1) / seen_once.min(axis=1))
    odds[units_per_cell < FEWEST_FOR_ODDS - 1e-9] = 0
    worst = int(odds.argmax())
    named = law >= (CONFIDENT - 1e-12) * law.sum(axis=1, keepdims=True)
    return Certificate(
        bound=min(1.0, plugin + math.sqrt(square_shares(secret, units) * log_term) / m),
        plugin=plugin,
        accuracy_bound=min(1.0, plain + math.sqrt(record_shares(n, units) * log_term)),
        guessing=1 / m,
        n=n,
        n_units=n if units is None else len(np.unique(units)),
        cells=len(table),
        smallest_cell=int(table.sum(axis=1).min() + 1e-9),
        delta=delta,
        candidates=candidates,
        largest_odds=float(odds[worst]) if odds[worst] else None,
        worst_cell=int(names[worst]) if odds[worst] else None,
        exposed=float(table[named].sum() / n),
    )


def _half_sample_plugin(cells: np.ndarray, secret: np.ndarray, n_classes: int, units: np.ndarray) -> float:
    """The plug-in on half the units, mean of 50 halves; a half that loses a class counts that class as unseen."""
    rng = np.random.default_rng(0)
    n_units, n_cells = int(units.max()) + 1, int(cells.max()) + 1
    # Halving within a class keeps its size fixed; a unit with several classes goes with its first record's.
    first = secret[np.unique(units, return_index=True)[1]]
    found = []
    for _ in range(50):
        order = np.lexsort((rng.random(n_units), first))
        taken = np.zeros(n_units, dtype=bool)
        taken[order[rng.integers(2) :: 2]] = True
        rows = taken[units]
        table = _count(cells[rows], secret[rows], n_cells, n_classes)
        table = table[:, table.sum(axis=0) > 0]
        found.append((table / table.sum(axis=0)).max(axis=1).sum() / max(1, table.shape[1]))
    return float(np.mean(found))


def _count(cells: np.ndarray, secret: np.ndarray, n_cells: int, n_classes: int) -> np.ndarray:
    return np.bincount(cells * n_classes + secret, minlength=n_cells * n_classes).reshape(n_cells, n_classes)


def _units_per_cell(cells: np.ndarray, units: np.ndarray | None, n_cells: int) -> np.ndarray:
    if units is not None:
        cells = np.unique(np.column_stack([np.unique(units, return_inverse=True)[1].ravel(), cells]), axis=0)[:, 1]
    return np.bincount(cells, minlength=n_cells)


def _whole(what: str, values: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InputError(f"{what} must be one whole number per record; found {values.dtype} of shape {values.shape}")
    return values.astype(np.int64, copy=False)
