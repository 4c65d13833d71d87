"""The probing attacker: it learns from readings of released columns that encoders hide.

Low bits, last digits and remainders of numbers, gaps, equality of columns, and of words their length, case, blanks,
letters, digits and the words inside them. A reading is found on one half of the attacker's rows and must hold on the
other half, so that trying many costs no honesty. Test rows are never read for this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import norm

from tacit.auditing.received import Columns, Source, as_columns
from tacit.training.trees import boosted_trees

INTERESTING = 3.0  # a deviate on the first half that is tested on the second
FALSE_ALARMS = 0.01  # searches on labels of chance that keep any reading
LEVELS, PAIR_LEVELS = 32, 5  # quantiles of a column: what they say is left to ordinary attackers
MAX_CONTRASTS = 4
REMAINDERS = (9, 10, 11, 12, 13, 14, 15, 16)  # with their divisors: all moduli from 2 to 16
MAX_EXACT = 2.0**53  # whole numbers that a float holds exactly
MAX_DECIMALS = 6
NEARLY = 2e-4  # of 1: so near to a whole number a number is one
COMMON_WORDS = 30  # words inside the texts of a column, each of which is searched for

Read = Callable[[Columns], np.ndarray]


@dataclass(frozen=True)
class Effort:
    """How hard a search tries."""

    rows: int
    columns: int  # of more, only bits and remainders are read
    pair_columns: int
    letters: int  # from each end of a word
    candidates: int
    kept: int
    rounds: int  # of the boosted trees
    thorough: bool  # trees also read the encoded release


QUICK = Effort(4000, 40, 10, 8, 40, 16, 40, False)
STRONG = Effort(12_000, 200, 20, 20, 120, 40, 200, True)


@dataclass(frozen=True)
class Probe:
    """A reading of released columns: rows -> whole numbers from 0.

    What the levels of these numbers say, ordinary attackers read: it is taken out before the reading is judged.
    """

    name: str
    read: Read
    beside: tuple[Source, ...] = ()


class Probing:
    """Boosted trees on the readings of released columns that hold; with much effort, on the release as well.

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
        read = [p.read(columns) for p in self.probes]
        return np.column_stack([columns.X, *read] if self.effort.thorough or not read else read)


def find_probes(columns: Columns, y: np.ndarray, n_classes: int, effort: Effort, seed: int) -> list[Probe]:
    """Search on one half, keep what holds on the other: on labels of chance, one search in a hundred keeps any."""
    order = np.random.default_rng(seed).permutation(len(y))[: effort.rows]
    half = len(order) // 2
    if half < 30:
        return []
    targets = contrasts(y[order], n_classes, seed)
    first, second = columns[order[:half]], columns[order[half:]]
    judge = _Judge(first, targets[:half])
    found = [(judge(probe), probe) for probe in candidates(first, effort)]
    best = sorted((pair for pair in found if pair[0] > INTERESTING), key=lambda pair: -pair[0])[: effort.candidates]
    # what the best of this many readings exceeds by chance in one search of a hundred
    bar = norm.isf(FALSE_ALARMS / max(1, len(best)))
    judge = _Judge(second, targets[half:])
    held = [(judge(probe), probe) for _, probe in best]
    return [probe for z, probe in sorted(held, key=lambda pair: -pair[0]) if z > bar][: effort.kept]


def candidates(columns: Columns, effort: Effort) -> Iterator[Probe]:
    """Every reading that is tried; `columns` are rows to learn the formats of numbers and the words of texts from."""
    sources = columns.sources()
    few = len(sources) <= effort.columns
    for source in sources:
        yield from _numbers(source, columns.number(source), few)
    texts = [at for at in range(columns.width) if not columns.is_number(at)]
    for at in texts:
        if columns.has_many_words(at):
            yield from _words(at, columns.words(at), effort.letters)
    if few:
        distinct = np.array([len(np.unique(columns.number(s))) for s in sources], dtype=int)
        varied = np.sort(np.argsort(-distinct, kind="stable")[: effort.pair_columns])
        for i, j in combinations(varied.tolist(), 2):
            yield _equality(columns, sources[i], sources[j])
        for i, j in combinations(texts[: effort.pair_columns], 2):
            yield Probe(f"equal words, {i} and {j}", partial(_equal_words, i=i, j=j))
        if columns.gaps.any(axis=0).sum() > 1:
            yield Probe("number of gaps", lambda c: c.gaps.sum(axis=1))


