"""Breadth: of every column, how much a release still tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.measurements.breadth import breadth
from tacit.errors import InputError
from tacit.report.report import Report

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


def test_raw_tables_are_told_and_constants_tell_nothing():
    raw = [table(seed=seed).X for seed in (1, 2)]
    assert min(m.value for m in breadth(raw, raw).columns.values()) > 0.9
    assert breadth([pd.DataFrame({"z": np.zeros(500)})] * 2, raw).mean < 0.02
    some = breadth([d[["job", "sex"]] for d in raw], raw)
    assert min(some.columns[c].value for c in ("job", "sex")) > 0.9
    assert some.columns["x"].value < 0.2
    assert 0.3 < some.mean < 0.6
    assert some.low < some.value == some.mean < some.high


def test_an_audit_measures_every_column_but_the_sensitive_one():
    attack, test = table(seed=1), table(seed=2)
    found = {names: tacit.audit(Columns(*names), attack, test, **QUICK).breadth for names in [("x",), ("job", "day")]}
    assert set(found["x",].columns) == {"x", "job", "day", "rich"}
    for names, told in found.items():
        assert all((m.value > 0.9) == (c in names or (c == "rich" and "x" in names)) for c, m in told.columns.items())
    raw = tacit.audit(None, attack, test, **QUICK).breadth
    assert raw.columns["rich"].value == 1  # what the raw table tells of it is all that a release can
    assert raw.mean > 0.95


def test_it_learns_from_attack_and_measures_on_test():
    """A release that tells the column in `attack` alone tells nothing."""
    attack, test = table(seed=1), table(seed=2)
    noise = pd.DataFrame({"x": np.random.default_rng(3).normal(size=500)})
    report = tacit.audit((attack.X[["x"]], noise), attack, test, **QUICK)
    assert report.breadth.columns["x"].value < 0.2
    assert tacit.audit((attack.X[["x"]], test.X[["x"]]), attack, test, **QUICK).breadth.columns["x"].value > 0.9


def test_it_is_printed_kept_and_drawn(tmp_path):
    attack, test = table(seed=1), table(seed=2)
    report = tacit.audit(Columns("x", "job"), attack, test, **QUICK)
    assert f"breadth {report.breadth.mean:.3f}".replace(" 0.", " .") in " ".join(str(report).split())
    assert report.breadth.sentence in report.to_markdown()
    assert Report.from_json(report.to_json()) == report
    page = report.to_html(tmp_path / "page.html").read_text()
    assert 'data-draw="breadth"' in page
    assert "<td>day</td>" in page


def test_it_can_be_left_out_and_windows_have_none():
    attack, test = table(seed=1), table(seed=2)
    assert tacit.audit(None, attack, test, attackers="logistic", measurements=()).breadth is None
    rng = np.random.default_rng(0)
    windows = [tacit.Dataset(rng.normal(size=(60, 1, 4)), None, rng.choice(["a", "b"], 60)) for _ in range(2)]
    assert tacit.audit(None, *windows, **QUICK).breadth is None
    with pytest.raises(InputError, match="breadth cannot be measured"):
        tacit.audit(None, *windows, measurements=["breadth"])
