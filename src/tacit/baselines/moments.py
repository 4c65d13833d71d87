"""Running statistics that the closed-form filters are solved from: chunk by chunk, in memory that rows do not enter.

Chunks are centered on their own means and merged (Chan, Golub & LeVeque), so that a large offset or many
chunks cost no precision.

Differential privacy of `LinearARL` and `LinearEraser`: a record is clipped to a norm and put beside a one and the
indicators of its labels; the sum of v v' over all people holds every count, mean and covariance that a closed form
needs. One person moves it by at most the norm of v squared, and Gaussian noise of that scale is added once ("Analyze
Gauss", Dwork et al., 2014).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tacit.errors import InputError
from tacit.filters.base import Filter, Problem, check_units, encode_problem, finish_fit
from tacit.filters.mechanism import Mechanism
from tacit.filters.public_intake import encode_in_public, tell_spent
from tacit.labels import MISSING, Labels, encode_labels
from tacit.noise.accounting import DP, LABELS, Spent, epsilon_of, noise_for

CHUNK = 8192
# Below this share of the largest, an eigenvalue of a correlation matrix is rounding.
RANK_TOLERANCE = 1e-9


class Moments:
    """Running number, mean and covariance of records.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(1e6, 1, (1000, 3))
    >>> moments = Moments(3).update(X[:1]).update(X[1:400]).update(X[400:])
    >>> np.allclose(moments.covariance, np.cov(X.T, bias=True), rtol=1e-9)
    True
    """

    def __init__(self, width: int) -> None:
        self.n = 0
        self.mean = np.zeros(width)
        self.scatter = np.zeros((width, width))
        # column by column, the first two values that turned up, and how often: enough for indicators
        self.values = np.full((2, width), np.nan)
        self.counts = np.zeros((2, width))

    def update(self, X: np.ndarray) -> Moments:
        if len(X) == 0:
            return self
        mean, n = X.mean(axis=0), self.n + len(X)
        away, step = X - mean, mean - self.mean
        self.scatter += away.T @ away + np.outer(step, step) * (self.n * len(X) / n)
        self.mean = self.mean + step * (len(X) / n)
        self.n = n
        self._count_values(X)
        return self

    def merge(self, other: Moments) -> Moments:
        """Take in the moments of other records; values are counted on where both know the same one."""
        if other.n == 0:
            return self
        n, step = self.n + other.n, other.mean - self.mean
        self.scatter = self.scatter + other.scatter + np.outer(step, step) * (self.n * other.n / n)
        self.mean = self.mean + step * (other.n / n)
        self.n = n
        for i in range(2):
            for j in range(2):
                new = np.isnan(self.values[i]) & ~np.isnan(other.values[j]) & (other.values[j] != self.values[1 - i])
                self.values[i] = np.where(new, other.values[j], self.values[i])
                self.counts[i] += np.where(self.values[i] == other.values[j], other.counts[j], 0)
        return self

    def _count_values(self, X: np.ndarray) -> None:
        columns = np.arange(X.shape[1])
        for i in range(2):
            new = self.values[0] != X  # all are, before the first record
            unknown = np.isnan(self.values[i]) & new.any(axis=0)
            self.values[i] = np.where(unknown, X[new.argmax(axis=0), columns], self.values[i])
            self.counts[i] += (self.values[i] == X).sum(axis=0)

    def nearly_constant(self, share: float) -> np.ndarray:
        """Columns in which fewer than this share of the records differ from the rest."""
        return self.n - self.counts.max(axis=0) < share * self.n

    @property
    def covariance(self) -> np.ndarray:
        return self.scatter / max(1, self.n)


class ClassMeans:
    """Running mean of the records of every class of every label column; classes may turn up later.

    Records whose label is missing take no part in that column.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.columns: dict[str, dict[object, tuple[int, np.ndarray]]] = {}
        self.numbers: dict[str, Moments] = {}  # of the records beside a label that is a number

    def update(self, X: np.ndarray, labels: Labels) -> ClassMeans:
        for i, (name, classes, codes) in enumerate(zip(labels.names, labels.classes, labels.codes.T, strict=True)):
            if (values := labels.number(i)) is not None:
                there = ~np.isnan(values)
                running = self.numbers.setdefault(name, Moments(self.width + 1))
                running.update(np.column_stack([X[there], values[there]]))
                continue
            known = self.columns.setdefault(name, {})
            for c in np.unique(codes[codes != MISSING]):
                rows = X[codes == c]
                label = classes[c].item() if isinstance(classes[c], np.generic) else classes[c]
                n, mean = known.get(label, (0, np.zeros(self.width)))
                total = n + len(rows)
                known[label] = total, mean + (rows.mean(axis=0) - mean) * (len(rows) / total)
        return self

    def merge(self, other: ClassMeans) -> ClassMeans:
        """Take in the class means of other records."""
        for name, classes in other.columns.items():
            known = self.columns.setdefault(name, {})
            for label, (count, mean) in classes.items():
                n, before = known.get(label, (0, np.zeros(self.width)))
                known[label] = n + count, before + (mean - before) * (count / (n + count))
        for name, moments in other.numbers.items():
            self.numbers.setdefault(name, Moments(self.width + 1)).merge(moments)
        return self

    def cross_covariance(self, centre: bool = True) -> np.ndarray:
        """Covariance (or mean product) of the records with the one-hot labels, side by side: (width, classes).

        A number, standardized, is one column.
        """
        blocks = [np.empty((self.width, 0))]
        for classes in self.columns.values():
            counts = np.array([n for n, _ in classes.values()], dtype=float)
            means = np.array([mean for _, mean in classes.values()])
            shares = counts / counts.sum()
            blocks.append(((means - (shares @ means if centre else 0.0)) * shares[:, None]).T)
        for moments in self.numbers.values():
            covariance = moments.covariance
            blocks.append(covariance[:-1, -1:] / max(np.sqrt(covariance[-1, -1]), np.finfo(float).tiny))
        return np.concatenate(blocks, axis=1)

    def fewest_classes(self) -> tuple[str, int] | None:
        """The label column with the fewest classes so far, and how many; None without columns."""
        return min(((name, len(c)) for name, c in self.columns.items()), key=lambda pair: pair[1], default=None)


