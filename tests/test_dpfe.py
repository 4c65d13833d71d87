"""DPFE: the code between the halves of a network keeps the targets and loses who it is from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

import tacit
from papers.common.noise_curve import noise_curve
from tacit.auditing.superiority import superiority
from tacit.filters.dpfe import Partners, contrastive
from tacit.nets.convolutional import backbone
from tacit.nets.cut import LinearCode
from tacit.training.loop import Training

SMALL = {"epochs": 4, "backbone_epochs": 3, "random_state": 0, "device": "cpu"}


def walkers(n=480, people=8, seed=0, noise=0.3):
    """Windows (2, 16): the activity is the frequency; the person, a shape of their own."""
    rng = np.random.default_rng(seed)
    who, what = np.arange(n) % people, rng.integers(2, size=n)
    t = np.arange(16) / 16
    shapes = np.random.default_rng(99).standard_normal((people, 2, 16))
    beat = np.sin(2 * np.pi * (2 + 2 * what[:, None]) * t + rng.uniform(0, 2 * np.pi, (n, 1)))
    X = beat[:, None] + shapes[who] + noise * rng.standard_normal((n, 2, 16))
    return tacit.Dataset(X, pd.DataFrame({"activity": what}), pd.DataFrame({"person": who}))


def fit(data, **settings):
    f = tacit.DPFE(**{**SMALL, **settings})
    return f.fit(data.X, data.y, sensitive_features=data.sensitive, units=data.units)


@pytest.fixture(scope="module")
def parts():
    return walkers(n=960).split((0.5, 0.3, 0.2), random_state=0)


@pytest.fixture(scope="module")
def models(parts):
    settings = {"epochs": 16, "backbone_epochs": 4, "batch_size": 64}
    return {"Simple": fit(parts[0], simple=True, **settings), "DPFE": fit(parts[0], **settings)}


# -- the parts of the method ------------------------------------------------------------------------


def test_the_contrastive_loss_by_hand():
    code = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
    # pairs: (0,1) same, d=5; (0,2) different, d=2; (1,2) different, d²=13
    expected = (7 - 5) ** 2 / 2 + (4 / 2 + 13 / 2) / 2
    assert contrastive(code, torch.tensor([4, 4, 1]), 7.0).item() == pytest.approx(expected)
    # an unknown person takes no part; beyond the margin the same person pays nothing
    assert contrastive(code, torch.tensor([4, 4, -1]), 5.0).item() == 0


def test_eq7_as_printed_by_hand():
    code = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
    who = torch.tensor([4, 4, 1])
    # c - d² without c for the one pair of the same person; every pair weighs alike
    assert contrastive(code, who, 7.0, "difference", "all").item() == pytest.approx((4 + 13 - 25) / 2 / 3)
    assert contrastive(code, who, 7.0, "difference").item() == pytest.approx((4 + 13) / 2 / 2 - 25 / 2)
    assert contrastive(code, who, 7.0, "hinge", "all").item() == pytest.approx((4 + 13 + 2**2) / 2 / 3)
    # theorem 8: for a normalized code all pairs together are constant, so eq. 7 is twice its first sum, less that
    normal = torch.randn(40, 3)
    normal = (normal - normal.mean(0)) / normal.std(0, correction=0)
    who, pairs = torch.arange(40) % 4, 40 * 39 / 2
    square = torch.pdist(normal).square()
    i, j = torch.triu_indices(40, 40, 1)
    apart = square[who[i] != who[j]].sum()
    expected = (2 * apart - 40 * 40 * 3) / 2 / pairs
    assert contrastive(normal, who, 0.0, "difference", "all").item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_preset_is_the_authors_and_takes_other_settings():
    f = tacit.DPFE.as_printed(**SMALL, contrast="difference")
    assert (f.beta, f.margin, f.pairs, f.contrast, f.epochs) == (0.01, 10.0, "all", "difference", 4)
    assert tacit.DPFE.as_printed(margin=3.0).margin == 3.0
    assert clone(f).get_params()["contrast"] == "difference"
    for wrong in ({"contrast": "cosine"}, {"pairs": "some"}):
        with pytest.raises(tacit.TacitError, match=f"{next(iter(wrong))} is '.*'; it is one of"):
            fit(walkers(40), **wrong)


def test_what_has_no_end_stays_bounded_by_the_normalized_code(parts):
    """-d² can fall without end, were the code not normalized: the loss stays above its floor and the code finite."""
    f = tacit.DPFE.as_printed(**{**SMALL, "epochs": 12, "learning_rate": 1e-2}, beta=5.0, contrast="difference")
    f.fit(parts[0].X, parts[0].y, sensitive_features=parts[0].sensitive)
    lowest = -2 * f.n_components  # all pairs together have a mean square of 2 k, half of it is the term
    assert all(lowest <= line["contrast"] <= -lowest for line in f.history_ if line["stage"] == "fine-tuning")
    code = f.noiseless(parts[1].X)
    assert np.isfinite(code).all()
    assert np.abs(code).max() < 100
    # the control: without the normalization it does run away
    loose, who = torch.zeros(8, 2), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    loose[:, 0] = torch.tensor([-3.0, -1, 1, 3, -3, -1, 1, 3])
    assert contrastive(100 * loose, who, 0.0, "difference").item() < -1000


def test_the_curve_has_the_papers_reader_beside_ours_and_both_bounds(parts, models):
    curve = noise_curve(models["Simple"], parts[1], parts[2], (0, 8), attackers=["logistic"])
    assert set(curve["kernels"]) == {"own"}  # 36 windows of each of eight people
    assert curve["kernel_log_rank"].iloc[0] < curve["kernel_log_rank_guessing"].iloc[0] - 0.1
    assert curve["kernel_log_rank"].iloc[1] > curve["kernel_log_rank"].iloc[0]
    assert np.isnan(curve["bits_bound"].iloc[0])  # without noise U2 bounds nothing
    assert curve["bits_low"].iloc[1] <= curve["bits_bound"].iloc[1] <= 10 / 8 / np.log(2) * 1.2


def test_partners_are_others_of_the_same_class():
    codes = np.array([0, 1, 0, 2, 1, 0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.permutation(6)
        other = Partners(codes).of(rows, rng)
        assert (codes[other] == codes[rows]).all()
        assert (other != rows)[codes[rows] != 2].all()
        assert (other == rows)[codes[rows] == 2].all()  # alone


def test_the_code_starts_as_pca():
    torch.manual_seed(0)
    X = torch.randn(200, 6) @ torch.randn(6, 6)
    code = LinearCode.from_pca(nn.Identity(), X, 6, 0, "x").eval()
    assert torch.allclose(code.decoder(code.encoder(X)), X, atol=1e-3)
    assert np.allclose(code.encoder(X).detach().numpy().std(axis=0), 1, atol=1e-2)
    two = LinearCode.from_pca(nn.Identity(), X, 2, 0, "x").eval()
    lost = (two.decoder(two.encoder(X)) - X).pow(2).mean()
    values = np.linalg.eigvalsh(np.cov(X.numpy(), rowvar=False, bias=True))
    assert lost.item() == pytest.approx(values[:-2].sum() / 6, rel=1e-3)


# -- what it promises, with Simple as the control ----------------------------------------------------


def test_it_withholds_the_person_that_simple_gives_away(parts, models):
    _, attack, test = parts
    found = {}
    for name, f in models.items():
        f = clone_with_noise(f, 0.0)
        right = (f.answer(f.transform(test.X))["activity"] == test.y["activity"].to_numpy()).mean()
        assert right > 0.95
        attackers = {"1-NN": KNeighborsClassifier(1), "linear": LogisticRegression(max_iter=500)}
        found[name] = {
            a: model.fit(f.transform(attack.X), attack.sensitive["person"]).score(
                f.transform(test.X), test.sensitive["person"]
            )
            for a, model in attackers.items()
        }
    assert found["Simple"]["linear"] > 0.4  # the control: guessing is .125
    assert found["DPFE"]["linear"] < 0.6 * found["Simple"]["linear"]
    assert found["DPFE"]["1-NN"] < found["Simple"]["1-NN"]  # 64 test windows tell no more


def test_more_noise_means_less_accuracy_and_more_privacy(parts, models):
    curves = {n: noise_curve(f, parts[1], parts[2], (0, 1, 8), attackers=["logistic"]) for n, f in models.items()}
    for curve in curves.values():
        assert curve["accuracy"].is_monotonic_decreasing
        assert curve["log_rank"].iloc[-1] > curve["log_rank"].iloc[0]
        assert ((curve["log_rank_low"] <= curve["log_rank"]) & (curve["log_rank"] <= curve["log_rank_high"])).all()
    # 192 windows know a log-rank to about .08
    found = superiority(*(curves[n][["accuracy", "log_rank"]] for n in ("DPFE", "Simple")), tolerance=0.08)
    assert found.superior
    assert found.mean > 0.05


def test_naming_by_recall_does_not_count_one_common_person(parts, models):
    """All records of one person and some of the others': plain accuracy follows that person, recalls do not."""
    f, (attack, test) = models["Simple"], parts[1:]
    common = test.sensitive["person"].to_numpy() == test.sensitive["person"].iloc[0]
    kept = common | (np.random.default_rng(0).random(len(test)) < 0.3)
    whole, uneven = (noise_curve(f, attack, d, [0], attackers=["logistic"]).iloc[0] for d in (test, test.take(kept)))
    assert uneven["identified_guessing"] > 0.25
    assert uneven["identified_balanced_guessing"] == whole["identified_balanced_guessing"] == 1 / 8
    assert uneven["identified_balanced_low"] < whole["identified_balanced"] < uneven["identified_balanced_high"]
    assert whole["identified_balanced"] > 0.4  # the control: Simple gives people away


