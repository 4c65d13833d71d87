"""Whether a release keeps its policy: every limit is a case that passes or fails, and says what would help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from tacit.ledger.policy import Policy
from tacit.report.report import Report
from tacit.report.results import at_most


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
    link = report.linkability
    if link is None:
        return Case("linkability", False, "it was not measured", "It needs people with two records (data.unit); take "
                    "the limit out where it does not apply")  # fmt: skip
    upper = link.high
    found = f"of two releases of one person at most {upper:.3f} are linked at 1 % false alarms; allowed {most:g}"
    return Case("linkability", upper <= most, found, "Release less of it, or records of one person under one key")


def _breadth(report: Report, word: str, limit: float) -> Case:
    b = report.breadth
    if b is None:
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
