"""A release is measured once: labels, releases and the floor have one place, and every verb reads them there."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import labels
from tacit.auditing.attacks import REGISTERED, AttackKind, register_attack
from tacit.auditing.trial import Trial
from tacit.labels import MISSING, Labels, encode_labels, stacked
from tacit.records.dataset import Dataset
from tacit.records.intake import encoded_once

pytestmark = pytest.mark.usefixtures("few_steps")  # any code will do


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(2, size=n)
    y = (rng.random(n) < 0.3 + 0.4 * s).astype(int)
    X = pd.DataFrame({"a": y + rng.normal(size=n), "b": s + rng.normal(size=n), "c": rng.choice(["u", "v"], n)})
    return Dataset(X, pd.DataFrame({"income": y}), pd.DataFrame({"sex": np.where(s == 1, "f", "m")}))


@pytest.fixture(scope="module")
def parts():
    return table().split((0.5, 0.2, 0.3), random_state=0)


@pytest.fixture(scope="module")
def code(parts):
    train = parts[0]
    return tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)


@pytest.fixture
def encoded(monkeypatch):
    """How often each label column was encoded, and how often each was looked at as a measurement."""
    counts = Counter()
    real = {name: getattr(labels, name) for name in ("encode_labels", "looks_continuous")}

    def encode(values, *args, **kwargs):
        counts.update(map(str, values.columns))
        return real["encode_labels"](values, *args, **kwargs)

    def looks(column):
        counts[f"{column.name}, looked at"] += 1
        return real["looks_continuous"](column)

    for module in [m for n, m in sys.modules.items() if n.startswith("tacit")]:
        for name, spy in (("encode_labels", encode), ("looks_continuous", looks)):
            if getattr(module, name, None) is real[name]:
                monkeypatch.setattr(module, name, spy)
    return counts


def test_an_audit_encodes_every_label_column_once(encoded, code):
    """21 times, before labels belonged to the data set. Other data, so that nothing was encoded before."""
    _, attack, test = table().split((0.5, 0.2, 0.3), random_state=0)
    report = tacit.audit(code, attack, test, ["logistic"])
    assert report.label_only  # the floor took part
    assert report.limit["sex"]
    assert encoded == {"income": 1, "sex": 1, "income, looked at": 1, "sex, looked at": 1}


def test_labels_are_encoded_once_for_a_data_set_and_its_parts(encoded):
    data = table()
    one, two = data.split((0.5, 0.5), random_state=0)
    both = one.labels("sensitive"), two.take(np.arange(20)).labels("sensitive"), data.labels("sensitive")
    assert encoded["sex"] == 1
    assert all(found.classes[0] is both[0].classes[0] for found in both)
    assert (both[2].classes[0][both[0].codes[:, 0]] == one.sensitive["sex"]).all()
    # the control: other labels are another data set's
    other = replace(one, sensitive=pd.DataFrame({"sex": np.arange(len(one)) % 3}))
    assert other.labels("sensitive").classes[0].tolist() == [0, 1, 2]
    assert encoded["sex"] == 2


def test_labels_of_two_data_sets_meet_by_value():
    one = encode_labels(pd.DataFrame({"s": ["b", None, "c"]}), "s", 3)
    two = encode_labels(pd.DataFrame({"s": ["a", "c"]}), "s", 2)
    both = stacked(one, two)
    assert both.classes[0].tolist() == ["a", "b", "c"]
    assert both.codes[:, 0].tolist() == [1, MISSING, 2, 0, 2]
    some = both.take(np.array([1, 2, 4])).present()
    assert some.classes[0].tolist() == ["c"]
    assert some.codes[:, 0].tolist() == [MISSING, 0, 0]
    assert Labels((), (), np.empty((2, 0), dtype=int)).present().codes.shape == (2, 0)


@pytest.fixture
def released(monkeypatch):
    """How often parts of each length were released."""
    counts, real = Counter(), tacit.CodebookFilter.transform
    monkeypatch.setattr(
        tacit.CodebookFilter, "transform", lambda f, X, *args: counts.update([len(X)]) or real(f, X, *args)
    )
    return counts


def test_an_audit_releases_each_part_once(released, code, parts):
    tacit.audit(code, *parts[1:], ["logistic"])
    assert released == {len(parts[1]): 1, len(parts[2]): 1}


def test_a_frontier_releases_each_part_once_for_a_point(released, parts):
    """And its floor is the audit's: the same rows, the same figures. Twice a point before, and another floor."""
    rule = tacit.CodebookFilter(4)
    front = tacit.frontier(rule, *parts, values=[0.0, 3.0], seeds=1, attackers=["logistic"], n_jobs=1, limit=True)
    assert released == {len(parts[1]): 2, len(parts[2]): 2}
    f = front.choose(max_leakage={"sex": 0.99})
    audited = tacit.audit(f, *parts[1:], ["logistic"])
    assert f.report_.label_only["sex"].value == audited.label_only["sex"].value
    assert f.report_.label_only_utility["income"].value == audited.label_only_utility["income"].value
    assert f.report_.limit == front.reference.limit
    assert f.report_.limit["sex"]
    # the control: predicted from the training rows the figures are others
    train, attack, test = parts
    label = tacit.baselines.LabelOnly(random_state=0).fit(train.X, train.y)
    other = tacit.audit(label, attack, test, ["logistic"], floor=False)
    assert other.utility["income"].value != audited.label_only_utility["income"].value


