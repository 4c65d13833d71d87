"""A release is measured once: labels, releases and the floor have one place, and every verb reads them there."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import tacit
from tacit import labels
from tacit.auditing import measurement_names
from tacit.auditing.measurements import load_measurements, measurement, unregister
from tacit.auditing.trial import Trial
from tacit.cli import app
from tacit.errors import InputError
from tacit.labels import MISSING, Labels, encode_labels, stacked
from tacit.records.dataset import Dataset
from tacit.records.intake import encoded_once
from tacit.report.findings import Finding
from tacit.report.report import Report

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
    other = tacit.audit(label, attack, test, ["logistic"], measurements="no-baseline")
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


@pytest.fixture
def toy():
    """A measurement that is registered as one function."""

    @measurement("toy", needs="a release")
    def toy(trial, context):
        return [Finding("toy", "first column", 0.625, 0.5, 0.75, 0.5, "a toy", "share")]

    yield
    unregister("toy")


@pytest.mark.usefixtures("toy")
def test_a_new_measurement_is_one_function(code, parts, tmp_path):
    """It is in `measurements=`, on the command line, in the terminal, on the page and in JSON without another edit."""
    report = tacit.audit(code, *parts[1:], ["logistic"], measurements=["toy"])
    [found] = report.findings
    assert (found.subject, found.value, found.beyond_chance) == ("first column", 0.625, False)
    assert Report.from_json(report.to_json()).findings == report.findings
    assert "first column" in str(report)
    assert "first column" in report.to_html(tmp_path / "page.html").read_text()
    assert "toy" in measurement_names()
    assert tacit.audit(code, *parts[1:], ["logistic"], measurements="no-baseline").findings == report.findings
    raw = tacit.audit(None, *parts[1:], ["logistic"], measurements="all")
    assert raw.findings
    assert raw.headline("toy") is None  # there is no release
    with pytest.raises(InputError, match="toy"):
        tacit.audit(None, *parts[1:], ["logistic"], measurements="toy")
    with pytest.raises(InputError, match="unknown"):
        tacit.audit(code, *parts[1:], ["logistic"], measurements="toys")


@pytest.mark.usefixtures("toy")
def test_the_command_line_lists_and_makes_it(parts, tmp_path):
    command = typer.main.get_command(app)
    assert "toy" in command.get_command(typer.Context(command), "audit").epilog
    attack, test = (d.X.assign(**d.y, **d.sensitive) for d in parts[1:])
    table = pd.concat([attack, test], ignore_index=True)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.iloc[:, :1].to_csv(tmp_path / "r.csv", index=False)
    words = ["audit", str(tmp_path / "r.csv"), "--data", str(tmp_path / "t.csv"), "--target", "income"]
    words += ["--sensitive", "sex", "--measure", "toy", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert [f["name"] for f in json.loads((tmp_path / "audit.json").read_text())["findings"]] == ["toy"]


def test_every_module_of_measurements_registers_its_name():
    """And on raw data of single records few have anything to measure."""
    registered = {m.name: m for m in load_measurements()}
    assert measurement_names() == sorted(registered)
    assert all(m.measure.__doc__ for m in registered.values())


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
