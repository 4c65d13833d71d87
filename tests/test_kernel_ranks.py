"""The paper's own reader of log-rank, a kernel density per person; the rank of a number; what both are sensitive to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as sps

from papers.common.kernel_ranks import kernel_log_rank, kernel_posterior, number_log_rank, silverman
from tacit.auditing.measures import log_rank
from tacit.errors import InputError


def people(n=200, m=5, d=3, apart=2.0, seed=0):
    """Features around a place for each person, as many known as to be told."""
    rng = np.random.default_rng(seed)
    places = apart * np.random.default_rng(9).standard_normal((m, d))
    who = np.arange(2 * n) % m
    features = places[who] + rng.standard_normal((2 * n, d))
    return features[:n], who[:n], features[n:], who[n:]


def test_a_case_by_hand():
    # two people with one known release each, at 0 and 2; columns have deviation 1, so nothing is scaled
    known, who = np.array([[0.0], [2.0]]), np.array([0, 1])
    p = kernel_posterior(known, who, np.array([[0.5]]), 2)
    width = (4 / 3 / 1) ** (1 / 5)
    near, far = (np.exp(-(d**2) / 2 / width**2) for d in (0.5, 1.5))
    assert p[0, 0] == pytest.approx(near / (near + far))
    found = kernel_log_rank(known, who, np.array([[0.5], [0.5], [1.0]]), np.array([0, 1, 0]), 2)
    assert found.ranks.tolist() == [0.5, 1.0, 0.75]  # first, second, and a tie
    assert found.log_rank.value == pytest.approx((0 + 1 + np.log(1.5) / np.log(2)) / 3)  # eq. 9


def test_people_of_whom_more_is_known_have_narrower_kernels_and_no_more_weight():
    known, who = np.array([[-1.0], [1.0], [1.0], [1.0]]) * 2 / np.sqrt(3), np.array([0, 1, 1, 1])  # deviation 1
    p = kernel_posterior(known, who, np.array([[0.2]]), 2)
    density = [sps.norm.pdf(0.2, known[i, 0], silverman(n, 1)) for i, n in ((0, 1), (1, 3))]
    assert p[0] == pytest.approx(np.array(density) / sum(density))


def test_kernels_of_a_persons_own_covariance_are_scipys():
    known, who, released, _ = people()
    ours = kernel_posterior(known, who, released, 5, shape="own")
    theirs = np.stack([sps.gaussian_kde(known[who == c].T)(released.T) for c in range(5)], axis=1)
    assert np.allclose(ours, theirs / theirs.sum(axis=1, keepdims=True), atol=1e-6)


def test_it_ranks_people_who_are_apart_first_and_those_who_are_alike_at_random():
    for shape in ("common", "own"):
        known, who, released, truth = people(apart=6.0)
        assert kernel_log_rank(known, who, released, truth, 5, shape).log_rank.value < 0.02
        known, who, released, truth = people(n=1000, apart=0.0)
        blind = kernel_log_rank(known, who, released, truth, 5, shape).log_rank
        assert blind.low < blind.guessing < blind.high


def test_an_attacker_who_learns_reads_more_than_kernels_that_few_records_make():
    """Why the paper's level is no comparison: the same features, 20 numbers of which one tells, 12 records a person."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    who = np.arange(480) % 4
    features = rng.standard_normal((480, 20))
    features[:, 0] += 3 * who
    known, told = slice(0, 48), slice(48, None)
    by_kernels = kernel_log_rank(features[known], who[known], features[told], who[told], 4).log_rank
    p = LogisticRegression(max_iter=500).fit(features[known], who[known]).predict_proba(features[told])
    assert log_rank(who[told], p).log_rank.high < by_kernels.low


def test_a_release_that_does_not_vary_and_a_person_nobody_knows():
    known, who = np.c_[np.zeros(6), np.arange(6.0)], np.array([0, 0, 0, 1, 1, 1])
    p = kernel_posterior(known, who, known[:1], 3)
    assert p[0, 2] == 0
    assert p[0, 0] > 0.5
    with pytest.raises(InputError, match=r"a person has 3 known releases of 2 numbers, .* own needs 4; .*'common'"):
        kernel_posterior(known, who, known, 2, shape="own")
    with pytest.raises(InputError, match="one of common, own"):
        kernel_posterior(known, who, known, 2, shape="wide")


