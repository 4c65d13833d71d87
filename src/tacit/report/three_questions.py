"""The three questions of the European data protection authorities (WP29, opinion 05/2014): one owner of the answers.

Can somebody be singled out, can records of one person be linked, can something be inferred of a person? The first two
are attacks of the audit; the third is its leakage, with a certificate where there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NOT_ASKED = "none: not measured"
NOT_PAIRED = "none: not measured; it needs two records of a person, or a release of several columns"


class Answer(NamedTuple):
    """One question, how it was answered ("certified", "audited" or "none"), and the answer."""

    question: str
    status: str
    sentence: str


def three_questions(report: Any) -> tuple[Answer, ...]:  # a Report, which calls this and so cannot be imported here
    """One answer to singling out, one to linkability, and one of inference for each sensitive attribute."""
    out, link = report.singling_out, report.linkability
    audited = out is not None and out.worst is not None
    return (
        Answer("singling out", "audited" if audited else "none", NOT_ASKED if out is None else out.sentence),
        Answer("linkability", "none" if link is None else "audited", NOT_PAIRED if link is None else link.sentence),
        *(Answer("inference", report.status(name), report.sentence(name)) for name in report.leakage),
    )
