"""`tacit.drift`: does a bundle still meet the population that it was audited on? It may be asked every day."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.certification import Terms, certify_few_columns, certify_trial
from tacit.auditing.drift import (
    few_share,
    log_evidence,
    many_share,
    moved_accuracy,
    moved_balanced,
    together,
    total_variation_end,
)
from tacit.auditing.looks import release_digest
from tacit.auditing.population import look_delta
from tacit.auditing.received import plain_frame
from tacit.auditing.released_values import WHOLE, one_of_each, released_codes
from tacit.auditing.trial import Trial
from tacit.errors import InputError, RequirementNotMet, check_number
from tacit.files import read_state, write_state
from tacit.noise.keyed import unit_name
from tacit.records.dataset import Dataset
from tacit.release.runtime import Quarantined, Release, load
from tacit.report.certificates import AnyCertificate, Certificate, LocalPrivacyCertificate
from tacit.report.plain_data import plain
from tacit.report.released import Released
from tacit.report.report import Report
from tacit.report.results import at_most, percent

WINDOW = 2000  # records that are also compared by themselves: what moved lately
LOOK = 250  # new records before the counts are tested again
KNOWN = 20  # records by which a batch is known again
KIND = "tacit drift"
CONDITION = (
    "if P(sensitive | released value) is what it was; without sensitive labels of new rows nobody can see whether it is"
)


@dataclass(frozen=True)
class Moved:
    """What a certificate can have become.

    Attributes
    ----------
    certified : balanced accuracy, as the bundle has it
    balanced, plain : at most this, of balanced and of plain accuracy, for the mean law of all new records (of the last
        `WINDOW` where drift was found), under the condition that `CONDITION` says. What moved an hour ago is in it only
        by its share
    counted : the certificate of the new rows, where they came with labels
    """

    certified: float
    balanced: float | None = None
    plain: float | None = None
    counted: AnyCertificate | None = None


@dataclass(frozen=True)
class Drift:
    """The answer to one ask.

    Attributes
    ----------
    drifted : whether the population has moved; once it is found it stays so, until a new bundle or state
    records : that were counted since the start
    looks : how often the counts were tested
    evidence : the odds against "nothing has moved" at the last look; an alarm needs `needed`
    variation : upper end of the total variation of released values, where a value is the whole release
    moved : by sensitive attribute, what its certificate can have become
    confidence_level : of no false alarm in all looks together; statements on `moved` also carry the certificate's error
    notes : what the reader must know
    """

    drifted: bool
    records: int
    looks: int
    evidence: float
    needed: float
    variation: float | None
    confidence_level: float
    moved: Mapping[str, Moved] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The verdict."""
        asked = (
            f"{self.records:,} records in {self.looks} looks, false alarms {percent(1 - self.confidence_level)} in all"
        )
        if self.drifted:
            return f"drift: the released values are not those of the population that was audited ({asked})"
        if not self.looks:
            return f"too few records to say: {self.records:,} of {LOOK}"
        return f"no drift was found ({asked})"

    def __str__(self) -> str:
        lines = [self.sentence]
        both = percent(1 - 2 * (1 - self.confidence_level))
        for name, m in self.moved.items():
            if m.plain is None and m.balanced is not None:
                lines.append(f"{name}: certified ≤ {at_most(m.certified)} for any population")
            elif m.balanced is not None:
                over = f"the last {WINDOW:,} records" if self.drifted else "all these records"
                now = f"over {over} ≤ {at_most(m.balanced)} balanced, ≤ {at_most(m.plain or 1.0)} plain"
                lines.append(f"{name}: certified ≤ {at_most(m.certified)}; {now} ({both}), {CONDITION}")
            if m.counted is not None:
                was = "not certified before" if math.isnan(m.certified) else f"certified ≤ {at_most(m.certified)}"
                lines.append(f"{name}: {was}; for {m.counted.whom} on these new rows ≤ {at_most(m.counted.bound)}")
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])

    def require(self) -> Drift:
        """Raise where drift was found."""
        if self.drifted:
            raise RequirementNotMet(f"{self.sentence}; audit again on new rows, and save a new bundle")
        return self


