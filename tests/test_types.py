"""The front door is typed: a type checker reads the README's code, and sees a misspelled parameter or name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ["", "baselines", "release", "federated", "serve"]
WRONG = {
    "tacit.EIGAN(n_componets=3)": "n_componets",
    "tacit.federated.DistributedEIGAN(epoch=3)": "epoch",
    "tacit.federated.PersonalMinimax(tacit.MinimaxFilter(), round=3)": "round",
    "tacit.no_such_name": "no_such_name",
    "tacit.baselines.LabelOnly(n_fold=3)": "n_fold",
    "report.leakag": "leakag",
}


def test_a_type_checker_reads_the_readme_and_sees_what_is_misspelled(tmp_path):
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    code = "\n".join(block for block in blocks if "..." not in block).rstrip()
    assert "tacit.audit(" in code
    code = code.rstrip()
    lines = len(code.splitlines())
    (tmp_path / "reader.py").write_text(code + "\n" + "\n".join(WRONG) + "\n")
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    out, _, _ = api.run([*settings, str(tmp_path / "reader.py")])
    found = {int(n): text for n, text in re.findall(r"reader\.py:(\d+): error: (.*)", out)}
    right = {n: text for n, text in found.items() if n <= lines}
    assert not right, right
    for i, word in enumerate(WRONG.values(), lines + 1):
        assert word in found.get(i, ""), (word, out)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_type_checker_is_told_of_every_public_name(package):
    tree = ast.parse((ROOT / "src/tacit" / package / "__init__.py").read_text(encoding="utf-8"))
    (home,) = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME" and isinstance(node.value, ast.Dict)
    )
    told = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {ast.literal_eval(key) for key in home.keys if key} <= told
