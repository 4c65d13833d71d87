"""What every filter is compared with. PCA and random projection come from scikit-learn as they are.

Names are imported when first used: some need torch, and `tacit.audit` needs `LabelOnly` alone.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Autoencoder": "autoencoder",
    "BlockMask": "covers",
    "BlurMask": "covers",
    "DiscriminabilityMask": "discriminability_mask",
    "KernelARL": "kernel_arl",
    "LabelOnly": "label_only",
    "LaplaceMechanism": "laplace",
    "LinearEraser": "linear_eraser",
    "LinearARL": "linear_arl",
    "Pixelate": "covers",
    "PrivatePLS": "private_pls",
    "RandomMask": "covers",
    "Resample": "coarse",
    "SingularSpectrum": "coarse",
    "VariationalObfuscator": "variational_obfuscator",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tacit.baselines' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"tacit.baselines.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
