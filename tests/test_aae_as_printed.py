"""`AnonymizingAutoencoder.as_printed`: the loss, the networks and the rounds of the paper; refining; no target."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import tacit
from tacit.errors import InputError
from tacit.filters.autoencoder import Heads, PrintedRounds
from tacit.labels import encode_labels
from tacit.nets import windows as printed
from tests.test_aae import fit, walkers

AAE = tacit.AnonymizingAutoencoder
SMALL = {"epochs": 2, "n_maps": 4, "rounds": 2, "batch_size": 32, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return walkers(200)


@pytest.fixture(scope="module")
def fitted(data):
    return fit(AAE.as_printed(**SMALL), data)


# -- Figures 4 and 5 -------------------------------------------------------------------------------


def n_parameters(net):
    return sum(p.numel() for p in net.parameters())


def test_the_autoencoder_is_that_of_figure_4():
    shape = (2, 128)
    encoder, decoder = printed.PrintedEncoder(shape), printed.PrintedDecoder(shape)
    x = torch.randn(5, *shape)
    assert encoder(x).shape == (5, 2, 32)
    assert decoder(encoder(x)).shape == x.shape
    # 1x3 convolutions: 1 to 100 maps, three times 100 to 100, 100 to 1; batch norm (two numbers a map) after each
    inner = 100 * 100 * 3 + 100
    assert n_parameters(encoder) == (3 * 100 + 100) + 3 * inner + (3 * 100 + 1) + 4 * 200 + 2
    assert n_parameters(decoder) == (3 * 100 + 100) + 3 * inner + (3 * 100 + 1) + 3 * 200
    kinds = [type(m).__name__ for m in encoder.body]
    assert [i for i, k in enumerate(kinds) if k == "MaxPool1d"] == [6, 10]  # after the second and the third
    assert kinds.count("SELU") == 4
    assert kinds.count("BatchNorm1d") == 5
    assert [m.stride[0] for m in decoder.body if isinstance(m, nn.ConvTranspose1d)] == [1, 2, 2, 1]


def test_the_sensors_never_meet_in_figure_4():
    encoder = printed.PrintedEncoder((2, 32), 4).eval()
    x = torch.randn(3, 2, 32)
    other = x.clone()
    other[:, 1] += 1
    assert torch.equal(encoder(x)[:, 0], encoder(other)[:, 0])
    assert not torch.allclose(encoder(x)[:, 1], encoder(other)[:, 1])


@pytest.mark.parametrize(
    ("make", "shape", "hidden", "length"),
    [
        (printed.printed_classifier, (2, 128), (256, 64), 8),
        (printed.printed_latent_classifier, (2, 32), (128, 32), 8),
    ],
    ids=["DecReg", "EncReg"],
)
def test_the_regularizers_are_those_of_figure_5(make, shape, hidden, length):
    net = make(shape, 24)
    assert net(torch.randn(3, *shape)).shape == (3, 24)
    convolutions = (10 * 32 + 32) + 4 * (10 * 32 * 32 + 32)  # 2x5, 32 maps
    flat = 32 * 2 * length
    dense = flat * hidden[0] + hidden[0] + hidden[0] * hidden[1] + hidden[1] + hidden[1] * 24 + 24
    assert n_parameters(net) == convolutions + dense
    assert [m.p for m in net if isinstance(m, nn.Dropout)] == [0.25] * 5 + [0.5] * 2
    weights = [m.weight for m in net if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weights) == 8
    squares = sum(w.pow(2).sum().item() for w in weights[:-1])
    assert printed.penalty(net).item() == pytest.approx(1e-3 * squares, rel=1e-5)


# -- eq. 7 -----------------------------------------------------------------------------------------


def test_eq_7_values():
    heads = Heads(encode_labels(np.array([0, 1, 1]), "s", 3), np.arange(3), torch.device("cpu"), balanced=False)
    rows = torch.arange(3)

    def loss(p):
        return heads.hide(torch.tensor(p).log(), rows, "paper").item()

    sure = [[0.99, 0.01], [0.01, 0.99], [0.01, 0.99]]
    swapped = [[0.01, 0.99], [0.99, 0.01], [0.99, 0.01]]
    even = [[0.5, 0.5]] * 3
    assert loss(sure) == pytest.approx(-2 * np.log(0.01), rel=1e-3)
    assert loss(swapped) == pytest.approx(-np.log(0.99) - np.log(0.01), rel=1e-3)  # the trivial one: still confident
    assert loss(even) == pytest.approx(-2 * np.log(0.5), rel=1e-5)
    assert loss(even) < loss(swapped) < loss(sure)


# -- Figure 6 --------------------------------------------------------------------------------------


def stages(history):
    return list(dict.fromkeys(h["stage"] for h in history))


def test_rounds_come_in_the_order_of_figure_6(fitted):
    each = ["EncReg", "DecReg", "ActReg", "autoencoder"]
    assert stages(fitted.history_) == ["copying", *(f"round {r}: {s}" for r in (1, 2) for s in each)]
    assert sum(h["stage"] == "copying" for h in fitted.history_) == 3  # 32 for 24 epochs of a stage
    assert sum(h["stage"] == "round 1: autoencoder" for h in fitted.history_) == 2


def test_the_first_regularizers_read_raw_windows_and_later_ones_what_was_released(data, monkeypatch):
    seen = []
    true = PrintedRounds._read

    def watched(self, stage, name, windows):
        seen.append((stage, windows is self.X))
        true(self, stage, name, windows)

    monkeypatch.setattr(PrintedRounds, "_read", watched)
    fit(AAE.as_printed(**SMALL), data, epochs=1)
    raw = {stage for stage, is_raw in seen if is_raw}
    assert raw == {"round 1: DecReg", "round 1: ActReg"}  # EncReg reads the copying autoencoder's code


def test_the_regularizers_are_frozen_while_the_autoencoder_learns(data, monkeypatch):
    true, moved = PrintedRounds._hide, []

    def watched(self, stage):
        before = [p.clone() for net, _, _ in self.regularizers.values() for p in net.parameters()]
        own = [p.clone() for p in self.autoencoder.parameters()]
        finished = true(self, stage)
        after = [p for net, _, _ in self.regularizers.values() for p in net.parameters()]
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        moved.append(not all(torch.equal(a, b) for a, b in zip(own, self.autoencoder.parameters(), strict=True)))
        return finished

    monkeypatch.setattr(PrintedRounds, "_hide", watched)
    fit(AAE.as_printed(**SMALL), data, epochs=1)
    assert moved == [True, True]


def test_a_regularizer_stops_when_validation_windows_are_read_no_better(data, monkeypatch):
    monkeypatch.setattr(Heads, "right", lambda self, logits, rows: 0.5)
    history = fit(AAE.as_printed(**SMALL), data, epochs=5, patience=2, rounds=1).history_
    assert sum(h["stage"] == "round 1: EncReg" for h in history) == 3  # the best and two that were no better
    assert sum(h["stage"] == "round 1: autoencoder" for h in history) == 5  # the autoencoder's stage has no such rule


def test_rep_has_no_regularizer_of_the_output(data):
    history = fit(AAE.as_printed(**SMALL), data, regularize_output=False, rounds=1).history_
    assert stages(history) == ["copying", *(f"round 1: {s}" for s in ("EncReg", "ActReg", "autoencoder"))]


def test_printed_rounds_are_repeatable_and_released_alike_alone(data, fitted, tmp_path):
    again = fit(AAE.as_printed(**SMALL), data)
    assert np.array_equal(again.transform(data.X), fitted.transform(data.X))
    assert np.allclose(fitted.transform(data.X[:3]), fitted.transform(data.X)[:3], atol=1e-5)
    assert fitted.latent(data.X[:3]).shape == (3, 2, 8)
    path = tacit.save(fitted, tmp_path / "printed.tacit")
    assert np.allclose(tacit.load(path).transform(data.X[:5]), fitted.transform(data.X[:5]), atol=1e-4)


def test_printed_rounds_resume_stage_by_stage(data, tmp_path, fitted, monkeypatch):
    f = clone(AAE.as_printed(**SMALL)).set_params(checkpoint=str(tmp_path / "run"))
    true = PrintedRounds._hide

    def killed(self, stage):
        if stage.startswith("round 2"):
            raise RuntimeError("killed")
        return true(self, stage)

    monkeypatch.setattr(PrintedRounds, "_hide", killed)
    with pytest.raises(RuntimeError, match="killed"):
        fit(f, data)
    monkeypatch.setattr(PrintedRounds, "_hide", true)
    resumed = fit(f, data)
    assert np.array_equal(resumed.transform(data.X), fitted.transform(data.X))


# -- refining a model, and no target ---------------------------------------------------------------


STILL = {"learning_rate": 1e-12, "epochs": 1, "n_maps": 4, "regularizers": ("dense",), "batch_size": 32}


@pytest.mark.parametrize("preset", [AAE, AAE.as_printed], ids=["game", "printed"])
def test_a_fitted_filter_and_its_bundle_are_refined(data, tmp_path, preset):
    """With a rate of nothing the refined filter is the one it started from; without `start` it is another."""
    public = fit(preset(**{**STILL, "learning_rate": 1e-3}, random_state=1), walkers(200, seed=3))
    bundle = tacit.load(tacit.save(public, tmp_path / "public.tacit"), noise_key=bytes(range(32)))
    new = preset(**STILL, random_state=2)
    codes = {s: fit(new, data, start=s).autoencoder_.state_dict() for s in (None, public, bundle)}
    weights = public.autoencoder_.state_dict()
    learned = [k for k in weights if k.endswith(("weight", "bias"))]
    for start in (public, bundle):
        assert all(torch.allclose(codes[start][k], weights[k], atol=1e-6) for k in learned)
    assert not all(torch.allclose(codes[None][k], weights[k], atol=1e-3) for k in learned)
    with pytest.raises(InputError, match=r"another network.*n_maps"):
        fit(new, data, start=public, n_maps=5)


def test_without_a_target_the_distortion_keeps_what_it_can(data):
    f = AAE(
        0.0, beta_distortion=1.0, epochs=12, n_maps=8, batch_size=32, learning_rate=3e-3, noise=None, random_state=0
    )
    f.set_params(regularizers=("dense",))
    f.fit(data.X, sensitive_features=data.sensitive, units=data.units_of("person"))
    scale = data.X.std(axis=(0, 2), keepdims=True)
    assert (((f.transform(data.X) - data.X) / scale) ** 2).mean() < 0.5  # an empty release has 1
    with pytest.raises(InputError, match="codes= needs y"):
        AAE(codes=4).fit(data.X, sensitive_features=data.sensitive)
    with pytest.raises(InputError, match="neither y nor sensitive_features"):
        AAE().fit(data.X)
    g = AAE.as_printed(**SMALL).set_params(epochs=1)
    assert g.fit(data.X, sensitive_features=data.sensitive).transform(data.X).shape == data.X.shape
