"""Accuracy, odds, bits: no conversion ever says less than the truth, and none says more than it must."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.report.leakage_units import accuracy_from_bits, accuracy_from_odds, bayes_security, bits_from


def truth(law):
    """(best balanced accuracy, worst odds, bits) of a (classes, releases) channel, classes being equally likely."""
    m, law = len(law), law[:, law.max(axis=0) > 0]
    odds = float(np.max(law.max(axis=0) / law.min(axis=0))) if (law > 0).all() else math.inf
    told = np.where(law > 0, law * np.log2(np.where(law > 0, law, 1) / law.mean(axis=0)), 0)
    return min(1.0, float(law.max(axis=0).sum() / m)), odds, max(0.0, float(told.sum() / m))


@given(m=st.integers(2, 6), k=st.integers(1, 8), sharp=st.floats(0.1, 20), seed=st.integers(0, 10**6))
def test_the_truth_of_a_random_channel_is_never_above_the_bound(m, k, sharp, seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(k, sharp), size=m)
    if seed % 3 == 0:  # releases at the two ends of the odds: where the bounds are reached
        law = np.where(rng.random((m, k)) < rng.random(k), sharp + 1, 1.0) * rng.random(k)
        law /= law.sum(axis=1, keepdims=True)
    accuracy, odds, bits = truth(law)
    odds = min(max(odds, 1.0), 1e300) * (1 + 1e-12)
    assert accuracy <= accuracy_from_odds(odds, m) + 1e-9
    assert accuracy <= accuracy_from_bits(bits, m) + 1e-9
    assert bits <= bits_from(accuracy, odds, m) + 1e-9
    assert bits <= bits_from(accuracy, math.inf, m) + 1e-9 <= math.log2(m) + 1e-6
    assert bits <= bits_from(1.0, odds, m) + 1e-9


@pytest.mark.parametrize("m", [2, 3, 7])
@pytest.mark.parametrize("odds", [1.0, 1.3, 4.0, 1e6])
def test_randomized_response_reaches_the_bounds(m, odds):
    law = (np.ones((m, m)) + (odds - 1) * np.eye(m)) / (odds + m - 1)
    accuracy, found, bits = truth(law)
    assert accuracy == pytest.approx(accuracy_from_odds(odds, m))
    assert found == pytest.approx(odds)
    assert accuracy_from_bits(bits, m) == pytest.approx(accuracy, abs=1e-6)
    if m == 2:
        assert bits_from(accuracy, odds, m) == pytest.approx(bits, abs=1e-9)
        silent = (law + 9 / m) / 10  # most of the time nothing is told: what the average hides, the odds do not
        accuracy, _, bits = truth(silent)
        assert bits - 1e-12 <= bits_from(accuracy, odds, m) <= bits_from(accuracy, math.inf, m) + 1e-12


def test_half_of_many_classes_can_tell_more_than_one_class_does():
    # odds of 2 among 8 classes: releases that single out one class tell fewer bits than releases that split them
    one = np.ones((8, 8)) + np.eye(8)
    four = np.ones((8, 70))
    for z, high in enumerate(combinations(range(8), 4)):
        four[list(high), z] = 2
    tells = [truth(law / law.sum(axis=1, keepdims=True)) for law in (one, four)]
    assert tells[0][0] > tells[1][0]
    assert tells[0][2] < tells[1][2]
    assert bits_from(tells[1][0], 2, 8) == pytest.approx(tells[1][2])
    assert bits_from(tells[0][0], 2, 8) >= tells[1][2]


def test_more_odds_and_accuracy_never_mean_less():
    for m in (2, 5):
        grid = [[bits_from(b, r, m) for b in np.linspace(0, 1, 41)] for r in (1, 1.1, 2, 5, 50, math.inf)]
        assert (np.diff(grid, axis=0) >= -1e-12).all()
        assert (np.diff(grid, axis=1) >= -1e-12).all()
        assert grid[0][-1] == 0
        assert grid[-1][-1] == pytest.approx(math.log2(m))
    assert bayes_security(0.5, 0.5) == 1
    assert bayes_security(1.0, 0.5) == 0


@pytest.mark.parametrize("odds", [0.5, math.nan, -1])
def test_odds_below_one_are_refused(odds):
    with pytest.raises(InputError, match="at least 1"):
        accuracy_from_odds(odds, 2)
