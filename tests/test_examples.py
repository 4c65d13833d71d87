"""The notebooks of `examples/` run, cell by cell, and what they show at the end of a cell can be shown."""

from __future__ import annotations

import ast
import json
import runpy
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("few_steps", "one_attacker")  # what is done, not what is found
ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def shown(cell: str, names: dict):
    """Run a cell; its last expression, as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    names: dict = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = [shown("".join(c["source"]), names) for c in cells]
    assert sum(bool(o) for o in out) >= 2


def test_they_are_what_the_tool_writes():
    tool = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))
    for name, texts in (("table", tool["TABLE"]), ("curve", tool["CURVE"]), ("own", tool["OWN"])):
        kept = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text())["cells"]
        assert ["".join(c["source"]) for c in kept] == texts
