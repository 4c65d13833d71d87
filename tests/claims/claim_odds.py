"""The odds of a single release: the largest P(z|s) / P(z|s'), over all releases and classes."""

from __future__ import annotations

import numpy as np
from claim_world import Kind, World, draw_cells, draw_units, response

from tacit.auditing.certificate import certify, certify_channel, product_secret


def laws(m, k, spread, seed=0):
    """m laws over k cells of unequal sizes; the logarithms of their ratios have about this spread."""
    rng = np.random.default_rng([seed, m, k])
    law = rng.dirichlet(np.full(k, 3.0)) * np.exp(rng.normal(0, spread, (m, k)))
    return law / law.sum(axis=1, keepdims=True)


def odds_of(law):
    """The worst odds of (classes, cells) laws; cells that nobody can be in aside."""
    there = law[:, law.max(axis=0) > 0]
    with np.errstate(divide="ignore"):
        return float((there.max(axis=0) / there.min(axis=0)).max())


def _cells(law, counts, declared=True, **more):
    """All cells known beforehand, or only those that happen to be seen: then of these."""
    truth = odds_of(law)

    def run(rng):
        cells, secret = draw_cells(law, counts, rng)
        found = certify(cells, secret, len(law), n_cells=law.shape[1] if declared else None, **more)
        return found.worst_odds, truth if declared else odds_of(law[:, np.unique(cells)])

    return run


def _several(sizes, law, prior, n):
    """Several sensitive columns and their product, each at its share of delta: all hold together."""
    counted = [np.unravel_index(np.arange(len(law)), sizes)[i] for i in range(len(sizes))]

    def given(of_class):
        joint = np.stack([(prior[:, None] * law)[of_class == c].sum(axis=0) for c in np.unique(of_class)])
        return odds_of(joint / joint.sum(axis=1, keepdims=True))

    truths = [*map(given, counted), odds_of(law)]

    def run(rng):
        combined = rng.choice(len(law), n, p=prior)
        cells = (rng.random((n, 1)) >= law[combined].cumsum(axis=1)).sum(axis=1).clip(max=law.shape[1] - 1)
        codes = np.column_stack([c[combined] for c in counted])
        asked = [*zip(codes.T, sizes, strict=True), (product_secret(codes, sizes), len(law))]
        ends = [certify(cells, s, m, 0.05 / len(asked), n_cells=law.shape[1]).worst_odds for s, m in asked]
        short = max(truth - end for end, truth in zip(ends, truths, strict=True))
        return 0.0, short  # the claim fails where any of them is exceeded

    return run


def _units(kinds, n_units):
    """Units with several records, of several classes and cells."""
    joint = sum(k.share * k.law for k in kinds)
    truth = odds_of(joint / joint.sum(axis=1, keepdims=True))

    def run(rng):
        cells, secret, unit = draw_units(kinds, n_units, rng)
        return certify(cells, secret, len(joint), units=unit, n_cells=joint.shape[1]).worst_odds, truth

    return run


def _channel(law, counts, channel):
    truth = odds_of(law @ channel)
    return lambda rng: (certify_channel(*draw_cells(law, counts, rng), len(law), channel).worst_odds, truth)


def _chosen(law, counts, releases):
    """The most flattering of several codes of the same cells, which share delta."""

    def run(rng):
        cells, secret = draw_cells(law, counts, rng)
        found = []
        for c in range(releases):
            merge = np.random.default_rng(c).integers(4, size=law.shape[1])
            merged = np.stack([law[:, merge == z].sum(axis=1) for z in range(4)], axis=1)
            end = certify(merge[cells], secret, len(law), candidates=releases, n_cells=4).worst_odds
            found.append((end, odds_of(merged)))
        return min(found, key=lambda pair: pair[0] / pair[1])

    return run


