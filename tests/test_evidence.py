"""The zip file of a release: whole, of one release, and written after a quick audit and a later one too."""

from __future__ import annotations

import hashlib
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import tacit
from commands import tacit_command
from tacit.errors import InputError
from tacit.ledger.evidence import SUMS, write_evidence
from tacit.release.bundle import read_bundle
from tacit.release.keys import key_folder

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is filed is tested, not the figures


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A table that was released after a quick audit, with a ledger and a policy."""
    home, rng = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 700)
    hours, rich = rng.choice([41, 27, 33], 700), np.where(rng.random(700) < 0.4 + 0.3 * (sex == "m"), "yes", "no")
    pd.DataFrame({"hours": hours, "rich": rich, "sex": sex}).to_csv(home / "people.csv", index=False)
    (home / "tacit.toml").write_text("[receivers.analyst]\n")
    ledger = tacit.ledger.Ledger.new(home / "ledger.jsonl")
    ledger.append({"kind": "note", "text": "of another release"})
    done = tacit_command("fit", home / "people.csv", "--target", "rich", "--sensitive", "sex", "--quick", "--filter",
                         "codebook", "--out", home / "out", "--set", f"ledger={ledger.path}",
                         "--set", "to=analyst")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return home


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_every_part_is_there_with_its_sum(home, tmp_path):
    files = contents(write_evidence(home / "out", tmp_path / "e.zip", home / "ledger.jsonl", home / "tacit.toml"))
    assert set(files) == {"report.html", "audit.json", "policy.toml", "ledger.jsonl", SUMS}
    sums = {name: digest for digest, name in (line.split("  ") for line in files.pop(SUMS).decode().splitlines())}
    released = {name: (home / "out" / name).read_bytes() for name in sums if name not in files}
    assert {"release.parquet", "filter.tacit"} == set(released)
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in (files | released).items()}
    assert [json.loads(line)["body"]["kind"] for line in files["ledger.jsonl"].splitlines()] == ["ledger", "release"]
    secrets = [p.read_bytes().strip() for p in key_folder(home / "out").glob("*.key")]
    assert secrets
    assert not any(secret in data for secret in secrets for data in files.values())


def test_a_later_audit_of_a_quick_release_is_filed_with_the_one_in_the_bundle(home, tmp_path):
    audited = tacit_command("audit", home / "out", "--data", home / "people.csv")
    assert audited.returncode == 0, audited.stderr
    done = tacit_command("evidence", home / "out", "--out", tmp_path / "e.zip")
    assert done.returncode == 0, done.stderr
    files = contents(tmp_path / "e.zip")
    assert files["audit.json"] == (home / "out" / "audit.json").read_bytes()
    assert files["audit-in-bundle.json"] == read_bundle(home / "out" / "filter.tacit").members["audit.json"]


def test_an_audit_of_another_release_is_refused(home, tmp_path):
    _, attack, test = tacit.load_dataset("gaussians", n=900).split()
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "filter.tacit").write_bytes((home / "out" / "filter.tacit").read_bytes())
    with pytest.raises(InputError):
        write_evidence(folder, tmp_path / "e.zip")
    tacit.audit(None, attack, test, measurements="no-baseline").to_json(folder / "audit.json")
    with pytest.raises(InputError):
        write_evidence(folder, tmp_path / "e.zip")
    assert not (tmp_path / "e.zip").exists()


def test_evidence_is_never_overwritten(home, tmp_path):
    (tmp_path / "e.zip").write_text("kept")
    with pytest.raises(InputError):
        write_evidence(home / "out", tmp_path / "e.zip")
    assert (tmp_path / "e.zip").read_text() == "kept"
