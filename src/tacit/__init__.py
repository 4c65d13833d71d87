"""Tacit: private representation learning that measures or proves what still leaks.

Names are imported when first used, so that ``import tacit`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Dataset": "tacit.dataset",
    "read_images": "tacit.images",
    "read_table": "tacit.dataset",
    "read_windows": "tacit.windows",
    "load_dataset": "tacit.datasets",
    "EIGAN": "tacit.filters.eigan",
    "MinimaxFilter": "tacit.filters.minimax",
    "AnonymizingAutoencoder": "tacit.filters.aae",
    "TaskMask": "tacit.filters.mask",
    "CodebookFilter": "tacit.filters.codebook",
    "DPFE": "tacit.filters.dpfe",
    "audit": "tacit.audit",
    "save": "tacit.release.saving",
    "load": "tacit.release.runtime",
    "TacitError": "tacit.errors",
    "TacitWarning": "tacit.errors",
    "baselines": "tacit.baselines",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}; it has {', '.join(sorted(_HOME))}")
    module = importlib.import_module(_HOME[name])
    value = module if _HOME[name] == f"tacit.{name}" and not hasattr(module, name) else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
