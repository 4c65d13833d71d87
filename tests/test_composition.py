"""What several releases give together, against worlds whose joint law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacit
from tacit.auditing.certificate import certify
from tacit.errors import InputError
from tacit.ledger.composition import ANY_LAW, INDEPENDENT, Part, compose

RATE = 0.05  # a bound may be below the truth that often


def truth(joint):
    """The best attacker's balanced accuracy on a law P(z1, z2, ... | s), the classes last."""
    flat = joint.reshape(-1, joint.shape[-1])
    return flat.max(axis=1).sum() / flat.shape[1]


def worst_odds(law):
    with np.errstate(divide="ignore"):
        return float((law.max(axis=1) / law.min(axis=1)).max())


def world(rng, dependent):
    """A joint law of two or three releases of one record, by class."""
    m, sizes = int(rng.integers(2, 5)), rng.integers(2, 6, int(rng.integers(2, 4)))
    sharp = rng.uniform(0.02, 0.6)
    if dependent:
        base = rng.dirichlet(np.ones(math.prod(sizes)) * 2)
        laws = [(1 - sharp) * base + sharp * rng.dirichlet(np.ones(math.prod(sizes)) * 0.5) for _ in range(m)]
        return np.stack(laws, axis=-1).reshape(*sizes, m)
    singles = []
    for k in sizes:
        base = rng.dirichlet(np.ones(k) * 2)
        singles.append(np.stack([(1 - sharp) * base + sharp * rng.dirichlet(np.ones(k)) for _ in range(m)], axis=-1))
    joint = singles[0]
    for law in singles[1:]:
        joint = joint[..., None, :] * law
    return joint


def marginals(joint):
    dims = range(joint.ndim - 1)
    return [joint.sum(axis=tuple(d for d in dims if d != i)) for i in dims]


def sampled(joint, n, rng):
    """n people of each class: their releases, and their classes."""
    m, flat = joint.shape[-1], joint.reshape(-1, joint.shape[-1])
    cells = np.concatenate([rng.choice(len(flat), n, p=flat[:, s] / flat[:, s].sum()) for s in range(m)])
    return np.stack(np.unravel_index(cells, joint.shape[:-1]), axis=1), np.repeat(np.arange(m), n)


def parts_of(joint, n, rng):
    """What is certified of each release alone, from one sample; true odds stand in for certified ones."""
    releases, s = sampled(joint, n, rng)
    m = joint.shape[-1]
    parts = [
        Part(certify(z, s, m).bound, m, odds=worst_odds(law), cells=len(law))
        for z, law in zip(releases.T, marginals(joint), strict=True)
    ]
    return parts, releases, s


