"""`tacit reproduce`: what is kept, what is not done twice, and that no README figure is typed by hand."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from papers.common.papers import PAPERS as FOLDER
from papers.common.papers import all_papers, choose, load_paper
from papers.common.run import Run, run_experiment
from papers.common.tables import grid, readme, summary, write_readme
from tacit.cli import app
from tacit.cli.reproduce import command
from tacit.errors import InputError

SCRIPT = """
WORKED, BREAK = [], []

def figure(run):
    found = [run.part(f"seed {seed}", work, seed, run.settings["size"]) for seed in run.seeds]
    run.row("toy", "mean", printed=1.5, ours=sum(found) / len(found))
    if BREAK:
        raise RuntimeError("after the parts")

def work(seed, size):
    WORKED.append(seed)
    return seed * size

EXPERIMENTS = {"fig1": figure}
"""
SETTINGS = '[fig1]\ntitle = "Fig. 1"\nseeds = 2\nsize = 10\n[fig1.quick]\nseeds = 1\nsize = 1\n'


@pytest.fixture
def toy(tmp_path):
    """A folder of papers with one toy paper; returns a function that loads it afresh."""
    home = tmp_path / "papers" / "toy"
    home.mkdir(parents=True)
    (tmp_path / "papers" / "README.md").write_text(
        "".join(
            f"<!-- results: {name} -->\n<!-- end -->\n" for name in ("conclusions", "grid", "summary", "moved", "items")
        )
    )
    (home / "reproduce.py").write_text(SCRIPT)
    (home / "settings.toml").write_text(SETTINGS)
    (home / "README.md").write_text("Words.\n<!-- results: fig1 -->\nstale\n<!-- end -->\nMore.\n")
    return lambda: load_paper("toy", tmp_path / "papers")


def worked(paper) -> list[int]:
    return paper.experiments["fig1"].__globals__["WORKED"]


def test_a_run_keeps_command_settings_seeds_versions_machine(toy):
    run_experiment(Run(toy(), "fig1"))
    entry = toy().results["fig1"]
    check_entry(entry)
    assert entry["command"] == "tacit reproduce toy/fig1"
    assert entry["seeds"] == [0, 1]
    assert entry["rows"][0]["ours"] == 5.0
    assert {k: p["value"] for k, p in entry["raw"].items()} == {"seed 0": 0, "seed 1": 10}


def test_finished_parts_are_not_done_again_unless_settings_change(toy):
    paper = toy()
    run_experiment(Run(paper, "fig1"))
    run_experiment(Run(paper, "fig1", seeds=3))
    assert worked(paper) == [0, 1, 2]
    run_experiment(Run(paper, "fig1", again=True))
    assert worked(paper) == [0, 1, 2, 0, 1]
    changed = paper.folder / "settings.toml"
    changed.write_text(SETTINGS.replace("size = 10", "size = 20"))
    paper = toy()
    run_experiment(Run(paper, "fig1"))
    assert worked(paper) == [0, 1]
    assert toy().results["fig1"]["rows"][0]["ours"] == 10.0


def test_an_interrupted_run_goes_on(toy):
    paper = toy()
    switch = paper.experiments["fig1"].__globals__["BREAK"]
    switch.append(True)
    with pytest.raises(RuntimeError):
        run_experiment(Run(paper, "fig1"))
    assert toy().results == {}
    switch.clear()
    run_experiment(Run(paper, "fig1"))
    assert worked(paper) == [0, 1]
    assert not list(paper.folder.glob(".unfinished*"))


def test_parts_run_side_by_side_and_give_the_same(toy):
    alone = toy()
    run_experiment(Run(alone, "fig1"))
    one = alone.results["fig1"]
    (alone.folder / "results.json").unlink()
    side = toy()
    run_experiment(Run(side, "fig1"), jobs=2)
    assert worked(side) == []  # in other processes
    two = side.results["fig1"]
    assert two["rows"] == one["rows"]
    assert {k: p["value"] for k, p in two["raw"].items()} == {"seed 0": 0, "seed 1": 10}


def test_a_quick_run_never_touches_the_paper(toy, tmp_path):
    before = sorted(p.name for p in toy().folder.iterdir() if p.suffix)
    path = run_experiment(Run(toy(), "fig1", quick=True, out=tmp_path / "quick"))
    assert path.parent == tmp_path / "quick"
    assert json.loads(path.read_text())["fig1"]["settings"]["size"] == 1
    assert sorted(p.name for p in toy().folder.iterdir() if p.suffix) == before
    with pytest.raises(InputError, match="need a folder"):
        Run(toy(), "fig1", quick=True)


def test_the_readme_is_written_between_its_markers(toy):
    run_experiment(Run(toy(), "fig1"))
    text = write_readme(toy()).read_text()
    assert text.startswith("Words.\n")
    assert text.endswith("<!-- end -->\nMore.\n")
    assert "stale" not in text
    assert "| toy | mean | 1.5 | 5 | – |" in text
    with pytest.raises(InputError, match="fig1"):
        readme(toy(), "no markers")


def test_an_attackers_figure_needs_its_interval(toy):
    with pytest.raises(InputError, match="interval"):
        Run(toy(), "fig1").row("x", "sex", adaptive=0.6)


def test_what_cannot_be_run_is_said(toy):
    folder = toy().folder.parent
    with pytest.raises(InputError, match="the papers are toy"):
        choose("tpy", False, folder)
    with pytest.raises(InputError, match="it has fig1"):
        choose("toy/fig2", False, folder)
    with (folder / "toy" / "settings.toml").open("a") as settings:
        settings.write('[also]\nfig2 = "fig1"\n')
    assert [e for _, e in choose("toy/fig2", False, folder)] == ["fig1"]
    with pytest.raises(InputError, match="--all"):
        choose(None, False, folder)
    with pytest.raises(InputError, match="comes with a checkout"):
        command([folder / "elsewhere"])
    assert command([FOLDER.parent]).PAPERS == FOLDER


# -- the papers of this checkout ------------------------------------------------------------------

PAPERS = all_papers()
EVERY = [(name, experiment) for name in PAPERS for experiment in load_paper(name).experiments]
SMOKE = [(name, load_paper(name).settings["smoke"]) for name in PAPERS]


def check_entry(entry) -> None:
    """The schema of one entry of results.json."""
    kinds = {
        "title": str, "command": str, "measured_by": list, "settings": dict, "seeds": list, "versions": dict,
        "machine": str, "seconds": (int, float), "rows": list, "summary": list, "figures": list, "notes": list,
        "raw": dict,
    }  # fmt: skip
    assert set(entry) == set(kinds)
    for key, kind in kinds.items():
        assert isinstance(entry[key], kind), key
    assert entry["rows"]
    assert entry["seeds"]
    assert {"tacit", "python", "numpy", "torch"} <= set(entry["versions"])
    for row in entry["rows"]:
        assert set(row) == {"what", "measure", "printed", "ours", "adaptive", "interval", "by"}
        assert isinstance(row["printed"], (int, float, str, type(None)))
        for key in ("ours", "adaptive"):
            assert isinstance(row[key], (int, float, type(None))), (row["what"], key)
        if row["adaptive"] is not None:
            assert row["interval"] is not None, row["what"]
        if row["interval"] is not None:
            low, high = row["interval"]
            assert low <= high
            middle = row["ours"] if row["adaptive"] is None else row["adaptive"]
            assert low - 1e-9 <= middle <= high + 1e-9, row["what"]
    for line in entry["summary"]:
        assert {"method", "data", "target", "utility", "secret", "leakage", "certificate", "label_only"} <= set(line)
        assert line["leakage"]["low"] <= line["leakage"]["value"] <= line["leakage"]["high"]
        assert line["certificate"] is None or line["certificate"] > 0


@pytest.mark.parametrize("name", PAPERS)
def test_papers_have_the_same_shape(name):
    paper = load_paper(name)
    assert {"README.md", "settings.toml", "reproduce.py", "results.json"} <= {p.name for p in paper.folder.iterdir()}
    assert paper.settings["paper"]
    assert set(paper.settings) - {"paper", "smoke", "also"} == set(paper.experiments)
    also = paper.settings.get("also", {})
    assert set(also.values()) <= set(paper.experiments)
    assert not set(also) & set(paper.experiments)
    for experiment, entry in paper.results.items():
        check_entry(entry)
        # nothing is shown under settings that are no longer those of the file
        told = paper.settings_of(experiment, quick=False)
        assert {**entry["settings"], "seeds": 0} == {k: v for k, v in {**told, "seeds": 0}.items() if k != "title"}
        assert entry["command"].startswith(f"tacit reproduce {name}/{experiment}")
        for figure in entry["figures"]:
            assert (paper.folder / figure).stat().st_size < 200_000, figure


@pytest.mark.parametrize("name", PAPERS)
def test_readmes_say_what_the_results_say(name):
    paper = load_paper(name)
    text = (paper.folder / "README.md").read_text(encoding="utf-8")
    assert readme(paper, text) == text, f"run: tacit reproduce --readme {name}"


def test_the_summary_says_what_the_results_say():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert summary(FOLDER, text) == text, "run: tacit reproduce --readme"


@pytest.mark.parametrize("name", PAPERS)
def test_no_accuracy_stands_without_what_guessing_gets(name):
    for experiment, entry in load_paper(name).results.items():
        for row in entry["rows"]:
            told = row["ours"] is not None or row["adaptive"] is not None
            if told and any(word in row["measure"] for word in ("accuracy", "balanced", "F1")):
                assert "guessing" in row["measure"], (experiment, row["what"], row["measure"])
        for line in entry["summary"]:
            assert 0 < line["leakage"]["guessing"] < 1
            assert line["label_only"] is not None, (experiment, line["method"])
            assert not line["utility"] or 0 < line["utility"]["guessing"] < 1, (experiment, line["method"])


def test_list_marks_what_has_no_data_here(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    shown = CliRunner().invoke(app, ["reproduce", "--list"])
    assert shown.exit_code == 0
    lines = {line.partition(" ")[0]: line for line in shown.output.splitlines()}
    assert {f"{name}/{experiment}" for name, experiment in EVERY} <= set(lines)
    assert lines["eigan/table1"].endswith("*")
    assert not lines["eigan/synthetic"].endswith("*")  # generated, so always here


def quick(name, experiment, tmp_path):
    paper = load_paper(name)
    if missing := paper.missing_data(experiment):
        pytest.skip(f"data not here: {', '.join(missing)}")
    before = (paper.folder / "results.json").read_bytes()
    path = run_experiment(Run(paper, experiment, quick=True, out=tmp_path))
    check_entry(json.loads(path.read_text())[experiment])
    assert (paper.folder / "results.json").read_bytes() == before


@pytest.mark.slow  # guards that the script of every paper still runs from its data to its table
@pytest.mark.parametrize(("name", "experiment"), SMOKE)
def test_one_quick_run_per_paper(name, experiment, tmp_path):
    quick(name, experiment, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "experiment"), [e for e in EVERY if e not in SMOKE])
def test_every_quick_run(name, experiment, tmp_path):
    quick(name, experiment, tmp_path)


# -- the grid of all methods and tables --------------------------------------------------------------


def line(method, kept, read, certificate=None):
    floor = {"value": 0.6, "low": 0.55, "high": 0.65}
    return {
        "method": method, "data": "adult", "target": "income", "secret": "sex", "certificate": certificate,
        "utility": {"value": kept, "low": kept - 0.01, "high": kept + 0.01, "guessing": 0.76},
        "leakage": {"value": read, "low": read - 0.02, "high": read + 0.02, "guessing": 0.5},
        "label_only": floor, "label_only_utility": {"value": 0.85, "low": 0.84, "high": 0.86},
    }  # fmt: skip


def test_the_grid_marks_what_label_only_dominates():
    """Leaking more is forgiven to what keeps more, and where the two intervals meet: the rule of the reports."""
    cells = [
        line("leaks", 0.85, 0.7),
        line("earns it", 0.87, 0.7),
        line("hides", 0.80, 0.5, 0.55),
        line("even", 0.8, 0.64),
    ]
    shown = grid(cells).splitlines()
    assert shown[3] == "| guessing | .760 / .500 |"
    assert shown[4:] == [
        "| leaks | .850 / .700 ✗ |",
        "| earns it | .870 / .700 |",
        "| hides | .800 / .500 ≤ .550 |",
        "| even | .800 / .640 |",
    ]


def test_compared_lines_are_in_the_grid_and_not_in_the_list():
    text = summary(FOLDER, (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert "codebook/everywhere |" not in text
    assert "| codebook, closed | " in text.partition("results: summary")[0]
