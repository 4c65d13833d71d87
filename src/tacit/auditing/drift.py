"""Compare two tables of counts: does a later release come from the population that was audited?

The counts of released values need no sensitive label. A change of P(sensitive | released value) that leaves them alike
does not show in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy
from scipy.stats import chi2, random_table

FEW = 5.0  # expected records per cell, below which the p-value is simulated


def compare_counts(reference: Any, new: Any, draws: int = 9999, random_state: int = 0) -> float:
    """Return the p-value of "both samples have one distribution", by a likelihood-ratio test (G-test).

    Use it for independent records. Where a cell expects few records, the p-value is simulated over tables with the
    same margins and valid for every sample size; otherwise it is that of the chi-square distribution.

    Parameters
    ----------
    reference, new : (k,) how often each of k values occurs in two samples
    draws : simulated tables; the smallest simulated p-value is 1 / (draws + 1)
    random_state : of the simulation

    Returns
    -------
    float
        Between 0 and 1; 1 where a sample is empty

    Examples
    --------
    >>> round(compare_counts([500, 300, 200], [260, 140, 100]), 2)
    0.7
    >>> compare_counts([500, 300, 200], [100, 140, 260]) < 1e-6
    True
    """
    table = np.array([reference, new], dtype=np.int64)
    table = table[:, table.sum(axis=0) > 0]
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if rows.min() == 0 or len(columns) < 2:
        return 1.0
    margins = xlogy(rows, rows).sum() + xlogy(columns, columns).sum() - xlogy(rows.sum(), rows.sum())
    statistic = 2 * (xlogy(table, table).sum() - margins)
    if rows.min() * columns.min() / rows.sum() >= FEW:
        return float(chi2.sf(statistic, len(columns) - 1))
    drawn = random_table(rows, columns).rvs(draws, random_state=np.random.default_rng(random_state))
    simulated = 2 * (xlogy(drawn, drawn).sum(axis=(1, 2)) - margins)
    return float((1 + np.count_nonzero(simulated >= statistic - 1e-9)) / (draws + 1))