@pytest.mark.parametrize("worlds", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_composed_bounds_hold_of_known_laws(worlds, capsys):
    """Counted and any-law bounds of dependent releases, and all of independent ones; at most 5 % may fail.

    Each certificate fails in less than 1 % of samples, so 5 % of 100 worlds (6 or more) has a chance below 1 in 1,000.
    """
    rng = np.random.default_rng(7)
    below = dict.fromkeys(("counted", "any law", "independent", "odds", "bits"), 0)
    room = {"counted": [], "independent": []}
    for i in range(worlds):
        joint = world(rng, dependent=i % 2 == 0)
        m, real = joint.shape[-1], truth(joint)
        parts, releases, s = parts_of(joint, 600, rng)
        together = np.ravel_multi_index(releases.T, joint.shape[:-1])
        counted = certify(together, s, m).bound
        below["counted"] += counted < real
        room["counted"].append(counted - real)
        any_law = compose(parts)
        assert any_law.how == ANY_LAW
        below["any law"] += any_law.bound < real
        if i % 2:
            found = compose(parts, independent=True)
            below["independent"] += found.bound < real
            below["odds"] += found.odds < worst_odds(joint.reshape(-1, m)) - 1e-9
            flat = joint.reshape(-1, m) / m
            information = float((flat * np.log2(flat / (flat.sum(axis=1, keepdims=True) / m))).sum())
            below["bits"] += found.bits < information - 1e-9
            room["independent"].append(found.bound - real)
    with capsys.disabled():
        wide = {k: f"{np.mean(v):.3f}" for k, v in room.items()}
        print(f"\n{worlds} worlds: below the truth {below}; above it on average {wide}")
    assert all(n <= RATE * worlds for n in below.values()), below


def test_two_releases_that_tell_nothing_alone_can_tell_everything_together():
    """A fair coin, and the same coin turned over where s is 1: only counting them together finds it.

    So the odds of single releases do not multiply and their bits do not add up, whatever the law: what is composed so
    says that it needs independence, and the ledger does not take it unless the policy does.
    """
    joint = np.zeros((2, 2, 2))
    for coin in (0, 1):
        for s in (0, 1):
            joint[coin, coin ^ s, s] = 0.5
    parts = [Part(0.5, 2, odds=1.0, cells=2)] * 2
    assert truth(joint) == 1.0
    assert all(truth(law[..., None, :]) == 0.5 for law in marginals(joint))
    assert compose(parts).bound == 1.0
    wrong = compose(parts, independent=True)
    assert wrong.bound == 0.5
    assert wrong.how == INDEPENDENT
    releases, s = sampled(joint, 500, np.random.default_rng(0))
    assert certify(releases[:, 0] * 2 + releases[:, 1], s, 2).bound == 1.0


def test_local_privacy_composes_whatever_the_law():
    """Epsilons add up for records that depend on each other; and a private release adds little to a code."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        m, k, epsilon = int(rng.integers(2, 5)), int(rng.integers(2, 5)), rng.uniform(0.1, 1.5)
        records = rng.dirichlet(np.ones(k * k) * 0.3, m).T.reshape(k, k, m)  # of two records, by class
        response = np.full((k, k), 1.0) + np.eye(k) * (math.exp(epsilon) - 1)
        response /= response.sum(axis=0)
        both = np.einsum("ax,by,xys->abs", response, response, records)
        single = np.einsum("ax,xys->as", response, records)
        bound = truth(single[:, None, :])
        part = Part(bound, m, epsilon=epsilon, odds=math.exp(epsilon), cells=k)
        found = compose([Part(bound, m, epsilon=epsilon, cells=k, records=2)])
        assert found.bound >= truth(both) - 1e-9
        assert found.odds >= worst_odds(both.reshape(-1, m)) - 1e-9
        code = np.einsum("ax,xys->ays", response, records)  # the second record itself, and the first privately
        plain = Part(truth(records.sum(axis=0)[:, None, :]), m, cells=k)
        assert compose([plain, part]).bound >= truth(code) - 1e-9


def test_pooled_records_are_bounded_by_tensorising():
    """N records of one person, independent given the value: truth by the binomial law."""
    p, q = 0.6, 0.45
    for n in (1, 2, 5, 20, 100):
        k = np.arange(n + 1)
        laws = [np.array([math.comb(n, int(i)) * x**i * (1 - x) ** (n - i) for i in k]) for x in (p, q)]
        real = np.maximum(*laws).sum() / 2
        single = (p + 1 - q) / 2
        part = Part(single, 2, odds=max(p / q, (1 - q) / (1 - p)), cells=2, records=n)
        found = compose([part], independent=True)
        assert real <= found.bound <= 1
        assert compose([part]).bound >= real
        if n == 5:
            assert found.bound < 0.85, (found, real)  # it says something


def test_a_thousand_records_overflow_nothing():
    found = compose([Part(0.9, 3, odds=50, cells=4, records=1000)], independent=True)
    assert found.bound == 1.0
    assert math.isinf(found.odds)


def test_one_release_is_itself():
    found = compose([Part(0.55, 2, odds=2.0)])
    assert (found.bound, found.odds, found.releases) == (0.55, 2.0, 1)
    assert found.sentence == "any attacker <= .550, odds moved at most 2.0 times for whoever reads one release"


def test_what_cannot_be_composed_is_refused():
    with pytest.raises(InputError, match="no release"):
        compose([])
    with pytest.raises(InputError, match="classes"):
        compose([Part(0.5, 2), Part(0.5, 3)])


def test_releases_are_audited_together_as_one():
    data = tacit.load_dataset("gaussians", n=2000)
    train, attack, test = data.split((0.4, 0.3, 0.3), random_state=0)
    codes = [tacit.CodebookFilter(n_codes=k, random_state=0) for k in (2, 3)]
    for f in codes:
        f.fit(train.X, train.y, sensitive_features=train.sensitive)
    options = {"attackers": "logistic", "measurements": ["no-baseline", "no-breadth"]}
    report = tacit.ledger.audit_together(codes, attack, test, **options)
    alone = [tacit.audit(f, attack, test, **options) for f in codes]
    certified = [r.certificate["shape"] for r in (report, *alone)]
    assert certified[0].cells <= certified[1].cells * certified[2].cells
    assert certified[0].plugin >= max(c.plugin for c in certified[1:]) - 1e-12
    # rows that a filter was fitted on are left out
    assert tacit.ledger.audit_together(codes, data, test, **options).settings.rows["attack"] < len(data)
    with pytest.raises(InputError, match="at least two"):
        tacit.ledger.audit_together(codes[:1], attack, test)
