"""The certificate of few columns: a bound on every attacker who reads at most some of the released columns.

A release of many columns has too many values to count, but pairs of columns have few. For each set A of `size` columns
let BA*_A be what the best attacker gets who reads these columns alone. Then with probability at least 1 - delta

    max_A BA*_A <= max_A plugin_A + slack,

with the *one* slack of a single set, however many sets there are. Proof. Each plugin_A is convex in the joint
class-conditional laws of all columns (a sum of maxima of linear functions), and so is their maximum: its mean is
at least its value at the true laws, max_A BA*_A (Jensen). One unit of class s moves each plugin_A by at most 1/(m n_s)
and therefore their maximum by no more: McDiarmid's slack is that of one set. Absent classes add 1/m each, for any A.
The same holds for plain accuracy. A smaller set tells no more than a larger one, so only sets of `size` are counted.

The price of many sets is in the maximum itself: it is biased upward by chance, more so the more sets there are.

The attacker chooses the set before he sees the record. One who reads a second column *depending on* the first is
bounded by the set of all the columns that he may come to read, not by pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tacit.audit.certificate import balanced_plugin, count_units, slacks
from tacit.audit.population import check_records, independent_units, unseen_mass
from tacit.errors import InputError, check_number
from tacit.labels import joint_codes

MAX_SETS = 100_000


@dataclass(frozen=True)
class ColumnsCertificate:
    """An upper bound on the balanced accuracy of any attacker who reads at most `size` released columns.

    Attributes
    ----------
    bound : no such attacker exceeds this balanced accuracy (with confidence 1 - delta), for all sets together
    plugin : the largest of what the best attacker on a set gets on the certification units
    accuracy_bound : the same as `bound` for plain accuracy (its largest set may be another one)
    guessing : 1 / number of declared classes
    size : how many columns an attacker reads
    worst : the columns of the set with the largest plug-in
    sets : how many sets were counted
    n, n_units : records given and independent units counted
    delta : probability that the statement fails, for any set and any of the candidates
    candidates : how many releases, fixed beforehand, share delta
    per : whose average is bounded: the "unit"'s or the "record"'s
    n_classes, absent : classes declared, and how many of them no unit has
    unseen_mass : at most this share of units has a class that was not seen (confidence 1 - delta, by itself)
    """

    bound: float
    plugin: float
    accuracy_bound: float
    guessing: float
    size: int
    worst: tuple[int, ...]
    sets: int
    n: int
    n_units: int
    delta: float
    candidates: int
    per: str
    n_classes: int
    absent: int
    unseen_mass: float


def certify_columns(
    columns: np.ndarray,
    sensitive: np.ndarray,
    n_classes: int,
    size: int = 2,
    delta: float = 0.05,
    units: np.ndarray | None = None,
    candidates: int = 1,
    per: str = "unit",
    max_unit_size: int | None = None,
) -> ColumnsCertificate:
    """Bound every attacker who reads at most `size` of the released columns.

    Takes time O(n) for each of the C(d, size) sets.

    Parameters
    ----------
    columns : (n, d) whole numbers: which of its values each released column has
    sensitive : (n,) class, 0 .. n_classes - 1; records the filter and its choice never saw
    size : how many columns an attacker reads; all of them where there are no more
    n_classes, delta, units, candidates, per, max_unit_size : as for `tacit.audit.certificate.certify`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.integers(2, size=(3, 5000))
    >>> pairs = certify_columns(np.column_stack([a, b, c]), a ^ c, 2)
    >>> pairs.worst, pairs.bound
    ((0, 2), 1.0)
    >>> certify_columns(np.column_stack([a, b, c]), a ^ c, 2, size=1).bound < .54
    True
    """
    columns = np.asarray(columns)
    if columns.ndim != 2 or columns.dtype.kind not in "iu" or columns.shape[1] == 0:
        raise InputError(
            f"columns must be a (records, columns) table of whole numbers with at least one column; found "
            f"{columns.dtype} of shape {columns.shape}"
        )
    check_records(columns, sensitive, n_classes, units)
    check_number("size", size, 1, whole=True)
    size = min(size, columns.shape[1])
    n_sets = math.comb(columns.shape[1], size)
    if n_sets > MAX_SETS:
        raise InputError(
            f"{columns.shape[1]} columns have {n_sets:,} sets of {size}, more than {MAX_SETS:,}; "
            f"pass fewer columns or a smaller size"
        )
    sample = independent_units(sensitive, n_classes, units, per, max_unit_size)
    codes = [np.unique(c, return_inverse=True)[1].ravel() for c in columns.T]
    worst: tuple[int, ...] = ()
    plugin, plain = -math.inf, 0.0
    for chosen in combinations(range(len(codes)), size):
        cells = joint_codes(np.column_stack([codes[c] for c in chosen])) if size > 1 else codes[chosen[0]]
        table = count_units(cells, sensitive, int(cells.max()) + 1, sample)
        plain = max(plain, float(table.max(axis=1).sum()) / sample.n_units)
        found = balanced_plugin(table, sample.counts)
        if found > plugin:
            plugin, worst = found, chosen
    balanced_slack, plain_slack = slacks(sample, delta, candidates)
    return ColumnsCertificate(
        bound=min(1.0, plugin + balanced_slack),
        plugin=plugin,
        accuracy_bound=min(1.0, plain + plain_slack),
        guessing=1 / n_classes,
        size=size,
        worst=worst,
        sets=n_sets,
        n=len(sensitive),
        n_units=sample.n_units,
        delta=delta,
        candidates=candidates,
        per=per,
        n_classes=n_classes,
        absent=sample.absent,
        unseen_mass=unseen_mass(sample.n_units, n_classes, sample.absent, delta),
    )
