"""What an audit found: results by attribute, in words, as a table, as JSON, as a page."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json
import math
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tacit.audit.certificate import Certificate, LocalPrivacyCertificate
from tacit.audit.gaussian import GaussianCertificate
from tacit.audit.measures import advantage
from tacit.audit.resemblance import Resemblance
from tacit.audit.statements import Exposure, Power
from tacit.audit.stats import Measure
from tacit.errors import ContradictionError, InputError, RequirementNotMet

SCHEMA = 2
AnyCertificate = Certificate | GaussianCertificate | LocalPrivacyCertificate


@dataclass(frozen=True)
class Result:
    """How well one attribute can be read from the release.

    `value` is the headline measure with its interval and what guessing gives: accuracy for a target
    (utility), balanced accuracy for a sensitive attribute (leakage). The other measures are beside it.
    """

    attribute: str
    headline: str  # "accuracy" or "balanced_accuracy"
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

    @property
    def measure(self) -> Measure:
        return getattr(self, self.headline)

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
class Attack:
    """One kind of attack beside the headline: its name, what its attacker knows, what it found."""

    kind: str
    knows: str
    results: Mapping[str, Result]


@dataclass(frozen=True)
class Report:
    """The audit of one release.

    Attributes
    ----------
    utility, leakage : results by target and by sensitive attribute, on rows the filter never saw
    certificate : by sensitive attribute (and "a x b" for their product), a bound on any attacker, or None
    in_sample : the same leakage on rows the filter was fitted on, where the data had such rows
    label_only, label_only_utility : leakage and utility of releasing nothing but the predicted targets (the floor)
    limit : by secret, an estimate of the best accuracy any release could have at each leakage
    groups : by secret, the chosen attacker's balanced accuracy within subgroups, most exposed first
    exposure : by sensitive attribute, who is named with 90 % confidence, and the most exposed group
    power : by sensitive attribute, the smallest planted leaks that these attackers would have found in these rows
    resemblance : reconstruction of the raw records, similarity, warped distance, where they apply
    attacks : other kinds of attack, each with what its attacker knows
    fresh : whether the figures are for rows the filter never saw
    notes : what the reader must know
    """

    name: str
    utility: Mapping[str, Result]
    leakage: Mapping[str, Result]
    certificate: Mapping[str, AnyCertificate | None]
    bound: Mapping[str, float | None]  # upper end of the two-sided statement, delta/2 a side
    in_sample: Mapping[str, Result]
    label_only: Mapping[str, Result]
    attacks: tuple[Attack, ...]
    fresh: bool
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    label_only_utility: Mapping[str, Result] = field(default_factory=dict)
    limit: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Measure]] = field(default_factory=dict)
    resemblance: Resemblance = field(default_factory=Resemblance)
    exposure: Mapping[str, Exposure] = field(default_factory=dict)
    power: Mapping[str, Power] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, result in self.leakage.items():
            check_bound(name, result, self.bound.get(name))

    @property
    def level(self) -> str:
        """The confidence of every statement, in words: 95 %."""
        return f"{self.settings['level']:.0%}".replace("%", " %")

    def status(self, attribute: str) -> str:
        """ "certified" (a bound on any attacker) or "audited" (what our attackers found)."""
        return "certified" if self.certificate[attribute] is not None else "audited"

    def sentence(self, attribute: str) -> str:
        """The headline of one sensitive attribute."""
        r, bound, level = self.leakage[attribute], self.bound[attribute], self.level
        if bound is not None:
            text = f"{attribute}: leakage between {_p(max(r.low, r.guessing))} and {_p(bound)} ({level})"
        else:
            text = f"{attribute}: leakage {_p(r.value)} [{_p(r.low)}, {_p(r.high)}] by {r.attacker} ({level})"
        text += f", guessing {_p(r.guessing)}"
        if attribute in self.label_only:
            text += f", label-only {_p(self.label_only[attribute].value)}"
        return text + (", certified" if bound is not None else ", audited, not certified")

    def beaten_by_label(self, attribute: str) -> str | None:
        """Says so where releasing the predicted label alone is as useful and leaks less; else None.

        Both count beyond chance, as in `tacit.report.dominated`.
        """
        floor, v = self.label_only.get(attribute), self.leakage[attribute]
        if floor is None or not beats(self.label_only_utility, floor, self.utility, v):
            return None
        return (
            f"releasing the predicted label alone is as useful and leaks less "
            f"({_p(floor.value)} [{_p(floor.low)}, {_p(floor.high)}] of {attribute})"
        )

    def __str__(self) -> str:
        from rich.console import Console

        # plain text, so that it can go into a log; a terminal's width, so that the table is not broken
        console = Console(file=io.StringIO(), width=min(100, shutil.get_terminal_size((100, 24)).columns))
        console.print(self, highlight=False)
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in text.splitlines())

    def __rich__(self) -> Any:
        """The same for a terminal that knows rich: a table of figures, then what the reader must know."""
        from tacit.report.terminal import rich_report

        return rich_report(self)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The same as Markdown, for a pull request or a model card; written when a path is given."""
        from tacit.report.markdown import markdown_report

        text = markdown_report(self)
        if path is not None:
            write_whole(path, text)
        return text

    @property
    def table(self) -> pd.DataFrame:
        """One row per attribute and attacker group, every number with its interval and baseline."""
        rows = []
        groups = (
            ("utility", self.utility),
            ("leakage", self.leakage),
            ("leakage, in-sample", self.in_sample),
            ("leakage, label-only", self.label_only),
            *((attack.kind, attack.results) for attack in self.attacks),
        )
        for role, results in groups:
            for name, r in results.items():
                certificate = self.certificate.get(name) if role == "leakage" else None
                rows.append(
                    {
                        "release": self.name,
                        "role": role,
                        "attribute": name,
                        "measure": r.headline.replace("_", " "),
                        "value": r.value,
                        "low": r.low,
                        "high": r.high,
                        "guessing": r.guessing,
                        "attacker": r.attacker,
                        "accuracy": r.accuracy.value,
                        "balanced accuracy": r.balanced_accuracy.value,
                        "AUC": r.auc.value,
                        "rows": r.n,
                        "units": r.n_units,
                        "certified": certificate.bound if certificate else None,
                    }
                )
        return pd.DataFrame(rows)

    def require(
        self,
        leakage: Mapping[str, float] | None = None,
        utility: Mapping[str, float] | None = None,
        certified: bool = False,
    ) -> Report:
        """Raise unless every leakage is at most, and every utility at least, what is asked.

        Leakage is compared by its upper end: the certificate's bound where there is one (and only
        there with ``certified=True``), else the upper end of the attacker's interval.
        """
        problems = [] if self.fresh else ["the figures are in-sample: the filter was fitted on these rows"]
        for name, most in (leakage or {}).items():
            self._known(name, self.leakage)
            found = self.certificate[name]
            if found is None and certified:
                problems.append(f"{name}: no certificate exists for this release, only an audit")
                continue
            upper = found.bound if found is not None else self.leakage[name].high
            if upper > most:
                problems.append(
                    f"{name}: leakage may be as high as {upper:.3f} ({self.status(name)}), allowed {most:.3f}"
                )
        for name, least in (utility or {}).items():
            self._known(name, self.utility)
            if self.utility[name].low < least:
                problems.append(f"{name}: accuracy may be as low as {self.utility[name].low:.3f}, required {least:.3f}")
        if problems:
            raise RequirementNotMet("; ".join(problems))
        return self

    @staticmethod
    def _known(name: str, results: Mapping[str, Result]) -> None:
        if name not in results:
            raise InputError(f"the audit has no attribute {name!r}; it has {', '.join(results)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with a schema number."""

        def plain(value: Any) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return None  # JSON has no NaN
            if isinstance(value, tuple) and hasattr(value, "_asdict"):
                return plain(value._asdict())
            if isinstance(value, Mapping):
                return {k: plain(v) for k, v in value.items()}
            if isinstance(value, Result | Attack | Resemblance):
                return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return plain(dataclasses.asdict(value))
            return [plain(v) for v in value] if isinstance(value, tuple | list) else value

        return {"schema": SCHEMA, **{f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}}

    def to_json(self, path: str | Path | None = None) -> str:
        """The same as JSON; written whole or not at all when a path is given."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            write_whole(path, text)
        return text

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one self-contained page."""
        from tacit.report import write_page

        return write_page([self], path, title=f"Audit of {self.name}")


def check_bound(name: str, result: Result, bound: float | None) -> None:
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


def beats(utility: Mapping[str, Result], leak: Result, other: Mapping[str, Result], other_leak: Result) -> bool:
    """Whether a release is at least as useful as another for every target, and leaks less.

    Both count beyond chance: not less useful by more than half the interval, and leaking less than the lower end.
    """
    as_useful = all(utility[t].value >= u.value - (u.high - u.low) / 4 for t, u in other.items())
    return bool(other) and as_useful and leak.high < other_leak.low


def worst_case(name: str, c: AnyCertificate, level: str) -> str:
    """What a mean hides: the plain-accuracy bound, the rarest release, the largest odds, who is exposed."""
    text = f"{name}: certified for any attacker ≤ {_p(c.bound)} balanced, ≤ {_p(c.accuracy_bound)} plain ({level})"
    text += f", for the average {'person' if c.per == 'unit' else 'record'}"
    if c.absent:
        text += f"; {c.absent} of {c.n_classes} classes have no row here and count as exposed"
    if isinstance(c, Certificate):
        text += f"; the rarest of {c.cells} releases is shared by {c.smallest_cell:,} of {c.n:,} rows"
        text += f"; largest odds {c.largest_odds:.1f}" if c.largest_odds is not None else ""
    if isinstance(c, LocalPrivacyCertificate):
        return text + f"; by local privacy, epsilon {c.epsilon:g}, whatever the population"
    return text + f"; {c.exposed:.1%} named with 90 % confidence"


def provenance() -> dict[str, Any]:
    """When this was measured, and with which versions."""
    import numpy
    import sklearn

    from tacit import __version__

    versions = {"tacit": __version__, "python": platform.python_version(), "numpy": numpy.__version__}
    versions |= {"scikit-learn": sklearn.__version__, "pandas": pd.__version__}
    return {"when": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "versions": versions}


def write_whole(path: str | Path, text: str) -> Path:
    """Write a file that is either complete or not there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
    return path


def _p(value: float) -> str:
    """Three digits without the leading zero, as in the papers: .571"""
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text
