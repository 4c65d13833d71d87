"""U1 and U2 of DPFE bound what a release tells, where that is known; the same with a wrong sign would not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy import stats as sps
from scipy.spatial.distance import cdist

from papers.common.information_bounds import distance_bound, pairwise_divergence_bound, same_person_bound
from tacit.auditing.measures import bits_leaked
from tacit.errors import InputError


def told(places, shares, variance=1.0):
    """I(f; y) in nats of normal classes with these places and one variance: by quadrature."""

    def integrand(f):
        density = shares * sps.norm.pdf(f, places, np.sqrt(variance))
        mixture = density.sum()
        return float((density * (np.log(np.maximum(density / shares, 1e-300)) - np.log(max(mixture, 1e-300)))).sum())

    ends = places.min() - 10 * np.sqrt(variance), places.max() + 10 * np.sqrt(variance)
    return integrate.quad(integrand, *ends, limit=400, points=sorted(set(places)))[0]


def noisy_information(features, who, sigma, draws=40_000, seed=0):
    """I(f; y) of one of these features at random with noise of covariance sigma I: by Monte Carlo, and its error."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(who), size=draws)
    seen = features[rows] + np.sqrt(sigma) * rng.standard_normal((draws, features.shape[1]))
    log_kernel = -cdist(seen, features, "sqeuclidean") / 2 / sigma
    kernel = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
    classes, codes = np.unique(who, return_inverse=True)
    per = kernel @ (codes[:, None] == np.arange(len(classes)))
    share = np.bincount(codes) / len(codes)
    own = per[np.arange(draws), codes[rows]] / share[codes[rows]]
    terms = np.log(own / per.sum(axis=1))
    return terms.mean(), terms.std() / np.sqrt(draws)


def normal_divergences(places, variance=1.0):
    return (places[:, None] - places) ** 2 / 2 / variance  # lemma 5


@pytest.mark.parametrize("apart", [0.1, 0.5, 1.0, 3.0])
def test_u1_bounds_what_is_told_of_normal_classes(apart):
    shares, places = np.array([0.5, 0.3, 0.2]), apart * np.array([0.0, 1.0, -2.0])
    truth = told(places, shares)
    bound = pairwise_divergence_bound(shares, normal_divergences(places))
    assert truth <= bound
    # the control: half of it, or the sum over one order of each pair, which a slip would give, does not bound small
    # distances, where U1 is nearly twice what is told
    if apart <= 0.5:
        assert bound < 2.5 * truth
        assert 0.4 * bound < truth


def test_u1_by_hand_and_with_a_class_that_is_never_drawn():
    assert pairwise_divergence_bound([0.25, 0.75], [[0, 2.0], [4.0, 0]]) == pytest.approx(0.25 * 0.75 * 6)
    assert pairwise_divergence_bound([1.0, 0.0], [[0, np.inf], [1.0, 0]]) == 0
    with pytest.raises(InputError, match="2 shares"):
        pairwise_divergence_bound([0.5, 0.5], np.eye(3))


def people(seed=0, n=60, m=4, d=3, apart=1.0):
    rng = np.random.default_rng(seed)
    who = np.arange(n) % m
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((m, d))[who], who


@pytest.mark.parametrize("sigma", [0.5, 2.0, 8.0])
def test_u2_bounds_u1_and_what_the_noisy_features_tell(sigma):
    for seed in range(3):
        features, who = people(seed)
        truth, error = noisy_information(features, who, sigma)
        u2 = distance_bound(features, who, sigma)
        assert truth + 4 * error < u2  # false alarms under 1e-4
        # U1 of the kernels' mixtures, by lemma 6 at most the mean over pairs of kernels
        assert u2 == pytest.approx(slow_u2(features, who, sigma))


def slow_u2(features, who, sigma):
    total = 0.0
    for i in range(len(who)):
        for j in range(i):
            if who[i] != who[j]:
                total += ((features[i] - features[j]) ** 2).sum()
    return total / sigma / len(who) ** 2


def test_pairs_of_the_same_person_in_place_of_the_others_bound_nothing():
    """The control: people on points far apart tell log m, and the distances within people are zero."""
    who = np.arange(40) % 4
    features = 10.0 * np.eye(4)[who]
    truth, _ = noisy_information(features, who, 1.0)
    assert truth == pytest.approx(np.log(4), abs=1e-3)
    assert truth < distance_bound(features, who, 1.0)
    swapped = sum(((features[i] - features[j]) ** 2).sum() for i in range(40) for j in range(i) if who[i] == who[j])
    assert swapped / 40**2 < truth


def test_a_tight_case_where_a_slip_of_a_factor_two_would_show():
    """Two people on two points: for small distances U2 is nearly twice what is told; half of it is too little."""
    features, who = np.array([[0.0], [1.0]]), np.array([0, 1])
    truth = told(np.array([0.0, 1.0]), np.array([0.5, 0.5]), variance=25.0)
    u2 = distance_bound(features, who, 25.0)
    assert truth <= u2 < 2.1 * truth


def test_eq6_is_eq5_for_normalized_features_only():
    features, who = people()
    normal = (features - features.mean(axis=0)) / features.std(axis=0)
    assert same_person_bound(normal, who, 0.7) == pytest.approx(distance_bound(normal, who, 0.7))
    assert same_person_bound(2 * features, who, 0.7) != pytest.approx(distance_bound(2 * features, who, 0.7), rel=0.01)
    with pytest.raises(InputError, match="no person has two records"):
        same_person_bound(normal[:4], np.arange(4), 1.0)


@pytest.mark.parametrize("apart", [0.0, 1.0, 100.0])
def test_between_which_two_values_u2_lies_whatever_the_features(apart):
    features, who = people(n=400, m=20, d=10, apart=apart)
    normal = (features - features.mean(axis=0)) / features.std(axis=0)
    assert distance_bound(normal, who, 1.0) * (1 + 1e-9) >= (1 - 1 / 20) * 10
    assert distance_bound(normal, who, 1.0) <= 10 * (1 + 1e-9)


def test_of_unequal_people_the_largest_share_decides_how_low_u2_can_be():
    """All the spread within the person with most records: the end is reached, and 1 - sum of p² would be wrong."""
    who = np.repeat([0, 1], [900, 100])
    features = np.random.default_rng(0).normal(size=(1000, 3)) * (who == 0)[:, None]
    features[who == 1] = features[who == 0].mean(axis=0)
    normal = (features - features.mean(axis=0)) / features.std(axis=0)
    assert distance_bound(normal, who, 1.0) == pytest.approx((1 - 0.9) * 3)
    assert distance_bound(normal, who, 1.0) < (1 - 0.9**2 - 0.1**2) * 3


def test_the_lower_bound_lies_under_the_upper():
    """Lemma 1 and theorem 2 (`bits_leaked`) against theorem 7, on the same noisy features."""
    features, who = people(n=200, apart=2.0)
    sigma, rng = 4.0, np.random.default_rng(1)
    rows = rng.integers(200, size=4000)
    seen = features[rows] + np.sqrt(sigma) * rng.standard_normal((4000, 3))
    kernel = np.exp(-cdist(seen, features, "sqeuclidean") / 2 / sigma) @ (who[:, None] == np.arange(4))
    p = kernel / kernel.sum(axis=1, keepdims=True)
    assert bits_leaked(who[rows], p).low > 0.05
    assert bits_leaked(who[rows], p).high < distance_bound(features, who, sigma) / np.log(2)


def test_the_noise_must_be_a_positive_number():
    with pytest.raises(InputError, match="sigma"):
        distance_bound(np.zeros((2, 1)), np.arange(2), 0.0)
