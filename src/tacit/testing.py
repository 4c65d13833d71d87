"""`tacit.testing`: the contract of a filter as checks that anybody can run on a class of their own.

>>> import tacit
>>> from tacit.testing import check_filter
>>> passed = check_filter(tacit.baselines.LinearEraser, sklearn=False)
>>> len(passed) >= 10
True
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from tacit.datasets import load_dataset
from tacit.errors import TacitError
from tacit.records.dataset import Dataset

__all__ = ["check_filter"]
Check = Callable[[Any], None]


class CheckFailed(TacitError, AssertionError):
    """A filter breaks its contract; the message lists every broken rule."""


def check_filter(filter: Any, *, sklearn: bool = True) -> list[str]:
    """Run the whole contract on a filter of your own; an error lists every rule that it breaks.

    Parameters
    ----------
    filter : the class, or an unfitted object with quick settings (it is fitted a few dozen times on small tables)
    sklearn : also run scikit-learn's own `check_estimator`

    Returns
    -------
    names of the checks that passed

    Examples
    --------
    >>> import tacit
    >>> "same_seed_same_bits" in check_filter(tacit.baselines.LinearARL(), sklearn=False)
    True
    """
    f = filter() if isinstance(filter, type) else filter
    passed, broken = list[str](), list[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for check in CHECKS:
            try:
                check(f)
            except Exception as error:  # whatever a user's class raises is a broken rule
                broken.append(f"{check.__name__}: {str(error) or type(error).__name__}")
                if check is CHECKS[0]:  # what cannot be cloned cannot be fitted either
                    sklearn = False
                    break
            else:
                passed.append(check.__name__)
        if sklearn:
            from sklearn.utils.estimator_checks import check_estimator  # slow to import

            for told in check_estimator(clone(f), on_fail=None, on_skip=None):
                name = f"scikit-learn: {told['check_name']}"
                if told["status"] == "failed":
                    broken.append(f"{name}: {told['exception']}")
                else:
                    passed.append(name)
    if broken:
        raise CheckFailed(f"{type(f).__name__} breaks {len(broken)} rules:\n- " + "\n- ".join(broken))
    return passed


# -- the rules ------------------------------------------------------------------------------------------


def the_constructor_stores_and_clone_copies(f: Any) -> None:
    copy, known = clone(f), f.get_params(deep=False)
    told = copy.get_params(deep=False)
    _hold(told.keys() == known.keys(), f"clone has other parameters: {sorted(set(told) ^ set(known))}")
    changed = [k for k, v in known.items() if repr(told[k]) != repr(v)]
    _hold(not changed, f"clone changes {', '.join(changed)}; the constructor must only store")


def the_knob_is_a_parameter(f: Any) -> None:
    _hold(hasattr(type(f), "knob"), "the class names no knob; add knob = Knob(name, utility_rises=..., values=...)")
    _hold(f.knob.name in f.get_params(), f"its knob {f.knob.name!r} is no parameter")


def fit_leaves_a_mechanism(f: Any) -> None:
    g = _fitted(f)
    _hold(hasattr(g, "mechanism_"), "fit leaves no mechanism_; subclass tacit.filters.base.Filter and write _learn")


def same_seed_same_bits(f: Any) -> None:
    data = plane()
    one, two = (_quiet(_fitted(_seeded(f, 0), data)).transform(data.X) for _ in range(2))
    _hold(np.array_equal(np.asarray(one), np.asarray(two)), "two fits with random_state=0 release other bits")


def a_release_has_a_row_for_each_record(f: Any) -> None:
    data = plane()
    Z = _fitted(f, data).transform(data.X)
    _hold(len(Z) == len(data), f"{len(data)} records, {len(Z)} releases")


def the_same_record_is_released_alike(f: Any) -> None:
    data = plane()
    g = _fitted(f, data)
    Z = np.asarray(g.transform(data.X))
    again = np.asarray(g.transform(data.X[::-1]))[::-1]
    _hold(np.array_equal(Z, again), "a record's release depends on its place or on when it is asked for")
    _hold(np.allclose(Z[:7], np.asarray(g.transform(data.X[:7])), atol=1e-9), "it depends on the other records")


def nothing_set_after_fit_changes_the_release(f: Any) -> None:
    data = plane()
    g = _fitted(f, data)
    before = np.asarray(g.transform(data.X))
    knob = g.knob.name
    other = next((v for v in g.knob.values if v != getattr(g, knob)), None)
    if other is not None:
        g.set_params(**{knob: other})
        _hold(np.array_equal(before, np.asarray(g.transform(data.X))), f"setting {knob} after fit changes the release")


def pandas_output_has_names(f: Any) -> None:
    data = plane()
    g = _fitted(clone(f).set_output(transform="pandas"), data)
    Z = g.transform(data.X)
    _hold(isinstance(Z, pd.DataFrame), "set_output(transform='pandas') gives no DataFrame")
    _hold(list(Z.columns) == list(g.get_feature_names_out()), "columns are not get_feature_names_out()")


def tables_with_text_and_gaps(f: Any) -> None:
    data = people()
    g = _fitted(f, data)
    fresh = data.X.copy()
    fresh.loc[0, "job"], fresh.loc[1, "age"], fresh.loc[2, "town"] = "astronaut", np.nan, None
    _hold(len(g.transform(fresh)) == len(fresh), "rows with new words or gaps are lost")


def a_missing_column_is_named(f: Any) -> None:
    data = people()
    g = _fitted(f, data)
    _raises(lambda: g.transform(data.X.drop(columns="hours")), "hours", "a table without its column 'hours'")


def bad_records_say_where(f: Any) -> None:
    data = plane()
    X = data.X.copy()
    X[2, 1] = np.inf
    _raises(lambda: _fitted(f, data, X=X), "row 2", "infinity in row 2")
    _raises(lambda: _fitted(f, data, s=data.sensitive[:-1]), "rows", "one label too few")


def missing_labels_do_not_take_part(f: Any) -> None:
    data = plane()
    y, s = data.y.astype(object), data.sensitive.astype(object)
    y.iloc[:40], s.iloc[30:80] = None, None
    g = clone(f).fit(data.X, y, sensitive_features=s)
    _hold(len(g.transform(data.X)) == len(data), "rows without a label are not released")


def rows_of_the_fit_are_known(f: Any) -> None:
    data = plane()
    g = _fitted(f, data.take(np.arange(200)))
    _hold(g.seen(data.X).tolist() == [True] * 200 + [False] * 100, "seen(X) does not tell rows of the fit from others")


def training_rows_are_released_out_of_fold(f: Any) -> None:
    data = plane()
    g = _fitted(f, data)
    _hold(len(g.release_training_rows()) == len(data), "release_training_rows() has another number of rows")


CHECKS: tuple[Check, ...] = (
    the_constructor_stores_and_clone_copies,
    the_knob_is_a_parameter,
    fit_leaves_a_mechanism,
    same_seed_same_bits,
    a_release_has_a_row_for_each_record,
    the_same_record_is_released_alike,
    nothing_set_after_fit_changes_the_release,
    pandas_output_has_names,
    tables_with_text_and_gaps,
    a_missing_column_is_named,
    bad_records_say_where,
    missing_labels_do_not_take_part,
    rows_of_the_fit_are_known,
    training_rows_are_released_out_of_fold,
)


# -- what they are run on -------------------------------------------------------------------------------


def plane() -> Dataset:
    """Three hundred points of a plane: the target is one side, the sensitive attribute the other."""
    return load_dataset("quadrants", n=300, random_state=1)


def people() -> Dataset:
    """A table with text, booleans, integers, floats and gaps."""
    rng, n = np.random.default_rng(0), 300
    sex, rich = rng.integers(2, size=n), rng.integers(2, size=n)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "height": 165 + 12 * sex + 7 * rng.standard_normal(n),
            "job": np.where(rich + 0.5 * rng.standard_normal(n) > 0.5, "lawyer", np.where(sex == 1, "nurse", "cook")),
            "owner": rng.random(n) < 0.3,
            "hours": np.where(rng.random(n) < 0.2, np.nan, 30 + 10 * rich + rng.standard_normal(n)),
            "town": np.array(["north", "south", None], dtype=object)[rng.integers(3, size=n)],
        }
    )
    return Dataset(X, pd.DataFrame({"rich": rich}), pd.DataFrame({"sex": sex}))


def _fitted(f: Any, data: Dataset | None = None, X: Any = None, s: Any = None) -> Any:
    data = plane() if data is None else data
    records, sensitive = data.X if X is None else X, data.sensitive if s is None else s
    return clone(f).fit(records, data.y, sensitive_features=sensitive)


def _seeded(f: Any, seed: int) -> Any:
    return clone(f).set_params(random_state=seed) if "random_state" in f.get_params() else clone(f)


def _quiet(g: Any) -> Any:
    """Without noise, which is never a seed's."""
    return g.with_noise(None) if getattr(g.mechanism_, "noise", None) is not None else g


def _raises(work: Callable[[], Any], word: str, what: str) -> None:
    try:
        work()
    except TacitError as error:
        _hold(word in str(error), f"the error about {what} does not say {word!r}: {error}")
        return
    except Exception as error:
        raise CheckFailed(f"{what} raises {type(error).__name__}, no TacitError: {error}") from error
    raise CheckFailed(f"{what} raises nothing")


def _hold(condition: bool, otherwise: str) -> None:
    if not condition:
        raise CheckFailed(otherwise)
