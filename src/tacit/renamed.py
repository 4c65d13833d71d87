"""Old names of parameters: they work for this version, with a warning that says the new one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
Converted = tuple[str, Callable[[Any], Any]]


def renamed(**names: str | Converted) -> Callable[[F], F]:
    """Take old keywords for new ones, as in ``@renamed(seed="random_state")``, on a function, a constructor or a class.

    Where the value changes too, the new name comes with a function from the old value to the new one.
    """

    def decorate(original: F) -> F:
        if isinstance(original, type):
            original.__init__ = decorate(original.__init__)  # type: ignore[misc]
            return original

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **current(kwargs, names, original.__qualname__))

        wrapper.deprecated_original = original  # type: ignore[attr-defined]  # whose signature scikit-learn reads
        wrapper.renamed = names  # type: ignore[attr-defined]
        return cast(F, wrapper)

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
