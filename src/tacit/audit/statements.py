"""What an audit says beside its headline: who is named for sure, and what its attackers would have missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.audit.stats import Measure

RARE = "a rare group"


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
        text = f"{_percent(m.value)} % [{_percent(m.low)}, {_percent(m.high)}] of people are named with 90 % confidence"
        if self.precision is not None:
            text += f" (by {self.attacker}; such answers are right in {_point(self.precision.value)})"
        if self.group is not None and self.within is not None:
            w = self.within
            text += f"; most exposed: {self.group} ({_point(w.value)} [{_point(w.low)}, {_point(w.high)}])"
        return text


@dataclass(frozen=True)
class Power:
    """The smallest leaks that would have been found in 9 of 10 cases.

    Attributes
    ----------
    found : by kind of leak the smallest size: balanced accuracy of the reader who knows where to look, or for a rare
        group the share of people named for sure. None: not even the largest that was tried
    largest : by kind, the largest size that could be planted
    readers : by kind, the attacker that was tried: one of those that ran
    guessing : balanced accuracy of guessing
    plantings : how many leaks of each kind were planted
    rows : how many rows the reader learned from, and was tested on
    """

    found: Mapping[str, float | None]
    largest: Mapping[str, float]
    readers: Mapping[str, str]
    guessing: float
    plantings: int
    rows: tuple[int, int]

    @property
    def sentence(self) -> str:
        """What would have been found, and as plainly what would have been missed."""
        sized = {kind: x for kind, x in self.found.items() if kind != RARE}
        seen = [f"{_point(x)} in {kind}" for kind, x in sized.items() if x is not None]
        missed = [f"{kind} (up to {_point(self.largest[kind])})" for kind, x in sized.items() if x is None]
        rare = self.found.get(RARE)
        text = f"would have found a leak of at least {', '.join(seen)}" if seen else ""
        if rare is not None:
            text += f"{', and ' if seen else 'would have found '}{RARE} if {_percent(rare)} % of people are named"
        elif RARE in self.found:
            missed.append(f"{RARE} (up to {_percent(self.largest[RARE])} % of people named)")
        if missed:
            text += f"{'; they ' if text else ''}would have missed any leak in {', '.join(missed)}"
        if seen or rare is not None:
            text += "; anything smaller they may have missed"
        return f"These attackers, with these rows, {text} (guessing {_point(self.guessing)})"


def _point(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
