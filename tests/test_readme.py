"""The README's code runs as it stands."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found

ROOT = Path(__file__).parent.parent


def test_python_blocks_run(capsys, tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(compile(block, "README.md", "exec"), names)  # later blocks go on from earlier ones
    assert "certified" in capsys.readouterr().out


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
