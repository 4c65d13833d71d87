"""Breadth: of every column, how much a release still tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.measurements.breadth import breadth, mean_breadth
from tacit.errors import InputError
from tacit.report.report import Report
from tacit.report.results import shown

pytestmark = pytest.mark.usefixtures("breadths")
QUICK = {"attackers": "logistic", "measurements": "no-baseline"}


def table(n: int = 500, seed: int = 0) -> tacit.Dataset:
    """A number, words with gaps and a day, a copy of the sensitive column; the target is the number with noise."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    x = rng.normal(size=n)
    job = pd.Series(rng.choice(["nurse", "smith", "clerk"], n), dtype=object).where(rng.random(n) < 0.9)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    X = pd.DataFrame({"x": x, "job": job, "day": day, "sex": sex})
    rich = np.where(x + rng.normal(size=n) > 0, "yes", "no")
    return tacit.Dataset(X, pd.Series(rich, name="rich"), pd.Series(sex, name="sex"))


class Columns:
    """Release some columns as they are."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def transform(self, X):
        return X[self.names]


def columns(report):
    """The findings of breadth by column; the first is of all columns."""
    return {f.subject: f for f in [f for f in report.findings if f.name == "breadth"][1:]}


def test_raw_tables_are_told_and_constants_tell_nothing():
    raw = [table(seed=seed).X for seed in (1, 2)]
    assert min(m.value for m in breadth(raw, raw).values()) > 0.9
    assert mean_breadth(breadth([pd.DataFrame({"z": np.zeros(500)})] * 2, raw)).value < 0.02
    some = breadth([d[["job", "sex"]] for d in raw], raw)
    assert min(some[c].value for c in ("job", "sex")) > 0.9
    assert some["x"].value < 0.2
    mean = mean_breadth(some)
    assert 0.3 < mean.value < 0.6
    assert mean.low < mean.value < mean.high


def test_an_audit_measures_every_column_but_the_sensitive_one():
    attack, test = table(seed=1), table(seed=2)
    found = {names: columns(tacit.audit(Columns(*names), attack, test, **QUICK)) for names in [("x",), ("job", "day")]}
    assert set(found["x",]) == {"x", "job", "day", "rich"}
    for names, told in found.items():
        assert all((f.value > 0.9) == (c in names or (c == "rich" and "x" in names)) for c, f in told.items())
    raw = tacit.audit(None, attack, test, **QUICK)
    assert columns(raw)["rich"].value == 1  # what the raw table tells of it is all that a release can
    assert raw.headline("breadth").value > 0.95


def test_it_learns_from_attack_and_measures_on_test():
    """A release that tells the column in `attack` alone tells nothing."""
    attack, test = table(seed=1), table(seed=2)
    noise = pd.DataFrame({"x": np.random.default_rng(3).normal(size=500)})
    report = tacit.audit((attack.X[["x"]], noise), attack, test, **QUICK)
    assert columns(report)["x"].value < 0.2
    report = tacit.audit((attack.X[["x"]], test.X[["x"]]), attack, test, **QUICK)
    assert columns(report)["x"].value > 0.9


def test_it_is_printed_kept_and_drawn(tmp_path):
    attack, test = table(seed=1), table(seed=2)
    report = tacit.audit(Columns("x", "job"), attack, test, **QUICK)
    assert shown(report.headline("breadth").value) in str(report)
    assert Report.from_json(report.to_json()) == report
    page = report.to_html(tmp_path / "page.html").read_text()
    assert 'data-name="breadth"' in page
    assert "<td>day</td>" in page


def test_it_can_be_left_out_and_windows_have_none():
    attack, test = table(seed=1), table(seed=2)
    assert tacit.audit(None, attack, test, attackers="logistic", measurements=()).headline("breadth") is None
    rng = np.random.default_rng(0)
    windows = [tacit.Dataset(rng.normal(size=(60, 1, 4)), None, rng.choice(["a", "b"], 60)) for _ in range(2)]
    assert tacit.audit(None, *windows, **QUICK).headline("breadth") is None
    with pytest.raises(InputError, match="breadth cannot be measured"):
        tacit.audit(None, *windows, measurements=["breadth"])
