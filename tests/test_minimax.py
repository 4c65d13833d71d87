"""Kiwiel's algorithm, alternation, the heads' derivatives, and the minimax filter's promises."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from torch import nn

import tacit
from tacit.labels import MISSING, Labels
from tacit.noise.local_privacy import local_dp
from tacit.solvers.heads import (
    CountingHeads,
    FourierFeatures,
    MlpHeads,
    Reconstruction,
    SoftmaxHeads,
    Weighted,
    against_rest,
    weighted_binary_loss,
)
from tacit.solvers.kiwiel import InnerGame, directional, kiwiel
from tacit.solvers.starts import principal_directions, rank

alternating = partial(kiwiel, auxiliary_steps=0)
SOLVERS = pytest.mark.parametrize("solve", [kiwiel, alternating])


def saddle(u, v):
    return (u * u).sum() - (v * v).sum() - 2 * (u * v).sum()


@SOLVERS
@pytest.mark.parametrize("step", [1.0, 0.3, 0.01, 50.0])
@pytest.mark.parametrize("n", [1, 7])
def test_the_saddle_is_reached_and_phi_never_rises(solve, step, n):
    generator = torch.Generator().manual_seed(n)
    u, v = (3 * torch.randn(n, dtype=torch.float64, generator=generator) for _ in range(2))
    result = solve(saddle, u, v, tolerance=1e-14, step=step, inner_tolerance=1e-15)
    assert result.u.norm() < 1e-6 < u.norm()
    assert result.history[0] == pytest.approx(2 * float(u @ u), rel=1e-9)  # Phi(u) = 2 |u|^2
    assert (np.diff(result.history) < 0).all()
    assert result.stopped.startswith("converged")


@SOLVERS
def test_an_ill_conditioned_saddle(solve):
    """Phi(u) = sum a_i u_i^2 with a up to 10: many steps, each of them lower."""
    a = torch.logspace(0, 1, 6, dtype=torch.float64)

    def f(u, v):
        return (a * u * u).sum() / 2 - (v * v).sum() / 2 + (a.sqrt() * u * v).sum()

    result = solve(f, torch.ones(6, dtype=torch.float64), torch.zeros(6, dtype=torch.float64), tolerance=1e-14,
                   max_iter=100, inner_tolerance=1e-15)  # fmt: skip
    assert result.u.norm() < 1e-5
    assert len(result.history) > 5
    assert (np.diff(result.history) < 0).all()


def test_several_adversaries_make_kiwiels_direction():
    """max(u1, -u1) + u2^2: at u1 = 0 the gradient of the one active piece does not lower Phi, the mixture does."""

    def f(u, v):
        share = torch.sigmoid(v[0])
        return share * u[0] - (1 - share) * u[0] - 1e-3 * v[0] ** 2 + u[1] ** 2

    start = torch.tensor([0.3, 1.0], dtype=torch.float64)
    result = kiwiel(f, start, torch.zeros(1, dtype=torch.float64), tolerance=1e-10, max_iter=300)
    assert result.u.norm() < 0.05
    assert (np.diff(result.history) < 0).all()


def test_a_step_that_does_not_lower_phi_is_not_taken():
    def flat(u, v):  # a gradient that promises a fall that never comes
        return (u - u.detach()).sum() - (v * v).sum()

    start = torch.ones(2, dtype=torch.float64)
    for solve in (kiwiel, alternating):
        result = solve(flat, start, start)
        assert torch.equal(result.u, start)
        assert len(result.history) == 1
        assert "rejected" in result.stopped


def test_an_ally_is_minimised_while_the_adversary_is_maximised():
    def ally(u, w):
        return ((u - 1) ** 2).sum() * 4 + ((w - u) ** 2).sum()

    zeros = torch.zeros(3, dtype=torch.float64)
    result = kiwiel(saddle, zeros + 5, zeros, ally=ally, w=zeros, tolerance=1e-13)
    # Phi(u) = 2|u|^2 + 4|u-1|^2 is least at u = 2/3
    assert torch.allclose(result.u, zeros + 2 / 3, atol=1e-5)
    assert result.phi == pytest.approx(3 * (2 * 4 / 9 + 4 / 9), rel=1e-8)
    with pytest.raises(tacit.TacitError, match="ally and its start w go together"):
        kiwiel(saddle, zeros, zeros, w=zeros)
    with pytest.raises(tacit.TacitError, match="u holds NaN"):
        kiwiel(saddle, zeros * float("nan"), zeros)


# -- derivatives, against finite differences ---------------------------------------------------------


def problem(seed, n, columns, missing):
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 5, size=columns)
    codes = np.column_stack([np.r_[np.arange(m), rng.integers(m, size=n - m)] for m in counts])
    if missing:
        codes[rng.random(codes.shape) < 0.2] = MISSING
        codes[: counts.max()] = np.column_stack([np.arange(counts.max()) % m for m in counts])
    return rng, Labels(tuple(f"s{i}" for i in range(columns)), tuple(np.arange(m) for m in counts), codes)


def head(kind, labels, d, X, seed):
    if kind == "reconstruction":
        return Reconstruction(X)
    if kind == "mlp":
        return MlpHeads(labels, d, hidden=3, seed=seed)
    if kind == "rbf":
        features = FourierFeatures(d, 6, seed=seed)
        return SoftmaxHeads(labels, features.width, ridge=1e-3, features=features)
    if kind == "counting":
        return CountingHeads(labels, balanced=True)
    return SoftmaxHeads(labels, d, binary=kind == "binary", ridge=1e-3)


@with_settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(["softmax", "binary", "mlp", "rbf", "reconstruction", "counting"]),
    n=st.integers(8, 30),
    width=st.integers(1, 6),
    d=st.integers(1, 4),
    columns=st.integers(1, 3),
    missing=st.booleans(),
    nonlinear=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_every_gradient_and_mixed_product(kind, n, width, d, columns, missing, nonlinear, seed):
    """d/du, d/dv of f, and d/dv <grad_u f, q>: autograd, the written-out rule and finite differences agree."""
    rng, labels = problem(seed, n, columns, missing)
    X = torch.from_numpy(rng.standard_normal((n, width)))
    d = d + 1 if kind == "counting" else d
    risk = Weighted(head(kind, labels, d, X, seed), -1.3)
    u, q = (torch.from_numpy(rng.standard_normal((width, d))) for _ in range(2))
    v = risk.head.start()
    v = v + torch.from_numpy(0.5 * rng.standard_normal(v.shape))

    def code(u):
        return torch.tanh(X @ u) if nonlinear else X @ u

    def f(u, v):
        return float(risk(code(u), v))

    game = InnerGame(risk, code)
    point = game.solve(u, v, None)
    gradient, value = game.gradient(point, v, point.w)
    assert value == pytest.approx(f(u, v), rel=1e-12)
    close_to_slope(float((gradient * q).sum()), lambda h: f(u + h * q, v))
    z, dz = code(u), directional(code, u, q)
    close_to_slope(dz.numpy(), lambda h: code(u + h * q).numpy())
    if not v.numel():
        return

    def model(v):
        return game._along(risk, z, v, dz)

    x = v.clone().requires_grad_(True)
    slow_value = model(x)
    slow = torch.autograd.grad(slow_value, x)[0].numpy()
    r = torch.from_numpy(rng.standard_normal(v.shape))
    close_to_slope(float(slow @ r.numpy()), lambda h: float(model(v + h * r).detach()))
    for step, reference in ((dz, (float(slow_value.detach()), slow)), (None, plain(risk, z, v))):
        quick = risk.at(z, step)
        if quick is not None:
            assert quick(v.numpy())[0] == pytest.approx(reference[0], rel=1e-10)
            close(quick(v.numpy())[1], reference[1], 1e-9)


def plain(risk, z, v):
    x = v.clone().requires_grad_(True)
    value = risk(z, x)
    return float(value.detach()), torch.autograd.grad(value, x)[0].numpy()


def close_to_slope(found, f, error=1e-6):
    """Equal to d f / d h at 0 by differences of fourth order, at some step: a long one is spoilt where f bends
    sharply, a short one by rounding; a wrong derivative is wrong at all of them."""
    slopes = [(8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h) for h in (1e-2, 1e-3, 1e-4, 1e-5)]
    errors = [np.linalg.norm(np.subtract(found, s)) / max(1e-2, np.linalg.norm(s)) for s in slopes]
    assert min(errors) <= error, errors


def close(found, expected, error=1e-6):
    assert np.linalg.norm(np.subtract(found, expected)) <= error * max(1e-2, np.linalg.norm(expected))


def test_the_weighted_binary_loss_is_equation_7():
    """Equal sizes: weights (S-1) and 1. Unequal sizes: guessing still has risk ln 2 and no class is favoured."""
    S, per = 5, 8
    codes = torch.arange(S).repeat_interleave(per)
    logits = torch.from_numpy(np.random.default_rng(0).standard_normal((S * per, S)))
    signs, weights = against_rest(codes, S)
    loss = torch.nn.functional.softplus(-signs * logits)
    eq7 = (torch.where(signs > 0, S - 1.0, 1.0) * loss).sum() / (2 * (S - 1) * per * S)
    assert weighted_binary_loss(logits, signs, weights) == pytest.approx(float(eq7), rel=1e-12)
    signs, weights = against_rest(torch.tensor([0] * 50 + [1] * 3 + [2] * 9 + [MISSING] * 7), 3)
    assert weighted_binary_loss(torch.zeros(69, 3), signs, weights) == pytest.approx(np.log(2))
    assert weights[62:].abs().sum() == 0
    for side in (signs > 0, signs < 0):
        assert torch.allclose((weights * side).sum(0), torch.full((3,), 1 / 6, dtype=torch.float64))


def test_reconstruction_is_the_least_squares_error():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6)) + 2
    z = X @ rng.standard_normal((6, 3))
    rows = np.column_stack([z, np.ones(50)])
    residual = X - rows @ np.linalg.lstsq(rows, X, rcond=None)[0]
    risk = Reconstruction(torch.from_numpy(X), 1e-12).risk(torch.from_numpy(z), torch.zeros(0))
    assert float(risk) == pytest.approx((residual**2).mean(), rel=1e-6)


# -- the filter ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture():
    """Twelve columns: three tell the target, three the secret, the rest nothing; mixed by a rotation."""
    rng = np.random.default_rng(3)
    y, s = rng.integers(3, size=1000), rng.integers(4, size=1000)
    parts = [2.5 * np.eye(3)[y], 2.5 * np.eye(4)[s], np.zeros((1000, 5))]
    X = np.concatenate(parts, axis=1) + rng.standard_normal((1000, 12))
    X = X @ np.linalg.qr(rng.standard_normal((12, 12)))[0]
    data = tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}))
    return data.split((0.5, 0.5), random_state=0)


def scores(f, train, test):
    Z, Zt = f.transform(train.X), f.transform(test.X)
    return [
        LogisticRegression(max_iter=500).fit(Z, a).score(Zt, b)
        for a, b in ((train.y["y"], test.y["y"]), (train.sensitive["s"], test.sensitive["s"]))
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"solver": "alternating"},
        {"privacy_loss": "binary"},
        {"init": "pca"},
        {"init": "random"},
        {"adversary": "rbf", "max_iter": 8},
        {"adversary": "mlp", "max_iter": 5, "solver": "alternating"},
        {"adversary": "exact", "n_components": 5},
        {"network": "mlp", "rho": 3.0},
        {"network": lambda n_in, n_out: nn.Sequential(nn.Linear(n_in, 8), nn.Tanh(), nn.Linear(8, n_out))},
    ],
    ids=lambda settings: " ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in settings.items()) or "defaults",
)
def test_the_target_stays_and_the_secret_goes(mixture, settings):
    train, test = mixture
    f = tacit.MinimaxFilter(**{"n_components": 3, "random_state": 0, **settings})
    f.fit(train.X, train.y, sensitive_features=train.sensitive)
    kept, leaked = scores(f, train, test)

    class raw:  # (the control: both are plain to see in the data)
        transform = staticmethod(np.asarray)

    control = scores(raw, train, test)
    assert min(control) > 0.75
    assert kept > 0.7
    assert leaked < 0.36
    for stage in {h["stage"] for h in f.history_}:
        assert (np.diff([h["phi"] for h in f.history_ if h["stage"] == stage]) < 0).all()


def test_rho_trades_utility_for_privacy(mixture):
    """A target that is the secret's first bit, four times in five: what keeps the one gives the other away."""
    train, _ = mixture
    bit = (train.sensitive["s"] < 2).to_numpy()
    y = np.where(np.random.default_rng(1).random(len(bit)) < 0.8, bit, ~bit)
    found = []
    for rho in (0.1, 10.0):
        f = tacit.MinimaxFilter(2, rho, random_state=0).fit(train.X, y, sensitive_features=train.sensitive)
        Z = f.transform(train.X)
        found.append([LogisticRegression().fit(Z, label).score(Z, label) for label in (y, train.sensitive["s"])])
    (kept, leaked), (kept_more, leaked_more) = found
    assert kept_more > kept + 0.1
    assert leaked_more > leaked + 0.1
    assert tacit.MinimaxFilter().frontier_parameter == "rho"


