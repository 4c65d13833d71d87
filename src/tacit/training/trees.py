"""Boosted trees with settings that suit tables of a few hundred to a few million rows."""

from __future__ import annotations

from typing import Any

from tacit.cores import threads

SMALL = 500_000  # numbers: threads that share less than this wait for each other more than they work
# the same seed gives the same bits
REPEATABLE: dict[str, Any] = {"deterministic": True, "force_col_wise": True, "verbosity": -1}


def _settings(shape: tuple[int, int], seed: int, rounds: int, rate: float) -> dict[str, Any]:
    """Few rows get smaller leaves; of many columns each tree sees a share."""
    n_rows, n_columns = shape
    return {
        "n_estimators": rounds,
        "learning_rate": rate,
        "num_leaves": 31,
        "min_child_samples": max(3, min(20, n_rows // 25)),
        "colsample_bytree": max(0.1, min(0.7, 60 / n_columns)),
        "max_bin": 127,
        "random_state": seed,
        "n_jobs": threads() if n_rows * n_columns > SMALL else 1,
        **REPEATABLE,
    }


def boosted_trees(shape: tuple[int, int], n_classes: int, seed: int, rounds: int = 150) -> Any:
    """A boosted-tree classifier for data of this shape.

    With many classes each round grows one tree per class; the number of rounds is cut so that the time does not grow
    with the classes, and the rate is raised in step.
    """
    from lightgbm import LGBMClassifier  # not loaded by `import tacit`

    used = max(30, min(rounds, 6 * rounds // n_classes))
    return LGBMClassifier(**_settings(shape, seed, used, min(0.3, 0.06 * rounds / used)))


def number_trees(shape: tuple[int, int], seed: int, rounds: int = 150, median: bool = False) -> Any:
    """Boosted trees for a standardized number: its mean, or its median."""
    from lightgbm import LGBMRegressor  # the same

    objective = "regression_l1" if median else "regression"
    return LGBMRegressor(objective=objective, **_settings(shape, seed, rounds, 0.06))


def boosted_regressor(*, rounds: int, rate: float, leaves: int, smallest_leaf: int, seed: int, n_columns: int) -> Any:
    """Boosted regression trees for whole numbers from 0 to 127, each tree grown on half of the rows."""
    from lightgbm import LGBMRegressor  # the same

    return LGBMRegressor(
        n_estimators=rounds,
        learning_rate=rate,
        num_leaves=leaves,
        min_child_samples=smallest_leaf,
        subsample=0.5,
        subsample_freq=1,
        colsample_bytree=max(0.1, min(0.5, 60 / n_columns)),
        min_data_in_bin=1,
        max_bin=255,
        random_state=seed,
        n_jobs=threads(),
        **REPEATABLE,
    )
