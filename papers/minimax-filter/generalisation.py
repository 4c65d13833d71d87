"""How far the paper's empirical privacy and target risks can be from the expected ones, for every reader at once.

A filter that is fixed before the rows are seen releases codes in the unit ball. For every softmax reader of norm at
most `norm`, with probability 1 - delta over n independent rows, its expected cross-entropy differs from that on the
rows by at most

    2 R + c sqrt(ln(1/delta) / 2n),    R <= 2 norm sqrt(2 m / n),    c = ln m + sqrt(2) * sqrt(2) * norm

(McDiarmid and symmetrization; the vector contraction of Maurer 2016, where cross-entropy has the Lipschitz constant
sqrt(2) in m logits; with two classes one weight vector does: R <= norm sqrt(2/n), c = ln(1 + exp(sqrt(2) norm))). So
the best reader of the family, whom nobody trained, cannot be far better than the best on these rows, who is found by
convex optimization. It is a bound for this family and this norm, not for all attackers: `tacit.certify` has those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from tacit.errors import InputError, check_number


@dataclass(frozen=True)
class RiskBound:
    """A risk (cross-entropy, in nats) of the best reader of norm at most `norm`.

    Attributes
    ----------
    empirical : on the rows
    slack : how far every reader's expected risk may be from its own on the rows
    guessing : the cross-entropy of saying the classes' shares
    norm, delta, n : of the family, of the promise, and of the rows
    """

    empirical: float
    slack: float
    guessing: float
    norm: float
    delta: float
    n: int

    @property
    def least(self) -> float:
        """No reader of the family has a lower expected risk than this, with probability 1 - delta."""
        return max(0.0, self.empirical - self.slack)


def risk_bound(z: np.ndarray, codes: np.ndarray, norm: float, delta: float = 0.05) -> RiskBound:
    """The least expected cross-entropy of any softmax reader of norm at most `norm`, from rows the filter never saw.

    Parameters
    ----------
    z : codes of independent rows, in the unit ball
    codes : classes 0, 1, ... of these rows
    norm : of the reader's weights and intercepts together
    delta : how often the bound may fail

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 3)); z /= np.linalg.norm(z, axis=1)[:, None]
    >>> found = risk_bound(z, rng.integers(2, size=2000), norm=1.0)
    >>> 0.5 < found.least < found.empirical < 0.7
    True
    """
    check_number("norm", norm, 0)
    check_number("delta", delta, 1e-300, 1)
    if np.square(z).sum(axis=1).max(initial=0.0) > 1 + 1e-9:
        raise InputError("the bound is for codes in the unit ball; divide the code by its largest norm beforehand")
    n, m = len(z), int(codes.max()) + 1
    rows = np.column_stack([z, np.ones(n)])  # of norm at most sqrt(2)
    reach = np.sqrt(2) * norm
    if m == 2:
        complexity, largest = reach / np.sqrt(n), np.log1p(np.exp(reach))
    else:
        complexity, largest = 2 * reach * np.sqrt(m / n), np.log(m) + np.sqrt(2) * reach
    slack = 2 * complexity + largest * np.sqrt(np.log(1 / delta) / (2 * n))
    shares = np.bincount(codes, minlength=m) / n
    guessing = float(-(shares * np.log(np.maximum(shares, 1e-300))).sum())
    return RiskBound(_best_risk(rows, codes, m, norm), float(slack), guessing, norm, delta, n)


def _best_risk(rows: np.ndarray, codes: np.ndarray, m: int, norm: float) -> float:
    """The least cross-entropy on these rows over the ball of readers.

    The ball is dealt with by a ridge that is found by bisection: the larger it is, the smaller the reader.
    """
    own = np.eye(m)[codes]
    k = 1 if m == 2 else m

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = flat.reshape(rows.shape[1], k)
        logits = np.column_stack([np.zeros(len(rows)), rows @ table]) if m == 2 else rows @ table
        logits = logits - logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        value = -float(np.log(np.maximum((p * own).sum(axis=1), 1e-300)).mean())
        gradient = rows.T @ (p - own)[:, -k:] / len(rows)
        return value, gradient.ravel()

    def fitted(ridge: float) -> np.ndarray:
        def penalised(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = risk(flat)
            return value + ridge * float(flat @ flat), gradient + 2 * ridge * flat

        return minimize(penalised, np.zeros(rows.shape[1] * k), jac=True, method="L-BFGS-B",
                        options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-10}).x  # fmt: skip

    low, high = 1e-9, 1e3
    if np.linalg.norm(free := fitted(low)) <= norm:
        return risk(free)[0]
    for _ in range(40):
        middle = np.sqrt(low * high)
        low, high = (low, middle) if np.linalg.norm(fitted(middle)) <= norm else (middle, high)
    return risk(fitted(low))[0]  # a little outside the ball: never too large
