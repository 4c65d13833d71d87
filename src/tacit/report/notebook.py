"""What a notebook shows of reports and frontiers, and whole pages inside a cell."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from tacit.report.glossary import GLOSSARY
from tacit.report.results import at_most, interval, shown
from tacit.report.verdict import opening, verdict

COLOURS = {"green": "#2e7d4f", "amber": "#c98200", "red": "#b3261e"}


class Inline:
    """A page inside a cell of a notebook; `print` says where it would be better read."""

    def __init__(self, page: str, height: int = 640) -> None:
        self.page, self.height = page, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.page, quote=True)}" sandbox="allow-scripts" '
            f'style="width:100%;height:{self.height}px;border:1px solid #ccc"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<a page of {len(self.page):,} characters; a notebook shows it>"


def report_html(report: Any) -> str:
    """The opening sentence, a light for each attribute, and the figures."""
    lights = "".join(
        f'<li><span style="color:{COLOURS[v.light]}">&#9679;</span> <b>{_text(v.light)}</b> {_text(v.sentence)} '
        f'<span style="opacity:.7">{_text(v.rests_on)}</span></li>'
        for v in (verdict(report, name) for name in report.leakage)
    )
    groups = (("keeps", report.utility), ("gives away", report.leakage), ("label-only", report.label_only))
    rows = [
        (role, name, shown(r.value), interval(r), shown(r.guessing), r.attacker, _bound(report, role, name))
        for role, results in groups
        for name, r in results.items()
    ]
    heads = ("", "attribute", "value", "interval", "guessing", "by", "any attacker")
    return f"<p>{_text(opening(report))}</p><ul>{lights}</ul>{table_html(heads, rows)}"


def frontier_html(front: Any) -> str:
    """The drawn curve, and one row for each point."""
    text = "\n".join(str(front).splitlines()[:40])
    return f"{svg(front.figure())}<pre>{_text(text)}</pre>"


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; heads that the glossary has are explained one hover away."""
    top = "".join(f"<th>{_head(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{_text(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def svg(figure: Any) -> str:
    """A matplotlib figure as inline SVG."""
    import io

    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    return drawn[drawn.index("<svg") :]


def _head(word: str) -> str:
    return f'<abbr title="{_text(GLOSSARY[word])}">{word}</abbr>' if word in GLOSSARY else _text(word)


def _bound(report: Any, role: str, name: str) -> str:
    if role != "gives away":
        return ""
    found = report.certificate.get(name)
    return "audited only" if found is None else f"certified ≤ {at_most(found.bound)}"


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)
