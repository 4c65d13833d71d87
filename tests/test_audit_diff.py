"""What changed between two audits: with an interval that holds, and a gate on its upper end."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from tacit.auditing.paired_change import paired_change
from tacit.auditing.stats import balanced_accuracy, paired_gain
from tacit.errors import InputError, RequirementNotMet
from tacit.report.difference import Change, Difference, difference

QUICK = {"attackers": "logistic", "measurements": ["no-baseline", "no-breadth"]}


@pytest.fixture(scope="module")
def parts():
    """Three columns that tell nothing, a little and much of s; y is told by all."""
    rng = np.random.default_rng(0)
    n = 3000
    s = rng.integers(0, 2, n)
    y = rng.integers(0, 2, n)
    told = [np.where(rng.random(n) < share, s, rng.integers(0, 2, n)) for share in (0.0, 0.1, 0.8)]
    X = np.column_stack([*told, y]).astype(float)
    data = tacit.Dataset(X, pd.Series(y, name="y"), pd.Series(s, name="s"))
    return data.split((0.5, 0.5), random_state=0)


def release(parts, *columns):
    return tuple(part.X[:, [*columns, 3]] for part in parts)


def test_a_rise_is_shown_and_a_small_one_needs_the_pair(parts):
    attack, test = parts
    audits = [tacit.audit(release(parts, c), attack, test, **QUICK) for c in (0, 1, 2)]
    big = difference(audits[0], audits[2])
    assert big.changes[0].low > 0.2
    assert big.level == pytest.approx(0.90)
    with pytest.raises(RequirementNotMet, match=r"leakage of s: .* it has risen"):
        big.require()
    unpaired = difference(audits[0], audits[1]).changes[0]
    paired = paired_change(release(parts, 0), release(parts, 1), attack, test, "logistic").changes[0]
    assert paired.old == pytest.approx(unpaired.old)
    assert paired.new == pytest.approx(unpaired.new)
    assert paired.high - paired.low < unpaired.high - unpaired.low
    difference(audits[2], audits[0]).require()  # a fall is no rise


def test_the_same_release_twice(parts):
    attack, test = parts
    audit = tacit.audit(release(parts, 1), attack, test, **QUICK)
    found = difference(audit, audit).require()
    assert {c.value for c in found.changes} == {0.0}
    with pytest.raises(RequirementNotMet, match=r"may have risen by up to .* a paired interval is narrower"):
        found.require(most=0.0)
    same = paired_change(release(parts, 1), release(parts, 1), attack, test, "logistic")
    assert {(c.low, c.high) for c in same.changes} == {(0.0, 0.0)}
    same.require(most=0.0)


def test_the_intervals_hold_what_is_true():
    """Two attackers of one table, whose answers agree mostly or not at all; 90 % and 95 % are promised.

    Of 300 draws at most 47 may miss at 90 %, and 28 at 95 %. An interval of exactly the promised rate would miss more
    in fewer than 1 of 1,000 suites each.
    """
    rng = np.random.default_rng(0)
    missed = {"both intervals": 0, "paired": 0}
    for i in range(300):
        n, old, rise, alike = 400, 0.6, 0.05, (i % 2) * 0.9
        truth = rng.integers(0, 2, n)
        common = rng.random(n)
        right = [np.where(rng.random(n) < alike, common, rng.random(n)) < share for share in (old, old + rise)]
        answers = [np.where(r, truth, 1 - truth) for r in right]
        a, b = (balanced_accuracy(truth, guess, 2) for guess in answers)
        missed["both intervals"] += not b.low - a.high <= rise <= b.high - a.low
        gain = paired_gain(truth, answers[1], answers[0])
        missed["paired"] += not gain.low <= rise <= gain.high
    assert missed["both intervals"] <= 47
    assert missed["paired"] <= 28


def test_what_is_gone_never_passes(parts):
    attack, test = parts
    audit = tacit.audit(release(parts, 1), attack, test, **QUICK)
    assert audit.certificate["s"] is not None
    lost = replace(audit, certificate={"s": None}, bound={"s": None})
    with pytest.raises(RequirementNotMet, match=r"certified bound of s: .* to none"):
        difference(audit, lost).require()
    difference(lost, audit).require()
    untold = replace(audit, leakage={}, certificate={}, bound={})
    with pytest.raises(RequirementNotMet, match=r"leakage of s: .* to none"):
        difference(audit, untold).require()
    raised = replace(audit, certificate={"s": replace(audit.certificate["s"], bound=0.9)})
    with pytest.raises(RequirementNotMet, match=r"certified bound of s rose by .*, allowed 0.200"):
        difference(audit, raised).require(most=0.2)


def test_audits_of_other_questions_are_told_apart(parts):
    attack, test = parts
    audit = tacit.audit(release(parts, 1), attack, test, **QUICK)
    leak = audit.leakage["s"]
    other = replace(leak, balanced_accuracy=leak.balanced_accuracy._replace(guessing=1 / 3))
    changed = replace(audit, leakage={"s": other}, fresh=False, settings=replace(audit.settings, attackers=("trees",)))
    notes = " ".join(difference(audit, changed).notes)
    for words in ("other classes", "other attackers (logistic; then trees)", "fitted on say nothing"):
        assert words in notes


def test_on_the_command_line(parts, tmp_path):
    attack, test = parts
    for name, column in (("old", 0), ("new", 2)):
        (tmp_path / name).mkdir()
        tacit.audit(release(parts, column), attack, test, **QUICK).to_json(tmp_path / name / "audit.json")
    done = tacit_command("diff", tmp_path / "old", tmp_path / "new" / "audit.json")
    assert done.returncode == 3
    assert "leakage of s: " in done.stdout
    assert "not paired" in done.stdout
    assert "it has risen" in done.stderr
    told = tacit_command("diff", tmp_path / "new", tmp_path / "old", "--json")
    assert told.returncode == 0
    assert json.loads(told.stdout)["changes"][0]["figure"] == "leakage"
    wrong = tacit_command("diff", tmp_path / "old", tmp_path / "people.csv")
    assert wrong.returncode == 2
    assert "people.csv is not an audit" in " ".join(wrong.stderr.split())
    wrong = tacit_command("diff", "a", "b", "--target", "y")
    assert "go with --data" in " ".join(wrong.stderr.split())


@pytest.mark.usefixtures("one_attacker")
def test_two_released_tables_on_the_rows_of_the_raw_one(parts, tmp_path):
    attack, _ = parts
    raw = pd.DataFrame(attack.X, columns=list("abcd")).assign(
        y=attack.y["y"].to_numpy(), s=attack.sensitive["s"].to_numpy()
    )
    raw.to_csv(tmp_path / "raw.csv", index=False)
    raw[["a"]].to_csv(tmp_path / "old.csv", index=False)
    raw[["a", "c"]].to_csv(tmp_path / "new.csv", index=False)
    asked = ("--data", tmp_path / "raw.csv", "--target", "y", "--sensitive", "s")
    done = tacit_command("diff", tmp_path / "old.csv", tmp_path / "new.csv", *asked)
    assert done.returncode == 3, done.stderr
    assert "from the same rows, paired" in " ".join(done.stdout.split())
    assert tacit_command("diff", tmp_path / "old.csv", tmp_path / "old.csv", *asked, "--most", "0").returncode == 0


@pytest.mark.usefixtures("quickly")
def test_rows_of_a_fit_are_left_out_of_both(parts):
    attack, test = parts
    f = tacit.CodebookFilter(n_codes=2, random_state=0).fit(test.X, test.y, sensitive_features=test.sensitive)
    with pytest.raises(InputError, match="used to fit"):
        paired_change(f, release(parts, 1), attack, test, "logistic")


def test_a_bound_is_an_upper_end_already():
    change = Change("certified bound", "s", 0.55, 0.58)
    assert change.sentence == "certified bound of s: .550 to .580, +.030"
    Difference((change,), 0.9).require()
    with pytest.raises(RequirementNotMet, match=r"rose by 0.030, allowed 0.010"):
        Difference((change,), 0.9).require(most=0.01)
