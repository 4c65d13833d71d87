"""What is certified for any attacker. How a bound is found is in `tacit.audit`; what it says is here."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tacit.errors import InputError
from tacit.report.leakage_units import bayes_security, bits_from
from tacit.report.plain_data import plain, read_fields
from tacit.report.results import at_most, shown

VACUOUS = 0.99  # a bound by local privacy above this tells of epsilon, not of the release


@dataclass(frozen=True)
class Odds:
    """How far one release can move anybody's belief: at most `bound` times, with confidence 1 - delta, by itself.

    Attributes
    ----------
    bound : P(z|s) / P(z|s') is at most this for every release z and all classes s, s'; infinity where nothing bounds it
    plugin : the ratio that was counted where the bound is largest
    cell, classes : which release that is and which two classes, the likelier first; None where no release was counted
    cells : how many releases it speaks of; None: of all that there can be
    unseen : at most this share of units gets a release that it does not speak of (confidence 1 - delta, by itself)
    """

    bound: float
    plugin: float
    cell: int | None = None
    classes: tuple[int, int] | None = None
    cells: int | None = None
    unseen: float = 0.0

    def __post_init__(self) -> None:
        for name in ("bound", "plugin"):  # JSON has no infinity
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, math.inf)

    def sentence(self, level: str) -> str:
        """The worst case, in words."""
        if math.isinf(self.bound):
            return f"worst odds not certified: {self.why}"
        which = "no single release" if self.cells is None else f"none of the {self.cells:,} releases seen"
        text = f"{which} moves anyone's odds by more than {at_most(self.bound, 2)} times (certified, {level})"
        return text if self.cells is None else f"{text}; at most {self.unseen:.2%} get another one"

    @property
    def why(self) -> str:
        """Why nothing bounds the odds."""
        which = "a release that can come" if self.cell is None else f"release {self.cell}"
        return (
            f"{which} was not seen with every class, so it may give one away; merge rare releases "
            f"(CodebookFilter(max_odds=3)), or certify on more rows"
        )


@dataclass(frozen=True)
class AnyCertificate(ABC):
    """An upper bound on any attacker's balanced accuracy, and what it rests on. A kind is a subclass.

    Attributes
    ----------
    bound : no attacker exceeds this balanced accuracy (with confidence 1 - delta)
    plugin : what the best attacker gets on the certification units themselves; absent classes count as exposed
    accuracy_bound : the same for plain accuracy, which a rare, fully exposed class cannot hide behind
    guessing : 1 / number of declared classes
    exposed : share of units (or records, see `per`) whose class has a posterior of at least .9 given the release, all
        classes being equally likely beforehand; counted, without a guarantee
    n, n_units : records given, and independent units counted
    delta : probability that the statement fails, for any of the candidates
    candidates : how many releases, fixed beforehand, share delta
    per : whose average is bounded: the "unit"'s or the "record"'s
    n_classes, absent : classes declared, and how many of them no unit has
    unseen_mass : at most this share of units has a class that was not seen (confidence 1 - delta, by itself); an
        attacker's plain accuracy over the whole population needs no more, his balanced accuracy over classes that were
        never declared is not bounded
    odds : how far a single release can move anybody's belief; None where nothing is known of that
    """

    kinds: ClassVar[dict[str, type[AnyCertificate]]] = {}
    whole: ClassVar[bool] = True  # it bounds whoever reads all that was released

    bound: float
    plugin: float
    accuracy_bound: float
    guessing: float
    exposed: float
    n: int
    n_units: int
    delta: float
    candidates: int
    per: str
    n_classes: int
    absent: int
    unseen_mass: float
    odds: Odds | None = field(default=None, kw_only=True)

    def __init_subclass__(cls) -> None:
        AnyCertificate.kinds[cls.__name__] = cls

    def explain(self, level: str) -> str:
        """What a mean hides: the plain-accuracy bound, and whatever this kind knows of the worst case."""
        text = f"certified for {self.whom} ≤ {at_most(self.bound)} balanced, ≤ {at_most(self.accuracy_bound)} plain "
        text += f"({level}), for the average {'person' if self.per == 'unit' else 'record'}"
        if self.absent:
            text += f"; {self.absent} of {self.n_classes} classes have no row here and count as exposed"
        told = f"at most {self.bits:.3f} bits, Bayes security at least {shown(self.bayes_security)}"
        return f"{text}; {told}; {self._worst()}"

    @property
    def whom(self) -> str:
        """Who is bounded, in words."""
        return "any attacker"

    @property
    def worst_odds(self) -> float:
        """What the odds are certified at; infinity where they are not."""
        return math.inf if self.odds is None else self.odds.bound

    @property
    def bits(self) -> float:
        """Bits that a release tells of the attribute at most, classes being equally likely.

        It takes the average bound and, where certified, the odds: then it holds with confidence 1 - 2 delta.
        """
        return bits_from(self.bound, self.worst_odds, self.n_classes) if self.n_classes > 1 else 0.0

    @property
    def bayes_security(self) -> float:
        """The share of guessing's errors that the best attacker still makes, at least (confidence 1 - delta)."""
        return bayes_security(self.bound, self.guessing)

    @abstractmethod
    def _worst(self) -> str:
        """The worst case, in words."""

    def useless(self) -> str | None:
        """Why the bound says nothing about the release; None where it does."""
        # a bound of 1 that the slack made, not the leak
        if self.bound >= 1 and self.plugin < (1 + self.guessing) / 2:
            return f"too few units to certify ({self.n_units:,} units)"
        return None

    def to_dict(self) -> dict[str, Any]:
        fields = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": type(self).__name__, **fields}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any], name: str = "certificate") -> AnyCertificate:
        """The inverse of `to_dict`."""
        kind = cls.kinds.get(str(told.get("kind")))
        if kind is None:
            raise InputError(
                f"{name}: {told.get('kind')!r} is not a kind of certificate; there are {', '.join(cls.kinds)}"
            )
        return read_fields(kind, told, name)


@dataclass(frozen=True)
class Certificate(AnyCertificate):
    """Of a finite release, by counting. The worst-case facts are those of the certification records.

    Attributes
    ----------
    cells : distinct releases
    smallest_cell : the smallest number of records that share a release (expected, rounded down, behind a channel)
    largest_odds : largest P(z|s) / P(z|s') among cells that at least ten units share, None without such a cell.
        A class never seen in a cell counts as seen once, so there the odds are *at least* this
    worst_cell : the cell of those odds
    exposed : as of every kind; a unit alone in its cell counts, so small cells push it up
    """

    cells: int
    smallest_cell: int
    largest_odds: float | None = None
    worst_cell: int | None = None

    def _worst(self) -> str:
        text = f"the rarest of {self.cells} releases is shared by {self.smallest_cell:,} of {self.n:,} rows"
        text += f"; largest odds {self.largest_odds:.1f}" if self.largest_odds is not None else ""
        return f"{text}; {self.exposed:.1%} named with 90 % confidence"


@dataclass(frozen=True)
class GaussianCertificate(AnyCertificate):
    """Of a code with Gaussian noise.

    Attributes
    ----------
    plugin : what the Bayes attacker between the known mixtures gets, by Monte Carlo
    null_plugin : the plug-in on the same codes with shuffled labels, where the truth is guessing
    vacuous : whether null_plugin exceeds guessing by more than .05: the bound then tells of the number of
        records and dimensions, not of the release
    draws : of Monte Carlo, whose error is within delta
    sigma : standard deviation of the noise
    """

    null_plugin: float
    vacuous: bool
    draws: int
    sigma: float

    def _worst(self) -> str:
        return f"{self.exposed:.1%} named with 90 % confidence"

    def useless(self) -> str | None:
        if not self.vacuous:
            return super().useless()
        return (
            f"the noise certificate would be vacuous (on shuffled labels the same codes give {self.null_plugin:.3f}, "
            f"guessing is {self.guessing:.3f}): audited, not certified. Fewer components or more noise would help"
        )


@dataclass(frozen=True)
class LocalPrivacyCertificate(AnyCertificate):
    """Of a release that is locally differentially private.

    Attributes
    ----------
    bound : holds for sure and for any population
    plugin : the same: there is nothing to count
    accuracy_bound : given how common the commonest class is (with confidence 1 - delta)
    epsilon : the local privacy that the release declares
    n_units : units that the commonest class was counted from
    exposed : the largest share there may be: 0 where the bound excludes it, else 1
    delta : probability that the statement on plain accuracy fails
    """

    epsilon: float

    def _worst(self) -> str:
        return f"by local privacy, epsilon {self.epsilon:g}, whatever the population"

    def useless(self) -> str | None:
        if self.bound <= VACUOUS:
            return super().useless()
        return (
            f"local privacy with epsilon {self.epsilon:g} excludes nothing (any attacker <= {self.bound:.3f}): "
            f"audited, not certified. Lower epsilon"
        )


@dataclass(frozen=True)
class ColumnsCertificate(AnyCertificate):
    """Of whoever reads at most `size` released columns, chosen before the record is seen; of nobody else.

    Attributes
    ----------
    bound : no such attacker exceeds this balanced accuracy (with confidence 1 - delta), for all sets together
    plugin : the largest of what the best attacker on a set gets on the certification units
    accuracy_bound : the same as `bound` for plain accuracy (its largest set may be another one)
    exposed : as of every kind, for the set that exposes most
    size : how many columns an attacker reads
    worst : the columns of the set with the largest plug-in
    sets : how many sets were counted
    """

    whole = False

    size: int
    worst: tuple[str, ...]
    sets: int

    @property
    def whom(self) -> str:
        """ "whoever reads any two columns"."""
        words = {1: "any one column", 2: "any two columns", 3: "any three columns"}
        return f"whoever reads {words.get(self.size, f'any {self.size} columns')}"

    def _worst(self) -> str:
        return f"{', '.join(self.worst)} tell most of {self.sets:,} such sets; nothing is certified for more columns"
