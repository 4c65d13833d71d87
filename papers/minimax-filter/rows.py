"""The rows of Fig. 2 to 4: which filter is which. The paper's reader and the fresh attacker read the same one.

"as printed" is the paper's own setting; "ours" is the library's default. Rand, PCA and PPLS read the data unchanged, as
5.1 and 5.3 say. On speech (5.2 does not say) the minimax filter as printed reads scaled columns: on MFCCs as they come,
from -146 to 43, its inner L-BFGS does not find the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

import tacit
from tacit.baselines import DiscriminabilityMask, PrivatePLS

from . import protocol

PRINTED, OURS = "minimax, as printed", "minimax, ours"
SECOND = "minimax 2, as printed"  # the nonlinear one, D-10-10; it and the mask have no d
LINEAR = ("random", "PCA", "PPLS, as printed", "PPLS, ours", PRINTED, OURS)
MASKS = [{"privacy_weight": w, "ridge": r} for w in (1.0, 2.0, 4.0) for r in (0.01, 0.1, 1.0)]


def maker(name: str, part: str, d: int, steps: dict[str, int]) -> Callable[[int, tacit.Dataset], Any]:
    """(seed, training rows) -> the filter of this row, not fitted yet; steps: of the printed filter and of ours."""
    scaled = part in ("emodb", "enterface")
    return {
        "random": lambda seed, train: GaussianRandomProjection(d, random_state=seed),
        "PCA": lambda seed, train: PCA(d, random_state=seed),
        "PPLS, as printed": lambda seed, train: PrivatePLS.as_printed(d),
        "PPLS, ours": lambda seed, train: PrivatePLS(d),
        PRINTED: lambda seed, train: tacit.MinimaxFilter.as_printed(
            d, max_iter=steps["printed"], standardise=scaled, random_state=seed
        ),
        OURS: lambda seed, train: tacit.MinimaxFilter(d, max_iter=steps["ours"], random_state=seed),
        SECOND: lambda seed, train: tacit.MinimaxFilter.as_printed(
            10, network="mlp", max_iter=steps["printed"], random_state=seed
        ),
        "DDD": lambda seed, train: chosen_mask(train, seed),
    }[name]


def chosen_mask(train: tacit.Dataset, seed: int) -> DiscriminabilityMask:
    """The mask with the largest gap between target and secret on a quarter of the training rows, which it never saw.

    Whitehill and Movellan's own settings are in a code that is no longer there; ours are chosen, never on test rows.
    """
    rows = np.random.default_rng(seed).permutation(len(train))
    learn, held = (train.take(np.sort(part)) for part in np.split(rows, [round(0.75 * len(rows))]))

    def gap(settings: dict[str, float]) -> float:
        told = protocol.evaluate(protocol.fitted(DiscriminabilityMask(**settings), learn), learn, held)
        return told["target"] - told["secret"]

    return DiscriminabilityMask(**max(MASKS, key=gap))


def split(part: str, seed: int) -> tuple[tacit.Dataset, tacit.Dataset]:
    """The paper's training and test rows, unchanged, as arrays."""
    train, test = protocol.SPLITS[part](seed)
    return protocol.replace_X(train, train.X), protocol.replace_X(test, test.X)


def fresh_split(part: str, seed: int) -> tuple[tacit.Dataset, ...]:
    """Rows for the filter, for the attackers, and for the test; windows of one bout never stand in two of them."""
    if part == "har":  # by bout, of people on whom nothing was chosen
        data = tacit.load_dataset("uci_har")
        subject = data.sensitive["subject"].to_numpy()
        people = np.random.default_rng(0).permutation(np.unique(subject))[15:]
        data = data.take(np.isin(subject, people))
        X = np.asarray(data.X, dtype=np.float64)
        return tacit.Dataset(X, data.y, data.sensitive, data.units).split((0.4, 0.4, 0.2), random_state=seed)
    train, test = split(part, seed)
    return *train.split((0.5, 0.5), random_state=seed), test
