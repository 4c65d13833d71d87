"""The policy: tacit.toml beside the data says what may be released to whom. It is reviewed like code.

[data]
file = "people.csv"
targets = ["income"]
sensitive = ["sex"]
unit = "person"              # which rows belong together; without it each row is a person
drop = []                    # columns that are not inputs
alongside = []               # columns that travel with the release

[filter]
name = "codebook"            # or: bundle = "filter.tacit"
weight = 3.0

[limits]
leakage = { sex = 0.58 }     # of any attacker where certified = true, else of ours
odds = { sex = 3.0 }         # no single release moves anyone's odds further; certified
utility = { income = 0.80 }
linkability = 0.05
least_breadth = 0.5
certified = true

[receivers.analyst]          # for all that one receiver holds of one person
leakage = { sex = 0.60 }

[ledger]
file = "ledger.jsonl"
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tacit.errors import InputError
from tacit.options import NAME, FitOptions, json_schema, load_toml, need, read_section
from tacit.report.report import Report
from tacit.report.results import at_most

REQUIRED = {"data": ("file", "targets", "sensitive")}


@dataclass(frozen=True)
class DataPolicy:
    """What is released: the table and its columns."""

    file: str
    targets: tuple[str, ...]
    sensitive: tuple[str, ...]
    unit: str | None = None
    drop: tuple[str, ...] = ()
    alongside: tuple[str, ...] = ()
    bins: int | None = None
    numeric: tuple[str, ...] = ()  # columns that are numbers, or "zip=no"


@dataclass(frozen=True)
class FilterPolicy:
    """By what: a filter to fit, with its settings, or a bundle."""

    name: str = "coupling"
    weight: float | None = None
    seed: int = 0
    bundle: str | None = None
    owner_key: str | None = None
    noise_key: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """How much may be given away, and how much must be kept.

    Attributes
    ----------
    leakage : most balanced accuracy, by sensitive column
    odds : how far a single release may move anyone's odds at most, certified
    utility : least accuracy, by target
    linkability : most true positives at 1 % false positives
    least_breadth, most_breadth : how much of every column must, and may, still be told
    certified : whether only certificates count for leakage
    attackers : "quick" or "strong"
    """

    leakage: Mapping[str, float] = field(default_factory=dict)
    odds: Mapping[str, float] = field(default_factory=dict)
    utility: Mapping[str, float] = field(default_factory=dict)
    linkability: float | None = None
    least_breadth: float | None = None
    most_breadth: float | None = None
    certified: bool = False
    attackers: str = "quick"


@dataclass(frozen=True)
class Receiver:
    """What one receiver may hold of one person, all releases together.

    Attributes
    ----------
    leakage, odds : as of `Limits`, for all that they hold
    certified : whether a first release may pass on its audit alone; several together never do
    independent : take different releases as independent given the sensitive value, where they were not counted together
    with_ : other receivers who may put their releases together with these
    """

    leakage: Mapping[str, float] = field(default_factory=dict)
    odds: Mapping[str, float] = field(default_factory=dict)
    certified: bool = False
    independent: bool = False
    with_: tuple[str, ...] = ()


@dataclass(frozen=True)
class LedgerPolicy:
    """Where releases are recorded."""

    file: str = "ledger.jsonl"


@dataclass(frozen=True)
class Policy:
    """What may be released, to whom; `read_policy` reads it from tacit.toml."""

    folder: Path
    data: DataPolicy | None = None
    filter: FilterPolicy = FilterPolicy()
    limits: Limits = Limits()
    receivers: Mapping[str, Receiver] = field(default_factory=dict)
    ledger: LedgerPolicy | None = None
    text: str = ""

    def place(self, name: str) -> Path:
        """A file that the policy names, beside it."""
        return self.folder / name

    def receiver(self, name: str) -> Receiver:
        """What this receiver may hold; one that the policy does not know may hold nothing."""
        if name not in self.receivers:
            known = ", ".join(self.receivers) or "none"
            raise InputError(
                f"the policy knows no receiver {name!r} (it knows {known}); add [receivers.{name}] to {NAME}, "
                f"which is reviewed, or name another"
            )
        return self.receivers[name]


def read_policy(path: str | Path) -> Policy:
    """Read tacit.toml. A word that is not known is an error: a limit that is misspelt would not be kept."""
    path = Path(path)
    path = path / NAME if path.is_dir() else path
    sections = load_toml(path)
    parts: dict[str, Any] = {"folder": path.parent, "text": path.read_text()}
    kinds: dict[str, type] = {"data": DataPolicy, "filter": FilterPolicy, "limits": Limits, "ledger": LedgerPolicy}
    for name, section in sections.items():
        if name == "receivers":
            need(isinstance(section, dict), path, "receivers", "a table of tables, such as [receivers.analyst]")
            parts[name] = {
                who: Receiver(**read_section(Receiver, s, path, f"receivers.{who}")) for who, s in section.items()
            }
        elif name in kinds:
            parts[name] = kinds[name](**read_section(kinds[name], section, path, name, required=REQUIRED.get(name, ())))
        elif name == "fit":
            read_section(FitOptions, section, path, name)  # of `tacit fit`; a wrong one is an error here too
        else:
            raise InputError(f"{path.name}: [{name}] is not known; there are {', '.join(kinds)}, fit and receivers")
    policy = Policy(**parts)
    _check_names(policy, path)
    return policy


def _check_names(policy: Policy, path: Path) -> None:
    """Limits are of columns that are there."""
    data = policy.data
    if data is None:
        return
    for what, limits, known in (
        ("limits.leakage", policy.limits.leakage, data.sensitive),
        ("limits.odds", policy.limits.odds, data.sensitive),
        ("limits.utility", policy.limits.utility, data.targets),
        *((f"receivers.{n}.leakage", r.leakage, data.sensitive) for n, r in policy.receivers.items()),
        *((f"receivers.{n}.odds", r.odds, data.sensitive) for n, r in policy.receivers.items()),
    ):
        for name in limits:
            need(name in known, path, f"{what}.{name}", f"one of {', '.join(known)}")


def policy_schema() -> dict[str, Any]:
    """Write the JSON schema of tacit.toml; docs/tacit.schema.json is this.

    Examples
    --------
    >>> sorted(policy_schema()["properties"])
    ['data', 'filter', 'fit', 'ledger', 'limits', 'receivers']
    """
    kinds = {"data": DataPolicy, "filter": FilterPolicy, "fit": FitOptions, "limits": Limits, "ledger": LedgerPolicy}
    properties = {name: json_schema(kind) for name, kind in kinds.items()}
    properties["data"]["required"] = list(REQUIRED["data"])
    properties["receivers"] = {"type": "object", "additionalProperties": json_schema(Receiver)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tacit.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


# -- whether an audit keeps it: every limit is a case that passes or fails, and says what would help -----


@dataclass(frozen=True)
class Case:
    """One limit of the policy: its name there, whether it is kept, what was found, and what helps where it is not."""

    name: str
    good: bool
    found: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.name}: {self.found}" + ("" if self.good or not self.remedy else f". {self.remedy}")


def check_report(report: Report, policy: Policy) -> list[Case]:
    """Every limit of the policy against what an audit found. What was not measured does not pass."""
    limits, cases = policy.limits, []
    if not report.fresh:
        cases.append(Case("fresh rows", False, "the filter was fitted on these rows", "Audit rows that it never saw"))
    cases += [_leakage(report, name, most, limits.certified) for name, most in limits.leakage.items()]
    cases += [_odds(report, name, most) for name, most in limits.odds.items()]
    for name, least in limits.utility.items():
        u = report.utility[name]
        what = "R²" if u.headline == "r2" else "accuracy"
        found = f"{what} {u.value:.3f}, at least {u.low:.3f} ({report.level}); asked {least:g}, "
        found += f"guessing {u.guessing:.3f}"
        cases.append(Case(f"utility.{name}", u.low >= least, found, "Let more through: a lighter [filter] weight"))
    if limits.linkability is not None:
        cases.append(_linkability(report, limits.linkability))
    for word, limit in (("least_breadth", limits.least_breadth), ("most_breadth", limits.most_breadth)):
        if limit is not None:
            cases.append(_breadth(report, word, limit))
    return cases


def _leakage(report: Report, name: str, most: float, certified: bool) -> Case:
    c, r = report.certificate.get(name), report.leakage[name]
    case = f"leakage.{name}"
    if c is None and certified:
        why = next((n for n in report.notes if n.startswith(f"{name}:") or "no certificate" in n), "there is none")
        return Case(case, False, f"not certified ({why})", "Release a code ([filter] name = \"codebook\"), or take "
                    "certified = true out and let the audit count")  # fmt: skip
    upper = r.high if c is None else c.bound
    if c is None:  # a stronger attacker may exceed it
        found = f"the best of our attackers reaches up to {at_most(upper)} (audited, {report.level})"
    else:
        found = f"at most {at_most(upper)} for any attacker (certified, {report.level})"
    found += f"; allowed {most:g}, guessing {r.guessing:.3f}"
    if most <= r.guessing:
        return Case(case, upper <= most, found, f"Guessing alone gives {r.guessing:.3f}: ask for more than that")
    return Case(case, upper <= most, found, "Release less of it: a heavier [filter] weight, or fewer codes; with more "
                "rows the bound comes closer to what leaks; or have the limit reviewed")  # fmt: skip


def _odds(report: Report, name: str, most: float) -> Case:
    c = report.certificate.get(name)
    bound = math.inf if c is None or c.odds is None else c.odds.bound
    found = (
        f"a single release moves odds by at most {at_most(bound, 2)}" if bound < math.inf else "odds are not certified"
    )
    remedy = f"Merge rare cells: [filter] settings = {{ max_odds = {most:g} }} with the codebook; or bring more rows"
    return Case(f"odds.{name}", bound <= most, f"{found}; allowed {most:g}", remedy)


def _linkability(report: Report, most: float) -> Case:
    link = report.headline("linkability")
    if link is None:
        return Case("linkability", False, "it was not measured", "It needs people with two records (data.unit); take "
                    "the limit out where it does not apply")  # fmt: skip
    upper = 1.0 if link.high is None else link.high
    found = f"of two releases of one person at most {upper:.3f} are linked at 1 % false alarms; allowed {most:g}"
    return Case("linkability", upper <= most, found, "Release less of it, or records of one person under one key")


def _breadth(report: Report, word: str, limit: float) -> Case:
    b = report.headline("breadth")
    if b is None or b.low is None or b.high is None:
        return Case(word, False, "breadth was not measured", f"Take {word} out for windows and images")
    found = f"{b.value:.3f} of every column can be told ({b.low:.3f} to {b.high:.3f}); limit {limit:g}"
    if word == "least_breadth":
        return Case(word, b.low >= limit, found, 'Release the table ([filter] name = "coupling"), or lower the limit')
    return Case(word, b.high <= limit, found, "Release less: fewer codes, or fewer columns")


def junit(cases: Sequence[Case], seconds: float) -> str:
    """The cases as a JUnit file, which every runner shows."""
    failed = [c for c in cases if not c.good]
    counts = {"tests": str(len(cases)), "failures": str(len(failed)), "time": f"{seconds:.1f}"}
    suite = ElementTree.Element("testsuite", {"name": "tacit check", **counts})
    for case in cases:
        test = ElementTree.SubElement(suite, "testcase", {"classname": "tacit", "name": case.name})
        if not case.good:
            ElementTree.SubElement(test, "failure", {"message": _clean(case.found)}).text = _clean(case.sentence)
        else:
            ElementTree.SubElement(test, "system-out").text = _clean(case.found)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(c for c in text if c in "\t\n" or c.isprintable())
