"""A researcher who compares two filters in Python, and a privacy officer who reads, checks and files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of patients, which is not one of ours."""
    rng, n = np.random.default_rng(0), 400
    ward = rng.choice(["a", "b"], n)
    table = pd.DataFrame({
        "pulse": rng.normal(70 + 8 * (ward == "a"), 8, n).round(), "stay": rng.poisson(4, n),
        "drug": np.where(rng.random(n) < 0.6, np.where(ward == "a", "x", "y"), "z"),
        "back": rng.choice(["no", "yes"], n), "ward": ward,
    })  # fmt: skip
    place = tmp_path_factory.mktemp("clinic")
    table.to_csv(place / "patients.csv", index=False)
    return place


def test_a_researcher_compares_two_filters(folder):
    data = tacit.read_table(folder / "patients.csv", target="back", sensitive="ward")
    train, attack, test = data.split((0.5, 0.2, 0.3), random_state=0)
    found = {}
    for f in (tacit.CodebookFilter(n_codes=4, random_state=0), tacit.baselines.LinearEraser()):
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
        found[type(f).__name__] = tacit.audit(f, attack, test, measurements="no-baseline")
    raw = tacit.audit(None, attack, test, measurements="no-baseline")
    assert found["CodebookFilter"].leakage["ward"].value < raw.leakage["ward"].value
    assert all(report.leakage["ward"].guessing == 0.5 for report in found.values())
    assert found["CodebookFilter"].certificate["ward"] is not None


def test_an_officer_reads_checks_and_files(folder, monkeypatch):
    """Two commands: the limits, and the file to keep."""
    monkeypatch.chdir(folder)
    made = tacit_command("fit", "patients.csv", "--target", "back", "--sensitive", "ward", "--filter", "codebook",
                         "--quick", "--out", "handover")  # fmt: skip
    assert made.returncode == 0, made.stderr
    (folder / "tacit.toml").write_text(
        '[data]\nfile = "patients.csv"\ntargets = ["back"]\nsensitive = ["ward"]\n[limits]\nleakage = { ward = 0.95 }\n'
    )
    checked = tacit_command("check", "tacit.toml", "--bundle", "handover/filter.tacit", "--junit", "limits.xml")
    assert checked.returncode in (0, 3), checked.stderr  # a verdict, not an error
    assert (folder / "limits.xml").exists()
    filed = tacit_command("evidence", "handover", "--policy", "tacit.toml")
    assert filed.returncode == 0, filed.stderr
    assert (folder / "evidence.zip").exists()
    told = json.loads((folder / "handover" / "audit.json").read_text())
    assert "ward" in told["leakage"]


def test_codes_are_called_by_what_they_say(folder):
    released = pd.read_parquet(folder / "handover" / "release.parquet")
    assert list(released.columns) == ["back=no", "back=yes"]
    bundle = tacit.load(folder / "handover" / "filter.tacit")
    assert list(bundle.get_feature_names_out()) == ["back=no", "back=yes"]
