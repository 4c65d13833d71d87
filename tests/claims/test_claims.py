"""No false claim: in every known world the bound lies under the truth at most as often as it says it may.

Each world is judged by an exact binomial test. If every claim failed exactly as often as allowed, the whole suite would
raise a false alarm with probability at most FALSE_ALARM under fresh seeds (each world gets an equal part); most claims
fail far less often. Seeds are fixed. The controls are naive bounds in the same worlds, which must be seen to fail:
they show that the worlds could have caught a false claim.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
from claim_world import chance, violations

FALSE_ALARM = 1e-3
MODULES = [
    importlib.import_module(f"claim_{part}")
    for part in ("code", "units", "classes", "noise", "search", "leaves", "odds")
]
WORLDS = [world for module in MODULES for world in module.WORLDS]
CONTROLS = [world for module in MODULES for world in module.CONTROLS]


def _each(worlds):
    return [pytest.param(w, id=f"{w.section}: {w.name}", marks=[pytest.mark.slow] if w.slow else []) for w in worlds]


def _shorter(worlds):
    """The first third of each world's runs; make test-all runs them all."""
    return [replace(w, runs=w.runs // 3) for w in worlds if not w.slow]


@pytest.mark.parametrize("world", _each(_shorter(WORLDS)))
def test_the_claim_holds_so_far(world):
    assert chance(world, violations(world)) > FALSE_ALARM / len(WORLDS)


@pytest.mark.slow  # guards every claim at the full number of runs
@pytest.mark.parametrize("world", _each(WORLDS))
def test_the_claim_holds(world):
    violated = violations(world)
    print(f"violated {violated} of {world.runs}, allowed {world.delta:.3f}")  # pytest -rP shows it
    assert chance(world, violated) > FALSE_ALARM / len(WORLDS)


@pytest.mark.parametrize("world", _each(CONTROLS))
def test_the_naive_claim_does_not(world):
    """Violated more often than delta, beyond what chance does once in 10,000."""
    violated = violations(world)
    print(f"violated {violated} of {world.runs}, allowed {world.delta:.3f}")
    assert chance(world, violated) < 1e-4


def test_every_world_has_its_own_name_and_there_are_enough():
    names = [w.name for w in WORLDS + CONTROLS]
    assert len(set(names)) == len(names)  # the name is the seed
    assert len(WORLDS) >= 60
    assert {"A", "B", "C", "D", "E", "F"} <= {w.section for w in CONTROLS}
