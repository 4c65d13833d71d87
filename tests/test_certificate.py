"""The certificate, by simulation of known laws and against exact arithmetic.

Every simulation has a fixed seed; its stated false-alarm rate is what a fresh seed would have.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import logsumexp
from scipy.stats import norm

from tacit.auditing.certificate import (
    certify,
    certify_channel,
    certify_local_privacy,
    joint_units,
    local_dp_bound,
    look_delta,
    product_secret,
    release_cells,
)
from tacit.auditing.gaussian import _shuffle, certify_gaussian, log_mixture
from tacit.auditing.population import independent_units, unseen_mass
from tacit.errors import InputError


def _draw(law, n_per_class, rng):
    """Cells and secrets of records that follow known class-conditional laws."""
    cells = [
        np.minimum(np.searchsorted(p.cumsum(), rng.random(n)), len(p) - 1)
        for n, p in zip(n_per_class, law, strict=True)
    ]
    return np.concatenate(cells), np.repeat(np.arange(len(law)), n_per_class)


def _failures(law, n_per_class, runs, seed, channel=None):
    """Share of runs in which the bound, and the bare plug-in, lie under the truth; delta is .05."""
    rng = np.random.default_rng(seed)
    m = len(law)
    truth = (law if channel is None else law @ channel).max(axis=0).sum() / m
    found = []
    for _ in range(runs):
        cells, secret = _draw(law, n_per_class, rng)
        found.append(certify(cells, secret, m) if channel is None else certify_channel(cells, secret, m, channel))
    return np.mean([c.bound < truth for c in found]), np.mean([c.plugin < truth for c in found])


def _response(k, keep):
    """Randomised response: the code stays with probability `keep`, else any other symbol."""
    return np.full((k, k), (1 - keep) / (k - 1)) + np.eye(k) * (keep - (1 - keep) / (k - 1))


# -- does it hold, and is it tight ------------------------------------------------------------------


def test_it_holds_where_the_plugin_fails():
    """k=2: no upward bias, so the bare plug-in is under the truth about half the time (the control)."""
    fails, plugin = _failures(np.array([[0.45, 0.55], [0.55, 0.45]]), [300, 900], 2000, seed=0)
    # The bound lies 2.46 standard deviations above the truth: fails in .7 % of runs. More than 100 of 2,000: < 1e-12.
    assert fails <= 0.05
    assert 0.35 < plugin < 0.6  # binomial sd .011 around .48: false alarm < 1e-6


def test_it_holds_behind_a_channel_where_the_plugin_fails():
    law, channel = np.array([[0.2, 0.8], [0.8, 0.2]]), _response(2, 0.9)
    fails, plugin = _failures(law, [200, 400], 2000, seed=1, channel=channel)
    assert fails <= 0.05  # none in 8,000 measured; false alarm < 1e-12
    assert 0.35 < plugin < 0.6  # false alarm < 1e-6


@pytest.mark.parametrize("k, m", [(16, 3), (64, 2)])
def test_it_holds_for_many_cells_and_unbalanced_classes(k, m):
    law = np.random.default_rng(2).dirichlet(np.ones(k) * 5, size=m)
    fails, _ = _failures(law, [150, *[60] * (m - 1)], 300, seed=3)
    assert fails <= 0.05  # the upward bias leaves under .1 %; false alarm < 1e-12


def test_plain_accuracy_holds_where_its_plugin_fails():
    rng = np.random.default_rng(8)
    joint, n = np.array([0.3, 0.2, 0.2, 0.3]), 400  # P(s, z) in the order 00, 01, 10, 11; truth .6
    slack = np.sqrt(np.log(20) / (2 * n))
    bounds = []
    for _ in range(1000):
        drawn = rng.choice(4, n, p=joint)
        bounds.append(certify(drawn % 2, drawn // 2, 2).accuracy_bound)
    assert np.mean(np.array(bounds) < 0.6) <= 0.05  # 2.5 standard deviations: .6 % fail; false alarm < 1e-12
    assert 0.35 < np.mean(np.array(bounds) - slack < 0.6) < 0.6  # the control; binomial sd .016, false alarm < 1e-6


def test_plain_accuracy_tells_of_base_rates_that_balance_hides():
    secret = np.repeat([0, 1], [950, 50])
    c = certify(np.zeros(1000, dtype=int), secret, 2)
    assert c.plugin == 0.5
    assert c.accuracy_bound > 0.95


def test_it_is_tight():
    """k=64, n=16k, truth .550 gives at most .575."""
    k = 64
    tilt = np.where(np.arange(k) % 2, 1.1, 0.9) / k
    law = np.array([tilt, tilt[::-1]])
    assert law.max(axis=0).sum() / 2 == pytest.approx(0.55)
    # Measured over 300 seeds: .561 on average, standard deviation .004; false alarm about 1e-4.
    assert certify(*_draw(law, [8000, 8000], np.random.default_rng(0)), 2).bound <= 0.575


def test_dependent_records_break_the_naive_form_and_not_ours():
    rng = np.random.default_rng(4)
    ours = naive = 0
    for _ in range(500):  # 30 people a class, each counted 20 times
        people, _ = _draw(np.array([[0.3, 0.7], [0.7, 0.3]]), [30, 30], rng)
        cells, secret, units = np.repeat(people, 20), np.repeat([0, 1], 600), np.repeat(np.arange(60), 20)
        naive += certify(cells, secret, 2).bound < 0.7
        ours += certify(cells, secret, 2, units=units).bound < 0.7
    assert ours <= 25  # fails in .4 % of runs; false alarm < 1e-12
    assert naive > 75  # fails in about 24 %, binomial sd 10: false alarm < 1e-5


def test_a_unit_of_two_classes_speaks_for_one_of_them():
    """A class is drawn in proportion to the unit's records, so a unit moves one term only."""
    cells, secret, units = np.zeros(4000, dtype=int), np.tile([0, 0, 0, 1], 1000), np.repeat(np.arange(1000), 4)
    sample = independent_units(secret, 2, units)
    assert sample.counts[0] == pytest.approx(750, abs=60)  # binomial sd 14: false alarm < 1e-4
    assert sample.n_units == 1000
    assert np.bincount(units[sample.rows], sample.weight).tolist() == pytest.approx([1] * 1000)
    c = certify(cells, secret, 2, units=units)
    assert c.bound - 0.5 == pytest.approx(np.sqrt((1 / sample.counts).sum() * np.log(20) / 2) / 2)


