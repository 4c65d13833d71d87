"""The audit's further measures, against slow and obviously right code, and by simulation.

Every simulation has a fixed seed; its stated false-alarm rate is what a fresh seed would have.
"""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps
from sklearn import metrics
from sklearn.neighbors import KNeighborsClassifier

from tacit.auditing import dtw, likeness, measures
from tacit.auditing.dtw import dtw_distances, dtw_rank
from tacit.auditing.likeness import mean_ssim, nearest_neighbour, reconstruction, similarity, ssim
from tacit.auditing.measures import advantage, bits_leaked, calibrate, log_rank, macro_f1, rank_statement, top_k
from tacit.auditing.stats import Measure
from tacit.errors import InputError

seeds = st.integers(0, 10_000)


@pytest.mark.parametrize("module", [measures, dtw, likeness])
def test_examples_run(module):
    ran = doctest.testmod(module)
    assert ran.attempted > 0
    assert ran.failed == 0


def attack(rng, n, m, digits=1):
    """Random truth and probabilities, rounded so that there are ties."""
    p = rng.dirichlet(np.ones(m), size=n).round(digits) + 1e-3
    return rng.integers(m, size=n), p / p.sum(axis=1, keepdims=True)


def ordered(m):
    return m.low <= m.value <= m.high


# -- F1, top-k, advantage -----------------------------------------------------------------------


@given(seeds, st.integers(2, 5), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_macro_f1_agrees_with_scikit_learn(seed, m, n):
    rng = np.random.default_rng(seed)
    y, guess = rng.integers(m, size=n), rng.integers(m, size=n)
    f1 = macro_f1(y, guess, m)
    assert f1.value == pytest.approx(metrics.f1_score(y, guess, average="macro"))
    assert f1.guessing == 1 / len(set(y) | set(guess))
    assert f1.low >= 0
    assert ordered(f1)
    assert f1.high <= 1
    assert ordered(macro_f1(y, guess, m, units=rng.integers(3, size=n)))


def confusion_f1(prior, confusion):
    hits = prior * np.diag(confusion)
    return float(np.mean(2 * hits / (prior + prior @ confusion)))


@pytest.mark.parametrize(
    ("prior", "skill"), [([0.34, 0.33, 0.33], 0.6), ([0.85, 0.1, 0.05], 0.6), ([0.5, 0.3, 0.2], 0.97)]
)
def test_macro_f1_interval_covers(prior, skill):
    """Nominal 95 %; fewer than 92 % of 600 runs would be a 1-in-1,000 event."""
    rng = np.random.default_rng(0)
    prior = np.array(prior)
    confusion = np.full((3, 3), (1 - skill) / 2) + np.eye(3) * (skill - (1 - skill) / 2)
    truth = confusion_f1(prior, confusion)
    covered = 0
    for _ in range(600):
        y = rng.choice(3, 500, p=prior)
        guess = (rng.random(500)[:, None] > confusion[y].cumsum(axis=1)).sum(axis=1)
        f1 = macro_f1(y, guess, 3)
        covered += f1.low <= truth <= f1.high
    assert covered >= 552


def test_macro_f1_interval_covers_by_unit():
    """40 people of 10 records; nominal 95 %, fewer than 91 % of 400 runs is rarer than 1 in 1,000."""
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(40), 10)
    covered = naive = 0
    for _ in range(400):
        y = rng.integers(2, size=400)
        guess = np.where(rng.random(400) < np.repeat(rng.choice([0.4, 0.9], 40), 10), y, 1 - y)
        for f1, by_unit in ((macro_f1(y, guess, 2, person), True), (macro_f1(y, guess, 2), False)):
            inside = f1.low <= 0.65 <= f1.high
            covered, naive = covered + (inside and by_unit), naive + (inside and not by_unit)
    assert covered >= 364
    assert naive < 320  # the control: records counted as if they were people


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), seeds)
@settings(max_examples=50, deadline=None)
def test_no_blind_guess_beats_the_baseline_of_macro_f1(weights, seed):
    prior = np.array(weights) / sum(weights)
    q = np.random.default_rng(seed).dirichlet(np.ones(len(prior)))
    blind = confusion_f1(prior, np.tile(q, (len(prior), 1)))
    assert blind <= 1 / len(prior) + 1e-12
    assert confusion_f1(prior, np.tile(prior, (len(prior), 1))) == pytest.approx(1 / len(prior))


