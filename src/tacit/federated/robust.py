"""Against nodes that lie: robust rules in place of the average, updates cut to a norm, and who is odd.

A rule gives every node one vote on every parameter. It holds as long as liars are few: one of five can move a median
to where honest nodes already are, and no further. It cannot tell a liar from a node whose people differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.federated.protocol import INDICES, VALUES, Arrays, Message

ROBUST = ("median", "trimmed")
ROBUST_NODES = 3  # among fewer nobody can be outvoted
# of an update beside the others', to be named in the log; on Adult (benchmarks/liars.py) honest nodes stay above -.15
ODD_LENGTH, ODD_DIRECTION, ODD_ROUNDS = 5.0, -0.15, 5


def vote(current: Arrays, answers: Sequence[Message], robust: str) -> dict[str, np.ndarray]:
    """The new global parameters by a robust rule; what fewer than three nodes sent keeps its value."""
    out = {}
    for name, array in current.items():
        rows = np.full((len(answers), array.size), np.nan)
        for row, message in zip(rows, answers, strict=True):
            row[message.arrays.get(INDICES + name, slice(None))] = message.arrays[VALUES + name].reshape(-1)
        merged = array.reshape(-1).astype(np.float64)
        enough = (~np.isnan(rows)).sum(axis=0) >= ROBUST_NODES
        merged[enough] = middle(rows[:, enough], robust)
        out[name] = merged.reshape(array.shape).astype(array.dtype)
    return out


def middle(rows: np.ndarray, robust: str) -> np.ndarray:
    """The median of each column, or the mean without its largest and smallest fifth (at least one); NaN is no vote.

    Examples
    --------
    >>> votes = np.array([[1.], [2.], [4.], [1000.], [np.nan]])
    >>> float(middle(votes, "median")[0]), float(middle(votes, "trimmed")[0])
    (3.0, 3.0)
    """
    if robust == "median":
        return np.nanmedian(rows, axis=0)
    votes = (~np.isnan(rows)).sum(axis=0)
    cut = np.maximum(1, votes // 5)
    place = np.arange(len(rows))[:, None]
    kept = (place >= cut) & (place < votes - cut)  # NaN is sorted to the end
    return np.where(kept, np.sort(rows, axis=0), 0.0).sum(axis=0) / kept.sum(axis=0)


def length(arrays: Arrays) -> float:
    """The norm of all arrays together."""
    return math.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in arrays.values()))


def clip(current: Arrays, new: Arrays, max_norm: float) -> dict[str, np.ndarray]:
    """Arrays that differ from the current ones by at most this norm; what is nearer is not touched.

    Examples
    --------
    >>> clip({"w": np.zeros(2)}, {"w": np.array([30., 40.])}, 5)["w"]
    array([3., 4.])
    """
    far = length({k: v - current[k] for k, v in new.items()})
    if far <= max_norm:
        return dict(new)
    return {k: (current[k] + max_norm / far * (v - current[k])).astype(v.dtype) for k, v in new.items()}


def clip_answer(current: Arrays, message: Message, max_norm: float) -> Message:
    """The same of an answer, which may hold a part of them."""
    before = {VALUES + k: a.reshape(-1)[message.arrays[INDICES + k]] if INDICES + k in message.arrays else a
              for k, a in current.items()}  # fmt: skip
    values = clip(before, {k: message.arrays[k].reshape(v.shape) for k, v in before.items()}, max_norm)
    return replace(message, arrays={**message.arrays, **values})


def doubts(current: Arrays, answers: Sequence[Message], along: dict[str, list[float]]) -> dict[str, str]:
    """By node, what is odd about its update: how long it is, or that for rounds it has pointed against the others'.

    `along` has every node's cosines to the others of the last rounds, and is continued. Nobody is left out for it: a
    node whose people differ looks alike.
    """
    if len(answers) < ROBUST_NODES:
        return {}
    moves = np.array([_update(current, m) for m in answers])
    far = np.linalg.norm(moves, axis=1)
    moves /= np.maximum(far, 1e-300)[:, None]  # a long one must not be what the others are compared with
    others, usual, out = moves.sum(axis=0) - moves, float(np.median(far)), {}
    cosines = (moves * others).sum(axis=1) / np.maximum(np.linalg.norm(others, axis=1), 1e-300)
    for m, size, cosine in zip(answers, far, cosines, strict=True):
        last = along[m.node] = [*along.get(m.node, []), round(float(cosine), 4)][-ODD_ROUNDS:]
        if size > ODD_LENGTH * usual:
            out[m.node] = f"its update has norm {size:.3g}, where the nodes' usual one is {usual:.3g}"
        elif len(last) == ODD_ROUNDS and (mean := sum(last) / len(last)) < ODD_DIRECTION:
            out[m.node] = f"for {ODD_ROUNDS} rounds its updates have pointed against the others' (cosine {mean:.2f})"
    return out


def _update(current: Arrays, message: Message) -> np.ndarray:
    """By how much an answer would move each parameter; 0 where it has none."""
    parts = []
    for name, array in current.items():
        move, where = np.zeros(array.size), message.arrays.get(INDICES + name, slice(None))
        move[where] = message.arrays[VALUES + name].reshape(-1).astype(np.float64) - array.reshape(-1)[where]
        parts.append(move)
    return np.concatenate(parts)


def capped(records: Mapping[str, int]) -> dict[str, int]:
    """Numbers of records, none of which is more than all others' together; of two nodes both are believed.

    Examples
    --------
    >>> capped({"a": 500, "b": 400, "c": 10**9})
    {'a': 500, 'b': 400, 'c': 900}
    """
    total = sum(records.values())
    return {node: n if len(records) < ROBUST_NODES else max(1, min(n, total - n)) for node, n in records.items()}