def test_reconstruction_keeps_the_record_and_needs_no_target(mixture):
    train, test = mixture
    f = tacit.MinimaxFilter(6, 5.0, utility="reconstruction", random_state=0)
    f.fit(train.X, sensitive_features=train.sensitive)
    pca = principal_directions(train.X)[1][:, :6]

    def unexplained(Z):
        rows = np.column_stack([Z, np.ones(len(Z))])
        return ((train.X - rows @ np.linalg.lstsq(rows, train.X, rcond=None)[0]) ** 2).mean()

    leaks = [
        LogisticRegression(max_iter=500).fit(g(train.X), train.sensitive["s"]).score(g(test.X), test.sensitive["s"])
        for g in (f.transform, lambda X: X @ pca)
    ]
    assert unexplained(f.transform(train.X)) < 0.8 * train.X.var(axis=0).mean()
    assert leaks[0] < leaks[1] - 0.2
    with pytest.raises(tacit.TacitError, match="requires y"):
        tacit.MinimaxFilter().fit(train.X, sensitive_features=train.sensitive)


def test_several_targets_secrets_and_gaps():
    data = tacit.load_dataset("octants", n=600, allies=2)
    s = data.sensitive.astype(object)
    s.iloc[::7] = None
    for settings in ({}, {"privacy_loss": "binary"}, {"adversary": "exact", "n_components": 4}):
        f = tacit.MinimaxFilter(**{"n_components": 2, "random_state": 0, **settings})
        assert np.isfinite(f.fit(data.X, data.y, sensitive_features=s).transform(data.X)).all()


