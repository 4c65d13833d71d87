"""The rooms of the house, read from the source: imports go downward only, and what is private stays at home.

Imports inside functions and for type checkers count like any other. `import tacit` counts as an import of what is
taken from it (`tacit.audit` is the audit).
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parent.parent / "src" / "tacit"
LAYERS = (
    ("errors",),
    ("lazy", "callable_module", "callback", "renamed", "cores"),
    ("files", "labels"),
    ("report",),
    ("records",),
    ("noise",),
    ("nets",),
    ("training",),
    ("solvers",),
    ("filters",),
    ("baselines",),
    ("release",),
    ("audit",),
    ("frontier",),
    ("ledger",),
    ("federated",),
    ("serve",),
    ("datasets",),
    ("testing",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {room: i for i, rooms in enumerate(LAYERS) for room in rooms}
FILTERS = ("filters", "baselines")
SELF = ("self", "cls")


@dataclass(frozen=True)
class Arrow:
    """One import: who, whom, where, inside a function or not, and whether a reason stands beside it."""

    of: str
    to: str
    line: int
    late: bool = False
    reason: bool = True
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.of}:{self.line} imports {self.to}"


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("tacit", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows_of(name: str, source: str) -> Iterator[Arrow]:
    """Every import of a module of Tacit in this source."""
    tree = ast.parse(source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    told = [t for t in tokens if t.type == tokenize.COMMENT]
    reasons = {t.start[0] for t in told if not t.string.startswith(("# noqa", "# type:"))}
    lines = {n.lineno: n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)}
    inside = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(outer)
    }

    def reason(line: int) -> bool:
        while line - 1 in lines:  # one reason above several imports is enough
            if line in reasons:
                return True
            line -= 1
        return line in reasons or line - 1 in reasons

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            wanted = [(_home(node.module or "", alias.name), (alias.name,)) for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tacit":
            yield Arrow(name, _home("tacit", node.attr), node.lineno)
            continue
        elif isinstance(node, ast.Dict):  # where a package's lazy names live
            homes = {v.value for v in node.values if isinstance(v, ast.Constant) and isinstance(v.value, str)}
            yield from (Arrow(name, home, node.lineno) for home in homes & modules().keys())
            continue
        else:
            continue
        for to, names in wanted:
            if to.split(".")[0] == "tacit":
                yield Arrow(name, to, node.lineno, node in inside, reason(node.lineno), names)


def _home(module: str, name: str) -> str:
    """Where a name that is taken from a module lives: in a module of that name, or where the front door sends it."""
    full = f"{module}.{name}"
    return full if full in modules() else tacit._HOME.get(name, module) if module == "tacit" else module


@cache
def arrows() -> list[Arrow]:
    found = [a for name, path in modules().items() if name != "tacit" for a in arrows_of(name, path.read_text())]
    return [a for a in found if a.to not in ("tacit", a.of)]  # tacit itself holds its version, and who lives where


def room(module: str) -> str:
    return module.split(".")[1]


def test_every_room_has_its_place() -> None:
    assert {room(m) for m in modules() if m != "tacit"} <= set(HEIGHT)


def test_a_module_has_a_name_of_its_own() -> None:
    names = [path.name for path in ROOT.rglob("*.py") if path.name != "__init__.py"]
    assert sorted(names) == sorted(set(names))


def test_imports_go_downward() -> None:
    upward = [a for a in arrows() if room(a.of) != room(a.to) and HEIGHT[room(a.of)] <= HEIGHT[room(a.to)]]
    assert not upward, "\n".join(map(str, upward))


def test_an_import_inside_a_function_has_its_reason_beside_it() -> None:
    bare = [a for a in arrows() if a.late and not a.reason]
    assert not bare, "\n".join(map(str, bare))


def test_no_module_imports_what_imports_it() -> None:
    graph = defaultdict(set)
    for a in arrows():
        graph[a.of].add(a.to)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_private_names_stay_in_their_room() -> None:
    foreign = [(a, n) for a in arrows() for n in a.names if room(a.of) != room(a.to)]
    private = [f"{a}: {n}" for a, n in foreign if n.startswith("_") and not n.startswith("__")]
    assert not private, "\n".join(private)


def test_the_reader_sees_what_it_must() -> None:
    """The control: late imports, type checkers' imports and names of the front door, with their reasons."""
    source = """
from typing import TYPE_CHECKING
import tacit
from tacit import __version__
if TYPE_CHECKING:
    from tacit.cli import main
def f():
    from tacit.audit import stats
    import tacit.frontier  # slow
    # torch
    from tacit.nets import mlp
    from tacit.nets import cut
    return tacit.save
HOME = {"load": "tacit.release.runtime"}
"""
    found = {(a.to, a.late, a.reason) for a in arrows_of("tacit.x", source) if a.to != "tacit"}
    assert found == {
        ("tacit.cli", False, False),
        ("tacit.audit.stats", True, False),
        ("tacit.frontier", True, True),
        ("tacit.nets.mlp", True, True),
        ("tacit.nets.cut", True, True),
        ("tacit.release.saving", False, True),
        ("tacit.release.runtime", False, True),
    }


def _own(tree: ast.AST) -> set[str]:
    """Names with one underscore that classes of a module define: methods, and what they set on themselves."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef):
                    found.add(part.name)
                elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    found.add(part.attr)
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    found.add(part.target.id)
    return {n for n in found if n.startswith("_") and not n.startswith("__")}


def private_uses() -> list[str]:
    """Where a module outside the filters' rooms reaches for what is private to a filter."""
    trees = {name: ast.parse(path.read_text()) for name, path in modules().items() if name != "tacit"}
    private = set().union(*(_own(tree) for name, tree in trees.items() if room(name) in FILTERS))
    found = []
    for name, tree in trees.items():
        foreign = private - _own(tree) if room(name) not in FILTERS else set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in foreign and ast.unparse(node.value) not in SELF:
                found.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    return found


def test_private_attributes_of_a_filter_are_its_own() -> None:
    found = private_uses()
    assert not found, "\n".join(found)
