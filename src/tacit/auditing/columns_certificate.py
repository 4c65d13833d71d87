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
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from tacit.auditing.certificate import balanced_plugin, count_units, slacks
from tacit.auditing.local_privacy_certificate import CONFIDENT
from tacit.auditing.population import Sample, check_records, independent_units
from tacit.errors import InputError, check_number
from tacit.labels import joint_codes
from tacit.report.certificates import ColumnsCertificate

MAX_SETS = 100_000
MAX_CELLS = 1_000_000  # of a set, that are counted without numbering those that occur


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
    names: Sequence[str] | None = None,
) -> ColumnsCertificate:
    """Bound every attacker who reads at most `size` of the released columns.

    Takes time O(n) for each of the C(d, size) sets.

    Parameters
    ----------
    columns : (n, d) whole numbers: which of its values each released column has
    sensitive : (n,) class, 0 .. n_classes - 1; records the filter and its choice never saw
    size : how many columns an attacker reads; all of them where there are no more
    names : of the columns; None: their positions
    n_classes, delta, units, candidates, per, max_unit_size : as for `tacit.auditing.certificate.certify`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.integers(2, size=(3, 5000))
    >>> pairs = certify_columns(np.column_stack([a, b, c]), a ^ c, 2)
    >>> pairs.worst, pairs.bound
    (('0', '2'), 1.0)
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
    plugin, plain, exposed, worst = -math.inf, 0.0, 0.0, tuple[int, ...]()
    for chosen, cells in _sets(columns, size):
        table = count_units(cells, sensitive, int(cells.max()) + 1, sample)
        plain = max(plain, float(table.max(axis=1).sum()) / sample.n_units)
        exposed = max(exposed, _exposed(table, sample))
        found = balanced_plugin(table, sample.counts)
        if found > plugin:
            plugin, worst = found, chosen
    balanced_slack, plain_slack = slacks(sample, delta, candidates)
    return ColumnsCertificate(
        bound=min(1.0, plugin + balanced_slack),
        plugin=plugin,
        accuracy_bound=min(1.0, plain + plain_slack),
        exposed=min(1.0, exposed),
        size=size,
        worst=tuple(str(c if names is None else names[c]) for c in worst),
        sets=n_sets,
        **sample.facts(len(sensitive), delta, candidates, per),
    )


def _sets(columns: np.ndarray, size: int) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Every set of `size` columns, and the cell of each record in it."""
    codes = [np.unique(c, return_inverse=True)[1].ravel() for c in columns.T]
    kinds = [int(c.max()) + 1 for c in codes]
    for chosen in combinations(range(len(codes)), size):
        if math.prod(kinds[c] for c in chosen) > MAX_CELLS:
            yield chosen, joint_codes(np.column_stack([codes[c] for c in chosen]))
            continue
        cells = np.zeros(len(columns), dtype=np.int64)
        for c in chosen:
            cells = cells * kinds[c] + codes[c]
        yield chosen, cells


def _exposed(table: np.ndarray, sample: Sample) -> float:
    """The share of units whose class is nearly sure given their cell, classes being equally likely beforehand."""
    seen = sample.counts > 0
    law = table[:, seen] / sample.counts[seen]
    named = (law > 0) & (law >= (CONFIDENT - 1e-12) * law.sum(axis=1, keepdims=True))
    return float(table[:, seen][named].sum() / sample.n_units)
