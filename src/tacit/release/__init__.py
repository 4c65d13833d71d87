"""What leaves the owner's hands: bundles, their runtime, and noise. Names are imported when first used."""

from __future__ import annotations

from typing import Any

from tacit.lazy import import_name

_HOME = {
    "Occurrences": "tacit.noise.keyed",
    "Release": "tacit.release.runtime",
    "Quarantined": "tacit.release.runtime",
    "apply": "tacit.release.bulk",
    "arrow_udf": "tacit.release.columns",
    "sign": "tacit.release.signing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
