"""Whoever forgets to say whose records are whose is asked."""

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.forgotten_units import forgotten_units


def table(named, units=None):
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(40), 50)
    s = rng.integers(2, size=40)[person if named else rng.permutation(person)]
    X = pd.DataFrame({"person": person, "value": rng.standard_normal(2000)})
    return tacit.Dataset(X, rng.integers(2, size=2000), pd.DataFrame({"s": s}), units)


def test_a_column_that_names_people_is_noticed():
    assert "'person' has 40 values" in forgotten_units(table(named=True))
    assert forgotten_units(table(named=True, units=np.repeat(np.arange(40), 50))) is None
    assert forgotten_units(table(named=False)) is None
    attack, test = table(named=True).split((0.5, 0.5))
    with pytest.warns(tacit.TacitWarning, match="records may repeat people"):
        report = tacit.audit(None, attack, test, ["logistic"], measurements="no-baseline")
    assert any("records may repeat people" in note for note in report.notes)


def test_ordinary_tables_raise_no_alarm(real):
    assert forgotten_units(real("adult")) is None
    assert forgotten_units(tacit.load_dataset("digits")) is None


def test_windows_of_one_recording_are_noticed():
    rng = np.random.default_rng(0)
    signal = np.cumsum(rng.standard_normal((2, 4100)), axis=1)
    windows = np.stack([signal[:, i : i + 100] for i in range(0, 4000, 10)])
    s = rng.integers(2, size=400)
    assert "resemble the next" in forgotten_units(tacit.Dataset(windows, s, s))
    assert forgotten_units(tacit.Dataset(windows[rng.permutation(400)], s, s)) is None
