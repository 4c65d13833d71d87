"""The certificate: a finite-sample upper bound on what *any* attacker could do with a finite release.

With probability at least 1 - delta over the certification units,

    m BA* <= sum_z max_s P(z|s) + sqrt( sum_s 1/n_s  ln(1/delta) / 2 ) + absent,

the sum over the classes that were seen and counted from the data, n_s the units of class s, m the declared classes and
`absent` those of them that nobody has. Why: (i) the sum is convex in the class-conditional laws, so that the
plug-in is biased upward (Jensen); (ii) one unit moves it by at most 1/n_s (McDiarmid); (iii) sum_z max_s P(z|s) over
all classes is at most the same over the seen ones plus sum_z P(z|s) = 1 for each absent one: a class that nobody
was there to tell of counts as fully exposed. The bound holds for one release of a fresh record of the same
population (`tacit.auditing.population` says which: the average unit's or the average record's), and an attacker who
knows nothing else about the person. A known channel after the code (randomized response) changes the laws, not the
argument. Gaussian noise is in `tacit.auditing.gaussian`, local privacy in `tacit.auditing.local_privacy_certificate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.auditing.local_privacy_certificate import CONFIDENT
from tacit.auditing.local_privacy_certificate import certify_local_privacy as certify_local_privacy
from tacit.auditing.local_privacy_certificate import local_dp_bound as local_dp_bound
from tacit.auditing.odds import behind_channel, count_odds
from tacit.auditing.population import Sample, check_records, independent_units, share_delta, whole_numbers
from tacit.auditing.population import joint_units as joint_units
from tacit.auditing.population import look_delta as look_delta
from tacit.errors import InputError
from tacit.labels import MISSING, joint_codes
from tacit.report.certificates import Certificate

MAX_CELLS = 4096
MIN_FOR_ODDS = 10  # odds of a cell that fewer units share are chance; `smallest_cell` tells of those


def certify(
    cells: np.ndarray,
    sensitive: np.ndarray,
    n_classes: int,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    candidates: int = 1,
    per: str = "unit",
    max_unit_size: int | None = None,
    n_cells: int | None = None,
    times: np.ndarray | None = None,
) -> Certificate:
    """Bound any attacker on a finite release.

    Parameters
    ----------
    cells : (n,) which of the finitely many releases each record got
    sensitive : (n,) class, 0 .. n_classes - 1; records the filter and its choice never saw
    n_classes : classes that the population may have, declared without looking at these records
    delta : probability that the statement may fail
    units : (n,) the independent unit of each record
    candidates : how many releases, fixed beforehand, are certified on these records to choose among; each gets
        delta / candidates
    per : "unit" bounds the average unit (one of its records is released), "record" the average record
    max_unit_size : for per="record" with units: a number of records that no unit of the population exceeds, known
        beforehand
    n_cells : how many different releases there can be, where that is known beforehand: the odds are then of all
    times : (n,) how many equal records each of these is, where they were counted beforehand (`tacit.certify`)

    Examples
    --------
    >>> c = certify(np.arange(1000) % 3, np.arange(1000) % 2, n_classes=2)
    >>> round(c.plugin, 3), round(c.bound, 3), c.guessing
    (0.501, 0.54, 0.5)
    """
    check_records(cells, sensitive, n_classes, units)
    names, cells = np.unique(whole_numbers("cells", cells), return_inverse=True)
    cells, k = cells.ravel(), len(names)
    sample = independent_units(sensitive, n_classes, units, per, max_unit_size, times)
    table = count_units(cells, sensitive, k, sample)
    records = np.bincount(cells, times, minlength=k)
    found = _Counted(table, records, records if units is None else _units_per_cell(cells, units, k), names)
    odds = count_odds(cells, sensitive, sample, names, n_cells, share_delta(delta, candidates))
    return replace(_certificate(found, sample, int(records.sum()), delta, candidates, per), odds=odds)


def certify_channel(
    cells: np.ndarray,
    sensitive: np.ndarray,
    n_classes: int,
    channel: np.ndarray,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    candidates: int = 1,
    per: str = "unit",
    max_unit_size: int | None = None,
) -> Certificate:
    """Bound any attacker on a code that passes a known random channel, such as randomized response.

    Parameters
    ----------
    cells : (n,) code of each record *before* the channel, 0 .. k - 1
    channel : (k, r) probability of each released symbol given the code; rows sum to one
    sensitive, n_classes, delta, units, candidates, per, max_unit_size : as for `certify`
    """
    check_records(cells, sensitive, n_classes, units)
    cells, channel = whole_numbers("cells", cells), np.asarray(channel, dtype=float)
    if channel.ndim != 2 or (channel < 0).any() or not np.allclose(channel.sum(axis=1), 1, atol=1e-9):
        raise InputError("channel must be a (k, r) table of probabilities whose rows sum to one")
    if cells.min() < 0 or cells.max() >= len(channel):
        raise InputError(
            f"cells run from {cells.min()} to {cells.max()} but channel has {len(channel)} rows; "
            f"number the cells as the rows of channel"
        )
    k = len(channel)
    sample = independent_units(sensitive, n_classes, units, per, max_unit_size)
    table = channel.T @ count_units(cells, sensitive, k, sample)
    records = np.bincount(cells, minlength=k) @ channel
    reach = _units_per_cell(cells, units, k) @ channel
    used = np.flatnonzero(records > 0)
    found = _Counted(table[used], records[used], reach[used], used)
    codes = count_odds(cells, sensitive, sample, np.arange(k), k, share_delta(delta, candidates))
    odds = behind_channel(codes, channel)
    return replace(_certificate(found, sample, len(sensitive), delta, candidates, per), odds=odds)


def product_secret(codes: np.ndarray, sizes: Sequence[int] | None = None) -> np.ndarray:
    """One code for several sensitive attributes together.

    Certify it like any sensitive attribute, after leaving out the missing. `sizes` declares the classes of each
    sensitive attribute; the product then has ``math.prod(sizes)`` declared classes. Without it combinations are
    numbered as they occur (``n_classes = product.max() + 1``), and nothing is said about those that do not.

    Parameters
    ----------
    codes : (n, sensitive attributes) class of each sensitive attribute, -1 where it is missing
    sizes : declared number of classes of each sensitive attribute

    Returns
    -------
    (n,) class of the combination, -1 where any sensitive attribute is missing

    Examples
    --------
    >>> product_secret(np.array([[1, 0], [0, 2], [-1, 1]]), sizes=(2, 3)).tolist()
    [3, 2, -1]
    """
    codes = np.asarray(codes)
    known = (codes != MISSING).all(axis=1)
    product = np.full(len(codes), MISSING, dtype=np.int64)
    if sizes is None:
        product[known] = joint_codes(codes[known])
        return product
    if len(sizes) != codes.shape[1] or (codes[known] >= np.asarray(sizes)).any():
        raise InputError(
            f"sizes {tuple(sizes)} do not fit {codes.shape[1]} sensitive attributes whose largest codes are "
            f"{tuple(codes.max(axis=0, initial=-1).tolist())}; pass the declared number of classes of each"
        )
    product[known] = np.ravel_multi_index(tuple(codes[known].T), tuple(sizes))
    return product


def release_cells(Z: np.ndarray) -> np.ndarray | None:
    """The number of each record's release among the distinct ones; None when there are too many to count."""
    flat = np.ascontiguousarray(Z.reshape(len(Z), -1))
    cells = np.unique(flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel(), return_inverse=True)[
        1
    ]
    n_cells = int(cells.max()) + 1
    return cells if n_cells <= MAX_CELLS and n_cells <= max(2, len(Z) / 2) else None


