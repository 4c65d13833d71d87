"""Measurements: the questions of an audit besides utility, leakage and certificates. One file is one measurement.

A new measurement is a function in a module of this folder, named like the module. `tacit.audit(measurements=...)`,
`tacit audit --measure`, the report and its JSON take it from here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.auditing import REGISTERED_NAMES, measurement_names
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.errors import InputError
from tacit.report.findings import Finding
from tacit.report.results import AttackResult

REGISTERED: dict[str, Measurement] = {}
Measure = Callable[[Trial, "Context"], Iterable[Finding]]
NEEDS: dict[str, Callable[[Trial], bool]] = {
    "groups": lambda trial: all(d.units is not None for d in trial.data),
    "a released table": lambda trial: isinstance(trial.release, tuple | list),
    "options.train": lambda trial: trial.settings.train is not None,
    "views": lambda trial: bool(trial.settings.views),
    "alongside": lambda trial: bool(trial.settings.alongside),
    "a release": lambda trial: trial.release is not None,
    "a target": lambda trial: trial.test.y.shape[1] > 0,
}


@dataclass(frozen=True)
class Measurement:
    """A registered measurement; see `measurement`."""

    name: str
    measure: Measure
    place: int
    needs: str | Callable[[Trial], bool] | None
    auto: bool | Callable[[Trial], bool]
    required: bool

    def possible(self, trial: Trial) -> bool:
        """Whether this trial has what the measurement needs."""
        test = NEEDS[self.needs] if isinstance(self.needs, str) else self.needs
        return test is None or test(trial)

    def check(self, trial: Trial) -> None:
        """Raise InputError if the measurement was named, but this trial does not have what it needs."""
        if self.name in trial.settings.measurements and not self.possible(trial):
            needs = f": it needs {self.needs}" if isinstance(self.needs, str) else ""
            raise InputError(f"{self.name} cannot be measured of this release{needs}")

    def planned(self, trial: Trial) -> bool:
        """Whether an audit of this trial makes the measurement."""
        wanted = trial.settings.wanted(self.name)
        if (wanted is False and not self.required) or not self.possible(trial):
            return False
        return bool(wanted or self.required or (self.auto(trial) if callable(self.auto) else self.auto))


@dataclass
class Context:
    """What the measurements of one audit share.

    Attributes
    ----------
    suite : the attackers, with their time budget
    whole : the trial with the rows that the filter was fitted on
    attacks, report : what goes into the report besides findings
    cache : for results that two measurements need
    done : names of the measurements made so far
    """

    suite: AttackSuite
    whole: Trial
    attacks: list[AttackResult] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def attacked(self, kind: str, knows: str, results: Any) -> list[Finding]:
        """Add the results of an attack by attribute; nothing where there are none."""
        if results:
            self.attacks.append(AttackResult(kind, knows, results))
        return []


def measurement(
    name: str,
    *,
    needs: str | Callable[[Trial], bool] | None = None,
    auto: bool | Callable[[Trial], bool] = True,
    place: int = 1000,
    required: bool = False,
) -> Callable[[Measure], Measure]:
    """Register a function as a measurement of every audit.

    Parameters
    ----------
    name : str
        Its name in ``measurements=`` and ``--measure``
    needs : str or callable, optional
        What a trial must have: a name of `NEEDS`, or a function of the trial
    auto : bool or callable
        Whether ``measurements="auto"`` includes it, or a function of the trial that says so
    place : int
        Its place in the order of measurements; smaller comes first
    required : bool
        Whether every audit makes it, because a certificate depends on it

    Examples
    --------
    >>> @measurement("rows", auto=False)
    ... def rows(trial, context):
    ...     return [Finding("rows", "test", float(len(trial.test)))]
    >>> unregister("rows")
    """

    def register(measure: Measure) -> Measure:
        REGISTERED[name] = Measurement(name, measure, place, needs, auto, required)
        REGISTERED_NAMES.add(name)
        return measure

    return register


def unregister(name: str) -> None:
    """Remove a measurement."""
    del REGISTERED[name]
    REGISTERED_NAMES.discard(name)


def load_measurements() -> list[Measurement]:
    """Import every measurement and return them in the order of an audit."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(REGISTERED.values(), key=lambda m: m.place)


def check_names(measurements: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of measurements as a tuple.

    "auto", "all" and names may be mixed; "no-" in front of a name leaves a measurement out.

    Raises
    ------
    InputError
        If a name is unknown
    """
    chosen = (measurements,) if isinstance(measurements, str) else tuple(measurements)
    known = ("auto", "all", *measurement_names())
    for name in chosen:
        if name.removeprefix("no-") not in known:
            raise InputError(f"unknown measurement {name!r}; choose among {', '.join(known)}")
    return ("auto", *chosen) if chosen and all(name.startswith("no-") for name in chosen) else chosen


def run_measurements(trial: Trial, context: Context) -> list[Finding]:
    """Make every measurement that is wanted and possible, within the time budget."""
    findings: list[Finding] = []
    budget = context.suite.budget
    for m in load_measurements():
        if not m.planned(trial):
            continue
        if budget.spent and not m.required:
            budget.left_out.append(m.name)
            continue
        try:
            findings += m.measure(trial, context)
            context.done.add(m.name)
        except InputError:
            if m.name in trial.settings.measurements or "all" not in trial.settings.measurements:
                raise
    return findings
