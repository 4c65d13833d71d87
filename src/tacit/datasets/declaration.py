"""What a data set declares, and the registry the declarations join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacit.datasets.store import locate
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

    @property
    def present(self) -> bool:
        return all(locate(f) is not None for f in self.files)


REGISTRY: dict[str, Declaration] = {}


def declare(
    rows: str, modality: str, target: str, sensitive: str, licence: str, files: tuple[str, ...] = ()
) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Register the decorated function as the loader of the data set that bears its name."""

    def register(load: Callable[..., Dataset]) -> Callable[..., Dataset]:
        REGISTRY[load.__name__] = Declaration(load.__name__, load, rows, modality, target, sensitive, licence, files)
        return load

    return register