def _anything(rng):
    """k from 2 to 64 cells, one or two sensitive columns of two to four classes, unequal: each, and the product."""
    sizes = tuple(rng.integers(2, 5, rng.integers(1, 3)).tolist())
    m, k = int(np.prod(sizes)), int(2 ** rng.uniform(1, 6.01))
    base = rng.dirichlet(np.full(k, 5.0)) * np.exp(rng.normal(0, rng.uniform(0, 0.5), (m, k)))
    prior = rng.dirichlet(np.full(m, 4.0))
    n = int(10 ** rng.uniform(3, 4.3))
    return _several(sizes, base / base.sum(axis=1, keepdims=True), prior, n)(rng)


SPLIT = [Kind(0.7, [1, 2, 3], np.diag([0.6, 0.4]) @ laws(2, 4, 0.3), "class"),
         Kind(0.3, [20], np.diag([0.2, 0.8]) @ laws(2, 4, 0.6, seed=1), "nothing")]  # fmt: skip

WORLDS = [
    World("odds, 2 to 64 cells, unequal classes, several columns", "odds", _anything),
    World("odds, 2 cells, 500 / 500", "odds", _cells(laws(2, 2, 0.3), [500, 500])),
    World("odds, 2 cells, nearly all in one", "odds", _cells(np.array([[0.97, 0.03], [0.99, 0.01]]), [900, 300])),
    World("odds, 4 cells, 5000 / 200", "odds", _cells(laws(2, 4, 0.3), [5000, 200])),
    World("odds, 16 cells, equal laws", "odds", _cells(laws(2, 16, 0.0), [3000, 1000])),
    World("odds, 16 cells, 10860 / 5421", "odds", _cells(laws(2, 16, 0.3), [10860, 5421])),
    World("odds, 64 cells, 8000 / 8000", "odds", _cells(laws(2, 64, 0.3), [8000, 8000])),
    World("odds, 5 classes, 8 cells", "odds", _cells(laws(5, 8, 0.3), [900, 700, 500, 300, 200])),
    World("odds, 16 cells not declared", "odds", _cells(laws(2, 16, 0.5), [800, 300], declared=False)),
    World("odds, cells that few are in, not declared", "odds",
          _cells(np.outer([1, 1], np.r_[0.9, np.full(50, 0.002)]) * [[1], [1]], [2000, 2000], declared=False)),
    World("odds, two sensitive columns and their product", "odds",
          _several((2, 2), laws(4, 8, 0.3), np.array([0.4, 0.3, 0.2, 0.1]), 4000)),
    World("odds, three sensitive columns and their product", "odds",
          _several((2, 2, 2), laws(8, 4, 0.3), np.full(8, 1 / 8), 4000)),
    World("odds, units of several records", "odds", _units(SPLIT, 1500)),
    World("odds behind randomized response", "odds", _channel(laws(2, 4, 0.5), [300, 300], response(4, 0.7))),
    World("odds, the best of 10 codes", "odds", _chosen(laws(2, 16, 0.4), [700, 700], 10)),
]  # fmt: skip


def _plugin(law, counts):
    truth = odds_of(law)
    return lambda rng: (certify(*draw_cells(law, counts, rng), len(law), n_cells=law.shape[1]).odds.plugin, truth)


def _records(kinds, n_units):
    """Every record counted as a person of its own."""
    joint = sum(k.share * k.law for k in kinds)
    truth = odds_of(joint / joint.sum(axis=1, keepdims=True))

    def run(rng):
        cells, secret, _ = draw_units(kinds, n_units, rng)
        return certify(cells, secret, len(joint), n_cells=joint.shape[1]).worst_odds, truth

    return run


EQUAL = [Kind(1.0, [40], np.diag([0.5, 0.5]) @ laws(2, 4, 0.2), "all")]
CONTROLS = [
    World("odds as counted", "odds", _plugin(laws(2, 2, 0.3), [500, 500])),
    World("odds, records of one unit counted apart", "odds", _records(EQUAL, 150)),
]
