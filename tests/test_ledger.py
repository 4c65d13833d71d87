"""The ledger: nothing can be edited, removed, moved or lost; what is released adds up, and too much is refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli.console import Book
from tacit.errors import InputError
from tacit.ledger.composition import (
    COUNTED,
    Holding,
    Known,
    ReleaseRefused,
    _cases,
    find_policy,
    holdings,
    record,
    what_if,
)
from tacit.ledger.ledger import KEY_VARIABLE, Ledger, LedgerError, people_of, read_people, write_people
from tacit.ledger.policy import DataPolicy, Limits, Policy, Receiver


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.new(tmp_path / "ledger.jsonl", tmp_path / "keys" / "ledger.key")
    for i in range(4):
        made.append({"kind": "note", "text": f"number {i}"})
    return made


def edited(lines):
    stored = json.loads(lines[2])
    stored["body"]["text"] = "another"
    return [*lines[:2], json.dumps(stored).encode() + b"\n", *lines[3:]]


TAMPERED = {
    "edited": edited,
    "removed": lambda lines: lines[:2] + lines[3:],
    "reordered": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "the first line removed": lambda lines: lines[1:],
    "all lines removed": lambda lines: [],
    "doubled": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "garbage": lambda lines: [*lines[:2], b"{]\n", *lines[3:]],
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_ledger_that_was_edited_is_detected_and_takes_no_line(ledger, how):
    assert len(ledger.verify()) == 5
    ledger.path.write_bytes(b"".join(TAMPERED[how](ledger.path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(LedgerError):
        ledger.verify()
    with pytest.raises(LedgerError):
        ledger.append({"kind": "note", "text": "more"})


def test_an_earlier_head_detects_a_file_that_was_shortened_or_written_anew(ledger, tmp_path):
    """Without the head a shortened chain is whole: the control."""
    old, head = ledger.path.read_bytes(), ledger.append({"kind": "note", "text": "later"}).hash
    assert ledger.verify(head=head[:16])
    ledger.path.write_bytes(old)
    assert len(ledger.verify()) == 5
    with pytest.raises(LedgerError):
        ledger.verify(head=head)


@pytest.mark.parametrize("head", ["", "0", "0123456789abcde"])
def test_a_head_that_identifies_no_line_is_refused(ledger, head):
    """A variable of a script that is not set would verify anything."""
    with pytest.raises(InputError):
        ledger.verify(head=head)


def test_an_unfinished_line_is_cut_off(ledger):
    with ledger.path.open("ab") as file:
        file.write(b'{"number": 5, "prev')
    assert len(ledger.verify()) == 5
    assert ledger.append({"kind": "note", "text": "next"}).number == 5
    assert [line.number for line in ledger.verify()] == list(range(6))


WRITER = textwrap.dedent("""
    import sys
    from tacit.ledger import Ledger
    ledger = Ledger(sys.argv[1])
    print("ready", flush=True)
    for i in range(int(sys.argv[2])):
        ledger.append({"kind": "note", "text": f"{sys.argv[3]} {i}"})
        print(i, flush=True)
