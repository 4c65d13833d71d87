"""Bundles from strangers: what they cannot do to the owner's noise, to the machine that loads them, to the screen."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tacit
from forged import forged
from tacit.release.bundle import read_bundle

KEY = b"k" * 32


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((400, 3)), rng.integers(2, size=400)


@pytest.fixture(scope="module")
def noisy(rows):
    return tacit.baselines.LaplaceMechanism(3.0).fit(*rows)


@pytest.fixture(scope="module")
def saved(noisy, tmp_path_factory):
    return tacit.save(noisy, tmp_path_factory.mktemp("strangers") / "own.tacit")


def changed_noise(**changes):
    return lambda manifest: manifest | {"noise": manifest["noise"] | changes}


def doubled(path):
    """The graph of a bundle whose code is twice as large."""
    model = onnx.load_model_from_string(read_bundle(path).members["model.onnx"])
    last = next(n for n in model.graph.node if "before_noise" in n.output)
    last.output[0] = "once"
    model.graph.initializer.append(helper.make_tensor("two", TensorProto.DOUBLE, [], [2.0]))
    model.graph.node.append(helper.make_node("Mul", ["once", "two"], ["before_noise"]))
    return model.SerializeToString()


# -- noise that is taken off without the key ------------------------------------------------------


@pytest.mark.parametrize("key", ["the filter's", "another"])
def test_noise_does_not_come_off_by_a_second_bundle_under_the_same_key(saved, noisy, rows, tmp_path, key):
    """Before: 2 z1 - z2, or z2 - z1, was the code to a few parts in ten thousand of the noise."""
    key = noisy.noise_key if key == "the filter's" else KEY
    own = tacit.load(saved, noise_key=key)
    scale, code, z1 = own.noise.scale, own.noiseless(rows[0]), own.transform(rows[0])
    twice = forged(saved, tmp_path / "a.tacit", changed_noise(scale=2 * scale))
    z2 = tacit.load(twice, noise_key=key).transform(rows[0])
    wider = forged(saved, tmp_path / "b.tacit", changed_noise(radius=1e9), model_onnx=doubled(saved))
    z3 = tacit.load(wider, noise_key=key).transform(rows[0])
    for guess in (2 * z1 - z2, z3 - z1):
        assert np.std(guess - code) > scale  # laplace noise of this scale has a deviation of 1.4 scale


def test_a_bundle_that_is_only_copied_or_audited_again_keeps_its_draws(saved, noisy, rows, tmp_path):
    copy = forged(saved, tmp_path / "copy.tacit", card_md=b"another card")
    for key in (noisy.noise_key, KEY):
        expected = tacit.load(saved, noise_key=key).transform(rows[0])
        assert np.array_equal(tacit.load(copy, noise_key=key).transform(rows[0]), expected)
    assert np.array_equal(tacit.load(copy, noise_key=noisy.noise_key).transform(rows[0]), noisy.transform(rows[0]))


def test_redraws_refits_and_versions_draw_apart(noisy, rows, tmp_path):
    """Correlations of 1,200 draws lie within 5 standard errors; a false alarm in 100,000 runs."""
    X = rows[0]
    filters = [noisy, tacit.baselines.LaplaceMechanism(3.0).fit(2 * X, rows[1])]
    bundles = [tacit.save(f, tmp_path / f"{i}.tacit") for i, f in enumerate(filters)]
    releases = [tacit.load(b, noise_key=KEY) for b in bundles]
    releases.append(releases[0].redraw())
    drawn = [(r.transform(X) - r.noiseless(X)).ravel() for r in releases]
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 5 / np.sqrt(X.size)
