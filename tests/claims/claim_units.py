"""D: units of several records. Whose average is bounded, whatever their sizes and whatever depends on them."""

from __future__ import annotations

import numpy as np
from claim_world import Kind, World, draw_units, pareto, truth_of, two_cells

from tacit.auditing.certificate import certify, certify_channel, certify_local_privacy, local_dp_bound
from tacit.auditing.gaussian import certify_gaussian
from tacit.errors import InputError

SILENT = two_cells(0.5)
HABITS = (np.array([[0.45, 0.05], [0.05, 0.45]]), np.array([[0.05, 0.45], [0.45, 0.05]]))  # together silent


def _by(kinds, n_units, per="unit", plain=False, limit=None, channel=None):
    """The certificate of the average unit or record in a world of these kinds of units."""
    behind = kinds if channel is None else [Kind(k.share, k.sizes, k.law @ channel, k.alike) for k in kinds]
    truth = truth_of(behind, per)[int(plain)]

    def run(rng):
        cells, secret, units = draw_units(kinds, n_units, rng)
        given, how = (cells, secret, len(kinds[0].law)), {"units": units, "per": per, "max_unit_size": limit}
        try:
            found = certify(*given, **how) if channel is None else certify_channel(*given, channel, **how)
        except InputError as error:
            if "none was accepted" not in str(error):
                raise
            return 1.0, truth  # no claim is made
        return (found.accuracy_bound if plain else found.bound), truth

    return run


def _heavy(share, size):
    """Heavy units are read always, the others not at all."""
    return [Kind(share, [size], two_cells(1.0)), Kind(1 - share, [1], SILENT)]


def _light(share, size):
    """Light units are read always, heavy ones not at all."""
    return [Kind(share, [size], SILENT), Kind(1 - share, [1], two_cells(1.0))]


def _mixed(m, share, n_units):
    """A few units have a record of every class, in a cell of its own; the others one record, in cell 0."""

    def run(rng):
        mixed = int(rng.binomial(n_units, share))
        secret = np.concatenate([np.tile(np.arange(m), mixed), rng.integers(m, size=n_units - mixed)])
        cells = np.concatenate([np.tile(np.arange(m) + 1, mixed), np.zeros(n_units - mixed, dtype=int)])
        units = np.concatenate([np.repeat(np.arange(mixed), m), np.arange(mixed, n_units)])
        return certify(cells, secret, m, units=units).bound, (m * share + 1 - share) / m

    return run


EQUAL = [Kind(1.0, [20], two_cells(0.7), "all")]
PARETO = [Kind(1.0, pareto(1.1, 500), two_cells(0.75), "all")]
PARETO_TO_20 = [Kind(1.0, pareto(1.1, 20), two_cells(0.75), "all")]
PARETO_HABITS = [Kind(0.5, pareto(0.8, 400), HABITS[0]), Kind(0.5, pareto(0.8, 400), HABITS[1])]
# the larger the unit, the more is read of it; and a unit may have records of both classes
LINKED = [Kind(0.6, [1, 2], two_cells(0.55), "nothing"), Kind(0.3, [5, 10], two_cells(0.7), "nothing"),
          Kind(0.1, [40, 60], two_cells(0.9), "nothing")]  # fmt: skip
RARE = [Kind(0.9, [1, 3], two_cells(0.6, (0.95, 0.05)), "all"), Kind(0.1, [30], two_cells(0.9, (0.2, 0.8)), "all")]


def _noisy(kinds, n_units, per, limit, sigma, truth):
    """The cell is a number, released with noise."""

    def run(rng):
        cells, secret, units = draw_units(kinds, n_units, rng)
        found = certify_gaussian(
            cells - 0.5, secret, 2, sigma, draws=1500, units=units, per=per, max_unit_size=limit,
            seed=int(rng.integers(2**31)),
        )  # fmt: skip
        return found.bound, truth

    return run


def _private(kinds, n_units, epsilon, per, limit):
    """Plain accuracy of randomised response; the commonest class is commoner among heavy units."""
    weight = [k.share * (float(np.mean(k.sizes)) if per == "record" else 1.0) for k in kinds]
    prior = sum(w * k.law.sum(axis=1) for w, k in zip(weight, kinds, strict=True)) / sum(weight)
    keep = local_dp_bound(epsilon, len(prior))
    joint = prior[:, None] * np.where(np.eye(len(prior)), keep, (1 - keep) / (len(prior) - 1))
    truth = float(joint.max(axis=0).sum())

    def run(rng):
        _, secret, units = draw_units(kinds, n_units, rng)
        c = certify_local_privacy(epsilon, secret, len(prior), units=units, per=per, max_unit_size=limit)
        return c.accuracy_bound, truth

    return run


