"""The result type of every measurement: one number with its interval, next to chance."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.report.results import shown


@dataclass(frozen=True)
class Finding:
    """One number that a measurement returns.

    Attributes
    ----------
    name : str
        The measurement, such as "linkability"
    subject : str
        What was measured: an attribute, a column, a kind of pair
    value, low, high : float
        The number and its interval; both ends are None where no interval exists
    chance : float, optional
        What an attacker without the release gets; None where there is no such number
    attacker : str
        The attacker or model that reached it, or what the attacker knows
    kind : str
        The scale, such as "balanced accuracy", "R²" or "AUC"

    Examples
    --------
    >>> Finding("linkability", "two records of one person", 0.62, 0.55, 0.68, 0.5, "trees", "AUC").beyond_chance
    True
    """

    name: str
    subject: str
    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    attacker: str = ""
    kind: str = ""

    @property
    def sentence(self) -> str:
        """ "linkability of two records of one person: AUC .620 (.550 to .680), chance .500"."""
        text = f"{self.name.replace('_', ' ')} of {self.subject}: {self.kind} {shown(self.value)}".replace("  ", " ")
        text += "" if self.low is None or self.high is None else f" ({shown(self.low)} to {shown(self.high)})"
        return text + ("" if self.chance is None else f", chance {shown(self.chance)}")

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval lies above chance."""
        return self.low is not None and self.chance is not None and self.low > self.chance
