"""The README is short and leads somewhere; test_docs.py runs its code and its commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.report import Report

ROOT = Path(__file__).parent.parent


def test_the_front_page_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.slow  # guards the first thing that a newcomer looks at
def test_the_ten_rows_are_what_their_command_prints():
    command = [sys.executable, ROOT / "examples" / "ten_rows.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[3:]
    assert len(printed) == 10
    told = (ROOT / "README.md").read_text()
    assert [row for row in printed if row not in told] == []
    home = re.sub("</?del>", "~~", (ROOT / "docs" / "index.md").read_text())
    assert [row for row in printed if row not in home] == []


def test_what_the_front_page_says_of_its_people_is_what_their_report_says():
    page = (ROOT / "docs" / "gallery" / "people.html").read_text()
    raw, released = json.loads(re.search(r'id="audit">(.*?)</script>', page, re.S)[1])["reports"]
    for name in ("README.md", "docs/index.md"):
        for plain in (raw, released):
            leak = Report.from_json(json.dumps(plain)).leakage["sex"].value
            assert f"{100 * leak:.1f} %" in (ROOT / name).read_text()
    income, kept = released["change"]["questions"]["income"], released["change"]["columns"]["income"]["kept"]
    for share in (1 - kept, income["released"], income["raw"], income["guessing"]):
        assert f"{100 * share:.1f} %" in (ROOT / "README.md").read_text()


def test_no_machine_paths_in_tracked_text():
    texts = (".py", ".json", ".md", ".toml")
    own = [p for folder in ("src", "benchmarks", "papers") for p in (ROOT / folder).rglob("*") if p.suffix in texts]
    for path in [*ROOT.glob("*.md"), *own]:
        assert not re.search(r"/(work|root|home|tmp)/\w", path.read_text()), path
