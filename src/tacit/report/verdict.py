"""A report in words: its opening, and a light and a sentence for every sensitive attribute."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.report.results import NumberResult, digits, percent, shown

DOES_NOT_PROTECT = (
    "Several releases of the same person, or a release combined with other columns, give away more than one.",
    "Attributes that were not declared sensitive were not tested.",
    "Other populations: the figures hold for records like those audited.",
    "An audit is a lower bound: a stronger attacker may find more. Only a certificate bounds every attacker.",
)
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


def leak_in_words(report: Any, name: str) -> str:
    """What an attacker can tell of one sensitive attribute from a release."""
    m, certificate = report.leakage[name].measure, report.certificate.get(name)
    if isinstance(report.leakage[name], NumberResult):
        told = _number_in_words(report.leakage[name], report.level)
        return (
            f"{told}{_classes_in_words(report, name)} This was measured, not proved: a cleverer attacker may do better."
        )
    reached = f"Attackers that we trained name {name} right {percent(m.value)} of the time"
    if certificate is not None and report.bound.get(name) is not None:
        return (
            f"Whoever sees one release, however clever, names {name} right at most "
            f"{_percent_at_most(certificate.bound)} of the time (certified, with "
            f"{report.level} confidence). {reached}; guessing gives {percent(m.guessing)}."
        )
    return (
        f"{reached} (between {percent(m.low)} and {percent(m.high)}, with {report.level} confidence); guessing gives "
        f"{percent(m.guessing)}. This was measured, not proved: a cleverer attacker may do better."
    )


def _classes_in_words(report: Any, name: str) -> str:
    """What is certified of a number's classes; nothing where nothing is."""
    classes = report.certified_classes(name)
    if classes is None:
        return ""
    found = report.certificate[classes]
    return (
        f" Of {found.n_classes} classes of about equal size, whoever sees one release names the right one at most "
        f"{_percent_at_most(found.bound)} of the time (certified, with {report.level} confidence; guessing gives "
        f"{percent(1 / found.n_classes)})."
    )


def _number_in_words(r: NumberResult, level: str) -> str:
    """How well attackers infer a number, without R²."""
    off = r.mae
    return (
        f"Attackers that we trained guess {r.attribute} with a mean error of {digits(off.value)} (between "
        f"{digits(off.low)} and {digits(off.high)}, with "
        f"{level} confidence); always naming the median is off by {digits(off.guessing)}. "
        f"That explains {percent(max(0.0, r.value))} of how it differs between people."
    )


def _percent_at_most(bound: float) -> str:
    """A bound in percent, rounded up: rounded down it would promise more than was proved.

    Examples
    --------
    >>> _percent_at_most(0.5449), _percent_at_most(0.57), _percent_at_most(1.0)
    ('54.5 %', '57.0 %', '100.0 %')
    """
    return percent(math.ceil(round(1000 * bound, 9)) / 1000, 1)
