"""The folder of evidence: signed, complete, two printed pages, and without a value of the table in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import tacit
from browser import driven, dump
from commands import tacit_command
from tacit.errors import InputError
from tacit.ledger.account import mechanism_id, record
from tacit.ledger.chain import Ledger
from tacit.ledger.decisions import decide, decisions
from tacit.ledger.evidence import verify_evidence, write_evidence
from tacit.ledger.statement import EvidenceError, read_statement
from tacit.release.bundle import read_bundle
from tacit.release.key_folder import key_folder, key_path
from tacit.release.signing import new_signing_key
from tacit.report.report import Report
from tacit.report.results import Measure, Power, Resemblance
from tacit.report.without_values import without_values

pytestmark = [
    pytest.mark.usefixtures("few_steps", "one_attacker"),  # what is filed, not what is found
    pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning"),
]
PLANTED = ("Person-", "Xylophonist", "Quixotic", "Fennimore", "Marzipan", "41.8125", "27.4375")
POLICY = """
[data]
file = "people.csv"
targets = ["rich"]
sensitive = ["sex"]
[limits]
leakage = { sex = 0.99 }
utility = { rich = 0.999 }
[receivers.analyst]
leakage = { sex = 0.99 }
"""


def people(n=700, seed=0):
    """A table in which every column's values are words and numbers that occur nowhere else."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["Fennimore", "Marzipan"], n)
    return pd.DataFrame(
        {
            "name": [f"Person-{i:05d}" for i in range(n)],
            "job": rng.choice(["Xylophonist", "Quixotic"], n),
            "hours": rng.choice([41.8125, 27.4375, 33.0625], n),
            "rich": np.where(rng.random(n) < 0.4 + 0.3 * (sex == "Marzipan"), "yes", "no"),
            "sex": sex,
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A released table (with noise, so with a key), a ledger with a line about it, a policy and an officer's key."""
    home = tmp_path_factory.mktemp("home")
    people().to_csv(home / "people.csv", index=False)
    new_signing_key(home / "officer.key")
    new_signing_key(home / "other.key")
    (home / "tacit.toml").write_text(POLICY)
    ledger = Ledger.new(home / "ledger.jsonl", home / "ledger.key")
    done = tacit_command("fit", home / "people.csv", "--target", "rich", "--sensitive", "sex", "--drop", "name",
                         "--out", home / "out", "--ledger", home / "ledger.jsonl", "--to", "analyst")  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = ledger.verify()[1]
    record(ledger, {**body_of(home / "out"), "mechanism": "f" * 64}, np.empty((0, 2), dtype="<u8"), True)
    decide(ledger, line.hash, "accept", "fine <b>by</b> me", home / "officer.key")
    return home


def body_of(folder, to="analyst"):
    """What a ledger's line says of the table that a fit released."""
    path = key_path(key_folder(folder), read_bundle(folder / "filter.tacit"), "noise")
    key = bytes.fromhex(path.read_text()) if path.exists() else None
    told = {"status": "audited", "audited": 0.6, "guessing": 0.5, "bound": None, "odds": None, "cells": None,
            "epsilon": None, "n_classes": 2, "delta": 0.05}  # fmt: skip
    manifest = read_bundle(folder / "filter.tacit").manifest
    return {"kind": "release", "by": "fit", "what": "people.csv", "to": to, "rows": 700, "bundle": "filter.tacit",
            "mechanism": mechanism_id(manifest, key, "fit"), "bounds": {"sex": told}}  # fmt: skip


@pytest.fixture(scope="module")
def filed(home):
    return write_evidence(
        home / "out", home / "evidence", home / "ledger.jsonl", home / "tacit.toml", home / "officer.key"
    )


@pytest.fixture
def copied(filed, tmp_path):
    """The folder, to be tampered with."""
    for path in filed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


# -- no value -----------------------------------------------------------------------------------------


def test_no_value_of_the_table_is_in_any_file(home, filed):
    named = sorted(p.name for p in filed.iterdir())
    assert named == ["audit.json", "ledger.json", "ledger.jsonl", "mapping.md", "policy.toml", "report.html",
                     "statement.json", "summary.html", "versions.json"]  # fmt: skip
    for path in filed.iterdir():
        text = path.read_text()
        text += base64.b64decode(json.loads(text)["payload"]).decode() if path.name == "statement.json" else ""
        assert not [word for word in PLANTED if word in text], path.name
        secrets = [p.read_text() for p in key_folder(home / "out").glob("*.key")]
        assert len(secrets) == 2
        assert not [secret for secret in secrets if secret in text]
    page = (home / "out" / "report.html").read_text()  # the control: the owner's own report holds such values
    assert "Xylophonist" in page
    assert "41.8125" in page
    assert "Marzipan" in (home / "out" / "audit.json").read_text()


def test_an_audit_without_values_keeps_its_figures(home):
    report = Report.from_json((home / "out" / "audit.json").read_bytes())
    shown = Resemblance(examples=(([["Quixotic"]], None, [["Quixotic"]]),))
    m = Measure(0.6, 0.5, 0.7, 0.5)
    report = replace(report, resemblance=shown, groups={"sex": {"job Xylophonist": m}})
    bare = without_values(report)
    assert bare.leakage["sex"].measure == report.leakage["sex"].measure
    assert bare.leakage["sex"].confusion == report.leakage["sex"].confusion
    assert bare.leakage["sex"].classes == ("class 1", "class 2")
    assert bare.change.kept == report.change.kept
    assert bare.groups == {"sex": {"group 1": m}}
    assert not [word for word in PLANTED if word in bare.to_json()]
    assert [word for word in PLANTED if word in report.to_json()]  # the control


# -- the signature ------------------------------------------------------------------------------------


def test_verified_by_whoever_signed_it(home, filed):
    statement = verify_evidence(filed, home / "officer.key.pub", home / "out")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    for path in filed.iterdir():
        if path.name != "statement.json":
            assert statement["digests"][path.name] == hashlib.sha256(path.read_bytes()).hexdigest()
    table = hashlib.sha256((home / "out" / "release.csv").read_bytes()).hexdigest()
    assert statement["digests"]["released/release.csv"] == table
    with pytest.raises(EvidenceError, match="not signed by the trusted key"):
        verify_evidence(filed, home / "other.key.pub")


def test_the_envelope_is_what_its_standard_says(home, filed):
    """DSSE by hand: the signature is over the lengths, the type and the payload."""
    told = json.loads((filed / "statement.json").read_text())
    payload = base64.b64decode(told["payload"])
    message = f"DSSEv1 28 application/vnd.in-toto+json {len(payload)} ".encode() + payload
    (signature,) = told["signatures"]
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature["keyid"])).verify(
        base64.b64decode(signature["sig"]), message
    )
    assert set(json.loads(payload)) == {"_type", "subject", "predicateType", "predicate"}