def test_rows_of_the_fit_are_told_from_others(code, parts):
    train, attack, test = parts
    whole = Trial.of(code, Dataset.take(train, np.arange(100)), test)
    assert whole.n_seen == 100
    assert not whole.fresh
    trial = Trial.of(code, attack, test)
    assert trial.fresh
    assert trial.unseen() is trial
    assert trial.versions() == [trial]
    mixed = Trial(trial.data, trial.Z, code, seen=(np.arange(len(attack)) < 30, np.zeros(len(test), dtype=bool)))
    fresh, every = mixed.versions()
    assert (len(fresh.attack), len(every.attack)) == (len(attack) - 30, len(attack))
    assert fresh.n_seen == 0
    assert (np.asarray(fresh.Z[0]) == np.asarray(trial.Z[0])[30:]).all()


def test_a_new_attack_is_one_class(code, parts):
    """It registers itself, and every audit to which it applies runs and reports it."""

    @register_attack("the first column", place=35)
    class FirstColumn(AttackKind):
        knows = "the first raw column"

        def applies(self, trial):
            return trial.release is not None

        def run(self, trial, suite):
            return suite.measure(trial.showing([d.X[["a"]] for d in trial.data]), "sensitive")

    try:
        report = tacit.audit(code, *parts[1:], ["logistic"], floor=False)
        raw = tacit.audit(None, *parts[1:], ["logistic"], floor=False)
    finally:
        REGISTERED.pop("the first column")
    found = next(a for a in report.attacks if a.kind == "the first column")
    assert found.knows == "the first raw column"
    assert found.results["sex"].guessing == 0.5
    assert not any(a.kind == "the first column" for a in raw.attacks)


def test_every_attack_says_what_it_knows_and_whether_it_applies(parts):
    """The suite that a new attack joins for free: on raw data of single records no attack has anything to read."""
    trial = Trial.of(None, *parts[1:])
    assert len(REGISTERED) >= 11
    for kind, cls in REGISTERED.items():
        for attack in cls.planned(trial):
            assert attack.kind.startswith(kind)
            assert attack.knows
            assert attack.applies(trial) is False


def test_records_are_encoded_once_where_nobody_changes_them_and_anew_elsewhere():
    table = pd.DataFrame({"age": np.arange(60.0), "job": ["cook", "nurse", "clerk"] * 20})
    y, s = np.arange(60) >= 30, np.arange(60) % 2
    intake = tacit.baselines.LinearARL(1).fit(table, y, sensitive_features=s).mechanism_.schema
    with encoded_once():
        first = intake.encode(table)
        assert intake.encode(table) is first
        assert intake.encode(table.copy()) is not first  # other records may be other numbers
        with encoded_once():
            assert intake.encode(table) is first
    table["age"] += 7  # outside, a table that was changed in place is read as it is now
    assert not np.array_equal(intake.encode(table), first)