@given(seeds, st.integers(2, 5), st.data())
@settings(max_examples=40, deadline=None)
def test_top_k_is_the_mean_over_all_ways_to_break_ties(seed, m, data):
    k = data.draw(st.integers(1, m))
    y, p = attack(np.random.default_rng(seed), 8, m)
    ways = []
    for order in itertools.permutations(range(m)):  # sorted is stable: the order of classes decides between equals
        ways += [c in sorted(order, key=lambda c, i=i: -p[i, c])[:k] for i, c in enumerate(y)]
    assert top_k(y, p, k).value == pytest.approx(np.mean(ways))
    assert top_k(y, np.full_like(p, 1 / m), k).value == pytest.approx(k / m)
    assert top_k(y, p, m).value == 1


def test_top_k_without_ties_and_its_interval():
    rng = np.random.default_rng(3)
    y, p = attack(rng, 300, 6, digits=12)
    for k in (1, 2, 4):
        measure = top_k(y, p, k)
        assert measure.value == pytest.approx(metrics.top_k_accuracy_score(y, p, k=k, labels=np.arange(6)))
        exact = sps.binomtest(round(measure.value * 300), 300).proportion_ci()
        assert (measure.low, measure.high) == pytest.approx((exact.low, exact.high))
        assert measure.guessing == pytest.approx(np.sort(np.bincount(y))[-k:].sum() / 300)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 1))
def test_advantage_keeps_order_and_range(ends, guessing):
    low, value, high = sorted(ends)
    gain = advantage(Measure(value, low, high, guessing))
    assert 0 <= gain.low <= gain.value <= gain.high <= 1
    assert gain.guessing == 0
    assert (gain.value > 0) == (value - guessing > 1e-14) or value - guessing < 1e-14


# -- bits ---------------------------------------------------------------------------------------


def channel(rng, n, right=0.8, prior=0.5):
    """A secret through a binary symmetric channel: truth and the right posterior."""
    y = (rng.random(n) < prior).astype(int)
    z = np.where(rng.random(n) < right, y, 1 - y)
    law = np.array([1 - prior, prior])[:, None] * np.array([[right, 1 - right], [1 - right, right]])
    information = float((law * np.log2(law / law.sum(axis=0) / law.sum(axis=1, keepdims=True))).sum())
    return y, (law / law.sum(axis=0)).T[z], information


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("prior", [0.5, 0.05])
def test_bits_cover_the_information_of_a_channel(known, prior):
    """The right posterior: nominal 95 %; fewer than 92 % of 600 runs would be a 1-in-1,000 event."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(600):
        y, p, information = channel(rng, 600, prior=prior)
        bits = bits_leaked(y, p, np.array([1 - prior, prior]) if known else None)
        covered += bits.low <= information <= bits.high
    assert covered >= 552


def test_bits_are_a_lower_bound_for_any_attacker():
    """Wrong probabilities only lose; the lower end exceeds the truth in at most 2.5 %: over 20 of 400 is 1 in 500."""
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(400):
        y, p, information = channel(rng, 300, right=0.7)
        wrong = p ** rng.uniform(0.2, 2)
        above += bits_leaked(y, wrong / wrong.sum(axis=1, keepdims=True)).low > information
    assert above <= 20


def test_bits_of_nothing():
    """An attacker with no information, calibrated on other records: 0 is inside the interval, 200 runs of 200 at
    least 188 (nominal 97.5 % one-sided; fewer is rarer than 1 in 500 at that rate, and calibration only helps)."""
    rng = np.random.default_rng(2)
    zero = 0
    for _ in range(200):
        y, p = attack(rng, 400, 3)
        zero += bits_leaked(y[200:], calibrate(p[:200], y[:200])(p[200:])).low == 0
    assert zero >= 188


def test_bits_by_unit_cover_and_records_do_not():
    """50 people of 12 records, alike within a person; nominal 95 %, at least 91 % of 300 runs (1 in 500)."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(50), 12)
    covered = naive = 0
    for _ in range(300):
        y, p, information = channel(rng, 50)
        y, p = np.repeat(y, 12), np.repeat(p, 12, axis=0)
        bits, plain = bits_leaked(y, p, units=person), bits_leaked(y, p)
        covered += bits.low <= information <= bits.high
        naive += plain.low <= information <= plain.high
    assert covered >= 273
    assert naive < 200


