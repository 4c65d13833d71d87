"""Tacit: private representation learning that measures or proves what still leaks.

Names are imported when first used, so that ``import tacit`` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import attach

__version__ = "0.1.0"

_HOME = {
    "Dataset": "tacit.records.dataset",
    "read_images": "tacit.records.images",
    "read_table": "tacit.records.dataset",
    "read_windows": "tacit.records.windows",
    "load_dataset": "tacit.datasets",
    "DP": "tacit.noise.accounting",
    "EIGAN": "tacit.filters.eigan",
    "MinimaxFilter": "tacit.filters.minimax",
    "AnonymizingAutoencoder": "tacit.filters.autoencoder",
    "TaskMask": "tacit.filters.mask",
    "CodebookFilter": "tacit.filters.codebook",
    "CouplingFilter": "tacit.filters.coupling",
    "DPFE": "tacit.filters.dpfe",
    "audit": "tacit.auditing.audit",
    "AuditOptions": "tacit.options",
    "certify": "tacit.auditing.engine_counts",
    "profile": "tacit.release.profiling",
    "frontier": "tacit.tradeoff.trace",
    "save": "tacit.release.saving",
    "load": "tacit.release.runtime",
    "TacitError": "tacit.errors",
    "TacitWarning": "tacit.errors",
    "baselines": "tacit.baselines",
    "serve": "tacit.serve",
    "release": "tacit.release",
    "ledger": "tacit.ledger",
    "federated": "tacit.federated",
    "testing": "tacit.testing",
}

__all__ = ["__version__", *sorted(_HOME)]


if TYPE_CHECKING:  # for type checkers and editors; nothing of it is imported
    from tacit import baselines as baselines
    from tacit import federated as federated
    from tacit import ledger as ledger
    from tacit import release as release
    from tacit import serve as serve
    from tacit import testing as testing
    from tacit.auditing.audit import audit as audit
    from tacit.auditing.engine_counts import certify as certify
    from tacit.datasets import load_dataset as load_dataset
    from tacit.errors import TacitError as TacitError
    from tacit.errors import TacitWarning as TacitWarning
    from tacit.filters.autoencoder import AnonymizingAutoencoder as AnonymizingAutoencoder
    from tacit.filters.codebook import CodebookFilter as CodebookFilter
    from tacit.filters.coupling import CouplingFilter as CouplingFilter
    from tacit.filters.dpfe import DPFE as DPFE
    from tacit.filters.eigan import EIGAN as EIGAN
    from tacit.filters.mask import TaskMask as TaskMask
    from tacit.filters.minimax import MinimaxFilter as MinimaxFilter
    from tacit.noise.accounting import DP as DP
    from tacit.options import AuditOptions as AuditOptions
    from tacit.records.dataset import Dataset as Dataset
    from tacit.records.dataset import read_table as read_table
    from tacit.records.images import read_images as read_images
    from tacit.records.windows import read_windows as read_windows
    from tacit.release.profiling import profile as profile
    from tacit.release.runtime import load as load
    from tacit.release.saving import save as save
    from tacit.tradeoff.trace import frontier as frontier
else:
    __getattr__, __dir__ = attach(__name__, _HOME)
