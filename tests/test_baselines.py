"""The filters that the papers compare against: what each promises, with a control that could have failed."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import tacit
from tacit import baselines
from tacit.auditing.certificate import local_dp_bound
from tacit.baselines.discriminability_mask import _Fisher
from tacit.errors import CollapseWarning, DependenceWarning, TacitWarning
from tacit.filters.base import Problem, release_by_folds
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
    baselines.KernelARL(n_features=30, random_state=0),
    baselines.PrivatePLS(random_state=0),
    baselines.DiscriminabilityMask(random_state=0),
    baselines.VariationalObfuscator(epochs=1, adversary_steps=2, random_state=0),
    baselines.Autoencoder(2, epochs=2, random_state=0),
    baselines.LaplaceMechanism(),
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
    X, y, s = blobs(100, classes=2)
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
    X, y, s = blobs(200, width=12, classes=2)
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
    with pytest.raises(tacit.TacitError, match="which this filter did not keep"):
        f.release_training_rows()
    with pytest.raises(tacit.TacitError, match="'sensitive_features' had 1 class so far"):
        baselines.LinearEraser().partial_fit(X, sensitive_features=np.zeros(100)).transform(X)
    with pytest.raises(tacit.TacitError, match="same columns with every chunk"):
        f.partial_fit(X, sensitive_features={"other": s})


@pytest.mark.parametrize("cuts", [(200,), (150, 151, 390)])
def test_chunks_of_a_stream_give_the_plane_of_all_rows(cuts):
    """LinearARL does not depend on the scaling, which the first chunk fixes; only a column's sign may."""
    X, y, s = blobs(400)
    X = X * [1.0, 50.0, *[0.1] * (X.shape[1] - 2)] + 3
    whole = baselines.LinearARL(1).fit(X, y, sensitive_features=s)
    stream, ends = baselines.LinearARL(1), [0, *cuts, 400]
    for a, b in itertools.pairwise(ends):
        stream.partial_fit(X[a:b], y[a:b], sensitive_features=s[a:b])
    np.testing.assert_allclose(abs(stream.transform(X)), abs(whole.transform(X)), atol=1e-8)
    np.testing.assert_allclose(stream.eigenvalues_, whole.eigenvalues_, atol=1e-10)
    first = baselines.LinearARL(1).fit(X[: cuts[0]], y[: cuts[0]], sensitive_features=s[: cuts[0]])
    assert abs(abs(first.transform(X)) - abs(whole.transform(X))).max() > 1e-3  # the control


def test_chunks_need_their_target_and_kernels_need_all_records():
    X, y, s = blobs(100)
    with pytest.raises(tacit.TacitError, match="needs a target"):
        baselines.LinearARL().partial_fit(X, sensitive_features=s)
    f = baselines.LinearARL().partial_fit(X, y, sensitive_features=s)
    with pytest.raises(tacit.TacitError, match="target columns"):
        f.partial_fit(X, {"other": y}, sensitive_features=s)
    assert not hasattr(baselines.KernelARL(), "partial_fit")


def test_a_rare_category_does_not_carry_the_erased_direction():
    """Where a rare category is absent its erased column would be a clean copy of the secret direction."""
    rng = np.random.default_rng(0)
    n = 4000
    s = rng.integers(2, size=n)
    X = np.column_stack([s + 0.3 * rng.standard_normal(n), rng.standard_normal(n), np.arange(n) < 4])
    rows = np.arange(n) >= 4  # the first record has the rare category: counting must not depend on that
    found = {}
    for rare in (0.0, 0.005):
        Z = baselines.LinearEraser(min_frequency=rare).fit(X, sensitive_features=s).transform(X)[rows]
        Z = (Z - Z.mean(axis=0)) / np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1)
        found[rare] = LogisticRegression().fit(Z, s[rows]).score(Z, s[rows])
    assert found[0.0] > 0.9
    assert found[0.005] < 0.55


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


# -- KernelARL -----------------------------------------------------------------------------------


