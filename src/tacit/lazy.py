"""Names that are imported when first used, so that a package is quick to import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tacit.errors import NotInstalled


def attach(package: str, home: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``; `home` says which module each public name lives in."""
    return lambda name: import_name(package, home, name), lambda: list(sys.modules[package].__all__)


def import_name(package: str, home: Mapping[str, str], name: str) -> Any:
    """Import the module that a public name lives in, and return the name's value."""
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(home))}")
    try:
        module = importlib.import_module(home[name])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "tacit":
            raise
        raise NotInstalled(f"{package}.{name}", error.name) from error
    # a name may be a module itself, such as tacit.baselines
    value = module if home[name] == f"{package}.{name}" else getattr(module, name)
    setattr(sys.modules[package], name, value)
    return value
