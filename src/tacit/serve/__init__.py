"""The client/cloud split: a service that answers from releases alone. Names are imported when first used."""

from __future__ import annotations

from typing import Any

from tacit.lazy import import_name

_HOME = {
    "Analyzer": "tacit.release.analyzer",
    "fit_analyzer": "tacit.release.analyzer",
    "make_app": "tacit.serve.app",
    "Client": "tacit.serve.client",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