def drift(
    release: Release | str | Path,
    X: Any,
    state: str | Path | None = None,
    *,
    units: Any = None,
    sensitive_features: Any = None,
    y: Any = None,
    released: bool = False,
    noise_key: bytes | str | Path | None = None,
    confidence_level: float = 0.95,
) -> Drift:
    """Count what a bundle releases of new records, and test whether the population has moved.

    May be asked as often as one likes: with a `state` all asks together raise a false alarm with probability
    1 - confidence_level at most, where records (or, with `units`, people) are independent.

    Parameters
    ----------
    release : a loaded bundle that was saved with its audit, or its file
    X : new raw records; with ``released=True`` rows that this bundle released already
    state : file that keeps the counts from one ask to the next; None asks once
    units : whose record each is. Everybody counts once, by their latest record; the state then holds keyed hashes of
        people and the released values of each
    sensitive_features : labels of the new rows, where there are any: they are certified anew by counting
    y : targets, for a bundle that releases a table with them, where X does not hold them
    noise_key : as in `tacit.load`, where `release` is a file
    confidence_level : of no false alarm, and of what is said about the certificate

    Examples
    --------
    >>> import tempfile, tacit
    >>> train, attack, test, new = tacit.load_dataset("gaussians", n=3000).split((.2, .2, .2, .4))
    >>> f = tacit.CodebookFilter(4, random_state=0).fit(train.X, train.y, sensitive_features=train.sensitive)
    >>> report = tacit.audit(f, attack, test, attackers="logistic", floor=False, power=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bundle = tacit.save(f, f"{folder}/f.tacit", report)
    ...     tacit.drift(bundle, new.X).drifted
    False
    """
    check_number("confidence_level", confidence_level, 0.5, 0.9999)
    if not isinstance(release, Release):
        release = load(release, noise_key=noise_key)
    report = release.report
    reference = None if report is None else report.released
    if report is None or reference is None:
        raise InputError(
            f"{release.name} carries no counts of what was released: it was saved without an audit, or by an older "
            f"Tacit. Audit the filter again and save it with its report: tacit.save(f, path, report)"
        )
    batch = _Batch.of(release, X, units, sensitive_features, y, released)
    watch = Watch.read(state, reference)
    notes = list(batch.notes)
    if not watch.add(batch.digest, released_codes(reference, batch.Z), batch.units):
        notes.append("these records were counted before; they are not counted again")
    watch.look([np.array(c.counts) for c in reference.columns.values()], 1 - confidence_level)
    found = watch.answer(reference, report, confidence_level, notes)
    if sensitive_features is not None:
        found = _recertified(
            found, report, batch, Terms(confidence_level, look=watch.recertify()), release.noise is not None
        )
    if state is not None:
        watch.write(state, reference)
    return found


@dataclass(frozen=True)
class _Batch:
    """New releases, whose they are, and their labels."""

    Z: pd.DataFrame
    units: np.ndarray | None
    sensitive: pd.DataFrame | None
    digest: str | None  # None of few records: another batch may well hold the same
    notes: tuple[str, ...]

    @classmethod
    def of(cls, release: Release, X: Any, units: Any, sensitive: Any, y: Any, released: bool) -> _Batch:
        n = len(X)
        for what, values in (("units", units), ("sensitive_features", sensitive)):
            if values is not None and len(values) != n:
                raise InputError(f"{what} has {len(values)} rows but there are {n} records; pass one for each")
        who = None if units is None else np.asarray(units)
        labels = None if sensitive is None else Dataset(np.zeros((n, 1)), None, sensitive).sensitive
        Z, rows = X, np.arange(n)
        notes: tuple[str, ...] = ()
        if not released:
            found = release.transform(X, units, sensitive_features=sensitive, y=y, on_error="quarantine")
            assert isinstance(found, Quarantined)
            Z, rows = found.release, found.rows
            if len(rows) < n:
                notes = (f"{n - len(rows):,} of {n:,} records do not fit the bundle's schema and are not counted",)
        digest = release_digest(plain_frame(X)).hex() if n >= KNOWN else None
        return cls(
            plain_frame(Z),
            None if who is None else who[rows],
            None if labels is None else labels.iloc[rows].reset_index(drop=True),
            digest,
            notes,
        )


