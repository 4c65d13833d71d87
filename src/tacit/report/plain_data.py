"""Results as plain data and back: one writer and one reader for every dataclass of this package."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import InputError


def plain(value: Any) -> Any:
    """Dataclasses and named tuples as dicts, tuples as lists, NaN as None: what JSON can hold."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, tuple | list) else value


def read(kind: Any, value: Any, name: str) -> Any:
    """The inverse of `plain`: `value` as a `kind`, or an InputError that says where it is something else.

    Fields that are not there get their defaults; fields that are not known are left out.

    Examples
    --------
    >>> read(tuple[float, ...], [0.5, None], "measured")
    (0.5, nan)
    """
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return None if value is None else read(inside[0], value, name)
    if origin is tuple and isinstance(value, list):
        kinds = [inside[0]] * len(value) if inside[-1] is ... else inside
        if len(kinds) == len(value):
            return tuple(read(k, v, name) for k, v in zip(kinds, value, strict=True))
    elif origin is not None and isinstance(value, Mapping):
        return {k: read(inside[1], v, f"{name}, {k}") for k, v in value.items()}
    elif kind is float and (value is None or (isinstance(value, int | float) and not isinstance(value, bool))):
        return math.nan if value is None else float(value)
    elif hasattr(kind, "from_dict") and isinstance(value, Mapping):
        return kind.from_dict(value, name)
    elif origin is None and hasattr(kind, "__annotations__") and isinstance(value, Mapping):
        return read_fields(kind, value, name)
    elif origin is None and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise InputError(f"{name}: expected {getattr(kind, '__name__', kind)}, found {str(value)[:60]!r}")


def read_fields(kind: Any, told: Mapping[str, Any], name: str) -> Any:
    """A dataclass or named tuple of a mapping."""
    given = {k: read(hint, told[k], f"{name}, {k}") for k, hint in _hints(kind).items() if k in told}
    try:
        return kind(**given)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None


def plain_parameter(value: Any) -> Any:
    """A parameter as JSON; what is not plain data by the name of its type."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(k): plain_parameter(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_parameter(v) for v in value]
    return f"<{getattr(value, '__name__', type(value).__name__)}>"


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return {k: v for k, v in typing.get_type_hints(kind).items() if typing.get_origin(v) is not typing.ClassVar}