# -- whose average ----------------------------------------------------------------------------------


def test_the_average_unit_does_not_depend_on_how_many_records_units_have():
    rng = np.random.default_rng(0)
    cells, secret = _draw(np.array([[0.4, 0.6], [0.6, 0.4]]), [300, 300], rng)
    size = rng.integers(1, 50, 600)
    once = certify(cells, secret, 2)
    often = certify(np.repeat(cells, size), np.repeat(secret, size), 2, units=np.repeat(np.arange(600), size))
    for fact in ("bound", "plugin", "accuracy_bound", "n_units", "exposed", "largest_odds"):
        assert getattr(often, fact) == pytest.approx(getattr(once, fact))
    assert (often.n, often.smallest_cell) != (once.n, once.smallest_cell)  # these count records


def test_a_unit_is_shared_between_its_cells():
    """Unit 0: cells 0, 0, 1. Unit 1: cell 1. P(0|class 0) is 2/3, as counted by hand."""
    c = certify(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), 2, units=np.array([0, 0, 0, 1]))
    assert c.plugin == pytest.approx((2 / 3 + 1) / 2)


def test_the_average_record_needs_a_limit_of_sizes_known_beforehand():
    cells, secret, units = np.zeros(6, dtype=int), np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 2, 3, 4, 4])
    with pytest.raises(InputError, match="needs max_unit_size"):
        certify(cells, secret, 2, units=units, per="record")
    with pytest.raises(InputError, match="needs max_unit_size"):  # sizes of one, too, are only what was seen
        certify(cells[:4], secret[:4], 2, units=units[:4], per="record")
    with pytest.raises(InputError, match="a unit has 2 records but max_unit_size is 1"):
        certify(cells, secret, 2, units=units, per="record", max_unit_size=1)
    with pytest.raises(InputError, match="none was accepted"):
        certify(cells, secret, 2, units=units, per="record", max_unit_size=10**9)
    with pytest.raises(InputError, match="per must be"):
        certify(cells, secret, 2, per="person")
    assert certify(cells, secret, 2, per="record").per == "record"  # without units records are independent


