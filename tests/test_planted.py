"""Planted leaks are found, and nothing is found where nothing is planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from planted import WORLDS, parts_of
from tacit.auditing.attackers import PRESETS
from tacit.auditing.attacks.row_order import RowOrder
from tacit.auditing.attacks.units import Joined
from tacit.auditing.lookup import Lookup
from tacit.auditing.probes import QUICK, STRONG, find_probes
from tacit.auditing.received_columns import Columns
from tacit.auditing.series import IntervalQuantiles, RandomConvolutions
from tacit.auditing.suite import AttackSuite
from tacit.auditing.trial import Trial
from tacit.auditing.weighing import stack
from tacit.errors import TacitError
from tacit.records.dataset import Dataset

# one of each kind, for every run; the slow test has them all
FAST = [
    "parity6", "sine200", "float_lsb", "float32_bit", "minus_zero64", "cents_parity", "integer_mod7", "sum_mod5",
    "epoch_timestamp", "text_timestamp", "name_ending", "product_code", "columns_nearly_equal", "nan_parity",
    "household_token_number", "keyed_noise_of_equal_records",
]  # fmt: skip
# needs what an audit without `alongside` does not have; see docs/threat-model.md
MISSED_BY_ALL = {"auxiliary"}
REFUSED = {"infinity"}
MISSED_BY_QUICK = {"integer_mod24"}


def reads(name: str, preset: str, only: list[str] | None = None) -> float:
    """What a preset (or some of its attackers) reads of a world, by the attack the world is about."""
    planted, Za, attack, Zt, test = parts_of(name)
    suite = AttackSuite({n: PRESETS[preset][n] for n in only} if only else preset)
    trial = Trial((attack, test), (Za, Zt))
    if planted.knows == "row order":
        return RowOrder().run(trial, suite)["s"].value
    if planted.knows == "two releases of a unit":
        return Joined().run(trial, suite)["s"].value
    return suite.measure(trial, "sensitive")["s"].value


@pytest.mark.parametrize("name", FAST)
def test_a_planted_leak_is_found(name):
    """Seeded. The truth is within .05: three standard errors of 3,200 rows are .027."""
    truth = parts_of(name)[0].truth
    assert reads(name, "quick", ["lookup", "probing"]) == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize(
    "name",
    ["product_code", "words_equal", "word_length", "case_of_many_words", "digits_inside_words",
     "trailing_blank_of_many_words"],
)  # fmt: skip
def test_a_leak_in_rare_words_is_found_by_the_whole_preset(name):
    """The encoder gives rare words one value; counting that value must not replace the attackers that read words."""
    planted, Za, attack, Zt, test = parts_of(name, 2400)
    found = AttackSuite("quick").measure(Trial((attack, test), (Za, Zt)), "sensitive")["s"]
    assert found.value == pytest.approx(planted.truth, abs=0.06)


def test_ordinary_attackers_do_not_find_these():
    """The control: what the fast cases plant is hidden from trees and networks."""
    for name in ("parity6", "float_lsb", "integer_mod7", "name_ending"):
        assert reads(name, "quick", ["trees"]) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["quick", "strong"])
@pytest.mark.parametrize("name", sorted(set(WORLDS) - REFUSED))
def test_every_planted_leak_is_found_or_documented(name, preset):
    found = reads(name, preset)
    truth = parts_of(name)[0].truth
    missed = MISSED_BY_ALL | (MISSED_BY_QUICK if preset == "quick" else set())
    if name in missed:
        assert found < truth - 0.05  # a miss that is mended leaves the list, and the page that documents it
    else:
        assert found == pytest.approx(truth, abs=0.05)


def test_the_suite_is_large_enough_and_its_exceptions_are_documented():
    assert len(WORLDS) >= 40
    page = (Path(__file__).parents[1] / "docs" / "threat-model.md").read_text()
    for name in MISSED_BY_ALL | MISSED_BY_QUICK | REFUSED:
        assert f"`{name}`" in page


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_encoded_is_refused(name):
    with pytest.raises(TacitError, match="NaN or infinity"):
        reads(name, "quick", ["trees"])


@pytest.mark.parametrize("preset", ["row_order", "sorted_blocks", "equal_to_the_previous_row"])
def test_row_order_is_read(preset):
    assert reads(preset, "quick", ["trees", "probing"]) == pytest.approx(1.0, abs=0.05)


def test_row_order_of_chance_is_at_guessing():
    """Nominal 95 % of 10 runs: four or more misses are a 1-in-1,000 event under fresh seeds; these are fixed."""
    missed = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        data = Dataset(rng.standard_normal((600, 2)), None, pd.DataFrame({"s": rng.integers(2, size=600)}))
        attack, test = data.split((0.5, 0.5), random_state=seed)
        suite = AttackSuite({"trees": PRESETS["quick"]["trees"]}, seed)
        r = RowOrder().run(Trial((attack, test), (attack.X, test.X)), suite)["s"]
        missed += not r.low <= 0.5 <= r.high
    assert missed <= 3


def test_two_records_of_a_unit_are_joined():
    assert reads("two_record_join", "quick", ["trees"]) == pytest.approx(1.0, abs=0.05)
    _, Za, attack, Zt, test = parts_of("two_record_join")
    trees = AttackSuite({"trees": PRESETS["quick"]["trees"]})
    alone = trees.measure(Trial((attack, test), (Za, Zt)), "sensitive", headline="accuracy")
    assert alone["s"].value < 0.55  # the control: one record says nothing
    _, Za, attack, Zt, test = parts_of("float_lsb")
    assert not Joined().applies(Trial((attack, test), (Za, Zt)))  # nobody has two records there


@pytest.mark.parametrize("effort", [QUICK, pytest.param(STRONG, marks=pytest.mark.slow)], ids=["quick", "strong"])
def test_a_search_on_labels_of_chance_keeps_nothing(effort):
    """False alarms are 1 in 100 a search: three or more of 30 would be a 1-in-280 event; the seeds are fixed."""
    kept = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        words = [f"{a}-{b}" for a, b in rng.integers(1000, size=(400, 2))]
        numbers = {"x": rng.standard_normal(400), "i": rng.integers(1000, size=400), "b": rng.integers(2, size=400)}
        frame = pd.DataFrame({"w": words, **numbers}).set_axis(range(4), axis=1)
        y = rng.integers(3, size=400)
        kept += bool(find_probes(Columns(np.zeros((400, 1)), frame), y, 3, effort, seed))
    assert kept <= 2


@pytest.mark.slow
def test_presets_are_at_guessing_on_labels_of_chance():
    """60 runs of quick at nominal 95 %: 10 or more misses would be a 1-in-1,350 event."""
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(500 + seed)
        frame = pd.DataFrame({"x": rng.standard_normal(600), "i": rng.integers(50, size=600)})
        data = Dataset(frame, None, pd.DataFrame({"s": rng.integers(2, size=600)}))
        attack, test = data.split((0.5, 0.5), random_state=seed)
        r = AttackSuite("quick", seed).measure(Trial.of(None, attack, test), "sensitive")["s"]
        missed += not r.low <= r.guessing <= r.high
    assert missed <= 9


def test_a_look_up_falls_back_to_how_common_classes_are():
    token, label = np.repeat([[1.0], [2.0], [3.0]], 20, axis=0), np.repeat([0, 0, 1], 20)
    p = Lookup().fit(token, label).predict_proba(np.array([[1.0], [3.0], [9.0]]))
    assert p.argmax(1).tolist() == [0, 1, 0]
    np.testing.assert_allclose(p[2], [2 / 3, 1 / 3])
    silent = Lookup().fit(np.random.default_rng(0).random((60, 1)), label)
    assert silent.silent


def test_a_look_up_tells_apart_what_encoders_merge():
    frame = pd.DataFrame({"z": np.tile([0.0, -0.0], 50)})
    y = np.tile([0, 1], 50)
    columns = Columns(np.zeros((100, 1)), frame.set_axis(range(1), axis=1))
    assert (Lookup().fit(columns, y).predict_proba(columns).argmax(1) == y).all()


def test_the_stack_weighs_by_what_held_rows_say():
    """Two halves of the truth and one liar: together better than either, the liar has no say."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=(2, 2000))

    def opinion(labels, right):
        said = np.where(rng.random(len(labels)) < right, labels, 1 - labels)
        return np.eye(2)[said] * 0.6 + 0.2

    held, fresh = ({"a": opinion(s, 0.75), "b": opinion(s, 0.75), "liar": opinion(s, 0.1)} for s in y)
    out, answer = stack(held, y[0], fresh, np.array([0.5, 0.5]), 0)
    assert (answer.argmax(1) == y[1]).mean() == pytest.approx(0.75, abs=0.04)
    assert (out.argmax(1) == y[0]).mean() == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("reader", [IntervalQuantiles, RandomConvolutions])
def test_windows_are_read(reader):
    """A burst at a place that varies; the control is a burst in every window."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    found = []
    for marked in (y == 1, np.ones(600, dtype=bool)):
        X = rng.standard_normal((600, 2, 64))
        for i, at in enumerate(rng.integers(8, 56, size=600)):
            X[i, 0, at : at + 4] += 4 * marked[i]
        model = reader((2, 64), 0).fit(X[:400].reshape(400, -1), y[:400])
        found.append((model.predict_proba(X[400:].reshape(200, -1)).argmax(1) == y[400:]).mean())
    assert found[0] > 0.9
    assert found[1] < 0.65
