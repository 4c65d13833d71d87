"""A report as Markdown, for a pull request, a ticket or a model card."""

from __future__ import annotations

from tacit.audit.report import Report, _p, worst_case


def markdown_report(report: Report) -> str:
    """Headlines, one table of every figure with its interval and baseline, certificates, notes, limits."""
    from tacit.report import DOES_NOT_PROTECT

    level = report.level
    lines = [f"# Audit of {report.name}", ""]
    for name in report.leakage:
        lines.append(f"- **{report.sentence(name)}**")
        if beaten := report.beaten_by_label(name):
            lines.append(f"- {name}: dominated; {beaten}")
        lines += [f"- {name}: {told[name].sentence}" for told in (report.exposure, report.power) if name in told]
    lines += [
        "",
        f"| role | attribute | measure | value | {level} interval | guessing | by |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report.table.to_dict("records"):
        cells = [row["role"], row["attribute"], row["measure"], _p(row["value"])]
        cells += [f"{_p(row['low'])}–{_p(row['high'])}", _p(row["guessing"]), row["attacker"]]
        lines.append("| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |")
    for name, m in report.resemblance.measures.items():
        lines.append(f"| resembles | | {name} | {_p(m.value)} | {_p(m.low)}–{_p(m.high)} | {_p(m.guessing)} | |")
    found = [worst_case(name, c, level) for name, c in report.certificate.items() if c is not None]
    for title, texts in (
        ("Certificate", found),
        ("Notes", list(report.notes)),
        ("What this does not protect against", list(DOES_NOT_PROTECT)),
    ):
        if texts:
            lines += ["", f"## {title}", "", *(f"- {t}" for t in texts)]
    s = report.settings
    lines += [
        "",
        f"Data {s['data'] or 'unnamed'}, {s['rows']['attack']:,} rows to attack and {s['rows']['test']:,} to test, "
        f"seed {s['seed']}, {s['seconds']} s, {', '.join(f'{k} {v}' for k, v in s['versions'].items())}, {s['when']}.",
    ]
    return "\n".join(lines) + "\n"
