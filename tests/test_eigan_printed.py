"""`EIGAN.as_printed()` is Algorithm A1 of its paper, and the options it sets do what they say."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import tacit
from tacit.federated import DistributedEIGAN, Node
from tacit.filters.base import prepare
from tacit.filters.eigan import Encoder, Game, head_weights
from tacit.records.encoding import make_encoder

pytestmark = pytest.mark.filterwarnings("ignore::tacit.errors.CollapseWarning")  # few epochs will do


@pytest.fixture(scope="module")
def data():
    return tacit.load_dataset("octants", n=300, allies=2)


@pytest.fixture(scope="module")
def problem(data):
    return prepare(tacit.EIGAN(random_state=0), data.X, data.y, data.sensitive, None)


def algorithm_a1(game: Game, alpha: float, rate: float, decay: float, rounds: int) -> nn.Module:
    """Lines 9 to 15 again, from the paper alone: two allies, one adversary, cross-entropy on logits."""
    batches, X, y, s = copy.deepcopy(game.batches), game.X, game.y, game.s
    encoder, *heads = (copy.deepcopy(stack.alone) for stack in (game.encoders, *game.allies, *game.adversaries))
    adams = [torch.optim.Adam(net.parameters(), lr=rate, weight_decay=decay) for net in (encoder, *heads)]
    entropy = nn.functional.cross_entropy

    def losses(rows):
        z = torch.tanh(encoder(X[rows]))
        labels = [y[rows, 0], y[rows, 1], s[rows, 0]]
        return [entropy(head(z), label) for head, label in zip(heads, labels, strict=True)]

    for _ in range(rounds):
        rows = batches.draw()[0]
        first, second, adversary = losses(rows)
        for adam in adams:
            adam.zero_grad()
        (alpha / 2 * (first + second) - (1 - alpha) * adversary).backward()
        adams[0].step()  # line 12: the encoder alone
        for adam in adams:
            adam.zero_grad()
        sum(losses(rows)).backward()
        for adam in adams[1:]:
            adam.step()  # line 14: every head its own loss
    return encoder


def furthest(one: nn.Module, other: nn.Module) -> float:
    return max((a - b).abs().max().item() for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_as_printed_is_algorithm_a1(problem):
    f = tacit.EIGAN.as_printed(3, 0.3, dropout=0.0, batch_size=64, learning_rate=1e-2, weight_decay=1e-3)
    game = Game(f, problem, [0.3], [5])
    literal = algorithm_a1(game, 0.3, 1e-2, 1e-3, 20)
    ours = Game(tacit.EIGAN(3, 0.3, batch_size=64, learning_rate=1e-2), problem, [0.3], [5])
    for _ in range(20):
        game.step()
        ours.step()
    assert furthest(game.encoders.module(0), literal) < 1e-4
    assert furthest(ours.encoders.module(0), literal) > 1e-2  # the control: our own game goes another way


def test_balance_counts_every_class_alike(data):
    """Nine of ten records have one class; an adversary that always says so loses little, unless classes count alike."""
    common = np.where(np.arange(len(data.X)) % 10 == 0, "rare", "common")
    problem = prepare(tacit.EIGAN(random_state=0), data.X, data.y, common, None)

    def loss(balanced):
        game = Game(tacit.EIGAN(2, balanced=balanced), problem, [0.5], [0])
        game.adversaries[0] = lambda z: torch.tensor([2.0, -2.0]).expand(*z.shape[:-1], 2)
        rows = torch.arange(300)[None]
        return game.adversary_losses(game.code(rows, torch.zeros(1)), rows).item()

    assert loss(False) == pytest.approx(0.1 * 4 + 0.018, abs=0.01)
    assert loss(True) == pytest.approx(0.5 * 4 + 0.018, abs=0.01)


def test_a_linear_encoder_is_linear(data):
    f = tacit.EIGAN.as_printed(2, linear=True, epochs=2, random_state=0)
    Z = f.fit(data.X, data.y, sensitive_features=data.sensitive).transform
    a, b = data.X[:50], data.X[50:100]
    middle = Z(0.5 * a + 0.5 * b)
    assert middle == pytest.approx(0.5 * Z(a) + 0.5 * Z(b), abs=1e-6)
    assert np.abs(Z(50 * a)).max() > 1  # no tanh
    curved = tacit.EIGAN(2, encoder=lambda i, o: nn.Linear(i, o), epochs=2, random_state=0)
    Z = curved.fit(data.X, data.y, sensitive_features=data.sensitive).transform
    assert Z(0.5 * a + 0.5 * b) != pytest.approx(0.5 * Z(a) + 0.5 * Z(b), abs=1e-3)  # the control


def test_an_unbounded_code_is_released_alike_from_a_bundle_and_out_of_fold(data, tmp_path):
    f = tacit.EIGAN.as_printed(2, linear=True, epochs=2, learning_rate=0.1, random_state=0)
    f.fit(data.X, data.y, sensitive_features=data.sensitive)
    tacit.save(f, tmp_path / "linear.tacit")
    loaded, Z = tacit.load(tmp_path / "linear.tacit"), f.transform(data.X)
    assert loaded.transform(data.X) == pytest.approx(Z, abs=1e-5)
    assert np.abs(Z).max() > 1
    assert np.abs(f.release_training_rows()).max() > 1


def test_noise_needs_a_bounded_code(data):
    with pytest.raises(tacit.TacitError, match="bounded"):
        tacit.EIGAN(2, noise=0.3, bounded=False).fit(data.X, data.y, sensitive_features=data.sensitive)


def test_dropout_is_in_training_alone_and_repeats_with_its_seed(data):
    def fit(**more):
        f = tacit.EIGAN.as_printed(2, epochs=2, random_state=3, **more)
        return f.fit(data.X, data.y, sensitive_features=data.sensitive)

    one, two, without = fit(), fit(), fit(dropout=0.0)
    assert np.array_equal(one.transform(data.X), two.transform(data.X))
    assert np.array_equal(one.transform(data.X), one.transform(data.X))
    assert not np.allclose(one.transform(data.X), without.transform(data.X))
    assert any(isinstance(m, nn.Dropout) for m in one.encoder_module_.modules())


def test_a_printed_game_of_one_node_is_eigan_with_dropout_too(data, monkeypatch):
    # nodes agree on exact means and scales; a fit in one place rounds them to what its people support
    monkeypatch.setattr("tacit.records.intake.make_encoder", lambda X, crowd: make_encoder(X))
    settings = {"epochs": 2, "random_state": 0, "dropout": 0.3}
    alone = tacit.EIGAN.as_printed(2, **settings)
    alone.fit(data.X, data.y, sensitive_features=data.sensitive)
    node = DistributedEIGAN.as_printed(2, **settings).fit([Node(data.X, data.y, sensitive_features=data.sensitive)])
    assert np.array_equal(alone.transform(data.X), node.transform(data.X))


def test_weight_decay_makes_weights_smaller(problem):
    def size(decay):
        game = Game(tacit.EIGAN.as_printed(2, dropout=0.0, weight_decay=decay), problem, [0.5], [0])
        for _ in range(60):
            game.step()
        return sum(p.pow(2).sum().item() for p in game.encoders.parameters())

    assert size(1.0) < 0.9 * size(0.0)


def test_equation_4_is_equation_3_up_to_its_scale(problem):
    literal = head_weights(tacit.EIGAN(equation=4), problem.targets, problem.sensitive, 0.25)
    assert literal == pytest.approx([1, 1, 0.25])  # two allies, one adversary
    same = head_weights(tacit.EIGAN(), problem.targets, problem.sensitive, 2 / (2 + 0.25))
    assert literal / literal.sum() == pytest.approx(same)
    other = head_weights(tacit.EIGAN(), problem.targets, problem.sensitive, 0.25)
    assert literal / literal.sum() != pytest.approx(other)  # the control: alpha does not mean the same
    with pytest.raises(tacit.TacitError, match="equation=4"):
        head_weights(tacit.EIGAN(equation=4, target_weights=[1, 2]), problem.targets, problem.sensitive, 0.25)


def test_encoders_know_whether_they_are_bounded():
    net = nn.Linear(2, 1).double()
    nn.init.constant_(net.weight, 0.1)
    x = np.full((1, 2), 100.0)
    assert abs(Encoder(net)(x)[0, 0]) <= 1
    assert abs(Encoder(net, bounded=False)(x)[0, 0]) > 1