def count_units(cells: np.ndarray, sensitive: np.ndarray, n_cells: int, sample: Sample) -> np.ndarray:
    """(cells, classes) table of units; a unit with records in several cells is shared between them."""
    m = len(sample.counts)
    at = cells[sample.rows] * m + sensitive[sample.rows]
    return np.bincount(at, sample.weight, minlength=n_cells * m).reshape(n_cells, m)


def balanced_plugin(table: np.ndarray, counts: np.ndarray) -> float:
    """The best attacker's balanced accuracy on a (cells, classes) table of units; absent classes count as exposed."""
    seen = counts > 0
    best = float((table[:, seen] / counts[seen]).max(axis=1).sum())
    return (best + int((~seen).sum())) / len(counts)


def slacks(sample: Sample, delta: float, candidates: int) -> tuple[float, float]:
    """McDiarmid's slack of balanced and of plain accuracy: one unit moves them by 1/(m n_s) and by 1/n."""
    log_term = math.log(1 / share_delta(delta, candidates)) / 2
    return math.sqrt(sample.square_shares * log_term) / len(sample.counts), math.sqrt(log_term / sample.n_units)


@dataclass(frozen=True)
class _Counted:
    """What was counted by cell: units by class, records, units that reach it, and the cell's name."""

    table: np.ndarray
    records: np.ndarray
    units: np.ndarray
    names: np.ndarray


def _certificate(found: _Counted, sample: Sample, n: int, delta: float, candidates: int, per: str) -> Certificate:
    """The certificate of counts; behind a channel, of expected counts."""
    balanced_slack, plain_slack = slacks(sample, delta, candidates)
    seen = sample.counts > 0
    table, counts = found.table[:, seen], sample.counts[seen]
    law = table / counts
    plugin = balanced_plugin(found.table, sample.counts)
    plain = float(table.max(axis=1).sum() / sample.n_units)
    seen_once = np.where(law > 0, law, 1 / counts)
    odds = np.maximum(1, law.max(axis=1) / seen_once.min(axis=1))
    odds[found.units < MIN_FOR_ODDS - 1e-9] = 0
    worst = int(odds.argmax())
    named = law >= (CONFIDENT - 1e-12) * law.sum(axis=1, keepdims=True)
    return Certificate(
        bound=min(1.0, plugin + balanced_slack),
        plugin=plugin,
        accuracy_bound=min(1.0, plain + plain_slack),
        cells=len(table),
        smallest_cell=int(found.records.min() + 1e-9),
        largest_odds=float(odds[worst]) if odds[worst] else None,
        worst_cell=int(found.names[worst]) if odds[worst] else None,
        exposed=min(1.0, float(table[named].sum() / sample.n_units)),
        **sample.facts(n, delta, candidates, per),
    )


def _units_per_cell(cells: np.ndarray, units: np.ndarray | None, n_cells: int) -> np.ndarray:
    if units is not None:
        cells = np.unique(np.column_stack([np.unique(units, return_inverse=True)[1].ravel(), cells]), axis=0)[:, 1]
    return np.bincount(cells, minlength=n_cells)
