"""Codes, channels and local privacy: independent records, no unit, every class there."""

from __future__ import annotations

import numpy as np
from claim_world import World, best_attacker, draw_cells, response

from tacit.auditing.certificate import certify, certify_channel, certify_local_privacy, local_dp_bound


def _laws(m, k, apart, seed=0):
    """m laws over k cells that differ the more the larger `apart`."""
    rng = np.random.default_rng([seed, m, k])
    return (1 - apart) * rng.dirichlet(np.full(k, 5.0)) + apart * rng.dirichlet(np.ones(k), size=m)


def _code(law, counts, channel=None):
    truth = best_attacker(law if channel is None else law @ channel)

    def run(rng):
        cells, secret = draw_cells(law, counts, rng)
        if channel is None:
            return certify(cells, secret, len(law)).bound, truth
        return certify_channel(cells, secret, len(law), channel).bound, truth

    return run


def _plain(joint, n, channel=None):
    """Labels drawn, not fixed: plain accuracy."""
    m, k = joint.shape
    truth = float((joint if channel is None else joint @ channel).max(axis=0).sum())

    def run(rng):
        drawn = rng.choice(m * k, n, p=joint.ravel())
        given = (drawn % k, drawn // k, m)
        found = certify(*given) if channel is None else certify_channel(*given, channel)
        return found.accuracy_bound, truth

    return run


def _private(epsilon, prior, n):
    """Randomised response of the secret itself, the most that epsilon allows; plain accuracy."""
    prior, m = np.asarray(prior), len(prior)
    keep = local_dp_bound(epsilon, m)
    truth = float((prior[:, None] * response(m, keep)).max(axis=0).sum())
    return lambda rng: (certify_local_privacy(epsilon, rng.choice(m, n, p=prior), m).accuracy_bound, truth)


def _private_balanced(epsilon, m, n):
    """The same, balanced: the bound is met exactly, whichever classes happen to be seen."""
    truth = best_attacker(response(m, local_dp_bound(epsilon, m)))
    return lambda rng: (certify_local_privacy(epsilon, rng.integers(m, size=n), m).bound, truth)


# k=2 leaves no upward bias, so that the slack alone must carry it; class 0 is always in cell 0
WORST = np.array([[1.0, 0.0], [0.5, 0.5]])
TILT = np.array([[0.6, 0.4], [0.4, 0.6]])

CODES = [
    World("two cells, 100 / 100", "code", _code(TILT, [100, 100])),
    World("two cells, 2000 / 2000", "code", _code(TILT, [2000, 2000])),
    World("two cells, 2000 / 10", "code", _code(TILT, [2000, 10])),
    World("two cells, 5000 / 2", "code", _code(TILT, [5000, 2])),
    World("two cells, 5000 / 1", "code", _code(TILT, [5000, 1])),
    World("two cells, 30 / 90, nearly told", "code", _code(np.array([[0.95, 0.05], [0.05, 0.95]]), [30, 90])),
    World("McDiarmid's worst, 500 / 10", "code", _code(WORST, [500, 10]), runs=1500),
    World("McDiarmid's worst, 5000 / 100", "code", _code(WORST, [5000, 100]), runs=800),
    World("McDiarmid's worst, 50000 / 1000", "code", _code(WORST, [50_000, 1000]), runs=400, slow=True),
    World("3 classes, two cells, 1000 / 1000 / 3", "code", _code(_laws(3, 2, 0.5), [1000, 1000, 3])),
    World("5 classes, 4 cells, 100 each", "code", _code(_laws(5, 4, 0.3), [100] * 5)),
    World("2 classes, 16 cells, 500 each", "code", _code(_laws(2, 16, 0.1), [500, 500])),
    World("2 classes, 256 cells, 500 each", "code", _code(_laws(2, 256, 0.1), [500, 500])),
    World("2 classes, 256 cells, 5000 / 50", "code", _code(_laws(2, 256, 0.5), [5000, 50]), slow=True),
    World("24 classes, 16 cells, 60 each", "code", _code(_laws(24, 16, 0.2), [60] * 24)),
    World("24 classes, 256 cells, 200 each", "code", _code(_laws(24, 256, 0.2), [200] * 24), slow=True),
    World("24 classes, two cells, unequal", "code", _code(_laws(24, 2, 0.9), [3 + 10 * s for s in range(24)])),
    World("plain, 100 records", "code", _plain(np.array([[0.3, 0.2], [0.2, 0.3]]), 100), runs=800),
    World("plain, one class of .9", "code", _plain(np.array([[0.6, 0.3], [0.02, 0.08]]), 300)),
    World("plain, one class of .99", "code", _plain(np.array([[0.98, 0.01], [0.001, 0.009]]), 1000)),
    World("plain, 5 classes, 16 cells", "code", _plain(_laws(5, 16, 0.5) / 5, 400)),
]
CHANNELS = [
    World("two codes, answers kept .9", "channel", _code(TILT, [100, 300], response(2, 0.9))),
    World("the secret itself, answers kept .6", "channel", _code(np.eye(3), [50, 50, 5], response(3, 0.6))),
    World("8 codes, answers kept .5", "channel", _code(_laws(4, 8, 0.9), [80] * 4, response(8, 0.5))),
    World("16 codes to 3 symbols", "channel", _code(_laws(2, 16, 0.9), [200, 40], _laws(16, 3, 1.0, seed=1))),
    World("channel, plain", "channel", _plain(np.array([[0.5, 0.2], [0.1, 0.2]]), 200, response(2, 0.8)), runs=600),
]
PRIVATE = [
    World("local privacy 1, plain, .7 / .3, 60 records", "local privacy", _private(1.0, [0.7, 0.3], 60), runs=1000),
    World("local privacy .5, plain, 5 classes", "local privacy", _private(0.5, [0.4, 0.3, 0.1, 0.1, 0.1], 150)),
    World("local privacy 2, plain, .95 / .05", "local privacy", _private(2.0, [0.95, 0.05], 300)),
    World("local privacy 1, balanced, 9 classes, 6 records", "local privacy", _private_balanced(1.0, 9, 6)),
]
WORLDS = [*CODES, *CHANNELS, *PRIVATE]


def _bare(law, counts):
    """The plug-in without its slack."""
    truth = best_attacker(law)
    return lambda rng: (certify(*draw_cells(law, counts, rng), len(law)).plugin, truth)


CONTROLS = [World("the bare plug-in", "code", _bare(TILT, [100, 100]))]
