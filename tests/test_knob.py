"""The codebook's knob is felt all along: for one target and several, down to a constant, without a cliff."""

from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.auditing.certificate import certify
from tacit.errors import CollapseWarning
from tacit.filters import codes
from tacit.filters.base import learn_many, prepare
from tacit.labels import encode_labels

GRID = tacit.CodebookFilter.knob.values


@pytest.fixture
def briefly(monkeypatch):
    """Codes learn in 60 steps: they are quieted the same way, however good they are."""

    def learn(*given, steps, run=codes.learn_linear_codes):
        return run(*given, steps=min(steps, 60))

    monkeypatch.setattr(codes, "learn_linear_codes", learn)
    monkeypatch.setattr(codes, "closed_code", partial(codes.closed_code, steps=30))


def together(n: int, n_targets: int = 1) -> tacit.Dataset:
    """All that X tells of the secret it tells through the labels, so that the game has a cliff."""
    rng = np.random.default_rng(0)
    s = rng.random(n) < 0.5
    y = rng.random((n_targets, n)) < np.where(s, 0.65, 0.35)
    X = np.repeat(2 * y.T - 1, 3, axis=1) + rng.standard_normal((n, 3 * n_targets))
    targets = pd.DataFrame({f"y{i}": column for i, column in enumerate(y)})
    return tacit.Dataset(X, targets, pd.DataFrame({"s": s}), modality="table")


def learned(train: tacit.Dataset, weights: tuple[float, ...], n_codes: int) -> list[tacit.CodebookFilter]:
    """The codes of all weights, by the same posteriors."""
    filters = [tacit.CodebookFilter(n_codes, weight, n_folds=2, random_state=0) for weight in weights]
    learn_many(filters, [prepare(f, train.X, train.y, train.sensitive, None) for f in filters])
    return filters


def bounds_of(data: tacit.Dataset, weights: tuple[float, ...], n_codes: int) -> tuple[list[float], float, float]:
    """Certified bounds on fresh rows, that of a constant, and two standard errors of a bound."""
    train, fresh = data.split((0.5, 0.5), random_state=0)
    secret = encode_labels(fresh.sensitive, "sensitive", len(fresh))
    s, m = secret.codes[:, 0], len(secret.classes[0])
    filters = learned(train, weights, n_codes)
    bounds = [certify(f.codes(fresh.X), s, m).bound for f in filters]
    constant = certify(np.zeros(len(s), dtype=int), s, m).bound
    return bounds, constant, 2 * float(np.sqrt((1 / np.bincount(s)).sum() / 4)) / m


@pytest.mark.filterwarnings("ignore", category=CollapseWarning)  # the last weight is a constant, as it should
@pytest.mark.parametrize(
    ("data", "n_codes"),
    [
        (together(3000), 4),
        (together(3000, n_targets=3), 8),  # the classes fill the cells
    ],
    ids=["one target", "three targets"],
)
def test_the_knob_is_felt_all_along(data, n_codes, briefly):
    """From the default weight on: no rise, a constant at the end, no step wider than a fifth of the range.

    Each within chance: two standard errors of a bound. False alarms: the draw here is fixed; over fresh draws a step
    that is even would have to be off by more than two standard errors, and neighbours share their records.
    """
    bounds, constant, chance = bounds_of(data, GRID[GRID.index(3.0) :], n_codes)
    span = bounds[0] - constant
    assert span > 0.04 + chance  # the control: there is something to take away
    steps = [a - b for a, b in pairwise(bounds)]
    assert min(steps) > -chance
    assert max(steps) <= 0.2 * span + chance
    assert abs(bounds[-1] - constant) <= 0.02


def test_a_code_that_tells_nothing_sensitive_stays_useful(briefly):
    """A weight takes nothing away where nothing leaks; where the labels go together it does."""
    rng = np.random.default_rng(1)  # not the seed of `together`
    alone = together(2000)
    alone = tacit.Dataset(alone.X, alone.y, pd.DataFrame({"s": rng.random(2000) < 0.5}), modality="table")
    kept = []
    for data in (alone, together(2000)):
        cells, y = learned(data, (300.0,), 4)[0].codes(data.X), data.y["y0"]
        kept.append(pd.crosstab(cells, y).max(axis=1).sum() / len(y))
    assert kept[0] > 0.9
    assert kept[1] < 0.75


def test_without_a_weight_nothing_sensitive_is_learned(briefly):
    """The scores of p(s|x) stay 0; with a weight they do not."""
    data = together(600)
    rules = [f.mechanism_.code.cells_of.rule[2:-1] for f in learned(data, (0.0, 1.0), 4)]
    assert not rules[0].any()
    assert rules[1].any()
