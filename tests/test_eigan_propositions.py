"""Propositions 1 to 4 of the EIGAN paper, each with a control that shows where it would fail."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch

import tacit
from papers.eigan.propositions import encoders, equation_12, equation_17, posterior, score, utility
from tacit.federated import DistributedEIGAN, Node
from tacit.filters.base import Problem, prepare
from tacit.filters.eigan import Game, head_weights
from tacit.labels import encode_labels

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.TacitWarning")  # overlapping wishes are warned of

# four kinds of records, (y, s) = 00, 01, 10, 11, one as common as the other
KINDS = np.full(4, 0.25)
Y, S = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])


def mass(labels, shares=KINDS):
    return shares[:, None] * np.eye(2)[labels]


def best(allies, adversaries, weights):
    """All encoders whose score is the highest."""
    scores = {code: score(allies, adversaries, weights, code) for code in encoders(4)}
    top = max(scores.values())
    return [code for code, value in scores.items() if value > top - 1e-9], scores


# -- Proposition 1 -------------------------------------------------------------------------------------


def test_at_the_best_encoder_the_adversary_is_uniform_and_the_ally_certain():
    """Interests that do not overlap: whatever the weights, the best adversary can only say 1/2."""
    for alpha in (0.1, 0.5, 0.9):
        winners, scores = best([mass(Y)], [mass(S)], [alpha, 1 - alpha])
        for code in winners:
            used, of = posterior(mass(S), code, 4)
            assert of[used > 0] == pytest.approx(0.5)
            assert utility(mass(Y), code, 4) == pytest.approx(0)
        assert scores[0, 1, 2, 3] < max(scores.values()) - 0.05  # the control: an encoder that tells all


def test_with_unequal_classes_it_is_the_prior_and_not_uniform():
    """The paper says uniform; that is the case of equal classes."""
    shares = np.array([0.4, 0.1, 0.4, 0.1])
    winners, _ = best([mass(Y, shares)], [mass(S, shares)], [0.5, 0.5])
    for code in winners:
        used, of = posterior(mass(S, shares), code, 4)
        assert of[used > 0] == pytest.approx(np.tile([0.8, 0.2], (int((used > 0).sum()), 1)))


def test_of_one_label_that_both_want_the_heavier_wish_is_heard():
    """eq. 11: the ally and the adversary want the same label."""
    told, hidden = (best([mass(Y)], [mass(Y)], [a, 1 - a])[0] for a in (0.6, 0.4))
    assert all(utility(mass(Y), code, 4) == pytest.approx(0) for code in told)
    assert all(utility(mass(Y), code, 4) == pytest.approx(-np.log(2)) for code in hidden)
    both, scores = best([mass(Y)], [mass(Y)], [0.5, 0.5])
    assert len(both) == len(scores)  # equal weights: no encoder is better than another


def trained_adversary(alpha, target):
    """What the adversary of shape says in the end, where the ally wants `target`."""
    data = tacit.load_dataset("gaussians", n=600, random_state=0)
    f = tacit.EIGAN(1, alpha, batch_size=64, random_state=0)
    y = {"colour": data.y, "shape": data.sensitive.rename(columns={"shape": "wanted"})}[target]
    game = Game(f, prepare(f, data.X, y, data.sensitive, None), [alpha], [0])
    for _ in range(30):
        game.advance(game.batches.per_epoch)
    with torch.no_grad():
        z = game.code(torch.arange(600)[None], torch.zeros(1))
        return torch.softmax(game.adversaries[0](z), -1)[0, :, 0].numpy()


def test_the_trained_adversary_answers_near_one_half():
    """Mean distance from 1/2: .010 to .013 in seeds 0 to 2; where the ally wants the same and weighs more, above .3."""
    assert np.abs(trained_adversary(0.5, "colour") - 0.5).mean() < 0.05
    assert np.abs(trained_adversary(0.9, "shape") - 0.5).mean() > 0.3


# -- Proposition 2 -------------------------------------------------------------------------------------


def system(alpha_ally, y_ally, alphas, ys, ws):
    def U(outputs):
        return alpha_ally * y_ally * np.log(np.dot(ws, outputs)) - np.dot(np.multiply(alphas, ys), np.log(outputs))

    return U


@pytest.mark.parametrize("seed", range(20))
def test_equation_12_is_the_adversarys_best_answer(seed):
    rng = np.random.default_rng(seed)
    alphas, ys, ws = rng.uniform(0.1, 0.3, 3), rng.uniform(0.2, 1, 3), rng.uniform(0.2, 1, 3)
    alpha_ally, y_ally, outputs = 0.6, 1.0, rng.uniform(0.1, 0.9, 3)
    rest = ws[1:] @ outputs[1:]
    found = equation_12(alpha_ally, y_ally, alphas[0], ys[0], ws[0], rest)
    U = system(alpha_ally, y_ally, alphas, ys, ws)
    at = lambda v: U(np.array([v, *outputs[1:]]))  # noqa: E731
    grid = np.geomspace(found / 50, found * 50, 20001)
    assert grid[np.argmin([at(v) for v in grid])] == pytest.approx(found, rel=2e-3)
    assert at(found * 1.3) > at(found) < at(found / 1.3)


def test_equation_12_needs_a_heavy_ally():
    """Where alpha_V y_V >= alpha_A y_A it gives no positive output: U falls in it without end."""
    assert equation_12(0.6, 1.0, 0.3, 1.0, 0.5, 0.4) > 0
    assert equation_12(0.2, 1.0, 0.3, 1.0, 0.5, 0.4) < 0
    U = system(0.2, 1.0, [0.3, 0.1], [1.0, 1.0], [0.5, 0.5])
    path = [U(np.array([v, 0.8])) for v in (0.1, 1, 10, 100)]
    assert all(np.diff(path) < 0)


def test_an_adversary_whose_wish_follows_from_the_allys_is_not_uniform():
    """Parity is a function of the digit: with enough weight on the ally the best adversary knows it (Fig. 16)."""
    quarter = np.eye(4) * 0.25  # the ally wants the kind itself, the adversary a function of it
    heavy, _ = best([quarter], [mass(Y)], [0.7, 0.3])
    light, _ = best([quarter], [mass(Y)], [0.1, 0.9])
    assert all(utility(mass(Y), code, 4) == pytest.approx(0) for code in heavy)
    assert all(utility(mass(Y), code, 4) == pytest.approx(-np.log(2)) for code in light)


# -- Proposition 3 -------------------------------------------------------------------------------------


def nodes_of(data):
    return [Node(d.X, d.y, sensitive_features=d.sensitive) for d in data.split("official")]


def test_proposition_1_holds_at_every_alike_node():
    """Its adversary's loss is guessing's, ln 2, at each of three nodes; not where the ally wants the same, and more."""
    data = tacit.load_dataset("gaussians", n=400, n_nodes=3, iid=True, random_state=0)
    settings = {"adversary_steps": 3, "batch_size": 32, "random_state": 0}

    def losses(alpha, epochs, nodes):
        f = DistributedEIGAN(1, alpha, epochs=epochs, **settings).fit(nodes)
        return [lines[-1] for lines in f.node_history_.values()]

    for line in losses(0.5, 15, nodes_of(data)):
        assert line["adversary shape"] == pytest.approx(np.log(2), abs=0.03)
        assert line["target colour"] < 0.5
    same = [Node(n.X, n.sensitive_features, sensitive_features=n.sensitive_features) for n in nodes_of(data)]
    for line in losses(0.9, 15, same):
        assert line["adversary shape"] < np.log(2) - 0.2


# -- Proposition 4 -------------------------------------------------------------------------------------


def wishes(labels, columns):
    return encode_labels(pd.DataFrame({c: labels[c] for c in columns}), "y", len(labels))


def encoder_gradient(game, weights):
    rows = torch.arange(len(game.X))[None]
    z = game.code(rows, torch.zeros(1))
    kept, hidden = game.ally_losses(z, rows), game.adversary_losses(z, rows)
    loss = (torch.as_tensor(weights, dtype=torch.float32)[:, None] * torch.cat([kept, -hidden])).sum()
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, game.encoders.parameters())])


def test_an_objective_weighs_as_the_share_of_nodes_that_have_it():
    """eq. 17 by gradients: two nodes with one common ally, and an ally and an adversary of their own each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)).astype(np.float32)
    labels = pd.DataFrame({c: np.where(X[:, i] > 0, "a", "b") for i, c in enumerate(("common", "own1", "own2", "s"))})
    labels["s1"], labels["s2"] = labels["s"], np.where(X[:, 0] + X[:, 1] > 0, "a", "b")
    f = tacit.EIGAN(2, balanced=False)

    def game(allies, adversaries):
        problem = Problem(X, wishes(labels, allies), wishes(labels, adversaries), None, 3)
        return Game(f, problem, [0.5], [3]), head_weights(f, problem.targets, problem.sensitive, 0.5)

    (one, w1), (two, w2), (all_, _) = (
        game(["common", "own1"], ["s1"]),
        game(["common", "own2"], ["s2"]),
        game(["common", "own1", "own2"], ["s1", "s2"]),
    )
    # the same heads wherever an objective is the same
    all_.allies[1], all_.allies[2] = (copy.deepcopy(g.allies[1]) for g in (one, two))
    all_.allies[0] = copy.deepcopy(one.allies[0])
    two.allies[0] = copy.deepcopy(one.allies[0])
    all_.adversaries = [copy.deepcopy(g.adversaries[0]) for g in (one, two)]
    nodes = [dict(zip(("common", "own1", "s1"), w1, strict=True)), dict(zip(("common", "own2", "s2"), w2, strict=True))]
    shared = equation_17(nodes)
    assert shared == pytest.approx({"common": 0.25, "own1": 0.125, "s1": 0.25, "own2": 0.125, "s2": 0.25})
    names = ("common", "own1", "own2", "s1", "s2")
    mean = (encoder_gradient(one, w1) + encoder_gradient(two, w2)) / 2  # of (6), whose encoders are one
    assert torch.allclose(mean, encoder_gradient(all_, [shared[n] for n in names]), atol=1e-6)
    unscaled = [max(of.get(n, 0.0) for of in nodes) for n in names]
    assert not torch.allclose(mean, encoder_gradient(all_, unscaled), atol=1e-4)  # the control
