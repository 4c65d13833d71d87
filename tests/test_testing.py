"""`tacit.testing.check_filter`: filters that keep the contract pass, and each kind of broken one is told why."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tacit
from tacit.baselines import LinearARL
from tacit.testing import CheckFailed, check_filter

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")


def test_a_filter_that_keeps_its_contract():
    passed = check_filter(LinearARL)
    assert len([p for p in passed if not p.startswith("scikit-learn")]) == 14
    assert len(passed) > 40  # scikit-learn's own with them


class Forgets(LinearARL):
    """Changes what it is given."""

    def __init__(self, n_components=None, lam=0.5, *, random_state=None, dp=None):
        super().__init__(n_components, round(lam + 0.1, 3), random_state=random_state, dp=dp)


class Wanders(LinearARL):
    """Draws without its seed."""

    draws = itertools.count(1)

    def _learn(self, problem):
        problem.X[...] *= next(self.draws)
        return super()._learn(problem)


class Reads(LinearARL):
    """Releases by a parameter that may be set after the fit."""

    def transform(self, X):
        return super().transform(X) * self.lam


class Counts(LinearARL):
    """A release depends on the records beside it."""

    def transform(self, X):
        Z = super().transform(X)
        return Z - np.mean(Z)


@pytest.mark.parametrize(
    "broken, rule",
    [
        (Forgets, "breaks 1 rules.*modifies parameter lam"),
        (Wanders, "same_seed_same_bits"),
        (Reads, "setting lam after fit changes the release"),
        (Counts, "depends on the other records"),
    ],
)
def test_a_broken_one_is_told_which_rule(broken, rule):
    with pytest.raises(CheckFailed, match=f"(?s){rule}"):
        check_filter(broken, sklearn=False)


def test_what_is_no_filter_is_told_so():
    from sklearn.decomposition import PCA

    with pytest.raises(CheckFailed, match="fit_leaves_a_mechanism"):
        check_filter(PCA(1), sklearn=False)
    assert tacit.testing.check_filter is check_filter
