"""Made-up records from noisy counts: what a filter learns from them is differentially private for the real ones.

Every column is cut into public pieces (equal steps of its stated range, its stated words), and counted by piece and by
all labels together; noise is added to all counts at once (the Gaussian mechanism). Records are then drawn from the
noisy counts, column by column given the labels. So they keep how each column goes with the labels, and lose how columns
go with each other beyond that.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.filters.base import Problem
from tacit.labels import Labels
from tacit.noise.fit_privacy import DP, LABELS, Spent, epsilon_of, noise_for
from tacit.records.encoding import TableEncoder

PIECES = 16  # of a number column
REACH = math.sqrt(3)  # where the ends of a stated range lie once it is scaled
MAX_KINDS = 4096  # combinations of all labels, a missing one counted as a class


def made_up(problem: Problem, dp: DP, not_covered: tuple[str, ...]) -> tuple[Problem, Spent]:
    """The problem with made-up records in the place of the real ones, about as many; and what that cost."""
    if problem.X.ndim != 2:
        raise InputError(f"dp counts the columns of a table; records here have the shape {problem.X.shape[1:]}")
    crowd = problem.crowd
    dp.check(crowd.n_people)
    tables = count_pieces(problem)
    noise = noise_for(1.0, 1, dp.epsilon, dp.delta)
    reach = math.sqrt(len(tables))  # a person adds 1 to each table in all
    rng = np.random.default_rng(secrets.randbits(128))  # whoever knew the draws could take the noise off
    noisy = [np.maximum(t + noise * reach * rng.standard_normal(t.shape), 0) for t in tables]
    drawn = rng.choice(len(noisy[0]), max(2, round(noisy[0].sum())), p=_shares(noisy[0]))
    columns = [_draw(counts[drawn], is_number, len(slots), rng)
               for (slots, is_number), counts in zip(_blocks(problem), noisy[1:], strict=True)]  # fmt: skip
    codes = np.stack(np.unravel_index(drawn, _kinds(problem)[1]), axis=1) - 1
    keep, hide = np.split(codes, [len(problem.targets)], axis=1)
    targets, sensitive = replace(problem.targets, codes=keep), replace(problem.sensitive, codes=hide)
    made = replace(problem, X=np.concatenate(columns, axis=1), targets=targets, sensitive=sensitive, units=None)
    unit, cost = "record" if problem.units is None else "person", epsilon_of(1.0, noise, 1, dp.delta)
    return made, Spent(cost, dp.delta, unit, crowd.n_people, noise, reach, 1.0, 1, (LABELS, *not_covered))


def count_pieces(problem: Problem) -> list[np.ndarray]:
    """How many people have each combination of labels; then column by column, each of them and each piece.

    Somebody with several records counts as one in all, in equal parts.
    """
    kinds, sizes = _kinds(problem)
    weight = problem.crowd.weights() * problem.crowd.n_people
    tables = [np.bincount(kinds, weight, math.prod(sizes))]
    for slots, is_number in _blocks(problem):
        piece, n = _pieces(problem.X[:, slots], is_number)
        tables.append(np.bincount(kinds * n + piece, weight, math.prod(sizes) * n).reshape(-1, n))
    return tables


def _kinds(problem: Problem) -> tuple[np.ndarray, list[int]]:
    """The number of each record's labels together, and how many classes (and gaps) each label column has."""
    both: tuple[Labels, ...] = (problem.targets, problem.sensitive)
    sizes = [labels.n_classes(i) + 1 for labels in both for i in range(len(labels))]
    if math.prod(sizes) > MAX_KINDS:
        raise InputError(
            f"dp counts all labels together, which have {math.prod(sizes):,} combinations; at most {MAX_KINDS:,} can "
            f"be told apart under noise: pass fewer label columns"
        )
    codes = np.concatenate([labels.codes for labels in both], axis=1) + 1
    return np.ravel_multi_index(tuple(codes.T), sizes), sizes


def _blocks(problem: Problem) -> list[tuple[np.ndarray, bool]]:
    """The encoded columns of each raw one, and whether it is a number."""
    if not isinstance(problem.scaling, TableEncoder):
        return [(np.array([j]), True) for j in range(problem.X.shape[1])]
    ends = np.cumsum([0, *(c.width for c in problem.scaling.columns)])
    return [(np.arange(a, b), c.kind == "number")
            for c, a, b in zip(problem.scaling.columns, ends[:-1], ends[1:], strict=True)]  # fmt: skip


def _pieces(block: np.ndarray, is_number: bool) -> tuple[np.ndarray, int]:
    """The piece of each record, and how many there are; a number that is missing is a piece of its own."""
    if not is_number:
        return block.argmax(axis=1), block.shape[1]
    at = np.clip(((block[:, 0] + REACH) / (2 * REACH) * PIECES).astype(int), 0, PIECES - 1)
    return (np.where(block[:, 1] > 0, PIECES, at) if block.shape[1] > 1 else at), PIECES + 1


def _draw(counts: np.ndarray, is_number: bool, width: int, rng: np.random.Generator) -> np.ndarray:
    """Encoded values of one column, a record for each row of counts."""
    counts = counts.copy()
    if is_number and width == 1:
        counts[:, PIECES] = 0  # this column has no gaps
    edges = np.cumsum(np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0), axis=1)
    piece = (rng.random((len(counts), 1)) * edges[:, -1:] >= edges).sum(axis=1).clip(max=counts.shape[1] - 1)
    if not is_number:
        return np.eye(width)[piece]
    value = (np.minimum(piece, PIECES - 1) + rng.random(len(piece))) / PIECES * 2 * REACH - REACH
    gap = piece == PIECES
    return np.column_stack([np.where(gap, 0.0, value), gap])[:, :width]


def _shares(counts: np.ndarray) -> Any:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))
