"""Results and how they are shown: what an audit found as objects, sentences, tables, pages."""

from __future__ import annotations

from typing import Any

from tacit.lazy import import_name

_HOME = {
    "Report": "tacit.report.report",
    "dominated": "tacit.report.page",
    "figure": "tacit.report.page",
    "write_page": "tacit.report.page",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
