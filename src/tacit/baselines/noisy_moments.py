"""The statistics of closed forms with noise: differential privacy of `LinearARL` and `LinearEraser`.

A record is clipped to a norm and put beside a one and the indicators of its labels; the sum of v v' over all people
holds every count, mean and covariance that a closed form needs. One person moves it by at most the norm of v squared,
and Gaussian noise of that scale is added once ("Analyze Gauss", Dwork et al., 2014).
"""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np

from tacit.baselines.moments import ClassMeans, Moments
from tacit.filters.base import Problem
from tacit.filters.public_intake import tell_spent
from tacit.labels import Labels
from tacit.noise.fit_privacy import DP, LABELS, Spent, epsilon_of, noise_for


def noisy_moments(f: Any, problem: Problem, dp: DP) -> tuple[Moments, list[ClassMeans]]:
    """What `moments_of` gives, under noise; `f` is told what it cost. `dp.clip` is in root mean squares of a record."""
    crowd = problem.crowd
    dp.check(crowd.n_people)
    rows, label_weight, reach = beside_labels(problem, dp.clip)
    width = math.prod(problem.X.shape[1:])
    noise = noise_for(1.0, 1, dp.epsilon, dp.delta)
    rng = np.random.default_rng(secrets.randbits(128))  # whoever knew the draws could take the noise off
    drawn = np.triu(noise * reach * rng.standard_normal((rows.shape[1],) * 2))
    total = summed_products(rows, crowd) + drawn + np.triu(drawn, 1).T
    unit, cost = "record" if problem.units is None else "person", epsilon_of(1.0, noise, 1, dp.delta)
    told = (LABELS, *f.not_covered_)
    tell_spent(f, Spent(cost, dp.delta, unit, crowd.n_people, noise, reach, 1.0, 1, told))
    moments = Moments(width)
    n = max(total[width, width] / label_weight**2, 1.0)
    moments.n, moments.mean = round(n), total[:width, width] / label_weight / n
    values, vectors = np.linalg.eigh(total[:width, :width] - n * np.outer(moments.mean, moments.mean))
    # below the noise's own eigenvalues nothing is known, and whitening would blow it up
    values = np.maximum(values, noise * reach * math.sqrt(width))
    moments.scatter = (vectors * values) @ vectors.T
    means, at = [], width + 1
    for labels in (problem.targets, problem.sensitive):
        means.append(ClassMeans(width))
        for name, classes in zip(labels.names, labels.classes, strict=True):
            counts = np.maximum(total[width, at : at + len(classes)] / label_weight**2, 1.0)
            found = total[:width, at : at + len(classes)].T / label_weight / counts[:, None]
            means[-1].columns[name] = dict(zip(classes.tolist(), zip(counts.round(), found, strict=True), strict=True))
            at += len(classes)
    return moments, means


def beside_labels(problem: Problem, clip: float) -> tuple[np.ndarray, float, float]:
    """Clipped records beside a one and their labels' indicators; the weight of these; the largest squared norm."""
    flat = problem.X.reshape(len(problem.X), -1)
    norm = clip * math.sqrt(flat.shape[1])
    flat = flat * np.minimum(1, norm / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12))
    n_labels = len(problem.targets) + len(problem.sensitive)
    weight = norm / math.sqrt(1 + n_labels)  # labels and records have the same share of the norm
    shown = [np.ones((len(flat), 1)), *_indicators(problem.targets), *_indicators(problem.sensitive)]
    return np.column_stack([flat, weight * np.concatenate(shown, axis=1)]), weight, 2 * norm**2


def summed_products(rows: np.ndarray, crowd: Any) -> np.ndarray:
    """The sum of v v' over people; of somebody with several records, their mean."""
    return (rows * (crowd.weights() * crowd.n_people)[:, None]).T @ rows


def _indicators(labels: Labels) -> list[np.ndarray]:
    """One column a class; a missing label has none."""
    return [(codes[:, None] == np.arange(len(classes))).astype(float)
            for classes, codes in zip(labels.classes, labels.codes.T, strict=True)]  # fmt: skip
