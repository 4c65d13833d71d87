"""PCA as the papers compare with it: scikit-learn's, of any table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from tacit.records.encoding import make_encoder


def principal(pca: PCA, X: Any) -> Scaled:
    """`pca` of standardised numbers, with no more components than columns; words become one-hot columns first."""
    scale: Any = make_encoder(X) if isinstance(X, pd.DataFrame) else StandardScaler().fit(X)
    scaled = scale.transform(X)
    if isinstance(pca.n_components, int):
        pca.set_params(n_components=min(pca.n_components, scaled.shape[1]))
    return Scaled(scale, pca.fit(scaled))


class Scaled:
    def __init__(self, scale: Any, pca: PCA) -> None:
        self.scale, self.pca = scale, pca

    def transform(self, X: Any) -> np.ndarray:
        return self.pca.transform(self.scale.transform(X))