def test_kernel_arl_on_the_records_themselves_is_linear_arl():
    X, y, s = blobs(300)
    linear = baselines.LinearARL(2, lam=0.3)
    kernel = baselines.KernelARL(2, lam=0.3, features=FunctionTransformer(), ridge=0.0)
    Z = [fit(f, X, y, s).transform(X) for f in (linear, kernel)]
    assert np.allclose(Z[0], Z[1], atol=1e-9)


def test_kernel_arl_equals_the_n_by_n_problem():
    """The slow way: the same in the span of the kernel matrix's eigenvectors, one for every record."""
    X, y, s = blobs(120, classes=2)
    f = baselines.KernelARL(lam=0.4, n_features=20, ridge=0.0, random_state=0).fit(X, y, sensitive_features=s)
    Phi = f.code_.features(f.encoder_.transform(X))
    Phi = (Phi - Phi.mean(axis=0)) / Phi.std(axis=0)
    values, U = np.linalg.eigh(Phi @ Phi.T)  # (n, n)
    U = U[:, values > 1e-9 * values[-1]]
    Y, S = (np.eye(2)[c] - np.eye(2)[c].mean(axis=0) for c in (y, s))
    values, G = np.linalg.eigh(0.4 * U.T @ S @ S.T @ U - 0.6 * U.T @ Y @ Y.T @ U)
    assert f.useful_rank_ == (values < -1e-9).sum() == 1
    assert np.allclose(np.abs(f.transform(X)[:, 0]), np.abs(U @ G[:, 0]) * np.sqrt(120), atol=1e-6)


def test_fourier_features_approach_the_gaussian_kernel():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = np.arange(30) % 2
    f = baselines.KernelARL(sigma=1.7, n_features=20_000, random_state=0)
    features = f._features(Problem(X, encode_labels(y, "y", 30), encode_labels(None, "s", 30), None, 0))(X)
    distance = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    # 20,000 features: standard error of about .007
    assert np.abs(features @ features.T - np.exp(-distance / (2 * 1.7**2))).max() < 0.04


def test_kernel_arl_sees_what_no_line_separates():
    train, test = tacit.load_dataset("circles", n=2000, random_state=1).split((0.5, 0.5))
    scores = []
    for f in (baselines.LinearARL(), baselines.KernelARL(random_state=0)):
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
        model = LogisticRegression().fit(f.transform(train.X), train.y["colour"])
        scores.append(model.score(f.transform(test.X), test.y["colour"]))
    assert scores[0] < 0.65 < 0.9 < scores[1]


# -- PrivatePLS ----------------------------------------------------------------------------------


def test_private_pls_without_a_secret_is_partial_least_squares():
    X, y, _ = blobs(400)
    f = fit(baselines.PrivatePLS(3), X, y, None)
    Z, encoded = f.transform(X), f.encoder_.transform(X)
    pls = PLSRegression(3, scale=False).fit(encoded, y.astype(float))
    fitted = PLSRegression(3).fit(Z, y.astype(float)).predict(Z)
    # the same space, hence the same fit
    assert np.allclose(fitted, pls.predict(encoded), atol=1e-6)


@pytest.mark.filterwarnings("ignore:target .* a function of")
def test_private_pls_refuses_more_columns_than_directions():
    X, y, s = blobs(100)
    with pytest.raises(tacit.TacitError, match="n_components is 8, but the records have only 6"):
        baselines.PrivatePLS(8).fit(np.column_stack([X, X]), y, sensitive_features=s)
    with pytest.warns(CollapseWarning, match="lower lam"):
        baselines.PrivatePLS(lam=2.0).fit(X, y, sensitive_features=y)


# -- DiscriminabilityMask ------------------------------------------------------------------------


def test_the_mask_dims_what_tells_the_secret():
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 1000))
    X = rng.standard_normal((1000, 5))
    X[:, 0] += 2 * y
    X[:, 1] += 2 * s
    X[:, 2] += 1.5 * y + 1.5 * s
    mask = baselines.DiscriminabilityMask().fit(X, y, sensitive_features=s).mask_
    assert mask[0] == pytest.approx(1)
    assert mask[1] == 0
    free = baselines.DiscriminabilityMask(0.0).fit(X, y, sensitive_features=s).mask_
    assert free[1] > 0.3  # control: nothing to hide, nothing masked


