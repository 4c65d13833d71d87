"""Other kinds of attack: each finds what it is for, and says what its attacker knows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import tacit
from tacit.errors import InputError
from tacit.records.dataset import Dataset


def kinds(report):
    return {a.kind: a for a in report.attacks}


@pytest.fixture(scope="module")
def walkers():
    """120 people, 20 windows each; a window says a little about the person's secret."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(120), 20)
    s = np.repeat(rng.integers(2, size=120), 20)
    X = 0.5 * s[:, None] + rng.standard_normal((2400, 2))
    return Dataset(X, pd.DataFrame({"y": rng.integers(2, size=2400)}), pd.DataFrame({"s": s}), units=person)


def test_pooled_windows_give_a_person_away(walkers):
    attack, test = walkers.split((0.5, 0.5))
    report = tacit.audit(None, attack, test, attackers="logistic", measurements="no-baseline")
    five, twenty = (kinds(report)[f"pooled, {m}"].results["s"] for m in (5, 20))
    assert report.leakage["s"].value < 0.7 < five.value < twenty.value
    assert twenty.value > 0.9
    assert twenty.n == 60  # people, not windows
    assert "few units" in kinds(report)["pooled, 20"].results["s"].attacker


def test_pooling_is_at_guessing_when_nothing_leaks(walkers):
    blank = Dataset(
        np.random.default_rng(1).standard_normal((2400, 2)), walkers.y, walkers.sensitive, units=walkers.units_of()
    )
    report = tacit.audit(None, *blank.split((0.5, 0.5)), attackers="logistic", measurements="no-baseline")
    pooled = kinds(report)["pooled, 20"].results["s"]
    assert pooled.low <= 0.5 <= pooled.high


def test_transfer_is_weaker_than_adaptive():
    """A release that turns the data around fools an attacker trained on raw data, and nobody else."""
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=800)
    data = Dataset(
        2.0 * s[:, None] - 1 + rng.standard_normal((800, 2)), pd.DataFrame({"y": 1 - s}), pd.DataFrame({"s": s})
    )
    attack, test = data.split((0.5, 0.5))
    report = tacit.audit(
        FunctionTransformer(np.negative), attack, test, attackers="logistic", measurements="no-baseline"
    )
    assert kinds(report)["transfer"].results["s"].value < 0.3
    assert report.leakage["s"].value > 0.9
    assert "no released ones" in kinds(report)["transfer"].knows
    narrow = tacit.audit(
        (attack.X[:, :1], test.X[:, :1]), attack, test, attackers="logistic", measurements="no-baseline"
    )
    assert "transfer" not in kinds(narrow)  # another format: nothing to transfer


def test_averaging_undoes_noise_that_is_drawn_anew():
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=1500)
    X = np.column_stack([3.0 * s, rng.standard_normal(1500)])
    data = Dataset(X + 0.1 * rng.standard_normal((1500, 2)), pd.DataFrame({"y": s}), pd.DataFrame({"s": s}))
    train, attack, test = data.split()
    f = tacit.EIGAN(1, alpha=1.0, noise=2.0, epochs=5, random_state=0).fit(train.X, train.y)
    report = tacit.audit(f, attack, test, attackers="logistic", measurements="no-baseline")
    averaged = kinds(report)["averaging"].results["s"]
    assert averaged.value > report.leakage["s"].value + 0.1
    quiet = tacit.audit(f.with_noise(None), attack, test, attackers="logistic", measurements="no-baseline")
    assert "averaging" not in kinds(quiet)


def test_every_kind_of_noise_is_averaged(tmp_path):
    """Also where the parameter is not called noise, and in a bundle."""
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=1200)
    data = Dataset(3.0 * s[:, None] + rng.standard_normal((1200, 3)), pd.DataFrame({"y": s}), pd.DataFrame({"s": s}))
    train, attack, test = data.split()
    laplace = tacit.baselines.LaplaceMechanism(epsilon=4.0, random_state=0).fit(train.X)
    bundle = tacit.load(tacit.save(laplace, tmp_path / "l.tacit"), noise_key=laplace.noise_key)
    for release in (laplace, bundle):
        report = tacit.audit(release, attack, test, attackers="logistic", measurements="no-baseline")
        assert kinds(report)["averaging"].results["s"].value > report.leakage["s"].value + 0.03


def test_two_views_give_more_than_one():
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=2000)
    a = rng.integers(2, size=2000)
    data = Dataset(np.column_stack([a, a ^ s]).astype(float), None, pd.DataFrame({"s": s}))
    attack, test = data.split((0.5, 0.5))
    first, second = (FunctionTransformer(lambda X, i=i: X[:, [i]]) for i in (0, 1))
    report = tacit.audit(first, attack, test, attackers="trees", measurements="no-baseline", views=[second])
    assert report.leakage["s"].value < 0.56
    assert kinds(report)["several views"].results["s"].value > 0.99


def test_side_information_is_shown_with_and_without():
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=1000)
    X = pd.DataFrame({"x": rng.standard_normal(1000), "job": np.where(s == 1, "a", "b")})
    attack, test = Dataset(X, None, pd.DataFrame({"s": s})).split((0.5, 0.5))
    only_x = FunctionTransformer(lambda X: X[["x"]])
    report = tacit.audit(only_x, attack, test, attackers="logistic", measurements="no-baseline", alongside=["job"])
    assert report.leakage["s"].value > 0.99
    assert kinds(report)["without side information"].results["s"].value < 0.6


