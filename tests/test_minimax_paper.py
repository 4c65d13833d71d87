"""papers/minimax-filter: one filter a row, and data unchanged."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sklearn.decomposition import PCA

import tacit
from tacit.noise.local_privacy import local_dp

rows = importlib.import_module("papers.minimax-filter.rows")
later = importlib.import_module("papers.minimax-filter.later")
reproduce = importlib.import_module("papers.minimax-filter.reproduce")


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=n), rng.integers(2, size=n)
    X = rng.normal(size=(n, 12)) + 3
    X[:, 0] += 2 * y
    X[:, 1] += 2 * s
    return tacit.Dataset(X, {"smile": y}, {"gender": s})


@pytest.mark.parametrize("name", [rows.PRINTED, rows.OURS])
def test_the_papers_reader_and_the_fresh_attacker_read_a_filter_of_the_same_settings(name, monkeypatch):
    made = []
    data = people()
    monkeypatch.setitem(reproduce.protocol.SPLITS, "genki", lambda seed: data.split((0.7, 0.3), random_state=seed))

    def remember(f, train):
        made.append(f)
        return fitted(f, train)

    fitted = reproduce.protocol.fitted
    monkeypatch.setattr(reproduce.protocol, "fitted", remember)
    reproduce.in_print("genki", [name], 2, 5, {"printed": 3, "ours": 3})
    reproduce.adaptive("genki", name, 2, 5, {"printed": 3, "ours": 3}, ["logistic"])
    one, other = (f.get_params(deep=False) for f in made)
    assert one == other
    assert one["solver"] == "kiwiel"
    assert one["standardise"] == (name == rows.OURS)


def test_rows_are_of_unchanged_data(monkeypatch):
    data = people()
    monkeypatch.setitem(reproduce.protocol.SPLITS, "genki", lambda seed: data.split((0.7, 0.3), random_state=seed))
    train, _ = rows.split("genki", 0)
    assert train.X.mean() == pytest.approx(3.17, abs=0.05)
    assert isinstance(rows.maker("PCA", "genki", 2, {})(0, train), PCA)
    ppls = rows.maker("PPLS, as printed", "genki", 2, {})(0, train)
    assert (ppls.centre, ppls.standardise) == (False, False)


def test_the_noise_of_an_epsilon_has_this_epsilon():
    for epsilon in (2.0, 10.0, 200.0):
        assert local_dp(later.noise_for(epsilon))["epsilon"] == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.filterwarnings("ignore::tacit.errors.CollapseWarning")  # some of the settings tried mask everything
def test_the_mask_is_chosen_without_test_rows(monkeypatch):
    seen = []
    evaluate = rows.protocol.evaluate

    def watched(f, learn, held):
        seen.append((len(learn), len(held)))
        return evaluate(f, learn, held)

    monkeypatch.setattr(rows.protocol, "evaluate", watched)
    data = people()
    rows.chosen_mask(data, 0)
    assert set(seen) == {(180, 60)}
    assert len(seen) == len(rows.MASKS)
