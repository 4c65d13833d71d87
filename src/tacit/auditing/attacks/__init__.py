"""Kinds of attack beside the headline, each saying what its attacker knows. One class is one kind.

A new kind is a class in a module of this folder: it registers itself, and every audit to which it applies runs it.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.report.results import AnyResult, AttackResult

REGISTERED: dict[str, type[AttackKind]] = {}
Kind = TypeVar("Kind", bound="type[AttackKind]")


class AttackKind(ABC):
    """One way of reading a release."""

    kind: str  # its name in a report
    place: int  # in a report: smaller comes first
    knows: str  # what its attacker knows, in words

    @abstractmethod
    def applies(self, trial: Trial) -> bool:
        """Whether this trial has, or was asked for, what the attack needs."""

    @abstractmethod
    def run(self, trial: Trial, suite: AttackSuite) -> Mapping[str, AnyResult]:
        """What was found, by attribute; nothing where nothing can be said."""

    @classmethod
    def planned(cls, trial: Trial) -> Iterable[AttackKind]:
        """The attacks of this kind that a trial asks for: one, unless the kind says otherwise."""
        return [cls()]


def register_attack(kind: str, place: int = 1000) -> Callable[[Kind], Kind]:
    """Have a class of attack run by every audit to which it applies.

    Examples
    --------
    >>> @register_attack("nobody's")
    ... class Nobody(AttackKind):
    ...     knows = "nothing"
    ...     def applies(self, trial): return False
    ...     def run(self, trial, suite): return {}
    >>> REGISTERED.pop("nobody's") is Nobody
    True
    """

    def register(cls: Kind) -> Kind:
        cls.kind, cls.place = kind, place
        REGISTERED[kind] = cls
        return cls

    return register


def plan_attacks(trial: Trial) -> list[AttackKind]:
    """The attacks that apply to this trial, in the order of a report."""
    kinds = sorted(REGISTERED.values(), key=lambda cls: cls.place)
    return [attack for cls in kinds for attack in cls.planned(trial) if attack.applies(trial)]


def run_attacks(trial: Trial, suite: AttackSuite) -> tuple[AttackResult, ...]:
    """Run every attack that applies; those that found something to say are reported.

    The order of rows is always tried: a certificate of the columns rests on it.
    """
    budget, found = suite.budget, []
    for a in plan_attacks(trial):
        always = a.kind == "row order"
        results = a.run(trial, suite) if always else budget.run(f"attack: {a.kind}", partial(a.run, trial, suite), {})
        found.append((a, results))
    return tuple(AttackResult(a.kind, a.knows, results) for a, results in found if results)


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
