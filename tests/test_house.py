"""How the house is kept: no long function, no filter that does everything itself."""

from __future__ import annotations

import ast
from pathlib import Path

from tacit.filters.registry import registered_filters

SOURCE = Path(__file__).parents[1] / "src" / "tacit"
MAX_LINES, MAX_METHODS = 60, 12


def test_no_function_is_longer_than_sixty_lines_its_docstring_aside():
    long = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                prose = (first.end_lineno or 0) - first.lineno + 1 if text else 0
                lines = (node.end_lineno or 0) - node.lineno + 1 - prose
                if lines > MAX_LINES:
                    long.append(f"{path.relative_to(SOURCE)}: {node.name} has {lines} lines")
    assert not long, "\n".join(long)


def test_a_filters_class_has_few_methods_of_its_own():
    many = {}
    for name, registered in registered_filters().items():
        own = [k for k, v in vars(registered.make).items() if callable(v) or isinstance(v, property | staticmethod)]
        if len(own) > MAX_METHODS:
            many[name] = own
    assert not many
