"""Whose noise it is: a person's record keeps its draw, and no two people share one."""

import io

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.release.bulk import apply

# whichever test comes first makes the filter that all share, trained for one epoch
pytestmark = pytest.mark.filterwarnings("ignore:.*collapsed")
KEY = b"k" * 32


@pytest.fixture(scope="module")
def people():
    """A table in which most records repeat."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(20, 26, 400), "job": rng.choice(["cook", "nurse"], 400), "pay": 1.5})
    X["pay"] += rng.integers(3, size=400) / 3
    return X, rng.integers(2, size=400), rng.integers(2, size=400)


@pytest.fixture(scope="module")
def fitted(people):
    X, y, s = people
    return tacit.EIGAN(2, epochs=1, noise=0.5, random_state=0).fit(X, y, sensitive_features=s)


@pytest.fixture(scope="module")
def bundle(fitted, tmp_path_factory):
    return tacit.save(fitted, tmp_path_factory.mktemp("noise") / "f.tacit")


def drawn(f, X, units=None):
    return f.transform(X, units) - f.noiseless(X)


def test_equal_records_of_different_people_get_independent_draws(fitted, people):
    X = people[0].iloc[np.zeros(2000, dtype=int)].reset_index(drop=True)  # one record, 2,000 people
    for units in (None, np.arange(2000)):
        noise = drawn(fitted, X, units)
        assert len(np.unique(noise, axis=0)) >= 1998  # on the grid, two of 2,000 draws coincide once in 50 runs
        assert noise.std(axis=0) == pytest.approx(0.5, rel=0.08)  # 5 standard errors
        assert abs(np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]) < 0.11


def test_the_same_person_asked_again_gets_the_same_draw(fitted, people):
    X, names = people[0], np.array([f"p{i}" for i in range(400)])
    once = fitted.transform(X, names)
    order = np.random.default_rng(1).permutation(400)
    assert np.array_equal(fitted.transform(X.iloc[order], names[order]), once[order])
    assert np.array_equal(fitted.transform(X.iloc[:7], names[:7]), once[:7])
    assert not (fitted.transform(X, names[::-1]) == once).all(axis=1).any()


def test_a_record_keeps_its_draw_through_rounding_and_other_types(fitted, people):
    X, names = people[0], np.arange(400)
    once = drawn(fitted, X, names)
    text = pd.read_csv(io.StringIO(X.to_csv(index=False, float_format="%.6f")))
    for same in (X.astype({"pay": np.float32}), X.assign(pay=X["pay"] + 1e-9), X.astype({"age": float}), text):
        assert np.abs(drawn(fitted, same, names) - once).max() < 1e-3  # the grid of the sum is .00012
    # control: a change beyond the resolution draws again
    assert np.abs(drawn(fitted, X.assign(age=X["age"] + 1), names) - once).max() > 0.5


def test_averaging_records_that_hardly_differ_gains_nothing(fitted, people):
    X = people[0].iloc[:50]
    moved = [drawn(fitted, X.assign(pay=X["pay"] + 1e-9 * i), np.arange(50)) for i in range(100)]
    assert np.mean(moved, axis=0).std() == pytest.approx(np.std(moved[0]), rel=1e-3)  # before: a tenth was left


def test_a_unit_must_be_there(bundle, people, tmp_path):
    people[0].to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(tacit.TacitError, match="no column 'who'"):
        apply(bundle, tmp_path / "in.csv", tmp_path / "out.csv", noise_key=KEY, unit="who")
    with pytest.raises(tacit.TacitError, match="'age' is an input"):
        apply(bundle, tmp_path / "in.csv", tmp_path / "out.csv", noise_key=KEY, unit="age")
    people[0].assign(who=None).to_csv(tmp_path / "gap.csv", index=False)
    with pytest.raises(tacit.TacitError, match="every record needs its unit"):
        apply(bundle, tmp_path / "gap.csv", tmp_path / "out.csv", noise_key=KEY, unit="who")
    with pytest.raises(tacit.TacitError, match="units has 3"):
        tacit.load(bundle, noise_key=KEY).transform(people[0], [1, 2, 3])


def test_training_rows_and_other_rows_draw_by_the_same_names(people):
    X, y, s = people
    f = tacit.baselines.LaplaceMechanism(2.0, random_state=0).fit(X, y, sensitive_features=s, units=np.arange(400))
    assert np.array_equal(f.release_training_rows(), f.transform(X, np.arange(400)))


def test_the_seed_of_a_fit_does_not_draw_the_noise(people):
    X, units = people[0], np.arange(400)
    one, two = (tacit.baselines.LaplaceMechanism(2.0, random_state=0).fit(X) for _ in range(2))
    assert np.array_equal(one.noiseless(X), two.noiseless(X))
    assert not np.array_equal(one.transform(X, units), two.transform(X, units))
