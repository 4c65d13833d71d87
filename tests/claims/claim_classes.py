"""E: classes of the population that the certification records may lack."""

from __future__ import annotations

import numpy as np
from claim_world import World, best_attacker, pick, response

from tacit.auditing.certificate import certify, certify_channel, certify_local_privacy, product_secret
from tacit.auditing.columns_certificate import certify_columns
from tacit.auditing.gaussian import certify_gaussian
from tacit.auditing.population import unseen_mass

# class 2 has a cell of its own, classes 0 and 1 share the other: truth 2/3
THREE = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def _rare(prior, law, n, claim, channel=None):
    """Labels drawn from the prior; `claim` gives the bound for cells (before the channel) and classes."""
    prior, truth = np.asarray(prior), best_attacker(law if channel is None else law @ channel)

    def run(rng):
        secret = rng.choice(len(prior), n, p=prior)
        return claim(pick(law[secret], rng), secret, rng), truth

    return run


def _one_rare(share, n):
    return _rare([(1 - share) / 2, (1 - share) / 2, share], THREE, n, lambda z, s, rng: certify(z, s, 3).bound)


def _with_units(share, n_units):
    """The same, every unit with one to nine equal records."""

    def claim(cells, secret, rng):
        unit = np.repeat(np.arange(n_units), rng.integers(1, 10, n_units))
        return certify(cells[unit], secret[unit], 3, units=unit).bound

    return _rare([(1 - share) / 2, (1 - share) / 2, share], THREE, n_units, claim)


def _noisy(cells, secret, rng):
    return certify_gaussian(cells - 0.5, secret, 3, 0.02, draws=900, seed=int(rng.integers(2**31))).bound


def _product(n):
    """Two attributes; the combination (1, 1) is rare and told by the release."""
    law = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])

    def claim(cells, secret, rng):
        codes = np.column_stack([secret // 2, secret % 2])
        return certify(cells, product_secret(codes, (2, 2)), 4).bound

    return _rare([0.4, 0.3, 0.295, 0.005], law, n, claim)


def _mass(prior, n):
    """The share of the population whose class was not seen, against its bound."""
    prior = np.asarray(prior) / np.sum(prior)

    def run(rng):
        seen = np.unique(rng.choice(len(prior), n, p=prior))
        return unseen_mass(n, len(prior), len(prior) - len(seen), 0.05), 1 - float(prior[seen].sum())

    return run


def _undeclared(share, n):
    """Classes outside the declared ones: seen, they would be refused; not seen, their share is bounded."""

    def run(rng):
        found = unseen_mass(n, 2, 0, 0.05) if rng.random() < (1 - share) ** n else 1.0
        return found, share

    return run


ZIPF = 1 / np.arange(1, 25)
LAW24 = np.random.default_rng(24).dirichlet(np.full(8, 0.5), size=24)

WORLDS = [
    World("a class of .005, 200 records", "E", _one_rare(0.005, 200)),
    World("a class of .005, 500 records", "E", _one_rare(0.005, 500)),
    World("a class of .0005, 2000 records", "E", _one_rare(0.0005, 2000)),
    World("a class of .005, 200 units", "E", _with_units(0.005, 200)),
    World("24 classes, the rare ones mostly absent", "E",
          _rare(ZIPF**2 / (ZIPF**2).sum(), LAW24, 150, lambda z, s, rng: certify(z, s, 24).bound)),
    World("a rare class behind a channel", "E",
          _rare([0.6, 0.39, 0.01], np.eye(3), 100,
                lambda z, s, rng: certify_channel(z, s, 3, response(3, 0.8)).bound, response(3, 0.8))),
    World("a rare class under noise", "E", _rare([0.6, 0.38, 0.02], THREE, 60, _noisy), runs=60),
    World("a rare class, local privacy", "E",
          _rare([0.6, 0.39, 0.01], response(3, np.e / (2 + np.e)), 50,
                lambda z, s, rng: certify_local_privacy(1.0, s, 3).bound)),
    World("a rare class, few columns", "E",
          _rare([0.6, 0.39, 0.01], THREE, 120,
                lambda z, s, rng: certify_columns(np.column_stack([z, rng.integers(2, size=(120, 2))]), s, 3).bound)),
    World("a rare combination of two attributes", "E", _product(150)),
    World("unseen mass, 24 classes", "E", _mass(ZIPF**3, 100), runs=1000),
    World("unseen mass, 300 equal classes", "E", _mass(np.ones(300), 200)),
    World("unseen mass, 2 classes", "E", _mass([0.985, 0.015], 200), runs=1000),
    World("unseen mass, undeclared classes", "E", _undeclared(0.0147, 200), runs=1000),
]  # fmt: skip


def seen_only(cells, secret):
    """The bound before absent classes counted: as if the population had the classes that were seen."""
    return certify(cells, np.unique(secret, return_inverse=True)[1].ravel(), len(np.unique(secret))).bound


CONTROLS = [
    World("a class of .005, 200 records, absent dropped", "E",
          _rare([0.4975, 0.4975, 0.005], THREE, 200, lambda z, s, rng: seen_only(z, s))),
    World("a class of .0005, 2000 records, absent dropped", "E",
          _rare([0.49975, 0.49975, 0.0005], THREE, 2000, lambda z, s, rng: seen_only(z, s))),
]  # fmt: skip
