"""The probing attacker: thousands of odd readings of released columns are tried, a few that hold are learned from.

A reading (a bit, a remainder, an ending, a parity, a period) is found on one half of the attacker's rows and must hold
on the other half, so that trying many costs no honesty. Test rows are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from tacit.auditing.probes_numbers import Family, pair_families, single_families
from tacit.auditing.probes_waves import (
    PHASES,
    Bits,
    PairWave,
    align_pair,
    find_large_parities,
    find_pair_periods,
    find_parities,
    find_periods,
    parity,
    phase,
)
from tacit.auditing.probes_words import word_probes
from tacit.auditing.received_columns import Columns, Source, as_columns
from tacit.auditing.screening import LEVEL_BINS, contrasts, evidence, quantile_codes, threshold
from tacit.training.trees import boosted_trees

INTERESTING = 3.0  # a deviate on the first half worth a second look
PAIR_BINS = 5
FINE = 20  # values of a column that can hold a wave
JOINT = ("parity", "wave over")
PARITY_CONTRASTS = 2  # of many classes: the search is the dearest
WAVE_BINS = 16  # a column's level, beside its waves


@dataclass(frozen=True)
class Effort:
    """How hard a search tries."""

    rows: int
    columns: int  # of more, only bits and remainders are read
    pair_columns: int
    bits: int  # whose parities are all tried
    many_bits: int  # whose parities of up to six are tried
    candidates: int
    kept: int
    effect: float  # the least correlation for which a reading of several columns is kept
    rounds: int  # of the boosted trees
    thorough: bool  # many readings, and trees that also read the encoded release


QUICK = Effort(4000, 40, 10, 14, 0, 40, 16, 0.3, 40, False)
STRONG = Effort(12_000, 200, 20, 16, 30, 120, 40, 0.05, 200, True)


@dataclass(frozen=True)
class Probe:
    """A reading of released columns: `codes` to test it by, `feature` (codes by default) to learn from."""

    name: str
    codes: Callable[[Columns], np.ndarray]
    feature: Callable[[Columns], np.ndarray]


class Probing:
    """Boosted trees on the odd readings of released columns that hold; with much effort, on the release as well.

    Parameters
    ----------
    abstain : say nothing where no reading holds (the presets have trees of their own)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cents = rng.integers(10_000, size=(2000, 1)) / 100
    >>> odd = np.rint(100 * cents[:, 0]).astype(int) % 2
    >>> attacker = Probing(QUICK, 2, 0).fit(cents[:1000], odd[:1000])
    >>> float((attacker.predict_proba(cents[1000:]).argmax(1) == odd[1000:]).mean())
    1.0
    """

    reads_columns = True

    def __init__(self, effort: Effort, n_classes: int, seed: int, abstain: bool = False) -> None:
        self.effort, self.n_classes, self.seed, self.abstain = effort, n_classes, seed, abstain

    def fit(self, X: Any, y: np.ndarray) -> Probing:
        columns = as_columns(X)
        self.prior = np.bincount(y, minlength=self.n_classes) / len(y)
        self.probes = find_probes(columns, y, self.n_classes, self.effort, self.seed)
        self.model = None
        if self.probes or not self.abstain:
            table = self._table(columns)
            trees = boosted_trees(table.shape, self.n_classes, self.seed, self.effort.rounds)
            self.model = trees.fit(table, y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        columns = as_columns(X)
        if self.model is None:
            return np.tile(self.prior, (len(columns), 1))
        found: np.ndarray = self.model.predict_proba(self._table(columns))
        return found

    @property
    def silent(self) -> bool:
        return self.model is None

    def _table(self, columns: Columns) -> np.ndarray:
        read = [p.feature(columns) for p in self.probes]
        # a wave's edges are sharper in the columns themselves
        also = self.effort.thorough or not read or any(p.name.startswith("wave") for p in self.probes)
        return np.column_stack([columns.X, *read] if also else read)


def find_probes(columns: Columns, y: np.ndarray, n_classes: int, effort: Effort, seed: int) -> list[Probe]:
    """Search on one half, keep what holds on the other: on labels of chance, one search in a hundred keeps any."""
    order = np.random.default_rng(seed).permutation(len(y))[: effort.rows]
    half = len(order) // 2
    if half < 30:
        return []
    first, second = columns[order[:half]], columns[order[half:]]
    targets = contrasts(y[order], n_classes, seed)
    search = _Search(first, targets[:half], effort)
    found = sorted(search.run(), key=lambda pair: -pair[0])
    best = [probe for _, probe in _spread(found, effort.candidates)]
    if not best:
        return []
    held = _verify(best, second, targets[half:], search)
    # ordinary columns interact a little: parities and waves over two columns must say more than that
    joint = np.array([p.name.startswith(JOINT) for p in best])
    bars = np.maximum(joint * effort.effect * np.sqrt(len(second)), threshold(len(best)))
    ranked = sorted((z, i) for i, z in enumerate(held) if z > bars[i])[::-1]
    return [best[i] for _, i in ranked[: effort.kept]]


def _spread(found: list[tuple[float, Probe]], maximum: int) -> list[tuple[float, Probe]]:
    """The best, but of readings of one name (a kind and a column) at most one."""
    seen: set[str] = set()
    kept = []
    for z, probe in found:
        if probe.name not in seen:
            seen.add(probe.name)
            kept.append((z, probe))
    return kept[:maximum]


def _verify(probes: list[Probe], columns: Columns, targets: np.ndarray, search: _Search) -> np.ndarray:
    codes = np.column_stack([p.codes(columns) for p in probes])
    cells = np.column_stack([search.cells_of(p.name, columns) for p in probes])
    return evidence(codes, targets, cells)


class _Search:
    """Tries every reading on some rows; remembers which levels of which columns were taken out of the labels."""

    def __init__(self, columns: Columns, targets: np.ndarray, effort: Effort) -> None:
        self.columns, self.targets, self.effort = columns, targets, effort
        self.sources: list[Source] = columns.sources()
        self.values = columns.matrix(self.sources)
        self._beside: dict[str, tuple[int, ...]] = {}  # probe -> sources whose level was taken out

    def run(self) -> Iterator[tuple[float, Probe]]:
        few = self.values.shape[1] <= self.effort.columns
        if self.values.shape[1]:
            cells = quantile_codes(self.values)
            for family in single_families(self.values, self.effort.thorough):
                if few or family.name.startswith(("sign", "last", "remainder 1")):
                    yield from self._family(family, cells[:, family.which[:, 0]])
        if few:
            yield from self._pairs()
            yield from self._waves()
        yield from self._parities()
        yield from self._words()

    def cells_of(self, name: str, columns: Columns) -> np.ndarray:
        """The levels that are taken out before the reading of this name is judged."""
        beside = self._beside[name]
        if not beside:
            return np.zeros(len(columns), dtype=np.int64)
        values = np.column_stack([columns.number(self.sources[i]) for i in beside])
        return _joint(values)

    def _tell(self, name: str, z: float, beside: tuple[int, ...], codes: Any, feature: Any = None) -> tuple:
        self._beside[name] = beside
        return z, Probe(name, codes, feature or codes)

    def _family(self, family: Family, cells: np.ndarray) -> Iterator[tuple[float, Probe]]:
        z = evidence(family.codes(self.values), self.targets, cells)
        for at in np.flatnonzero(z > INTERESTING):
            beside = tuple(int(i) for i in family.which[at])
            yield self._tell(f"{family.name}, {beside}", float(z[at]), beside, self._reader(family, int(at)))

    def _reader(self, family: Family, at: int) -> Callable[[Columns], np.ndarray]:
        names = [self.sources[i] for i in family.which[at]]
        alone = Family(family.name, np.arange(len(names))[None, :], lambda v, _: family.read(v, np.array([at])))
        return lambda columns: alone.codes(np.column_stack([columns.number(s) for s in names]))[:, 0]

    def _pairs(self) -> Iterator[tuple[float, Probe]]:
        some = self._varied(self.effort.pair_columns)
        values = self.values[:, some]
        coarse = quantile_codes(values, PAIR_BINS)
        for family in pair_families(values, self.effort.thorough):
            cells = coarse[:, family.which[:, 0]] * (PAIR_BINS + 1) + coarse[:, family.which[:, 1]]
            yield from self._family(Family(family.name, some[family.which], family.read), cells)
        fine = [i for i in some.tolist() if len(np.unique(self.values[:, i])) >= FINE]
        for i, j in combinations(fine, 2):
            f, g, power = find_pair_periods(self.values[:, i], self.values[:, j], self.targets)
            if power > 12 and f and g:
                yield from self._pair_wave(i, j, f, g)
        whole = [at for at in range(self.columns.width) if not self.columns.is_number(at)]
        for i, j in combinations(whole[: self.effort.pair_columns], 2):
            yield from self._judge(
                f"equal words, {i} and {j}", lambda c, i=i, j=j: (c.words(i) == c.words(j)).astype(np.int64)
            )

    def _pair_wave(self, i: int, j: int, f: float, g: float) -> Iterator[tuple[float, Probe]]:
        one, two = self.sources[i], self.sources[j]
        waves = align_pair(self.values[:, i], self.values[:, j], self.targets[:, 0], f, g)

        def height(c: Columns, wave: PairWave) -> np.ndarray:
            return wave(c.number(one), c.number(two))

        def codes(c: Columns, wave: PairWave) -> np.ndarray:
            return np.clip((height(c, wave) + 1) * 3, 0, 5).astype(np.int64)

        for name, wave in waves.items():
            # the phases, which tell nothing alone, sharpen the edges of the product they are judged by
            judged = wave if name == "plane" else waves["product"]
            read = partial(height, wave=wave)
            yield from self._judge(f"wave over {i} and {j}, {name}", partial(codes, wave=judged), read, (i, j))

    def _waves(self) -> Iterator[tuple[float, Probe]]:
        for at, source in enumerate(self.sources):
            for number, frequency in enumerate(find_periods(self.values[:, at], self.targets)):

                def turn(c: Columns, s: Source = source, f: float = frequency) -> np.ndarray:
                    return phase(c.number(s), f)

                yield from self._judge(
                    f"wave {number}, ({at},)", lambda c, t=turn: (t(c) * PHASES).astype(np.int64), turn, (at,)
                )

    def _parities(self) -> Iterator[tuple[float, Probe]]:
        gaps = np.where(self.columns.gaps, np.nan, 1.0)
        every = self.sources
        targets = self.targets[:, :PARITY_CONTRASTS]
        for kind in ("half", "odd", "low", "gap"):
            values = gaps if kind == "gap" else self.values
            if values.shape[1] < 2:
                continue
            bits = Bits(kind, values, self.effort.bits)
            sets = find_parities(bits.read(values), targets, 4)
            yield from self._sets(kind, bits, sets, every)
            if kind == "half":
                yield from self._sets("sign", bits.signs(), sets, every)
            if self.effort.many_bits > len(bits.which) == self.effort.bits:
                bits = Bits(kind, values, self.effort.many_bits)
                sets = find_large_parities(bits.read(values)[:1000], targets[:1000], 4)
                yield from self._sets(f"{kind} of many", bits, sets, every)
                if kind == "half":
                    yield from self._sets("sign of many", bits.signs(), sets, every)

    def _sets(self, name: str, bits: Bits, sets: list[tuple[int, ...]], every: list[Source]) -> Iterator[Any]:
        for chosen in sets:

            def read(c: Columns, chosen: tuple[int, ...] = chosen) -> np.ndarray:
                values = np.where(c.gaps, np.nan, 1.0) if bits.kind == "gap" else c.matrix(every)
                return parity(bits.read(values), chosen)

            yield from self._judge(f"parity {name}, {chosen}", read)

    def _words(self) -> Iterator[tuple[float, Probe]]:
        for name, read in word_probes(self.columns, self.effort.thorough):
            yield from self._judge(name, read)

    def _judge(self, name: str, codes: Any, feature: Any = None, beside: tuple[int, ...] = ()) -> Iterator[Any]:
        cells = _joint(self.values[:, list(beside)], WAVE_BINS)[:, None] if beside else None
        z = float(evidence(codes(self.columns)[:, None], self.targets, cells)[0])
        if z > INTERESTING:
            yield self._tell(name, z, beside, codes, feature)

    def _varied(self, maximum: int) -> np.ndarray:
        """The sources with the most values, which ordinary attackers read worst."""
        distinct = np.array([len(np.unique(c)) for c in self.values.T])
        return np.sort(np.argsort(-distinct, kind="stable")[:maximum])


def _joint(values: np.ndarray, bins: int = LEVEL_BINS) -> np.ndarray:
    """The levels of one column, or of two together, as one whole number."""
    if values.shape[1] == 1:
        return quantile_codes(values, bins)[:, 0]
    few = int(np.sqrt(bins))
    codes = quantile_codes(values, few)
    return codes[:, 0] * (few + 1) + codes[:, 1]
