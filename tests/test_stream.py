"""Streams: lines of records, and sensor samples that become windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.release.runtime import load
from tacit.release.sensors import Sensors
from tacit.release.stream import LONGEST, release_lines, text_lines

pytestmark = pytest.mark.filterwarnings("ignore:target .* a function of")  # labels of convenience

LENGTH = 16


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Takes windows of two channels and releases them changed."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 2, LENGTH)), rng.integers(2, size=100)
    f = tacit.baselines.LinearEraser().fit(X, y, sensitive_features=y)
    return tacit.save(f, tmp_path_factory.mktemp("stream") / "w.tacit")


@pytest.fixture(scope="module")
def release(bundle):
    return load(bundle)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"job": rng.choice(["cook", "nurse"], 200), "pay": rng.standard_normal(200)})
    y = rng.integers(2, size=200)
    f = tacit.baselines.PrivatePLS(1).fit(X, y, sensitive_features=rng.integers(2, size=200))
    return tacit.save(f, tmp_path_factory.mktemp("stream") / "t.tacit")


def samples(seed=0, gaps=True):
    """Three people at 50 Hz, each with a break or two."""
    rng = np.random.default_rng(seed)
    people = []
    for who, n in (("ann", 150), ("bob", 90), ("cem", 130)):
        t = np.arange(n) * 0.02
        if gaps:
            t[n // 3 :] += 1.0
            t[n // 3 + 5 :] += 0.5
        people.append(
            pd.DataFrame({"user": who, "time": np.round(t, 3), "ax": rng.standard_normal(n), "ay": rng.random(n)})
        )
    return people


def interleaved(people):
    """One line each in turn, as sensors send."""
    rows = pd.concat(people).sort_values("time", kind="stable")
    return [json.dumps(r) for r in rows.to_dict("records")]


@pytest.mark.parametrize("stride", [1, 5, LENGTH, LENGTH + 7])
def test_windows_of_a_stream_are_those_of_a_table(stride, release):
    people = samples()
    sensors = Sensors(release, stride=stride)
    found = list(sensors.lines(interleaved(people)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacit.TacitWarning)  # short stretches
        table = tacit.read_windows(pd.concat(people), user="user", time="time", length=LENGTH, stride=stride)
    names = table.sensitive["user"].to_numpy()
    for who in ("ann", "bob", "cem"):
        ours = np.array([w["release"] for w in found if w["user"] == who])
        theirs = release.transform(table.X[names == who])
        assert ours.shape == theirs.shape
        assert ours == pytest.approx(theirs, abs=1e-5)  # tables are kept in single precision
    assert sensors.counts["windows"] == len(table.X)
    assert sensors.counts["gaps"] >= 6
    one = next(w for w in found if w["user"] == "bob")
    assert one["to"] - one["from"] == pytest.approx(0.02 * (LENGTH - 1))


def test_forms_of_samples(release):
    people = pd.concat(samples(gaps=False))
    expected = list(Sensors(release, stride=8).lines([json.dumps(r) for r in people.to_dict("records")]))
    as_csv = people.to_csv(index=False).splitlines()
    assert [w["release"] for w in Sensors(release, stride=8).lines(as_csv, "csv")] == [w["release"] for w in expected]
    dates = people.assign(time=(pd.Timestamp("2024-01-01") + pd.to_timedelta(people["time"], "s")).astype(str))
    found = list(Sensors(release, stride=8).lines([json.dumps(r) for r in dates.to_dict("records")]))
    assert [w["release"] for w in found] == [w["release"] for w in expected]
    assert found[0]["from"].startswith("2024-01-01")
    swapped = Sensors(release, stride=8, channels=["ax", "ay"])
    backwards = [json.dumps(r) for r in people[["ay", "ax", "time", "user"]].to_dict("records")]
    assert [w["release"] for w in swapped.lines(backwards)] == [w["release"] for w in expected]
    alone = people[people["user"] == "ann"][["ax", "ay"]]
    one = Sensors(release, stride=8, user=None, time=None)
    found = list(one.lines([json.dumps(r) for r in alone.to_dict("records")]))
    assert [w["release"] for w in found] == [w["release"] for w in expected if w["user"] == "ann"]
    assert list(found[0]) == ["release"]


def test_bad_samples_are_refused_and_the_stream_goes_on(release):
    good = interleaved(samples(gaps=False)[:1])
    secret = 123456.75
    bad = [
        "{",
        json.dumps({"user": "ann", "time": 0.61, "ax": "secret", "ay": 1}),
        json.dumps({"user": "ann", "time": 0.61, "ax": secret}),
        json.dumps({"user": "ann", "time": "soon", "ax": 1, "ay": secret}),
        json.dumps({"user": "ann", "time": 0.0, "ax": secret, "ay": 1}),
        json.dumps({"user": None, "time": 9, "ax": 1, "ay": secret}),
        json.dumps({"user": ["secret"], "time": 9, "ax": 1, "ay": 1}),
        '{"user": "ann", "time": NaN, "ax": 1, "ay": 1}',
        '{"user": "ann", "time": 0.61, "ax": 1e999, "ay": 1}',
        "[1, 2]",
        "[" * 50_000,
        "\x00",
    ]
    sensors = Sensors(release, stride=4)
    answers = list(sensors.lines([*good[:31], *bad, *good[31:]]))
    errors = [a for a in answers if "error" in a]
    assert [e["line"] for e in errors] == list(range(32, 32 + len(bad)))
    assert sensors.counts["refused"] == len(bad)
    # what comes out may leave the house
    assert not [e for e in errors if "secret" in e["error"] or str(secret) in e["error"]]
    # a stretch ends where a sample of ann's was refused, and the next begins after it
    found = [a["from"] for a in answers if "release" in a]
    assert found == [*np.round(0.02 * np.arange(0, 16, 4), 3), *np.round(0.62 + 0.08 * np.arange(len(found) - 4), 3)]
    assert len(found) > 20


def test_only_so_many_people_are_kept(release):
    lines = [json.dumps({"user": i % 30, "time": i, "ax": 1.0, "ay": 2.0}) for i in range(30 * LENGTH)]
    few, many = Sensors(release, most_users=10), Sensors(release, most_users=30)
    assert not list(few.lines(lines))
    assert len(few._buffers) == 10
    assert few.counts["forgotten"] == 30 * LENGTH - 10
    assert len(list(many.lines(lines))) == 30
    assert max(len(b.samples) for b in many._buffers.values()) < LENGTH


def test_bundles_and_samples_that_do_not_match(release, text):
    with pytest.raises(tacit.TacitError, match="this one takes rows of a table"):
        Sensors(load(text))
    with pytest.raises(tacit.TacitError, match=r"takes 2 channels; found 1 \(ax\)"):
        Sensors(release, channels=["ax"])
    with pytest.raises(tacit.TacitError, match="stride must be a whole number"):
        Sensors(release, stride=0)
    (answer,) = Sensors(release).lines([json.dumps({"user": 1, "time": 1, "ax": 1, "ay": 1, "az": 1})])
    assert "the first sample has 3 fields beside user and time" in answer["error"]


@pytest.mark.filterwarnings("ignore:records hold numbers far outside the fit")
def test_rows_of_csv(text):
    release = load(text)
    X = pd.DataFrame({"job": ["cook", "king", None], "pay": [1.5, np.nan, 0.0]})
    expected = release.transform(X)
    name = release.get_feature_names_out()[0]
    lines = ["job, pay", "cook, 1.5", "king, NA", ", 0", "", "cook", "cook, much", '"cook, 1']
    answers = list(release_lines(release, lines, "csv"))
    assert [a["release"][name] for a in answers if "release" in a] == pytest.approx(expected[:, 0].tolist())
    errors = {a["line"]: a["error"] for a in answers if "error" in a}
    assert sorted(errors) == [6, 7, 8]
    assert errors[6] == "1 cells, but the header names 2 columns"
    assert errors[7] == "'pay': the value does not fit the bundle's schema"
    with pytest.raises(tacit.TacitError, match="line 1: the header names the column 'a' twice"):
        list(release_lines(release, ["a,a", "1,2"], "csv"))
    with pytest.raises(tacit.TacitError, match="form must be"):
        list(release_lines(release, [], "xml"))


def test_errors_hold_no_values(text, release):
    for bundle, line in (
        (load(text), '{"job": "cook", "pay": "secret"}'),
        (load(text), '{"job": 777.25, "pay": 1}'),
        (load(text), '["cook", "secret"]'),
        (release, '["secret"]'),
        (release, "secret"),
        (release, '{"secret'),
    ):
        (answer,) = release_lines(bundle, [line])
        assert "error" in answer
        assert "secret" not in answer["error"]
        assert "777" not in answer["error"]


def test_lines_are_bounded_and_any_bytes(tmp_path):
    content = b"good\n" + b"x" * (2 * LONGEST + 5) + b"\n\xff\xfe\nlast"
    (tmp_path / "in").write_bytes(content)
    with open(tmp_path / "in", "rb") as file:
        found = list(text_lines(file))
    assert found == ["good\n", "\x00", "\ufffd\ufffd\n", "last"]


def stream(bundle, *options, **more):
    arguments = [sys.executable, "-P", "-m", "tacit", "release", "stream", str(bundle), *options]
    return subprocess.run(arguments, capture_output=True, check=False, env=os.environ, **more)


def test_the_command(bundle, release):
    lines = interleaved(samples(gaps=False))
    sent = "\n".join([*lines[:5], "nonsense", *lines[5:]]).encode() + b"\n\xff\xff\n"
    done = stream(bundle, "--windows", "--stride", "8", "--channel", "ax", "--channel", "ay", input=sent)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expected = list(Sensors(release, stride=8).lines(lines))
    assert [a for a in answers if "release" in a] == expected
    assert [a["line"] for a in answers if "error" in a] == [6, len(lines) + 2]
    assert f"{len(expected)} windows released, 2 refused, 0 gaps, 0 forgotten" in done.stderr.decode()


def test_a_reader_that_leaves(bundle):
    lines = "\n".join(interleaved(samples(gaps=False)) * 1).encode()
    read, write = os.pipe()
    os.close(read)
    arguments = [sys.executable, "-P", "-m", "tacit", "release", "stream", str(bundle), "--windows"]
    done = subprocess.run(arguments, input=lines, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    told = done.stderr.decode()
    assert "the reader of stdout has closed it" in told
    assert "Traceback" not in told
    assert "Exception ignored" not in told


def test_a_gap_is_a_gap_in_every_way_of_reading(tmp_path):
    """`stream` knew six words for a gap, `apply` and pandas nineteen: such rows were released differently."""
    from tacit.records.cells import GAPS

    rng = np.random.default_rng(0)
    words = [w for w in GAPS if w]
    job = np.where(rng.random(400) < 0.4, rng.choice(words, 400), rng.choice(["cook", "nurse"], 400))
    text = pd.DataFrame({"age": rng.integers(20, 60, 400), "job": job, "own": rng.choice(["TRUE", "False"], 400)})
    text.to_csv(tmp_path / "in.csv", index=False)
    X = pd.read_csv(tmp_path / "in.csv")
    assert X["job"].isna().mean() > 0.3
    y = rng.integers(2, size=400)
    f = tacit.baselines.LinearEraser().fit(X, y, sensitive_features=rng.integers(2, size=400))
    bundle = tacit.save(f, tmp_path / "f.tacit")
    tacit.release.apply(bundle, tmp_path / "in.csv", tmp_path / "out.csv")
    lines = (tmp_path / "in.csv").read_text().splitlines()
    streamed = [list(a["release"].values()) for a in release_lines(tacit.load(bundle), lines, "csv")]
    assert np.allclose(pd.read_csv(tmp_path / "out.csv").to_numpy(), f.transform(X), atol=1e-9)
    assert np.allclose(streamed, f.transform(X), atol=1e-9)