def test_simple_and_dpfe_begin_alike_and_make_the_same_steps():
    data = walkers(200)
    simple, dpfe, free = fit(data, simple=True), fit(data), fit(data, beta=0.0)
    assert len(simple.history_) == len(dpfe.history_)
    warm_up = SMALL["backbone_epochs"] + SMALL["epochs"] // 4
    assert simple.history_[:warm_up] == dpfe.history_[:warm_up]
    assert simple.history_[-1]["loss"] != dpfe.history_[-1]["loss"]
    assert np.array_equal(simple.noiseless(data.X), free.noiseless(data.X))


def clone_with_noise(f, ratio):
    return f.redraw().with_noise(ratio)


def test_the_noise_is_in_proportion_to_the_code_and_keyed_by_the_record(parts, models):
    f, X = clone_with_noise(models["DPFE"], 0.5), parts[0].X
    code = f.noiseless(X)
    noise = np.concatenate([clone_with_noise(f, 0.5).transform(X) - code for _ in range(20)])
    off = np.cov(noise, rowvar=False) - 0.5 * f.covariance_
    assert np.abs(off).max() < 0.05 * np.abs(f.covariance_).max()
    assert np.array_equal(f.transform(X), f.transform(X))
    assert np.allclose(f.transform(X[5:9]), f.transform(X)[5:9])
    small = (f.transform(X) - code) / np.sqrt(0.5)
    f = f.with_noise(2.0)  # another ratio must not be the same draw at another size
    other = (f.transform(X) - code) / np.sqrt(2.0)
    assert abs(np.corrcoef(small.ravel(), other.ravel())[0, 1]) < 0.1


