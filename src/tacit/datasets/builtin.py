"""Data sets that come with scikit-learn: nothing to download."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn import datasets as sk

from tacit.datasets.registry import register
from tacit.records.dataset import Dataset


@register
def digits() -> Dataset:
    """Handwritten digits, 8x8. Keep odd/even, hide which digit.

    Parity is a function of the digit, so even the bare parity gives a digit away with
    probability .20 instead of .10: no useful release can do better.
    """
    X, digit = sk.load_digits(return_X_y=True)
    parity = np.where(digit % 2 == 0, "even", "odd")
    return Dataset(X, pd.DataFrame({"parity": parity}), pd.DataFrame({"digit": digit}), name="digits")


@register
def diabetes(classes: bool = False) -> Dataset:
    """Diabetes patients. Keep how far the disease progresses, a number, and hide sex.

    With ``classes=True`` keep whether it progresses above the median.
    """
    bunch = sk.load_diabetes(as_frame=True)
    table = bunch.data
    sex = np.where(table["sex"] > 0, "b", "a")  # the source does not say which code is which
    progression = bunch.target.to_numpy()
    if classes:
        progression = np.where(bunch.target > bunch.target.median(), "above median", "below median")
    return Dataset(
        table.drop(columns="sex"),
        pd.DataFrame({"progression": progression}),
        pd.DataFrame({"sex": sex}),
        name="diabetes",
    )
