"""Parameters: old names, which work for this version with a warning that says the new one, and inherited ones."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Converted = tuple[str, Callable[[Any], Any]]


def renamed(**names: str | Converted) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Take old keywords for new ones, as in ``@renamed(seed="random_state")``, on a function or a constructor.

    Where the value changes too, the new name comes with a function from the old value to the new one.
    """

    def decorate(original: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(original)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            return original(*args, **current(kwargs, names, original.__qualname__))

        wrapper.deprecated_original = original  # type: ignore[attr-defined]  # whose signature scikit-learn reads
        wrapper.renamed = names  # type: ignore[attr-defined]
        return wrapper

    return decorate


def passing_on(to: Callable[..., None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a constructor with ``**more`` show those parameters, too, that it passes on to another one."""

    def decorate(original: Callable[P, R]) -> Callable[P, R]:
        own = inspect.signature(original)
        mine = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [p for name, p in inspect.signature(to).parameters.items() if name not in own.parameters]
        original.__signature__ = own.replace(parameters=[*mine, *more])  # type: ignore[attr-defined]
        return original

    return decorate


def current(given: Mapping[str, Any], names: Mapping[str, str | Converted], of: str) -> dict[str, Any]:
    """What was given, under the new names."""
    out = dict(given)
    for old in given.keys() & names.keys():
        new, convert = (name, _as_it_is) if isinstance(name := names[old], str) else name
        if new in given:
            raise TypeError(f"{of} was given {old} and {new}, which are one parameter; pass {new} only")
        warn_renamed(old, new, of, 4)
        out[new] = convert(out.pop(old))
    return out


def warn_renamed(old: str, new: str, of: str, stacklevel: int = 3) -> None:
    """Say that a name works for the last time."""
    text = f"{of}: {old} is now called {new}; the old name will not work in the next version"
    warnings.warn(text, DeprecationWarning, stacklevel)


class OldNames:
    """An estimator whose constructor renamed parameters: `set_params` and attributes know the old names, too."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; see scikit-learn."""
        return super().set_params(**current(params, _names(self), type(self).__name__))  # type: ignore[misc]

    if not TYPE_CHECKING:  # so that a type checker still sees what a filter does not have

        def __getattr__(self, name: str) -> Any:
            if name not in (names := _names(self)):
                return object.__getattribute__(self, name)  # raises what it raised, such as that of a property
            warn_renamed(name, names[name], type(self).__name__)
            return getattr(self, names[name])


def _as_it_is(value: Any) -> Any:
    return value


def _names(f: object) -> Mapping[str, str]:
    return getattr(type(f).__init__, "renamed", {})
