"""The functions that `tacit.load_dataset` finds, by name."""

from __future__ import annotations

from collections.abc import Callable

from tacit.records.dataset import Dataset

LOADERS: dict[str, Callable[..., Dataset]] = {}


def register(load: Callable[..., Dataset]) -> Callable[..., Dataset]:
    """Add a function that returns a `Dataset` to what `load_dataset` finds, under the function's own name."""
    LOADERS[load.__name__] = load
    return load
