"""Power: the smallest leak that these attackers, with these rows, would have found.

Leaks of known size are planted in the release (`tacit.auditing.planting`) and read by one of the attackers that ran.
"Found" is what the report calls a leak: the lower end of the chosen attacker's interval lies above guessing; a rare
group is found when people are named. The base is the release without its own leak, for a report asks "is there
anything?", and on top of a large leak a small one is neither seen nor needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats as sps

from tacit.auditing.attackers import Attacker, Counting
from tacit.auditing.exposure import exposure, minimum_named, naming
from tacit.auditing.planting import KINDS, Ground, Planted, plant, plant_rare
from tacit.auditing.stats import balanced_accuracy
from tacit.auditing.suite import FEW_ROWS, FOLDS, AttackSuite, Outcome, class_shares, learn
from tacit.auditing.trial import Task, Trial
from tacit.records.dataset import allot
from tacit.report.results import RARE, Power

WANTED = 0.9  # of the plantings at the stated size are found
PLANTINGS = {"quick": 3, "strong": 12}
MAX_NUMBERS = 2_000_000  # rows x columns of a part: fewer rows find less, so the statement holds
MAX_ROWS = 15_000
MIN_ROWS = 300  # of a wide release
NOTHING = 0.005  # of balanced accuracy above guessing: a leak that cannot be larger is none
TOO_FEW_ROWS = 20
CHEAP = ("logistic", "trees", "neighbors", "counting")
SLOW_ROWS = 1000  # that any other reader learns from, and is tested on
MANY_CLASSES = 4  # above which a reader takes long
# the attackers that suit a kind best, and are cheap: whoever has more attackers finds at least as much, but for the
# choice among them, which is counted (`_choice`)
SUITED = {
    "one column": ("trees", "forest", "logistic"),
    "a pair": ("trees", "forest", "mlp", "neighbors", "rbf"),
    "a smooth direction": ("logistic", "mlp", "rbf"),
}


def measure_power(suite: AttackSuite, trial: Trial) -> dict[str, Power]:
    """The power of an audit by attribute: few leaks are planted, unless asked for more, or in the preset "strong"."""
    wanted = trial.asked.power
    if wanted is False or suite.interrupted:
        return {}
    plantings = PLANTINGS["strong" if wanted or trial.asked.strong else "quick"]
    told = {}
    try:
        for task in trial.tasks("sensitive"):
            told[task.attribute] = power(suite, task, plantings, trial.level)
    except KeyboardInterrupt:
        suite.interrupted = True  # the attackers have finished: their figures are kept
    return {attribute: found for attribute, found in told.items() if found is not None}


def power(suite: AttackSuite, task: Task, plantings: int, level: float = 0.95) -> Power | None:
    """Plant leaks of every kind in a release, and say how large they must be to be found in 9 of 10 cases.

    Few plantings give a cautious figure: what they leave open counts against the attackers.

    Parameters
    ----------
    suite : the attackers that ran
    task : the release and the attribute whose class shares the planted labels keep
    plantings : leaks planted of each kind (and one more of a rare group, of which a planting tells least)
    level : of the intervals that must lie clear of guessing

    Examples
    --------
    >>> import tacit
    >>> _, attack, test = tacit.load_dataset("quadrants", n=2000).split()
    >>> [task] = Trial.of(None, attack, test).tasks("sensitive")
    >>> .5 < power(AttackSuite("trees"), task, plantings=2).found["one column"] < .7
    True
    """
    if not suite.attackers and not task.finite:
        return None  # only attackers that need a record's shape: these are too slow to run again and again
    if min(len(task.ya), len(task.yt)) < TOO_FEW_ROWS:
        return None  # so few rows find nothing
    rng = np.random.default_rng(suite.seed)
    asked = {kind: _reader(suite, task, kind) for kind in KINDS} | {RARE: _naming(suite, task)}
    cheap = all(reader is None or reader[0] in CHEAP for reader in asked.values())
    small = _fewer_rows(task, *((suite.max_rows, MAX_ROWS) if cheap else (SLOW_ROWS, SLOW_ROWS)), rng)
    ground = planting_ground(small)
    found: dict[str, float | None] = {}
    largest: dict[str, float] = {}
    readers: dict[str, str] = {}
    for kind, reader in asked.items():
        if reader is None or (kind == "a pair" and len(ground.varied) < 2):
            continue
        suite.callback(f"{task.attribute}: would a leak in {kind} be found?", None, None)
        name, make = reader
        given = _Given(make, small, ground, level, suite.seed, len(suite.attackers) + task.finite)
        trial, tries = (_Rare(given), plantings + 1) if kind == RARE else (_Sized(given, kind), plantings)
        size, limit = _smallest(trial, tries, rng)
        if limit < NOTHING:
            continue  # such a leak has no room in this release
        readers[kind] = name
        found[kind] = size if size is None or kind == RARE else size + 1 / task.n_classes
        largest[kind] = limit + (0 if kind == RARE else 1 / task.n_classes)
    return Power(found, largest, readers, 1 / task.n_classes, plantings, (len(small.ya), len(small.yt)))


def _fewer_rows(c: Task, learn: int, test: int, rng: np.random.Generator) -> Task:
    """What can be read in seconds."""
    affordable = max(MIN_ROWS, MAX_NUMBERS // c.Xa.shape[1])
    a, t = (np.sort(rng.permutation(n)[: min(affordable, m)]) for n, m in ((len(c.ya), learn), (len(c.yt), test)))
    ua, ut = (None if u is None else u[k] for u, k in ((c.ua, a), (c.ut, t)))
    return replace(c, Xa=c.Xa[a], ya=c.ya[a], ua=ua, Xt=c.Xt[t], yt=c.yt[t], ut=ut, rows=c.rows[t])


def planting_ground(c: Task) -> Ground:
    """Both parts in one table; units where every unit has one label, for then a planted label is a unit's too."""
    units = None
    if c.ua is not None and c.ut is not None:
        _, own = np.unique(np.concatenate([c.ua, c.ut]), return_inverse=True)
        own = own.ravel()
        labels = np.concatenate([c.ya, c.yt])
        first = np.zeros(own.max() + 1, dtype=labels.dtype)
        first[own] = labels
        if (first[own] == labels).all() and len(first) < len(labels):
            units = own
    return Ground(np.concatenate([c.Xa, c.Xt]), units, class_shares(c.ya, c.n_classes))