def test_client_and_cloud_run_apart_and_together_are_the_whole(parts, models):
    f, X = clone_with_noise(models["DPFE"], 0.0), parts[2].X
    given = torch.from_numpy(f.encoder_.transform(X))
    sent = f.client_(given).detach().numpy()
    assert np.allclose(sent, f.transform(X))
    logits = nn.Sequential(f.client_, f.head_)(given).detach().numpy()
    assert np.allclose(torch.softmax(torch.from_numpy(logits), 1), f.answer_proba(sent)["activity"])
    with pytest.raises(tacit.TacitError, match="a code has 10 numbers"):
        f.answer(sent[:, :3])


# -- networks, shapes, several columns ----------------------------------------------------------------


class Traced(nn.Module):
    """No Sequential, a skip in it, and an input scale of its own."""

    def __init__(self):
        super().__init__()
        self.conv, self.more, self.out = nn.Conv1d(2, 8, 3, padding=1), nn.Conv1d(8, 8, 1), nn.Linear(128, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x / 100))
        return self.out(torch.flatten(x + self.more(x), 1))


class Recurrent(nn.Module):
    """For speech and text: a state that is carried from step to step, and answers from the last."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.past, self.out = nn.GRU(n_in[0], 12, batch_first=True), nn.Linear(12, n_out)

    def forward(self, x):
        states, _ = self.past(x.transpose(1, 2))
        return self.out(torch.tanh(states[:, -1]))


def test_a_recurrent_network_is_cut_after_its_last_state(parts):
    train, _, test = parts
    f = fit(train, network=Recurrent, cut="tanh", n_components=4, epochs=16, backbone_epochs=24, batch_size=32)
    right = (f.answer(f.transform(test.X))["activity"] == test.y["activity"].to_numpy()).mean()
    assert right > 0.8  # guessing is a half
    assert f.transform(test.X).shape == (len(test), 4)


def test_a_trained_network_is_cut_where_it_is_said_and_left_alone():
    data = walkers(200)
    network = Traced()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    f = fit(tacit.Dataset(100 * data.X, data.y, data.sensitive), network=network, cut="relu", n_components=4)
    assert f.cut_ == "relu"
    assert f.transform(100 * data.X).shape == (200, 4)
    assert [line["stage"] for line in f.history_] == ["fine-tuning"] * 4
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())
    assert np.array_equal(
        clone(f).fit(100 * data.X, data.y, sensitive_features=data.sensitive).covariance_, f.covariance_
    )


def test_bad_input_says_what_was_found():
    data = walkers(100)
    for settings, message in (
        ({"cut": "conv9"}, r"no cut called 'conv9'; did you mean 'conv\d'.*can be cut after conv1, norm1"),
        (
            {"network": backbone((2, 16), 5)},
            r"gives \(5,\) numbers a record, but the targets have 2 classes.*activity: 2",
        ),
        ({"network": backbone((3, 16), 2)}, r"cannot take records of shape \(2, 16\)"),
        ({"network": "resnet"}, "network is a str"),
        ({"n_components": 500}, "n_components is 500, but layer 'relu' gives 128"),
        ({"noise_ratio": -1}, "noise_ratio"),
        ({"beta": "strong"}, "beta"),
        ({"batch_size": 1}, "batch_size"),
    ):
        with pytest.raises(tacit.TacitError, match=message):
            fit(data, **settings)
    with pytest.raises(tacit.TacitError, match=r"not an nn\.Sequential, and torch\.fx cannot trace"):
        fit(data, network=Moody())
    gap = data.X.copy()
    gap[7, 1, 3] = np.nan
    with pytest.raises(tacit.TacitError, match="NaN in row 7"):
        fit(tacit.Dataset(gap, data.y, data.sensitive))
    alone = data.sensitive.copy()
    alone.iloc[41] = 77
    with pytest.raises(tacit.TacitError, match=r"'person': '77' has one record only \(row 41\).*leave that row out"):
        fit(tacit.Dataset(data.X, data.y, alone))
    with pytest.raises(tacit.TacitError, match=r"shape \(2, 8\), but the filter knows \(2, 16\)"):
        fit(data).transform(data.X[:, :, :8])


class Moody(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        return self.out(x.flatten(1)) if x.sum() > 0 else self.out(-x.flatten(1))


# -- long trainings ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:interrupted after 1 of 3")
def test_ctrl_c_before_fine_tuning_is_said(monkeypatch):
    record = Training.record

    def stop(self, **told):
        record(self, **told)
        if len(self.history) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Training, "record", stop)
    data = walkers(120)
    with pytest.warns(tacit.TacitWarning, match="interrupted before fine-tuning.*withholds nothing"):
        f = fit(data)
    assert np.isfinite(f.transform(data.X)).all()


# -- superiority and figures ------------------------------------------------------------------------


def test_superiority_by_hand():
    simple = [(0.9, 0.1), (0.5, 0.5)]
    better = superiority([(0.9, 0.3), (0.5, 0.7)], simple)
    assert better.superior
    assert better.where_not == ()
    assert (better.smallest, better.largest) == pytest.approx((0.2, 0.2))
    worse = superiority(simple, [(0.9, 0.3), (0.5, 0.7)])
    assert not worse.superior
    assert worse.where_not == ((0.5, 0.9),)
    # .3 flat against .1 -> .5: they cross at .7; below it, ours is less private
    crossed = superiority([(0.9, 0.3), (0.5, 0.3)], simple)
    assert crossed.where_not == ((0.5, 0.7),)
    assert superiority([(0.9, 0.3), (0.5, 0.3)], simple, tolerance=0.25).superior
    assert not superiority(simple, simple).superior
    # a point beaten by another of its own curve is not used
    assert superiority([*simple, (0.7, 0.0)], [(0.9, 0.05), (0.5, 0.3)]).superior
    assert superiority([(0.8, 0.3), (0.5, 0.7)], simple).unreached == (0.8, 0.9)
    with pytest.raises(tacit.TacitError, match="no accuracy in common"):
        superiority([(0.2, 0.3)], simple)
    with pytest.raises(tacit.TacitError, match="points"):
        superiority([0.2, 0.3], simple)