class Remembers:
    """A release that marks the rows it was fitted on."""

    def fit(self, X):
        self.rows = {x.tobytes() for x in np.ascontiguousarray(X)}
        return self

    def transform(self, X):
        return np.array([[x.tobytes() in self.rows] for x in np.ascontiguousarray(X)], dtype=float)


def test_membership_of_the_fit():
    rng = np.random.default_rng(0)
    data = Dataset(rng.standard_normal((1200, 3)), rng.integers(2, size=1200), rng.integers(2, size=1200))
    train, attack, test = data.split((0.4, 0.3, 0.3))
    leaky = tacit.audit(
        Remembers().fit(train.X),
        attack,
        test,
        attackers="logistic",
        measurements="no-baseline",
        options=tacit.AuditOptions(train=train),
    )
    assert kinds(leaky)["membership"].results["membership"].value > 0.99
    sound = FunctionTransformer(lambda X: X[:, :1])
    report = tacit.audit(
        sound, attack, test, attackers="logistic", measurements="no-baseline", options=tacit.AuditOptions(train=train)
    )
    found = kinds(report)["membership"].results["membership"]
    assert found.low <= 0.5 <= found.high


def test_scan_finds_the_other_columns_that_leak():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"shown": rng.standard_normal(1200), "hidden": rng.standard_normal(1200), "town": rng.choice(["n", "s"], 1200)}
    )
    data = Dataset(X, None, pd.DataFrame({"s": rng.integers(2, size=1200)}))
    attack, test = data.split((0.5, 0.5))
    report = tacit.audit(
        FunctionTransformer(lambda X: X[["shown"]]),
        attack,
        test,
        attackers="logistic",
        measurements=["auto", "other_columns", "no-baseline"],
    )
    scanned = kinds(report)["scan"].results
    assert next(iter(scanned)) == "shown"
    assert scanned["shown"].value > 0.9
    assert scanned["hidden"].low <= scanned["hidden"].guessing
    assert scanned["town"].low <= scanned["town"].guessing
    assert "scan" in str(report)
    assert '"kind": "scan"' in report.to_json()


class Interrupts:
    """An attacker during which the user presses Ctrl-C."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        raise KeyboardInterrupt

    def predict_proba(self, X):
        raise AssertionError


def test_an_interrupt_keeps_what_is_finished(walkers):
    attack, test = walkers.split((0.5, 0.5))
    report = tacit.audit(None, attack, test, attackers=["logistic", Interrupts(), "trees"], measurements="no-baseline")
    assert set(report.leakage["s"].attackers) == {"logistic"}
    assert any("only these attackers finished: logistic" in n for n in report.notes)
    with pytest.raises(KeyboardInterrupt):
        tacit.audit(None, attack, test, attackers=[Interrupts()], measurements="no-baseline")


class Impatient(LogisticRegression):
    """Is interrupted when it is asked about labels for the n-th time."""

    asked = 0

    def fit(self, X, y):
        Impatient.asked += 1
        if Impatient.asked == self.max_iter:
            raise KeyboardInterrupt
        return super().fit(X, y)


@pytest.mark.parametrize("when", [1, 6])
def test_after_an_interrupt_both_sides_have_the_same_attackers(walkers, when):
    """The note named attackers that had not finished, and the target kept more of them than the sensitive attribute."""
    attack, test = walkers.split((0.5, 0.5))
    attack, test = (Dataset(d.X, d.sensitive.rename(columns={"s": "y"}), d.sensitive, d.units) for d in (attack, test))
    Impatient.asked = 0
    attackers = ["logistic", Impatient(max_iter=when), "trees"]
    report = tacit.audit(None, attack, test, attackers=attackers, measurements="no-baseline")
    assert set(report.utility["y"].attackers) == set(report.leakage["s"].attackers) == {"logistic"}
    assert report.utility["y"].attacker == report.leakage["s"].attacker == "logistic"
    assert any("only these attackers finished: logistic" in n and "Impatient" not in n for n in report.notes)


def test_progress_is_told(walkers):
    told = []
    parts = walkers.split((0.5, 0.5))
    tacit.audit(
        None,
        *parts,
        attackers=["logistic"],
        measurements="no-baseline",
        options=tacit.AuditOptions(callback=lambda *said: told.append(said)),
    )
    assert ("s: logistic", None, None) in told


def test_windows_are_attacked_by_their_shape_and_spectrum():
    """The secret is the frequency of a sine whose phase is random: no single sample says anything."""
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=500)
    time = np.arange(64) / 64
    phase = rng.uniform(0, 2 * np.pi, (500, 1))
    windows = np.sin(2 * np.pi * (5 + 2 * s[:, None]) * time + phase)[:, None] + 0.3 * rng.standard_normal((500, 1, 64))
    attack, test = Dataset(windows, None, pd.DataFrame({"s": s})).split((0.5, 0.5))
    shaped = ["logistic", "convolutional", "spectrum"]
    report = tacit.audit(None, attack, test, attackers=shaped, measurements="no-baseline")
    found = report.leakage["s"].attackers
    assert found["logistic"].value < 0.7
    assert found["spectrum"].value > 0.95
    assert found["convolutional"].value > 0.9
    images = Dataset(windows[:100].reshape(100, 1, 8, 8), None, pd.DataFrame({"s": s[:100]}))
    report = tacit.audit(None, *images.split((0.5, 0.5)), attackers=shaped, measurements="no-baseline")
    assert "convolutional" in report.leakage["s"].attackers
    assert "spectrum" not in report.leakage["s"].attackers
    with pytest.raises(InputError, match="read windows"):
        tacit.audit((attack.X[:, 0], test.X[:, 0]), attack, test, attackers="convolutional", measurements="no-baseline")