def test_the_gradient_of_the_fisher_criterion_is_right():
    X, y, _ = blobs(200)
    criterion = _Fisher(X, y, 0.5)
    mask = np.random.default_rng(0).uniform(0.1, 1, 6)
    slow = [(criterion(mask + step)[0] - criterion(mask - step)[0]) / 2e-6 for step in 1e-6 * np.eye(6)]
    assert np.allclose(criterion(mask)[1], slow, rtol=1e-5, atol=1e-8)


def test_a_masked_input_leaves_no_sign_behind():
    """-2 * 0 is -0.0: equal to 0.0, but its sign would tell the input's."""
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 500))
    X = np.column_stack([3 * y + rng.standard_normal(500), 6 * s - 3 + rng.standard_normal(500)])
    f = baselines.DiscriminabilityMask().fit(X, y, sensitive_features=s)
    assert f.mask_[1] == 0
    assert np.signbit(X[:, 1] * 0).any()  # control
    for Z in (f.transform(X), f.release_training_rows()):
        assert not np.signbit(Z[:, 1]).any()


@pytest.mark.filterwarnings("ignore:target .* a function of")
def test_the_mask_takes_binary_labels_alone():
    X, y, s = blobs(100)
    with pytest.raises(tacit.TacitError, match="'sensitive_features' has 3 classes; merge them into two"):
        baselines.DiscriminabilityMask().fit(X, y, sensitive_features=s)
    with pytest.raises(tacit.TacitError, match="one column of y; found 2"):
        baselines.DiscriminabilityMask().fit(X, {"a": y, "b": 1 - y}, sensitive_features=y)


# -- LaplaceMechanism ----------------------------------------------------------------------------


def test_laplace_noise_has_the_calibrated_size_and_records_are_clipped():
    X = np.random.default_rng(0).standard_normal((4000, 4)) * [1, 10, 100, 1000]
    f = baselines.LaplaceMechanism(epsilon=2.0, clip=0.5).fit(X)
    assert f.scale_ == pytest.approx(2 * (0.5 * 4) / 2.0)  # 2 R / epsilon
    encoded = f.mechanism_.schema.encode(X)
    inside = encoded * np.minimum(1, 2.0 / np.abs(encoded).sum(axis=1, keepdims=True))
    assert (np.abs(encoded).sum(axis=1) > 2).mean() > 0.5  # control: without clipping most lie outside
    noise = f.transform(X) - inside
    # mean absolute value of a Laplace is its scale; 16,000 draws, four standard errors
    assert np.abs(noise).mean() == pytest.approx(f.scale_, rel=4 / np.sqrt(16_000))
    assert abs(np.median(noise)) < 4 * f.scale_ / np.sqrt(16_000)


