"""The points of a frontier: which filter, which knob value, which seed; and which of them learn together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tacit.errors import InputError, check_number

FEW = 4  # points that are not shared out any further
GAMES_ON_CPU = 12  # a stack larger than this gains nothing on a CPU, and several processes share the points
GAMES_ON_GPU = 256


@dataclass(frozen=True)
class Point:
    """One filter to be: the template's name, its knob's name and value, and the seed."""

    number: int
    filter: str
    knob: str
    value: float
    seed: int

    def __str__(self) -> str:
        return f"{self.filter} {self.knob}={self.value:g} seed {self.seed}"


def name_filters(given: Any) -> dict[str, Any]:
    """One filter, several, or a mapping from names to filters -> filters by name."""
    if isinstance(given, Mapping):
        named = {str(k): v for k, v in given.items()}
    else:
        named = {}
        for f in given if isinstance(given, list | tuple) else [given]:
            name = type(f).__name__
            named[next(n for n in (name, *(f"{name}-{i}" for i in range(2, 100))) if n not in named)] = f
    for name, f in named.items():
        if not hasattr(f, "transform") or not hasattr(f, "get_params"):
            raise InputError(f"{name} is a {type(f).__name__}; pass a filter or a scikit-learn transformer")
    if not named:
        raise InputError("no filter was given; pass one, a list, or a mapping from names to filters")
    return named


def lay_out(filters: Mapping[str, Any], values: Any, seeds: Any, knob: str | None) -> list[Point]:
    """Every filter at every value with every seed, numbered."""
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        check_number("seeds", seeds, 1, whole=True)
        seeds = range(int(seeds))
    seeds = [int(s) for s in seeds]
    places = []
    for name, f in filters.items():
        chosen = knob or getattr(f, "frontier_parameter", None)
        if chosen is None or chosen not in f.get_params():
            raise InputError(
                f"{name} does not say which parameter trades utility for privacy; name it: knob=..., one of "
                f"{', '.join(sorted(f.get_params()))}"
            )
        if isinstance(values, Mapping) and name not in values:
            raise InputError(f"values has none for {name}; pass them by name: {', '.join(filters)}")
        own = values[name] if isinstance(values, Mapping) else values
        has_seed = any(p.split("__")[-1] == "random_state" for p in f.get_params())
        # without a seed the same value gives the same filter
        places += [(name, chosen, v, s) for v in grid(f, chosen, own, name) for s in (seeds if has_seed else seeds[:1])]
    if not places:
        raise InputError("there is no point to trace: pass at least one value and one seed")
    return [Point(i, *place) for i, place in enumerate(places)]


def grid(f: Any, knob: str, values: Any, name: str) -> list[float]:
    """The user's values, or n spread over the filter's default ones (between them, linearly)."""
    if isinstance(values, str) or (not np.iterable(values) and not isinstance(values, int | np.integer)):
        raise InputError(f"values must be how many (such as 8) or a list of numbers; found {values!r}")
    if np.iterable(values):
        return list(dict.fromkeys(values))
    check_number("values", values, 1, whole=True)
    usual = getattr(getattr(f, "knob", None), "values", None)
    if usual is None or f.knob.name != knob:
        raise InputError(f"{name} has no default values of {knob!r}; pass them: values=[...]")
    spread = np.interp(np.linspace(0, len(usual) - 1, int(values)), np.arange(len(usual)), usual)
    if all(isinstance(v, int) for v in usual):
        return list(dict.fromkeys(round(v) for v in spread))
    return list(dict.fromkeys(float(f"{v:.4g}") for v in spread))


def by_what_they_tell(points: Sequence[Point]) -> list[Point]:
    """The first seed before the second; of each, the ends and the middle of the knob before what lies between."""
    place: dict[Point, tuple[int, float]] = {}
    for name in dict.fromkeys(p.filter for p in points):
        own = [p for p in points if p.filter == name]
        values, seeds = (list(dict.fromkeys(getattr(p, what) for p in own)) for what in ("value", "seed"))
        turn = {v: i for i, v in enumerate(_spread(values))}
        place |= {p: (seeds.index(p.seed), turn[p.value]) for p in own}
    return sorted(points, key=lambda p: place[p])


def _spread(values: Sequence[float]) -> list[float]:
    """Both ends, then again and again the middle of the widest gap."""
    chosen = [0, len(values) - 1][: len(values)]
    while len(chosen) < len(values):
        inside = sorted(chosen)
        left, right = max(pairwise(inside), key=lambda ends: ends[1] - ends[0])
        chosen.append((left + right) // 2)
    return [values[i] for i in chosen]


def groups(filters: Mapping[str, Any], points: Sequence[Point], most: int, workers: int = 1) -> list[list[Point]]:
    """Points that learn together: as their filter says, at most `most` in a stack, and no worker without any."""
    out: list[list[Point]] = []
    for name, f in filters.items():
        own = [p for p in points if p.filter == name]
        kind = f.grouping if hasattr(f, "grouping") and own[0].knob == f.frontier_parameter else "alone"
        by_seed = [[p for p in own if p.seed == seed] for seed in dict.fromkeys(p.seed for p in own)]
        if kind == "alone":
            out += [[p] for p in own]
        elif kind == "stack" and workers == 1 and len(own) <= most:
            out.append(own)
        else:
            # points of one seed read the same batches, or share what is made once: that is quicker than any other part
            size, n = most if kind == "stack" else len(own), -(-workers // len(by_seed))
            for some in by_seed:
                out += parts_of(some, max(-(-len(some) // size), min(n, len(some) // FEW)))
    return out


def parts_of(points: Sequence[Point], n: int) -> list[list[Point]]:
    """Equal parts, so that processes finish together."""
    return [list(part) for part in np.array_split(np.array(points, dtype=object), max(1, n))]
