"""EIGAN's experiments on the sets that only their owners have, tried on small made-up ones."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from papers.common import command
from publishers import made

SIZES = {"mimic3": {"admissions": 400}, "facescrub": {"people": 8, "images": 40}}
PRINTED = "EIGAN as printed"
# data, experiment: a row that it has, and what is measured in it; "ours" is the paper's measure
CASES = {
    ("facescrub", "table1_faces"): [(f"{PRINTED}: U-Net, Xception", "gender, accuracy", "ours", "adaptive")],
    ("mimic3", "fig3"): [(f"mimic3: {PRINTED}", "GENDER, cross-entropy", "ours", "adaptive")],
    ("mimic3", "fig6"): [
        (f"2 adversaries, {PRINTED}", "GENDER, cross-entropy", "ours", "adaptive"),
        (f"2 allies, {PRINTED}", "HOSPITAL_EXPIRE_FLAG, cross-entropy", "ours"),
    ],
    ("mimic3", "fig8"): [
        ("K=10 one each (1 seed)", "HOSPITAL_EXPIRE_FLAG, accuracy", "ours"),
        ("K=10 all (1 seed)", "RACE, balanced accuracy (guessing .333)", "adaptive"),
    ],
    ("mimic3", "fig9"): [
        ("delta=2 phi=0.8 paper (1 seed)", "GENDER, balanced accuracy", "adaptive"),
        ("delta=2 phi=0.8 unbiased (1 seed)", "RACE, balanced accuracy (guessing .333)", "adaptive"),
    ],
    ("mimic3", "fig17"): [
        (f"mimic3, {PRINTED}, l=8", "encoder loss on test rows", "ours"),
        (f"mimic3, {PRINTED}, l=8", "GENDER, balanced accuracy", "adaptive"),
    ],
}


@pytest.mark.slow  # guards an experiment of the paper on a set that only its owner has
@pytest.mark.parametrize(("name", "experiment"), CASES)
def test_an_owner_runs_the_papers_own_experiment(name, experiment, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    made(name, tmp_path / "shelf", **SIZES[name])
    console = Console(width=200, file=io.StringIO())
    command.run(console, f"eigan/{experiment}", False, True, None, tmp_path / "out", False, name)
    (kept,) = (tmp_path / "out").rglob("quick.json")
    rows = json.loads(kept.read_text())[experiment]["rows"]
    for what, measure, *columns in CASES[name, experiment]:
        found = [r for r in rows if r["what"] == what and r["measure"].startswith(measure)]
        assert len(found) == 1, (what, measure)
        assert all(found[0][column] is not None for column in columns)