def test_units_are_accepted_for_the_average_record_by_their_size():
    size = np.tile([1, 4], 2000)
    units, secret = np.repeat(np.arange(4000), size), np.repeat(np.arange(4000) % 3, size)
    sample = independent_units(secret, 3, units, "record", max_unit_size=5)
    accepted = size[np.unique(units[sample.rows])]
    # 400 and 1,600 of 2,000 each, sd 18: false alarm < 1e-4
    assert (accepted == 1).sum() == pytest.approx(400, abs=75)
    assert (accepted == 4).sum() == pytest.approx(1600, abs=75)
    assert np.all(np.bincount(units[sample.rows])[np.unique(units[sample.rows])] == accepted)


def test_the_noisy_certificate_weighs_units_alike():
    """99 people at -1 and one at 1 with as many records as they: by person the classes hardly differ."""
    size = np.where(np.arange(100) == 0, 99, 1)
    code, units = np.repeat(np.where(np.arange(100) == 0, 1.0, -1.0), size), np.repeat(np.arange(100), size)
    code, secret = np.concatenate([code, np.full(100, -1.0)]), np.repeat([0, 1], [198, 100])
    units = np.concatenate([units, 100 + np.arange(100)])
    c = certify_gaussian(code, secret, 2, 0.1, units=units, draws=2000)
    assert c.plugin == pytest.approx(0.505, abs=0.003)  # posterior's sd over 2,000 draws .001: false alarm < 1e-2
    assert c.n_units == 200


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_order_of_records_does_not_matter(seed):
    """So that nodes may send counts and the server certify their sum. Units have one class each, as they do there."""
    rng = np.random.default_rng(seed)
    units = rng.integers(30, size=120)
    cells, secret, order = rng.integers(5, size=120), units % 3, rng.permutation(120)
    for how in ({}, {"units": units}, {"units": units, "per": "record", "max_unit_size": 20}):
        other = {name: value[order] if name == "units" else value for name, value in how.items()}
        one, two = certify(cells, secret, 3, **how), certify(cells[order], secret[order], 3, **other)
        assert (two.bound, two.accuracy_bound, two.n_units) == pytest.approx(
            (one.bound, one.accuracy_bound, one.n_units)
        )


# -- classes that are not there ---------------------------------------------------------------------


def test_an_absent_class_counts_as_exposed():
    cells, secret = np.zeros(400, dtype=int), np.arange(400) % 2
    two, four = certify(cells, secret, 2), certify(cells, secret, 4)
    assert (four.absent, four.n_classes, four.guessing) == (2, 4, 0.25)
    assert four.bound == pytest.approx((2 * two.bound + 2) / 4)
    assert four.plugin == pytest.approx((2 * 0.5 + 2) / 4)
    assert four.accuracy_bound == two.accuracy_bound  # nobody has it, so nobody is told by it
    behind = certify_channel(cells, secret, 4, np.ones((1, 1)))
    assert behind.bound == pytest.approx(four.bound)
    noisy = [certify_gaussian(np.zeros(400), secret, m, 1.0, draws=400) for m in (2, 4)]
    assert noisy[1].bound == pytest.approx((2 * noisy[0].bound + 2) / 4)
    assert (noisy[1].absent, noisy[1].guessing) == (2, 0.25)
    private = certify_local_privacy(1.0, secret, 4)
    assert private.bound == pytest.approx(local_dp_bound(1.0, 4))
    assert (private.absent, private.guessing) == (2, 0.25)