def moments_of(
    X: np.ndarray, *labels: Labels, features: Callable[[np.ndarray], np.ndarray] | None = None
) -> tuple[Moments, list[ClassMeans]]:
    """Moments of the records (or of their features) and class means of each group of label columns, by chunks."""
    flat = X.reshape(len(X), -1)
    width = flat.shape[1] if features is None else features(flat[:1]).shape[1]
    moments, means = Moments(width), [ClassMeans(width) for _ in labels]
    for start in range(0, len(flat), CHUNK):
        rows = slice(start, start + CHUNK)
        part = flat[rows] if features is None else features(flat[rows])
        moments.update(part)
        for running, group in zip(means, labels, strict=True):
            running.update(part, group.take(np.arange(len(X))[rows]))
    return moments, means


def whitening(moments: Moments, without: np.ndarray | None = None, ridge: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """W (rank, width) and its inverse W+ (width, rank): W (x - mean) has the identity as its covariance.

    Works on the correlation matrix, so that columns of very different units are all kept; constant columns
    and columns that are sums of others drop out, and so do those that the mask `without` marks. A ridge
    is added to the correlation matrix, so that directions of little variance are not blown up.
    """
    covariance, width = moments.covariance, len(moments.mean)
    spread = np.sqrt(np.diag(covariance))
    # Constant columns are left out by hand: an eigenvector has 1e-17 there, not 0, and an attacker who
    # standardizes columns would read what that rounding carries.
    varies = np.flatnonzero((spread > 1e-12 * (1 + np.abs(moments.mean))) & ~(False if without is None else without))
    scale = spread[varies]
    values, vectors = np.linalg.eigh(covariance[np.ix_(varies, varies)] / np.outer(scale, scale))
    kept = values > RANK_TOLERANCE * max(1.0, values[-1] if len(values) else 1.0)
    root = np.sqrt(values[kept] + ridge)
    W, inverse = np.zeros((len(root), width)), np.zeros((width, len(root)))
    W[:, varies] = (vectors[:, kept] / root).T / scale
    inverse[varies] = scale[:, None] * (vectors[:, kept] * root)
    return W, inverse


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


ROLES = (("y", "target"), ("sensitive_features", "sensitive"))


class ByChunks(Filter):
    """A filter whose `_from_moments` needs no more than counts, means and covariances."""

    dp: DP | None = None

    def _prepare(self, X: Any, y: Any, sensitive_features: Any, units: Any) -> Problem:
        return encode_in_public(self, self.dp, X, y, sensitive_features, units)

    def partial_fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, units: Any = None) -> Self:
        """Learn from one more chunk of records; rows are not kept, so `release_training_rows` needs `fit`.

        The first chunk fixes the columns, the words of text columns (later new ones are "other") and the scaling, so
        let it be a large one. `LinearARL` and `LinearEraser` do not depend on the scaling: all chunks together give
        what `fit` gives (but for the sign of a column). A chunk may lack classes.
        """
        if self.dp is not None:
            raise InputError("dp adds its noise once, to the sums of all records; use fit")
        if not hasattr(self, "_moments"):
            problem = encode_problem(self, X, None, None, units, chunk=True)
            width = int(np.prod(problem.X.shape[1:]))
            self._moments, self._class_means = Moments(width), [ClassMeans(width) for _ in ROLES]
            self._known = problem.schema, problem.memory
        else:
            checked = self.mechanism_.schema.check(X)
            memory: Any = self._known[1]
            self._known = self._known[0], memory.joined(checked, check_units(units, len(checked)))
        schema: Any = self._known[0]
        encoded = schema.encode(X)
        flat = encoded.reshape(len(encoded), -1)
        given = ((y if self.needs_target else None), sensitive_features)
        labels = [encode_labels(v, name, len(flat), min_classes=0) for v, (name, _) in zip(given, ROLES, strict=True)]
        for known, running, (_, what) in zip(labels, self._class_means, ROLES, strict=True):
            if self._moments.n and set(known.names) != set(running.columns):
                raise InputError(
                    f"this chunk has the {what} columns {list(known.names)}, earlier ones had "
                    f"{list(running.columns)}; pass the same columns with every chunk"
                )
        if self.needs_target and not len(labels[0]):
            raise InputError(f"{type(self).__name__} needs a target (y) with every chunk: say what must keep working")
        self._moments.update(flat)
        for known, running in zip(labels, self._class_means, strict=True):
            running.update(flat, known)
        self.notes_: list[str] = []  # what was said of fewer chunks
        targets, sensitive = self._class_means
        learned = self._from_moments(self._moments, targets, sensitive, schema.scaling)
        finish_fit(self, None, replace(learned, schema=schema, memory=self._known[1]))
        return self

    def _from_moments(self, moments: Moments, targets: ClassMeans, sensitive: ClassMeans, scaling: Any) -> Mechanism:
        raise NotImplementedError
