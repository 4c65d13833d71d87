"""`tacit reproduce`: what runs the papers lies with them, in `papers/common/` of a checkout."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tacit.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[3]


def command(places: Sequence[Path] = ()) -> ModuleType:
    """The module `papers.common.command` of this checkout, or of the current folder.

    An installed Tacit has no papers: they are text, settings and results, not library code.
    """
    tried = [root / "papers" for root in places or (CHECKOUT, Path.cwd())]
    for papers in tried:
        if (papers / "common" / "command.py").exists():
            sys.path.insert(0, str(papers.parent))
            return importlib.import_module("papers.common.command")
    raise InputError(
        f"no folder papers/ (tried {', '.join(map(str, tried))}); it comes with a checkout of Tacit, not with the "
        f"installed package: run `tacit reproduce` from the root of a checkout"
    )
