"""Gaussian noise. The code lies at +-1/2 along one axis, in the others anywhere, independently of the class: these
others tell nothing, so the truth is an integral over the one axis in any dimension."""

from __future__ import annotations

import numpy as np
from claim_world import World
from scipy import integrate
from scipy.stats import norm

from tacit.auditing.gaussian import certify_gaussian


def _truth(plus, sigma, prior=None):
    """Balanced accuracy of the best attacker (plain with a prior), by the trapezoid rule on a grid of 1/10,000 sigma or
    so: the kinks of the maximum leave an error below 1e-7."""
    plus = np.asarray(plus)[:, None]
    weight = np.full(len(plus), 1 / len(plus)) if prior is None else np.asarray(prior)
    x = np.linspace(-0.5 - 8 * sigma, 0.5 + 8 * sigma, 200_001)
    law = (1 - plus) * norm.pdf(x, -0.5, sigma) + plus * norm.pdf(x, 0.5, sigma)
    return float(integrate.trapezoid((weight[:, None] * law).max(axis=0), x))


def _noisy(d, plus, counts, sigma, draws=1200):
    """Balanced accuracy; so many records a class."""
    truth, plus = _truth(plus, sigma), np.asarray(plus)

    def run(rng):
        secret = np.repeat(np.arange(len(plus)), counts)
        codes = rng.uniform(-1, 1, (len(secret), d))
        codes[:, 0] = (rng.random(len(secret)) < plus[secret]) - 0.5
        found = certify_gaussian(codes, secret, len(plus), sigma, draws=draws, seed=int(rng.integers(2**31)))
        return found.bound, truth

    return run


def _plain(plus, prior, n, sigma):
    """Plain accuracy; labels drawn."""
    truth, plus = _truth(plus, sigma, prior), np.asarray(plus)

    def run(rng):
        secret = rng.choice(len(prior), n, p=prior)
        codes = (rng.random(n) < plus[secret]) - 0.5
        found = certify_gaussian(codes, secret, len(prior), sigma, draws=1200, seed=int(rng.integers(2**31)))
        return found.accuracy_bound, truth

    return run


WORLDS = [
    World("noise, 1 dimension, little", "noise", _noisy(1, [0.3, 0.7], [30, 90], 0.1), runs=200),
    World("noise, 1 dimension, much", "noise", _noisy(1, [0.1, 0.9], [50, 50], 1.0), runs=150),
    World("noise, 1 dimension, 100 / 5", "noise", _noisy(1, [0.3, 0.7], [100, 5], 0.25), runs=150),
    World("noise, 1 dimension, 4 classes", "noise", _noisy(1, [0.1, 0.4, 0.6, 0.9], [30] * 4, 0.25), runs=100),
    World("noise, 2 dimensions", "noise", _noisy(2, [0.2, 0.8], [60, 60], 0.5), runs=100),
    World("noise, 3 dimensions", "noise", _noisy(3, [0.2, 0.8], [60, 60], 1.0), runs=100),
    World("noise, 4 dimensions", "noise", _noisy(4, [0.1, 0.9], [100, 100], 1.0), runs=100),
    World("noise, 4 dimensions, few draws", "noise", _noisy(4, [0.1, 0.9], [40, 40], 2.0, 200), runs=200),
    World("noise, plain", "noise", _plain([0.2, 0.7], [0.7, 0.3], 120, 0.2), runs=150),
]


def _sample_slack_missing():
    """The plug-in with the Monte Carlo part of the slack only."""
    plus, truth = np.array([0.3, 0.7]), _truth([0.3, 0.7], 0.1)

    def run(rng):
        secret = np.repeat([0, 1], [30, 90])
        codes = (rng.random(120) < plus[secret]) - 0.5
        found = certify_gaussian(codes, secret, 2, 0.1, draws=1200, seed=int(rng.integers(2**31)))
        return found.plugin + np.sqrt(np.log(100) / 2400), truth

    return run


CONTROLS = [World("noise, without the slack of the sample", "noise", _sample_slack_missing(), runs=150)]
