"""What must survive the end of a process: attributes as named arrays and JSON, and the files they are kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit import files
from tacit.federated.protocol import Arrays, over, under

FORMAT = "tacit-federation-2"
State = tuple[dict[str, np.ndarray], dict[str, Any]]


class Kept:
    """An object whose attributes named in `kept` are its state: plain data, arrays, and dicts of these."""

    kept: Sequence[str] = ()

    def state(self) -> State:
        return parted({name: getattr(self, name) for name in self.kept})

    def restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        for name, value in joined(arrays, facts).items():
            setattr(self, name, value)


def parted(tree: Mapping[str, Any]) -> State:
    """A tree of dicts as its arrays, by their paths, and the rest of it.

    Examples
    --------
    >>> arrays, facts = parted({"round": 3, "encoder": {"weight": np.ones(2), "kind": "linear"}})
    >>> list(arrays), facts
    (['encoder/weight'], {'round': 3, 'encoder': {'kind': 'linear'}})
    >>> joined(arrays, facts)["encoder"]["weight"]
    array([1., 1.])
    """
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif isinstance(value, Mapping):
            inner, facts[key] = parted(value)
            arrays |= over(f"{key}/", inner)
        else:
            facts[key] = value
    return arrays, facts


def joined(arrays: Arrays, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The tree that `parted` parted."""
    tree, left = dict(facts), dict(arrays)
    for key in sorted((k for k, v in facts.items() if isinstance(v, Mapping)), key=len, reverse=True):
        inner = under(f"{key}/", left)
        left = {k: v for k, v in left.items() if not k.startswith(f"{key}/")}
        tree[key] = joined(inner, facts[key])
    return tree | left


def write_state(path: Path, parts: Mapping[str, tuple[Arrays, Mapping[str, Any]]], identity: str) -> None:
    """Named states in one file, which its owner alone can read: a node's may hold keys."""
    arrays = {f"{part}/{k}": v for part, (own, _) in parts.items() for k, v in own.items()}
    files.write_state(path, arrays, {part: dict(told) for part, (_, told) in parts.items()}, FORMAT, identity, True)


def read_state(path: Path, identity: str) -> dict[str, State]:
    """What `write_state` wrote; a file of another federation is refused."""
    arrays, facts = files.read_state(path, FORMAT, "a federation", identity)
    return {part: (under(f"{part}/", arrays), told) for part, told in facts.items()}
