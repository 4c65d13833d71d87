"""How much the release itself is like its records: neighbors, embeddings, and reconstruction of the raw input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import ndimage
from scipy import stats as sps
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tacit.auditing.measures import check_rows, mean_measure
from tacit.auditing.stats import Measure, binomial_interval, effective_size, record_weights, size_for_t, weighted_mean
from tacit.errors import InputError

ENTRIES_AT_ONCE = 4_000_000


def nearest_neighbour(
    released: np.ndarray, truth: np.ndarray, units: np.ndarray | None = None, level: float = 0.95
) -> Measure:
    """Misclassification of the nearest other record (1-NN, leave-one-out); guessing names the commonest class.

    Neighbors equally near share the vote, so that the order of rows does not matter for a release of few codes.

    Parameters
    ----------
    released : (n, ...) what was released
    units : (n,) neighbors of the record's own unit do not count. If `truth` is who the person is, a unit must be
        something smaller (a recording), or no neighbor could be right

    Examples
    --------
    >>> nearest_neighbour(np.array([[0.], [1.], [5.], [6.]]), np.array([0, 0, 1, 1])).value
    0.0
    """
    check_rows(truth=truth, released=released, units=units)
    rows = np.asarray(released, float).reshape(len(truth), -1)
    who = np.arange(len(truth)) if units is None else np.unique(units, return_inverse=True)[1].ravel()
    if who.max() == 0:
        raise InputError("nearest_neighbour needs records of at least two units; found one")
    n = len(truth)
    wrong, ties, asked, misled, first = np.empty(n), np.empty(n), np.zeros(n), np.zeros(n), np.empty(n, int)
    step = max(1, ENTRIES_AT_ONCE // n)
    for start in range(0, n, step):
        part = slice(start, start + step)
        distance = cdist(rows[part], rows)  # exact differences: equal rows must tie, which products would spoil
        distance[who[part, None] == who] = np.inf
        nearest = distance == distance.min(axis=1, keepdims=True)
        other = nearest & (truth[part, None] != truth)
        ties[part], first[part] = nearest.sum(axis=1), nearest.argmax(axis=1)
        wrong[part] = other.sum(axis=1) / ties[part]
        asked += (1 / ties[part]) @ nearest
        misled += (1 / ties[part]) @ other
    value = float(wrong.mean())
    # a record matters as the one classified and as the neighbor asked (two that are each other's nearest err
    # together), so sum both over units; every pair was then counted at both of its ends: take it off once
    # (mutual pairs among tied neighbors are left in, which only widens the interval)
    touched = np.bincount(who, wrong - value + misled - value * asked)
    pairs = float(((wrong * (1 - value) ** 2 + (1 - wrong) * value**2) / ties).sum())
    mutual = (first[first] == np.arange(n)) & (ties == 1) & (ties[first] == 1)
    pairs += float(((wrong - value)[mutual] ** 2).sum())
    variance = max(float((touched**2).sum()) - pairs, 0.0) / n**2
    size = min(n, *effective_size(value, (wrong - value) / n, who, n, level))
    if variance > 0:
        size = min(size, value * (1 - value) / variance * size_for_t(len(touched), level))
    return Measure(value, *binomial_interval(value, size, level), 1 - float(np.bincount(truth).max() / n))


def similarity(
    embed: Callable[[np.ndarray], np.ndarray],
    original: np.ndarray,
    released: np.ndarray,
    units: np.ndarray | None = None,
    level: float = 0.95,
) -> Measure:
    """Mean cosine between the embeddings of an original and of its release.

    Guessing is the mean cosine with the releases of *other* units: embeddings of faces are alike before they are of
    the same face, so a cosine says nothing alone. It is nan when there is one unit only.

    Parameters
    ----------
    embed : images -> (n, d), for instance a face recognizer without its last layer
    original, released : (n, ...) what `embed` takes, row by row of the same record

    Examples
    --------
    >>> similarity(lambda x: x, np.eye(3), np.eye(3))[::3]
    (1.0, 0.0)
    """
    check_rows(original=original, released=released, units=units)
    a, b = (_unit_length(np.asarray(embed(x), float)) for x in (original, released))
    who = np.arange(len(a)) if units is None else np.unique(units, return_inverse=True)[1].ravel()
    n_units = int(who.max()) + 1
    weight = record_weights(len(a), units) / n_units
    # all pairs less those within a unit, by sums: sum_ij a_i.b_j = (sum a).(sum b)
    own_a, own_b = (np.stack([np.bincount(who, weight * column) for column in x.T], axis=1) for x in (a, b))
    across = float((weight @ a) @ (weight @ b) - (own_a * own_b).sum())
    blind = across / (1 - 1 / n_units) if n_units > 1 else np.nan  # units weigh alike, so 1/n of all pairs are own
    return mean_measure((a * b).sum(axis=1), blind, units, level, bounds=(-1.0, 1.0))


class Reconstruction(NamedTuple):
    """How much of the raw input's variance can be told from the release.

    Attributes
    ----------
    r2 : over all columns together, each weighing as much as it varies; guessing (the attackers' mean) is 0
    columns : of each raw column; nan where the column does not vary
    attacker : which regressor was chosen on validation
    guess : the reconstruction of the test records, in the shape of the raw ones
    """

    r2: Measure
    columns: tuple[Measure, ...]
    attacker: str
    guess: np.ndarray


def reconstruction(
    released_attack: np.ndarray,
    raw_attack: np.ndarray,
    released_test: np.ndarray,
    raw_test: np.ndarray,
    attack_units: np.ndarray | None = None,
    units: np.ndarray | None = None,
    nonlinear: bool = False,
    level: float = 0.95,
    seed: int = 0,
) -> Reconstruction:
    """Regress the raw input on the release, and test it on other records.

    Ridge at several strengths and, if `nonlinear`, a small neural net; one is chosen on a third of the attackers' own
    records (by unit), then learns from all of them. R² is against the attackers' mean, which a guesser knows, not
    the test's, which nobody does; the interval is the delta method's for that ratio, by unit, with Student's t.

    Parameters
    ----------
    released_attack, raw_attack : (n, ...) records the attacker learns from; the filter never saw them
    released_test, raw_test : (n', ...) other records
    attack_units, units : the independent unit of each attack record, and of each test record

    Examples
    --------
    >>> raw = np.random.default_rng(0).standard_normal((300, 2))
    >>> found = reconstruction(raw[:200, :1], raw[:200], raw[200:, :1], raw[200:])
    >>> [round(c.value, 1) + 0 for c in found.columns], found.attacker
    ([1.0, 0.0], 'ridge')
    """
    check_rows(released_attack=released_attack, raw_attack=raw_attack, attack_units=attack_units)
    check_rows(released_test=released_test, raw_test=raw_test, units=units)
    z, x, z_test, x_test = (
        np.asarray(a, float).reshape(len(a), -1) for a in (released_attack, raw_attack, released_test, raw_test)
    )
    if z.shape[1] != z_test.shape[1] or x.shape[1] != x_test.shape[1]:
        found = f"{z.shape[1]} and {x.shape[1]} in attack, {z_test.shape[1]} and {x_test.shape[1]} in test"
        raise InputError(f"released and raw records have {found} columns; they must be the same")
    candidates = [("ridge", Ridge(alpha)) for alpha in np.geomspace(1e-5, 1e3, 5) * len(z)]
    if nonlinear:
        net = MLPRegressor(
            hidden_layer_sizes=(128,), early_stopping=True, max_iter=60, n_iter_no_change=5, random_state=seed
        )
        candidates.append(("mlp", net))
    groups = np.arange(len(z)) if attack_units is None else attack_units
    learn, choose = next(GroupShuffleSplit(1, test_size=1 / 3, random_state=seed).split(z, groups=groups))

    def fitted(regressor: Ridge | MLPRegressor, rows: np.ndarray) -> TransformedTargetRegressor:
        model = make_pipeline(StandardScaler(), clone(regressor))
        target = x[rows, 0] if x.shape[1] == 1 else x[rows]  # scikit-learn wants a single column flat
        return TransformedTargetRegressor(model, transformer=StandardScaler()).fit(z[rows], target)

    def loss(regressor: Ridge | MLPRegressor) -> float:
        return float(((_predict(fitted(regressor, learn), z[choose], x.shape[1]) - x[choose]) ** 2).sum())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a net that stops early is still an attacker
        attacker, regressor = min(candidates, key=lambda candidate: loss(candidate[1]))
        guess = _predict(fitted(regressor, np.arange(len(z))), z_test, x.shape[1])
    error, total = (x_test - guess) ** 2, (x_test - x.mean(axis=0)) ** 2
    who = np.arange(len(x_test)) if units is None else np.unique(units, return_inverse=True)[1].ravel()
    columns = tuple(r_squared(e, t, who, level) for e, t in zip(error.T, total.T, strict=True))
    return Reconstruction(
        r_squared(error.sum(axis=1), total.sum(axis=1), who, level),
        columns,
        attacker,
        guess.reshape(np.shape(raw_test)),
    )


def ssim(a: np.ndarray, b: np.ndarray, data_range: float = 1.0) -> np.ndarray:
    """Structural similarity of each pair of images (Wang et al. 2004): 11 x 11 Gaussian window of deviation 1.5.

    Borders are mirrored, not cut, so that images smaller than the window have a value too.

    Parameters
    ----------
    a, b : (n, height, width) or (n, channels, height, width); channels are compared apart and averaged
    data_range : largest possible value less the smallest

    Examples
    --------
    >>> image = np.random.default_rng(0).random((1, 16, 16))
    >>> ssim(image, image).tolist()
    [1.0]
    """
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape or a.ndim not in (3, 4):
        raise InputError(f"images must be (n, [channels,] height, width) and alike; found {a.shape} and {b.shape}")

    def local(images: np.ndarray) -> np.ndarray:
        smooth: np.ndarray = ndimage.gaussian_filter(images, 1.5, radius=5, axes=(-2, -1))
        return smooth

    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    mean_a, mean_b = local(a), local(b)
    var_a, var_b = local(a * a) - mean_a**2, local(b * b) - mean_b**2
    covariance = local(a * b) - mean_a * mean_b
    similar = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    similar /= (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    result: np.ndarray = similar.mean(axis=tuple(range(1, a.ndim)))
    return result


def mean_ssim(
    original: np.ndarray,
    reconstructed: np.ndarray,
    blind: np.ndarray | None = None,
    data_range: float = 1.0,
    units: np.ndarray | None = None,
    level: float = 0.95,
) -> Measure:
    """Mean SSIM of reconstructions; guessing shows everybody the image `blind` (None: the mean of the originals)."""
    check_rows(original=original, reconstructed=reconstructed, units=units)
    shown = np.mean(original, axis=0) if blind is None else blind
    blindly = ssim(original, np.broadcast_to(shown, np.shape(original)), data_range)
    guessing = weighted_mean(blindly, record_weights(len(blindly), units))
    return mean_measure(ssim(original, reconstructed, data_range), guessing, units, level, bounds=(-1.0, 1.0))


def r_squared(error: np.ndarray, total: np.ndarray, who: np.ndarray, level: float) -> Measure:
    """1 - sum(error) / sum(total), with the delta method's interval over units."""
    if total.sum() <= 0:
        return Measure(np.nan, -np.inf, 1.0, 0.0)
    left = float(error.sum() / total.sum())
    sums = np.bincount(who, (error - left * total) / total.sum())
    n = len(sums)
    if n < 2:
        return Measure(1 - left, -np.inf, 1.0, 0.0)
    half = float(sps.t.ppf((1 + level) / 2, n - 1) * np.sqrt(n / (n - 1) * (sums**2).sum()))
    return Measure(1 - left, 1 - left - half, min(1.0, 1 - left + half), 0.0)


def _predict(model: TransformedTargetRegressor, z: np.ndarray, n_columns: int) -> np.ndarray:
    return np.asarray(model.predict(z), float).reshape(len(z), n_columns)


def _unit_length(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