@dataclass
class Watch:
    """What is kept from one ask to the next.

    Attributes
    ----------
    rows : (n, columns) released values, oldest first: of everybody where people are known, else of the last records
    people : (n,) keyed hashes, where people are known
    older : by column, counts of the records before these
    facts : the salt of the hashes, batches counted, looks so far and what the last one found
    """

    rows: np.ndarray
    people: np.ndarray
    older: list[np.ndarray]
    facts: dict[str, Any]

    @classmethod
    def read(cls, state: str | Path | None, reference: Released) -> Watch:
        sizes = [len(c.counts) for c in reference.columns.values()]
        if state is not None and Path(state).exists():
            arrays, facts = read_state(state, KIND, "the drift of a bundle", _identity(reference))
            ends = np.cumsum(sizes)[:-1]
            return cls(arrays["rows"], arrays["people"], np.split(arrays["older"], ends), facts)
        return cls.start(sizes)

    @classmethod
    def start(cls, sizes: Sequence[int]) -> Watch:
        """Nothing is counted yet of columns with so many values."""
        facts = {"salt": secrets.token_hex(16), "batches": [], "records": 0, "tested": 0, "looks": 0,
                 "evidence": 0.0, "needed": math.inf, "drifted": False, "recertified": 0, "people": None}  # fmt: skip
        empty = np.empty((0, len(sizes)), dtype=np.int32)
        return cls(empty, np.empty(0, dtype=np.uint64), [np.zeros(k, dtype=np.int64) for k in sizes], facts)

    def write(self, state: str | Path, reference: Released) -> None:
        arrays = {"rows": self.rows, "people": self.people, "older": np.concatenate(self.older)}
        write_state(state, arrays, self.facts, KIND, _identity(reference), private=True)

    def add(self, digest: str | None, codes: np.ndarray, units: np.ndarray | None) -> bool:
        """Count a batch; False where it was counted before."""
        if self.facts["people"] not in (None, units is not None):
            raise InputError(
                "this state was begun " + ("with units; say whose each record is" if self.facts["people"] else
                "without units; leave them out") + ", or name another state file"
            )  # fmt: skip
        if digest is not None and digest in self.facts["batches"]:
            return False
        self.facts["people"] = units is not None
        self.facts["batches"] += [digest] if digest is not None else []
        if units is not None:
            one = one_of_each(units, len(units))
            codes, who = codes[one], self._hashes(np.asarray(units)[one])
            stay = ~np.isin(self.people, who)
            self.rows, self.people = self.rows[stay], np.concatenate([self.people[stay], who])
        self.rows = np.concatenate([self.rows, codes.astype(np.int32)])
        self.facts["records"] += len(codes)
        if units is None:
            gone, self.rows = self.rows[:-WINDOW], self.rows[-WINDOW:]
            self.older = [c + np.bincount(gone[:, i], minlength=len(c)) for i, c in enumerate(self.older)]
        return True

    def _hashes(self, units: np.ndarray) -> np.ndarray:
        salt = bytes.fromhex(self.facts["salt"])
        made = [hashlib.blake2b(unit_name(u), key=salt, digest_size=8).digest() for u in units]
        return np.frombuffer(b"".join(made), dtype=np.uint64)

    def counts(self, lately: bool) -> list[np.ndarray]:
        """By column, of everything since the start, or of the last records alone."""
        rows = self.rows[-WINDOW:] if lately else self.rows
        found = [np.bincount(rows[:, i], minlength=len(c)) for i, c in enumerate(self.older)]
        return found if lately else [c + old for c, old in zip(found, self.older, strict=True)]

    def look(self, known: Sequence[np.ndarray], delta: float) -> None:
        """Test against the audit's counts, where enough records have come since the last look."""
        facts = self.facts
        if facts["records"] - facts["tested"] < LOOK:
            return
        facts["looks"], facts["tested"] = facts["looks"] + 1, facts["records"]
        samples = [self.counts(lately=False), self.counts(lately=True)]
        if samples[0][0].sum() == samples[1][0].sum():
            samples = samples[:1]
        found = together([log_evidence(k, c) for new in samples for k, c in zip(known, new, strict=True)])
        facts["evidence"], facts["needed"] = found, -math.log(look_delta(delta, facts["looks"]))
        facts["drifted"] = facts["drifted"] or found >= facts["needed"]

    def recertify(self) -> int:
        """How often new rows were certified, this time included."""
        self.facts["recertified"] += 1
        return int(self.facts["recertified"])

    def answer(self, reference: Released, report: Report, level: float, notes: list[str]) -> Drift:
        """The verdict, and how far each certificate can have moved."""
        facts, variation, moved = self.facts, None, {}
        if reference.whole and report.settings.per == "unit" and facts["looks"]:
            known, new = np.array(reference.columns[WHOLE].counts), self.counts(lately=facts["drifted"])[0]
            delta = look_delta(1 - level, facts["looks"]) / 2
            variation = total_variation_end(known, new, delta / 2)
            many = many_share(known)
            few = few_share(known, many, delta / 4) + few_share(new, many, delta / 4)
            for name, c in report.certificate.items():
                if isinstance(c, Certificate) and (told := reference.telling.get(name)) is not None:
                    plainly = moved_accuracy(c.accuracy_bound, variation, c.n_classes, told, few)
                    moved[name] = Moved(c.bound, moved_balanced(c.bound, variation, c.n_classes, told, few), plainly)
        for name, c in report.certificate.items():
            if isinstance(c, LocalPrivacyCertificate):
                moved[name] = Moved(c.bound, c.bound)  # for any population
        if not reference.whole and any(c is not None for c in report.certificate.values()):
            notes.append("columns are counted one by one: how far a bound has moved cannot be told from them")
        odds, needed = (math.exp(min(700.0, facts[k])) for k in ("evidence", "needed"))
        return Drift(facts["drifted"], facts["records"], facts["looks"], odds, needed, variation, level, moved,
                     tuple(notes))  # fmt: skip


