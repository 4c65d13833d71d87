"""A time budget leaves things out and says so; attackers that are clearly behind are stopped, and named."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import tacit
from tacit.auditing.budget import Budget
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.tradeoff.points import by_what_they_tell, lay_out


@pytest.fixture(scope="module")
def parts():
    return tacit.load_dataset("quadrants", n=6000).split(random_state=0)


def test_a_spent_budget_keeps_leakage_and_certificate_and_names_the_rest(parts):
    train, attack, test = parts
    f = tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    report = tacit.audit(f, attack, test, minutes=0)
    assert report.leakage["shape"].value >= 0.4
    assert report.certificate["shape"] is not None
    assert not report.label_only
    [note] = [n for n in report.notes if "left out" in n]
    for word in ("0 minutes", "baseline", "limit"):
        assert word in note


def test_a_spent_budget_trains_one_attacker_the_strongest(parts):
    train, attack, test = parts
    report = tacit.audit(PCA(2).fit(train.X), attack, test, minutes=0)
    assert set(report.leakage["shape"].attackers) == set(report.utility["colour"].attackers) == {"trees"}
    assert any("the time is over: only these attackers finished: trees" in n for n in report.notes)


def test_enough_time_leaves_nothing_out(parts):
    train, attack, test = parts
    few, all_ = (tacit.audit(PCA(1).fit(train.X), attack, test, ["trees"], minutes=m) for m in (60, None))
    assert few.leakage["shape"] == all_.leakage["shape"]
    assert not any("left out" in n for n in few.notes)


def test_a_negative_time_is_refused():
    with pytest.raises(tacit.TacitError, match="minutes"):
        Budget(-1)


def test_who_is_clearly_behind_is_stopped_and_the_figure_stays():
    """A product of two columns: a line reads nothing of it, so that the linear attacker falls behind."""
    rng = np.random.default_rng(0)
    n = 8000
    X = rng.normal(size=(n, 2))
    product = (X[:, 0] * X[:, 1] > 0).astype(int)
    data = tacit.Dataset(X, rng.integers(2, size=n), product)
    _, attack, test = data.split(random_state=0)
    trial = Trial.of(None, attack, test)
    [task] = trial.tasks("sensitive")
    racing, whole = AttackSuite("quick"), AttackSuite("quick")
    racing.attackers = {n: racing.attackers[n] for n in ("mlp", "logistic", "trees")}
    whole.attackers, whole.races = dict(racing.attackers), False
    stopped, all_ = racing.run(task), whole.run(task)
    assert stopped.stopped == ("logistic",)  # who is exposed is asked of trees, which are never stopped
    assert list(stopped.probabilities) == ["mlp", "trees", "stack"]
    assert list(all_.probabilities) == ["mlp", "logistic", "trees", "stack"]
    found = [s.result(o, "balanced_accuracy", 0.95).value for s, o in ((racing, stopped), (whole, all_))]
    assert abs(found[0] - found[1]) <= 0.005


def test_a_report_names_who_was_stopped():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 2))
    data = tacit.Dataset(X, rng.integers(2, size=6000), (np.floor(3 * X[:, 0]) % 2).astype(int))
    _, attack, test = data.split(random_state=0)
    report = tacit.audit(None, attack, test, measurements="no-baseline")
    told = [n for n in report.notes if "clearly behind on validation rows" in n]
    assert (told and "neighbors" in told[0]) or "mlp" in told[0]


def test_a_frontier_without_time_has_its_first_points_and_goes_on_from_its_folder(parts, tmp_path):
    """The ends of the knob come first; every point keeps its share of the error, whether it was reached or not."""
    how = {"values": [0.0, 0.5, 1.0, 2.0, 4.0], "seeds": 1, "n_jobs": 1, "limit": False, "checkpoint": tmp_path / "f"}
    some = tacit.frontier(tacit.EIGAN(2, epochs=1), *parts, **{**how, "values": [0.1, 0.3, 0.5, 0.7, 0.9]}, minutes=0)
    assert [t.point.value for t in some.traced] == [0.1, 0.5, 0.9]
    assert (some.left_out, some.candidates) == (2, 5)
    whole = tacit.frontier(tacit.EIGAN(2, epochs=1), *parts, **{**how, "values": [0.1, 0.3, 0.5, 0.7, 0.9]})
    assert whole.left_out == 0
    assert [t.leakage for t in whole.traced if t.point.value in (0.1, 0.5, 0.9)] == [t.leakage for t in some.traced]


def test_points_come_in_the_order_of_what_they_tell():
    points = lay_out({"f": tacit.EIGAN()}, [0.1, 0.2, 0.3, 0.4, 0.5], 2, None)
    told = [(p.seed, p.value) for p in by_what_they_tell(points)]
    assert told[:5] == [(0, 0.1), (0, 0.5), (0, 0.3), (0, 0.2), (0, 0.4)]
    assert [seed for seed, _ in told[5:]] == [1] * 5
