"""Pages people want to read: one self-contained HTML file per audit or comparison."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from tacit.files import write_whole
from tacit.report.results import NumberResult, at_most, beats, digits, shown
from tacit.report.verdict import DOES_NOT_PROTECT, RULE, not_covered, opening, verdict

MEASURES = {"r2": "R²", "balanced_accuracy": "balanced accuracy of the best attacker"}
WORDS = {  # explained one hover away; docs/glossary.md has more
    "guessing": "What somebody gets who sees no release: the least that any figure can be compared with.",
    "balanced accuracy": (
        "The share of right answers when every class is as common as every other, so that always naming the "
        "commonest class gains nothing. Of two classes guessing gives .500."
    ),
    "audited": (
        "Attackers were trained and this is how far they got. It was measured, not proved: a cleverer one may get "
        "further."
    ),
    "certified": (
        "No attacker, however clever, does better on average on one release of a new person who is like those counted, "
        "if they know nothing else about that person. Wrong in at most 5 of 100 such statements."
    ),
    "label-only": "Releasing nothing but the predicted target: the floor that every release is compared with.",
    "dominated": "Another release is as useful and leaks less, both beyond chance: there is no reason to use this one.",
    "breadth": "How much of every column can still be told from the release: 0 as by guessing, 1 as from raw rows.",
}


def write_page(reports: Sequence[Any], path: str | Path, title: str, introduction: str = "") -> Path:
    """Write one or several audits of the same data as one page; it opens with what to think of the last of them."""
    return write_whole(path, page_text(reports, title, introduction))


def page_text(reports: Sequence[Any], title: str, introduction: str = "") -> str:
    """The page itself."""
    plain = [r.to_dict() for r in reports]
    beaten = dominated(reports)
    attributes = list(reports[0].leakage)
    why = {s: [_why(r, s, beaten) for r in reports] for s in attributes}
    lead = reports[-1]
    return render(
        "page.html.j2",
        {"reports": plain, "dominated": why},
        title=title,
        introduction=introduction,
        reports=list(reports),
        plain=plain,
        at=lambda tree, path: functools.reduce(lambda node, key: node[key], path, tree),
        attributes=attributes,
        targets=list(reports[0].utility),
        dominated=why,
        pooled=lambda attribute: any(
            a.kind.startswith("pooled") and attribute in a.results for r in reports for a in r.attacks
        ),
        has_floor_row=any(r.name == "label-only" for r in reports),
        level=reports[0].level,
        number=lambda r: isinstance(r, NumberResult),
        word=lambda r: MEASURES.get(r.headline, r.headline.replace("_", " ")),
        own_units=digits,
        lead=lead,
        opening=opening(lead),
        verdicts=[verdict(lead, name) for name in lead.leakage],
        rule=RULE,
        words=WORDS,
        not_covered=not_covered(lead),
    )


def render(template: str, data: Any, **told: Any) -> str:
    """A page of a template, with its data inside."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tacit", "report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["up"] = lambda value: "–" if value is None else at_most(value)
    environment.globals |= {"term": term, "explained": WORDS.__getitem__}
    environment.filters["p"] = lambda value: "–" if value is None else shown(value)
    # inside a script element only "<" could end it
    embedded = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return environment.get_template(template).render(embedded=embedded, limits=DOES_NOT_PROTECT, **told)


def term(word: str, shown_as: str | None = None) -> Any:
    """A word whose explanation is one hover, or one touch, away."""
    return markupsafe.Markup('<abbr tabindex="0" title="{}">{}</abbr>').format(WORDS[word], shown_as or word)


def _why(report: Any, attribute: str, beaten: dict[tuple[str, str], str]) -> str | None:
    """Why a release is no use: another one of the page, or the predicted label alone, is as useful and leaks less."""
    better = beaten.get((report.name, attribute))
    if better is not None:
        return f"{better} is at least as useful and leaks less"
    return report.beaten_by_label(attribute)


def dominated(reports: Sequence[Any]) -> dict[tuple[str, str], str]:
    """Releases that another one beats, by name and sensitive attribute."""
    out = {}
    for r in reports:
        for attribute, v in r.leakage.items():
            for other in reports:
                if other is not r and beats(other.utility, other.leakage[attribute], r.utility, v):
                    out[r.name, attribute] = other.name
                    break
    return out


def figure(reports: Sequence[Any], attribute: str) -> str:
    """Utility against leakage of every release, with intervals and certificates, as inline SVG."""
    return inline_svg(drawn(reports, attribute))


def inline_svg(fig: Any) -> str:
    """A matplotlib figure as inline SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # slow to import, and a device has none

    out = io.StringIO()
    FigureCanvasSVG(fig).print_svg(out, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = out.getvalue()
    return text[text.index("<svg") :]


def drawn(reports: Sequence[Any], attribute: str) -> Any:
    """The same as a matplotlib figure."""
    from matplotlib.figure import Figure  # slow to import, and a device has none

    target = next(iter(reports[0].utility))
    fig = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = fig.subplots()
    guessing = reports[0].leakage[attribute].guessing
    axes.axvline(guessing, color="#888888", linestyle=":", linewidth=1)
    axes.axhline(reports[0].utility[target].guessing, color="#888888", linestyle=":", linewidth=1)
    for i, report in enumerate(reports):
        u, v = report.utility[target], report.leakage[attribute]
        colour = f"C{i}"
        axes.errorbar(
            v.value,
            u.value,
            xerr=[[max(0.0, v.value - v.low)], [max(0.0, v.high - v.value)]],
            yerr=[[u.value - u.low], [u.high - u.value]],
            fmt="o",
            color=colour,
            capsize=2,
            linewidth=1,
            label=report.name,
        )
        certificate = report.certificate[attribute]
        if certificate is not None:
            axes.plot([certificate.bound], [u.value], marker="|", markersize=16, color=colour, markeredgewidth=2)
    leak, use = (
        MEASURES.get(r.headline, r.headline) for r in (reports[0].leakage[attribute], reports[0].utility[target])
    )
    axes.set_xlabel(f"leakage of {attribute} ({leak}; | certified bound)")
    axes.set_ylabel(f"utility: {use} of {target}")
    axes.set_title("Better is up and to the left; dotted lines are guessing", fontsize=9, loc="left")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return fig
