"""Stacked games train as they would alone; the exact game's loss, closed rule and code keep their promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.filters.base import prepare
from tacit.filters.eigan import head_weights
from tacit.labels import MISSING
from tacit.solvers.exact import (
    Condensed,
    closed_code,
    code_loss,
    counted_terms,
    hard_loss,
    label_mass,
    learn_linear_codes,
)
from tacit.training.loop import cross_entropy
from tacit.training.stack import Batches


@pytest.fixture(scope="module")
def problem():
    data = tacit.load_dataset("octants", n=300, allies=2)
    return prepare(tacit.EIGAN(random_state=0), data.X, data.y, data.sensitive, None)


def test_games_of_the_same_seed_see_the_same_batches():
    batches = Batches(100, 10, [1, 1, 2])
    rows = torch.cat([batches.draw() for _ in range(10)], dim=1)
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])
    assert sorted(rows[0].tolist()) == list(range(100))


def test_cross_entropy_leaves_missing_labels_out():
    logits = torch.randn(2, 6, 3)
    labels = torch.tensor([[0, 1, 2, MISSING, 1, 0], [2, MISSING, MISSING, 0, 0, 1]])
    for g in range(2):
        known = labels[g] != MISSING
        plain = torch.nn.functional.cross_entropy(logits[g][known], labels[g][known])
        assert cross_entropy(logits, labels)[g] == pytest.approx(plain.item(), abs=1e-6)


def test_head_weights_follow_equation_3(problem):
    def weights(**parameters):
        return head_weights(tacit.EIGAN(**parameters), problem.targets, problem.sensitive, 0.25)

    assert weights() == pytest.approx([0.125, 0.125, 0.75])
    assert weights(target_weights=[3, 1]) == pytest.approx([0.1875, 0.0625, 0.75])  # alone: shares out alpha
    given = weights(target_weights={"x": 3, "y": 1}, sensitive_weights=[4])
    assert given == pytest.approx([0.375, 0.125, 0.5])


# -- the exact game -----------------------------------------------------------------------------


@given(st.integers(0, 200), st.integers(2, 6), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_the_loss_of_a_hard_code_is_its_counted_entropies(seed, k, m):
    rng = np.random.default_rng(seed)
    n = 200
    cells, y, s = rng.integers(k, size=n), rng.integers(2, size=n), np.arange(n) % m
    loss = hard_loss(cells, k, [label_mass(y, 2, False)], [label_mass(s, m, True)], 2.0)
    slow = 0.0
    for z in range(k):
        inside = cells == z
        if inside.any():
            p = np.bincount(y[inside], minlength=2) / inside.sum()
            slow -= inside.mean() * (p[p > 0] * np.log(p[p > 0])).sum()
            slow += 0.5 * inside.mean() * (1 - p.max())
    law = np.array([np.bincount(cells[s == c], minlength=k) / (s == c).sum() for c in range(m)])
    mean = law.mean(axis=0)
    ratio = np.divide(law, mean, out=np.ones_like(law), where=law > 0)
    slow += 2.0 * (law * np.log(ratio)).sum() / m
    assert loss == pytest.approx(slow, abs=1e-6)


def _toy(n=4000, seed=0):
    """Posteriors of a problem that is known exactly: u tells y, v tells s, and they are correlated."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(n)
    v = 0.6 * u + 0.8 * rng.standard_normal(n)
    p, q = 1 / (1 + np.exp(-2 * u)), 1 / (1 + np.exp(-2 * v))
    y, s = (rng.random(n) < p).astype(int), (rng.random(n) < q).astype(int)
    prior = np.bincount(s) / n
    return np.column_stack([1 - p, p]), np.column_stack([1 - q, q]) / prior / 2, y, s


def _leak(cells, s):
    law = [np.bincount(cells[s == c], minlength=cells.max() + 1) / (s == c).sum() for c in (0, 1)]
    return np.maximum(*law).sum() / 2


def _place(features, scores):
    return np.argmax(features @ scores[:-1] + scores[-1], axis=1)


