"""Singling out: predicates of a release that pick out one person of the raw table, against a control."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.measurements import load_measurements
from tacit.auditing.measurements.singling_out import GAIN, RELEASED, People, singling_out
from tacit.auditing.trial import Trial, TrialSettings
from tacit.errors import InputError
from tacit.records.dataset import Dataset

pytestmark = pytest.mark.usefixtures("two_questions")


def table(n: int = 600, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"c{i}": rng.choice(list("abcdefghij"), n) for i in range(4)})
    X["age"] = rng.integers(18, 90, n)
    return Dataset(X, None, pd.Series(rng.choice(["f", "m"], n), name="sex"))


def singled(data: Dataset, release=None, seed: int = 0, **asked):
    attack, test = data.split((0.5, 0.5), random_state=seed)
    release = release(attack, test) if callable(release) else release
    found = singling_out(Trial.of(release, attack, test, TrialSettings(seed=seed, **asked)))
    return {(f.subject.removeprefix("predicates of "), f.kind): f for f in found}


def gains(found):
    return [f for (_, kind), f in found.items() if kind == GAIN]


def anybody(found) -> bool:
    """Whether a release picks people out more often than chance."""
    return any(f.beyond_chance for f in gains(found))


def test_a_raw_table_singles_out_and_a_drawn_one_does_not():
    raw = singled(table())
    assert raw["all columns", RELEASED].value == 1
    assert raw["all columns", GAIN].low > 0.9
    assert anybody(raw)

    def drawn(attack, test):
        return tuple(d.X for d in table(600, 99).split((0.5, 0.5), random_state=0))

    assert not anybody(singled(table(), drawn))


@pytest.mark.parametrize("runs", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_tables_drawn_independently_gain_nothing(runs):
    """At most 5 of 100 miss by design: more than three of 12 with probability .002, more than 12 of 100 with .002."""
    inside = 0
    for seed in range(runs):
        other = [d.X for d in table(400, 1000 + seed).split((0.5, 0.5), random_state=0)]
        found = singled(table(400, seed), lambda attack, test, o=other: tuple(o), seed)
        inside += all(m.low <= 0 <= m.high for m in gains(found))
    assert inside >= (88 if runs == 100 else 9)


def test_two_rows_of_one_person_are_one_person():
    rows = People({"job": np.array(["baker", "baker", "smith"])}, np.array([0, 0, 1]))
    assert rows.one({"job": ("baker", "baker")})
    assert not People(rows.table, np.arange(3)).one({"job": ("baker", "baker")})
    assert not rows.one({"job": ("nurse", "nurse")})
    ages = People({"age": np.array([20.0, 30.0, 40.0])}, np.arange(3))
    ends = [(30.0, 30.0), (25.0, 35.0), (30.0, np.inf), (-np.inf, 20.0)]
    assert [ages.one({"age": e}) for e in ends] == [True, True, False, True]
    data = table(300)
    twice = Dataset(pd.concat([data.X, data.X]), None, pd.concat([data.sensitive] * 2), np.tile(np.arange(300), 2))
    assert singled(twice)["all columns", RELEASED].value == 1
    alone = singled(Dataset(twice.X, None, twice.sensitive))  # nobody says that they are the same people
    # whoever stands twice in the table is not alone there
    assert int(alone["all columns", GAIN].attacker.split()[0]) < 400


def test_shifted_numbers_are_asked_by_how_far_they_are():
    data = table()

    class Noisy:
        def transform(self, X):
            return X.assign(age=X["age"] + 0.25)

    found = singled(data, Noisy())
    assert found["all columns", GAIN].low > 0.5


def test_raw_columns_are_guessed_from_a_release_that_has_none_of_them():
    """A rotation tells everything; the same of other people tells nothing of these."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X = pd.DataFrame(rng.normal(size=(2000, 3)), columns=list("abc"))
    data = Dataset(X, None, pd.Series(rng.choice(["f", "m"], 2000), name="sex"))
    other = rng.normal(size=(2, 1000, 3)) @ turn
    turned = singled(data, lambda attack, test: (attack.X.to_numpy() @ turn, test.X.to_numpy() @ turn))
    assert anybody(turned)
    assert not anybody(singled(data, lambda attack, test: tuple(other)))


def test_where_it_does_not_apply():
    train, attack, test = tacit.load_dataset("gaussians", n=300).split((0.4, 0.3, 0.3), random_state=0)
    f = tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    assert singling_out(Trial.of(f, attack, test)) == []  # four codes: nobody is alone
    rng = np.random.default_rng(0)
    windows = [Dataset(rng.normal(size=(60, 1, 4)), None, rng.choice(["a", "b"], 60)) for _ in range(2)]
    [measurement] = [m for m in load_measurements() if m.name == "singling_out"]
    assert not measurement.planned(Trial.of(None, *windows))
    with pytest.raises(InputError, match="singling_out"):
        measurement.check(Trial.of(None, *windows, TrialSettings(measurements=("singling_out",))))
