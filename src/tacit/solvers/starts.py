"""Where a linear filter begins: projections x -> x'G that already keep the target and hide the sensitive attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh

from tacit.errors import InputError
from tacit.labels import MISSING, Labels, joint_codes
from tacit.solvers.heads import SoftmaxHeads
from tacit.solvers.kiwiel import lbfgs

SMALL = 1e-8  # ridge of the two scatters, as a share of their trace
LITTLE_SPREAD = 1e-3
NO_SPREAD = 1e-10  # a direction whose variance is this share of the largest is not a direction


def linear_start(X: np.ndarray, targets: Labels, sensitive: Labels, d: int, init: Any, seed: int) -> np.ndarray:
    """A (D, d) projection whose code is white.

    "eigen": the top generalized eigenvectors of the targets' between-class scatter against the sensitive
    attributes' (without targets: of the total scatter); "pca": principal directions; "random": a random
    subspace; or the user's own (D, d) array. The code's coordinates mean nothing, so they are rotated at
    random, except for the user's own. "gaussian" is left as it is drawn, as the paper prints it: independent normal
    entries of variance 1/D, the code neither white nor centred.
    """
    if not isinstance(init, str):
        given = np.asarray(init, dtype=np.float64)
        if given.shape != (X.shape[1], d) or not np.isfinite(given).all():
            raise InputError(
                f"init must be finite with shape ({X.shape[1]}, {d}), one row per encoded input; found {given.shape}"
            )
        return given
    rng = np.random.default_rng(seed)
    if init == "gaussian":
        return rng.standard_normal((X.shape[1], d)) / np.sqrt(X.shape[1])
    values, vectors = principal_directions(X)
    d_all, d = d, min(d, len(values))
    if init == "random":
        G = np.linalg.qr(rng.standard_normal((X.shape[1], d)))[0]
    elif init == "pca":
        G = vectors[:, :d]
    elif init == "eigen":
        # what tells people apart in directions of hardly any spread is not found again in other rows
        wide = max(d, int((values > LITTLE_SPREAD * values[0]).sum()))
        values, vectors = values[:wide], vectors[:, :wide]
        inside = X @ vectors
        keep = np.diag(values) if not len(targets) else between_scatter(inside, targets)
        hide = between_scatter(inside, sensitive) if len(sensitive) else np.eye(len(values))
        top = eigh(_ridged(keep), _ridged(hide), subset_by_index=(len(values) - d, len(values) - 1))[1]
        G = vectors @ (top / np.linalg.norm(top, axis=0))
    else:
        words = "'eigen', 'pca', 'random', 'gaussian' or an array of shape (D, d)"
        raise InputError(f"init must be {words}; found {init!r}")
    # white, so that the heads' problems are well conditioned, and rotated at random
    spread, axes = np.linalg.eigh(np.atleast_2d(np.cov(X @ G, rowvar=False)))
    white = axes / np.sqrt(np.maximum(spread, 1e-8 * spread.max()))
    return G @ white @ np.linalg.qr(rng.standard_normal((d_all, d)))[0].T


def cell_start(X: np.ndarray, targets: Labels, d: int, seed: int, ridge: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Scores x'G + b of d cells that begin as the label-only release: the target's classes, cells left over
    refining them at random. Several targets: the classes of their product.
    """
    codes = joint_codes(targets.codes)
    counts = np.bincount(codes)
    common = np.argsort(-counts)[:d]  # with fewer cells than classes the rare classes have none
    place = np.full(len(counts), MISSING)
    place[common] = np.arange(len(common))
    missing = (targets.codes == MISSING).any(axis=1)
    labels = Labels(("cell",), (np.arange(len(common)),), np.where(missing, MISSING, place[codes])[:, None])
    head = SoftmaxHeads(labels, X.shape[1], ridge=ridge)
    evaluate = head.at(torch.from_numpy(np.ascontiguousarray(X)))
    assert evaluate is not None
    table = lbfgs(evaluate, head.start(), 1e-6, 100)[0].view(X.shape[1] + 1, -1).numpy()
    rng = np.random.default_rng(seed)
    cells = np.arange(d) % table.shape[1]
    spread = rng.standard_normal((X.shape[1], d)) / np.sqrt(max(1.0, float(X.var(axis=0).sum())))
    return table[:-1, cells] + spread * (0.01 if d <= table.shape[1] else 1.0), table[-1, cells]


def rank(X: np.ndarray) -> int:
    """How many directions of X have any spread."""
    return len(principal_directions(X)[0])


def principal_directions(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances (descending) and directions of X, those without spread left out."""
    centred = X - X.mean(axis=0)
    if X.shape[0] >= X.shape[1]:
        values, vectors = np.linalg.eigh(centred.T @ centred / len(X))
    else:
        values, left = np.linalg.eigh(centred @ centred.T / len(X))
        vectors = centred.T @ left / np.sqrt(np.maximum(values * len(X), np.finfo(float).tiny))
    kept = values > NO_SPREAD * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    return values[kept][::-1], vectors[:, kept][:, ::-1]


def between_scatter(X: np.ndarray, labels: Labels) -> np.ndarray:
    """Scatter of the class means, weighted by class counts, summed over the label columns."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for codes in labels.codes.T:
        known = codes != MISSING
        own, centre = np.eye(codes.max() + 1)[codes[known]], X[known].mean(axis=0)
        counts = own.sum(axis=0)
        means = (own.T @ X[known]) / np.maximum(counts, 1)[:, None] - centre
        total += (means * counts[:, None]).T @ means / counts.sum()
    return total


def _ridged(scatter: np.ndarray) -> np.ndarray:
    return scatter + max(SMALL * np.trace(scatter), np.finfo(float).tiny) * np.eye(len(scatter))
