"""The one list of filters. A filter registers itself; the command line and the suites of tests find it here.

@register_filter("codebook", examples=[{"n_codes": 4}])
class CodebookFilter(Filter): ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tacit.errors import InputError, NotInstalled
from tacit.noise.accounting import DP

Kind = TypeVar("Kind", bound=type)
LEARNED_WITH_TORCH = ("autoencoder", "autoencoding", "dpfe", "eigan", "mask", "minimax", "obfuscator")
HOMES = ("tacit.filters", "tacit.baselines")  # packages whose modules register filters


@dataclass(frozen=True)
class Registered:
    """A filter and how it is used.

    Attributes
    ----------
    name : on the command line
    make : the class
    modality : what it takes: "table" (any records), "people" (a table and its sensitive columns, at release too),
        "windows" or "images"
    settings : with which the command line makes it; None: it is not offered there
    examples : quick settings, with which the suites of tests fit it
    """

    name: str
    make: Any
    modality: str = "table"
    settings: Mapping[str, Any] | None = field(default_factory=dict)
    examples: tuple[Mapping[str, Any], ...] = ({},)

    def example_filters(self, **more: Any) -> list[Any]:
        """One filter for each of the quick settings."""
        return [self.make(**{**example, **more}) for example in self.examples]


_FILTERS: dict[str, Registered] = {}


def register_filter(
    name: str,
    *,
    modality: str = "table",
    settings: Mapping[str, Any] | None = None,
    examples: Sequence[Mapping[str, Any]] = ({},),
    offered: bool = True,
) -> Callable[[Kind], Kind]:
    """Decorate a filter's class: `tacit fit --filter NAME` knows it, and every suite of tests runs over it."""

    def register(make: Kind) -> Kind:
        known = dict(settings or {}) if offered else None
        _FILTERS[name] = Registered(name, make, modality, known, tuple(examples))
        return make

    return register


def registered_filters(modality: str | None = None) -> dict[str, Registered]:
    """Every filter by name, or those that take one kind of records."""
    for home in HOMES:
        package = importlib.import_module(home)
        for module in pkgutil.iter_modules(package.__path__, f"{home}."):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as missing:  # a filter that is learned with torch, and torch is not here
                if missing.name is None or missing.name.split(".")[0] != "torch":
                    raise
    return {n: r for n, r in sorted(_FILTERS.items()) if modality is None or r.modality == modality}


def make_filter(
    name: str, weight: float | None = None, settings: Mapping[str, Any] | None = None, **parameters: Any
) -> Any:
    """Make the filter that the command line calls by this name.

    Parameters
    ----------
    name : of a registered filter
    weight : value of the parameter that its frontier is traced over
    settings : parameters as a file or a command line writes them: one text is also a list of one, and a number for
        `dp` is an epsilon
    **parameters : parameters as they are

    Raises
    ------
    InputError
        If there is no such filter, or it has no such parameter.
    """
    offered = {n: r for n, r in registered_filters().items() if r.settings is not None}
    if name in LEARNED_WITH_TORCH and name not in offered:
        raise NotInstalled(f"the filter {name}", "torch")
    if name not in offered:
        raise InputError(f"no filter is called {name!r}; the names are {', '.join(offered)}")
    made = offered[name].make(**{**(offered[name].settings or {}), **parameters})
    known = made.get_params(deep=False)
    given = {} if weight is None else {made.frontier_parameter: weight}
    for parameter, value in (settings or {}).items():
        if parameter not in known:
            raise InputError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
        if isinstance(value, str) and isinstance(known[parameter], list | tuple):
            value = [value]
        if parameter == "dp" and isinstance(value, int | float):
            value = DP(epsilon=float(value))
        given[parameter] = value
    return made.set_params(**given)