def test_laplace_keeps_its_promise_on_the_two_records_furthest_apart():
    """The likelihood ratio of opposite corners, counted in bins, stays under e^epsilon and comes near it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((100, 1)), [[-1e6]], [[1e6]]])
    f = baselines.LaplaceMechanism(epsilon=1.0).fit(X)
    draws = np.concatenate([f.redraw().transform(X[-2:]).T for _ in range(4000)])
    counts = [np.histogram(draws[:, i], bins=[-np.inf, -1, 0, 1, np.inf])[0] for i in (0, 1)]
    ratio = counts[0] / counts[1]
    assert ratio.max() < np.e * 1.15
    assert ratio[0] > np.e * 0.85


def test_the_audit_certifies_the_laplace_mechanism_by_local_privacy():
    train, attack, test = tacit.load_dataset("quadrants", n=1500).split()
    f = baselines.LaplaceMechanism(epsilon=0.5).fit(train.X)
    report = tacit.audit(f, attack, test, attackers="logistic", measurements="no-baseline")
    bound = local_dp_bound(0.5, 2)
    assert report.status("shape") == "certified"
    assert report.certificate["shape"].bound == pytest.approx(bound)
    assert bound == pytest.approx(np.exp(0.5) / (1 + np.exp(0.5)))
    assert report.leakage["shape"].low < bound
    assert "epsilon 0.5" in " ".join(str(report).split())  # wherever the line is wrapped
    assert report.to_dict()["certificate"]["shape"]["epsilon"] == 0.5
    loose = baselines.LaplaceMechanism(epsilon=50.0).fit(train.X)
    report = tacit.audit(loose, attack, test, attackers="logistic", measurements="no-baseline")
    assert report.certificate["shape"] is None
    assert any("epsilon 50 excludes nothing" in note for note in report.notes)
    # control: what travels beside the release carries no noise, and the arrays alone declare nothing
    arrays = f.transform(attack.X), f.transform(test.X)
    assert (
        tacit.audit(arrays, attack, test, attackers="logistic", measurements="no-baseline").certificate["shape"] is None
    )


# -- VariationalObfuscator, Autoencoder ----------------------------------------------------------


def test_the_obfuscator_keeps_to_its_budget_and_a_large_budget_does_not_bind():
    """The target names colour *and* shape, so that without a budget the shape must be given away."""
    train, test = tacit.load_dataset("quadrants", n=1000, random_state=3).split((0.6, 0.4))
    found = {}
    for budget in (0.01, 5.0):
        f = baselines.VariationalObfuscator(budget, epochs=15, random_state=0)
        f = fit(f, train.X, train.y["colour"] + train.sensitive["shape"], train.sensitive)
        A, T = f.transform(train.X), f.transform(test.X)
        scores = [
            LogisticRegression().fit(A, a).score(T, b)
            for a, b in ((train.y["colour"], test.y["colour"]), (train.sensitive["shape"], test.sensitive["shape"]))
        ]
        found[budget] = (*scores, f.history_[-1]["information shape"])
    assert found[0.01][0] > 0.9
    assert found[0.01][1] < 0.7 < 0.9 < found[5.0][1]
    assert found[0.01][2] < 0.05 < 0.3 < found[5.0][2]


def test_a_missed_budget_is_told():
    """The penalty is a price: where none is asked, the game learns far more of the shape than it may."""
    data = tacit.load_dataset("quadrants", n=400, random_state=3)
    both = data.y["colour"] + data.sensitive["shape"]
    told = {}
    for budget in (0.01, 5.0):
        f = baselines.VariationalObfuscator(budget, penalty=0, epochs=8, random_state=0)
        with pytest.warns(TacitWarning) as caught:  # of the dependence in both cases
            f.fit(data.X, both, sensitive_features=data.sensitive)
        told[budget] = [str(w.message) for w in caught if "the budget is missed" in str(w.message)]
        assert all(text in f.notes_ for text in told[budget])
    assert len(told[0.01]) == 1
    assert "nats of 'shape', budget 0.01; raise penalty (now 0)" in told[0.01][0]
    assert not told[5.0]


def test_the_autoencoder_rebuilds_and_hides_nothing():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((600, 2))
    X = hidden @ rng.standard_normal((2, 6))
    errors = [
        baselines.Autoencoder(n, epochs=30, learning_rate=3e-3, random_state=0).fit(X).history_[-1]["error"]
        for n in (1, 2)
    ]
    assert errors[1] < 0.1 < 0.2 < errors[0]


def test_a_linear_code_has_no_chance_in_its_sign(monkeypatch):
    """LAPACK may give any eigenvector either sign: the whitening's and the game's own. The code must not care."""
    data = tacit.load_dataset("gaussians", n=600)
    eigh = np.linalg.eigh
    codes = []
    for seed in range(20):
        rng = np.random.default_rng(seed)

        def flipped(A, *more, rng=rng):
            values, vectors = eigh(A, *more)
            return values, vectors * rng.choice([-1.0, 1.0], size=vectors.shape[1])

        monkeypatch.setattr(np.linalg, "eigh", flipped)
        f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
        codes.append(f.transform(data.X))
    assert all(np.allclose(c, codes[0], atol=1e-8) for c in codes)