def test_the_unseen_mass_holds_where_the_naive_one_fails():
    """300 classes, each of 1/300, 200 units: about half the mass is unseen; a bound for one fixed set says .015."""
    rng = np.random.default_rng(0)
    ours = naive = 0
    for _ in range(200):
        seen = len(np.unique(rng.integers(300, size=200)))
        truth = 1 - seen / 300
        ours += unseen_mass(200, 300, 300 - seen, 0.05) < truth
        naive += truth > 1 - 0.05 ** (1 / 200)
    assert ours == 0  # the union over sets leaves far less than 5 %
    assert naive == 200
    assert unseen_mass(1000, 1, 0, 0.05) == pytest.approx(1 - 0.05**0.001)


def test_the_parts_of_all_looks_add_to_delta():
    assert sum(look_delta(0.05, t) for t in range(1, 20_000)) == pytest.approx(0.05, rel=1e-4)
    with pytest.raises(InputError, match="look must"):
        look_delta(0.05, 0)


# -- what is always true ----------------------------------------------------------------------------


@st.composite
def coded_records(draw):
    n, m, k = draw(st.integers(4, 120)), draw(st.integers(2, 5)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    secret = np.concatenate([np.arange(m), rng.integers(m, size=n)])
    units = rng.integers(max(1, n // 3), size=len(secret)) if draw(st.booleans()) else None
    return rng.integers(k, size=len(secret)), secret, m, units, k, rng


@given(coded_records())
@settings(max_examples=80, deadline=None)
def test_the_order_of_bound_plugin_and_guessing(records):
    cells, secret, m, units, _, _ = records
    c = certify(cells, secret, m, units=units)
    assert 1 >= c.bound >= c.plugin - 1e-12
    assert c.plugin >= c.guessing - 1e-12
    assert c.accuracy_bound >= np.bincount(secret).max() / len(secret) - 1e-12
    assert 0 <= c.exposed <= 1
    assert (c.largest_odds is None) == (c.worst_cell is None)


@given(coded_records())
@settings(max_examples=60, deadline=None)
def test_the_names_of_cells_do_not_matter(records):
    cells, secret, m, units, k, rng = records
    names = rng.permutation(k) + 7
    one, other = certify(cells, secret, m, units=units), certify(names[cells], secret, m, units=units)
    for fact in ("bound", "plugin", "accuracy_bound", "smallest_cell", "cells", "exposed", "largest_odds"):
        assert getattr(other, fact) == pytest.approx(getattr(one, fact))


@given(coded_records())
@settings(max_examples=60, deadline=None)
def test_merging_cells_or_adding_noise_never_raises_the_plugin(records):
    cells, secret, m, units, k, rng = records
    before = certify(cells, secret, m, units=units)
    assert certify(cells // 2, secret, m, units=units).plugin <= before.plugin + 1e-12
    noisy = certify_channel(cells, secret, m, rng.dirichlet(np.ones(4), size=k), units=units)
    assert noisy.plugin <= before.plugin + 1e-12
    assert noisy.accuracy_bound <= before.accuracy_bound + 1e-12
    silent = certify_channel(cells, secret, m, np.eye(k), units=units)
    assert silent.bound == pytest.approx(before.bound)
    assert (silent.smallest_cell, silent.cells, silent.worst_cell) == (
        before.smallest_cell,
        before.cells,
        before.worst_cell,
    )


def test_a_full_leak_and_nothing():
    secret = np.repeat([0, 1, 2], 100)
    full, nothing = certify(secret, secret, 3), certify(np.zeros(300, dtype=int), secret, 3)
    assert (full.bound, full.exposed) == (1, 1)
    assert full.largest_odds == 100  # the two other classes count as seen once among their 100
    assert nothing.plugin == pytest.approx(1 / 3)
    assert (nothing.smallest_cell, nothing.largest_odds, nothing.exposed) == (300, 1, 0)


def test_the_worst_cell_is_named_and_small_cells_are_not_taken_for_it():
    # Cell 5: 40 to 10. Cell 6: 57 to 90. Cell 9: three records, all of class 0.
    cells = np.repeat([5, 6, 9, 5, 6], [40, 57, 3, 10, 90])
    secret = np.repeat([0, 1], 100)
    c = certify(cells, secret, 2)
    assert (c.worst_cell, c.largest_odds, c.smallest_cell) == (5, pytest.approx(4), 3)
    assert c.exposed == pytest.approx(3 / 200)
    # Fifty records of five people are five, not fifty: cell 5 is too small as well.
    units = np.where(cells == 5, np.arange(200) % 5, np.arange(200) + 5)
    assert certify(cells, secret, 2, units=units).worst_cell == 6


def test_exposure_does_not_count_what_the_base_rate_says():
    secret = np.repeat([0, 1], [950, 50])
    assert certify(np.zeros(1000, dtype=int), secret, 2).exposed == 0  # 95 % sure of everybody, from no release


def test_candidates_share_delta():
    cells, secret = _draw(np.array([[0.4, 0.6], [0.6, 0.4]]), [200, 200], np.random.default_rng(0))
    one, five = certify(cells, secret, 2, delta=0.01), certify(cells, secret, 2, delta=0.05, candidates=5)
    assert five.bound == pytest.approx(one.bound)
    assert (five.delta, five.candidates) == (0.05, 5)
    noisy = certify_channel(cells, secret, 2, np.eye(2), delta=0.05, candidates=5)
    assert noisy.bound == pytest.approx(one.bound)
    codes = cells.astype(float)
    rare = certify_gaussian(codes, secret, 2, 1.0, 0.008, 0.002, draws=200)
    shared = certify_gaussian(codes, secret, 2, 1.0, 0.04, 0.01, draws=200, candidates=5)
    assert shared.bound == pytest.approx(rare.bound)
    assert shared.delta == pytest.approx(0.05)


@pytest.mark.parametrize("m", [2, 3, 7])
@pytest.mark.parametrize("odds", [1, 3, 20])
def test_optimal_randomised_response_attains_the_local_dp_bound(m, odds):
    keep, other = Fraction(odds, m - 1 + odds), Fraction(1, m - 1 + odds)
    exact = sum(max(keep if z == s else other for s in range(m)) for z in range(m)) / m
    assert exact == Fraction(odds, m - 1 + odds)
    assert local_dp_bound(np.log(odds), m) == pytest.approx(float(exact), abs=1e-12)
    secret = np.repeat(np.arange(m), 30)  # the secret itself is the code: nothing leaks more
    found = certify_channel(secret, secret, m, _response(m, float(keep)))
    assert found.plugin == pytest.approx(float(exact), abs=1e-12)
    assert found.largest_odds == pytest.approx(odds)


def test_local_dp_bound_at_its_ends():
    assert local_dp_bound(0, 4) == pytest.approx(0.25)
    assert local_dp_bound(1000, 4) == 1  # and no overflow


@pytest.mark.parametrize(
    "change, message",
    [
        ({"sensitive": np.array([0, 1, -1, 0])}, "Leave out records"),
        ({"sensitive": np.array([0, 1])}, "2 rows"),
        ({"sensitive": np.array([0.0, 1.0, 0.0, 1.0])}, "whole number"),
        ({"units": np.array([0, 1])}, "units has 2 rows"),
        ({"cells": np.array([0.5, 1, 1, 0])}, "whole number"),
        ({"cells": np.array([], dtype=int), "sensitive": np.array([], dtype=int)}, "no record"),
        ({"delta": 0.0}, "delta must"),
        ({"candidates": 0}, "candidates must"),
    ],
)
def test_bad_input_is_refused(change, message):
    good = {"cells": np.array([0, 1, 1, 0]), "sensitive": np.array([0, 1, 0, 1]), "n_classes": 2}
    with pytest.raises(InputError, match=message):
        certify(**(good | change))


@pytest.mark.parametrize("channel", [np.eye(1), np.ones((2, 2)), np.array([[2.0, -1.0], [0.0, 1.0]])])
def test_a_channel_that_is_none_is_refused(channel):
    with pytest.raises(InputError, match="channel"):
        certify_channel(np.array([0, 1]), np.array([0, 1]), 2, channel)


def test_finite_releases_are_recognised():
    rng = np.random.default_rng(0)
    assert release_cells(rng.standard_normal((100, 2))) is None
    cells = release_cells(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 2.0], [1.0, 2.0]]))
    assert cells is not None
    assert len(set(cells)) == 2
    assert cells[0] == cells[1] == cells[3]


# -- several secrets, and how many units ------------------------------------------------------------


def test_the_product_of_secrets_is_missing_where_any_is():
    product = product_secret(np.array([[0, 0], [1, 0], [-1, 1], [0, 1], [1, -1], [1, 0]]))
    assert product.tolist() == [0, 2, -1, 1, -1, 2]
    declared = product_secret(np.array([[0, 0], [1, 0], [-1, 1]]), sizes=(2, 3))
    assert declared.tolist() == [0, 3, -1]
    with pytest.raises(InputError, match="sizes"):
        product_secret(np.array([[0, 3]]), sizes=(2, 3))


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_joint_units_are_the_components(seed, n, attributes):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(n, size=n) for _ in range(attributes)]
    slow = np.arange(n)
    for _ in range(n):  # spread the smallest number until nothing changes
        for c in columns:
            slow = np.array([slow[c == c[i]].min() for i in range(n)])
    found = joint_units([*columns, None])
    assert len(np.unique(found)) == len(np.unique(slow)) == len(set(zip(found, slow, strict=True)))
    assert joint_units([None, None]) is None
    with pytest.raises(InputError, match="one unit per record"):
        joint_units([np.arange(n), np.arange(n + 1)])


