"""The README is short and leads somewhere; test_docs.py runs its code and its commands."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_front_page_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_no_machine_paths_in_tracked_text():
    texts = (".py", ".json", ".md", ".toml")
    own = [p for folder in ("src", "benchmarks", "papers") for p in (ROOT / folder).rglob("*") if p.suffix in texts]
    for path in [*ROOT.glob("*.md"), *own]:
        assert not re.search(r"/(work|root|home|tmp)/\w", path.read_text()), path