def test_the_closed_rule_is_the_threshold_rule_and_stops_at_zero_leak():
    p, a, y, s = _toy()
    features = np.column_stack([p, a])
    leaks, right = [], []
    for slope in (0.0, 0.05, 0.1, 0.3, 1.0):
        cells = _place(features, closed_code(p, [a], slope))
        if slope in (0.05, 0.1):  # before the leak is gone the best attacker is pure: the rule of the notes
            rule = p[:, 1] - 0.5 - slope * 2 * (a[:, 1] - a[:, 0]) > 0
            assert (cells == rule).mean() > 0.995
        leaks.append(_leak(cells, s))
        right.append((cells == y).mean())
    assert (np.diff(leaks[:4]) < 0).all()
    assert leaks[-1] < 0.53  # past zero it does not grow again
    assert right[0] == max(right)


def test_the_learned_code_beats_its_start():
    p, a, y, s = _toy()
    features = np.column_stack([p, a])
    keep, hide = [label_mass(y, 2, False)], [label_mass(s, 2, True)]
    start = np.zeros((5, 4))
    start[:2] = np.log([[0.9, 0.7, 0.3, 0.1], [0.1, 0.3, 0.7, 0.9]])
    learned = learn_linear_codes([Condensed(features, keep, hide)], start[None], np.array([2.0]))[0]
    before, after = (hard_loss(_place(features, w), 4, keep, hide, 2.0) for w in (start, learned))
    assert after < before - 0.02


def test_a_balanced_mass_gives_every_class_the_same_share():
    mass = label_mass(np.array([0, 0, 0, 1, MISSING]), 2, balanced=True)
    assert mass.sum(axis=0) == pytest.approx([0.5, 0.5])
    assert mass[4].sum() == 0


def _t_log(t, other):
    """The sum of t log(t / other), where t is not zero."""
    return (t * (t.clamp_min(1e-12) / other.clamp_min(1e-12)).log()).sum(dim=(-1, -2))


def _terms(keep, hide):
    """The two terms of the loss by their definitions, for autograd."""
    some = [t / t.sum(dim=(-1, -2), keepdim=True) for t in keep]
    entropies = [-_t_log(t, t.sum(-1, keepdim=True)) for t in some]
    errors = [1 - t.max(-1).values.sum(-1) for t in some]
    utility = sum((h + e / 2 for h, e in zip(entropies, errors, strict=True)), torch.zeros(3)) / max(1, len(keep))
    even = [t / t.sum(-2, keepdim=True) / t.shape[-1] for t in hide]
    return utility, sum((_t_log(t, t.sum(-1, keepdim=True) * t.sum(-2, keepdim=True)) for t in even), torch.zeros(3))


def test_gradients_of_counted_tables_are_those_of_autograd():
    rng = np.random.default_rng(0)
    tables = [rng.random((3, 8, m)) * (rng.random((3, 8, m)) < 0.8) for m in (2, 4)]  # some cells are empty
    for keep, hide in ((tables, []), ([], tables), (tables[:1], tables[1:])):
        theirs = [[torch.tensor(t, requires_grad=True) for t in side] for side in (keep, hide)]
        wanted = _terms(*theirs)
        (wanted[0] + 3 * wanted[1]).sum().backward()
        utility, information, *gradients = counted_terms(keep, hide)
        assert utility == pytest.approx(wanted[0].detach().numpy(), abs=1e-6)
        assert information == pytest.approx(wanted[1].detach().numpy(), abs=1e-6)
        for side, factor, own in zip(theirs, (1, 3), gradients, strict=True):
            for tensor, gradient in zip(side, own, strict=True):
                full = tensor.detach().numpy() > 0  # an empty cell has a corner there
                assert factor * gradient[full] == pytest.approx(tensor.grad.numpy()[full])


def test_networks_learn_with_the_loss_of_counted_tables():
    rng = np.random.default_rng(0)
    q = torch.tensor(rng.dirichlet(np.ones(4), (1, 50)), requires_grad=True)
    keep, hide = ([torch.tensor(label_mass(rng.integers(m, size=50), m, m == 3))] for m in (2, 3))
    loss = code_loss(q, keep, hide, torch.tensor([2.0], dtype=torch.float64))
    (found,) = torch.autograd.grad(loss.sum(), q)
    utility, information = _terms(*([q.transpose(-1, -2) @ m for m in side] for side in (keep, hide)))
    assert loss.item() == pytest.approx((utility + 2 * information)[0].item())
    (wanted,) = torch.autograd.grad((utility + 2 * information)[0], q)
    assert torch.allclose(found, wanted)
