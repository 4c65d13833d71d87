"""Tacit: private representation learning that measures or proves what still leaks.

Names are imported when first used, so that ``import tacit`` stays quick.
"""

from __future__ import annotations

from typing import Any

from tacit.lazy import import_name

__version__ = "0.1.0"

_HOME = {
    "Dataset": "tacit.records.dataset",
    "read_images": "tacit.records.images",
    "read_table": "tacit.records.dataset",
    "read_windows": "tacit.records.windows",
    "load_dataset": "tacit.datasets",
    "EIGAN": "tacit.filters.eigan",
    "MinimaxFilter": "tacit.filters.minimax",
    "AnonymizingAutoencoder": "tacit.filters.aae",
    "TaskMask": "tacit.filters.mask",
    "CodebookFilter": "tacit.filters.codebook",
    "DPFE": "tacit.filters.dpfe",
    "audit": "tacit.audit",
    "profile": "tacit.release.profiling",
    "frontier": "tacit.frontier",
    "save": "tacit.release.saving",
    "load": "tacit.release.runtime",
    "TacitError": "tacit.errors",
    "TacitWarning": "tacit.errors",
    "baselines": "tacit.baselines",
    "serve": "tacit.serve",
    "release": "tacit.release",
    "federated": "tacit.federated",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
