"""`tacit check`: the policy beside the data is kept, or the sentence says what to do."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import app
from tacit.errors import InputError, RequirementNotMet
from tacit.ledger.policy import Case, junit, read_policy

POLICY = """
[data]
file = "people.csv"
targets = ["income"]
sensitive = ["sex"]
unit = "person"

[filter]
name = "codebook"
settings = { n_codes = 4 }

[limits]
leakage = { sex = 0.75 }
utility = { income = 0.6 }
certified = true
attackers = "logistic"

[receivers.analyst]
leakage = { sex = 0.75 }

[ledger]
file = "ledger.jsonl"
"""


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    n = 1500
    sex = rng.integers(0, 2, n)
    hours = np.clip(rng.normal(38 + 3 * sex, 8), 5, 80).round()
    degree = rng.choice(["school", "college"], n)
    income = (degree == "college") + (hours > 40) * 0.5 + rng.normal(0, 0.4, n) > 0.8
    columns = {"person": [f"p{i}" for i in range(n)], "hours": hours, "degree": degree, "income": income, "sex": sex}
    pd.DataFrame(columns).to_csv(folder / "people.csv", index=False)
    (folder / "tacit.toml").write_text(POLICY)
    return folder


def run(*words):
    """A command in this process; returns nothing or raises what the command line prints."""
    return app([str(w) for w in words], standalone_mode=False)


def test_a_policy_that_is_kept_passes_and_a_lowered_limit_says_what_to_do(people, tmp_path, capsys):
    run("check", people, "--junit", tmp_path / "j.xml", "--out", tmp_path / "out")
    assert "all 2 limits are kept" in capsys.readouterr().out
    assert ElementTree.parse(tmp_path / "j.xml").getroot().attrib["failures"] == "0"
    assert (tmp_path / "out" / "report.html").exists()
    strict = people / "strict.toml"
    strict.write_text(POLICY.replace("sex = 0.75", "sex = 0.501").replace("income = 0.6", "income = 0.99"))
    with pytest.raises(RequirementNotMet, match=r"2 of 2 limits: leakage\.sex, utility\.income"):
        run("check", strict, "--junit", tmp_path / "j.xml")
    said = " ".join(capsys.readouterr().out.split())
    assert "allowed 0.501" in said
    assert "Release less of it: a heavier [filter] weight" in said
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert [t.attrib["name"] for t in root if t.find("failure") is not None] == ["leakage.sex", "utility.income"]


def test_fit_writes_down_and_is_refused_when_it_would_be_too_much(people, tmp_path, capsys):
    """A release by another bundle of the same people exceeds the policy: no table is written."""
    for file in ("people.csv", "tacit.toml"):
        (tmp_path / file).write_text((people / file).read_text())
    ledger, out = tmp_path / "ledger.jsonl", tmp_path / "out"
    run("ledger", "new", ledger)
    words = ["fit", tmp_path / "people.csv", "--target", "income", "--sensitive", "sex", "--unit", "person"]
    words += ["--filter", "codebook", "--set", f"ledger={ledger}", "--set", "to=analyst"]
    run(*words, "--out", out)
    assert (out / "release.parquet").exists()
    run("ledger", "show", ledger)
    said = " ".join(capsys.readouterr().out.split())
    assert "Written down as line 1" in said
    assert "analyst holds of 1,500 people, sex: any attacker <=" in said
    with pytest.raises(RequirementNotMet, match=r"1,500 people: any attacker <= 1\.000.*tacit ledger together"):
        run(*words, "--weight", "0.5", "--out", tmp_path / "second")
    assert not (tmp_path / "second" / "release.parquet").exists()
    # the bundle on people it has not released yet, then what-if, together
    others = pd.read_csv(tmp_path / "people.csv").assign(person=lambda t: "q" + t["person"])
    others.to_csv(tmp_path / "others.csv", index=False)
    apply = ["release", "apply", out / "filter.tacit", tmp_path / "others.csv", tmp_path / "others.parquet"]
    apply += ["--unit", "person", "--ledger", ledger, "--to", "analyst"]
    run(*apply)
    run(*apply)  # the same again costs nothing
    second = tmp_path / "second" / "filter.tacit"
    with pytest.raises(RequirementNotMet):
        run("ledger", "what-if", ledger, second, "--to", "analyst")
    run("ledger", "together", ledger, out / "filter.tacit", second, "--data", tmp_path / "people.csv", "--target",
        "income", "--sensitive", "sex", "--unit", "person", "--attackers", "logistic",
        *(w for o in (out, second.parent) for k in Path(f"{o}-keys").glob("*.owner.key")
          for w in ("--owner-key", k)))  # fmt: skip
    line = tacit.ledger.Ledger(ledger).verify()[-1]
    assert line.kind == "together"
    assert set(line.body["bounds"]) == {"sex"}
    run("ledger", "verify", ledger)


WRONG = {
    "a misspelt section": ("[limits]", "[limit]", r"\[limit\] is not known"),
    "a misspelt limit": ("utility =", "usefulness =", r"limits\.usefulness is not known"),
    "a limit of no column": ("leakage = { sex = 0.75 }\nutil", "leakage = { gender = 0.75 }\nutil", "one of sex"),
    "words for numbers": ("utility = { income = 0.6 }", 'utility = { income = "high" }', "numbers by name"),
    "a number for a name": ('targets = ["income"]', "targets = 3", "a list of names"),
    "no file": ('file = "people.csv"', "", r"data\.file must be there"),
    "no TOML": ("[data]", "[data", "cannot be read as TOML"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_policy_with_a_wrong_word_is_refused(tmp_path, how):
    """A limit that is misspelt would not be kept."""
    old, new, message = WRONG[how]
    assert old in POLICY
    (tmp_path / "tacit.toml").write_text(POLICY.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_policy(tmp_path)


def test_a_policy_without_limits_is_no_gate(people):
    (people / "none.toml").write_text(POLICY.split("[limits]")[0])
    with pytest.raises(InputError, match="sets no limit"):
        run("check", people / "none.toml")


def test_options_of_a_ledger_go_together(people):
    with pytest.raises(InputError, match="--ledger needs --to"):
        run("fit", people / "people.csv", "--target", "income", "--sensitive", "sex", "--set", "ledger=l.jsonl")
    with pytest.raises(InputError, match="go with --ledger"):
        run("fit", people / "people.csv", "--target", "income", "--sensitive", "sex", "--set", "to=analyst")


def test_what_is_written_for_others_holds_no_markup_of_strangers():
    cases = [Case("leakage.<b>|x", False, "a\x00b & <c>", "do")]
    assert ElementTree.fromstring(junit(cases, 1.0))[0].attrib["name"] == "leakage.<b>|x"
