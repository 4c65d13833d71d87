"""EIGAN's experiments on the sets that only their owners have, tried on small made-up ones."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import publishers
from papers.common import command

MADE = {
    "mimic3": lambda folder: publishers._mimic(folder, admissions=400),
    "facescrub": lambda folder: publishers._facescrub(folder, people=8, images=40),
}
CASES = {
    "mimic3": ("fig3", "mimic3: EIGAN as printed", "GENDER, cross-entropy"),
    "facescrub": ("table1_faces", "EIGAN as printed: U-Net, Xception", "gender, accuracy"),
}


@pytest.mark.parametrize("name", MADE)
def test_an_owner_runs_the_papers_own_experiment(name, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    MADE[name](tmp_path / "shelf" / name)
    experiment, what, measure = CASES[name]
    console = Console(width=200, file=io.StringIO())
    command.run(console, f"eigan/{experiment}", False, True, None, tmp_path / "out", False, name)
    (kept,) = (tmp_path / "out").rglob("quick.json")
    rows = json.loads(kept.read_text())[experiment]["rows"]
    found = [r for r in rows if r["what"] == what and r["measure"].startswith(measure)]
    assert len(found) == 1
    assert found[0]["ours"] is not None
    assert found[0]["adaptive"] is not None