@pytest.mark.parametrize("name", ["summary.html", "audit.json", "ledger.jsonl", "versions.json"])
def test_an_edited_file_is_found(name, copied, home):
    verify_evidence(copied, home / "officer.key.pub")  # the control
    (copied / name).write_bytes((copied / name).read_bytes() + b" ")
    with pytest.raises(EvidenceError, match=f"{name} was edited"):
        verify_evidence(copied, home / "officer.key.pub")


def test_files_that_are_gone_or_new_are_found(copied, home):
    (copied / "more.txt").write_text("trust me")
    with pytest.raises(EvidenceError, match=r"more.txt is not part"):
        verify_evidence(copied, home / "officer.key.pub")
    (copied / "more.txt").unlink()
    (copied / "policy.toml").unlink()
    with pytest.raises(EvidenceError, match=r"policy.toml is gone"):
        verify_evidence(copied, home / "officer.key.pub")


def test_another_release_is_not_the_one_that_was_signed_for(home, filed, tmp_path):
    for path in (home / "out").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "release.csv").write_text((home / "people.csv").read_text())
    with pytest.raises(EvidenceError, match=r"release.csv .* is not the file that was signed for"):
        verify_evidence(filed, home / "officer.key.pub", tmp_path)


@pytest.mark.parametrize("edit", ["payload", "type", "none", "list"])
def test_an_edited_statement_is_found(edit, copied, home):
    told = json.loads((copied / "statement.json").read_text())
    if edit == "payload":
        payload = base64.b64decode(told["payload"]).replace(b"release.csv", b"release.CSV")
        told["payload"] = base64.b64encode(payload).decode()
    elif edit == "type":
        told["payloadType"] = "text/plain"
    else:
        told = {**told, "signatures": []} if edit == "none" else [told]
    (copied / "statement.json").write_text(json.dumps(told))
    with pytest.raises(EvidenceError):
        verify_evidence(copied, home / "officer.key.pub")


