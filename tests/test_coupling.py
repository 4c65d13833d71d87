"""The coupling: a table comes out as a table, independent of the sensitive column, few values changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tacit.records.finite import NONE, learn_values
from tacit.records.people import Crowd
from tacit.solvers.couple import common_target, couple, kept_share

SHARES = np.array([0.5, 0.3, 0.2])


class World:
    """Two columns of three and four values whose law, given the sensitive class, is known exactly."""

    def __init__(self, strength: float = 1.0) -> None:
        rng = np.random.default_rng(5)
        self.strength = strength
        self.first = rng.dirichlet(np.ones(3), 3)  # [s, x]
        self.second = rng.dirichlet(np.ones(4), (3, 3))  # [s, x, y]
        target = strength * SHARES @ self.first + (1 - strength) * self.first
        moves = np.stack([_plan(own, goal) for own, goal in zip(self.first, target, strict=True)])  # [s, x, z]
        joint = np.einsum("sx,sxz,sxy->szy", self.first, moves, self.second)
        self.after = joint / joint.sum(axis=2, keepdims=True)  # of y, given the class and what was released before

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s = rng.choice(3, size=n, p=SHARES)
        x = _drawn(self.first[s], rng)
        return s, x, _drawn(self.second[s, x], rng)

    def release(self, s, x, y, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        laws = np.broadcast_to(self.first, (len(s), 3, 3))
        z = self._couple(x, laws, s, uniform[:, 0])
        return z, self._couple(y, self.after[:, z].transpose(1, 0, 2), s, uniform[:, 1])

    def _couple(self, values, laws, s, uniform):
        own = laws[np.arange(len(s)), s]
        return couple(values, own, common_target(laws, SHARES, own, self.strength), uniform)


def _plan(own: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The maximal coupling of two laws, written out: where each value goes, and how often."""
    stays = np.minimum(1, target / own)
    excess = np.maximum(target - own, 0)
    there = excess / excess.sum() if excess.sum() else excess
    return np.diag(stays) + (1 - stays)[:, None] * there


def _drawn(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)


def _rejected(world: World, simulations: int, released: bool = True) -> int:
    """In how many simulated tables a chi-square test at 5 % finds that the rows depend on the sensitive class."""
    found = 0
    for seed in range(simulations):
        rng = np.random.default_rng(seed)
        s, x, y = world.draw(1_500, rng)
        z, w = world.release(s, x, y, rng.random((1_500, 2))) if released else (x, y)
        table = np.zeros((3, 12))
        np.add.at(table, (s, 4 * z + w), 1)
        found += stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue < 0.05
    return found


def test_with_exact_models_the_release_is_independent_of_the_class():
    """False alarm: 200 tests at 5 % reject more than 21 times by chance in 1 of 2,000 runs."""
    assert stats.binom.sf(21, 200, 0.05) < 1 / 1_500
    assert _rejected(World(), 200) <= 21


def test_raw_rows_and_half_strength_are_found_out():
    """The control: the same test sees what the coupling takes away."""
    assert _rejected(World(), 20, released=False) == 20
    assert _rejected(World(0.5), 20) == 20


@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_values_are_kept_as_often_as_can_be(strength):
    """The share kept is one minus the total variation, and what comes out follows the target: to three digits.

    Draws are spread evenly, so nothing here is left to chance.
    """
    world, n = World(), 100_000
    own = world.first
    target = common_target(own[None].repeat(3, 0), SHARES, own, strength)
    for s in range(3):
        kept, after = 0.0, np.zeros(3)
        for x in range(3):
            z = couple(np.full(n, x), own[[s] * n], target[[s] * n], (np.arange(n) + 0.5) / n)
            kept += own[s, x] * (z == x).mean()
            after += own[s, x] * np.bincount(z, minlength=3) / n
        assert kept == pytest.approx(1 - np.abs(own[s] - target[s]).sum() / 2, abs=5e-4)
        assert kept == pytest.approx(kept_share(own, target)[s], abs=5e-4)
        assert after == pytest.approx(target[s], abs=5e-4)
    assert kept_share(own, target).min() < 0.99  # something is changed at all


def test_what_is_none_of_the_values_is_drawn_from_the_target():
    target = np.array([[0.2, 0.5, 0.3]]).repeat(10_000, 0)
    z = couple(np.full(10_000, NONE), np.eye(3)[[0] * 10_000], target, (np.arange(10_000) + 0.5) / 10_000)
    assert np.bincount(z, minlength=3) / 10_000 == pytest.approx(target[0], abs=1e-3)


