"""The codebook's knob is felt all along: for one target and several, down to a constant, without a cliff."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.audit.certificate import certify
from tacit.errors import CollapseWarning
from tacit.labels import encode_labels
from tacit.solvers.exact import label_floor, label_mass, quiet_code, take_in

GRID = tacit.CodebookFilter.knob.values


def together(n: int, n_targets: int = 1) -> tacit.Dataset:
    """All that X tells of the secret it tells through the labels, so that the game has a cliff."""
    rng = np.random.default_rng(0)
    s = rng.random(n) < 0.5
    y = rng.random((n_targets, n)) < np.where(s, 0.65, 0.35)
    X = 1.5 * (2 * y.T - 1) + rng.standard_normal((n, n_targets))
    targets = pd.DataFrame({f"y{i}": column for i, column in enumerate(y)})
    return tacit.Dataset(X, targets, pd.DataFrame({"s": s}), modality="table")


def bounds_of(data: tacit.Dataset, weights: tuple[float, ...], n_codes: int) -> tuple[list[float], float, float]:
    """Certified bounds on fresh rows, that of a constant, and two standard errors of a bound."""
    train, fresh = data.split((0.5, 0.5), random_state=0)
    name = fresh.sensitive.columns[0]
    secret = encode_labels(fresh.sensitive, "sensitive", len(fresh))
    s, m = secret.codes[:, 0], len(secret.classes[0])
    bounds = []
    for weight in weights:
        f = tacit.CodebookFilter(n_codes, weight, n_folds=2, random_state=0)
        f.fit(train.X, train.y, sensitive_features=train.sensitive[[name]])
        bounds.append(certify(f.codes(fresh.X), s, m).bound)
    constant = certify(np.zeros(len(s), dtype=int), s, m).bound
    return bounds, constant, 2 * float(np.sqrt((1 / np.bincount(s)).sum() / 4)) / m


@pytest.mark.filterwarnings("ignore", category=CollapseWarning)  # the last weight is a constant, as it should
@pytest.mark.parametrize(
    ("data", "n_codes"),
    [
        (together(4000), 4),
        (together(4000, n_targets=3), 8),  # the classes fill the cells
        (tacit.load_dataset("diabetes"), 4),
    ],
    ids=["one target", "three targets", "diabetes"],
)
def test_the_knob_is_felt_all_along(data, n_codes):
    """A step of the grid may take a fifth of the range; every other weight is tried here, hence two fifths.

    False alarms: of the five steps one is off by more than two standard errors in a fifth of all draws at most, and
    would have to come on top of a step that is wide already; the draw here is fixed.
    """
    bounds, constant, chance = bounds_of(data, (*GRID[1::2][:-1], GRID[-1]), n_codes)
    span = bounds[0] - constant
    assert span > 0.04  # the control: there is something to take away
    steps = [a - b for a, b in pairwise(bounds)]
    assert min(steps) > -chance
    assert max(steps) <= 0.4 * span + chance
    assert abs(bounds[-1] - constant) <= 0.02


def test_a_quieted_code_leaks_evenly_less():
    """Counted on the rows it was quieted on, so that chance has no part."""
    data = together(4000)
    y, s = (frame.iloc[:, 0].to_numpy().astype(int) for frame in (data.y, data.sensitive))
    p = 1 / (1 + np.exp(-3 * data.X[:, 0]))
    posterior = np.column_stack([1 - p, p])
    keep, hide = [label_mass(y, 2, False)], [label_mass(s, 2, True)]
    floor = label_floor([posterior], keep)
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])

    def leak(weight: float) -> float:
        found = quiet_code(posterior, scores, keep, hide, weight, floor)
        code = scores if found.into is None else take_in(posterior, scores, found.into, found.share)
        cells = (posterior @ code[:-1] + code[-1]).argmax(axis=1)
        return float((np.stack([hide[0][cells == c].sum(axis=0) for c in range(2)]).max(axis=1)).sum()) - 0.5

    worth = quiet_code(posterior, scores, keep, hide, 0.0, floor).worth
    open_, *leaks = (leak(w) for w in (0.9 * worth, *np.geomspace(worth, GRID[-1], 12)))
    assert open_ > 0.1
    assert open_ == pytest.approx(leak(0.0))  # the control: up to its worth a code stays as it is
    steps = [a - b for a, b in pairwise(leaks)]
    assert min(steps) >= 0
    assert max(steps) < open_ / 6
    assert leaks[-1] == pytest.approx(0, abs=1e-9)
