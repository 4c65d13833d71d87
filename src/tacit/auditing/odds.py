"""The odds certificate: how far one single release can move anybody's belief, for releases that can be counted.

`tacit.solvers.cell_odds` bounds the ratios of cells; here is who is counted (one record of each unit, so that counts
are binomial), and what is said of releases that nobody got.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta

from tacit.auditing.population import COIN, Sample
from tacit.errors import ContradictionError
from tacit.report.certificates import Odds
from tacit.solvers.cell_odds import worst_odds


def count_odds(
    cells: np.ndarray, sensitive: np.ndarray, sample: Sample, names: np.ndarray, n_cells: int | None, delta: float
) -> Odds:
    """Bound the odds of every release there can be, where their number is known; else of those that were seen.

    Parameters
    ----------
    cells : (n,) number of each record's release among `names`
    n_cells : how many different releases there can be; None where that is not known
    """
    table, k = _table(cells, sensitive, sample, len(names)), len(names)
    if n_cells is None:
        found = worst_odds(table, delta, all_cells=False)
        return Odds(
            found.bound,
            found.plugin,
            int(names[found.cell]),
            found.classes,
            k,
            unseen_releases(table.sum(axis=1), delta),
        )
    found = worst_odds(np.vstack([table, np.zeros((max(0, n_cells - k), table.shape[1]), dtype=int)]), delta)
    return Odds(found.bound, found.plugin, int(names[found.cell]) if found.cell < k else None, found.classes)


def behind_channel(odds: Odds, channel: np.ndarray) -> Odds:
    """The odds of symbols that a known channel makes of codes: no more than the codes' nor than the channel's own."""
    used = channel[:, channel.max(axis=0) > 0]
    with np.errstate(divide="ignore"):
        ratio = used.max(axis=0) / used.min(axis=0)
    own = float(ratio.max())
    return odds if odds.bound <= own else Odds(own, own)


def unseen_releases(counts: np.ndarray, delta: float) -> float:
    """Upper bound, at confidence 1 - delta, on the share of units whose release is none of those seen.

    A fixed coin is tossed for every unit: those of one side say which releases there are, those of the other are
    trials, and so many of them got a release that the first side had not (Clopper-Pearson).

    Parameters
    ----------
    counts : units that got each release

    Examples
    --------
    >>> round(unseen_releases(np.array([334, 333, 333]), 0.05), 4)
    0.0062
    """
    first = np.random.default_rng((*COIN, 1)).binomial(counts, 0.5)
    second = counts - first
    new, n = int(second[first == 0].sum()), int(second.sum())
    return 1.0 if new >= n else float(beta.ppf(1 - delta, new + 1, n - new))


def check_odds(
    name: str, odds: Odds | None, cells: np.ndarray, sensitive: np.ndarray, sample: Sample, delta: float
) -> None:
    """Raise where counting these records finds larger odds than are certified, beyond chance (Clopper-Pearson)."""
    if odds is None or math.isinf(odds.bound):
        return
    table, counts = _table(cells, sensitive, sample), sample.counts
    level = delta / (2 * table.size)
    low = np.where(table > 0, beta.ppf(level, table, counts - table + 1), 0.0)
    high = np.where(table < counts, beta.ppf(1 - level, table + 1, counts - table), 1.0)
    found = low.max(axis=1) / high.min(axis=1)
    if found.max() > odds.bound:
        raise ContradictionError(
            f"{name}: on the test rows release {found.argmax()} is at least {found.max():.2f} times as likely for one "
            f"class as for another, but the certificate says that no odds exceed {odds.bound:.2f}. One of the two is "
            f"wrong, so neither may be used; check that rows of one person share a unit (units=), that `attack` and "
            f"`test` are of one population, and if all of this holds, please report a defect in Tacit"
        )


def private_odds(epsilon: float) -> Odds:
    """Of a release with this local privacy: e^epsilon, for sure and whatever the population."""
    bound = math.exp(epsilon) if epsilon < 700 else math.inf
    return Odds(bound, bound)


def _table(cells: np.ndarray, sensitive: np.ndarray, sample: Sample, n_cells: int = 0) -> np.ndarray:
    """(cells, classes) whole units, each by the one record drawn of it."""
    m, where = len(sample.counts), cells[sample.drawn]
    k = max(n_cells, int(where.max()) + 1)
    found = np.bincount(where * m + sensitive[sample.drawn], sample.times, minlength=k * m)
    return found.astype(np.int64).reshape(k, m)
