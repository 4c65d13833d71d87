"""What every filter is compared with. PCA and random projection come from scikit-learn as they are.

Names are imported when first used: some need torch, and `tacit.audit` needs `LabelOnly` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import attach

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


if TYPE_CHECKING:  # for type checkers and editors; nothing of it is imported
    from tacit.baselines.autoencoder import Autoencoder as Autoencoder
    from tacit.baselines.coarse import Resample as Resample
    from tacit.baselines.coarse import SingularSpectrum as SingularSpectrum
    from tacit.baselines.covers import BlockMask as BlockMask
    from tacit.baselines.covers import BlurMask as BlurMask
    from tacit.baselines.covers import Pixelate as Pixelate
    from tacit.baselines.covers import RandomMask as RandomMask
    from tacit.baselines.discriminability_mask import DiscriminabilityMask as DiscriminabilityMask
    from tacit.baselines.kernel_arl import KernelARL as KernelARL
    from tacit.baselines.label_only import LabelOnly as LabelOnly
    from tacit.baselines.laplace import LaplaceMechanism as LaplaceMechanism
    from tacit.baselines.linear_arl import LinearARL as LinearARL
    from tacit.baselines.linear_eraser import LinearEraser as LinearEraser
    from tacit.baselines.private_pls import PrivatePLS as PrivatePLS
    from tacit.baselines.variational_obfuscator import VariationalObfuscator as VariationalObfuscator
else:
    __getattr__, __dir__ = attach(__name__, _HOME)
