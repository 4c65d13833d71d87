"""What an audit measures, by attribute and by attack: numbers that carry their interval and what guessing gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from tacit.errors import ContradictionError
from tacit.report.plain_data import read_fields

KNOWS, ALL = "knows ", "all"  # the name of an attack by who knows raw columns begins so; and the whole raw record
ALONE, GAIN = "known alone", "gain by the release"  # what such an attack measures beside itself


class Measure(NamedTuple):
    """A number, its interval, and what guessing would give."""

    value: float
    low: float
    high: float
    guessing: float


def advantage(measure: Measure) -> Measure:
    """How far from guessing (0) to certainty (1) a measure is; the interval is mapped the same way.

    Examples
    --------
    >>> advantage(Measure(.75, .6, .9, guessing=.5))
    Measure(value=0.5, low=0.2, high=0.8, guessing=0.0)
    """
    room = 1 - measure.guessing
    if room <= 0:  # a single class: there was nothing to learn
        return Measure(0.0, 0.0, 0.0, 0.0)
    value, low, high = (round(min(1.0, max(0.0, (x - measure.guessing) / room)), 15) for x in measure[:3])
    return Measure(value, low, high, 0.0)


class Figure:
    """What every result has: its headline measure, with its interval and what guessing gives."""

    attribute: str
    headline: str
    attacker: str
    n: int
    n_units: int
    attackers: Mapping[str, Measure]
    more: Mapping[str, Measure]

    @property
    def measure(self) -> Measure:
        """The headline measure."""
        found: Measure = getattr(self, self.headline)
        return found

    @property
    def advantage(self) -> Measure:
        """How far above guessing, 0 (guessing) to 1 (always right)."""
        return advantage(self.measure)

    @property
    def value(self) -> float:
        return self.measure.value

    @property
    def low(self) -> float:
        return self.measure.low

    @property
    def high(self) -> float:
        return self.measure.high

    @property
    def guessing(self) -> float:
        return self.measure.guessing


@dataclass(frozen=True)
class Result(Figure):
    """How well one attribute can be read from the release.

    `value` is the headline measure with its interval and what guessing gives: accuracy for a target
    (utility), balanced accuracy for a sensitive attribute (leakage). The other measures are beside it.
    """

    attribute: str
    headline: str  # "accuracy", "balanced_accuracy" or "auc"
    attacker: str
    accuracy: Measure
    balanced_accuracy: Measure
    auc: Measure
    n: int
    n_units: int
    attackers: Mapping[str, Measure] = field(default_factory=dict)
    more: Mapping[str, Measure] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # rows: the truth; columns: the attacker's answer
    named: Measure | None = None  # share of people named with 90 % confidence, by whichever attacker names most

    @classmethod
    def from_dict(cls, told: Mapping[str, Any], name: str) -> AnyResult:
        """The inverse of `plain`: of classes, or of a number."""
        found: AnyResult = read_fields(NumberResult if "r2" in told else cls, told, name)
        return found


@dataclass(frozen=True)
class NumberResult(Figure):
    """How well one number can be read from the release.

    `value` is R², the share of its variance that the best regressor explains: guessing has 0.

    Attributes
    ----------
    attacker : whose R² is told; `by` says who has the best rank correlation and the smallest error. All are chosen on
        validation rows
    r2, rank_correlation : R² and Spearman's correlation; guessing has 0
    mae : the mean absolute error, in the number's own units; its `guessing` is the error of always naming the median
    """

    attribute: str
    attacker: str
    r2: Measure
    rank_correlation: Measure
    mae: Measure
    n: int
    n_units: int
    headline: str = "r2"
    by: Mapping[str, str] = field(default_factory=dict)
    attackers: Mapping[str, Measure] = field(default_factory=dict)
    more: Mapping[str, Measure] = field(default_factory=dict)
    # what only classes have
    classes: ClassVar[tuple[str, ...]] = ()
    confusion: ClassVar[tuple[tuple[int, ...], ...]] = ()
    named: ClassVar[Measure | None] = None

    @property
    def errors(self) -> str:
        """ "rank correlation .551, mean error 8.9 where guessing the median gives 11.2"."""
        off = f"mean error {digits(self.mae.value)} where guessing the median gives {digits(self.mae.guessing)}"
        return f"rank correlation {shown(self.rank_correlation.value)}, {off}"


AnyResult = Result | NumberResult


@dataclass(frozen=True)
class AttackResult:
    """One kind of attack beside the headline: its name, what its attacker knows, what it found."""

    kind: str
    knows: str
    results: Mapping[str, AnyResult]


@dataclass(frozen=True)
class Knowledge:
    """Somebody who knows raw columns of a person: how well they guess without the release, and with it.

    Attributes
    ----------
    knows : names of the columns, or "all"
    alone, together : balanced accuracy from these columns, and from these columns with the release
    gain : together less alone, on the same people
    """

    knows: str
    alone: Measure
    together: Measure
    gain: Measure

    def sentence(self, attribute: str) -> str:
        """ "someone who knows age, job and race guesses sex at .574 alone and .608 with the release"."""
        *most, last = self.knows.split(", ")
        known = f"{', '.join(most)} and {last}" if most else last
        known = "the whole raw record" if self.knows == ALL else known
        text = f"someone who knows {known} guesses {attribute} at {shown(self.alone.value)} alone"
        return f"{text} and {shown(self.together.value)} with the release"

    def figures(self, attribute: str) -> str:
        """All three with their intervals."""
        text = f"{attribute}, by who knows {self.knows}: {shown(self.alone.value)} ({interval(self.alone)}) alone, "
        text += f"{shown(self.together.value)} ({interval(self.together)}) with the release, "
        return f"{text}gain {self.gain.value:+.3f} ({self.gain.low:+.3f} to {self.gain.high:+.3f})"


class LimitPoint(NamedTuple):
    """One point of the estimated limit: the best accuracy at this leakage, and the rule's certificate."""

    accuracy: float
    leakage: float
    bound: float | None = None