def test_a_perfect_attack_on_few_people_is_not_a_point():
    y = np.arange(30) % 2
    bits = bits_leaked(y, np.eye(2)[y], np.array([0.5, 0.5]))
    assert bits.value == pytest.approx(1, abs=0.06)
    assert 0.05 < bits.low < 0.6  # zero errors among 30 leave room for an error rate of .12
    assert bits.value <= bits.high <= 1
    nearly = np.where(np.eye(2)[y] == 1, 1, np.random.default_rng(0).uniform(1e-4, 1e-2, (30, 1)))
    assert bits_leaked(y, nearly).low < 0.6  # nor if its certainty varies a little
    many = np.arange(20_000) % 2
    assert bits_leaked(many, np.eye(2)[many]).low > 0.99


def test_calibration_rescues_the_bound():
    rng = np.random.default_rng(4)
    y, p, information = channel(rng, 4000, right=0.7)
    sure = p**20 / (p**20).sum(axis=1, keepdims=True)
    assert bits_leaked(y[2000:], sure[2000:]).value == 0  # the control: over-confidence destroys it
    mended = calibrate(sure[:2000], y[:2000])(sure[2000:])
    np.testing.assert_allclose(mended, p[2000:], atol=0.05)
    measured = bits_leaked(y[2000:], mended)
    assert measured.low <= information <= measured.high
    assert measured.value > information / 2


def test_calibration_gives_a_balanced_attacker_the_prior():
    rng = np.random.default_rng(5)
    y, p, information = channel(rng, 8000, right=0.8, prior=0.05)
    balanced = p / np.array([0.95, 0.05])
    balanced /= balanced.sum(axis=1, keepdims=True)
    assert bits_leaked(y[4000:], balanced[4000:]).value == 0
    assert bits_leaked(y[4000:], calibrate(balanced[:4000], y[:4000])(balanced[4000:])).value > information / 2