""")


def writer(ledger, n, name):
    arguments = [sys.executable, "-c", WRITER, str(ledger.path), str(n), name]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_processes_that_append_at_once_lose_nothing(ledger):
    running = [writer(ledger, 20, name) for name in "abc"]
    for process in running:
        process.communicate(timeout=300)
        assert process.returncode == 0
    found = [line.body["text"] for line in ledger.verify()[5:]]
    assert sorted(found) == sorted(f"{name} {i}" for name in "abc" for i in range(20))


def test_kill_9_while_appending_leaves_a_valid_ledger(ledger):
    known = 0
    for attempt in range(3):
        process = writer(ledger, 10_000, str(attempt))
        assert process.stdout.readline().strip() == "ready"
        acknowledged = 0
        for _ in range(5 + attempt):
            acknowledged = int(process.stdout.readline()) + 1
        time.sleep(0.003 * attempt)
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += len(process.stdout.read().split())
        process.wait()
        lines = ledger.verify()
        mine = [line for line in lines if line.body.get("text", "").startswith(f"{attempt} ")]
        assert acknowledged <= len(mine) <= acknowledged + 1  # what was acknowledged is there
        assert len(lines) > known
        known = len(lines)
    ledger.append({"kind": "note", "text": "after"})
    assert len(ledger.verify()) == known + 1


def test_people_are_hashed_under_the_ledgers_own_key(ledger, monkeypatch, tmp_path):
    with pytest.raises(InputError):
        _ = Ledger(ledger.path).secret  # nothing lies beside the ledger
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "keys" / "ledger.key"))
    assert Ledger(ledger.path).secret == ledger.secret
    other = Ledger.new(tmp_path / "other.jsonl", tmp_path / "other.key")
    with pytest.raises(InputError):
        _ = Ledger(ledger.path, tmp_path / "other.key").secret
    assert other.secret != ledger.secret
    with pytest.raises(InputError):
        Ledger.new(ledger.path)
    with pytest.raises(InputError):
        Ledger(tmp_path / "none.jsonl").append({"kind": "note"})


# -- whose records --------------------------------------------------------------------------------


def test_people_are_fingerprints_under_the_key_and_never_values(tmp_path):
    prints = np.arange(6, dtype="<u8")
    one, other = (people_of(prints, list("aabbcc"), key) for key in (b"k" * 16, b"l" * 16))
    assert len(np.unique(one[:, 0])) == 3
    assert not np.isin(one, other).any()
    assert (
        people_of(prints, [1.0, "1.0", 2, " 2", "003", 3], b"k")[:, 0]
        == people_of(prints, [1, 1, 2, 2, 3, 3], b"k")[:, 0]
    ).all()
    told = write_people(tmp_path, one, by_unit=True)
    assert told["count"] == 3
    assert (read_people(tmp_path, told) == one).all()
    (tmp_path / told["prints"]).write_bytes(b"\0" * 96)
    with pytest.raises(LedgerError):
        read_people(tmp_path, told)
    (tmp_path / told["prints"]).unlink()
    with pytest.raises(LedgerError):
        read_people(tmp_path, told)


# -- what adds up ---------------------------------------------------------------------------------


def bounds(bound=0.55, odds=2.0, cells=None, epsilon=None, audited=0.54):
    told = {"status": "certified", "audited": audited, "guessing": 0.5, "bound": bound, "odds": odds, "cells": cells}
    return {"sex": {**told, "epsilon": epsilon, "n_classes": 2, "delta": 0.05}}


def body(mechanism, to="analyst", **more):
    told = {"kind": "release", "by": "apply", "what": "a file", "to": to, "rows": 3, "bundle": "b"}
    return {**told, "mechanism": mechanism, "bounds": bounds(**more)}


def people(key, *names, records=None):
    return people_of(np.arange(len(names), dtype="<u8") if records is None else np.array(records, "<u8"), names, key)


def policy(tmp_path, **receiver):
    return Policy(tmp_path, receivers={"analyst": Receiver(**{"leakage": {"sex": 0.6}, **receiver})}, text="p")


@contextlib.contextmanager
def refused(**expected):
    """The release inside is refused, and the worst case is this."""
    with pytest.raises(ReleaseRefused) as caught:
        yield caught
    worst = caught.value.verdicts[0]
    found = {k: getattr(worst if hasattr(worst, k) else worst.composed, k) for k in expected}
    assert found == expected


def test_the_same_release_again_costs_nothing(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, body("A"), people(key, *"abc"), True, p)
    again = record(ledger, body("A"), people(key, *"abc"), True, p)
    assert [v["bound"] for v in again.body["verdicts"]] == [0.55]
    assert again.body["verdicts"][0]["how"] == "one release"


def test_another_release_of_the_same_people_is_refused_and_of_others_is_not(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, body("A"), people(key, *"abc"), True, p)
    with refused(people=1, releases=2, bound=1.0):
        record(ledger, body("B"), people(key, *"cde"), True, p)
    record(ledger, body("B"), people(key, *"def"), True, p)
    assert [line.body["mechanism"] for line in ledger.verify() if line.kind == "release"] == ["A", "B"]


def test_another_record_of_the_same_person_adds_up(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, body("A"), people(key, *"abc"), True, p)
    with refused(releases=2):
        record(ledger, body("A"), people(key, "a", records=[77]), True, p)
    allowed = policy(tmp_path, independent=True)
    line = record(ledger, body("A"), people(key, "a", records=[77]), True, allowed)
    assert line.body["verdicts"][0]["how"].startswith("if they are independent")
    assert 0.55 < line.body["verdicts"][0]["bound"] <= 0.6


def test_without_units_another_mechanism_may_be_of_the_same_people(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, body("A"), people_of(np.arange(3, dtype="<u8"), None, key), False, p)
    with refused(releases=2):
        record(ledger, body("B"), people_of(np.arange(50, 53, dtype="<u8"), None, key), False, p)
    record(ledger, body("A"), people_of(np.arange(9, dtype="<u8"), None, key), False, p)


def test_without_units_other_records_by_the_same_mechanism_add_up(ledger, tmp_path):
    """A person of the March table may be in the June table too, with another record."""
    p, key = policy(tmp_path), ledger.secret
    march, june = (people_of(np.arange(i, i + 9, dtype="<u8"), None, key) for i in (0, 100))
    record(ledger, body("A"), march, False, p)
    record(ledger, body("A"), march, False, p)  # the same table again
    record(ledger, body("A"), people_of(np.arange(4, dtype="<u8"), None, key), False, p)  # a part of it
    with refused(releases=2):
        record(ledger, body("A"), june, False, p)
    record(ledger, body("A"), june, False, policy(tmp_path, leakage={}))
    assert holdings(ledger.verify(), ledger.folder, "analyst", p)[0].releases == 2


def test_where_the_policy_names_units_rows_do_not_pass_for_people(ledger, tmp_path):
    p = replace(policy(tmp_path), data=DataPolicy("people.csv", ("income",), ("sex",), unit="person"))
    with pytest.raises(InputError):
        record(ledger, body("A"), people_of(np.arange(3, dtype="<u8"), None, ledger.secret), False, p)
    record(ledger, body("A"), people(ledger.secret, *"abc"), True, p)
    record(ledger, {**body("S"), "by": "serve", "records_per_person": 1}, None, False, replace(p, receivers={
        "analyst": Receiver()}))  # fmt: skip


def test_a_stranger_to_the_policy_gets_nothing(ledger, tmp_path):
    with pytest.raises(InputError):
        record(ledger, body("A", to="stranger"), people(ledger.secret, "a"), True, policy(tmp_path))


def test_receivers_who_talk_are_one(ledger, tmp_path):
    receivers = {
        "analyst": Receiver({"sex": 0.6}),
        "friend": Receiver({"sex": 0.6}, with_=("analyst",)),
        "other": Receiver({"sex": 0.6}),
    }
    p, key = Policy(tmp_path, receivers=receivers, text="p"), ledger.secret
    record(ledger, body("A"), people(key, "a"), True, p)
    record(ledger, body("B", to="other"), people(key, "a"), True, p)
    with refused(releases=2):
        record(ledger, body("B", to="friend"), people(key, "a"), True, p)


def test_who_reads_anothers_releases_has_a_limit_for_them(ledger, tmp_path):
    """Whichever of the two gets theirs first."""
    receivers = {"analyst": Receiver({"sex": 0.6}), "friend": Receiver({"sex": 0.6}, with_=("analyst",))}
    p, key = Policy(tmp_path, receivers=receivers, text="p"), ledger.secret
    record(ledger, body("A", to="friend"), people(key, "a"), True, p)
    with refused(holder="friend", releases=2):
        record(ledger, body("B"), people(key, "a"), True, p)
    record(ledger, body("B"), people(key, "b"), True, p)


def test_releases_that_were_counted_together_pass_by_that(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, body("A"), people(key, "a"), True, p)
    ledger.append({"kind": "together", "sets": [["A", "B"]], "bounds": bounds(0.58)})
    line = record(ledger, body("B"), people(key, "a"), True, p)
    assert line.body["verdicts"][0]["bound"] == 0.58
    assert line.body["verdicts"][0]["how"] == COUNTED
    assert "same record" in holdings(ledger.verify(), ledger.folder, "analyst", p)[0].composed.sentence
    with refused(releases=3):  # two counted, and one more
        record(ledger, body("C"), people(key, "a"), True, p)


def test_only_a_first_release_passes_on_its_audit(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, body("A", bound=None), people(key, "a"), True, p)
    with refused(bound=1.0):
        record(ledger, body("B", bound=None), people(key, "a"), True, p)
    with refused(bound=1.0):
        record(ledger, body("A", bound=None), people(key, "b"), True, policy(tmp_path, certified=True))
    ledger.append({"kind": "together", "sets": [["A", "B"]], "bounds": bounds(None)})
    with refused(bound=1.0):  # nor do several that were audited together
        record(ledger, body("B", bound=None), people(key, "a"), True, p)
    told = holdings(ledger.verify(), ledger.folder, "analyst", p)[0].composed.sentence
    assert told.startswith("our attackers <= .540")
    assert "any attacker" not in told


def test_odds_have_a_limit_of_their_own(ledger, tmp_path):
    p = policy(tmp_path, odds={"sex": 1.5})
    with refused(odds=2.0, odds_limit=1.5):
        record(ledger, body("A"), people(ledger.secret, "a"), True, p)


def test_a_release_without_a_policy_is_told_as_such(ledger, tmp_path, capsys):
    Book(ledger, "analyst").tell(record(ledger, body("A"), people(ledger.secret, "a"), True))
    assert "no limit was held against it" in capsys.readouterr().out
    Book(ledger, "analyst").tell(record(ledger, body("A"), people(ledger.secret, "a"), True, policy(tmp_path)))
    assert "no limit" not in capsys.readouterr().out


def test_the_account_of_a_million_people_is_a_few_cases(ledger, tmp_path):
    rng = np.random.default_rng(0)
    one = np.column_stack([np.arange(10**6), rng.integers(1, 2**62, 10**6)]).astype("<u8")
    two = one[: 10**5].copy()
    two[: 10**4, 1] += 1
    bodies = [body("A"), body("B"), body("A")]
    cases = _cases(bodies, [one, two, one], one[:, 0])
    both, alone = {"A": 1, "B": 1}, {"A": 1}
    wanted = [Holding(both, False, 10**4), Holding(both, True, 9 * 10**4), Holding(alone, True, 9 * 10**5)]
    assert sorted(cases, key=lambda c: c.people) == wanted


def test_what_was_counted_together_is_of_one_record(ledger, tmp_path):
    """March by one bundle and June by another tell more than both of one record: a coin, and the coin turned over."""
    p, key = policy(tmp_path), ledger.secret
    ledger.append({"kind": "together", "sets": [["A", "B"]], "bounds": bounds(0.58)})
    record(ledger, body("A"), people(key, "a"), True, p)
    with refused(releases=2):
        record(ledger, body("B"), people(key, "a", records=[99]), True, p)
    record(ledger, body("B"), people(key, "a"), True, p)
    # without units: tables of the same rows are, others may not be
    whole = people_of(np.arange(1, 9, dtype="<u8"), None, key)
    record(ledger, body("A", to="other"), whole, False, Policy(tmp_path, receivers={"other": Receiver({"sex": 0.6})}))
    other = Policy(tmp_path, receivers={"other": Receiver({"sex": 0.6})}, text="p")
    record(ledger, body("B", to="other"), whole[:5], False, other)
    with refused(bound=1.0):
        record(ledger, body("B", to="other"), people_of(np.arange(20, 25, dtype="<u8"), None, key), False, other)


def test_a_release_keeps_the_limits_of_one_release_too(ledger, tmp_path):
    limits = {"leakage": {"sex": 0.5}, "odds": {"sex": 1.2}}
    p = Policy(tmp_path, limits=Limits(**limits), receivers={"analyst": Receiver()}, text="p")
    with pytest.raises(ReleaseRefused) as caught:
        record(ledger, body("A"), people(ledger.secret, "a"), True, p)
    assert len(caught.value.alone) == 2  # its leakage and its odds
    p = Policy(
        tmp_path, limits=Limits(certified=True, leakage={"sex": 0.9}), receivers={"analyst": Receiver()}, text="p"
    )
    with pytest.raises(ReleaseRefused) as caught:
        record(ledger, body("A", bound=None), people(ledger.secret, "a"), True, p)
    assert len(caught.value.alone) == 1
    assert not caught.value.verdicts


def test_a_policy_above_that_names_the_ledger_counts(tmp_path):
    made = Ledger.new(tmp_path / "books" / "ledger.jsonl", tmp_path / "ledger.key")
    assert find_policy(made) is None
    (tmp_path / "tacit.toml").write_text('[receivers.analyst]\n[ledger]\nfile = "books/ledger.jsonl"\n')
    assert find_policy(made).receivers == {"analyst": Receiver()}
    (tmp_path / "tacit.toml").write_text('[receivers.analyst]\n[ledger]\nfile = "another.jsonl"\n')
    assert find_policy(made) is None


def test_what_a_service_takes_counts_for_everybody(ledger, tmp_path):
    p, key = policy(tmp_path), ledger.secret
    record(ledger, {**body("S"), "by": "serve", "records_per_person": 2}, None, False, policy(tmp_path, leakage={}))
    found = what_if(ledger.verify(), ledger.folder, body("A"), people(key, "a"), p)
    assert found[0].releases == 3
    assert holdings(ledger.verify(), ledger.folder, "analyst", p)[0].releases == 2


def test_nothing_told_is_nothing_known():
    assert Known.from_dict(None, 2).part.bound == 1.0


# -- by bundles -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    data = tacit.load_dataset("gaussians", n=3000)
    train, attack, test = data.split((0.4, 0.3, 0.3), random_state=0)
    f = tacit.CodebookFilter(n_codes=4, random_state=0)
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    report = tacit.audit(f, attack, test, attackers="logistic", measurements=["no-baseline", "no-breadth"])
    return tacit.save(f, folder / "code.tacit", report), test


def test_a_file_that_is_released_is_written_down_first(bundle, tmp_path):
    path, test = bundle
    ledger = Ledger.new(tmp_path / "ledger.jsonl", tmp_path / "ledger.key")
    X = np.ascontiguousarray(test.X)
    np.savez(tmp_path / "raw.npz", X=X)
    line = tacit.ledger.record_file(ledger, "analyst", path, tmp_path / "raw.npz", tmp_path / "out.npz")
    told = json.dumps(line.body)
    assert line.body["rows"] == len(X)
    assert line.body["people"]["records"] == len(np.unique(X, axis=0))
    assert line.body["bounds"]["shape"]["bound"] is not None
    assert not any(str(v) in told for v in X.ravel()[:100])
    again = tacit.ledger.record_file(ledger, "analyst", path, tmp_path / "raw.npz", tmp_path / "out.npz")
    assert again.body["people"]["prints"] == line.body["people"]["prints"]
    assert again.body["mechanism"] == line.body["mechanism"]


def test_what_is_carried_along_is_part_of_the_record(tmp_path):
    """Else a column could bring something new each time, as the same release."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(20, 70, 300), "hours": rng.integers(10, 60, 300), "visit": ["a", "b"] * 150})
    f = tacit.CouplingFilter(pass_through=["visit"], random_state=0)
    f.fit(X, sensitive_features=pd.DataFrame({"sex": rng.integers(0, 2, 300)}))
    release = tacit.load(tacit.save(f, tmp_path / "f.tacit"), noise_key=f.noise_key)
    beside = {"sensitive_features": pd.DataFrame({"sex": rng.integers(0, 2, 300)})} if release.sees_sensitive else {}
    prints = [release.prints(rows, **beside)[1] for rows in (X, X.assign(visit="c"), X.iloc[::-1].iloc[::-1])]
    assert not (prints[0] == prints[1]).any()
    assert (prints[0] == prints[2]).all()
