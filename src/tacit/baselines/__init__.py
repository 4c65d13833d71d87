"""What every filter is compared with. PCA and random projection come from scikit-learn as they are."""

from tacit.baselines.label_only import LabelOnly

__all__ = ["LabelOnly"]
