"""The odds of a single release: its bound, who has one, who has none, and the filter that keeps it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, nchypergeom_fisher

import tacit
from tacit.auditing.certificate import certify, certify_channel, certify_local_privacy
from tacit.auditing.odds import check_odds, unseen_releases
from tacit.auditing.population import independent_units
from tacit.errors import CollapseWarning, ContradictionError, InputError, RequirementNotMet
from tacit.report.certificates import AnyCertificate, Odds
from tacit.report.results import Measure
from tacit.solvers.cell_odds import _Pair, worst_odds


def table_of(rng, n=(4000, 1500), k=8, spread=0.3):
    law = rng.dirichlet(np.full(k, 4.0)) * np.exp(rng.normal(0, spread, (len(n), k)))
    law /= law.sum(axis=1, keepdims=True)
    return np.stack([rng.multinomial(size, p) for size, p in zip(n, law, strict=True)], axis=1)


def rows_of(table):
    """Cells and classes of a (cells, classes) table."""
    z, s = np.indices(table.shape).reshape(2, -1)
    return np.repeat(z, table.ravel()), np.repeat(s, table.ravel())


@pytest.mark.parametrize(("x", "y", "n_x", "n_y"), [(5, 3, 40, 60), (30, 12, 50, 20), (300, 200, 4000, 1500)])
def test_tails_are_those_of_fishers_law(x, y, n_x, n_y):
    pair = _Pair(x, y, n_x, n_y)
    for odds in (0.5, 1.0, 3.0):
        expected = nchypergeom_fisher(n_x + n_y, n_x, x + y, odds).cdf(x)
        assert pair.tail(math.log(odds)) == pytest.approx(expected, rel=1e-8)
    end = pair.upper_end(0.01)
    assert pair.tail(math.log(end)) == pytest.approx(0.01, rel=1e-5)


def test_the_bound_is_tighter_than_clopper_pearson_ends():
    rng, tighter = np.random.default_rng(0), []
    for _ in range(20):
        t = table_of(rng)
        n, level = t.sum(axis=0), 0.05 / (2 * t.size)
        ends = beta.ppf(1 - level, t + 1, n - t).max(axis=1) / beta.ppf(level, t, n - t + 1).min(axis=1)
        found = worst_odds(t, 0.05)
        assert found.bound > found.plugin
        tighter.append(found.bound < ends.max())
    assert all(tighter)


def test_a_cell_that_was_not_seen_with_every_class_has_no_bound():
    t = np.array([[500, 300], [500, 700], [4, 0]])
    assert worst_odds(t, 0.05)[2:] == (2, (0, 1))
    assert math.isinf(worst_odds(t, 0.05).bound)
    cells, secret = rows_of(t[:2])
    of_seen, of_all = certify(cells, secret, 2), certify(cells, secret, 2, n_cells=3)
    assert of_seen.odds.cells == 2
    assert 0 < of_seen.odds.unseen < 0.01
    assert math.isinf(of_all.worst_odds)
    assert "not certified" in of_all.odds.sentence("95 %")
    assert certify(cells, secret, 2, n_cells=2).odds.cells is None
    assert math.isinf(certify(cells, secret, 3, n_cells=2).worst_odds)  # an absent class


def test_one_release_for_all_moves_nothing():
    zeros = np.zeros(100, dtype=int)
    assert certify(zeros, np.arange(100) % 2, 2, n_cells=1).worst_odds == 1
    assert certify(zeros, np.arange(100) % 2, 2).worst_odds > 1  # there might be others


def test_every_kind_of_certificate_says_its_odds():
    cells, secret = rows_of(table_of(np.random.default_rng(1)))
    kept = np.full((8, 8), 0.05) + 0.6 * np.eye(8)
    behind = certify_channel(cells, secret, 2, kept)
    assert behind.worst_odds <= 13 + 1e-9  # .65 / .05, whatever was counted
    assert behind.worst_odds <= certify(cells, secret, 2, n_cells=8).worst_odds
    rare = np.append(cells, 8 * np.ones(3, dtype=int)), np.append(secret, [0, 0, 0])
    wide = np.full((9, 9), 0.05) + 0.55 * np.eye(9)
    assert certify_channel(*rare, 2, wide).worst_odds == pytest.approx(12)
    private = certify_local_privacy(1.0, secret, 2)
    assert private.worst_odds == pytest.approx(math.e)
    assert math.isinf(certify_local_privacy(800.0, secret, 2).worst_odds)


def test_the_average_bound_does_not_move_and_delta_is_shared_alike():
    cells, secret = rows_of(table_of(np.random.default_rng(2)))
    one, ten = certify(cells, secret, 2, n_cells=8), certify(cells, secret, 2, candidates=10, n_cells=8)
    assert one.bound == certify(cells, secret, 2).bound
    assert one.worst_odds < ten.worst_odds == certify(cells, secret, 2, delta=0.005, n_cells=8).worst_odds


def test_a_unit_counts_once():
    cells, secret = rows_of(table_of(np.random.default_rng(3), n=(400, 300), k=3))
    unit = np.arange(len(cells))
    five = np.tile(unit, 5)
    alone, copied = (certify(cells[u], secret[u], 2, units=u, n_cells=3).odds for u in (unit, five))
    assert alone == copied


def test_bits_and_bayes_security():
    cells, secret = rows_of(table_of(np.random.default_rng(4)))
    c = certify(cells, secret, 2, n_cells=8)
    assert 0 < c.bits < replace(c, odds=None).bits
    assert c.bayes_security == pytest.approx(2 * (1 - c.bound))
    assert f"{c.bits:.3f} bits" in c.explain("95 %")


@pytest.mark.parametrize("n_cells", [8, 9, None])
def test_odds_survive_json_and_old_reports_have_none(n_cells):
    c = certify(*rows_of(table_of(np.random.default_rng(5))), 2, n_cells=n_cells)
    told = json.loads(json.dumps(c.to_dict(), allow_nan=False))
    assert AnyCertificate.from_dict(told) == c
    del told["odds"]
    assert AnyCertificate.from_dict(told).odds is None


def test_releases_that_nobody_got_are_rare():
    """The bound fails in at most 5 % of the runs; more than 28 of 300 come by chance in under 1 of 1,000."""
    law, failed = np.r_[0.9, np.full(100, 0.001)], 0
    for seed in range(300):
        cells = np.random.default_rng(seed).choice(101, 400, p=law)
        failed += unseen_releases(np.bincount(cells), 0.05) < 1 - law[np.unique(cells)].sum()
    assert failed <= 28


def test_counting_that_contradicts_the_odds_is_an_error():
    cells, secret = rows_of(np.array([[900, 300], [100, 700]]))
    sample = independent_units(secret, 2)
    check_odds("sex", certify(cells, secret, 2, n_cells=2).odds, cells, secret, sample, 0.05)
    with pytest.raises(ContradictionError, match="release 1 is at least"):
        check_odds("sex", Odds(2.0, 2.0), cells, secret, sample, 0.05)


@pytest.fixture(scope="module")
def parts():
    return tacit.load_dataset("quadrants", n=6000).split((0.5, 0.2, 0.3), random_state=0)


@pytest.fixture(scope="module")
def audited(parts):
    train, attack, test = parts
    f = tacit.CodebookFilter(8, 1.0, max_odds=3, n_folds=2, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    return f, tacit.audit(f, attack, test, ["logistic"], measurements="no-baseline")


def test_a_codebook_keeps_the_odds_it_was_asked_for(parts, audited):
    train, attack, test = parts
    f, report = audited
    found = report.certificate["shape"].odds
    assert found.bound <= 3
    assert found.cells is None
    assert 1 < f.n_codes_ == len(np.unique(f.transform(test.X), axis=0))
    assert set(f.codes(test.X)) <= set(range(f.n_codes_))
    report.require(odds={"shape": 3})
    text = "no single release moves anyone's odds by more than"
    assert text in " ".join(str(report).split())
    assert text in report.to_markdown()
    # the control: the same cells, not merged
    free = tacit.CodebookFilter(8, 0.0, n_folds=2, random_state=0)
    free.fit(train.X, train.y, sensitive_features=train.sensitive)
    told = tacit.audit(free, attack, test, ["logistic"], measurements="no-baseline")
    assert told.certificate["shape"] is None or told.certificate["shape"].worst_odds > 3
    with pytest.raises(RequirementNotMet, match="allowed for every release 3 times"):
        told.require(odds={"shape": 3})


def test_a_certificate_without_odds_says_none(audited):
    _, report = audited
    none = replace(report, certificate={"shape": replace(report.certificate["shape"], odds=None)})
    assert none.worst("shape") == "shape: worst odds none: the average is certified, a single release is not"
    with pytest.raises(RequirementNotMet, match="worst odds none"):
        none.require(odds={"shape": 3})


def test_an_attacker_who_reads_more_than_the_odds_allow_is_an_error(audited):
    _, report = audited
    reads = replace(report.leakage["shape"], balanced_accuracy=Measure(0.7, 0.68, 0.72, 0.5), attackers={})
    for odds, allowed in ((2.0, False), (2.2, True)):  # .667 and .6875
        told = {"shape": replace(report.certificate["shape"], odds=Odds(odds, odds))}
        if allowed:
            replace(report, certificate=told, bound={"shape": None}, leakage={"shape": reads})
            continue
        with pytest.raises(ContradictionError, match=r"no attacker exceeds 0\.667"):
            replace(report, certificate=told, bound={"shape": None}, leakage={"shape": reads})


@pytest.mark.parametrize("how", [{"output": "code"}, {"output": "onehot"}, {"decode": True}])
def test_merged_cells_are_released_alike_everywhere(parts, how, tmp_path):
    train, _, test = parts
    f = tacit.CodebookFilter(8, 1.0, max_odds=2, n_folds=2, random_state=0, **how)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    assert f.n_codes_ < 8
    bundle = tacit.load(tacit.save(f, tmp_path / "f.tacit"), owner_key=f.owner_key)
    np.testing.assert_array_equal(np.asarray(bundle.transform(test.X)), np.asarray(f.transform(test.X)))


def test_odds_of_one_leave_one_cell(parts):
    train, _, test = parts
    with pytest.warns(CollapseWarning, match="raise max_odds"):
        f = tacit.CodebookFilter(4, max_odds=1, n_folds=2, random_state=0).fit(
            train.X, train.y, sensitive_features=train.sensitive
        )
    assert len(np.unique(f.transform(test.X), axis=0)) == 1
    with pytest.raises(InputError, match="max_odds"):
        tacit.CodebookFilter(4, max_odds=0.5).fit(train.X, train.y, sensitive_features=train.sensitive)
