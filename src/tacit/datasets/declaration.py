"""What a data set declares, and the registry the declarations join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tacit.datasets.store import locate
from tacit.errors import InputError
from tacit.records.dataset import Dataset


@dataclass(frozen=True)
class Declaration:
    """One data set: how to load it and what a user needs to know before."""

    name: str
    load: Callable[..., Dataset]
    rows: str
    modality: str
    target: str
    sensitive: str
    licence: str
    files: tuple[str, ...] = ()  # below TACIT_DATA or the cache; empty: embedded or synthetic
    here: Callable[[], bool] | None = None  # for a set that may lie in several layouts

    @property
    def present(self) -> bool:
        try:
            return all(locate(f) is not None for f in self.files) or (self.here is not None and self.here())
        except InputError:  # some of it is here, which loading says more about
            return False


REGISTRY: dict[str, Declaration] = {}


def declare(
    rows: str,
    modality: str,
    target: str,
    sensitive: str,
    licence: str,
    files: tuple[str, ...] = (),
    here: Callable[[], bool] | None = None,
) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Register the decorated function as the loader of the data set that bears its name."""

    def register(load: Callable[..., Dataset]) -> Callable[..., Dataset]:
        name = load.__name__
        REGISTRY[name] = Declaration(name, load, rows, modality, target, sensitive, licence, files, here)
        return load

    return register


def choose_labels(
    name: str, labels: Any, target: str | Sequence[str], sensitive: str | Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labels to keep and those to hide, as a caller asked for them by name."""
    table = pd.DataFrame(labels)
    targets, secrets = ([w] if isinstance(w, str) else list(w) for w in (target, sensitive))
    for word in (*targets, *secrets):
        if word not in table:
            raise InputError(f"{name} has the labels {', '.join(map(str, table.columns))}; found {word!r}")
    return table[targets], table[secrets]
