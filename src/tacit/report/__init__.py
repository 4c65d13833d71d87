"""Results and how they are shown: what an audit found as objects, sentences, tables, pages."""

from __future__ import annotations

from tacit.lazy import attach

_HOME = {
    "Report": "tacit.report.report",
    "dominated": "tacit.report.page",
    "figure": "tacit.report.page",
    "write_page": "tacit.report.page",
}
__all__ = sorted(_HOME)

__getattr__, __dir__ = attach(__name__, _HOME)
