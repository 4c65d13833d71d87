"""The figures of an audit for whoever has never seen one: sentences without a word of statistics but "certified"."""

from __future__ import annotations

import math
from typing import Any

from tacit.report.results import NumberResult, digits, percent


def leak_in_words(report: Any, name: str) -> str:
    """What an attacker can tell of one sensitive attribute from a release."""
    m, certificate = report.leakage[name].measure, report.certificate.get(name)
    if isinstance(report.leakage[name], NumberResult):
        told = _number_in_words(report.leakage[name], "Attackers that we trained guess", report.level)
        return (
            f"{told}{_classes_in_words(report, name)} This was measured, not proved: a cleverer attacker may do better."
        )
    reached = f"Attackers that we trained name {name} right {percent(m.value)} of the time"
    if certificate is not None and report.bound.get(name) is not None:
        return (
            f"Whoever sees one release, however clever, names {name} right at most {at_most(certificate.bound)} of the "
            f"time (certified, with {report.level} confidence). {reached}; guessing gives {percent(m.guessing)}."
        )
    return (
        f"{reached} (between {percent(m.low)} and {percent(m.high)}, with {report.level} confidence); guessing gives "
        f"{percent(m.guessing)}. This was measured, not proved: a cleverer attacker may do better."
    )


def use_in_words(report: Any, name: str) -> str:
    """How well one target can still be told from a release."""
    m = report.utility[name].measure
    if isinstance(report.utility[name], NumberResult):
        return _number_in_words(report.utility[name], "A model that learns from releases guesses", report.level)
    return (
        f"A model that learns from releases names {name} right {percent(m.value)} of the time (between "
        f"{percent(m.low)} and {percent(m.high)}, with {report.level} confidence); the commonest answer is right "
        f"{percent(m.guessing)} of the time."
    )


def _classes_in_words(report: Any, name: str) -> str:
    """What is certified of a number's classes; nothing where nothing is."""
    classes = report.certified_classes(name)
    if classes is None:
        return ""
    found = report.certificate[classes]
    return (
        f" Of {found.n_classes} classes of about equal size, whoever sees one release names the right one at most "
        f"{at_most(found.bound)} of the time (certified, with {report.level} confidence; guessing gives "
        f"{percent(1 / found.n_classes)})."
    )


def _number_in_words(r: NumberResult, who: str, level: str) -> str:
    """How well a number is told, for whoever has never heard of R²."""
    off = r.mae
    return (
        f"{who} {r.attribute} with a mean error of {digits(off.value)} (between {digits(off.low)} and "
        f"{digits(off.high)}, with {level} confidence); always naming the median is off by {digits(off.guessing)}. "
        f"That explains {percent(max(0.0, r.value))} of how it differs between people."
    )


def at_most(bound: float) -> str:
    """A bound in percent, rounded up: rounded down it would promise more than was proved.

    Examples
    --------
    >>> at_most(0.5449), at_most(0.57), at_most(1.0)
    ('54.5 %', '57.0 %', '100.0 %')
    """
    return percent(math.ceil(round(1000 * bound, 9)) / 1000, 1)
