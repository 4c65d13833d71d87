"""What each filter promises, with a control that could have failed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tacit
from tacit.errors import InputError
from tacit.filters.posterior import Posteriors
from tacit.labels import encode_labels
from tacit.nets.mlp import _cuts
from tacit.records.dataset import Dataset


def fit(f, data, **kwargs):
    return f.fit(data.X, data.y, sensitive_features=data.sensitive, **kwargs)


@pytest.fixture(scope="module")
def tilted():
    """Two correlated directions: one tells y, the other s; each helps to guess the other."""
    rng = np.random.default_rng(0)
    n = 3000
    u = rng.standard_normal(n)
    v = 0.5 * u + np.sqrt(0.75) * rng.standard_normal(n)
    X = np.column_stack([u, v, rng.standard_normal((n, 3))])
    y, s = (rng.random((2, n)) < 1 / (1 + np.exp(-3 * np.array([u, v])))).astype(int)
    return Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s})).split((0.5, 0.2, 0.3))


@pytest.mark.parametrize(
    "private",
    [
        tacit.CodebookFilter(8, leakage_weight=5, random_state=0),
        tacit.CodebookFilter(8, leakage_weight=8, features="raw", random_state=0),
        tacit.CodebookFilter(solver="closed", leakage_weight=0.3, random_state=0),
        pytest.param(tacit.EIGAN(4, alpha=0.25, noise=0.3, random_state=0), marks=pytest.mark.slow),  # whole training
    ],
    ids=["learned", "raw", "closed", "EIGAN"],
)
def test_a_filter_withholds_what_the_raw_data_gives(private, tilted):
    train, attack, test = tilted
    report = tacit.audit(fit(private, train), attack, test, attackers=["logistic", "trees"], measurements="no-baseline")
    raw = tacit.audit(None, attack, test, attackers="logistic", measurements="no-baseline")
    assert raw.leakage["s"].value > 0.75  # the control
    assert report.leakage["s"].value < 0.68
    assert report.utility["y"].value > 0.68


def test_the_learned_code_keeps_the_ranking_that_two_cells_lose(tilted):
    train, attack, test = tilted
    learned = fit(tacit.CodebookFilter(16, leakage_weight=1, random_state=0), train)
    label = tacit.baselines.LabelOnly(random_state=0).fit(train.X, train.y)
    codes, labels = (
        tacit.audit(f, attack, test, attackers="logistic", measurements="no-baseline").utility["y"]
        for f in (learned, label)
    )
    assert codes.auc.value > labels.auc.value + 0.02
    assert codes.value > labels.value - 0.02


class Memory:
    """A classifier that remembers its rows: sure of those it has seen, undecided about others."""

    def fit(self, X, y):
        self.rows = {x.tobytes() for x in np.ascontiguousarray(X)}
        return self

    def predict_proba(self, X):
        seen = np.array([x.tobytes() in self.rows for x in np.ascontiguousarray(X)])
        return np.column_stack([seen, ~seen]).astype(float)


def test_out_of_fold_models_did_not_see_the_row_nor_its_unit():
    X = np.arange(400.0).reshape(200, 2)
    units = np.arange(200) // 4
    labels = encode_labels(np.arange(200) % 2, "y", 200)
    posteriors = Posteriors(5, lambda n, m, seed: Memory()).fit(X, labels, units, seed=0)
    assert posteriors.out_of_fold[0][:, 0].max() < 0.01  # no row was recognised
    assert posteriors.predict(X)[0][:, 0] == pytest.approx(0.8, abs=0.01)  # the control: four of five know it
    for u in range(50):
        assert len(set(posteriors.folds[units == u])) == 1


def test_the_cell_of_a_training_row_does_not_depend_on_its_own_label():
    """Flipping the labels of one fold moves no row of that fold: its scores were learned without them."""
    data = tacit.load_dataset("gaussians", n=400, variance=0.4)
    code = fit(tacit.CodebookFilter(8, leakage_weight=1, random_state=0), data).mechanism_.code.cells_of
    code.start = "label-only"  # a candidate that learns, whichever was best
    before, fold = code.out_of_fold(), code.posteriors.folds == 2
    code.hide[0][fold] = code.hide[0][fold][:, ::-1]
    code.keep[0][fold] = code.keep[0][fold][:, ::-1]
    after = code.out_of_fold()
    assert np.array_equal(before[fold], after[fold])
    assert not np.array_equal(before[~fold], after[~fold])  # the control: the others did learn from them


def test_missing_secrets_do_not_turn_the_knob():
    data = tacit.load_dataset("gaussians", n=2000, variance=0.4)
    some = data.sensitive.astype(object).where(np.random.default_rng(9).random((2000, 1)) < 0.3)
    for s in (data.sensitive, some):
        code = (
            tacit.CodebookFilter(solver="closed", random_state=0)
            .fit(data.X, data.y, sensitive_features=s)
            .mechanism_.code.cells_of
        )
        assert code.priors[0] == pytest.approx([0.5, 0.5], abs=0.06)


def test_decoded_prototypes_have_the_original_format():
    table = pd.DataFrame(
        {"age": np.arange(200), "owner": np.arange(200) % 3 > 0, "job": np.where(np.arange(200) < 100, "cook", "nurse")}
    )
    y = np.where(np.arange(200) < 100, "young", "old")
    f = tacit.CodebookFilter(2, decode=True, random_state=0).fit(table, y)
    Z = f.transform(table)
    assert list(Z.columns) == ["age", "owner", "job"]
    assert Z.dtypes["age"] == np.int64
    assert Z["owner"].dtype.kind == "b"
    assert set(Z["job"]) == {"cook", "nurse"}
    assert len(Z.drop_duplicates()) == 2
    assert Z["age"].between(0, 199).all()
    windows = np.random.default_rng(0).standard_normal((60, 2, 8)) + (np.arange(60) % 2)[:, None, None]
    g = tacit.CodebookFilter(2, decode=True, features="raw", epochs=5, random_state=0).fit(windows, np.arange(60) % 2)
    assert g.transform(windows).shape == windows.shape


def test_a_network_of_the_users_own():
    from torch import nn

    def conv(n_in, n_out):
        channels, length = n_in
        return nn.Sequential(nn.Conv1d(channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * (length - 2), n_out))

    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 200))
    windows = rng.standard_normal((200, 2, 16)) + y[:, None, None]
    f = tacit.EIGAN(2, epochs=5, encoder=conv, random_state=0).fit(windows, y, sensitive_features=s)
    Z = f.transform(windows)
    assert LogisticRegression().fit(Z, y).score(Z, y) > 0.8
    with pytest.raises(tacit.TacitError, match="a record has shape"):
        f.transform(windows[:, :, :10])


# -- numbers in pieces -----------------------------------------------------------------------------


def test_no_cut_tells_a_records_value():
    """The encoder's cuts are in the bundle: neither the least and largest values nor others are there to be read."""
    rng = np.random.default_rng(1)
    gain = np.where(rng.random(3000) < 0.9, 0.0, rng.lognormal(0, 1, 3000))
    X = np.column_stack([rng.standard_normal(3000), rng.lognormal(0, 2, 3000), gain])
    X[5], X[6] = (-40.0, 900.0, 300.0), (55.0, 1e-9, -3.0)
    X = (X - X.mean(0)) / X.std(0)
    for j in range(3):
        cuts = np.array(_cuts(X[:, j], 11))
        own = np.sort(X[X[:, 2] != np.median(X[:, 2]), 2] if j == 2 else X[:, j])
        assert len(cuts) >= 3
        assert cuts[0] >= own[15] - 1e-3 or abs(cuts[0] - np.median(X[:, j])) < 1e-3  # what nine of ten records have
        assert cuts[-1] <= own[-16] + 1e-3
        assert not np.isin(cuts, X[:, j]).any()


def test_pieces_show_an_encoder_thresholds():
    """A narrow band of a skewed number decides: a few epochs are enough with pieces, not without."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.lognormal(0, 1.5, 4000), rng.standard_normal(4000)])
    y = ((X[:, 0] > 0.6) & (X[:, 0] < 1.1)).astype(int)
    s = (X[:, 1] > 0).astype(int)
    right = {}
    for pieces in (None, 12):
        f = tacit.EIGAN(1, alpha=0.9, epochs=5, n_bins=pieces, random_state=0).fit(X, y, sensitive_features=s)
        code = f.transform(X)
        right[pieces] = DecisionTreeClassifier(max_depth=4).fit(code[::2], y[::2]).score(code[1::2], y[1::2])
    assert right[12] > 0.93
    assert right[12] > right[None] + 0.03, right
    with pytest.raises(InputError, match="n_bins=12 is for tables"):
        tacit.EIGAN(2, n_bins=12).fit(rng.standard_normal((50, 2, 8)), y[:50], sensitive_features=s[:50])
