"""The architecture, read from the imports: packages import downward only, without cycles, late imports included."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parent.parent / "src" / "tacit"
LAYERS = (
    ("errors",),
    ("lazy", "callback", "cores"),
    ("files", "labels"),
    ("report",),
    ("records",),
    ("options",),
    ("noise",),
    ("nets",),
    ("training",),
    ("solvers",),
    ("filters",),
    ("baselines",),
    ("release",),
    ("auditing",),
    ("tradeoff",),
    ("ledger",),
    ("federated",),
    ("serve",),
    ("datasets",),
    ("testing",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {package: i for i, packages in enumerate(LAYERS) for package in packages}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("tacit", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports_of(source: str) -> Iterator[str]:
    """Every module of ours that this source imports, inside functions too; `tacit.save` counts as its home."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "tacit")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            yield from (home(node.module or "", a.name) for a in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tacit":
            yield home("tacit", node.attr)
        elif isinstance(node, ast.Dict):  # where a package's lazy names live
            yield from (v.value for v in node.values if isinstance(v, ast.Constant) and v.value in MODULES)


def home(module: str, name: str) -> str:
    """Where a name that is imported from a module lives: a submodule, or where `tacit` sends it."""
    full = f"{module}.{name}"
    return full if full in MODULES else tacit._HOME.get(name, module) if module == "tacit" else module


def arrows() -> list[tuple[str, str]]:
    found = [(name, to) for name, path in MODULES.items() if name != "tacit" for to in imports_of(path.read_text())]
    return [(of, to) for of, to in found if to not in ("tacit", of)]


def package(module: str) -> str:
    return module.split(".")[1]


def test_imports_go_downward() -> None:
    assert {package(m) for m in MODULES if m != "tacit"} <= set(HEIGHT)
    upward = [a for a in arrows() if package(a[0]) != package(a[1]) and HEIGHT[package(a[0])] <= HEIGHT[package(a[1])]]
    assert not upward, "\n".join(map(str, upward))


def test_no_cycle_of_imports() -> None:
    graph = defaultdict(set)
    for of, to in arrows():
        graph[of].add(to)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_reader_of_imports_sees_late_and_lazy_ones() -> None:
    """The control of the two tests above."""
    source = """
import tacit
def f():
    from tacit.auditing import stats
    import tacit.tradeoff.trace
    return tacit.save
HOME = {"load": "tacit.release.runtime"}
"""
    expected = {"tacit.auditing.stats", "tacit.tradeoff.trace", "tacit.release.saving", "tacit.release.runtime"}
    assert set(imports_of(source)) - {"tacit"} == expected