def test_the_product_can_leak_what_no_secret_alone_does():
    rng = np.random.default_rng(0)
    a, b = rng.integers(2, size=(2, 20_000))
    product = product_secret(np.column_stack([a, b]))
    # Plug-in .5 and bias about .004, slack .009: above .53 by chance < 1e-4.
    assert certify(a ^ b, a, 2).bound < 0.53
    assert certify(a ^ b, b, 2).bound < 0.53
    joint = certify(a ^ b, product, 4)
    assert joint.plugin == pytest.approx(0.5)  # exactly: the parity leaves two of four
    assert joint.guessing == 0.25


def test_the_noisy_certificate_holds_where_its_plugin_fails():
    """Codes at -.5 or .5 and noise .25, nearly the k=2 code: little upward bias. The truth by quadrature."""
    sigma, points, law = 0.25, np.array([-0.5, 0.5]), np.array([[0.3, 0.7], [0.7, 0.3]])

    def best(x):
        return (law @ norm.pdf(x, points, sigma)).max() / 2

    truth = 2 * integrate.quad(best, 0, 3, points=[0.5])[0]  # symmetric around 0
    assert 0.68 < truth < 0.7
    rng = np.random.default_rng(9)
    found = []
    for run in range(200):
        cells, secret = _draw(law, [30, 90], rng)
        found.append(certify_gaussian(points[cells], secret, 2, sigma, draws=2500, seed=run))
    # The bound lies 3.5 standard deviations above the truth, .03 % fail: more than 10 of 200 < 1e-12.
    assert sum(c.bound < truth for c in found) <= 10
    # The controls: the plug-in alone, and with the Monte Carlo slack only. Expected 95 and 50, sd 7: < 1e-3.
    monte_carlo = np.sqrt(np.log(100) / 5000)
    assert 65 < sum(c.plugin < truth for c in found) < 130
    assert sum(c.plugin + monte_carlo < truth for c in found) > 20


