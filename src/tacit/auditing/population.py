"""Whose average a certificate speaks of: from records of units to independent draws from one population.

Only units (people) are independent, and they hold different numbers of records. Two populations can be meant:

per="unit"    draw a unit, then one of its records; the law of class s is that of the record drawn, given that it has
              class s. It is the average person's, whatever the sizes.
per="record"  draw a record; a unit counts as often as it has records. It is the average record's.

A unit whose records have several classes would move several laws at once, and the laws of mixed units may differ from
those of pure ones: with 100 classes the sum of its shares is then too small a slack (violated in 11 %, tests/claims).
So a class is drawn for each unit, in proportion to its records, by a coin that knows nothing of the data, and the
unit speaks for that class alone, with the average over its records of the class. Given the classes drawn, the units
are independent, each has one class, and the average of the units of class s has exactly the law of class s as its mean.

The average record: a unit is accepted with probability size / max_unit_size. Accepted units are independent draws of
the population in which a unit weighs as much as it has records, so the above holds for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from tacit.errors import InputError, check_number

# Fixed, so that nobody can toss again, and unlike any seed that data are likely to be made or shuffled with.
COIN = (0x7AC17, 0x5EED, 0xC0117)


@dataclass(frozen=True)
class Sample:
    """Independent units, each with one class.

    Attributes
    ----------
    rows : (r,) the records that count
    weight : (r,) of each of them; those of one unit add to one
    counts : (n_classes,) units of each class
    drawn : (n_units,) the one record drawn of each unit, whose class is the unit's
    times : how many units each of `drawn` stands for, where equal ones were counted beforehand; None: one
    """

    rows: np.ndarray
    weight: np.ndarray
    counts: np.ndarray
    drawn: np.ndarray
    times: np.ndarray | None = None

    @property
    def n_units(self) -> int:
        return int(self.counts.sum())

    @property
    def absent(self) -> int:
        """Declared classes without a unit."""
        return int((self.counts == 0).sum())

    @property
    def square_shares(self) -> float:
        """Sum over units of the square of what one moves its class's law: 1 / n_s per class that is there."""
        return float((1 / self.counts[self.counts > 0]).sum())

    def facts(self, n: int, delta: float, candidates: int, per: str) -> dict[str, Any]:
        """What every certificate says of the n records and the units that it was counted from."""
        m = len(self.counts)
        unseen = unseen_mass(self.n_units, m, self.absent, delta)
        found = {"n": n, "n_units": self.n_units, "n_classes": m, "absent": self.absent, "unseen_mass": unseen}
        return found | {"guessing": 1 / m, "delta": delta, "candidates": candidates, "per": per}


def independent_units(
    sensitive: np.ndarray,
    n_classes: int,
    units: np.ndarray | None = None,
    per: str = "unit",
    max_unit_size: int | None = None,
    times: np.ndarray | None = None,
) -> Sample:
    """The independent draws that these records are, from the population of units or of records.

    Parameters
    ----------
    sensitive : (n,) class of each record, 0 .. n_classes - 1
    units : (n,) the independent unit of each record; None where records are independent
    per : "unit" for the average unit, "record" for the average record
    max_unit_size : for per="record" with units: no unit of the *population* has more records. It must be known
        beforehand: the largest unit seen says nothing about the rare, large ones that were not seen
    times : (n,) how many equal records each of these is, where they were counted beforehand; None: one

    Examples
    --------
    >>> s = independent_units(np.array([0, 0, 0, 1]), 2, units=np.array([7, 7, 7, 8]))
    >>> s.weight.round(2).tolist(), s.counts.tolist()
    ([0.33, 0.33, 0.33, 1.0], [1, 1])
    """
    check_per(per)
    check_number("max_unit_size", max_unit_size, 1, whole=True, optional=True)
    if units is None:
        rows = np.arange(len(sensitive))
        weight = np.ones(len(rows)) if times is None else times.astype(float)
        return Sample(rows, weight, _whole_counts(sensitive, times, n_classes), rows, times)
    unit = np.unique(units, return_inverse=True)[1].ravel()
    size = _whole_counts(unit, times)
    accept, draw = np.random.default_rng(COIN).random((2, len(size)))
    accepted = np.ones(len(size), dtype=bool)
    if per == "record":
        accepted = accept < size / _known_maximum(size, max_unit_size)
    # One record of each unit gives its class; the others of that class speak with it.
    by_unit = np.argsort(unit, kind="stable")
    first = np.concatenate([[0], np.cumsum(size)[:-1]])
    place = first + (draw * size).astype(int)
    if times is not None:  # the row in which the record at this place was counted
        place = np.searchsorted(np.cumsum(times[by_unit]), place, side="right")
    drawn = by_unit[place]
    class_of = sensitive[drawn]
    rows = np.flatnonzero(accepted[unit] & (sensitive == class_of[unit]))
    if not len(rows):
        raise InputError(
            f"of {len(size):,} units none was accepted for the average record, because max_unit_size={max_unit_size} "
            f"is so much larger than they are; pass a smaller bound that is known to hold, or take per='unit'"
        )
    own = np.ones(len(rows)) if times is None else times[rows]
    held = np.bincount(unit[rows], own, minlength=len(size))
    counts = np.bincount(class_of[accepted], minlength=n_classes)
    return Sample(rows, own / held[unit[rows]], counts, drawn[accepted])


