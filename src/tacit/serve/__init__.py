"""The client/cloud split: a service that answers from releases alone. Names are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import attach

_HOME = {
    "Analyzer": "tacit.release.analyzer",
    "fit_analyzer": "tacit.release.analyzer",
    "make_app": "tacit.serve.app",
    "Client": "tacit.serve.client",
}

__all__ = sorted(_HOME)


if TYPE_CHECKING:  # for type checkers and editors; nothing of it is imported
    from tacit.release.analyzer import Analyzer as Analyzer
    from tacit.release.analyzer import fit_analyzer as fit_analyzer
    from tacit.serve.app import make_app as make_app
    from tacit.serve.client import Client as Client
else:
    __getattr__, __dir__ = attach(__name__, _HOME)