def contrasts(y: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    """Labels as a few centred columns of numbers: each class against the rest, or random halves of many classes."""
    if n_classes <= MAX_CONTRASTS:
        columns = np.eye(n_classes)[y][:, : n_classes - 1]
    else:
        rng = np.random.default_rng(seed)
        sides = np.array([rng.permutation(n_classes) % 2 for _ in range(MAX_CONTRASTS)])
        columns = sides.T[y].astype(float)
    centred: np.ndarray = columns - columns.mean(axis=0)
    return centred


class _Judge:
    """How far the classes of a reading stray from the mean on some rows, as a normal deviate: the highest contrast."""

    def __init__(self, columns: Columns, targets: np.ndarray) -> None:
        self.columns = columns
        self.rest: dict[tuple[Source, ...], np.ndarray] = {(): targets}  # without what these columns' levels say

    def __call__(self, probe: Probe) -> float:
        if probe.beside not in self.rest:
            self.rest[probe.beside] = self._without(probe.beside)
        rest, codes = self.rest[probe.beside], probe.read(self.columns)
        counts = np.bincount(codes)
        freedom = int((counts > 0).sum()) - 1
        if freedom < 1:
            return -np.inf
        sums = np.column_stack([np.bincount(codes, column) for column in rest.T])
        spread = np.maximum((rest**2).mean(axis=0), 1e-12)
        chi2 = (sums**2 / np.maximum(counts, 1)[:, None]).sum(axis=0) / spread
        # Wilson and Hilferty: the cube root of a chi-square is nearly normal
        width = 2 / (9 * freedom)
        return float(((np.cbrt(chi2 / freedom) - 1 + width) / np.sqrt(width)).max())

    def _without(self, sources: tuple[Source, ...]) -> np.ndarray:
        cells = np.zeros(len(self.columns), dtype=np.int64)
        bins = LEVELS if len(sources) == 1 else PAIR_LEVELS
        for source in sources:
            cells = cells * (bins + 1) + quantile_codes(self.columns.number(source), bins)
        targets = self.rest[()]
        counts = np.maximum(np.bincount(cells), 1)
        return np.column_stack([t - (np.bincount(cells, t) / counts)[cells] for t in targets.T])


def quantile_codes(values: np.ndarray, bins: int) -> np.ndarray:
    """Numbers cut at their quantiles, 0 to bins - 1, equal numbers in one bin; gaps are `bins`."""
    filled = np.where(np.isfinite(values), values, np.inf)
    below = np.searchsorted(np.sort(filled), filled)
    return np.where(np.isfinite(values), below * bins // len(values), bins)


# --- numbers


def _numbers(source: Source, values: np.ndarray, few: bool) -> Iterator[Probe]:
    kind, at = source
    # ordinary attackers see numbers, but not the numbers in words
    beside = (source,) if kind == "number" else ()
    for name, read in _readings(values, few):
        yield Probe(f"{name} of {kind} {at}", partial(_where_present, source=source, read=read), beside)
    if kind != "number":
        cuts = np.unique(np.nanquantile(values, np.arange(1, LEVELS) / LEVELS))
        yield Probe(f"{kind} {at}", partial(_where_present, source=source, read=lambda v: np.searchsorted(cuts, v)))


def _readings(values: np.ndarray, few: bool) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """Named readings of a column of numbers without gaps: numbers -> whole numbers from 0."""
    if (values == 0).mean() > 0.01:
        yield "sign of zero", lambda v: np.where(v == 0, 1 + np.signbit(v), 0)
    shift = _trailing_zeros(values)
    for bits in (7, 1):
        yield f"last bits ({bits})", lambda v, bits=bits: (_bits(v) >> shift) & bits  # type: ignore[misc]
    yield "last bits as float32", lambda v: v.astype(np.float32).view(np.int32) & 7
    scale = scale_of(values)
    for m in REMAINDERS if scale else ():
        yield f"remainder {m}", partial(_remainder, scale=scale, m=m)
    if few and scale:
        largest = np.nanmax(np.abs(values)) * scale
        for k in range(1, 7):
            if largest >= 10**k:
                yield f"digit {k + 1} from the end", partial(_remainder, scale=scale / 10**k, m=10)
    elif few:
        for k in range(1, 5):
            yield f"decimal {k}", partial(_remainder, scale=10.0**k, m=10)


def scale_of(values: np.ndarray) -> float:
    """What makes these numbers whole: a power of ten, or one divided by their step; 0 where nothing does."""
    present = np.unique(values[np.isfinite(values)])
    if len(present) < 2:
        return 0.0
    largest = np.abs(present).max()
    if largest >= MAX_EXACT:
        return float(largest < 2.0**63 and (present == np.rint(present)).all())
    step = np.diff(present).min()
    for power in (*10.0 ** np.arange(MAX_DECIMALS + 1), 1 / step):
        scaled = present * power
        # a decimal fraction is off by an ulp or two, a real one by a share of 1
        if np.abs(scaled).max() < 1e15 and (np.abs(scaled - np.rint(scaled)) <= NEARLY).all():
            return float(power)
    return 0.0


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.int64)


def _trailing_zeros(values: np.ndarray) -> int:
    """The bits at the end that no number uses: those of a float32 stored as float64, for one."""
    used = int(np.bitwise_or.reduce(_bits(values[np.isfinite(values)]), initial=0))
    return (used & -used).bit_length() - 1 if used else 0


def _remainder(v: np.ndarray, scale: float, m: int) -> np.ndarray:
    scaled = v * scale
    near = np.rint(scaled)
    # nearly whole: a decimal that a float cannot hold; otherwise the digits above the point
    found: np.ndarray = np.mod(np.where(np.abs(scaled - near) <= NEARLY, near, np.floor(scaled)), m)
    return found


def _where_present(columns: Columns, source: Source, read: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A reading plus 1; a gap is 0."""
    values = columns.number(source)
    present = np.isfinite(values)
    return np.where(present, read(np.where(present, values, 0.0)).astype(np.int64) + 1, 0)


def _equality(columns: Columns, one: Source, two: Source) -> Probe:
    """Whether two columns of numbers are equal, or nearly so."""
    a, b = columns.number(one), columns.number(two)
    width = max(float(np.nanstd(a) + np.nanstd(b)) / 2, 1e-12) / 1000

    def read(c: Columns) -> np.ndarray:
        difference = c.number(one) - c.number(two)
        return np.select([np.isnan(difference), difference == 0, np.abs(difference) <= width], [3, 0, 1], default=2)

    return Probe(f"equality, {one} and {two}", read, (one, two))


# --- words


def _words(at: int, words: np.ndarray, letters: int) -> Iterator[Probe]:
    """Readings of a column of many words, which encoders give one value."""
    readings: dict[str, Callable[[str], int]] = {
        "case of the first letter": lambda w: w[:1].isupper(),
        "number of capitals": lambda w: min(sum(map(str.isupper, w)), 15),
        "number of blanks": lambda w: min(w.count(" "), 7),
        "blanks at the ends": lambda w: w[:1].isspace() + 2 * w[-1:].isspace(),
    }
    for k in range(letters):
        readings[f"letter {k + 1}"] = partial(_letter, k=k)
        readings[f"letter {k + 1} from the end"] = partial(_letter, k=-k - 1)
    inside = Counter(found for text in words for found in {*re.findall(r"[^\W_]+", text.lower())})
    for word, count in inside.most_common(COMMON_WORDS):
        if count > 0.01 * len(words):
            readings[f"the word {word!r}"] = partial(_holds, word=word)
    for name, read in readings.items():
        yield Probe(f"{name}, column {at}", partial(_of_words, at=at, read=read))


def _of_words(columns: Columns, at: int, read: Callable[[str], int]) -> np.ndarray:
    return np.array([read(w) for w in columns.words(at)], dtype=np.int64)


def _letter(word: str, k: int) -> int:
    """The code of a letter, counted from the end where k is negative; 0 in words that are shorter."""
    return ord(word[k]) % 128 if -len(word) <= k < len(word) else 0


def _holds(text: str, word: str) -> bool:
    return word in text.lower()


def _equal_words(columns: Columns, i: int, j: int) -> np.ndarray:
    found: np.ndarray = (columns.words(i) == columns.words(j)).astype(np.int64)
    return found