# -- what it says -------------------------------------------------------------------------------------


def test_the_ledgers_lines_about_this_release_and_no_others(home, filed):
    lines = [json.loads(line) for line in (filed / "ledger.jsonl").read_text().splitlines()]
    assert [line["body"]["kind"] for line in lines] == ["ledger", "release", "decision"]
    assert [line["number"] for line in lines] == [0, 1, 3]
    told = json.loads((filed / "ledger.json").read_text())
    assert told["verified"] is True
    assert told["lines"] == 4
    page = (filed / "summary.html").read_text()
    assert "fine &lt;b&gt;by&lt;/b&gt; me" in page
    assert "accepted" in page


def test_a_ledger_that_was_edited_gives_no_evidence(home, tmp_path):
    for name in ("ledger.jsonl", "ledger.jsonl.head"):
        (tmp_path / name).write_text((home / name).read_text().replace('"analyst"', '"nobody"'))
    with pytest.raises(tacit.ledger.LedgerError, match="was edited"):
        write_evidence(home / "out", tmp_path / "evidence", tmp_path / "ledger.jsonl")
    assert not (tmp_path / "evidence").exists()


def test_the_limits_of_the_policy_are_held_against_the_audit(filed):
    page = re.sub(r"<[^>]+>", " ", (filed / "summary.html").read_text())
    assert re.search(r"leakage.sex\s+kept\s+at most", page)
    assert re.search(r"utility.rich\s+not kept\s+accuracy", page)
    # whoever reads the top of the page alone must not miss it
    assert re.search(r"policy not kept\s+This release does not keep 1 of \d limits of the policy: utility.rich", page)
    assert page.index("This release does not keep") < page.index("1. Who gets what")
    assert "policy at the time" not in page


def test_without_a_ledger_a_policy_and_a_key_it_says_so(home, tmp_path):
    done = tacit_command("evidence", home / "out", "--out", tmp_path / "bare")
    assert done.returncode == 0
    assert "not signed" in done.stdout
    page = (tmp_path / "bare" / "summary.html").read_text()
    for words in ("No ledger was given", "No policy was given", "<strong>not signed</strong>"):
        assert words in page
    with pytest.raises(EvidenceError, match="not signed"):
        read_statement((tmp_path / "bare" / "statement.json").read_bytes(), home / "officer.key.pub")


