"""F and what goes with it: products of attributes, repeated looks, chosen releases, few columns, several nodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from claim_world import World, best_attacker, draw_cells, pick

from tacit.auditing.certificate import certify, joint_units, look_delta, product_secret
from tacit.auditing.columns_certificate import certify_columns

TILT = np.array([[0.6, 0.4], [0.4, 0.6]])


# -- products: every attribute has units of its own --------------------------------------------------


def _household(rng, n_homes, size, told):
    """Attribute a is a record's own, b a household's; the cell is one habit of the household that hints at b.

    Truth: P(cell | a, b) = P(habit | b), so the best attacker names b with probability `told` and guesses a.
    """
    home = np.repeat(np.arange(n_homes), size)
    b = rng.integers(2, size=n_homes)
    habit = np.where(rng.random(n_homes) < told, b, 1 - b)
    return habit[home], rng.integers(2, size=len(home)), b[home], home


def _product(n_homes, size, told, units, delta=0.05):
    """The product of both attributes; `units` makes them from those of a (none) and of b (households)."""

    def run(rng):
        cells, a, b, home = _household(rng, n_homes, size, told)
        product = product_secret(np.column_stack([a, b]), (2, 2))
        return certify(cells, product, 4, delta, units([None, home])).bound, told / 2

    return run


def _first(columns):
    """The control: the units of the first attribute serve for all."""
    return columns[0]


def _chain(n_chains, told):
    """Three attributes over chains of four records: b is shared by 0-1 and 2-3, c by 1-2. A chain has one habit,
    which hints at its first b; the truth of the product (2 x 2 x 2) by enumeration of a chain's records."""
    hint = np.array([told, told, 0.5, 0.5])  # records 2 and 3 have another b, which the habit does not know
    law = np.zeros((2, 2))  # P(habit | b), one record of a chain drawn
    for at in range(4):
        law += np.array([[hint[at], 1 - hint[at]], [1 - hint[at], hint[at]]]) / 4
    truth = best_attacker(law) / 4  # a and c are guessed

    def run(rng):
        b, c = rng.integers(2, size=(n_chains, 2)), rng.integers(2, size=(n_chains, 3))
        habit = np.where(rng.random(n_chains) < told, b[:, 0], 1 - b[:, 0])
        chain = np.repeat(np.arange(n_chains), 4)
        place = np.tile(np.arange(4), n_chains)
        unit_b, unit_c = 2 * chain + place // 2, 3 * chain + np.array([0, 1, 1, 2])[place]
        codes = np.column_stack([rng.integers(2, size=len(chain)), b.ravel()[unit_b], c.ravel()[unit_c]])
        units = joint_units([None, unit_b, unit_c])
        return certify(habit[chain], product_secret(codes, (2, 2, 2)), 8, units=units).bound, truth

    return run


# -- looks: refitted until it looks good ------------------------------------------------------------


def _refitted(tries, n, spend):
    """Releases that tell as much as each other, made afresh on the same people; the best-looking one is kept.

    `spend(t)` is what the t-th may spend of delta.
    """

    def run(rng):
        secret = np.repeat([0, 1], n)
        bounds = [certify(pick(TILT[secret], rng), secret, 2, spend(t)).bound for t in range(1, tries + 1)]
        return min(bounds), best_attacker(TILT)

    return run


def _frontier(points, n):
    """Points fixed beforehand, from nearly silent to telling; the one chosen has the most use under a bound of .7."""
    read = np.linspace(0.55, 0.75, points)

    def run(rng):
        secret = np.repeat([0, 1], n)
        laws = [np.array([[p, 1 - p], [1 - p, p]]) for p in read]
        found = [certify(pick(law[secret], rng), secret, 2, candidates=points).bound for law in laws]
        under = [g for g, bound in enumerate(found) if bound <= 0.7] or [int(np.argmin(found))]
        return found[under[-1]], read[under[-1]]

    return run


# -- few columns ------------------------------------------------------------------------------------


