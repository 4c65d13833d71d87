"""The anonymizing autoencoder, its exact code, and the coarse baselines: promises, each with a control."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import tacit
from tacit.errors import InputError
from tacit.filters.autoencoder import Heads
from tacit.labels import encode_labels
from tacit.nets.windows import CLASSIFIERS, Decoder, Encoder

AAE = tacit.AnonymizingAutoencoder
TINY = {
    "n_maps": 4,
    "epochs": 1,
    "batch_size": 54,
    "regularizers": ("dense",),
    "regularizer_steps": 1,
    "random_state": 0,
}
FILTERS = [
    AAE(**TINY),
    AAE(**{**TINY, "regularize_output": False, "identity_loss": "paper"}),
    AAE(codes=4, **TINY),
    tacit.baselines.Resample(10, 50),
    tacit.baselines.SingularSpectrum((1, 2), embedding=8),
]
every_filter = pytest.mark.parametrize("f", FILTERS, ids=lambda f: f"{type(f).__name__}-{FILTERS.index(f)}")
learned = pytest.mark.parametrize("f", FILTERS[:3], ids=["AAE", "REP", "code"])


def walkers(n=120, length=32, channels=2, seed=0):
    """Windows whose tempo is the activity and whose level and overtone are the person; bouts of 10 windows."""
    rng = np.random.default_rng(seed)
    bout = np.arange(n) // 10
    activity, person = (bout // 3) % 2, bout % 3
    time = np.arange(length) / length * 2 * np.pi
    phase = rng.uniform(0, 2 * np.pi, (n, 1, 1))
    wave = np.sin((2 + 3 * activity)[:, None, None] * time + phase) + (person[:, None, None] - 1)
    wave = wave + 0.3 * rng.standard_normal((n, channels, length))
    X = 9.8 + 3 * wave * np.arange(1, channels + 1)[:, None]
    labels = pd.DataFrame({"activity": np.array(["walk", "jog"])[activity]})
    return tacit.Dataset(X, labels, pd.DataFrame({"person": person}), units=bout + 1000 * seed)


@pytest.fixture(scope="module")
def data():
    return walkers()


@pytest.fixture(scope="module")
def fitted(data):
    """Each filter of the list, fitted once."""
    known = {}
    return lambda f: known.setdefault(id(f), None) or known.update({id(f): fit(f, data)}) or known[id(f)]


def fit(f, data, **changes):
    g = clone(f).set_params(**changes)
    return g.fit(data.X, data.y, sensitive_features=data.sensitive, units=data.units_of("person"))


# -- the contract, for windows -------------------------------------------------------------------


@every_filter
def test_windows_keep_their_shape_and_the_constructor_stores(f, data, fitted):
    assert clone(f).get_params() == f.get_params()
    assert f.frontier_parameter in f.get_params()
    Z = fitted(f).transform(data.X)
    assert Z.shape == data.X.shape
    assert np.isfinite(Z).all()


@every_filter
def test_a_record_is_released_alike_alone_and_in_company(f, data, fitted):
    g = fitted(f)
    assert np.allclose(g.transform(data.X[:3]), g.transform(data.X)[:3], atol=1e-4)


@every_filter
def test_training_rows_are_released_in_the_same_format(f, data, fitted):
    g = fitted(f)
    Z = g.release_training_rows()
    assert Z.shape == data.X.shape
    if not isinstance(g, AAE):
        assert np.array_equal(Z, g.transform(data.X))  # nothing is learned
    elif g.codes is None:
        assert not np.allclose(Z, g.transform(data.X))


@learned
def test_same_seed_same_bits_other_seed_another_result(f, data):
    nets = [_weights(fit(f, data, random_state=seed)) for seed in (0, 0, 1)]
    assert all(torch.equal(a, b) for a, b in zip(nets[0], nets[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(nets[0], nets[2], strict=True))


def _weights(g):
    net = g.mechanism_.code.cells_of.net if g.codes else g.autoencoder_
    return list(net.state_dict().values())


@pytest.mark.filterwarnings("ignore:target .* a function of")
def test_several_targets_and_secrets_and_none(data):
    two = pd.DataFrame({"person": data.sensitive["person"], "half": np.arange(len(data)) % 2})
    g = clone(FILTERS[0]).fit(data.X, data.y.assign(other=two["half"]), sensitive_features=two)
    assert g.transform(data.X).shape == data.X.shape
    assert clone(FILTERS[0]).fit(data.X, data.y).transform(data.X).shape == data.X.shape


# -- bad input -----------------------------------------------------------------------------------


@every_filter
def test_bad_windows_are_named(f, data, fitted):
    gap = data.X.copy()
    gap[7, 1, 20] = np.nan
    with pytest.raises(InputError, match=r"window 7, channel 1, sample 20: found nan, and 1 such.*interpolate"):
        clone(f).fit(gap, data.y, sensitive_features=data.sensitive)
    with pytest.raises(InputError, match="window 7, channel 1, sample 20"):
        fitted(f).transform(gap)
    with pytest.raises(InputError, match=r"\(120, 32\).*\(n, channels, length\)"):
        clone(f).fit(data.X[:, 0], data.y, sensitive_features=data.sensitive)
    with pytest.raises(InputError, match=r"\(2, 20\).*\(2, 32\)"):
        fitted(f).transform(data.X[:, :, :20])


@learned
def test_short_windows_and_lone_users_are_refused(f, data):
    with pytest.raises(InputError, match="windows have 12 samples, but this filter needs at least 16"):
        clone(f).fit(data.X[:, :, :12], data.y, sensitive_features=data.sensitive)
    alone = data.sensitive["person"].to_numpy().copy()
    alone[3] = 77
    with pytest.raises(InputError, match="'sensitive_features': 77 has one window; at least two"):
        clone(f).fit(data.X, data.y, sensitive_features=alone)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta_identity": -1}, "beta_identity"),
        ({"codes": 1}, "codes"),
        ({"identity_loss": "entropy"}, "'uniform' or 'paper'"),
        ({"regularizers": ("forest",)}, "'deep'.*found 'forest'"),
        ({"regularizers": ()}, "REP"),
        ({"validation": 0.9}, "validation"),
        ({"batch_size": 1}, "batch_size"),
        ({"device": "gpu"}, "'auto', 'cpu' or 'cuda'"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1}, "no noise; pass noise=None"),
        ({"rounds": 1, "noise": None, "codes": 4}, "no codes; pass codes=None"),
        ({"start": "public.tacit"}, "fitted AnonymizingAutoencoder or a loaded bundle; found str"),
        ({"start": AAE(), "codes": 4}, "start refines an autoencoder"),
    ],
)
def test_wrong_parameters_say_what_is_allowed(changes, message, data):
    with pytest.raises(InputError, match=message):
        fit(AAE(**TINY), data, **changes)


# -- the parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 128), (1, 16), (3, 41)])
def test_the_autoencoder_halves_twice_and_returns(shape):
    x = torch.randn(3, *shape)
    code = Encoder(shape, 5)(x)
    assert code.shape == (3, shape[0], -(-shape[1] // 4))
    assert Decoder(shape, 5)(code).shape == x.shape
    for make in CLASSIFIERS.values():
        assert make(shape, 7)(x).shape == (3, 7)


def test_the_identity_losses_are_those_of_the_paper():
    heads = Heads(encode_labels(np.array([0, 1, 2, 1]), "s", 4), np.arange(4), torch.device("cpu"), balanced=False)
    p = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
    rows = torch.arange(4)
    true, most = np.array([0.7, 0.3, 0.25, 0.8]), np.array([0.7, 0.4, 0.5, 0.8])
    eq7 = -(np.log(1 - true) + np.log(1 - most)).mean()
    assert heads.hide(p.log(), rows, "paper").item() == pytest.approx(eq7, rel=1e-5)
    assert heads.learn(p.log(), rows).item() == pytest.approx(-np.log(true).mean(), rel=1e-5)
    assert heads.hide(torch.zeros(4, 3), rows, "uniform").item() == pytest.approx(0, abs=1e-6)
    assert heads.hide(p.log(), rows, "uniform").item() > 0.1


def test_resampling_removes_the_fast_and_keeps_the_slow():
    time = np.arange(100) / 50
    slow, fast = np.sin(2 * np.pi * 2 * time), np.sin(2 * np.pi * 12 * time)
    X = np.stack([slow, fast, slow + fast])[:, None]
    Z = tacit.baselines.Resample(10, 50).fit(X).transform(X)
    assert np.allclose(Z[:, 0], [slow, 0 * fast, slow], atol=1e-9)


def test_singular_spectrum_agrees_with_the_textbook():
    x = np.random.default_rng(0).standard_normal(24).cumsum()
    X = np.stack([x, -x])[:, None]
    Z = tacit.baselines.SingularSpectrum((1, 3), embedding=7).fit(X).transform(X)[0, 0]
    u, s, v = np.linalg.svd(np.array([x[i : i + 18] for i in range(7)]), full_matrices=False)
    matrix = sum(s[c] * np.outer(u[:, c], v[c]) for c in (0, 2))
    slow = [np.mean([matrix[i, t - i] for i in range(7) if 0 <= t - i < 18]) for t in range(24)]
    assert np.allclose(Z, slow)
    assert np.allclose(tacit.baselines.SingularSpectrum(7, embedding=7).fit(X).transform(X), X)


# -- the promises --------------------------------------------------------------------------------


def linear_probe(Z, labels, Z_test, labels_test):
    A, B = (np.abs(np.fft.rfft(z, axis=-1)).reshape(len(z), -1) for z in (Z, Z_test))
    mean, scale = A.mean(0), A.std(0) + 1e-9
    model = LogisticRegression(max_iter=200, C=0.3).fit((A - mean) / scale, labels)
    return model.score((B - mean) / scale, labels_test)


@pytest.fixture(scope="module")
def parts():
    return walkers(300), walkers(240, seed=1), walkers(240, seed=2)


@pytest.mark.parametrize(
    "game",
    [pytest.param({"noise": 0.5}, marks=pytest.mark.slow), {"codes": 4, "beta_identity": 1.0, "epochs": 12}],
    ids=["AAE, noise", "code"],  # the first guards what the paper's own game learns, by a whole training
)
def test_the_activity_stays_and_the_person_goes(game, parts):
    """An attacker trained afresh on the release of windows the filter has not seen."""
    train, attack, test = parts
    f = AAE(3.0, n_maps=8, epochs=18, batch_size=32, learning_rate=3e-3, regularizer_steps=1, random_state=0)
    f = fit(f, train, regularizers=("dense", "spectrum"), **game)
    Za, Zt = f.transform(attack.X), f.transform(test.X)
    who = attack.sensitive["person"], test.sensitive["person"]
    assert linear_probe(attack.X, who[0], test.X, who[1]) > 0.95  # the control: raw windows name the person
    assert linear_probe(Za, who[0], Zt, who[1]) < 0.6
    assert linear_probe(Za, attack.y["activity"], Zt, test.y["activity"]) > 0.9
    assert Zt.mean() == pytest.approx(test.X.mean(), abs=3 * test.X.std())  # in the units of the input


def test_a_code_releases_few_waveforms_and_is_certified_or_says_what_it_takes(parts):
    train, attack, test = parts
    f = fit(AAE(codes=4, epochs=12, batch_size=32, learning_rate=3e-3, random_state=0), train)
    Z = f.transform(test.X)
    assert len(np.unique(Z.reshape(len(Z), -1), axis=0)) <= 4
    report = tacit.audit(f, attack, test, attackers="logistic", measurements="no-baseline")
    certified = report.certificate["person"]
    assert certified is not None
    assert certified.n_units == 48  # recordings, not windows
    assert certified.bound < 0.6  # raw windows name the person with more than .95
    # the same windows, nearly all of a person from one recording
    small, large = (
        tacit.Dataset(d.X, d.y, d.sensitive, units=d.sensitive["person"].to_numpy() + 5000 + 9 * i)
        for i, d in enumerate((attack.take(np.arange(0, 240, 10)), test))
    )
    few = tacit.audit(f, small, large, attackers="logistic", measurements="no-baseline")
    assert few.certificate["person"] is None
    assert any("too few units to certify" in n for n in few.notes), few.notes


# -- training ------------------------------------------------------------------------------------


def test_training_stops_when_the_adaptive_trade_off_no_longer_improves(data, monkeypatch):
    values = iter([(0.9, 0.1), (0.8, 0.1), (0.7, 0.1), (0.6, 0.1), (0.95, 0.0)])
    monkeypatch.setattr("tacit.filters.autoencoder.AnonymizingGame.check", lambda self: next(values))
    g = fit(FILTERS[0], data, epochs=18, patience=2)
    assert len(g.history_) == 12  # checks after epochs 6, 9 and 12; the fourth was never asked for


def test_noise_on_the_latent_is_keyed_and_can_be_drawn_anew():
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=(2, 80))
    X = rng.standard_normal((80, 2, 32)) + y[:, None, None]
    f = tacit.AnonymizingAutoencoder(noise=0.5, epochs=1, n_maps=8, random_state=0).fit(X, y, sensitive_features=s)
    assert np.abs(f.latent(X)).max() <= 1
    assert np.array_equal(f.transform(X), f.transform(X))
    assert np.array_equal(f.transform(X)[:5], f.transform(X[:5]))
    assert not np.allclose(f.transform(X), f.redraw().transform(X))
    cells = tacit.AnonymizingAutoencoder(codes=4, epochs=2, random_state=0).fit(X, y, sensitive_features=s)
    assert cells.noise_key is None  # a cell is released as it is
