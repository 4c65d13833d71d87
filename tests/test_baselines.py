"""The filters that the papers compare against: what each promises, with a control that could have failed."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import tacit
from tacit import baselines
from tacit.baselines.out_of_fold import release_by_folds
from tacit.errors import CollapseWarning, DependenceWarning, TacitWarning
from tacit.filters.base import Problem
from tacit.labels import encode_labels


def blobs(n=600, width=6, classes=3, seed=0):
    """Records whose mean depends on the target (columns 0, 1) and on the secret (columns 1, 2, 3), mixed."""
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=n), rng.integers(classes, size=n)
    X = rng.standard_normal((n, width))
    X[:, 0] += 2 * y
    X[:, 1] += y + s
    X[:, 2] -= 2 * (s == 1)
    X[:, 3] += s
    return X @ rng.standard_normal((width, width)) + 3, y, s


# -- what holds for all --------------------------------------------------------------------------

SMALL = [
    baselines.LinearEraser(random_state=0),
    baselines.LinearARL(random_state=0),
]
every_baseline = pytest.mark.parametrize("f", SMALL, ids=lambda f: type(f).__name__)


def fit(f, X, y, s):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)
        return clone(f).fit(X, y, sensitive_features=s)


DEGENERATE = {
    "a constant column": lambda X, y, s: (np.column_stack([X, np.full(len(X), 7.0)]), y, s),
    "a column twice": lambda X, y, s: (np.column_stack([X, X[:, :2]]), y, s),
    "columns of all sizes": lambda X, y, s: (X * np.logspace(-9, 9, X.shape[1]) + 1e3, y, s),
    "fewer rows than columns": lambda X, y, s: (np.tile(X[:12], 3), y[:12], s[:12]),
    "only constant columns": lambda X, y, s: (np.ones_like(X), y, s),
    "the secret is the target": lambda X, y, s: (X, y, y),
    "the secret is an input": lambda X, y, s: (np.column_stack([X, s]), y, s),
}


@pytest.mark.parametrize("what", DEGENERATE)
@every_baseline
def test_degenerate_records_give_numbers(f, what):
    X, y, s = blobs(200, classes=2)
    X, y, s = DEGENERATE[what](X, y, s)
    g = fit(f, X, y, s)
    for Z in (g.transform(X), g.release_training_rows()):
        assert len(Z) == len(X)
        assert np.isfinite(Z).all()


@pytest.mark.parametrize("units", [None, np.repeat(np.arange(10), 6)])
def test_a_row_is_released_by_a_fit_that_saw_neither_it_nor_its_unit(units):
    _, y, s = blobs(60)
    labels = [encode_labels(c, "label", 60) for c in (y, s)]
    rows = np.arange(60.0)[:, None] if units is None else units[:, None].astype(float)

    def learn(part):
        return lambda X: np.isin(X, part.X).astype(float)

    assert release_by_folds(Problem(rows, *labels, units, 0), learn).sum() == 0
    # control: without units, rows of one unit fall into different folds
    repeated = Problem(np.repeat(np.arange(10.0), 6)[:, None], *labels, None, 0)
    assert release_by_folds(repeated, learn).sum() > 0


@every_baseline
def test_windows_and_images_are_taken(f):
    X, y, s = blobs(200, width=12)
    for shape in ((3, 4), (1, 3, 4)):
        g = fit(f, X.reshape(-1, *shape), y, s)
        assert len(g.transform(X.reshape(-1, *shape))) == len(X)


# -- LinearEraser --------------------------------------------------------------------------------


def largest_coefficient(Z, s):
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    # one-dimensional and joint: neither may find anything
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000).fit(Z, s)
    return np.abs(model.coef_).max()


@pytest.mark.parametrize("classes", [2, 4])
def test_after_erasure_logistic_regression_finds_nothing(classes):
    X, _, s = blobs(classes=classes)
    assert largest_coefficient(X, s) > 0.05
    Z = baselines.LinearEraser().fit(X, sensitive_features=s).transform(X)
    assert largest_coefficient(Z, s) < 1e-6


def test_erasure_of_several_secrets_keeps_shape_units_and_the_rest():
    X, y, s = blobs()
    f = baselines.LinearEraser().fit(X, sensitive_features=pd.DataFrame({"s": s, "y": y}))
    Z = f.transform(X)
    assert f.eraser_.rank == 3
    for secret in (s, y):
        assert largest_coefficient(Z, secret) < 1e-6
    assert Z.shape == X.shape
    assert np.allclose(Z.mean(axis=0), X.mean(axis=0))
    assert np.linalg.matrix_rank(Z - Z.mean(axis=0), tol=1e-6) == X.shape[1] - 3


def test_erasure_is_the_smallest_change_among_linear_ones():
    """Against the slow, obvious solution: least squares on the one-hot secret, then the optimum of Theorem 4.3."""
    X, _, s = blobs(classes=2)
    Z = baselines.LinearEraser().fit(X, sensitive_features=s).transform(X)
    centred, z = X - X.mean(axis=0), (s - s.mean())[:, None]
    cross, cov = centred.T @ z / len(X), centred.T @ centred / len(X)
    # for one binary secret: x - c c' C^-1 (x - mean) / (c' C^-1 c)
    back = np.linalg.solve(cov, cross)
    slow = X - centred @ back @ cross.T / (cross.T @ back)
    assert np.allclose(Z, slow, atol=1e-9)
    # control: the orthogonal projection erases as well but moves the records further
    unit = cross / np.linalg.norm(cross)
    orthogonal = X - centred @ unit @ unit.T
    assert largest_coefficient(orthogonal, s) < 1e-6
    assert ((Z - X) ** 2).sum() < 0.99 * ((orthogonal - X) ** 2).sum()


def test_missing_secrets_take_no_part_in_erasure():
    X, _, s = blobs(classes=2)
    gaps = s.astype(float)
    gaps[:100] = np.nan
    Z = baselines.LinearEraser().fit(X, sensitive_features=gaps).transform(X)
    assert largest_coefficient(Z[100:], s[100:]) < 1e-6


@given(st.lists(st.integers(2, 399), max_size=6, unique=True), st.sampled_from([0.0, 1e6]))
@settings(max_examples=30, deadline=None)
def test_streaming_equals_batch(cuts, offset):
    X, y, s = blobs(400)
    X = X + offset
    secrets = pd.DataFrame({"s": s, "y": np.where(y == 1, "yes", "no")})
    secrets.iloc[5:30, 1] = None
    whole = baselines.LinearEraser(random_state=0).fit(X, sensitive_features=secrets)
    stream = baselines.LinearEraser(random_state=0)
    for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 400], strict=True):
        if b - a >= 1:
            stream.partial_fit(X[a:b], sensitive_features=secrets.iloc[a:b])
    # an offset of a million leaves ten digits
    assert np.allclose(stream.transform(X) - offset, whole.transform(X) - offset, atol=1e-7 if offset else 1e-10)
    assert stream.seen(X).all()


def test_streaming_refuses_what_it_cannot_do():
    X, _, s = blobs(100)
    f = baselines.LinearEraser().partial_fit(X, sensitive_features=s)
    with pytest.raises(tacit.TacitError, match="partial_fit keeps none"):
        f.release_training_rows()
    with pytest.raises(tacit.TacitError, match="'sensitive_features' had 1 class so far"):
        baselines.LinearEraser().partial_fit(X, sensitive_features=np.zeros(100)).transform(X)
    with pytest.raises(tacit.TacitError, match="same columns with every chunk"):
        f.partial_fit(X, sensitive_features={"other": s})


def test_a_rare_category_does_not_carry_the_erased_direction():
    """Where a rare category is absent its erased column would be a clean copy of the secret direction."""
    rng = np.random.default_rng(0)
    n = 4000
    s = rng.integers(2, size=n)
    X = np.column_stack([s + 0.3 * rng.standard_normal(n), rng.standard_normal(n), np.arange(n) < 4])
    rows = np.arange(n) >= 4  # the first record has the rare category: counting must not depend on that
    found = {}
    for rare in (0.0, 0.005):
        Z = baselines.LinearEraser(rare=rare).fit(X, sensitive_features=s).transform(X)[rows]
        Z = (Z - Z.mean(axis=0)) / np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1)
        found[rare] = LogisticRegression().fit(Z, s[rows]).score(Z, s[rows])
    assert found[0.0] > 0.9
    assert found[0.005] < 0.55


def test_erasing_everything_or_nothing_is_said():
    X, _, s = blobs(classes=2)
    with pytest.warns(TacitWarning, match="nothing to erase"):
        baselines.LinearEraser().fit(X)
    with pytest.warns(CollapseWarning, match="all 1 dimensions"):
        baselines.LinearEraser().fit(X[:, :1], sensitive_features=s)


def test_linear_attackers_find_nothing_on_adult_and_trees_nearly_everything(real):
    train, test = real("adult").split("official")
    attack, test = test.split((0.5, 0.5), seed=0)
    f = baselines.LinearEraser().fit(train.X, sensitive_features=train.sensitive)
    raw = tacit.audit(None, attack, test, attackers="logistic", floor=False).leakage["sex"].value
    found = tacit.audit(f, attack, test, attackers=["logistic", "trees"], floor=False).leakage["sex"]
    assert raw > 0.8
    assert found.attackers["logistic"].value < 0.54
    assert found.attackers["trees"].value > 0.84


# -- LinearARL -----------------------------------------------------------------------------------


def test_arl_equals_the_papers_recipe():
    """The slow way, on records: singular vectors of X and eigenvectors of lam L'SS'L - (1-lam) L'YY'L."""
    X, y, s = blobs(300)
    f = baselines.LinearARL(lam=0.3).fit(X, y, sensitive_features=s)
    centred = (X - X.mean(axis=0)) / X.std(axis=0)
    U, _, _ = np.linalg.svd(centred, full_matrices=False)
    Y, S = (np.eye(c.max() + 1)[c] - (np.eye(c.max() + 1)[c]).mean(axis=0) for c in (y, s))
    values, G = np.linalg.eigh(0.3 * U.T @ S @ S.T @ U - 0.7 * U.T @ Y @ Y.T @ U)
    useful = int((values < -1e-9).sum())
    assert f.useful_rank_ == useful == 1
    slow = U @ G[:, :useful] * np.sqrt(len(X))
    assert np.allclose(np.abs(f.transform(X)), np.abs(slow), atol=1e-8)
    assert np.allclose(f.eigenvalues_ * len(X), values, atol=1e-8)


def test_arl_keeps_the_target_and_its_knob_trades():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    s = np.where(rng.random(2000) < 0.3, 1 - y, y)
    X = np.column_stack([y + 0.7 * rng.standard_normal(2000), s + 0.7 * rng.standard_normal(2000)])
    keep, hide = [], []
    for lam in (0.0, 0.5):
        Z = baselines.LinearARL(lam=lam).fit(X, y, sensitive_features=s).transform(X)
        keep.append(LogisticRegression().fit(Z, y).score(Z, y))
        hide.append(LogisticRegression().fit(Z, s).score(Z, s))
    assert keep[0] > keep[1] > 0.6
    assert hide[0] > hide[1] + 0.03


def test_arl_says_why_more_components_are_unwise():
    X, y, s = blobs(classes=2)
    with pytest.warns(TacitWarning, match=r"negative eigenvalues\) is 1; the other 2 help no linear analyst"):
        Z = baselines.LinearARL(3).fit(X, y, sensitive_features=s).transform(X)
    assert Z.shape[1] == 3
    with pytest.raises(tacit.TacitError, match="n_components is 7, but the records have only 6 independent"):
        baselines.LinearARL(7).fit(X, y, sensitive_features=s)
    with pytest.raises(tacit.TacitError, match=r"only 6 independent directions \(of 7 columns\)"):
        baselines.LinearARL(7).fit(np.column_stack([X, X[:, 0]]), y, sensitive_features=s)


def test_arl_with_nothing_to_keep_is_said():
    X, y, s = blobs(classes=2)
    with pytest.warns(CollapseWarning, match="the release is constant; lower lam"):
        Z = baselines.LinearARL(lam=1.0).fit(X, y, sensitive_features=s).transform(X)
    assert np.ptp(Z, axis=0).max() == 0
    with pytest.warns(DependenceWarning), pytest.warns(CollapseWarning):
        baselines.LinearARL().fit(X, y, sensitive_features=y)


def test_linear_arl_on_adult_and_what_plain_accuracy_hides(real):
    train, test = real("adult").split("official")
    f = baselines.LinearARL().fit(train.X, train.y, sensitive_features=train.sensitive)
    # the papers' protocol: learn from the training rows' release, plain accuracy on the official test rows
    A, T = f.release_training_rows(), f.transform(test.X)
    income = LogisticRegression().fit(A, train.y["income"]).score(T, test.y["income"])
    sex = LogisticRegression().fit(A, train.sensitive["sex"]).score(T, test.sensitive["sex"])
    assert income == pytest.approx(0.84, abs=0.012)
    assert sex == pytest.approx(0.67, abs=0.01)  # the majority's share ...
    attack, test = test.split((0.5, 0.5), seed=0)
    one = tacit.audit(f, attack, test, attackers="trees", floor=False).leakage["sex"]
    assert one.low > 0.58  # ... but not guessing
    with pytest.warns(TacitWarning, match="not linear"):
        padded = baselines.LinearARL(5).fit(train.X, train.y, sensitive_features=train.sensitive)
    five = tacit.audit(padded, attack, test, attackers="trees", floor=False).leakage["sex"]
    assert five.low > one.high + 0.05