@given(seeds, st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_calibration_never_loses_on_its_own_records(seed, m):
    rng = np.random.default_rng(seed)
    y, p = attack(rng, 80, m)
    y[:m] = np.arange(m)
    q = calibrate(p, y)(p)
    np.testing.assert_allclose(q.sum(axis=1), 1)
    prior = np.bincount(y, minlength=m) / 80
    blind = -np.mean(np.log(prior[y]))
    assert metrics.log_loss(y, q) <= min(metrics.log_loss(y, p), blind) + 1e-3


# -- ranks --------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_log_rank_against_a_slow_one(seed, m):
    y, p = attack(np.random.default_rng(seed), 30, m)
    ranks = np.array([sps.rankdata(-row)[c] for row, c in zip(p, y, strict=True)])
    found = log_rank(y, p)
    np.testing.assert_allclose(found.ranks, ranks / m)
    assert found.log_rank.value == pytest.approx(np.mean(np.log(ranks)) / np.log(m))
    assert found.log_rank.guessing == pytest.approx(np.mean(np.log(np.arange(1, m + 1))) / np.log(m))
    assert found.rank_mean.value == pytest.approx(np.mean(ranks) / m)
    assert found.rank_sd.value == pytest.approx(np.std(ranks) / m)
    assert found.rank_sd.low <= found.rank_sd.value <= found.rank_sd.high
    assert ordered(found.log_rank)
    assert ordered(found.rank_mean)


def test_log_rank_of_everything_and_of_nothing():
    """Random ranks: the interval covers guessing in at least 92 % of 500 runs (nominal 95 %; 1 in 500)."""
    y = np.arange(100) % 10
    assert log_rank(y, np.eye(10)[y]).log_rank.value == 0
    rng = np.random.default_rng(0)
    covered = np.zeros(2)
    for _ in range(500):
        found = log_rank(y, rng.random((100, 10)))
        covered += [m.low <= m.guessing <= m.high for m in (found.log_rank, found.rank_mean)]
    assert (covered >= 460).all()
    uniform = log_rank(np.arange(1000) % 1000, rng.random((1000, 1000)))
    assert uniform.rank_mean.guessing == pytest.approx(0.5, abs=0.001)  # the paper's .5 and .28
    assert uniform.rank_sd.value == pytest.approx(0.2887, abs=0.02)
    assert uniform.rank_sd.low < uniform.rank_sd.guessing < uniform.rank_sd.high


@pytest.mark.parametrize("n_classes", [10, 10_000])
def test_rank_statement_covers_where_the_papers_normal_law_fails(n_classes):
    """Skewed ranks, discrete or nearly not; nominal 95 %, fewer than 92 % of 500 runs is rarer than 1 in 500."""
    rng = np.random.default_rng(0)
    truth = np.ceil(sps.beta.ppf(0.1, 0.5, 1.5) * n_classes) / n_classes
    covered = normal = 0
    for _ in range(500):
        ranks = np.ceil(rng.beta(0.5, 1.5, 400) * n_classes) / n_classes
        m = rank_statement(ranks, 0.1, n_classes)
        covered += m.low <= truth <= m.high
        normal += abs(sps.norm.ppf(0.1, ranks.mean(), ranks.std()) - truth) < 0.05
    assert covered >= 460
    assert normal == 0
    assert m.guessing == 0.1


def test_rank_statement_by_unit_covers():
    """60 people of 20 records, alike; nominal 95 % but approximate, at least 90 % of 400 runs (1 in 1,000)."""
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(60), 20)
    covered = naive = 0
    for _ in range(400):
        ranks = np.clip(np.repeat(rng.random(60), 20) + rng.uniform(-1e-3, 1e-3, 1200), 0, 1)
        m, plain = rank_statement(ranks, 0.25, units=person), rank_statement(ranks, 0.25)
        covered += m.low <= 0.25 <= m.high
        naive += plain.low <= 0.25 <= plain.high
    assert covered >= 360
    assert naive < 240


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(0.01, 0.99), st.integers(1, 4))
def test_rank_statement_is_the_quantile(ranks, quantile, n_units):
    ranks = np.array(ranks)
    m = rank_statement(ranks, quantile)
    assert m.value == np.quantile(ranks, quantile, method="inverted_cdf")
    assert np.mean(ranks >= m.value) >= 1 - quantile - 1e-9  # the sentence it stands for
    assert ordered(m)
    assert ordered(rank_statement(ranks, quantile, units=np.arange(len(ranks)) % n_units))


