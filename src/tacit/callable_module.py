"""Let a package be called: `tacit.audit` is a folder of modules and the verb of the same name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(module_name: str, function: Callable[..., Any]) -> None:
    """Calling the module calls `function`; importing a submodule can no longer hide the verb."""
    methods = {
        "__call__": staticmethod(function),
        "__reduce__": lambda self: (importlib.import_module, (module_name,)),  # so that other processes can be sent it
    }
    kind = type("CallableModule", (ModuleType,), methods)
    sys.modules[module_name].__class__ = kind
    sys.modules[module_name].__doc__ = function.__doc__
