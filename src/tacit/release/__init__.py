"""What leaves the owner's hands: bundles, their runtime, and noise. Names are imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Release": "runtime",
    "Quarantined": "runtime",
    "apply": "bulk",
    "arrow_udf": "columns",
    "sign": "signing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.release' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"tacit.release.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
