"""Statistics of guessed numbers: what they are, and that their intervals cover."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import r2_score

from tacit.auditing.number_stats import mean_absolute_error, r_squared, r_squared_gain, rank_correlation


def normal(rng, n):
    x, e = rng.normal(size=(2, n))
    return 0.7 * x + 0.71 * e, 0.7 * x, None


def useless(rng, n):
    truth, guess = rng.normal(size=(2, n))
    return truth, 0.1 * guess, None


def skewed_in_cells(rng, n):
    """A waiting time, guessed by four cells: ties in the guess, a long tail in the truth."""
    cell = rng.integers(0, 4, n)
    return np.round(8 * cell + rng.gamma(2, 6, n)), 8.0 * cell + 12, None


def people(rng, n):
    """People of 1 to 9 records, whose guesses are off alike."""
    sizes = rng.integers(1, 10, n // 5)
    who = np.repeat(np.arange(len(sizes)), sizes)
    x, b = rng.normal(size=(2, len(sizes)))
    return (x + b)[who] + 0.5 * rng.normal(size=len(who)), x[who], who


WORLDS = {"normal": normal, "useless": useless, "skewed in cells": skewed_in_cells, "people": people}


def measured(truth, guess, units):
    off = mean_absolute_error(truth, guess, 0.0, units)
    return [r_squared(truth, guess, units), rank_correlation(truth, guess, units), off]


@pytest.mark.parametrize("world", WORLDS)
def test_intervals_cover_in_simulation(world):
    """400 runs at nominal 95 %, at least 93 % must cover.

    Seeded, so it does not flicker. Over seeds, where the true rate is .95: binomial(400, .95) falls below 372 in 3 %
    of tests of one measure; here the rates lie at .95 to .97, where that is below 1 %.
    """
    rng = np.random.default_rng(7)
    real = [m.value for m in measured(*WORLDS[world](rng, 200_000))]
    runs = [measured(*WORLDS[world](rng, 150)) for _ in range(400)]
    held = np.mean([[m.low <= r <= m.high for m, r in zip(run, real, strict=True)] for run in runs], axis=0)
    assert (held >= 0.93).all(), held
    assert (held < 1).all(), "an interval that never misses says nothing"


def test_records_of_one_person_are_not_counted_as_many():
    """Without units the same rows cover far less than 93 % (they are 5 records a person)."""
    rng = np.random.default_rng(3)
    real = r_squared(*people(rng, 200_000)).value
    missed = {True: 0, False: 0}
    for _ in range(300):
        truth, guess, who = people(rng, 150)
        for known in missed:
            m = r_squared(truth, guess, who if known else None)
            missed[known] += not m.low <= real <= m.high
    assert missed[True] <= 0.08 * 300
    assert missed[False] > 0.15 * 300


def test_a_rank_interval_is_no_narrower_than_the_jackknife_says():
    """Each record also moves the ranks of others; without that the first two would be 4 to 5 % too narrow."""
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(2, 200))
    for truth, guess in ((x + 0.2 * e, x), (np.where(x > 0, x, e), x), (np.round(x), np.round(x + e))):
        m = rank_correlation(truth, guess)
        without = [rank_correlation(np.delete(truth, i), np.delete(guess, i)).value for i in range(200)]
        deviation = np.sqrt(199 * np.var(without))
        half = (np.arctanh(m.high) - np.arctanh(m.low)) / 2 * (1 - m.value**2)
        assert 1.96 * deviation < half < 1.2 * 1.96 * deviation


def test_values_are_those_of_others():
    truth, guess, _ = skewed_in_cells(np.random.default_rng(0), 500)
    assert r_squared(truth, guess).value == pytest.approx(r2_score(truth, guess), abs=1e-12)
    assert rank_correlation(truth, guess).value == pytest.approx(spearmanr(truth, guess)[0], abs=1e-12)
    off = mean_absolute_error(truth, guess, np.median(truth))
    assert off.value == pytest.approx(np.abs(truth - guess).mean())
    assert off.guessing == pytest.approx(np.abs(truth - np.median(truth)).mean())


def test_every_unit_counts_alike():
    truth, guess = np.array([0.0, 0.0, 0.0, 4.0]), np.array([0.0, 0.0, 0.0, 2.0])
    who = np.array([1, 1, 1, 2])
    assert mean_absolute_error(truth, guess, 0.0, who).value == 1.0
    assert mean_absolute_error(truth, guess, 0.0, who, per="record").value == 0.5


@pytest.mark.parametrize("n", [8, 500])
def test_a_perfect_guess_is_not_certain(n):
    """Nobody among n was off: a few in n may be."""
    truth = np.arange(float(n))
    exact = r_squared(truth, truth)
    assert exact.value == 1
    assert exact.high == 1
    assert exact.low == pytest.approx(1 - 3 / n)
    assert rank_correlation(truth, truth).low < 1
    assert mean_absolute_error(truth, truth, n / 2).high > 0


def test_the_same_guess_for_everybody_is_guessing():
    truth, same = np.random.default_rng(0).normal(size=300), np.zeros(300)
    assert r_squared(truth, same).value <= 0
    assert rank_correlation(truth, same)[:3] == (0, 0, 0)


def test_a_paired_gain_is_narrower_than_two_intervals():
    rng = np.random.default_rng(0)
    truth, guess, _ = normal(rng, 1000)
    worse = guess + 0.2 * rng.normal(size=1000)
    gain, two = r_squared_gain(truth, guess, worse), [r_squared(truth, g) for g in (guess, worse)]
    assert gain.value == pytest.approx(two[0].value - two[1].value)
    assert gain.low > 0
    assert gain.high - gain.low < sum(m.high - m.low for m in two) / 2
    assert r_squared_gain(truth, guess, guess)[:3] == (0, 0, 0)
