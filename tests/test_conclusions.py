"""Every sentence of papers/ that names a figure is recomputed from results.json; every item has its file and test."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from papers.common.conclusions import Figure, NotFoundError, Reading, conclusions_of, sentence
from papers.common.items import KEYS, STATES, items_of
from papers.common.moved import compared, moved, table
from papers.common.papers import PAPERS as FOLDER
from papers.common.papers import all_papers, load_paper
from papers.common.run import over_seeds, together
from papers.common.tables import BLOCK

ROOT = Path(__file__).parent.parent
PAPERS = all_papers()
SAID = [(name, e, c) for name in PAPERS for e, of in conclusions_of(load_paper(name)).items() for c in of]
ITEMS = [(name, item) for name in PAPERS for item in items_of(FOLDER / name)]
REVIEWED = {"minimax-filter": 38, "eigan": 50, "dpfe": 36, "anonymizing-autoencoder": 38, "task-mask": 26}
MOST_PARTIAL = 12  # 12 are asked for; each says in its row what is left


@pytest.mark.parametrize(("name", "experiment", "conclusion"), SAID, ids=[f"{n}/{e}/{c.__name__}" for n, e, c in SAID])
def test_every_sentence_is_what_the_results_say(name, experiment, conclusion):
    paper = load_paper(name)
    assert experiment in paper.results
    assert sentence(conclusion, paper.results, experiment)


@pytest.mark.parametrize("name", ["", *sorted(PAPERS)])
def test_no_figure_stands_outside_what_is_written_from_results(name):
    text = BLOCK.sub("", (FOLDER / name / "README.md").read_text(encoding="utf-8"))
    typed = [line for line in text.splitlines() if re.search(r"(?<![\w.])0?\.\d+\b|\b\d+(\.\d+)? %", line)]
    assert not [line for line in typed if "95 %" not in line], "move it into conclusions.py"


# -- how figures of several seeds are told -----------------------------------------------------------


def result(value, arm=0.1, by="mlp"):
    return {"value": value, "low": value - arm, "high": value + arm, "guessing": 0.1, "by": by, "n": 50}


def test_one_seed_keeps_its_interval_and_more_seeds_add_theirs():
    assert over_seeds([result(0.3)])["low"] == pytest.approx(0.2)
    same = over_seeds([result(0.3)] * 4)
    assert (same["low"], same["high"], same["seeds"]) == (pytest.approx(0.2), pytest.approx(0.4), 4)  # rows are shared
    apart = over_seeds([result(v) for v in (0.14, 0.255, 0.237, 0.309)])
    assert apart["value"] == pytest.approx(0.23525)
    assert 0.235 - apart["low"] > 0.14  # wider than any seed's own
    assert apart["guessing"] == pytest.approx(0.1)


def test_a_bound_is_the_largest_of_the_seeds_and_none_where_one_has_none():
    audit = {"utility": {}, "leakage": {"s": result(0.3)}, "label_only": {}, "label_only_utility": {}}
    assert together([{**audit, "certificate": {"s": b}} for b in (0.2, 0.4)])["certificate"] == {"s": 0.4}
    assert together([{**audit, "certificate": {"s": b}} for b in (0.2, None)])["certificate"] == {"s": None}


# -- what a sentence is held to ------------------------------------------------------------------------


def results(seeds=3):
    leak = {**result(0.5), "seeds": seeds}
    line = {
        "method": "m",
        "data": "d",
        "target": "t",
        "utility": leak,
        "secret": "s",
        "leakage": leak,
        "certificate": None,
    }
    row = {"what": "m", "measure": "t, accuracy (guessing .1)", "ours": 0.5, "adaptive": None, "interval": None}
    return {"fig1": {"summary": [line], "rows": [row], "seeds": list(range(seeds)), "raw": {}}}


def test_a_sentence_that_no_longer_holds_is_an_error():
    def low(read: Reading) -> str:
        read.holds(read.leak("m", "s").value < 0.2)
        return "The leak is low."

    with pytest.raises(NotFoundError, match="no longer"):
        sentence(low, results(), "fig1")


def test_a_sentence_must_be_able_to_fail_and_find_its_figures():
    with pytest.raises(NotFoundError, match="has to be true"):
        sentence(lambda read: f"{read.leak('m', 's')}", results(), "fig1")
    with pytest.raises(NotFoundError, match="no audited line"):
        sentence(lambda read: f"{read.leak('other', 's')}", results(), "fig1")


def test_few_seeds_are_said():
    def told(read: Reading, more: str = "") -> str:
        leak = read.leak("m", "s")
        read.holds(leak.above_guessing)
        return f"It leaks {leak:interval}{more}, keeps {read.ours('m', 't, accuracy')}."

    assert sentence(told, results(3), "fig1") == "It leaks .500 [.400, .600], keeps .500."
    with pytest.raises(NotFoundError, match="does not say so"):
        sentence(told, results(1), "fig1")
    assert sentence(lambda read: told(read, " (one seed)"), results(1), "fig1")


def test_figures_are_written_as_the_tables_write_them():
    assert f"{Figure(0.8571)} {Figure(0.8571, 0.8, 0.9):interval}" == ".857 .857 [.800, .900]"


def test_what_moves_between_machines_is_told_with_the_sentences_that_fail():
    one, other = (
        {"rows": [{"what": "m", "measure": "t (guessing .5)", "ours": v, "adaptive": None}], "machine": "a"}
        for v in (0.5, 0.52)
    )
    assert moved(one, other) == [("m t", pytest.approx(0.02))]
    line = {"experiment": "x/fig1", "machines": ["a", "b"], "figures": 1, "moved": 1, "most": 0.02, "which": "m t"}
    assert "| .020 | m t | 1 of 2 (not: holds) |" in table([{**line, "sentences": 2, "failing": ["holds"]}])


def test_a_copy_of_the_kept_results_is_no_second_run():
    row = {"what": "m", "measure": "t (guessing .5)", "ours": 0.5, "adaptive": None}
    entry = {"rows": [row], "machine": "a", "settings": {"seeds": 1}, "seeds": [0], "measured_by": []}
    entry["raw"] = {"seed 0": {"stamp": "s"}}
    paper = SimpleNamespace(name="x", folder=FOLDER / "codebook", results={"fig1": entry})
    elsewhere = {**entry, "machine": "b"}
    [line] = compared(paper, {"fig1": elsewhere})
    assert (line["machines"], line["figures"], line["moved"]) == (["a", "b"], 1, 0)
    assert compared(paper, {"fig1": entry}) == []
    assert compared(paper, {"fig1": {**elsewhere, "seeds": [0, 1]}}) == []  # not the same experiment
    assert compared(paper, {"fig1": {**elsewhere, "raw": {"seed 0": {"stamp": "other code"}}}}) == []
    assert compared(paper, {"fig1": {**elsewhere, "measured_by": [{"command": "a script"}]}}) == []


# -- the state of every item ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "item"), ITEMS, ids=[f"{n}-{i['number']}" for n, i in ITEMS])
def test_every_item_names_a_file_and_a_test_that_are_there(name, item):
    assert set(item) == set(KEYS)
    assert item["state"] in STATES
    assert item["state"] == "done" or item["remark"], "say what is not there"
    for key in ("where", "test"):
        if item["state"] == "missing" and not item[key]:
            continue
        for place in item[key].split("; "):
            path, _, inside = place.partition(": ")
            assert (ROOT / path).is_file(), place
            assert inside in (ROOT / path).read_text(encoding="utf-8"), place


def test_no_item_of_the_review_is_forgotten_and_few_are_partial():
    for name, last in REVIEWED.items():
        if items := items_of(FOLDER / name):
            assert [i["number"] for i in items if i["number"].isdigit()] == [str(n) for n in range(1, last + 1)], name
    assert sum(i["state"] == "partial" for _, i in ITEMS) <= MOST_PARTIAL