def _reader(suite: AttackSuite, c: Task, kind: str) -> tuple[str, Attacker]:
    if c.finite:
        return "counting", lambda shape, m, seed: Counting()
    name = next((n for n in SUITED[kind] if n in suite.attackers), next(iter(suite.attackers)))
    return name, suite.attackers[name]


def _naming(suite: AttackSuite, c: Task) -> tuple[str, Attacker] | None:
    """The attacker that `exposure` always asks, or the only one; None where the choice is open.

    None too where records have units: what names a unit for sure is not a matter of each of its records.
    """
    name = naming(suite.attackers) or (next(iter(suite.attackers)) if len(suite.attackers) == 1 else None)
    return None if name is None or c.ua is not None else (name, suite.attackers[name])


@dataclass(frozen=True)
class _Given:
    """The reader, what it reads, and how many attackers it has to win against."""

    make: Attacker
    task: Task
    ground: Ground
    level: float
    seed: int
    n_attackers: int

    @property
    def quarters(self) -> int:
        """How many quarters of the rows judge an attacker here: no more than in `AttackSuite.run`."""
        few = len(self.task.ya) <= FEW_ROWS and self.n_attackers > 1
        return 2 if few and self.task.n_classes <= MANY_CLASSES else 1

    @property
    def judges(self) -> float:
        """How many rows that is."""
        return len(self.task.ya) * self.quarters / FOLDS

    def learn(self, labels: np.ndarray) -> np.ndarray:
        """The reader's probabilities on test rows, when the other rows have these labels."""
        c = self.task
        return learn(self.make, c.Xa, labels, c.n_classes, self.seed)(c.Xt)


class _Sized:
    """Leaks measured by balanced accuracy.

    Of a leak of size x above guessing an attacker reads x / (1 + (x0 / x)^2): little where it is smaller than what can
    be learned from the rows, x0, and all of a large one. Every planting has its own x0.
    """

    spreads = np.array([0.1, 0.2, 0.35, 0.6])  # of the logarithm of the threshold, from planting to planting
    probed = 0.6  # the next planting has a size that is found about so often: there it tells most

    def __init__(self, given: _Given, kind: str) -> None:
        self.given, self.kind = given, kind
        c = given.task
        blind = np.random.default_rng(given.seed).integers(c.n_classes, size=len(c.yt))
        nothing = balanced_accuracy(c.yt, blind, c.n_classes, c.ut, given.level)
        half = nothing.value - nothing.low  # an attacker must be so far above guessing to be believed
        self.noise = half / sps.norm.ppf((1 + given.level) / 2)
        judge_noise = self.noise * np.sqrt(len(c.yt) / given.judges)
        # that a leak is found, by what the reader gets of it: it must be chosen, and lie clear of guessing
        self.gots = np.linspace(0, 4 * half + 4 * judge_noise, 200)
        self.chances = sps.norm.cdf((self.gots - half) / self.noise) * _choice(
            self.gots / judge_noise, given.n_attackers
        )
        self.first, self.most = 4 * half, 1 / c.n_classes

    def run(self, size: float, rng: np.random.Generator) -> tuple[Planted, float]:
        """What was planted, and how far above guessing the reader came."""
        planted = plant(self.kind, self.given.ground, size, rng)
        c = self.given.task
        ya, yt = planted.labels[: len(c.ya)], planted.labels[len(c.ya) :]
        answer = (self.given.learn(ya) / class_shares(ya, c.n_classes)).argmax(1)
        got = balanced_accuracy(yt, answer, c.n_classes)
        return planted, got.value - got.guessing

    def read(self, size: float, threshold: np.ndarray) -> np.ndarray:
        return size / (1 + (threshold / size) ** 2)

    def likelihood(self, size: float, got: float, threshold: np.ndarray) -> np.ndarray:
        # the constant: one planting in many is a law to itself
        density: np.ndarray = np.exp(-(((got - self.read(size, threshold)) / self.noise) ** 2) / 2) + 1e-3
        return density

    def chance(self, size: float, threshold: np.ndarray) -> np.ndarray:
        return np.interp(self.read(size, threshold), self.gots, self.chances)


