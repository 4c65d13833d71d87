"""Linkability of people whom the attacker never saw, and in a report."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

import tacit
from tacit.auditing.measurements import load_measurements
from tacit.auditing.measurements.linkability import LINKED, linkability, pair_up, person_units, verify
from tacit.auditing.trial import Trial, TrialSettings
from tacit.errors import InputError, RequirementNotMet
from tacit.records.dataset import Dataset
from tacit.report.report import Report

pytestmark = pytest.mark.usefixtures("two_questions")


def people(n: int = 400, seed: int = 0, byte: bool = False, records: int = 2) -> Dataset:
    """Records of columns that know nothing of each other nor of the person; and perhaps a byte of each that stays."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), records)
    X = pd.DataFrame({f"x{i}": rng.normal(size=len(who)) for i in range(4)})
    X["day"], X["word"] = rng.integers(30, size=len(who)), rng.choice(list("abcdef"), len(who))
    if byte:
        X["byte"] = rng.integers(256, size=n)[who]
    return Dataset(X, None, pd.Series(rng.choice(["f", "m"], n)[who], name="sex"), who)


def linked(data: Dataset, release=None, seed: int = 0, **asked):
    attack, test = data.split((0.5, 0.5), random_state=seed)
    return by_kind(linkability(Trial.of(release, attack, test, TrialSettings(seed=seed, **asked))))


def by_kind(findings):
    """Findings of the release and of raw records, by scale."""
    parts = [{f.kind: f for f in findings if f.subject.endswith(", raw") == raw} for raw in (False, True)]
    return SimpleNamespace(
        kind=findings[0].subject, auc=parts[0]["AUC"], tpr_at_1=parts[0][LINKED], raw=parts[1],
        found=any(f.beyond_chance for f in parts[0].values()),
    )  # fmt: skip


def at_chance(found) -> bool:
    """Whether chance lies inside every interval: they hold together, at 95 %."""
    return all(m.low <= m.chance <= m.high for m in (found.auc, found.tpr_at_1))


def test_one_stable_byte_is_found_among_people_never_seen():
    """Must hold 2; the control is the same table without the byte. One byte in 256 agrees by chance, above .1 %."""
    found = linked(people(600, byte=True))
    assert found.kind == "two records of one person"
    assert found.auc.value > 0.99
    assert found.tpr_at_1.value > 0.99
    assert found.found
    control = linked(people(600))
    assert at_chance(control)
    assert not control.found


@pytest.mark.parametrize("where", ["word", "wide"])
def test_the_byte_may_stand_anywhere(where):
    data = people(500, byte=True)
    X = data.X
    if where == "word":
        X = X.assign(byte=[f"{b:02x}" for b in X["byte"]])
    else:  # among many columns of noise
        rng = np.random.default_rng(1)
        X = pd.concat([pd.DataFrame(rng.normal(size=(len(X), 100))).add_prefix("n"), X], axis=1)
    assert linked(Dataset(X, None, data.sensitive, data.units)).tpr_at_1.value > 0.99


@pytest.mark.parametrize("runs", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_independent_releases_are_at_chance(runs):
    """Must hold 2: in >= 94 of 100. At most 5 % miss by design: more than three of 10 with probability .001."""
    inside = sum(at_chance(linked(people(300, seed), seed=seed)) for seed in range(runs))
    assert inside >= (94 if runs == 100 else 7)


def test_two_releases_of_one_record_link():
    data = Dataset(people(800).X, None, people(800).sensitive)

    class Word:
        def transform(self, X):
            return X[["word", "day"]]

    class Day:
        def transform(self, X):
            return pd.DataFrame({"late": X["day"] > 14})

    found = linked(data, Word(), views=(Day(),))
    assert found.kind == "two releases of one record"
    assert found.auc.low > 0.7
    assert found.raw == {}


def test_a_code_of_a_single_record_has_nothing_to_pair():
    train, attack, test = tacit.load_dataset("gaussians", n=600).split((0.4, 0.3, 0.3), random_state=0)
    f = tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    [measurement] = [m for m in load_measurements() if m.name == "linkability"]
    assert not measurement.planned(Trial.of(f, attack, test))
    with pytest.raises(InputError, match=r"units=.*views="):
        linkability(Trial.of(f, attack, test, TrialSettings(measurements=("linkability",))))


def test_few_people_with_many_columns_are_measured():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(16), 2)
    found = linked(Dataset(rng.normal(size=(32, 60)), None, pd.Series(who % 2, name="s"), who))
    assert (found.tpr_at_1.low, found.tpr_at_1.high) == (0, 1)  # fewer pairs of people than one false positive needs
    assert at_chance(found)


