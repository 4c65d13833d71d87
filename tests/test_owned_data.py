"""`tacit reproduce X --data NAME`: sets that only their owners have, made up here, load through settings.toml."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import tacit
from papers.common import command
from papers.common.papers import all_papers, load_paper
from papers.common.run import Run, run_experiment
from papers.data import REGISTRY, locate
from publishers import made

OWNED = ("celeba", "enterface", "facescrub", "mimic3")
SCRIPT = """
import tacit

def work(data, options):
    loaded = tacit.load_dataset(data, **options)
    parts = loaded.split("official") if data == "celeba" else loaded.split((0.5, 0.5), random_state=0)
    return [len(loaded), [len(p) for p in parts], sorted(loaded.y), sorted(loaded.sensitive)]

def table(run):
    rows, parts, y, hidden = run.part("load", work, run.settings["data"], run.settings.get("options", {}))
    run.row(f"{y} {hidden}", "rows", ours=rows)

EXPERIMENTS = {"table": table}
"""
SETTINGS = """
[table]
title = "what is loaded"
data = "digits"

[table.owned.celeba]
data = "celeba"
options = {size = 16, split = "paper"}

[table.owned.facescrub]
data = "facescrub"
options = {size = 16, people = 4}

[table.owned.mimic3]
data = "mimic3"

[table.owned.enterface]
data = "enterface"
"""
ROWS = {"celeba": 136, "enterface": 90, "facescrub": 60, "mimic3": 600}  # of celeba without the validation part


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    """An empty TACIT_DATA, and a paper that asks for sets of owners."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "shelf"))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "papers" / "owner"
    home.mkdir(parents=True)
    (home / "reproduce.py").write_text(SCRIPT)
    (home / "settings.toml").write_text(SETTINGS)
    paper = load_paper("owner", tmp_path / "papers")
    monkeypatch.setattr(command, "choose", lambda *_: [(paper, "table")])
    return tmp_path / "shelf"


@pytest.mark.parametrize("name", OWNED)
def test_an_owner_runs_an_experiment_on_the_real_set(name, shelf, tmp_path):
    console = Console(width=200, file=io.StringIO())
    with pytest.raises(tacit.TacitError, match=rf"needs data that is not here: {name}"):
        command.run(console, "owner/table", False, False, None, tmp_path / "out", False, name)
    made(name, shelf)
    command.run(console, "owner/table", False, False, None, tmp_path / "out", False, name)
    entry = json.loads((tmp_path / "out" / "owner" / f"table-{name}" / "results.json").read_text())["table"]
    assert entry["rows"][0]["ours"] == ROWS[name]


@pytest.mark.parametrize("name", OWNED)
def test_made_sets_have_every_class_in_every_part(name, shelf):
    """So that papers' own experiments can be tried on them."""
    made(name, shelf)
    data = tacit.load_dataset(name, **({"size": 16} if name in ("celeba", "facescrub") else {}))
    assert REGISTRY[name].present
    for frame in (data.y, data.sensitive):
        assert (frame.nunique() > 1).all()
        assert min(frame[c].value_counts().min() for c in frame) >= 6


def test_papers_name_only_sets_that_owners_can_have():
    for name in all_papers():
        paper = load_paper(name)
        for experiment in paper.experiments:
            for owned in paper.settings.get(experiment, {}).get("owned", {}):
                assert owned in OWNED, f"{name}/{experiment}"
                assert owned in paper.settings_of(experiment, quick=True, data=owned)["needs"]


def _owned():
    for name in all_papers():
        paper = load_paper(name)
        for experiment in paper.experiments:
            for owned in paper.settings.get(experiment, {}).get("owned", {}):
                yield pytest.param(paper, experiment, owned, id=f"{name}/{experiment} {owned}")


@pytest.mark.slow  # guards that owners of the real sets can run the papers' experiments on them
@pytest.mark.parametrize(("paper", "experiment", "owned"), list(_owned()))
def test_every_experiment_that_takes_an_owners_set_runs_on_a_made_one(paper, experiment, owned, monkeypatch, tmp_path):
    recogniser = locate("face_recogniser")
    made(owned, tmp_path)
    if recogniser is not None:
        (tmp_path / "face_recogniser").symlink_to(recogniser.resolve())
    elif owned == "celeba" and paper.name == "task-mask":
        pytest.skip("the face recogniser is not here; set TACIT_DATA to the folder that has it")
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    run = Run(paper, experiment, quick=True, out=tmp_path / "out", data=owned)
    run_experiment(run)
    assert run.rows
    assert all(row["ours"] is not None or row["adaptive"] is not None or row["printed"] for row in run.rows)