WORLDS = [
    World("equal sizes, equal records, 60 people", "D", _by(EQUAL, 60), runs=800),
    World("equal sizes, equal records, per record", "D", _by(EQUAL, 60, "record", limit=20)),
    World("Pareto sizes, equal records, per unit", "D", _by(PARETO, 100)),
    World("Pareto sizes, per record", "D", _by(PARETO_TO_20, 200, "record", limit=20)),
    World("Pareto sizes, personal habits", "D", _by(PARETO_HABITS, 120)),
    World("Pareto sizes, plain, per unit", "D", _by(PARETO, 100, plain=True)),
    World("heavy units leak, 300 people of 500, per record", "D", _by(_heavy(0.002, 500), 300, "record", limit=500)),
    World("heavy units leak, 1000 people of 1000, per record", "D",
          _by(_heavy(0.001, 1000), 1000, "record", limit=1000), slow=True),
    World("heavy units leak, 300 people of 200, per record", "D", _by(_heavy(0.01, 200), 300, "record", limit=200)),
    World("heavy units leak, a limit twice too high", "D", _by(_heavy(0.05, 50), 300, "record", limit=100)),
    World("heavy units leak, plain, per record", "D", _by(_heavy(0.05, 20), 300, "record", True, 20), runs=400),
    World("heavy units leak, per unit", "D", _by(_heavy(0.01, 200), 300)),
    World("light units leak, 2000 people, tenth heavy", "D", _by(_light(0.1, 200), 2000), runs=100, slow=True),
    World("light units leak, 400 people, third heavy", "D", _by(_light(0.3, 100), 400), runs=150),
    World("light units leak, plain", "D", _by(_light(0.3, 50), 100, plain=True), runs=300),
    World("light units leak, per record", "D", _by(_light(0.3, 20), 400, "record", limit=20)),
    World("size tells the leak, units of both classes", "D", _by(LINKED, 80), runs=500),
    World("size tells the leak, units of both classes, per record", "D", _by(LINKED, 300, "record", limit=60)),
    World("size tells the leak, plain, per record", "D", _by(LINKED, 300, "record", True, 60)),
    World("a rare class in heavy units", "D", _by(RARE, 150)),
    World("a rare class in heavy units, per record", "D", _by(RARE, 400, "record", limit=30)),
    World("units of all 100 classes are read", "D", _mixed(100, 0.002, 10_000), slow=True),
    World("units of all 20 classes are read", "D", _mixed(20, 0.02, 1000)),
    World("behind a channel, Pareto sizes", "D", _by(PARETO, 100, channel=np.array([[0.8, 0.2], [0.3, 0.7]]))),
    World("behind a channel, heavy units leak, per record", "D",
          _by(_heavy(0.02, 50), 300, "record", limit=50, channel=np.array([[0.9, 0.1], [0.1, 0.9]]))),
    # noise .02 of the distance never crosses over: the truth is the code's
    World("noise, heavy units leak, per record", "D",
          _noisy(_heavy(0.02, 50), 200, "record", 50, 0.02, truth_of(_heavy(0.02, 50), "record")[0]), runs=60),
    World("noise, light units leak, per unit", "D",
          _noisy(_light(0.3, 10), 60, "unit", None, 0.02, truth_of(_light(0.3, 10))[0]), runs=100),
    World("local privacy, heavy units have the rare class, per record", "D", _private(RARE, 300, 1.0, "record", 30)),
    World("local privacy, heavy units have the rare class, per unit", "D", _private(RARE, 60, 1.0, "unit", None)),
]  # fmt: skip


# -- controls: records counted alike, as before -----------------------------------------------------


def records_alike(cells, secret, m, units):
    """The bound before units were weighed: plug-in of the records, slack of the units' shares."""
    counts = np.bincount(secret, minlength=m)
    table = np.zeros((cells.max() + 1, m))
    np.add.at(table, (cells, secret), 1)
    share = np.bincount(units, 1 / counts[secret])
    return (table / counts).max(axis=1).sum() / m + np.sqrt((share**2).sum() * np.log(20) / 2) / m


def _records_alike(kinds, n_units, per):
    truth = truth_of(kinds, per)[0]

    def run(rng):
        cells, secret, units = draw_units(kinds, n_units, rng)
        return min(1.0, records_alike(cells, secret, 2, units)), truth

    return run


def _units_undeclared(kinds, n_units):
    truth = truth_of(kinds)[0]
    return lambda rng: (certify(*draw_units(kinds, n_units, rng)[:2], 2).bound, truth)


def _largest_seen(kinds, n_units):
    """The average record with the limit read off the data: rare, heavy units are missed."""
    truth = truth_of(kinds, "record")[0]

    def run(rng):
        cells, secret, units = draw_units(kinds, n_units, rng)
        limit = int(np.bincount(units).max())
        return certify(cells, secret, 2, units=units, per="record", max_unit_size=limit).bound, truth

    return run


def _shares_added(m, share, n_units):
    """Units of several classes speak for all of them, their shares added: slack too small. The law of class s is that
    of a unit that has records of class s, then one of these."""
    read = share / (share + (1 - share) / m)  # of the units of a class
    truth = (m * read + 1 - read) / m

    def run(rng):
        mixed = int(rng.binomial(n_units, share))
        pure = np.bincount(rng.integers(m, size=n_units - mixed), minlength=m)
        counts = pure + mixed
        plugin = ((mixed / counts).sum() + (pure / counts).max()) / m
        moved = mixed * (1 / counts).sum() ** 2 + (pure / counts**2).sum()
        return plugin + np.sqrt(moved * np.log(20) / 2) / m, truth

    return run


CONTROLS = [
    World("heavy units leak, records alike", "D", _records_alike(_heavy(0.002, 500), 300, "record")),
    World("light units leak, records alike", "D", _records_alike(_light(0.3, 100), 400, "unit"), runs=40),
    World("equal records, units not declared", "D", _units_undeclared(EQUAL, 60)),
    World("heavy units leak, limit of sizes read off the data", "D", _largest_seen(_heavy(0.002, 500), 300)),
    World("units of 100 classes, shares added", "D", _shares_added(100, 0.002, 10_000), runs=1500),
]
