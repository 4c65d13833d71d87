"""Differential privacy of a fit: what is asked for, what was spent, and the accountant between them.

Whoever has what was learned can hardly tell whether one person's records took part: for any two tables that differ in
one person, and any set of results, the chances of landing in it are within a factor exp(epsilon), but for delta. This
is about the rows a filter is fitted on. What a release tells of the person it is about is another question, which
audits and certificates answer.

The accountant is the library dp-accounting (privacy loss distributions); it is imported where it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from scipy.optimize import brentq

from tacit.errors import InputError, check_number

LARGEST_NOISE = 1e3  # noise multipliers beyond it leave nothing to learn
LABELS = "which classes the labels have, and how many records there are"  # what no private fit here covers


@dataclass(frozen=True)
class DP:
    """What a differentially private fit may spend, and what everybody may know beforehand.

    Parameters
    ----------
    epsilon, delta : the budget of one fit. It is spent whole; several fits (a search, a frontier) add up
    clip : the norm that a person's gradient (or record, for closed forms) is clipped to
    ranges : of number columns, by name: (low, high) that are known without looking at the data; of arrays one pair for
        all. Numbers are scaled by them and clipped to them
    categories : of text columns, by name: the words that there can be

    Examples
    --------
    >>> DP(epsilon=3.0, ranges={"age": (17, 90)}).epsilon
    3.0
    """

    epsilon: float = 3.0
    delta: float = 1e-5
    clip: float = 1.0
    ranges: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None
    categories: Mapping[str, tuple[str, ...]] | None = None

    def check(self, people: int) -> None:
        """Raise where a parameter promises nothing."""
        check_number("dp.epsilon", self.epsilon, 1e-3)
        check_number("dp.clip", self.clip, 1e-9)
        check_number("dp.delta", self.delta, 1e-30, 1)
        if self.delta * people >= 1:
            raise InputError(
                f"dp.delta={self.delta:g} allows everything to be told of one of {people} people; take less than "
                f"{1 / people:.2g}, better a tenth of it"
            )


@dataclass(frozen=True)
class Spent:
    """What a fit has spent; `not_covered` says what of the training data it does not bound."""

    epsilon: float
    delta: float
    unit: str
    people: int
    noise_multiplier: float
    clip: float
    sampling_rate: float
    steps: int
    not_covered: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "not_covered": list(self.not_covered)}

    def __str__(self) -> str:
        rest = f"; not covered: {'; '.join(self.not_covered)}" if self.not_covered else ""
        return (
            f"the fit is differentially private: epsilon {math.ceil(100 * self.epsilon) / 100:.2f}, delta "
            f"{self.delta:g}, for every {self.unit} of the {self.people:,} it learned from{rest}"
        )

    @property
    def advantage(self) -> float:
        """The most that any attack on membership can have: its true positives less its false ones, as shares.

        Examples
        --------
        >>> round(Spent(1.0, 1e-5, "record", 1000, 1.0, 1.0, 0.1, 10).advantage, 3)
        0.462
        """
        return (math.expm1(self.epsilon) + 2 * self.delta) / (math.exp(self.epsilon) + 1)


def spent_by_all(told: Sequence[Spent]) -> Spent:
    """What holds for the people of every node: each has paid for its own, and the most that any did is told.

    Examples
    --------
    >>> one = Spent(1.0, 1e-5, "person", 100, 1.0, 1.0, 0.1, 10)
    >>> both = spent_by_all([one, replace(one, epsilon=2.0, people=50)])
    >>> both.epsilon, both.people
    (2.0, 150)
    """
    most = max(told, key=lambda s: s.epsilon)
    unit = "person" if all(s.unit == "person" for s in told) else "record"
    return replace(most, delta=max(s.delta for s in told), unit=unit, people=sum(s.people for s in told))


def read_spent(told: Any) -> Spent | None:
    """A statement that came from another machine; None where it is none."""
    words = {f.name for f in fields(Spent)}
    if not isinstance(told, Mapping) or set(told) != words or told["unit"] not in ("record", "person"):
        return None
    numbers = [told[w] for w in words - {"unit", "not_covered"}]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and 0 <= n < 1e15 for n in numbers):
        return None
    rest = told["not_covered"]
    fits = isinstance(rest, list) and all(isinstance(t, str) and t.isprintable() and len(t) < 400 for t in rest)
    return Spent(**{**told, "not_covered": tuple(rest)}) if fits else None


def epsilon_of(rate: float, noise_multiplier: float, steps: int, delta: float) -> float:
    """Epsilon of so many noisy sums, each over people who take part with this probability (add or remove one)."""
    return _epsilon(_losses, rate, noise_multiplier, steps, delta)


def noise_for(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """The least noise multiplier, to a thousandth, with which so many steps spend at most this epsilon."""
    high = 0.5
    while _epsilon(_quick, rate, high, steps, delta) > epsilon:
        high *= 2
        if high > LARGEST_NOISE:
            raise InputError(
                f"no noise gives epsilon {epsilon:g} for {steps:,} steps with {rate:.3g} of the people each; take "
                f"fewer epochs or a larger epsilon"
            )

    def excess(noise: float) -> float:
        return epsilon_of(rate, noise, steps, delta) - epsilon

    low, fine = high / 4, high / 2000
    return low if excess(low) <= 0 else float(brentq(excess, low, high, xtol=fine)) + fine


def _quick() -> Any:
    """Never below the truth, and enough to know where to look for it."""
    return _library().rdp.RdpAccountant([*range(2, 64), *range(64, 1025, 32)])


def _losses() -> Any:
    # ten times coarser than the library's own grid and so ten times quicker; it rounds upwards, by a thousandth
    return _library().pld.PLDAccountant(value_discretization_interval=1e-3)


def _epsilon(accountant: Any, rate: float, noise: float, steps: int, delta: float) -> float:
    return float(accountant().compose(_event(_library(), rate, noise, steps)).get_epsilon(delta))


def _event(accounting: Any, rate: float, noise: float, steps: int) -> Any:
    one = accounting.GaussianDpEvent(noise)
    return accounting.SelfComposedDpEvent(one if rate >= 1 else accounting.PoissonSampledDpEvent(rate, one), steps)


def _library() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        raise InputError(
            "a differentially private fit needs the accountant; in a checkout: pip install -c constraints.txt "
            "'.[privacy]'"
        ) from None
    return dp_accounting