def test_people_are_the_coarsest_units_that_do_not_cross():
    person = np.repeat(np.arange(20), 6)
    bout = np.repeat(np.arange(40), 3)
    X = np.column_stack([bout, np.random.default_rng(0).normal(size=120)])
    data = Dataset(X, None, pd.DataFrame({"a": bout % 2, "b": person % 2}), {"a": bout, "b": person})
    by_person = Trial.of(None, *data.split((0.5, 0.5), by="b"))
    units, fine = person_units(by_person)
    assert (len(np.unique(units[1])), len(np.unique(fine[1]))) == (10, 20)
    early, late = pair_up(by_person)[1].tables  # a recording is never cut
    assert len(early) == len(late) == 30
    assert not np.intersect1d(early[:, 0], late[:, 0]).size
    crossing = Trial.of(None, *data.split((0.5, 0.5), by="a"))
    assert len(np.unique(person_units(crossing)[0][1])) == 20  # recordings: people stand on both sides


def test_figures_are_those_of_the_curve():
    """Against scikit-learn; ties are shared, so a constant score is at chance exactly."""
    rng = np.random.default_rng(0)
    left, right = (x.ravel() for x in np.indices((40, 40)))
    score = np.round(rng.normal(size=1600) + 2 * (left == right), 1)
    auc, linked = verify(score, left, right)
    assert auc.value == pytest.approx(roc_auc_score(left == right, score))
    false, true, _ = roc_curve(left == right, score, drop_intermediate=False)
    assert linked.value == pytest.approx(np.interp(0.01, false, true))
    assert [m.value for m in verify(np.zeros(1600), left, right)] == pytest.approx([0.5, 0.01])
    few = left < 9
    assert verify(score[few], left[few], right[few])[1] is None  # fewer pairs of people than one false positive needs


def test_a_rate_of_zero_has_an_interval():
    """People drawn again move the threshold, so the rate varies although it is 0 here."""
    left, right = (x.ravel() for x in np.indices((100, 100)))
    same, other = left == right, np.flatnonzero(left != right)
    score = np.zeros(len(left))
    score[np.random.default_rng(0).permutation(other)[:104]] = 2  # a little more than 1 %
    score[np.flatnonzero(same)[:2]] = 1
    linked = verify(score, left, right)[1]
    assert linked.value == 0
    assert linked.high < 0.2


@pytest.fixture(scope="module")
def report() -> Report:
    attack, test = people(400, byte=True).split((0.5, 0.5), random_state=0)
    shown = [d.X[["byte", "word"]] for d in (attack, test)]
    return tacit.audit(tuple(shown), attack, test, attackers="logistic", measurements=["linkability", "singling_out"])


def test_both_are_in_the_report(report):
    assert [f.name for f in report.findings[:2]] == ["singling_out"] * 2
    link = by_kind([f for f in report.findings if f.name == "linkability"])
    assert link.tpr_at_1 == report.headline("linkability")
    assert link.tpr_at_1.value > 0.99
    assert link.raw["AUC"].value > 0.99  # the raw table has the byte too
    assert Report.from_json(report.to_json()) == report
    assert "linkability" in str(report)


def test_a_gate_holds_the_upper_ends(report):
    report.require(measured={"linkability": 1.0, "singling_out": 1.0})
    for name in ("linkability", "singling_out"):
        with pytest.raises(RequirementNotMet):
            report.require(measured={name: 0.005})
    attack, test = people(100).split((0.5, 0.5), random_state=0)
    bare = tacit.audit(None, attack, test, attackers="logistic", measurements=())
    assert bare.headline("linkability") is None
    with pytest.raises(RequirementNotMet):
        bare.require(measured={"linkability": 1.0})


@pytest.mark.slow
def test_raw_windows_of_unseen_people_link(real):
    data = real("motionsense", stride=40)
    people = data.units["gender"]
    tested = np.isin(people, np.unique(people)[::2])
    found = by_kind(linkability(Trial.of(None, data.take(~tested), data.take(tested))))
    assert found.auc.low > 0.5
