"""Windows: against a slow and obviously right rule, and bad sensor tables refused with advice."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.records.windows import windows


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=60),
    st.lists(st.integers(0, 1), min_size=60, max_size=60),
    st.lists(st.sampled_from([1.0, 1.0, 1.0, 1.2, 4.0]), min_size=60, max_size=60),
    st.integers(2, 8),
    st.integers(1, 12),
)
@settings(max_examples=200, deadline=None)
def test_windows_are_those_of_the_slow_rule(trial, label, steps, length, stride):
    n = len(trial)
    trial, label, time = np.array(trial), np.array(label[:n]), np.cumsum(steps[:n])
    samples = np.column_stack([np.arange(n), -np.arange(n)]).astype(float)
    cut = windows(samples, [trial, label], length, stride, time, max_gap=2.0)
    # a window begins at the first sample of its stretch, or a stride after another place where one could begin
    begins, since = [], 0
    for row in range(n):
        if row and (trial[row], label[row]) == (trial[row - 1], label[row - 1]) and time[row] - time[row - 1] <= 2:
            since += 1
        else:
            since = 0
        rows = np.arange(row, min(row + length, n))
        whole = len(rows) == length and len(set(trial[rows])) == len(set(label[rows])) == 1
        if since % stride == 0 and whole and (np.diff(time[rows]) <= 2).all():
            begins.append(row)
    assert cut.start.tolist() == begins
    assert cut.X.shape == (len(begins), 2, length)
    assert cut.X.dtype == np.float32
    for window, row in zip(cut.X, begins, strict=True):
        assert window[0].tolist() == list(range(row, row + length))
        assert (window[1] == -window[0]).all()
    used = {row + i for row in begins for i in range(length)}
    assert cut.dropped == n - len(used)
    assert not used & set(cut.short)


def table(n=600):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "who": np.repeat(["a", "b", "c"], n // 3),
            "trial": np.tile(np.repeat([1, 2], n // 6), 3),
            "time": np.tile(np.arange(n // 6) / 50, 6),
            "ax": rng.standard_normal(n),
            "ay": rng.standard_normal(n),
            "does": np.tile(np.repeat(["sit", "walk"], n // 12), 6),
            "sex": np.repeat(["f", "m", "f"], n // 3),
        }
    )


ROLES = dict(user="who", trial="trial", time="time", length=20, stride=10)


def test_read_windows(tmp_path):
    samples = table()
    samples.to_csv(tmp_path / "phone.csv.gz", index=False)
    data = tacit.read_windows(tmp_path / "phone.csv.gz", target="does", sensitive=["who", "sex"], **ROLES)
    assert (data.name, data.modality) == ("phone", "window")
    assert data.X.shape == (12 * 4, 2, 20)  # twelve stretches of fifty samples
    assert data.y["does"].value_counts().to_dict() == {"sit": 24, "walk": 24}
    assert len(np.unique(data.units_of("who"))) == 6
    assert len(np.unique(data.units_of("sex"))) == 3
    assert np.allclose(data.X[0, 1], samples["ay"][:20])
    alone = tacit.read_windows(samples, user="who", channels="ax", length=20, stride=10)
    assert list(alone.sensitive.columns) == ["who"]
    assert alone.X.shape == (3 * 19, 1, 20)  # no trial, no label: only users part the rows
    assert len(np.unique(tacit.read_windows(samples, sensitive=[], **ROLES).units_of())) == 6
    dated = samples.assign(time=pd.Timestamp("2024-01-01") + pd.to_timedelta(samples["time"], unit="s"))
    dated.to_csv(tmp_path / "dated.csv", index=False)
    again = tacit.read_windows(tmp_path / "dated.csv", target="does", **ROLES)
    assert np.allclose(again.X, data.X)


def test_gaps_end_a_window_and_are_reported():
    samples = table().drop(index=[*range(25, 30), *range(60, 70)])
    with pytest.warns(tacit.TacitWarning, match=r"1 stretch is shorter .* row 45 \(who a, trial 1, time 1.0\)"):
        data = tacit.read_windows(samples, target="does", **ROLES)
    # 25 and 20 samples of sitting, 10 (too short) and 30 of walking, then ten whole stretches
    assert len(data) == 1 + 1 + 0 + 2 + 4 * 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        untouched = tacit.read_windows(table(), target="does", **ROLES)
    assert len(untouched) == 48


def test_bad_sensor_tables_are_refused_with_advice():
    def refused(frame, message, **changes):
        with pytest.raises(tacit.TacitError, match=message):
            tacit.read_windows(frame, **{**ROLES, "target": "does", **changes})

    samples = table()
    refused(samples, r"no window of length=500: its longest stretch .* has 50 samples; pass length=50 or", length=500)
    short = samples.drop(index=range(210, 400))
    refused(short, r"who b has no window of length=20 from 10 samples.*shorter length")
    with pytest.warns(tacit.TacitWarning, match="1 stretch is"):  # whose identity nobody asks about may be left out
        assert len(tacit.read_windows(short, target="does", sensitive="sex", **ROLES)) == 32
    refused(samples[:230], r"who b has one window of length=20 from 30 samples.*leave that who out", stride=20)
    refused(samples, "no column 'person'", user="person")
    refused(samples, r"'sex' \(channel\).*numbers", channels=["sex"])
    refused(samples, r"'ay' \(target\) is numeric with 600 distinct values; a window ends where", target="ay")
    refused(samples, "'does' is the target and a channel", channels=["ax", "does"])
    broken = samples.copy()
    broken.loc[105, "ay"] = np.nan
    refused(broken, r"column 'ay', row 105 \(who a, trial 2, time 0.1\): found nan, and 1 such.*interpolate")
    broken = samples.copy()
    broken.loc[7, "time"] = broken.loc[6, "time"]
    refused(broken, r"row 7 \(who a, trial 1, time 0.12\): the time stamp repeats.*one sample per instant")
    broken.loc[7, "time"] = 0.0
    refused(broken, r"row 7 .* is earlier than .*sort each recording by time")
    refused(samples.sample(frac=1, random_state=0), "begins again after rows of another recording; sort the table by")
    broken = samples.astype({"trial": float})
    broken.loc[3, "trial"] = np.nan
    refused(broken, r"column 'trial' \(trial\), row 3: missing")
    refused(samples.assign(time="noon o'clock"), "neither numbers nor dates")
    refused(samples, "stride must be a whole number of at least 1", stride=0)
    refused(samples[:0], "0 samples of 2 channels")
