"""The audit's statistics, against slow and obviously right ones, and by simulation.

Every simulation has a fixed seed; its stated false-alarm rate is what a fresh seed would have.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps
from sklearn import metrics

from tacit.audit.stats import accuracy, balanced_accuracy, binomial_interval, macro_auc


@given(st.integers(0, 400), st.integers(2, 5))
@settings(max_examples=50, deadline=None)
def test_measures_agree_with_scikit_learn(seed, m):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(m), rng.integers(m, size=60)])
    p = rng.dirichlet(np.ones(m), size=len(y)).round(1) + 1e-3  # with ties
    p /= p.sum(1, keepdims=True)
    guess = p.argmax(1)
    assert accuracy(y, guess).value == pytest.approx(metrics.accuracy_score(y, guess))
    assert balanced_accuracy(y, guess, m).value == pytest.approx(metrics.balanced_accuracy_score(y, guess))
    slow = np.mean([metrics.roc_auc_score(y == c, p[:, c]) for c in range(m)])
    assert macro_auc(y, p).value == pytest.approx(slow)
    for measure in (accuracy(y, guess), balanced_accuracy(y, guess, m), macro_auc(y, p)):
        assert 0 <= measure.low <= measure.value <= measure.high <= 1


@pytest.mark.parametrize("rare", [0.5, 0.05])
def test_balanced_accuracy_interval_covers(rare):
    """Nominal 95 %; fewer than 92.5 % of 1,000 runs would be a 1-in-1,000 event. Also at 95:5."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(1000):
        y = (rng.random(600) < rare).astype(int)
        guess = np.where(rng.random(600) < 0.7, y, 1 - y)  # truth .7 in both classes
        m = balanced_accuracy(y, guess, 2)
        covered += m.low <= 0.7 <= m.high
    assert covered >= 925


def test_units_widen_the_interval():
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(40), 25)
    y = np.repeat(rng.integers(2, size=40), 25)
    guess = np.where(np.repeat(rng.random(40) < 0.7, 25), y, 1 - y)  # a person is right always or never
    alone, together = balanced_accuracy(y, guess, 2), balanced_accuracy(y, guess, 2, units=person)
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_cluster_interval_covers():
    """40 people of 10 records each, records of a person alike; nominal 95 %, at least 91 % of 500 runs."""
    rng = np.random.default_rng(1)
    covered = naive = 0
    for _ in range(500):
        person = np.repeat(np.arange(40), 10)
        skill = np.repeat(rng.choice([0.4, 0.9], 40), 10)
        right = rng.random(400) < skill
        y = np.repeat(np.arange(40) % 2, 10)
        guess = np.where(right, y, 1 - y)
        m, n = accuracy(y, guess, person), accuracy(y, guess)
        covered += m.low <= 0.65 <= m.high
        naive += n.low <= 0.65 <= n.high
    assert covered >= 455
    assert naive < 400  # the control: records counted as if they were people


def test_a_perfect_attack_has_a_high_lower_end():
    for n in (20, 100, 1000):
        y = np.arange(n) % 2
        assert balanced_accuracy(y, y, 2).low > 1 - 5 / n
        assert accuracy(y, y).low > 1 - 4 / n
        assert macro_auc(y, np.eye(2)[y]).low > 1 - 12 / n
    person = np.repeat(np.arange(30), 50)
    y = person % 2
    assert balanced_accuracy(y, y, 2, units=person).low == pytest.approx(0.88, abs=0.03)  # thirty people, not 1,500


def test_auc_of_a_rare_class_covers():
    """Eight positives among 600, truth .856; nominal 95 %, at least 91 % of 300 runs."""
    rng = np.random.default_rng(6)
    y = (np.arange(600) < 8).astype(int)
    covered = 0
    for _ in range(300):
        score = rng.standard_normal(600) + 1.5 * y
        m = macro_auc(y, np.column_stack([-score, score]))
        covered += m.low <= sps.norm.cdf(1.5 / np.sqrt(2)) <= m.high
    assert covered >= 273


def test_few_units_still_cover():
    """Eight people of 50 records; nominal 95 %, at least 90 % of 400 runs."""
    rng = np.random.default_rng(7)
    person = np.repeat(np.arange(8), 50)
    covered = 0
    for _ in range(400):
        skill = np.repeat(rng.beta(7, 3, 8), 50)
        y = rng.integers(2, size=400)
        guess = np.where(rng.random(400) < skill, y, 1 - y)
        m = balanced_accuracy(y, guess, 2, units=person)
        covered += m.low <= 0.7 <= m.high
    assert covered >= 360


def test_binomial_interval_is_exact():
    assert binomial_interval(0.0, 20)[1] == pytest.approx(0.1684, abs=1e-4)
    assert binomial_interval(7 / 20, 20) == pytest.approx((0.1539, 0.5922), abs=1e-4)
