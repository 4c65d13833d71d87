"""What Tacit raises and warns: what was found, what was expected, and what to do about it."""

from __future__ import annotations


class TacitError(Exception):
    """Everything Tacit raises on purpose."""


class InputError(TacitError, ValueError):
    """The data or a parameter is not what was expected; the message names it and the remedy."""


class InputTypeError(TacitError, TypeError):
    """A value has a type that cannot be used; the message names it and the remedy."""


class RequirementNotMet(TacitError):
    """`Report.require` was not satisfied; the message says by how much."""


class TacitWarning(UserWarning):
    """Something works but is probably not what the user wants."""


class DependenceWarning(TacitWarning):
    """A target is (nearly) a function of a sensitive attribute, or the other way round."""


class CollapseWarning(TacitWarning):
    """A filter was trained but its release carries nothing, or a head stopped learning."""
