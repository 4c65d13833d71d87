"""One piece of an experiment's work, and what is kept of it."""

from __future__ import annotations

import inspect
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tacit.audit.looks import new_project


@dataclass(frozen=True)
class Work:
    """A function and what it is given."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def stamp(self) -> str:
        """Tells whether a part kept from before is the part asked for now."""
        told = [
            {k: v for k, v in a.items() if k not in ("title", "seeds", "needs")} if isinstance(a, Mapping) else a
            for a in self.arguments
        ]
        text = json.dumps(told, sort_keys=True, default=str) + inspect.getsource(inspect.unwrap(self.function))
        return sha256(text.encode()).hexdigest()[:12]


def finished(work: Work) -> dict[str, Any]:
    """The work's result as plain data, the seconds it took, and its stamp."""
    began = time.perf_counter()
    with warnings.catch_warnings(), new_project():
        warnings.simplefilter("ignore")  # an experiment that is about a warning records it itself
        value = work.function(*work.arguments)
    seconds = round(time.perf_counter() - began, 2)
    return {"value": json.loads(json.dumps(value, default=_plain)), "seconds": seconds, "stamp": work.stamp}


def _plain(value: Any) -> Any:
    """Numpy's numbers and arrays as JSON."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
