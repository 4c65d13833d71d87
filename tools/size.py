"""Print code lines (blank lines, comments and docstrings not counted) and modules per package."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Count the lines of a module that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def sizes(root: Path) -> dict[str, tuple[int, int]]:
    """Return code lines and number of modules by package below `root`."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).parts
        found[inside[0] if len(inside) > 1 else "(top level)"].append(code_lines(path.read_text(encoding="utf-8")))
    return {package: (sum(lines), len(lines)) for package, lines in found.items()}


def main() -> None:
    for root in map(Path, sys.argv[1:] or ("src/tacit", "tests", "papers", "benchmarks", "tools")):
        table = sizes(root)
        total = sum(lines for lines, _ in table.values()), sum(modules for _, modules in table.values())
        print(f"{root!s:28}{total[0]:>8,} code lines{total[1]:>6} modules")
        for package, (lines, modules) in sorted(table.items(), key=lambda item: -item[1][0]):
            print(f"    {package:24}{lines:>8,}{modules:>17}")


if __name__ == "__main__":
    main()