def _columns(d, m, size, counts, seed, copies=1):
    """Binary columns of a known joint law; the truth is the largest over all sets, by enumeration."""
    cells = np.array(list(np.ndindex(*[2] * d)))
    law = np.random.default_rng(seed).dirichlet(np.full(2**d, 0.3), size=m)

    def of(chosen):
        at = cells[:, chosen] @ (1 << np.arange(len(chosen)))
        return best_attacker(np.array([np.bincount(at, p) for p in law]))

    truth = max(of(list(chosen)) for chosen in combinations(range(d), size))

    def run(rng):
        at, secret = draw_cells(law, counts, rng)
        unit = np.repeat(np.arange(len(at)), copies)
        units = unit if copies > 1 else None
        return certify_columns(cells[at[unit]], secret[unit], m, size, units=units).bound, truth

    return run


# -- federated: what the server knows are sums of counts --------------------------------------------


def _nodes(laws, counts):
    """Nodes are parts of the population, each with a law and class sizes of its own; they send tables of counts."""
    counts = np.asarray(counts)  # (nodes, classes)
    mixture = np.einsum("ns,nsz->sz", counts / counts.sum(axis=0), laws)
    n_cells = laws.shape[2]

    def run(rng):
        table = np.zeros((laws.shape[1], n_cells), dtype=int)
        for law, sizes in zip(laws, counts, strict=True):
            cells, secret = draw_cells(law, sizes, rng)
            np.add.at(table, (secret, cells), 1)
        secret, cells = (np.repeat(i.ravel(), table.ravel()) for i in np.indices(table.shape))
        return certify(cells, secret, len(table)).bound, best_attacker(mixture)

    return run


ONE_LAW = np.broadcast_to(TILT, (4, 2, 2))
MANY_LAWS = np.random.default_rng(5).dirichlet(np.ones(6), size=(5, 3))

WORLDS = [
    World("product, households of 100", "F", _product(60, 100, 0.75, joint_units)),
    World("product, households of 2", "F", _product(200, 2, 0.9, joint_units)),
    World("product, households of 20, delta .05/3", "F", _product(100, 20, 0.75, joint_units, 0.05 / 3), 0.05 / 3),
    World("product of three, chains of four", "F", _chain(200, 0.95)),
    World("product of three, short of chains", "F", _chain(30, 0.9)),
    World("look 10, best kept", "F", _refitted(10, 200, lambda t: look_delta(0.05, t))),
    World("look 50, best kept", "F", _refitted(50, 200, lambda t: look_delta(0.05, t)), runs=100),
    World("look 200, best kept", "F", _refitted(200, 200, lambda t: look_delta(0.05, t)), runs=60, slow=True),
    World("frontier of 10 points, one chosen", "frontier", _frontier(10, 60)),
    World("frontier of 40 points, one chosen", "frontier", _frontier(40, 200), runs=100),
    World("frontier of 200 candidates, best kept", "frontier", _refitted(200, 200, lambda t: 0.05 / 200),
          runs=60, slow=True),
    World("few columns, single ones", "few columns", _columns(5, 2, 1, [60, 60], 1)),
    World("few columns, pairs of 4", "few columns", _columns(4, 2, 2, [100, 100], 2)),
    World("few columns, pairs of 6, 3 classes", "few columns", _columns(6, 3, 2, [80, 80, 8], 3), runs=150),
    World("few columns, triples of 5", "few columns", _columns(5, 2, 3, [150, 60], 4), runs=150),
    World("few columns, pairs, people of 5 records", "few columns", _columns(4, 2, 2, [40, 40], 6, 5), runs=150),
    World("federated, one law", "federated", _nodes(ONE_LAW, [[100, 5], [10, 80], [3, 3], [40, 40]])),
    World("federated, a law each", "federated", _nodes(MANY_LAWS, [[60, 5, 9], [9, 80, 1], [3, 3, 3], [40, 4, 40],
                                                                   [1, 1, 70]])),
]  # fmt: skip

CONTROLS = [
    World("product, the first attribute's units", "F", _product(60, 100, 0.75, _first)),
    World("look 50, each at delta", "F", _refitted(50, 200, lambda t: 0.05), runs=100),
    World("look 200, each at delta", "F", _refitted(200, 200, lambda t: 0.05), runs=60, slow=True),
    World("frontier, each candidate at delta", "frontier", _refitted(100, 200, lambda t: 0.05), runs=60),
]
