"""What the paper proves, as functions that tests hold the game to (tests/test_eigan_propositions.py).

Records here are finitely many kinds, an encoder is a map from kinds to codes, and heads answer as well as can be: then
the score of eq. 3 is a sum, and its best encoder is found by trying all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np


def posterior(mass: np.ndarray, code: Sequence[int], n_codes: int) -> tuple[np.ndarray, np.ndarray]:
    """P(code), and P(label | code) of the best head: `mass` is P(kind, label)."""
    joint = np.zeros((n_codes, mass.shape[1]))
    np.add.at(joint, np.asarray(code), mass)
    total = joint.sum(1)
    return total, joint / np.maximum(total, 1e-300)[:, None]


def utility(mass: np.ndarray, code: Sequence[int], n_codes: int) -> float:
    """eq. 1 at the best head: E log p(label | code), which is minus the entropy that is left."""
    total, of = posterior(mass, code, n_codes)
    return float((total[:, None] * of * np.log(np.where(of > 0, of, 1))).sum())


def score(
    allies: Sequence[np.ndarray], adversaries: Sequence[np.ndarray], weights: Sequence[float], code: Sequence[int]
) -> float:
    """eq. 3 with heads at their best."""
    n = len(code)
    found = [utility(m, code, n) for m in allies] + [-utility(m, code, n) for m in adversaries]
    return float(np.dot(weights, found))


def encoders(n_kinds: int) -> Iterator[tuple[int, ...]]:
    """Every map from kinds to as many codes."""
    return product(range(n_kinds), repeat=n_kinds)


def equation_12(alpha_ally: float, y_ally: float, alpha: float, y: float, w: float, rest: float) -> float:
    """The output of adversary n that (12) gives; `rest` is what the other adversaries add to the ally's output.

    It is the adversary's best answer (the least of U over its output) where alpha y < alpha_ally y_ally; elsewhere U
    has no such point among positive outputs.
    """
    return rest / (alpha_ally * y_ally * w) / (1 / (alpha * y) - 1 / (alpha_ally * y_ally))


def equation_17(weights: Sequence[dict[str, float]]) -> dict[str, float]:
    """Proposition 4: the weight of each objective in (6), by name, from those that the nodes give it."""
    names = dict.fromkeys(name for of in weights for name in of)
    return {name: sum(of.get(name, 0.0) for of in weights) / len(weights) for name in names}