def test_the_noisy_filter_is_clipped_keyed_and_says_what_it_guarantees(mixture):
    train, test = mixture
    f = tacit.MinimaxFilter(2, noise=0.5, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    code = f.noiseless(100 * test.X)
    assert np.linalg.norm(code, axis=1).max() <= 1 + 1e-12
    Z = f.transform(test.X)
    assert np.array_equal(Z, f.transform(test.X))  # asking twice tells nothing new
    assert not np.array_equal(Z, f.redraw().transform(test.X))
    assert (Z - f.noiseless(test.X)).std() == pytest.approx(0.5, rel=0.1)
    assert f.local_dp_ == local_dp(0.5)
    assert tacit.MinimaxFilter(2).fit(train.X, train.y).local_dp_ is None


@pytest.mark.parametrize("sigma", [0.2, 1.0, 5.0])
def test_the_stated_epsilon_is_tight(sigma):
    """The worst set between two points 2 apart is a half line; its excess over e^eps is delta, no more, no less."""
    stated = local_dp(sigma)
    x = np.linspace(-10, 12, 200_001) * max(1.0, sigma)
    excess = norm.sf(x, 2, sigma) - np.exp(stated["epsilon"] + norm.logsf(x, 0, sigma))
    assert excess.max() == pytest.approx(stated["delta"], rel=1e-2)
    assert local_dp(1e9)["epsilon"] == 0.0


def test_training_rows_are_released_out_of_fold(mixture):
    """Labels that are pure chance: by `transform` the filter remembers them, out of fold it cannot."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 60)), rng.integers(2, size=150)
    for settings in ({"n_components": 1, "max_iter": 30}, {"n_components": 2, "adversary": "exact"}):
        f = tacit.MinimaxFilter(random_state=0, **{"max_iter": 5, **settings}).fit(X, y)
        remembered, out = (
            LogisticRegression().fit(Z, y).score(Z, y) for Z in (f.transform(X), f.release_training_rows())
        )
        assert remembered > 0.8
        assert out < 0.66  # 150 fair coins exceed .66 with probability under 1e-4


def test_bad_input_says_what_to_do(mixture):
    train, _ = mixture
    for settings, message in (
        ({"n_components": 13}, "rank 12.*at most 12"),
        ({"n_components": 0}, "n_components"),
        ({"rho": -1}, "rho"),
        ({"solver": "adam"}, "'kiwiel' or 'alternating'.*'adam'"),
        ({"privacy_loss": "hinge"}, "'multiclass'"),
        ({"utility": "x"}, "'labels'"),
        ({"adversary": "svm"}, "'softmax'"),
        ({"network": "cnn"}, "factory"),
        ({"init": "ones"}, "'eigen'"),
        ({"init": np.ones((3, 2))}, r"shape \(12, 2\)"),
        ({"noise": -0.1}, "noise"),
        ({"noise": 0.1, "adversary": "exact"}, "neither noise"),
        ({"n_components": 1, "adversary": "exact"}, "at least 2"),
    ):
        f = tacit.MinimaxFilter(**{"n_components": 2, **settings})
        with pytest.raises(tacit.TacitError, match=message):
            f.fit(train.X, train.y, sensitive_features=train.sensitive)
    with pytest.raises(tacit.TacitError, match="constant"):
        tacit.MinimaxFilter().fit(np.ones((20, 3)), np.arange(20) % 2)


def test_rank_not_width_limits_the_code(mixture):
    train, _ = mixture
    doubled = np.concatenate([train.X[:, :3], 2 * train.X[:, :3] + 1], axis=1)
    assert rank(doubled) == 3
    with pytest.raises(tacit.TacitError, match="6 columns and rank 3"):
        tacit.MinimaxFilter(4).fit(doubled, train.y, sensitive_features=train.sensitive)
    f = tacit.MinimaxFilter(random_state=0).fit(doubled, train.y, sensitive_features=train.sensitive)
    assert f.transform(doubled).shape[1] == 1  # half the rank, which is 3
    wide = np.random.default_rng(0).standard_normal((30, 200))  # more columns than rows
    assert rank(wide) == 29
    assert np.isfinite(tacit.MinimaxFilter(20, random_state=0).fit(wide, np.arange(30) % 2).transform(wide)).all()


def test_a_code_as_wide_as_the_data_is_warned_of_and_not_the_default(mixture):
    train = mixture[0]
    columns = np.asarray(train.X).shape[1]
    with pytest.warns(tacit.TacitWarning, match="can be undone"):
        tacit.MinimaxFilter(columns, max_iter=1, random_state=0).fit(
            train.X, train.y, sensitive_features=train.sensitive
        )
    f = tacit.MinimaxFilter(max_iter=1, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    assert f.n_components_ == min(10, columns // 2)
