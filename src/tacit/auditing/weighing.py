"""Opinions into probabilities: margins of one attacker by a softmax, several attackers by weights never below 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

MAX_ROWS = 4000  # that a handful of weights is learned from
SURE = 1e-4  # no opinion counts as surer than this


def weigh(logs: np.ndarray, y: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Weights >= 0 of opinions (k, n, classes) in softmax(log prior + sum of weight * opinion), by their log-loss."""
    rows = np.arange(len(y))

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        p = log_softmax(prior + np.tensordot(weights, logs, 1), axis=1)
        excess = np.exp(p)
        excess[rows, y] -= 1
        slope = (logs * excess).sum(axis=(1, 2)) / len(y)
        return float(-p[rows, y].mean() + 1e-3 * (weights**2).sum()), slope + 2e-3 * weights

    start = np.full(len(logs), 0.5 / len(logs))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, 2)] * len(logs), options={"maxiter": 40})
    weights: np.ndarray = found.x
    return weights


def stack(
    held: Mapping[str, np.ndarray], truth: np.ndarray, fresh: Mapping[str, np.ndarray], prior: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """All attackers' probabilities as one attacker's: for the held rows, which teach the weights, and others.

    A held row's own label takes no part in its answer: each half is answered with the other half's weights.
    """
    names = list(held)
    base = np.log(prior)
    opinions = np.array([_opinion(held[name], prior) for name in names])
    order = np.random.default_rng(seed).permutation(len(truth))
    half = order % 2 == 0
    out = np.empty_like(held[names[0]])
    for inside in (half, ~half):
        some = order[~inside[order]][:MAX_ROWS]  # in no order of the table: it may be sorted by class
        weights = weigh(opinions[:, some], truth[some], base)
        out[inside] = softmax(base + np.tensordot(weights, opinions[:, inside], 1), axis=1)
    some = order[:MAX_ROWS]
    weights = weigh(opinions[:, some], truth[some], base)
    total = base + np.tensordot(weights, np.array([_opinion(fresh[name], prior) for name in names]), 1)
    return out, softmax(total, axis=1)


def clearly_better(
    truth: np.ndarray, new: np.ndarray, old: np.ndarray, balance: bool, errors: float = 0.5,
    units: np.ndarray | None = None,
) -> bool:  # fmt: skip
    """Whether new answers beat old ones by more than so many standard errors of the difference, row by row.

    `balance` weighs classes equally; rows of one of the `units` (numbers from 0) are one observation. A mixture of many
    attackers must earn its place: within chance of the best one, the best one is the simpler answer.
    """
    share = np.bincount(truth, minlength=int(truth.max()) + 1)
    weight = 1 / share[truth] / (share > 0).sum() if balance else np.full(len(truth), 1 / len(truth))
    gain = weight * ((new == truth).astype(float) - (old == truth))
    if units is not None:
        gain = np.bincount(units, gain)
    return bool(gain.sum() > errors * np.sqrt((gain**2).sum()))


def softmax_link(margins: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Slope and offsets of p(c) = softmax(slope * margin_c + offset_c), and its log-loss.

    One slope for all classes: a free matrix, learned from a fifth of the rows, would forget most of what the
    margins know when classes are many. A slope below 0, which says the opposite of the machine, comes of held rows
    that are the others' complement (each person as often with as without sunglasses): then margins stay as they are.
    """
    m = margins.shape[1]
    rows = np.arange(len(y))

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_softmax(v[0] * margins + v[1:], axis=1)
        excess = np.exp(logs)
        excess[rows, y] -= 1
        ridge = 2 * m / len(y) * v[1:]  # offsets of many classes, from few rows, are mostly noise
        gradient = np.concatenate([[(excess * margins).sum() / len(y)], excess.sum(0) / len(y) + ridge])
        return float(-logs[rows, y].mean() + (ridge * v[1:]).sum() / 2), gradient

    plain = np.concatenate([[1.0], np.zeros(m)])
    best = minimize(loss, plain, jac=True, method="L-BFGS-B").x
    if best[0] <= 0:
        best = plain
    return float(best[0]), best[1:], loss(best)[0]


def _opinion(p: np.ndarray, prior: np.ndarray) -> np.ndarray:
    opinion: np.ndarray = np.log(np.maximum(p, SURE) / prior)
    return opinion