def test_what_cannot_be_filed_is_refused(home, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "release.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=r"has no audit.json"):
        write_evidence(empty, tmp_path / "a")
    with pytest.raises(InputError, match="is not empty"):
        write_evidence(home / "out", home)
    for path in (home / "out").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    told = json.loads((tmp_path / "audit.json").read_text())
    told["name"] = "another"
    (tmp_path / "audit.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"not the audit inside filter.tacit"):
        write_evidence(tmp_path, tmp_path / "b")


def test_a_policy_of_another_release_is_refused(home, tmp_path):
    (tmp_path / "tacit.toml").write_text("[limits]\nleakage = { race = 0.6 }\n")
    with pytest.raises(InputError, match="the policy limits race, and the audit has sex"):
        write_evidence(home / "out", tmp_path / "evidence", policy=tmp_path / "tacit.toml")


def test_an_old_acceptance_cannot_be_appended_again(home, tmp_path):
    """Whoever has the ledger's key, and not the officer's, cannot turn a rejection."""
    ledger = Ledger.new(tmp_path / "ledger.jsonl", tmp_path / "ledger.key")
    line = record(ledger, body_of(home / "out"), None, False)
    old = decide(ledger, line.hash, "accept", "", home / "officer.key")
    new = decide(ledger, line.hash, "reject", "on second thought", home / "officer.key")
    replayed = ledger.append({k: v for k, v in old.body.items() if k != "when"})
    assert [d.hash for d in decisions(ledger.verify())] == [old.hash, new.hash]
    assert replayed.hash not in {d.hash for d in decisions(ledger.verify())}
    forged = ledger.append({**new.body, "verdict": "accept", "after": replayed.hash})
    assert forged.hash not in {d.hash for d in decisions(ledger.verify())}


def test_on_the_command_line(home, tmp_path):
    made = tacit_command("evidence", home / "out", "--out", tmp_path / "e", "--ledger", home / "ledger.jsonl",
                         "--policy", home / "tacit.toml", "--key", home / "officer.key")  # fmt: skip
    assert made.returncode == 0, made.stderr
    good = tacit_command("evidence", "--verify", tmp_path / "e", "--trusted-key", home / "officer.key.pub",
                         "--release", home / "out")  # fmt: skip
    assert good.returncode == 0, good.stderr
    assert "files are as they were signed" in good.stdout
    (tmp_path / "e" / "mapping.md").write_text("all is well")
    bad = tacit_command("evidence", "--verify", tmp_path / "e", "--trusted-key", home / "officer.key.pub")
    assert bad.returncode == 2
    assert "mapping.md was edited" in bad.stderr


def pages_of(summary, profile):
    """How many pages it has when it is printed, by a browser that asks nobody."""
    with driven(profile) as page:
        page.open(summary.as_uri())
        printed = base64.b64decode(page.call("Page.printToPDF", preferCSSPageSize=True)["data"])
        assert not [r for r in page.requests if r["url"].startswith("http")]
    return len(re.findall(rb"/Type\s*/Page\b", printed))


# -- in a browser -------------------------------------------------------------------------------------


def test_printed_it_has_two_pages_and_the_report_draws_itself(filed, tmp_path):
    assert pages_of(filed / "summary.html", tmp_path / "driven") == 2
    drawn, console = dump(filed / "report.html", tmp_path / "profile")
    assert 'data-drawn="yes"' in drawn
    assert console == []


def test_five_sensitive_attributes_and_many_notes_have_two_pages_too(home, tmp_path):
    report = Report.from_json((home / "out" / "audit.json").read_bytes())
    names = [f"a rather long name of an attribute, {i}" for i in range(5)]
    many = {f: dict.fromkeys(names, getattr(report, f)["sex"]) for f in ("leakage", "exposure", "certificate", "bound")}
    kinds = ("one column", "a pair", "a smooth direction")
    power = Power(dict.fromkeys(kinds, 0.6), dict.fromkeys(kinds, 0.9), dict.fromkeys(kinds, "trees"), 0.5, 9, (99, 99))
    report = replace(report, **many, power=dict.fromkeys(names, power), notes=("a note of some twenty words " * 4,) * 9)
    (tmp_path / "release.csv").write_text("a\n1\n")
    report.to_json(tmp_path / "audit.json")
    made = write_evidence(tmp_path, tmp_path / "evidence")
    assert pages_of(made / "summary.html", tmp_path / "driven") == 2