# -- the values of a column -------------------------------------------------------------------------


def _learned(column: pd.Series, resolution: int = 8, min_people: int = 10):
    return learn_values(str(column.name), column, resolution, Crowd(len(column), None, min_people))


def test_points_of_mass_stay_and_other_numbers_are_gathered():
    rng = np.random.default_rng(0)
    gains = pd.Series(np.where(rng.random(2_000) < 0.8, 0.0, rng.lognormal(8, 1, 2_000).round(2)), name="gain")
    known = _learned(gains)
    back = known.cells(known.codes(gains))
    assert len(known) <= 8
    assert (back[gains == 0] == 0).all()
    assert (back[gains != 0] != 0).all()
    assert stats.spearmanr(back, gains).statistic > 0.95
    assert back.value_counts().min() >= 10
    assert all(round(v, 2) == v for v in known.values)


def test_few_numbers_stay_as_they_are_and_rare_ones_join_a_neighbour():
    ages = pd.Series([20, 30, 40, 50] * 30 + [99], dtype="int32", name="age")
    known = _learned(ages)
    back = known.cells(known.codes(ages))
    assert back.dtype == "int32"
    assert back.tolist() == ages.replace(99, 50).tolist()
    assert known.cells(known.codes(pd.Series([-5, 34, 36, 1_000]))).tolist() == [20, 30, 40, 50]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", "b", None] * 20),
        pd.Series([True, False] * 30),
        pd.Series([True, False, None] * 20, dtype="boolean"),
        pd.Series([1, 2, None] * 20, dtype="Int64"),
        pd.Series([1.25, 2.5, np.nan] * 20, dtype="float32"),
        pd.Series(["x", "y", None] * 20, dtype="category"),
        pd.Series(["x", "y", None] * 20, dtype="string"),
        pd.Series([pd.Timestamp("2020-02-29"), pd.Timestamp("2021-03-01"), pd.NaT] * 20),
        pd.Series([pd.Timestamp("2020-02-29 12:30", tz="Europe/Rome")] * 30),
        pd.Series([pd.Timedelta(hours=5), pd.NaT] * 20),
        pd.Series([np.nan] * 30),
        pd.Series([None] * 30, dtype=object),
    ],
    ids=lambda c: f"{c.dtype} {c.iloc[0]}",
)
def test_every_kind_of_column_comes_back_as_it_was(column):
    column = column.rename("c")
    known = _learned(column)
    pd.testing.assert_series_equal(known.cells(known.codes(column)), column, check_names=False)


def test_dates_are_gathered_to_whole_days():
    days = pd.Series(pd.date_range("2001-01-01", periods=1_000, freq="D"), name="born")
    known = _learned(days)
    back = known.cells(known.codes(days))
    assert back.nunique() == 8
    assert (back == back.dt.normalize()).all()
    assert (back - days).abs().max() < pd.Timedelta(days=126)


def test_rare_words_are_gathered_and_names_are_left_out():
    rng = np.random.default_rng(0)
    jobs = pd.Series([*rng.choice(["cook", "nurse"], 400), *(f"job {i % 30}" for i in range(60))], name="job")
    known = _learned(jobs)
    back = known.cells(known.codes(jobs))
    assert set(back) == {"cook", "nurse", "other"}
    assert known.codes(pd.Series(["astronaut"])).tolist() == [known.words.get("other", known.other)]
    names = pd.Series([f"name {i}" for i in range(10_000)], name="name")
    assert "10,000 different words" in _learned(names)
    # nobody is gathered here, so a word that was never seen is none of the values
    assert _learned(pd.Series(["a", "b"] * 50, name="c")).codes(pd.Series(["z", None])).tolist() == [NONE, NONE]


def test_no_value_stands_for_fewer_people_than_asked():
    """Rows of one person count once."""
    x = pd.Series([1.0] * 20 + [2.0] * 50 + [3.0] * 50, name="x")
    units = np.array([0] * 20 + list(range(1, 101)))
    assert sorted(learn_values("x", x, 8, Crowd(120, units, 10)).values) == [2.0, 3.0]
    assert sorted(learn_values("x", x, 8, Crowd(120, None, 10)).values) == [1.0, 2.0, 3.0]