def test_two_points_attain_what_their_distance_allows():
    codes, secret = np.repeat([-0.5, 0.5], 50)[:, None], np.repeat([0, 1], 50)
    exact = norm.cdf(0.5 / 0.7)
    found = certify_gaussian(codes, secret, 2, 0.7, draws=40_000)
    assert found.plugin == pytest.approx(exact, abs=0.005)  # sd under .001: false alarm < 1e-5
    assert found.bound - found.plugin == pytest.approx(
        np.sqrt(2 / 50 * np.log(1 / 0.04) / 2) / 2 + np.sqrt(np.log(1 / 0.01) / 80_000)
    )


def test_little_and_much_noise():
    rng = np.random.default_rng(0)
    cells, secret = _draw(np.array([[0.3, 0.7], [0.6, 0.4]]), [100, 50], rng)
    code = certify(cells, secret, 2)
    little = certify_gaussian(cells.astype(float), secret, 2, 0.02, draws=20_000)
    # Noise that never crosses over releases the cell: both figures are the code's. Sd .001: false alarm < 1e-5.
    assert little.plugin == pytest.approx(code.plugin, abs=0.005)
    plain = code.accuracy_bound - np.sqrt(np.log(20) / 300)
    slack = np.sqrt(np.log(25) / 300) + np.sqrt(2 * (4 / 9 + 1 / 9) * np.log(100) / 40_000)
    assert little.accuracy_bound == pytest.approx(plain + slack, abs=0.005)
    much = certify_gaussian(cells.astype(float), secret, 2, 1e4, draws=1000)
    assert much.plugin == pytest.approx(0.5, abs=1e-3)
    assert not much.vacuous