def _identity(reference: Released) -> str:
    return hashlib.sha256(json.dumps(plain(reference), sort_keys=True).encode()).hexdigest()


def _recertified(found: Drift, report: Report, batch: _Batch, terms: Terms, drawn: bool) -> Drift:
    """New rows that have labels, certified by counting; asks share the error as looks do."""
    assert batch.sensitive is not None
    assert report.released is not None
    units = np.arange(len(batch.Z)) if batch.units is None else batch.units
    names = [n for n in report.released.names if n in batch.Z]  # what is carried along is not counted
    attack, test = Dataset(batch.Z[names] if names else batch.Z, None, batch.sensitive, units).split((0.5, 0.5))
    trial = Trial.of((attack.X, test.X), attack, test)
    # of what is drawn an audit certifies no whole release by counting, but whoever reads few columns
    size = max((c.size for c in report.pairs.values()), default=2)
    certified = certify_few_columns(trial, terms, size) if drawn else certify_trial(trial, terms)
    old: Mapping[str, AnyCertificate | None] = report.pairs if drawn else report.certificate
    moved = dict(found.moved)
    for name, c in (certified.pairs if drawn else certified.certificate).items():
        if c is not None:
            before = old.get(name)
            was = Moved(math.nan if before is None else before.bound)
            moved[name] = replace(moved.get(name, was), counted=c)
    return replace(found, moved=moved, notes=(*found.notes, *certified.notes))
