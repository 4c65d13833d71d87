"""What a report opens with: one sentence, and for every sensitive attribute a light and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.report.markdown import DOES_NOT_PROTECT
from tacit.report.plain_words import leak_in_words
from tacit.report.results import NumberResult, percent, shown

SMALL, MIDDLING = 0.1, 0.3  # of the way from guessing to certainty
RULE = (
    f"Green: certified, and at most {percent(SMALL, 0)} of the way from guessing to always right. Red: more than "
    f"{percent(MIDDLING, 0)} of it, or figures that must not be relied on. Amber: in between, or measured, not proved."
)


@dataclass(frozen=True)
class Verdict:
    """One sensitive attribute at a glance.

    Attributes
    ----------
    light : "green", "amber" or "red"; `RULE` says when
    sentence : what can be told of the attribute, in words
    rests_on : "certified" or "audited", and how hard was looked
    """

    attribute: str
    light: str
    sentence: str
    rests_on: str


def verdict(report: Any, attribute: str) -> Verdict:
    """What to think of one sensitive attribute.

    The light goes by the upper end of what is known: the bound on any attacker where one is certified, else the upper
    end of the best attacker's interval. What was only measured is never green.
    """
    r, certificate = report.leakage[attribute], report.certificate.get(attribute)
    upper = r.high if certificate is None else certificate.bound
    room = 1 - r.guessing
    way = 0.0 if room <= 0 else max(0.0, upper - r.guessing) / room
    light = "red" if way > MIDDLING or not report.fresh else "amber" if way > SMALL or certificate is None else "green"
    return Verdict(attribute, light, leak_in_words(report, attribute), _rests_on(report, attribute))


def opening(report: Any) -> str:
    """One sentence about the whole release."""
    lights: dict[str, list[str]] = {}
    for name in report.leakage:
        light = verdict(report, name).light
        proved = " certified" if light == "amber" and report.certificate.get(name) is not None else ""
        lights.setdefault(light + proved, []).append(name)
    words = {
        "red": "still gives away {}" if report.fresh else "was audited on its own fit's rows, which says nothing of {}",
        "amber": "gives away little of {} that we could find",
        "amber certified": "gives away some of {}, within a certified bound",
        "green": "gives away almost nothing of {}",
    }
    hides = [words[light].format(_listed(lights[light])) for light in words if light in lights]
    text = f"This release ({report.name}) {' and '.join(hides) or 'was measured'}"
    keeps = ", ".join(f"{name} ({_kept(u)})" for name, u in report.utility.items())
    return f"{text}; it keeps {keeps}." if keeps else f"{text}."


def _kept(u: Any) -> str:
    if isinstance(u, NumberResult):
        return f"R² {shown(u.value)}, {u.errors.partition(', ')[2]}"
    if u.headline != "accuracy":
        return f"{u.headline.replace('_', ' ')} {u.value:.2f}, guessing {u.guessing:.2f}"
    return f"{percent(u.value)} right, {percent(u.guessing)} by the commonest answer"


def not_covered(report: Any) -> tuple[str, ...]:
    """What the lights do not speak of."""
    beside = report.settings.alongside
    travels = f"Columns beside {', '.join(beside)} that travel with it." if beside else "Columns that travel with it."
    return (*DOES_NOT_PROTECT, travels)


def _rests_on(report: Any, attribute: str) -> str:
    certificate = report.certificate.get(attribute)
    if certificate is not None:
        return f"certified: a bound on every attacker, by counting {certificate.n_units:,} people or units"
    tried = len(report.leakage[attribute].attackers) or 1
    looked = f"audited: the best of {tried} attacker{'s' if tried > 1 else ''}, trained afresh on released rows"
    text = report.smallest_detectable(attribute)
    return f"{looked}; {text}" if text else looked


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