def test_a_noisy_certificate_in_many_dimensions_says_it_is_vacuous():
    rng = np.random.default_rng(0)
    secret = np.arange(200) % 2
    many = certify_gaussian(rng.uniform(-1, 1, (200, 8)), secret, 2, 0.3, draws=1000)
    few = certify_gaussian(rng.uniform(-1, 1, (200, 1)), secret, 2, 1.0, draws=1000)
    assert many.vacuous
    assert many.null_plugin > 0.8  # every record is an island
    assert not few.vacuous
    assert few.exposed == 0


def test_shuffling_by_unit_sees_the_bias_of_few_people():
    """Ten people of 40 windows each in a spot of their own: shuffled windows look harmless, shuffled people do not."""
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(10), 40)
    codes = (rng.uniform(-1, 1, (10, 2)))[person] + 0.02 * rng.standard_normal((400, 2))
    by_window = certify_gaussian(codes, person % 2, 2, 0.2, draws=1000)
    by_person = certify_gaussian(codes, person % 2, 2, 0.2, draws=1000, units=person)
    # Measured over 40 seeds: .84 and .55 on average, never closer than .19; false alarm < 1e-3.
    assert by_person.null_plugin > by_window.null_plugin + 0.05
    assert by_person.vacuous
    assert by_person.bound > by_window.bound
    assert by_person.n_units == 10


def test_shuffled_units_keep_their_labels_together():
    units = np.array([3, 1, 3, 2, 1, 3])
    secret = np.array([0, 1, 0, 2, 1, 0])
    seen = set()
    for seed in range(30):
        shuffled = _shuffle(secret, units, np.random.default_rng(seed))
        assert all(len(set(shuffled[units == u])) == 1 for u in (1, 2, 3))
        seen.add(tuple(shuffled))
    assert len(seen) == 6  # all orders of three units; one stays unseen with probability 6 (5/6)^30 = .025


@pytest.mark.parametrize("n", [3, 1024, 1500])
def test_the_chunked_mixture_equals_the_slow_one(n):
    rng = np.random.default_rng(n)
    points, centres = 3 * rng.standard_normal((1100, 2)), 40 * rng.standard_normal((n, 2))
    shares = rng.dirichlet(np.ones(n))
    slow = logsumexp(np.log(shares) - ((points[:, None] - centres[None]) ** 2).sum(-1) / 2, axis=1)
    np.testing.assert_allclose(log_mixture(points, centres, shares), slow, rtol=1e-9, atol=1e-9)


def test_the_noisy_certificate_refuses_no_noise_and_missing_codes():
    secret = np.array([0, 1])
    with pytest.raises(InputError, match="sigma is 0"):
        certify_gaussian(np.zeros((2, 1)), secret, 2, 0.0)
    with pytest.raises(InputError, match="NaN"):
        certify_gaussian(np.array([0.0, np.nan]), secret, 2, 1.0)
