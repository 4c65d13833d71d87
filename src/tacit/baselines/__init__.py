"""What every filter is compared with. PCA and random projection come from scikit-learn as they are.

Names are imported when first used: some need torch, and `tacit.audit` needs `LabelOnly` alone.
"""

from __future__ import annotations

from typing import Any

from tacit.lazy import import_name

_HOME = {
    "Autoencoder": "tacit.baselines.autoencoder",
    "BlockMask": "tacit.baselines.covers",
    "BlurMask": "tacit.baselines.covers",
    "DiscriminabilityMask": "tacit.baselines.discriminability_mask",
    "KernelARL": "tacit.baselines.kernel_arl",
    "LabelOnly": "tacit.baselines.label_only",
    "LaplaceMechanism": "tacit.baselines.laplace",
    "LinearEraser": "tacit.baselines.linear_eraser",
    "LinearARL": "tacit.baselines.linear_arl",
    "Pixelate": "tacit.baselines.covers",
    "PrivatePLS": "tacit.baselines.private_pls",
    "RandomMask": "tacit.baselines.covers",
    "Resample": "tacit.baselines.coarse",
    "SingularSpectrum": "tacit.baselines.coarse",
    "VariationalObfuscator": "tacit.baselines.variational_obfuscator",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
