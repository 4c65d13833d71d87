"""What an audit found: results by attribute, in words, as a table, as JSON, as a page."""

from __future__ import annotations

import datetime
import html
import importlib.metadata
import json
import math
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import __version__
from tacit.errors import InputError, RequirementNotMet
from tacit.files import strict_json, write_whole
from tacit.report.certificates import AnyCertificate, ColumnsCertificate
from tacit.report.findings import Finding
from tacit.report.leakage_units import accuracy_from_odds
from tacit.report.plain_data import plain, read_fields
from tacit.report.released import Released
from tacit.report.results import (
    ALONE,
    GAIN,
    KNOWS,
    AnyResult,
    AttackResult,
    Exposure,
    Knowledge,
    LimitPoint,
    Measure,
    NumberResult,
    at_most,
    beats,
    check_bound,
    percent,
    shown,
)
from tacit.report.table_changes import TableChange
from tacit.report.verdict import Verdict, verdict

if TYPE_CHECKING:
    import pandas as pd  # a device has none, and reads reports all the same


SCHEMA = 1


@dataclass(frozen=True)
class Settings:
    """How an audit was made.

    Attributes
    ----------
    attackers : that ran
    level : confidence of every statement
    seed : of the attackers
    data : name of the data
    rows : how many attackers learned from ("attack") and were tested on ("test")
    alongside : columns that travel with the release
    candidates : how many releases share the error
    per : whose average is meant, the "unit"'s or the "record"'s
    look : which look at these rows the certificates were; None without certificates
    seconds : it took
    when, versions : of the libraries it was made with
    """

    attackers: tuple[str, ...]
    level: float
    seed: int
    data: str | None
    rows: Mapping[str, int]
    alongside: tuple[str, ...] = ()
    candidates: int = 1
    per: str = "unit"
    look: int | None = None
    seconds: float = math.nan
    when: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """The audit of one release.

    Attributes
    ----------
    utility, leakage : results by target and by sensitive attribute, on rows the filter never saw
    certificate : by sensitive attribute (and "a x b" for their product), a bound on any attacker, or None
    in_sample : the same leakage on rows the filter was fitted on, where the data had such rows
    label_only, label_only_utility : leakage and utility of releasing nothing but the predicted targets (the floor)
    limit : by sensitive attribute, an estimate of the best accuracy any release could have at each leakage
    groups : by sensitive attribute, the chosen attacker's balanced accuracy within subgroups, most exposed first
    exposure : by sensitive attribute, who is named with 90 % confidence, and the most exposed group
    detectable : by sensitive attribute with classes, the smallest leakage that these test rows tell from chance in 9
        of 10 audits
    change : where the release is a table: what became of it, column by column; None of other releases
    pairs : by sensitive attribute, a bound on whoever reads any two (or three) released columns and no more. It is no
        certificate of the release
    examples : records, their releases (or None) and reconstructions as nested lists; only where asked for
    attacks : other kinds of attack, each with what its attacker knows
    released : counts of what was released of these rows, with which a later audit compares its own
    findings : what the measurements returned, one number each
    fresh : whether the figures are for rows the filter never saw
    notes : what the reader must know
    """

    name: str
    utility: Mapping[str, AnyResult]
    leakage: Mapping[str, AnyResult]
    certificate: Mapping[str, AnyCertificate | None]
    bound: Mapping[str, float | None]  # upper end of the two-sided statement, delta/2 a side
    in_sample: Mapping[str, AnyResult]
    label_only: Mapping[str, AnyResult]
    attacks: tuple[AttackResult, ...]
    fresh: bool
    notes: tuple[str, ...]
    settings: Settings
    label_only_utility: Mapping[str, AnyResult] = field(default_factory=dict)
    limit: Mapping[str, tuple[LimitPoint, ...]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Measure]] = field(default_factory=dict)
    examples: tuple[tuple[Any, Any, Any], ...] = ()
    exposure: Mapping[str, Exposure] = field(default_factory=dict)
    detectable: Mapping[str, float] = field(default_factory=dict)
    change: TableChange | None = None
    pairs: Mapping[str, ColumnsCertificate] = field(default_factory=dict)
    released: Released | None = None
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        part = [n for n, c in self.certificate.items() if c is not None and not c.whole]
        part += [n for n, c in self.pairs.items() if c.whole]
        if part:
            raise InputError(f"{part[0]}: a bound on whoever reads few columns is not a certificate of the release")
        for name, result in self.leakage.items():
            check_bound(name, result, self.bound.get(name))
            found = self.certificate.get(name)
            if found is not None and found.n_classes > 1:
                check_bound(name, result, accuracy_from_odds(found.worst_odds, found.n_classes))

    @property
    def level(self) -> str:
        """The confidence of every statement, in words: 95 %."""
        return percent(self.settings.level)

    def status(self, attribute: str) -> str:
        """ "certified" (a bound on any attacker) or "audited" (what our attackers found)."""
        return "certified" if self.certificate[attribute] is not None else "audited"

    def sentence(self, attribute: str) -> str:
        """The headline of one sensitive attribute."""
        r, bound, level = self.leakage[attribute], self.bound[attribute], self.level
        if isinstance(r, NumberResult):
            return self._number_sentence(r)
        if bound is not None:
            text = f"{attribute}: leakage between {shown(max(r.low, r.guessing))} (our attackers) and "
            text += f"{at_most(bound)} (any attacker; {level})"  # readers took the two ends for one interval
        else:
            text = f"{attribute}: leakage {shown(r.value)} [{shown(r.low)}, {shown(r.high)}] by {r.attacker} ({level})"
        text += f", guessing {shown(r.guessing)}"
        if attribute in self.label_only:
            text += f", label-only {shown(self.label_only[attribute].value)}"
        text += ", certified" if bound is not None else ", audited, not certified"
        if attribute in self.knowledge:  # of all that was asked, what the release adds most to
            text += f"; {max(self.knowledge[attribute].values(), key=lambda k: k.gain.value).sentence(attribute)}"
        return text

    def _number_sentence(self, r: NumberResult) -> str:
        """The headline of a number: R², rank correlation and mean error; a certificate is of its classes."""
        text = f"{r.attribute}: R² {shown(r.value)} [{shown(r.low)}, {shown(r.high)}] by {r.attacker} ({self.level})"
        text += f", guessing 0, {r.errors}"
        if r.attribute in self.label_only:
            text += f", label-only {shown(self.label_only[r.attribute].value)}"
        name = self.certified_classes(r.attribute)
        if name is None:
            return f"{text}, audited, not certified"
        found: Any = self.certificate[name]
        guess = shown(1 / found.n_classes)
        return (
            f"{text}, audited; in {found.n_classes} classes of about equal size: any attacker names the right one with "
            f"at most {at_most(found.bound)} (guessing {guess}), certified"
        )

    def certified_classes(self, attribute: str) -> str | None:
        """The name under which a number's classes are certified, such as "age in 4 classes"; None where none are."""
        if not isinstance(self.leakage.get(attribute), NumberResult):
            return None
        begins = re.compile(re.escape(attribute) + r" in \d+ classes$")
        return next((n for n, c in self.certificate.items() if c is not None and begins.match(n)), None)

    def smallest_detectable(self, name: str) -> str | None:
        """State the smallest leakage of an attribute that these test rows tell from chance; None where not measured."""
        if name not in self.detectable:
            return None
        chance = shown(self.leakage[name].guessing)
        return (
            f"with these test rows, a leakage of {shown(self.detectable[name])} or more is told from chance ({chance}) "
            f"in 9 of 10 audits; a smaller one may have been missed"
        )

    def worst(self, attribute: str) -> str | None:
        """How far one single release can move anybody's odds; None where nothing is certified at all."""
        found = self.certificate.get(attribute)
        if found is None:
            return None
        if found.odds is None:
            return f"{attribute}: worst odds none: the average is certified, a single release is not"
        return f"{attribute}: {found.odds.sentence(self.level)}"

    def few_columns(self, attribute: str) -> str | None:
        """What is certified for whoever reads few columns, beside what was audited for whoever reads all."""
        found, r = self.pairs.get(attribute), self.leakage.get(attribute)
        if found is None:
            return None
        text = f"{attribute}: {found.explain(self.level)}"
        return text if r is None else f"{text}; audited {shown(r.value)} for whoever reads all"

    @property
    def other_attacks(self) -> tuple[AttackResult, ...]:
        """Those whose attackers know nothing raw of the person; the others are `knowledge`."""
        return tuple(attack for attack in self.attacks if not attack.kind.startswith(KNOWS))

    @property
    def knowledge(self) -> dict[str, dict[str, Knowledge]]:
        """By sensitive attribute and by what is known: the attackers who know raw columns of the person."""
        out: dict[str, dict[str, Knowledge]] = {}
        for attack in self.attacks:
            for name, r in attack.results.items():
                if GAIN in r.more:
                    known = attack.kind.removeprefix(KNOWS)
                    out.setdefault(name, {})[known] = Knowledge(known, r.more[ALONE], r.measure, r.more[GAIN])
        return out

    def beaten_by_label(self, attribute: str) -> str | None:
        """Says so where releasing the predicted label alone is as useful and leaks less; else None.

        Both count beyond chance, as in `tacit.report.page.dominated`.
        """
        floor, v = self.label_only.get(attribute), self.leakage[attribute]
        if floor is None or not beats(self.label_only_utility, floor, self.utility, v):
            return None
        return (
            f"releasing the predicted label alone is as useful and leaks less "
            f"({shown(floor.value)} [{shown(floor.low)}, {shown(floor.high)}] of {attribute})"
        )

    def headline(self, measurement: str) -> Finding | None:
        """Return the first finding of a measurement, against which limits are held; None where it was not made."""
        return next((f for f in self.findings if f.name == measurement), None)

    def __str__(self) -> str:
        from tacit.report.terminal import as_text  # rich is slow to import, and a device has none

        return as_text(self, 100)

    def __rich__(self) -> Any:
        """The same for a terminal that knows rich: a table of figures, then what the reader must know."""
        from tacit.report.terminal import rich_report  # rich is slow to import, and a device has none

        return rich_report(self)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The same text as Markdown, for a pull request or a model card; written when a path is given."""
        from tacit.report.terminal import as_markdown  # rich is slow to import, and a device has none

        text = as_markdown(self)
        if path is not None:
            write_whole(path, text)
        return text

    @property
    def table(self) -> pd.DataFrame:
        """One row per attribute and attacker group, every number with its interval and baseline."""
        import pandas as pd

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
                        "measure": "R²" if isinstance(r, NumberResult) else r.headline.replace("_", " "),
                        "value": r.value,
                        "low": r.low,
                        "high": r.high,
                        "guessing": r.guessing,
                        "attacker": r.attacker,
                        **_other_measures(r),
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
        odds: Mapping[str, float] | None = None,
        measured: Mapping[str, float] | None = None,
    ) -> Report:
        """Raise unless every leakage is at most, and every utility at least, what is asked.

        Leakage is compared by its upper end: the certificate's bound where there is one (and only
        there with ``certified=True``), else the upper end of the attacker's interval. Odds count as certified only.
        Of a number both are R²; what is certified of it are its classes ("age in 4 classes"), by that name.
        `measured` holds the upper end of a measurement's headline against a limit, such as ``{"linkability": 0.05}``
        for the share of pairs of one person that is linked at 1 % false positives (chance links .01): audited, never
        certified.
        """
        problems = [] if self.fresh else ["the figures are in-sample: the filter was fitted on these rows"]
        for name, most in (leakage or {}).items():
            self._known(name, {**self.leakage, **{n: c for n, c in self.certificate.items() if c is not None}})
            found = self.certificate[name]
            if found is None and certified:
                classes = self.certified_classes(name)
                told = f"of a number only its classes are certified, by the name {classes!r}" if classes else None
                problems.append(f"{name}: {told or 'no certificate exists for this release, only an audit'}")
                continue
            upper = found.bound if found is not None else self.leakage[name].high
            if upper > most:
                what = "R²" if isinstance(self.leakage.get(name), NumberResult) else "leakage"
                problems.append(
                    f"{name}: {what} may be as high as {upper:.3f} ({self.status(name)}), allowed {most:.3f}"
                )
        for name, most in (odds or {}).items():
            self._known(name, self.certificate)
            found = self.certificate[name]
            if found is None or found.worst_odds > most:
                told = self.worst(name) or f"{name}: no certificate exists for this release, only an audit"
                problems.append(f"{told}; allowed for every release {most:g} times")
        for name, least in (utility or {}).items():
            self._known(name, self.utility)
            if self.utility[name].low < least:
                what = "R²" if isinstance(self.utility[name], NumberResult) else "accuracy"
                problems.append(f"{name}: {what} may be as low as {self.utility[name].low:.3f}, required {least:.3f}")
        for name, most in (measured or {}).items():
            found_here = self.headline(name)
            if found_here is None:
                problems.append(f"{name}: not measured; name it in measurements= (--measure)")
            elif found_here.high is None or found_here.high > most:
                problems.append(f"{found_here.sentence}: allowed at most {most:.3f}")
        if problems:
            raise RequirementNotMet("; ".join(problems))
        return self

    @staticmethod
    def _known(name: str, results: Mapping[str, Any]) -> None:
        if name not in results:
            raise InputError(f"the audit has no attribute {name!r}; it has {', '.join(results)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with a schema number."""
        return {"schema": SCHEMA, **plain(vars(self))}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Report:
        """The inverse of `to_dict`."""
        schema = told.get("schema") if isinstance(told, Mapping) else None
        if schema != SCHEMA or isinstance(schema, bool):
            raise InputError(
                f"this is not a report that Tacit {__version__} reads: expected schema {SCHEMA}, found {schema!r}"
            )
        found: Report = read_fields(cls, told, "report")
        return found

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """The inverse of `to_json`."""
        try:
            return cls.from_dict(strict_json(text.encode() if isinstance(text, str) else text))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"the report cannot be read as JSON ({error})") from None

    def to_json(self, path: str | Path | None = None) -> str:
        """The same as JSON; written whole or not at all when a path is given."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            write_whole(path, text)
        return text

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one self-contained page."""
        from tacit.report.page import write_page  # jinja2 is slow to import, and a device has none

        return write_page([self], path, title=f"Audit of {self.name}")

    def verdict(self, attribute: str) -> Verdict:
        """A light ("green", "amber", "red"), a sentence in words, and what both rest on."""
        return verdict(self, attribute)

    def figure(self, attribute: str | None = None) -> Any:
        """Utility against leakage as a matplotlib figure; of the first sensitive attribute by default."""
        from tacit.report.page import drawn  # matplotlib is slow to import, and a device has none

        chosen = next(iter(self.leakage)) if attribute is None else attribute
        self._known(chosen, self.leakage)
        return drawn([self], chosen)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _other_measures(r: AnyResult) -> dict[str, float]:
    """What stands beside the headline in a table."""
    if isinstance(r, NumberResult):
        return {
            "rank correlation": r.rank_correlation.value,
            "mean error": r.mae.value,
            "mean error of guessing the median": r.mae.guessing,
        }
    return {
        "accuracy": r.accuracy.value,
        "balanced accuracy": r.balanced_accuracy.value,
        "AUC": r.auc.value,
    }


def provenance() -> dict[str, Any]:
    """When this was measured, and with which versions."""
    versions = {"tacit": __version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "pandas")}
    return {"when": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "versions": versions}