def joint_units(columns: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The independent units of several attributes together: whatever is connected by a unit of any of them.

    Two records are dependent when any attribute counts them to one unit, and so are two that a third record links:
    the units are the connected components.

    Parameters
    ----------
    columns : for each attribute the (n,) unit of each record, None where its records are independent

    Returns
    -------
    (n,) number of the component of each record; None when no attribute has units

    Examples
    --------
    >>> joint_units([np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7])]).tolist()
    [0, 0, 0, 1]
    """
    given = [np.unique(c, return_inverse=True)[1].ravel() for c in columns if c is not None]
    if not given:
        return None
    n = len(given[0])
    if any(len(c) != n for c in given):
        raise InputError(f"units have {', '.join(str(len(c)) for c in given)} rows; pass one unit per record in each")
    # Nodes are the records and the units of every attribute; an edge from each record to each of its units.
    offsets = n + np.cumsum([0, *(int(c.max(initial=-1)) + 1 for c in given)])
    unit = np.concatenate([c + offset for c, offset in zip(given, offsets[:-1], strict=True)])
    record = np.tile(np.arange(n), len(given))
    graph = coo_matrix((np.ones(len(unit)), (record, unit)), shape=(offsets[-1], offsets[-1]))
    component: np.ndarray = connected_components(graph, directed=False)[1][:n]
    return np.unique(component, return_inverse=True)[1].ravel()


def unseen_mass(n_units: int, n_classes: int, absent: int, delta: float) -> float:
    """Upper bound, at confidence 1 - delta, on the share of units whose class is none of those seen.

    Fix a set of `absent` declared classes and add all undeclared ones. When their share is p, no unit of n has such a
    class with probability (1 - p)^n. There are C(m, absent) such sets and m possible numbers of absent classes; each
    gets an equal part of delta. The declared classes must have been fixed without these records: of classes read off
    them none is absent, however many are.

    Parameters
    ----------
    n_units : independent units
    n_classes : classes declared
    absent : how many of them no unit has

    Examples
    --------
    >>> round(unseen_mass(1000, 2, 0, .05), 4)  # ln(40) / 1000
    0.0037
    """
    check_number("n_units", n_units, 1, whole=True)
    check_number("absent", absent, 0, n_classes, whole=True)
    log_share = math.log(share_delta(delta, n_classes)) - math.log(math.comb(n_classes, absent))
    return -math.expm1(log_share / n_units)


def look_delta(delta: float, look: int) -> float:
    """What the certificate of the t-th look at the same records may spend of delta: 6 delta / (pi^2 t^2).

    The parts of all looks, however many there will be, add to delta.

    Examples
    --------
    >>> round(look_delta(.05, 1), 4), round(look_delta(.05, 10), 6)
    (0.0304, 0.000304)
    """
    check_number("look", look, 1, whole=True)
    return 6 * share_delta(delta, 1) / (math.pi * look) ** 2


def share_delta(delta: float, candidates: int) -> float:
    """What each of the candidates may spend of the probability to fail."""
    check_number("candidates", candidates, 1, whole=True)
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, both excluded; found {delta!r}")
    return delta / candidates


def check_records(records: np.ndarray, sensitive: np.ndarray, n_classes: int, units: np.ndarray | None) -> None:
    """Refuse records, labels and units that do not belong together."""
    if len(sensitive) == 0:
        raise InputError("there is no record to certify on; pass at least one record of each class")
    for what, values in (("sensitive", sensitive), ("units", sensitive if units is None else units)):
        if len(values) != len(records):
            raise InputError(f"{what} has {len(values)} rows but the release has {len(records)}; pass one per record")
    whole_numbers("sensitive", sensitive)
    if sensitive.min() < 0 or sensitive.max() >= n_classes:
        raise InputError(
            f"sensitive runs from {sensitive.min()} to {sensitive.max()}; expected 0 .. {n_classes - 1}. "
            f"Leave out records whose sensitive attribute is unknown"
        )


def check_per(per: str) -> None:
    """Refuse a population that is none."""
    if per not in ("unit", "record"):
        raise InputError(f"per must be 'unit' (the average unit) or 'record' (the average record); found {per!r}")


def whole_numbers(what: str, values: np.ndarray) -> np.ndarray:
    """One whole number per record, as int64."""
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InputError(f"{what} must be one whole number per record; found {values.dtype} of shape {values.shape}")
    return values.astype(np.int64, copy=False)


def _whole_counts(codes: np.ndarray, times: np.ndarray | None, n_codes: int = 0) -> np.ndarray:
    """How many records have each code."""
    return np.bincount(codes, times, minlength=n_codes).astype(np.int64)


def _known_maximum(size: np.ndarray, max_unit_size: int | None) -> int:
    largest = int(size.max())
    if max_unit_size is None:
        raise InputError(
            f"per='record' with units (the largest seen has {largest:,} records) needs max_unit_size, a number of "
            f"records that no unit of the population exceeds: one rare, large unit that was not seen could change the "
            f"average record as much as it likes. Pass the limit that is known beforehand, not the largest size seen, "
            f"or take per='unit'"
        )
    if largest > max_unit_size:
        raise InputError(
            f"a unit has {largest:,} records but max_unit_size is {max_unit_size:,}; pass a limit that holds for "
            f"every unit of the population, or take per='unit'"
        )
    return max_unit_size
