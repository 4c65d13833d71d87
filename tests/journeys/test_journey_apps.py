"""An app team with recordings, and a team with photos: as they are on disk, to the three files."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import tacit
from commands import tacit_command
from tacit.auditing.trial import transformed
from tacit.cli import fit_records
from tacit.records.windows import read_recordings
from tacit.report.report import Report

pytestmark = pytest.mark.usefixtures("one_attacker")


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Little is learned: the way is what is walked here."""
    sensors, images = fit_records.SENSORS, fit_records.IMAGES
    monkeypatch.setattr(fit_records, "SENSORS", replace(sensors, small={"epochs": 2, "n_maps": 4, "codes": 4}))
    monkeypatch.setattr(fit_records, "IMAGES", replace(images, small={"epochs": 1}))
    monkeypatch.setattr(fit_records, "SMALLEST", 16)
    monkeypatch.setattr(fit_records, "TRIED", 40)


def walks(person: int, seconds: float = 24, rate: float = 50, jitter: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(person)
    parts, start = [], 0.0
    for bout in range(8):
        t = start + np.arange(int(seconds / 8 * rate * 2)) / rate
        t = t + jitter / rate * rng.uniform(-0.5, 0.5, len(t))
        start = t[-1] + 5
        swing = (bout % 2) * (1 + 0.4 * person) * np.sin(2 * np.pi * 1.5 * t)
        parts.append(pd.DataFrame({
            "timestamp": np.round(1000 * t), "activity": ["still", "walk"][bout % 2],
            "ax": swing + 0.3 * person + 0.1 * rng.standard_normal(len(t)), "ay": 0.1 * rng.standard_normal(len(t)),
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def leaving(monkeypatch):
    """Of all that leaves: whether its filter was fitted on it."""
    found = []

    def spy(release, part):
        found.append(release.seen(part.X, part.units_of("person") if "person" in part.sensitive else None))
        return transformed(release, part)

    monkeypatch.setattr(fit_records, "transformed", spy)
    return found


def test_all_recordings_leave_each_through_a_filter_that_has_not_seen_it(tmp_path, leaving):
    (tmp_path / "r").mkdir()
    for i, name in enumerate(("anna", "ben", "cem")):
        walks(i, seconds=16).to_csv(tmp_path / "r" / f"{name}.csv", index=False)
    asked = (
        "fit", tmp_path / "r", "--sensors", "--target", "activity", "--sensitive", "person",
        "--set", "small=true", "--quick",
    )  # fmt: skip
    half = tacit_command(*asked, "--out", tmp_path / "half", COLUMNS="300")
    assert half.returncode == 0, half.stderr
    told = re.search(r"Released (\d+) of (\d+) windows.*\nLeft out: (\d+) windows.*all=true", half.stdout)
    released, every, left = map(int, told.groups())
    assert released + left == every
    assert np.load(tmp_path / "half" / "release.npz")["release"].shape[0] == released
    done = tacit_command(*asked, "--set", "all=true", "--out", tmp_path / "all", COLUMNS="300")
    assert done.returncode == 0, done.stderr
    assert f"Released all {every} windows" in done.stdout
    whole = np.load(tmp_path / "all" / "release.npz")
    assert np.bincount(whole["part"]).tolist() == [0, released, left]
    assert len(whole["release"]) == every
    assert sum(map(len, leaving)) == released + every
    assert not np.concatenate(leaving).any()
    # the headline is of the part that may leak more; the bundle carries the audit of its own filter
    report = Report.from_json((tmp_path / "all" / "audit.json").read_text())
    assert report.name in ("waveforms, part 1", "waveforms, part 2")
    assert report.settings.level == 0.98
    page = (tmp_path / "all" / "report.html").read_text()
    assert all(f"waveforms, {which}" in page for which in ("part 1", "part 2"))
    assert tacit.load(tmp_path / "all" / "filter.tacit").report.name == "waveforms, part 1"


def test_motionsenses_own_layout_and_one_table_are_read_alike(tmp_path):
    for folder in ("wlk_7", "wlk_8", "sit_5", "sit_13"):
        (tmp_path / "ms" / folder).mkdir(parents=True)
        for person in (1, 2):
            rng = np.random.default_rng(person)
            table = pd.DataFrame(rng.standard_normal((300, 2)), columns=["userAcceleration.x", "rotationRate.y"])
            table.to_csv(tmp_path / "ms" / folder / f"sub_{person}.csv")
    found = read_recordings(tmp_path / "ms", "person", ["activity"], rate=50)
    assert found.channels == ["userAcceleration.x", "rotationRate.y"]  # the rows' numbers are no signal
    assert set(found.samples["activity"]) == {"wlk", "sit"}
    assert set(found.samples["person"]) == {"1", "2"}
    one = found.samples.drop(columns=["recording", "block"])
    one.to_csv(tmp_path / "one.csv", index=False)
    again = read_recordings(tmp_path / "one.csv", "person", ["activity"], rate=50)
    assert again.channels == found.channels
    assert len(again.samples) == len(found.samples)


def test_uneven_times_and_other_rates_are_put_on_one_grid(tmp_path):
    (tmp_path / "r").mkdir()
    walks(0, rate=50, jitter=0.6).to_csv(tmp_path / "r" / "a.csv", index=False)
    walks(1, rate=25).to_csv(tmp_path / "r" / "b.csv", index=False)
    found = read_recordings(tmp_path / "r", "person", ["activity"])
    assert any("even grid" in line for line in found.said)
    lengths = found.samples.groupby("person").size()
    assert lengths["a"] == pytest.approx(lengths["b"], rel=0.05)  # the same seconds, now the same number of samples


@pytest.fixture
def photos(tmp_path):
    """A folder of photos of different sizes, in colour; the command that fits them, its last word where it writes."""
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    rows = []
    for i in range(48):
        height, width = rng.integers(20, 60, 2)
        image = rng.integers(0, 60, (height, width, 3)).astype(np.uint8)
        image[: height // 2, :, i % 2] = 240
        Image.fromarray(image).save(tmp_path / "photos" / f"IMG {i}.jpg")
        rows.append({"photo": f"IMG {i}.jpg", "smile": ["no", "yes"][i % 2], "who": f"p{i % 3}"})
    pd.DataFrame(rows).to_csv(tmp_path / "labels.csv", index=False, sep=";")
    return (
        "fit", tmp_path / "photos", "--images", "--set", f"labels={tmp_path / 'labels.csv'}", "--target", "smile",
        "--sensitive", "who", "--set", "small=true", "--quick", "--out", tmp_path / "o",
    )  # fmt: skip


def test_damaged_photos_are_named_and_left_out(photos):
    """The first has no header, the second no end, the third is grey and whole."""
    folder = photos[1]
    (folder / "IMG 3.jpg").write_bytes(b"no image")
    whole = (folder / "IMG 4.jpg").read_bytes()
    (folder / "IMG 4.jpg").write_bytes(whole[: len(whole) // 2])
    with Image.open(folder / "IMG 5.jpg") as image:
        grey = image.convert("L")
    grey.save(folder / "IMG 5.jpg")
    done = tacit_command(*photos, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "2 of 48 images cannot be read and are left out: IMG 3.jpg, IMG 4.jpg" in done.stdout
    assert "of 46 images" in done.stdout


@pytest.mark.parametrize("name", ["Time (s)", "timestamp [ms]", "time_ms", "Elapsed time (s)", "t"])
def test_a_time_is_no_signal(tmp_path, name):
    """A time that is taken for a signal names whose recording it is."""
    (tmp_path / "r").mkdir()
    table = walks(0).rename(columns={"timestamp": name})
    table.to_csv(tmp_path / "r" / "a.csv", index=False)
    found = read_recordings(tmp_path / "r", "person", ["activity"])
    assert found.channels == ["ax", "ay"]
    assert found.rate == pytest.approx(50, rel=0.01)


def test_all_photos_leave_in_two_parts(photos, leaving):
    done = tacit_command(*photos[:-2], "--set", "all=true", *photos[-2:], COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert [len(list((photos[-1] / "released" / f"part-{part}").iterdir())) for part in (1, 2)] == [24, 24]
    assert [len(seen) for seen in leaving] == [24, 24]
    assert not np.concatenate(leaving).any()
