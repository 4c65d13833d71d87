"""A report as Markdown, for a pull request, a ticket or a model card."""

from __future__ import annotations

from typing import Any

from tacit.report.foreign import in_markdown
from tacit.report.results import Measure, NumberResult, digits, interval, shown

DOES_NOT_PROTECT = (
    "Several releases of the same person, or a release combined with other columns, give away more than one.",
    "Attributes that were not declared sensitive were not tested.",
    "Other populations: the figures hold for records like those audited.",
    "An audit is a lower bound: a stronger attacker may find more. Only a certificate bounds every attacker.",
)


def markdown_report(report: Any) -> str:  # a Report, which calls this and so cannot be imported here
    """Headlines, one table of every figure with its interval and baseline, certificates, notes, limits."""
    level = report.level
    lines = [f"# Audit of {report.name}", ""]
    for name in report.leakage:
        lines.append(f"- **{report.sentence(name)}**")
        if beaten := report.beaten_by_label(name):
            lines.append(f"- {name}: dominated; {beaten}")
        lines += [f"- {worst}"] if (worst := report.worst(name)) else []
        if name in report.exposure:
            lines.append(f"- {name}: {report.exposure[name].sentence}")
        if text := report.smallest_detectable(name):
            lines.append(f"- {name}: {text}")
    lines += [
        "",
        f"| role | attribute | measure | value | {level} interval | guessing | by |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report.table.to_dict("records"):
        cells = [row["role"], row["attribute"], row["measure"], shown(row["value"])]
        cells += [interval(Measure(*(row[k] for k in ("value", "low", "high", "guessing")))), shown(row["guessing"])]
        cells.append(row["attacker"])
        lines.append("| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |")
    for role, results in (("utility", report.utility), ("leakage", report.leakage)):
        for name, r in results.items():
            lines += _number_lines(role, name.replace("|", "\\|"), r) if isinstance(r, NumberResult) else []
    for name, m in report.resemblance.measures.items():
        lines.append(f"| resembles | | {name} | {shown(m.value)} | {interval(m)} | {shown(m.guessing)} | |")
    found = [f"{name}: {c.explain(level)}" for name, c in report.certificate.items() if c is not None]
    few = [text for name in report.pairs if (text := report.few_columns(name))]
    known = [k.figures(name) for name, sets in report.knowledge.items() for k in sets.values()]
    for title, texts in (
        ("Certificate", found),
        ("Whoever reads few columns", few),
        ("Whoever knows raw columns", known),
        ("Three questions", [f"{a.question} ({a.status}): {a.sentence}" for a in report.questions]),
        ("Breadth", [] if report.breadth is None else [report.breadth.sentence]),
        ("The table before and after", [] if report.change is None else report.change.sentences),
        ("Notes", list(report.notes)),
        ("What this does not protect against", list(DOES_NOT_PROTECT)),
    ):
        if texts:
            lines += ["", f"## {title}", "", *(f"- {t}" for t in texts)]
    s = report.settings
    lines += [
        "",
        f"Data {s.data or 'unnamed'}, {s.rows['attack']:,} rows to attack and {s.rows['test']:,} to test, "
        f"seed {s.seed}, {s.seconds} s, {', '.join(f'{k} {v}' for k, v in s.versions.items())}, {s.when}.",
    ]
    return "\n".join(in_markdown(line) for line in lines) + "\n"


def _number_lines(role: str, name: str, r: NumberResult) -> list[str]:
    """What else is told of a number, as rows of the table."""
    rank, off = r.rank_correlation, r.mae
    ends = f"{digits(off.low)}–{digits(off.high)}"
    return [
        f"| {role} | {name} | rank correlation | {shown(rank.value)} | {interval(rank)} | .000 | "
        f"{r.by.get('rank_correlation', '')} |",
        f"| {role} | {name} | mean error | {digits(off.value)} | {ends} | {digits(off.guessing)} (the median) | "
        f"{r.by.get('mae', '')} |",
    ]