@given(seeds, st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_the_average_unit_is_what_equal_units_would_give(seed, m):
    """Units blown up to one size (their records repeated) and weighed by record: the same values by another way."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, 8)
    y, p = attack(rng, int(size.sum()), m)
    units = np.repeat(np.arange(8), size)
    even = np.repeat(np.arange(len(y)), 12 // size[units])
    for measure in (
        lambda rows, **how: macro_f1(y[rows], p[rows].argmax(1), m, units[rows], **how).value,
        lambda rows, **how: top_k(y[rows], p[rows], 1, units[rows], **how).value,
        lambda rows, **how: top_k(y[rows], p[rows], 1, units[rows], **how).guessing,
        lambda rows, **how: bits_leaked(y[rows], p[rows], None, units[rows], **how).value,
        lambda rows, **how: log_rank(y[rows], p[rows], units[rows], **how).log_rank.value,
        lambda rows, **how: log_rank(y[rows], p[rows], units[rows], **how).rank_sd.value,
        lambda rows, **how: rank_statement(p[rows, 0], 0.3, units=units[rows], **how).value,
    ):
        assert measure(slice(None)) == pytest.approx(measure(even, per="record"))


# -- nearest neighbour --------------------------------------------------------------------------


@given(seeds, st.booleans())
@settings(max_examples=30, deadline=None)
def test_nearest_neighbour_against_a_slow_one(seed, by_unit):
    rng = np.random.default_rng(seed)
    x, y, units = rng.integers(3, size=(15, 2)), rng.integers(3, size=15), np.arange(15) % 4
    who = units if by_unit else np.arange(15)
    wrong = []
    for i in range(15):
        others = [j for j in range(15) if who[j] != who[i]]
        distance = {j: ((x[i] - x[j]) ** 2).sum() for j in others}
        nearest = [j for j in others if distance[j] == min(distance.values())]
        wrong.append(np.mean([y[j] != y[i] for j in nearest]))
    found = nearest_neighbour(x, y, units if by_unit else None)
    assert found.value == pytest.approx(np.mean(wrong))
    assert ordered(found)
    shuffled = rng.permutation(15)
    assert nearest_neighbour(x[shuffled], y[shuffled], units[shuffled] if by_unit else None).value == pytest.approx(
        found.value
    )


def test_nearest_neighbour_in_parts_agrees_with_scikit_learn(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200, 5)), rng.integers(4, size=200)
    second = KNeighborsClassifier(2).fit(x, y).kneighbors(x)[1][:, 1]  # the first is the record itself
    monkeypatch.setattr(likeness, "ENTRIES_AT_ONCE", 200 * 7)
    found = nearest_neighbour(x, y)
    assert found.value == pytest.approx(np.mean(y[second] != y))
    assert found.guessing == 1 - np.bincount(y).max() / 200


def test_nearest_neighbour_interval_covers():
    """Nothing to find: nominal 95 %, fewer than 92 % of 500 runs is rarer than 1 in 500. Continuous, and four codes."""
    rng = np.random.default_rng(2)
    covered, naive = np.zeros(2), 0
    for _ in range(500):
        y, x = rng.integers(2, size=150), rng.standard_normal((150, 2))
        found = nearest_neighbour(x, y), nearest_neighbour(np.sign(x), y)
        covered += [m.low <= 0.5 <= m.high for m in found]
        naive += abs(found[0].value - 0.5) <= 1.96 * 0.5 / np.sqrt(150)
    assert (covered >= 460).all()
    assert naive < 460  # the control: mutual neighbours err together, so records are not independent trials


def test_a_person_may_not_be_their_own_neighbour():
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(60), 10)
    x = np.repeat(rng.standard_normal((60, 5)), 10, axis=0) + 0.01 * rng.standard_normal((600, 5))
    sex = (np.arange(60) % 2)[person]
    assert nearest_neighbour(x, sex).value == 0  # the control: it finds the same person again
    apart = nearest_neighbour(x, sex, units=person)
    assert apart.low <= 0.5 <= apart.high


# -- dynamic time warping -----------------------------------------------------------------------


def slow_dtw(a, b, band):
    """Every cell by its definition, one after the other."""
    n = a.shape[1]
    table = np.full((n + 1, n + 1), np.inf)
    table[0, 0] = 0
    for i in range(n):
        for j in range(n):
            if abs(i - j) <= band:
                cost = sum((a[c, i] - b[c, j]) ** 2 for c in range(len(a)))
                table[i + 1, j + 1] = cost + min(table[i, j], table[i, j + 1], table[i + 1, j])
    return np.sqrt(table[n, n])


@given(seeds, st.integers(1, 12), st.integers(1, 3), st.integers(0, 13), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_dtw_against_the_definition(seed, length, channels, band, at_once):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-3, 4, (3, channels, length)), rng.standard_normal((4, channels, length))
    before, dtw.PAIRS_AT_ONCE = dtw.PAIRS_AT_ONCE, 4 * at_once
    try:
        fast = dtw_distances(a, b, band)
    finally:
        dtw.PAIRS_AT_ONCE = before
    np.testing.assert_allclose(fast, [[slow_dtw(x, y, band) for y in b] for x in a], atol=1e-9)
    assert (dtw_distances(a, b, band + 1) <= fast + 1e-9).all()  # more freedom is never farther
    np.testing.assert_allclose(dtw_distances(b, a, band), fast.T, atol=1e-9)


def test_dtw_rank_against_a_slow_one():
    rng = np.random.default_rng(1)
    users = np.repeat(["ann", "bob", "cy", "di"], [3, 2, 4, 3])
    raw = rng.standard_normal((12, 2, 10)).cumsum(axis=2)
    released = raw + 20 * rng.standard_normal(raw.shape)
    slow = []
    for k in np.unique(users):
        mean = {
            other: np.mean([min(slow_dtw(z, x, 1) for x in raw[users == other]) for z in released[users == k]])
            for other in np.unique(users)
        }
        slow.append(sum(d < mean[k] for d in mean.values()))
    found = dtw_rank(raw, released, users)
    assert found.ranks.tolist() == slow
    assert any(slow)
    assert found.rank.value == pytest.approx(np.mean(slow))
    assert found.rank_sd == pytest.approx(np.std(slow))
    assert found.rank.guessing == 1.5
    assert found.n_users == 4


def test_dtw_rank_of_everything_and_of_nothing():
    """Unrelated noise: the mean of 24 ranks lies within 4 standard deviations (5.7) of guessing, 6 in 100,000."""
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(24), 6)
    raw = rng.standard_normal((144, 2, 32))
    same = dtw_rank(raw, raw, users, windows=3)
    assert same.rank.value == 0
    assert same.rank.high < 4
    nothing = dtw_rank(raw, rng.standard_normal(raw.shape), users, windows=3)
    assert abs(nothing.rank.value - 11.5) < 5.7
    flat = dtw_rank(np.zeros((6, 8)), np.zeros((6, 8)), np.arange(6) % 3)
    assert flat.ranks.tolist() == [1, 1, 1]  # all as near: the middle
    assert (
        dtw_rank(raw, raw[::-1], users, 3, seed=5).ranks.tolist()
        == dtw_rank(raw, raw[::-1], users, 3, seed=5).ranks.tolist()
    )


# -- likeness and reconstruction ----------------------------------------------------------------


@given(seeds, st.booleans())
@settings(max_examples=25, deadline=None)
def test_similarity_and_its_baseline_against_slow_ones(seed, by_unit):
    rng = np.random.default_rng(seed)
    a, b, who = rng.standard_normal((9, 2, 2)), rng.standard_normal((9, 2, 2)), np.arange(9) % 4
    units = who if by_unit else None
    found = similarity(lambda x: x.reshape(len(x), -1), a, b, units)
    cosine = metrics.pairwise.cosine_similarity(a.reshape(9, -1), b.reshape(9, -1))
    who = who if by_unit else np.arange(9)
    blocks = [[cosine[np.ix_(who == u, who == v)].mean() for v in np.unique(who)] for u in np.unique(who)]
    means = [np.diag(cosine)[who == u].mean() for u in np.unique(who)]
    assert found.value == pytest.approx(np.mean(means))  # units weigh alike
    assert found.guessing == pytest.approx(np.array(blocks)[~np.eye(len(blocks), dtype=bool)].mean())
    assert found.low >= -1
    assert ordered(found)
    assert found.high <= 1


def test_similarity_covers():
    """Unrelated embeddings, mean cosine 0; nominal 95 %, fewer than 92 % of 500 runs is rarer than 1 in 500."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(500):
        m = similarity(lambda x: x, rng.standard_normal((60, 4)), rng.standard_normal((60, 4)))
        covered += m.low <= 0 <= m.high
    assert covered >= 460
    one = similarity(lambda x: x, np.eye(3), np.eye(3), units=np.zeros(3))
    assert np.isnan(one.guessing)
    assert similarity(np.zeros_like, np.eye(3), np.eye(3)).value == 0


def test_reconstruction_finds_what_was_released():
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((900, 4)) * [1, 1, 3, 1] + 5
    raw[:, 3] = 7
    released = raw[:, :3] @ np.array([[1, 1], [1, -1], [0, 0]])  # columns 0 and 1 mixed, column 2 withheld
    found = reconstruction(released[:600], raw[:600], released[600:], raw[600:])
    assert [c.value for c in found.columns[:2]] == pytest.approx([1, 1], abs=1e-3)
    assert found.columns[2].low <= 0 <= found.columns[2].high + 0.01
    assert np.isnan(found.columns[3].value)
    assert found.r2.value == pytest.approx(2 / 11, abs=0.03)
    assert found.attacker == "ridge"
    assert found.guess.shape == (300, 4)
    around = raw[600:] - raw[600:].mean(axis=0) + raw[:600].mean(axis=0)  # where the two means agree, R² is the usual
    usual = reconstruction(released[:600], raw[:600], released[600:], around)
    slow = metrics.r2_score(around[:, :3], usual.guess[:, :3], multioutput="variance_weighted")
    assert usual.r2.value == pytest.approx(slow, abs=1e-6)


def test_a_nonlinear_attacker_is_chosen_where_it_is_needed():
    rng = np.random.default_rng(1)
    raw = rng.uniform(0, 2, (900, 1))
    released = np.cos(np.pi * (raw - 1)) * [1.0, 0] + np.sign(raw - 1) * [0, 1.0]  # tells raw, but not on a line
    linear = reconstruction(released[:600], raw[:600], released[600:], raw[600:])
    found = reconstruction(released[:600], raw[:600], released[600:], raw[600:], nonlinear=True)
    assert found.attacker == "mlp"
    assert found.r2.low > 0.95 > linear.r2.high


def test_reconstruction_interval_covers_by_unit():
    """Noise of known size, 60 people of 5 records, noise alike; at least 90 % of 300 runs cover (1 in 2,000)."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((5000, 1))
    raw = z + rng.standard_normal((5000, 1))
    person = np.repeat(np.arange(60), 5)
    covered = naive = 0
    for _ in range(300):
        fresh = np.repeat(rng.standard_normal((60, 2)), 5, axis=0)
        error, total = fresh[:, 1] ** 2, fresh.sum(axis=1) ** 2
        for who, by_unit in ((person, True), (np.arange(300), False)):
            m = likeness.r_squared(error, total, who, 0.95)
            inside = m.low <= 0.5 <= m.high
            covered, naive = covered + (inside and by_unit), naive + (inside and not by_unit)
    assert covered >= 270
    assert naive < 225
    whole = reconstruction(z[:4000], raw[:4000], z[4000:], raw[4000:])  # and the whole of it, once: 4 deviations
    assert whole.r2.value == pytest.approx(0.5, abs=0.09)


def slow_ssim(a, b, data_range):
    """One window at a time, on mirrored borders."""
    g = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    weight = np.outer(g, g) / g.sum() ** 2
    big_a, big_b = (np.pad(x, 5, mode="symmetric") for x in (a, b))
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    values = []
    for i, j in np.ndindex(a.shape):
        x, y = big_a[i : i + 11, j : j + 11], big_b[i : i + 11, j : j + 11]
        mx, my = (weight * x).sum(), (weight * y).sum()
        vx, vy = (weight * (x - mx) ** 2).sum(), (weight * (y - my) ** 2).sum()
        cov = (weight * (x - mx) * (y - my)).sum()
        values.append((2 * mx * my + c1) * (2 * cov + c2) / (mx**2 + my**2 + c1) / (vx + vy + c2))
    return np.mean(values)


@given(seeds, st.integers(6, 14), st.integers(6, 14), st.sampled_from([1.0, 255.0]))
@settings(max_examples=15, deadline=None)
def test_ssim_against_the_definition(seed, height, width, data_range):
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, 2, height, width)) * data_range
    found = ssim(a, b, data_range)
    np.testing.assert_allclose(found, [slow_ssim(x, y, data_range) for x, y in zip(a, b, strict=True)], atol=1e-8)
    np.testing.assert_allclose(ssim(b, a, data_range), found)
    np.testing.assert_allclose(ssim(a, a, data_range), 1)
    np.testing.assert_allclose(ssim(a[:, None].repeat(3, 1), b[:, None].repeat(3, 1), data_range), found)


def test_ssim_falls_with_noise():
    rng = np.random.default_rng(0)
    images = rng.random((40, 4, 4)).repeat(6, 1).repeat(6, 2)
    noise = rng.standard_normal(images.shape)
    seen = [ssim(images, images + s * noise).mean() for s in (0, 0.05, 0.2, 0.8)]
    assert seen[0] == pytest.approx(1)
    assert (np.diff(seen) < -0.05).all()
    m = mean_ssim(images, images + 0.05 * noise)
    assert ordered(m)
    assert m.guessing < m.low
    blind = mean_ssim(images, np.broadcast_to(images.mean(axis=0), images.shape))
    assert blind.value == pytest.approx(blind.guessing)


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: macro_f1(np.zeros(3, int), np.zeros(4, int), 2), "truth has 3 rows, guess has 4"),
        (lambda: macro_f1(np.zeros(0, int), np.zeros(0, int), 2), "at least one"),
        (lambda: top_k(np.zeros(2, int), np.full((2, 3), 1 / 3), 4), "k must be"),
        (lambda: bits_leaked(np.zeros(2, int), np.full((2, 2), 0.5), np.array([0.0, 1.0])), "prior"),
        (lambda: bits_leaked(np.zeros(2, int), np.full((2, 2), np.nan)), "NaN"),
        (lambda: rank_statement(np.ones(3), 1.5), "quantile"),
        (lambda: nearest_neighbour(np.eye(3), np.arange(3), units=np.zeros(3)), "two units"),
        (lambda: dtw_rank(np.eye(3), np.eye(3), np.zeros(3)), "two users"),
        (lambda: dtw_distances(np.ones((2, 3)), np.ones((2, 4))), "cannot be compared"),
        (lambda: dtw_distances(np.ones(3), np.ones(3)), "windows must be"),
        (lambda: ssim(np.ones((2, 3, 3)), np.ones((2, 3, 4))), "alike"),
        (lambda: reconstruction(np.eye(4), np.eye(4), np.ones((2, 3)), np.ones((2, 4))), "columns"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_one_class_and_one_unit_have_answers():
    y, p = np.zeros(5, int), np.full((5, 2), 0.5)
    assert bits_leaked(y, p).high == 0
    assert advantage(top_k(y, p, 1)).value == 0
    alone = macro_f1(np.array([0, 1, 1]), np.array([0, 1, 0]), 2, units=np.zeros(3))
    assert alone.high - alone.low > 0.8