def test_far_away_ranks_do_not_tie_for_want_of_digits():
    known, who = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 1, 1])
    assert kernel_log_rank(known, who, np.array([[1e3]]), np.array([1]), 2).ranks[0] == 0.5


# -- sensitivity (the paper's section 5 leaves it to later) -----------------------------------------------


def test_log_rank_hardly_feels_probabilities_that_are_wrong_in_size_where_entropy_does():
    """The paper's claim: only the order counts. An over-sure attacker (p⁴) and a timid one (its fourth root)."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(6), 2000)
    truth = np.array([rng.choice(6, p=row) for row in p])
    right = -np.log(p[np.arange(2000), truth]).mean()
    for power in (4.0, 0.25):
        q = p**power / (p**power).sum(axis=1, keepdims=True)
        assert log_rank(truth, q).log_rank.value == pytest.approx(log_rank(truth, p).log_rank.value, abs=1e-9)
        assert abs(-np.log(q[np.arange(2000), truth]).mean() - right) > 0.1


def test_how_much_log_rank_moves_with_noise_in_the_density():
    """A relative error e in every probability moves it by no more than e, and by more as e grows; the interval is of
    the test rows alone and does not know."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(20), 4000)
    truth = np.array([rng.choice(20, p=row) for row in p])
    exact = log_rank(truth, p).log_rank.value
    moved = []
    for e in (0.05, 0.2, 1.0):
        moved.append(log_rank(truth, p * np.exp(e * rng.standard_normal(p.shape))).log_rank.value - exact)
        assert 0 <= moved[-1] < e
    assert moved == sorted(moved)
    assert moved[-1] > 0.05  # the control: a bad density does look private


def test_its_variance_is_less_than_that_of_the_entropy():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.full(10, 0.3), 5000)
    truth = np.array([rng.choice(10, p=row) for row in p])
    surprise = -np.log(np.maximum(p[np.arange(5000), truth], 1e-12)) / np.log(10)
    ranks = np.log(log_rank(truth, p).ranks * 10) / np.log(10)
    assert ranks.std() / np.sqrt(5000) < surprise.std() / np.sqrt(5000)


# -- a list ordered by a learned ranking: log-rank as its loss (the paper's conclusion) -----------------------


def test_log_rank_orders_rankers_as_the_discounted_gain_does():
    """Learning to rank: of one right answer a query, DCG is the mean of 1/log2(1 + rank), log-rank of log(rank).

    Both fall and rise with the rank alone, so that a ranker that is better at every query is better by both.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(8, size=400)
    better, worse = (np.eye(8)[truth] * strength + rng.standard_normal((400, 8)) for strength in (3.0, 1.0))
    found = []
    for scores in (better, worse):
        ranks = log_rank(truth, np.exp(scores)).ranks * 8
        found.append(((1 / np.log2(1 + ranks)).mean(), log_rank(truth, np.exp(scores)).log_rank.value))
    assert found[0][0] > found[1][0] + 0.1
    assert found[0][1] < found[1][1] - 0.1


# -- a secret that is a number ------------------------------------------------------------------------------


def test_the_rank_of_a_number_rises_with_the_noise_and_ends_at_guessing():
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, 4000)
    values = []
    for noise in (0.0, 5.0, 20.0):
        seen = age[:, None] + noise * rng.standard_normal((4000, 1))
        values.append(number_log_rank(seen[:2000], age[:2000], seen[2000:], age[2000:], n_bins=10).log_rank.value)
    assert values == sorted(values)
    assert values[0] < 0.2
    nothing = rng.standard_normal((4000, 2))
    blind = number_log_rank(nothing[:2000], age[:2000], nothing[2000:], age[2000:], n_bins=10).log_rank
    assert blind.low < blind.guessing < blind.high  # 95 %: the seed is fixed
    assert values[2] < blind.low


def test_equal_numbers_make_fewer_bins_and_none_is_an_error():
    x = np.arange(40.0)[:, None]
    counts = np.repeat([0.0, 0.0, 1.0, 2.0], 10)
    assert number_log_rank(x, counts, x, counts, n_bins=8).n_classes == 3
    with pytest.raises(InputError, match="all alike"):
        number_log_rank(x, np.ones(40), x, np.ones(40))


def test_silvermans_rule():
    assert silverman(17, 10) == pytest.approx((4 / 12 / 17) ** (1 / 14))