class _Rare:
    """A rare group, measured by the share of people named: found above a share, missed below.

    A planting tells no more than that, and which columns mark the group matters much: so the belief starts wide.
    """

    spreads = np.array([0.35, 0.6, 1.0])
    probed = 0.8

    def __init__(self, given: _Given) -> None:
        self.given = given
        self.first = 3 * minimum_named() / given.judges
        self.most = float(given.ground.prior.max()) / 2

    def run(self, size: float, rng: np.random.Generator) -> tuple[Planted, float]:
        """What was planted, and whether anybody was named."""
        planted = plant_rare(self.given.ground, size, rng)
        c = self.given.task
        ya, yt = planted.labels[: len(c.ya)], planted.labels[len(c.ya) :]
        outcome = Outcome(replace(c, ya=ya, yt=yt), "reader", {"reader": self.given.learn(ya)}, self._held_out(ya))
        return planted, float(exposure(outcome, self.given.level).named.low > 0)

    def _held_out(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The reader's probabilities on quarters of the rows that it did not learn from, and their labels."""
        g, c = self.given, self.given.task
        fold = allot(labels, np.ones(FOLDS), g.seed, c.ua)
        p = np.zeros((len(labels), c.n_classes))
        for turn in range(g.quarters):
            own = fold == turn
            p[own] = learn(g.make, c.Xa[~own], labels[~own], c.n_classes, g.seed)(c.Xa[own])
        return p[fold < g.quarters], labels[fold < g.quarters]

    def likelihood(self, size: float, got: float, threshold: np.ndarray) -> np.ndarray:
        likely: np.ndarray = np.where((size >= threshold) == bool(got), 0.97, 0.03)
        return likely

    def chance(self, size: float, threshold: np.ndarray) -> np.ndarray:
        return (size >= threshold).astype(float)


NODES = sps.norm.ppf((np.arange(15) + 0.5) / 15)


def _smallest(trial: _Sized | _Rare, plantings: int, rng: np.random.Generator) -> tuple[float | None, float]:
    """Plant where it tells most, learn mean and spread of the threshold, and say the size found in 9 of 10.

    Returns that size, or None where no size is, and the largest that can be planted.
    """
    low, high = trial.first / 30, max(trial.most, trial.first) * 4
    means = np.linspace(np.log(low), np.log(high), 60)
    threshold = np.exp(means[:, None, None] + trial.spreads[:, None] * NODES)
    belief = np.full(threshold.shape[:2], 1 / threshold[:, :, 0].size)
    sizes = np.geomspace(low, max(trial.most, 2 * low), 60)
    limits: list[float] = []

    def smallest(wanted: float) -> float | None:
        chance = np.array([float((belief * trial.chance(x, threshold).mean(2)).sum()) for x in sizes])
        enough = np.flatnonzero((chance >= wanted) & (sizes <= max([trial.most, *limits])))
        return float(sizes[enough[0]]) if len(enough) else None

    size = trial.first
    for _ in range(plantings):
        planted, got = trial.run(min(size, trial.most), rng)
        limits.append(planted.limit)
        if planted.size > 0:
            belief = belief * trial.likelihood(planted.size, got, threshold).mean(2)
            belief = belief / belief.sum()
        size = smallest(trial.probed) or trial.most
    found, largest = smallest(WANTED), float(np.median(limits))
    return (found if found is not None and found <= largest else None), largest


def _choice(advantage: np.ndarray, n_attackers: int) -> np.ndarray:
    """The chance that the reader wins on validation rows, against others that have found nothing there.

    `advantage` is in units of the noise of a score.
    """
    return np.mean([sps.norm.cdf(advantage + z) ** (n_attackers - 1) for z in NODES], axis=0)
