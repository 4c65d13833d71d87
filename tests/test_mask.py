"""TaskMask: exactly K % of the pixels, found where the task lies, hard at release; covers; the face embedding."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import ndimage
from sklearn.base import clone
from torch import nn

import tacit
from papers.common.recogniser import face_embedding
from papers.data import locate
from tacit.baselines import BlockMask, BlurMask, Pixelate, RandomMask
from tacit.filters.mask import MaskGame, uniform_loss
from tacit.nets.convolutional import image_classifier
from tacit.nets.top_k import top_k
from tacit.nets.unet import Masker, UNet

# a single epoch learns nothing, and says so
pytestmark = pytest.mark.filterwarnings("ignore:collapsed")
TASK = (slice(2, 8), slice(9, 15))  # where the task lies


def small_masker(shape, n_out):
    return Masker(shape, (n_out,), width=4)


def small_predictor(shape, n_out):
    return image_classifier(shape, n_out, width=8)


def patches(n, seed=0):
    """16x16 noise; the patch upper right is a little brighter where y=1, the one lower left where s=1.

    One pixel says little (its two means are .8 deviations apart), 36 of the right ones nearly all.
    """
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=n), rng.integers(2, size=n)
    X = 0.5 + 0.1 * rng.standard_normal((n, 1, 16, 16))
    X[:, 0, 2:8, 9:15] += 0.08 * (y - 0.5)[:, None, None]
    X[:, 0, 9:15, 1:7] += 0.08 * (s - 0.5)[:, None, None]
    return tacit.Dataset(X, pd.DataFrame({"y": y}), pd.DataFrame({"s": s}))


def small(**changes):
    settings = {"keep": 36 / 256, "epochs": 3, "batch_size": 32, "random_state": 0, "device": "cpu"}
    return tacit.TaskMask(**{**settings, "masker": small_masker, "predictor": small_predictor, **changes})


@pytest.fixture(scope="module")
def data():
    return patches(900).split((0.5, 0.25, 0.25), random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    return small(epochs=12).fit(data[0].X, data[0].y)


def test_the_mask_finds_the_task_where_a_random_one_does_not(data, fitted):
    _, attack, test = data
    where = fitted.mask(test.X).mean(axis=0)[0]
    inside = where[TASK].sum()
    assert inside / 36 > 4 * (where.sum() - inside) / 220  # more than four times as dense as elsewhere
    learned, control = (
        tacit.audit(f, attack, test, attackers="logistic", measurements="no-baseline")
        for f in (fitted, RandomMask(36 / 256, fill=0.5))
    )
    assert learned.utility["y"].low > control.utility["y"].high
    # and what the task does not need is hidden: the other patch tells no more than a random mask's would
    assert learned.leakage["s"].low < control.leakage["s"].high
    assert "mask only" in {a.kind for a in learned.attacks}


@pytest.mark.parametrize("adversarial,complement", [(True, "paper"), (True, "rest"), (False, "rest")])
@pytest.mark.parametrize("keep", [0.01, 0.33])
def test_exactly_k_percent_in_every_image(data, keep, adversarial, complement):
    some = data[0].take(np.arange(150))
    f = small(keep=keep, adversarial=adversarial, complement=complement, epochs=1).fit(some.X, some.y)
    masks = f.mask(data[2].X)
    assert masks.shape == (len(data[2]), 1, 16, 16)
    assert set(masks.sum(axis=(1, 2, 3)).tolist()) == {round(keep * 256)}
    assert ("obfuscator" in f.history_[0]) == adversarial


def test_ties_go_to_the_first_pixels():
    none = torch.zeros(3, 4, dtype=torch.bool)
    assert top_k(torch.zeros(2, 1, 3, 4), 5, none, none).flatten(1).int().tolist() == [[1] * 5 + [0] * 7] * 2
    rng = np.random.default_rng(0)
    for k in range(1, 13):  # against a slow rule: sort by score, then by place
        scores = rng.integers(4, size=(6, 12)).astype(np.float32)
        slow = np.zeros((6, 12), dtype=bool)
        for i, row in enumerate(scores):
            slow[i, np.lexsort((np.arange(12), -row))[:k]] = True
        fast = top_k(torch.from_numpy(scores).reshape(6, 1, 3, 4), k, none, none)
        assert np.array_equal(fast.flatten(1).numpy(), slow)


def test_the_release_is_hard(data, fitted):
    X = data[2].X
    Z, masks = fitted.transform(X), fitted.mask(X)
    assert Z.shape == X.shape
    assert np.array_equal(Z[masks], X[masks])  # to the last bit: no confidence in the values
    # the mean, rounded to what the number of people supports
    assert np.unique(Z[~masks]).tolist() == [pytest.approx(data[0].X.mean(), abs=0.01)]
    black = small(fill=0.0, epochs=1).fit(data[0].X, data[0].y)
    assert not black.transform(X)[~black.mask(X)].any()


def test_regions_are_kept(data):
    train, test = data[0].take(np.arange(150)), data[2]
    corner = np.zeros((16, 16), dtype=bool)
    corner[14:, 14:] = True
    f = small(always=(0, 0, 3, 4), never=corner, keep=0.9, epochs=1).fit(train.X, train.y)
    masks = f.mask(test.X)
    assert masks[:, 0, :3, :4].all()
    assert not masks[:, 0, 14:, 14:].any()
    assert set(masks.sum(axis=(1, 2, 3)).tolist()) == {round(0.9 * 256)}
    free = small(keep=0.9, epochs=1).fit(train.X, train.y).mask(test.X)
    assert free[:, 0, 14:, 14:].any()  # the control: without the region these are shown


def test_the_obfuscator_moves_the_masker_only(data, fitted):
    game = MaskGame(fitted, fitted._problem)
    before = {
        n: {k: v.clone() for k, v in m.state_dict().items()} for n, m in (("m", game.masker), ("p", game.predictor))
    }
    game.obfuscator_step(torch.arange(64))
    assert all(torch.equal(v, before["p"][k]) for k, v in game.predictor.state_dict().items())  # running means too
    assert not all(torch.equal(v, before["m"][k]) for k, v in game.masker.state_dict().items())
    game.predictor_step(torch.arange(64))
    assert not all(torch.equal(v, before["p"][k]) for k, v in game.predictor.state_dict().items())


def test_uniform_loss_is_lowest_at_uniform():
    assert uniform_loss(torch.zeros(5, 2), [2]).item() == pytest.approx(np.log(2))
    assert uniform_loss(torch.tensor([[3.0, 0.0]]), [2]).item() > np.log(2) + 0.5


# -- as printed, and what it may be changed to -----------------------------------------------------


def printed(**changes):
    return tacit.TaskMask.as_printed(
        **{"keep": 36 / 256, "epochs": 1, "batch_size": 32, "random_state": 0, "device": "cpu", **changes}
    )


@pytest.fixture(scope="module")
def as_printed(data):
    return printed().fit(data[0].X, data[0].y)


def test_as_printed_the_masker_is_a_unet_alone(as_printed, fitted):
    assert type(as_printed.masker_) is UNet
    assert not hasattr(as_printed.masker_, "place")
    assert not any(isinstance(m, nn.Linear) for m in as_printed.masker_.modules())  # no head for classes
    assert not any(m.p for m in as_printed.predictor_.modules() if isinstance(m, nn.Dropout))
    assert hasattr(fitted.masker_, "place")  # the control: ours has


def test_as_printed_the_networks_see_the_two_halves_of_the_soft_mask(data, as_printed, monkeypatch):
    game = MaskGame(as_printed, as_printed._problem)
    rows, seen = torch.arange(32), []
    look = game.predictor.forward
    monkeypatch.setattr(game.predictor, "forward", lambda x: seen.append(x.detach().clone()) or look(x))
    x = game.X[rows]
    for step in (game.predictor_step, game.obfuscator_step):
        game.masker.train()
        with torch.no_grad():
            m = torch.sigmoid(game.masker(x)).flatten(1)  # batch norm: the same batch gives the same scores
        top = torch.zeros_like(m).scatter(1, m.argsort(1, descending=True)[:, :36], 1.0)
        step(rows)
        expected = m * top if step == game.predictor_step else m - m * top
        assert torch.allclose(seen.pop(), expected.reshape(x.shape) * x, atol=1e-6)
    assert game.revealed_at(0) == 36  # closed from the first batch; ours is open then
    assert MaskGame(small().fit(data[0].X[:60], data[0].y[:60]), as_printed._problem).revealed_at(0) == 256


def test_as_printed_three_to_one_hard_at_release_black_elsewhere(data, monkeypatch):
    steps = []
    for name in ("predictor_step", "obfuscator_step"):
        step = getattr(MaskGame, name)
        monkeypatch.setattr(MaskGame, name, lambda self, rows, s=step, n=name: steps.append(n[0]) or s(self, rows))
    f = printed().fit(data[0].X, data[0].y)
    assert "".join(steps) == "pppo" * 4
    X, masks = data[2].X, f.mask(data[2].X)
    assert set(masks.sum(axis=(1, 2, 3)).tolist()) == {36}
    assert np.array_equal(f.transform(X), np.where(masks, X, 0.0))


def test_smooth_scores_make_regions(data, tmp_path):
    train, X = data[0].take(np.arange(150)), data[2].X[:20]
    pieces = {}
    for smooth in (0.0, 2.0):
        f = small(smooth=smooth, epochs=2, class_maps=False).fit(train.X, train.y)
        masks = f.mask(X)
        assert set(masks.sum(axis=(1, 2, 3)).tolist()) == {36}
        pieces[smooth] = np.mean([ndimage.label(m[0])[1] for m in masks])
    assert pieces[2.0] < 4 < pieces[0.0]
    tacit.save(f, tmp_path / "f.tacit")
    assert np.array_equal(tacit.load(tmp_path / "f.tacit").transform(X), f.transform(X))


def test_a_low_temperature_makes_soft_scores_nearly_hard(as_printed):
    scores = torch.linspace(-1, 1, 256).reshape(1, 1, 16, 16)
    cold = MaskGame(printed(temperature=0.01).fit(as_printed._problem.X[:60], np.arange(60) % 2), as_printed._problem)
    warm = MaskGame(as_printed, as_printed._problem)
    assert ((cold.masks(scores)[0] - 0.5).abs() > 0.49).float().mean() > 0.9
    assert ((warm.masks(scores)[0] - 0.5).abs() < 0.25).all()
    assert torch.equal(cold.masks(scores)[1], warm.masks(scores)[1])


def test_a_few_photos_in_colour():
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 3, 24, 24)), rng.integers(2, size=200)
    X[y == 1, :, 4:10, 4:10] += 1
    f = tacit.TaskMask.for_photos(keep=0.1, epochs=8, random_state=0).fit(X, y)
    assert set(f.mask(X).sum(axis=(1, 2, 3)).tolist()) == {58}
    assert f.mask(X)[:, 0, 4:10, 4:10].mean() > 3 * f.mask(X).mean()


# -- the contract ---------------------------------------------------------------------------------


def weights(f):
    return np.concatenate([p.detach().numpy().ravel() for p in f.masker_.parameters()])


def test_same_seed_same_bits_other_seed_another_result(data):
    some = data[0].take(np.arange(150))
    a, b, c = (small(random_state=s, epochs=1).fit(some.X, some.y) for s in (0, 0, 1))
    assert np.array_equal(weights(a), weights(b))
    assert np.array_equal(a.transform(data[2].X), b.transform(data[2].X))
    assert not np.array_equal(weights(a), weights(c))


def test_an_image_is_released_alike_alone_and_in_any_order(data, fitted):
    X = data[2].X
    assert np.array_equal(fitted.transform(X[::-1])[::-1], fitted.transform(X))
    assert np.array_equal(fitted.transform(X[:1]), fitted.transform(X)[:1])
    assert fitted.seen(data[0].X).all()
    assert not fitted.seen(X).any()


def test_several_targets_missing_labels_colour_and_odd_sizes():
    rng = np.random.default_rng(0)
    X = rng.random((80, 3, 9, 13)).astype(np.float32)
    y = pd.DataFrame({"a": rng.integers(3, size=80), "b": rng.integers(2, size=80)}).astype(object)
    y.iloc[:20, 0], y.iloc[10:40, 1] = None, None
    f = small(keep=0.5, epochs=1).fit(X, y)
    assert f.transform(X).shape == X.shape
    assert set(f.mask(X).sum(axis=(1, 2, 3)).tolist()) == {round(0.5 * 9 * 13)}
    assert (255 * X).astype(np.uint8).dtype == np.uint8
    assert f.fit((255 * X).astype(np.uint8), y).transform((255 * X).astype(np.uint8)).max() > 1


def test_training_rows_are_released_out_of_fold(data):
    train = data[0].take(np.arange(120))
    f = small(epochs=1).fit(train.X, train.y)
    Z = f.release_training_rows()
    shown = train.X == Z
    assert set(shown.sum(axis=(1, 2, 3)).tolist()) == {36}
    assert not np.array_equal(Z, f.transform(train.X))


def test_a_task_that_is_not_there_is_reported():
    rng = np.random.default_rng(0)
    with pytest.warns(tacit.TacitWarning, match="collapsed.*raise keep"):
        small(epochs=1, keep=0.02).fit(rng.random((200, 1, 16, 16)), np.arange(200) % 10 == 0)


BAD = {
    "mixed sizes": (lambda X, y: ([*X[:5], X[5][:, :12]], y[:6]), {}, r"image 5 has \(1, 12, 16\).*one size"),
    "small": (lambda X, y: (X[:, :, :6], y), {}, "6x16 pixels.*8x8"),
    "rows": (lambda X, y: (X.reshape(len(X), -1), y), {}, r"\(n, channels, height, width\)"),
    "NaN": (
        lambda X, y: (np.where(np.arange(X.size).reshape(X.shape) == 259, np.nan, X), y),
        {},
        "image 1: NaN.*column 3",
    ),
    "no target": (lambda X, y: (X, None), {}, "y"),
    "keep 0": (lambda X, y: (X, y), {"keep": 0}, "keep must be above 0"),
    "keep 2": (lambda X, y: (X, y), {"keep": 2}, "keep must be a number between 0 and 1"),
    "box": (lambda X, y: (X, y), {"never": (0, 0, 17, 4)}, "never is the box.*bottom 17.*16x16"),
    "empty box": (lambda X, y: (X, y), {"always": (4, 4, 4, 9)}, "always is the box"),
    "no box": (lambda X, y: (X, y), {"always": "left"}, "always must be a box"),
    "array": (lambda X, y: (X, y), {"never": np.zeros((3, 3), dtype=bool)}, r"never has shape \(3, 3\)"),
    "both": (lambda X, y: (X, y), {"always": (0, 0, 2, 2), "never": (1, 1, 3, 3)}, "both always and never"),
    "too much": (lambda X, y: (X, y), {"always": (0, 0, 16, 8)}, "always has 128 pixels.*raise keep"),
    "too little": (lambda X, y: (X, y), {"never": (0, 0, 16, 15)}, "never leaves 16 pixels.*lower keep"),
    "complement": (lambda X, y: (X, y), {"complement": "half"}, "'paper' or 'rest'"),
    "temperature": (lambda X, y: (X, y), {"temperature": 0}, "temperature must be"),
    "smooth": (lambda X, y: (X, y), {"smooth": -1}, "smooth must be"),
    "narrowing": (lambda X, y: (X, y), {"narrowing": 2}, "narrowing must be"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_says_what_to_do(what, data):
    change, settings, message = BAD[what]
    X, y = change(data[0].X, data[0].y["y"].to_numpy())
    with pytest.raises(tacit.TacitError, match=message):
        small(**settings).fit(X, y)


def test_other_images_than_those_of_the_fit_are_refused(data, fitted):
    with pytest.raises(tacit.TacitError, match=r"\(1, 16, 12\).*\(1, 16, 16\)"):
        fitted.transform(data[2].X[..., :12])


def test_the_best_state_is_the_one_that_is_kept(fitted):
    game = MaskGame(fitted, fitted._problem)
    game.masker, game.predictor = fitted.masker_, fitted.predictor_
    assert game.accuracy() == max(line["accuracy"] for line in fitted.history_)


# -- covers, the embedding, the figure ------------------------------------------------------------


@pytest.mark.parametrize("cover", [BlockMask(), BlurMask(), Pixelate(), RandomMask()])
def test_covers_hide_their_region_and_nothing_else(cover):
    X = np.random.default_rng(0).random((3, 3, 21, 16)).astype(np.float32)
    Z = clone(cover).fit_transform(X)
    assert Z.shape == X.shape
    assert Z.dtype == X.dtype
    assert not np.array_equal(Z, X)
    assert not cover.seen(X).any()
    if "region" in cover.get_params():
        boxed = clone(cover).set_params(region=(2, 3, 9, 10)).transform(X)
        assert (boxed[:, :, 2:9, 3:10] != X[:, :, 2:9, 3:10]).mean() > 0.9
        boxed[:, :, 2:9, 3:10] = X[:, :, 2:9, 3:10]
        assert np.array_equal(boxed, X)
        with pytest.raises(tacit.TacitError, match="region is the box"):
            clone(cover).set_params(region=(0, 0, 22, 16)).transform(X)


def test_a_share_is_the_centre_and_leaves_the_border():
    X = np.random.default_rng(0).random((2, 1, 16, 16))
    for cover in (BlurMask(3, share=0.75), BlockMask(share=0.75), Pixelate(4, share=0.75)):
        changed = (cover.transform(X) != X).any(axis=(0, 1))
        assert changed[2:14, 2:14].all()
        assert not changed[[0, 1, 14, 15]].any()
        assert not changed[:, [0, 1, 14, 15]].any()


def test_covers_do_what_they_say():
    X = np.random.default_rng(0).random((2, 1, 10, 10))
    assert np.allclose(Pixelate(5).transform(X)[:, 0, :5, 5:], X[:, 0, :5, 5:].mean(axis=(1, 2), keepdims=True))
    assert Pixelate(4).transform(X)[0, 0, 9, 9] == pytest.approx(X[0, 0, 8:, 8:].mean())
    assert BlurMask(0).transform(X) == pytest.approx(X)
    assert BlurMask(3).transform(X).std() < BlurMask(1).transform(X).std() < X.std()
    assert (BlockMask(share=1, fill=2).transform(X) == 2).all()
    assert RandomMask(0.3).mask(X).sum() == 60
    for bad, word in (
        (BlurMask(-1), "sigma"),
        (Pixelate(0), "cell"),
        (BlockMask(share=2), "share"),
        (RandomMask(0), "keep"),
    ):
        with pytest.raises(tacit.TacitError, match=word):
            bad.fit(X)


@pytest.fixture(scope="module")
def recogniser():
    if locate("face_recogniser/face_recogniser.safetensors") is None:
        pytest.skip("the face recogniser is not here; set TACIT_DATA to the folder that has it")
    return face_embedding


def test_the_embedding_knows_people(recogniser, real):
    orl = real("orl_faces").take(np.arange(60))
    embed = recogniser(crop=(0.10, 0.05, 0.95, 0.95), device="cpu")
    E, who = embed(orl.X), orl.sensitive["person"].to_numpy()
    assert E.shape == (60, 128)
    distance = ((E[:, None] - E) ** 2).sum(axis=-1)
    np.fill_diagonal(distance, np.inf)
    assert (who[distance.argmin(axis=1)] == who).mean() > 0.9  # guessing: one in six
    with pytest.raises(tacit.TacitError, match="divide by 255"):
        embed(255 * orl.X[:1])
    with pytest.raises(tacit.TacitError, match="crop"):
        recogniser(crop=(0.5, 0, 0.4, 1))