@dataclass(frozen=True)
class Exposure:
    """Who can be named, and where.

    Attributes
    ----------
    named : share of the test people about whom the attacker is sure (at least 90 %) and right
    precision : how often it was right among those it was sure of, classes weighing alike; None where it never was
    attacker : the one that names the largest share of the validation rows; it may not be the headline's
    group : the group of people in which the headline's attacker does best, or None where no group is large enough
    within : that attacker's balanced accuracy there; the interval is widened for the number of groups
    """

    named: Measure
    precision: Measure | None
    attacker: str
    group: str | None = None
    within: Measure | None = None

    @property
    def sentence(self) -> str:
        """ "3.1 % [2.5, 3.8] of people are named with 90 % confidence; most exposed: age over 48 (.61 [.58, .64])"."""
        m = self.named
        text = f"{percent(m.value, 1)} [{100 * m.low:.1f}, {100 * m.high:.1f}] of people are named with 90 % confidence"
        if self.precision is not None:
            text += f" (by {self.attacker}; such answers are right in {shown(self.precision.value)})"
        if self.group is not None and self.within is not None:
            w = self.within
            text += f"; most exposed: {self.group} ({shown(w.value)} [{shown(w.low)}, {shown(w.high)}])"
        return text


def check_bound(name: str, result: Figure, bound: float | None) -> None:
    """Raise where an attacker's lower end lies above what is certified for any attacker."""
    if bound is None:
        return
    measured = {result.attacker: result.measure, **result.attackers}
    attacker, worst = max(measured.items(), key=lambda item: item[1].low)
    if worst.low > bound:
        raise ContradictionError(
            f"{name}: {attacker} reads {worst.value:.3f} [{worst.low:.3f}, {worst.high:.3f}], but the certificate "
            f"says that no attacker exceeds {bound:.3f}. One of the two is wrong, so neither may be used. Check that "
            f"rows of one person share a unit (units=), that `attack` and `test` were not used in the fit, and that "
            f"the audited release is the one handed over; if all of this holds, please report a defect in Tacit"
        )


def beats(utility: Mapping[str, Any], leak: Figure, other: Mapping[str, Any], other_leak: Figure) -> bool:
    """Whether a release is at least as useful as another for every target, and leaks less.

    Both count beyond chance: not less useful by more than half the interval, and leaking less than the lower end.
    """
    as_useful = all(t in utility and utility[t].value >= u.value - (u.high - u.low) / 4 for t, u in other.items())
    return bool(other) and as_useful and leak.high < other_leak.low


def shown(value: float) -> str:
    """Three digits without the leading zero, as in the papers: .571"""
    text = f"{value:.3f}".removeprefix("-" if abs(value) < 5e-4 else "")
    return text.removeprefix("0").replace("-0.", "-.", 1)


def digits(value: float) -> str:
    """A number in its own units, to three digits: 8.93, 152, 41500."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def at_most(value: float, digits: int = 3) -> str:
    """A bound, rounded up: what is printed is never below what was proved.

    Examples
    --------
    >>> at_most(.56641), at_most(.55), at_most(2.301, 1), at_most(1.0)
    ('.567', '.550', '2.4', '1.000')
    """
    step = 10**digits
    return f"{math.ceil(round(value * step, 6)) / step:.{digits}f}".removeprefix("0")


def interval(measure: Any) -> str:
    """ ".501–.540", and "-.020 to .110" of ends that may have a sign."""
    between = " to " if measure.low < 0 else "–"
    return f"{shown(measure.low)}{between}{shown(measure.high)}"


def percent(share: float, digits: int = 0) -> str:
    """A share or a confidence in words: 95 %."""
    return f"{share:.{digits}%}".replace("%", " %")
