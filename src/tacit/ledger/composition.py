"""What several releases give together: bounds on any attacker who reads them all.

Two releases of one person can tell more than both bounds suggest. Let Z1 be a fair coin and Z2 the same coin, turned
over where the sensitive value is 1: each is independent of it, and together they tell it. So nothing but counting the
releases *together* bounds them tightly, and what is composed from single bounds says what it rests on:

whatever the law    m BA(Z1, Z2) = sum max_s P(z1|s) P(z2|z1,s) <= m BA(Z1) * k2, for k2 values of Z2; or, where Z2 is
                    locally private, times m e^eps / (e^eps + m - 1), since its noise knows nothing but the record.
                    Epsilons add up.
independent         where the releases are independent given the sensitive value: leakages multiply,
given the value     sum max_s P(z1|s) P(z2|s) <= (m BA1) (m BA2); odds multiply; bits add up; and for two classes the
                    overlaps multiply, 1 - TV(P1 x P2, Q1 x Q2) >= (1 - TV1) (1 - TV2). The smallest counts.
                    It holds for records that were drawn anew. It does NOT hold of two codes of the same record.

N different records of one person are N releases; the same record by the same bundle and key is the same release.
Each bound may fail with its delta, and what is composed of them with the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tacit.errors import InputError
from tacit.report.leakage_units import accuracy_from_bits, accuracy_from_odds, bits_from
from tacit.report.results import at_most

ALONE, COUNTED = "one release", "counted together, if all are of the same record"
AUDITED = "audited"
ANY_LAW, INDEPENDENT = "whatever the law", "if they are independent given the sensitive value"


@dataclass(frozen=True)
class Part:
    """What is certified of one release about one sensitive attribute.

    Attributes
    ----------
    bound : on any attacker's balanced accuracy; 1 where nothing is certified
    n_classes : of the attribute
    odds : no release moves anyone's odds by more than this; infinite where that is not certified
    cells : how many values the release can have; None where they are not finite
    epsilon : of a locally private release
    records : how many different records of the person were released so
    delta : probability that the statement fails
    """

    bound: float
    n_classes: int
    odds: float = math.inf
    cells: int | None = None
    epsilon: float | None = None
    records: int = 1
    delta: float = 0.05

    @property
    def factor(self) -> float:
        """By how much a release multiplies what any attacker has already, whatever the law."""
        most = [float(self.n_classes)]
        if self.cells is not None:
            most.append(float(self.cells))
        if self.epsilon is not None:
            most.append(self.n_classes * accuracy_from_odds(math.exp(self.epsilon), self.n_classes))
        return min(most)


@dataclass(frozen=True)
class Composed:
    """A bound on any attacker who reads several releases of one person.

    Attributes
    ----------
    bound, odds, bits : on balanced accuracy, on how far odds move, on the mutual information
    how : "one release", "counted together ...", "whatever the law", the condition that it needs, or "audited": then the
        bound is of our attackers alone
    by : which way gave the smallest bound
    delta : probability that it fails
    releases : how many there are
    """

    bound: float
    odds: float
    bits: float
    how: str
    by: str
    delta: float
    releases: int

    @property
    def sentence(self) -> str:
        """ "<= .607 for whoever reads all 2 releases (by bits, if they are ...)"."""
        what = "one release" if self.releases == 1 else f"all {self.releases} releases"
        odds = "" if math.isinf(self.odds) else f", odds moved at most {self.odds:.1f} times"
        why = "" if self.releases == 1 else f" ({self.by}; {self.how})" if self.by else f" ({self.how})"
        if self.how == AUDITED:
            more = "audited, not certified: a better one may reach more"
            return f"our attackers <= {at_most(self.bound)} on {what} ({more})"
        return f"any attacker <= {at_most(self.bound)}{odds} for whoever reads {what}{why}"


def compose(parts: Sequence[Part], independent: bool = False) -> Composed:
    """Bound whoever reads all of these releases of one person.

    Parameters
    ----------
    parts : one for each release
    independent : take them as independent given the sensitive value; the answer then says so

    Examples
    --------
    >>> two = [Part(.546, 2, odds=2, cells=16), Part(.522, 2, odds=1.5, cells=4)]
    >>> compose(two).bound, compose(two).how
    (1.0, 'whatever the law')
    >>> found = compose(two, independent=True)
    >>> round(found.bound, 3), found.by
    (0.566, 'overlap')
    """
    if not parts:
        raise InputError("there is no release to compose; pass at least one")
    classes = {p.n_classes for p in parts}
    if len(classes) > 1:
        raise InputError(f"the releases tell of attributes with {sorted(classes)} classes; compose one attribute")
    m = classes.pop()
    number, delta = sum(p.records for p in parts), min(1.0, sum(p.delta for p in parts))
    if number == 1:
        only = parts[0]
        bits = bits_from(only.bound, only.odds, m)
        return Composed(only.bound, only.odds, bits, ALONE, "", delta, 1)
    bound, odds, how, by = _any_law(parts, m), _private_odds(parts), ANY_LAW, ""
    if not math.isinf(odds):
        bound = min(bound, accuracy_from_odds(odds, m))
    bits = bits_from(bound, odds, m)
    if independent:
        odds = min(odds, _product((p.odds, p.records) for p in parts))
        sum_of_bits = sum(p.records * bits_from(p.bound, p.odds, m) for p in parts)
        ways = {
            "leakage": _product((m * p.bound, p.records) for p in parts) / m,
            "odds": 1.0 if math.isinf(odds) else accuracy_from_odds(odds, m),
            "bits": accuracy_from_bits(sum_of_bits, m),
        }
        if m == 2:
            ways["overlap"] = 1 - _product((2 - 2 * p.bound, p.records) for p in parts) / 2
        by = min(ways, key=lambda way: ways[way])
        if ways[by] < bound:
            bound, how = ways[by], INDEPENDENT
        else:
            by = ""
        bits = min(bits, sum_of_bits, bits_from(bound, odds, m))
    return Composed(min(1.0, bound), odds, bits, how, by, delta, number)


def _any_law(parts: Sequence[Part], m: int) -> float:
    """The smallest, over which release is read first, of its bound times the others' factors."""
    logs = [p.records * math.log(p.factor) for p in parts]
    log_bounds = [math.log(max(p.bound, 1 / m)) - math.log(p.factor) for p in parts]
    return math.exp(min(0.0, *(sum(logs) + first for first in log_bounds)))


def _private_odds(parts: Sequence[Part]) -> float:
    """The odds that local privacy allows: epsilons add up. Infinite where a release is not locally private."""
    total = sum(math.inf if p.epsilon is None else p.records * p.epsilon for p in parts)
    return math.exp(total) if total < 700 else math.inf


def _product(powers: Iterable[tuple[float, int]]) -> float:
    """Of numbers, each to its power; infinity rather than an overflow."""
    logs = sum(times * math.log(value) if value > 0 else -math.inf for value, times in powers)
    return math.exp(logs) if logs < 700 else math.inf
