"""What several releases give together: bounds on any attacker who reads them all.

Two releases of one person can tell more than both bounds suggest. Let Z1 be a fair coin and Z2 the same coin, turned
over where the sensitive value is 1: each is independent of it, and together they tell it. So nothing but counting the
releases *together* bounds them tightly, and what is composed from single bounds says what it rests on:

whatever the law    m BA(Z1, Z2) = sum max_s P(z1|s) P(z2|z1,s) <= m BA(Z1) * k2, for k2 values of Z2; or, where Z2 is
                    locally private, times m e^eps / (e^eps + m - 1), since its noise knows nothing but the record.
                    Epsilons add up.
independent         where the releases are independent given the sensitive value: leakages multiply,
given the value     sum max_s P(z1|s) P(z2|s) <= (m BA1) (m BA2); odds multiply; bits add up; and for two classes the
                    overlaps multiply, 1 - TV(P1 x P2, Q1 x Q2) >= (1 - TV1) (1 - TV2). The smallest counts.
                    It holds for records that were drawn anew. It does NOT hold of two codes of the same record.

N different records of one person are N releases; the same record by the same bundle and key is the same release.
Each bound may fail with its delta, and what is composed of them with the sum.

The same record by the same mechanism (bundle and key) is the same release again and costs nothing. Everything else adds
up, person by person: as counted together where that was done (`recording.audit_together`), else as composed. People who
have received the same releases are one case, so the account of a million people is a few cases.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError, RequirementNotMet
from tacit.ledger.ledger import Ledger, Line, joined, read_people, write_people
from tacit.ledger.policy import NAME, Limits, Policy, Receiver, read_policy
from tacit.report.leakage_units import accuracy_from_bits, accuracy_from_odds, bits_from
from tacit.report.results import at_most

OF_NUMBER = 4  # classes that a number counts as, whose leakage is an R²
ALONE, COUNTED = "one release", "counted together, if all are of the same record"
AUDITED = "audited"
ANY_LAW, INDEPENDENT = "whatever the law", "if they are independent given the sensitive value"


@dataclass(frozen=True)
class Part:
    """What is certified of one release about one sensitive attribute.

    Attributes
    ----------
    bound : on any attacker's balanced accuracy; 1 where nothing is certified
    n_classes : of the attribute
    odds : no release moves anyone's odds by more than this; infinite where that is not certified
    cells : how many values the release can have; None where they are not finite
    epsilon : of a locally private release
    records : how many different records of the person were released so
    delta : probability that the statement fails
    """

    bound: float
    n_classes: int
    odds: float = math.inf
    cells: int | None = None
    epsilon: float | None = None
    records: int = 1
    delta: float = 0.05

    @property
    def factor(self) -> float:
        """By how much a release multiplies what any attacker has already, whatever the law."""
        most = [float(self.n_classes)]
        if self.cells is not None:
            most.append(float(self.cells))
        if self.epsilon is not None:
            most.append(self.n_classes * accuracy_from_odds(math.exp(self.epsilon), self.n_classes))
        return min(most)


@dataclass(frozen=True)
class Composed:
    """A bound on any attacker who reads several releases of one person.

    Attributes
    ----------
    bound, odds, bits : on balanced accuracy, on how far odds move, on the mutual information
    how : "one release", "counted together ...", "whatever the law", the condition that it needs, or "audited": then the
        bound is of our attackers alone
    by : which way gave the smallest bound
    delta : probability that it fails
    releases : how many there are
    """

    bound: float
    odds: float
    bits: float
    how: str
    by: str
    delta: float
    releases: int

    @property
    def sentence(self) -> str:
        """ "<= .607 for whoever reads all 2 releases (by bits, if they are ...)"."""
        what = "one release" if self.releases == 1 else f"all {self.releases} releases"
        odds = "" if math.isinf(self.odds) else f", odds moved at most {self.odds:.1f} times"
        why = "" if self.releases == 1 else f" ({self.by}; {self.how})" if self.by else f" ({self.how})"
        if self.how == AUDITED:
            more = "audited, not certified: a better one may reach more"
            return f"our attackers <= {at_most(self.bound)} on {what} ({more})"
        return f"any attacker <= {at_most(self.bound)}{odds} for whoever reads {what}{why}"


def compose(parts: Sequence[Part], independent: bool = False) -> Composed:
    """Bound whoever reads all of these releases of one person.

    Parameters
    ----------
    parts : one for each release
    independent : take them as independent given the sensitive value; the answer then says so

    Examples
    --------
    >>> two = [Part(.546, 2, odds=2, cells=16), Part(.522, 2, odds=1.5, cells=4)]
    >>> compose(two).bound, compose(two).how
    (1.0, 'whatever the law')
    >>> found = compose(two, independent=True)
    >>> round(found.bound, 3), found.by
    (0.566, 'overlap')
    """
    if not parts:
        raise InputError("there is no release to compose; pass at least one")
    classes = {p.n_classes for p in parts}
    if len(classes) > 1:
        raise InputError(f"the releases tell of attributes with {sorted(classes)} classes; compose one attribute")
    m = classes.pop()
    number, delta = sum(p.records for p in parts), min(1.0, sum(p.delta for p in parts))
    if number == 1:
        only = parts[0]
        bits = bits_from(only.bound, only.odds, m)
        return Composed(only.bound, only.odds, bits, ALONE, "", delta, 1)
    bound, odds, how, by = _any_law(parts, m), _private_odds(parts), ANY_LAW, ""
    if not math.isinf(odds):
        bound = min(bound, accuracy_from_odds(odds, m))
    bits = bits_from(bound, odds, m)
    if independent:
        odds = min(odds, _product((p.odds, p.records) for p in parts))
        sum_of_bits = sum(p.records * bits_from(p.bound, p.odds, m) for p in parts)
        ways = {
            "leakage": _product((m * p.bound, p.records) for p in parts) / m,
            "odds": 1.0 if math.isinf(odds) else accuracy_from_odds(odds, m),
            "bits": accuracy_from_bits(sum_of_bits, m),
        }
        if m == 2:
            ways["overlap"] = 1 - _product((2 - 2 * p.bound, p.records) for p in parts) / 2
        by = min(ways, key=lambda way: ways[way])
        if ways[by] < bound:
            bound, how = ways[by], INDEPENDENT
        else:
            by = ""
        bits = min(bits, sum_of_bits, bits_from(bound, odds, m))
    return Composed(min(1.0, bound), odds, bits, how, by, delta, number)


def _any_law(parts: Sequence[Part], m: int) -> float:
    """The smallest, over which release is read first, of its bound times the others' factors."""
    logs = [p.records * math.log(p.factor) for p in parts]
    log_bounds = [math.log(max(p.bound, 1 / m)) - math.log(p.factor) for p in parts]
    return math.exp(min(0.0, *(sum(logs) + first for first in log_bounds)))


def _private_odds(parts: Sequence[Part]) -> float:
    """The odds that local privacy allows: epsilons add up. Infinite where a release is not locally private."""
    total = sum(math.inf if p.epsilon is None else p.records * p.epsilon for p in parts)
    return math.exp(total) if total < 700 else math.inf


def _product(powers: Iterable[tuple[float, int]]) -> float:
    """Of numbers, each to its power; infinity rather than an overflow."""
    logs = sum(times * math.log(value) if value > 0 else -math.inf for value, times in powers)
    return math.exp(logs) if logs < 700 else math.inf


# -- what a receiver holds ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What is known of one release, or of several counted together, about one sensitive attribute."""

    part: Part
    certified: bool
    audited: float | None = None  # the upper end of what our attackers got

    @classmethod
    def from_dict(cls, told: Mapping[str, Any] | None, n_classes: int) -> Known:
        """As a ledger's line tells it; nothing told is nothing known."""
        if told is None:
            return cls(Part(1.0, n_classes), False)
        odds = math.inf if told["odds"] is None else told["odds"]
        bound = 1.0 if told["bound"] is None else told["bound"]
        part = Part(bound, told["n_classes"], odds, told["cells"], told["epsilon"], delta=told["delta"])
        return cls(part, told["bound"] is not None, told["audited"])


@dataclass(frozen=True)
class Verdict:
    """What people of one case would be told in all about one attribute, and what the policy allows.

    Attributes
    ----------
    attribute : the sensitive column
    people : of this case; 0 where nobody knows who they are
    releases : that they would have in this receiver's hands
    composed : the bound, and what it rests on
    limit, odds_limit : what the policy allows; None where it does not say
    holder : who would hold it, where that is another than the receiver: one who may read the receiver's releases
    """

    attribute: str
    people: int
    releases: int
    composed: Composed
    limit: float | None
    odds_limit: float | None
    holder: str = ""

    @property
    def good(self) -> bool:
        return not self.problems

    @property
    def who(self) -> str:
        """The people of this case, in words."""
        return {0: "anyone", 1: "1 person"}.get(self.people, f"{self.people:,} people")

    @property
    def problems(self) -> list[str]:
        """Why the policy does not allow it, and what would help."""
        found, c = [], self.composed
        who = f"{self.who}, held by {self.holder}, who also reads it" if self.holder else self.who
        if self.limit is not None and c.bound > self.limit:
            found.append(f"{self.attribute} of {who}: {c.sentence}; the policy allows {self.limit:g}{self._remedy}")
        if self.odds_limit is not None and c.odds > self.odds_limit:
            far = "are not bounded" if math.isinf(c.odds) else f"may move {c.odds:.1f} times"
            found.append(f"{self.attribute} of {who}: odds {far}; the policy allows {self.odds_limit:g}")
        return found

    @property
    def _remedy(self) -> str:
        if self.releases == 1 or self.composed.how == COUNTED:
            return ". Release less of it (a heavier weight), or have the limit reviewed"
        return (
            ". Count the releases together on labelled rows (tacit ledger together), name the people of the rows "
            "(--unit), or have the limit reviewed"
        )


class ReleaseRefused(RequirementNotMet):
    """A receiver would hold more than the policy allows.

    Attributes
    ----------
    alone : why the release by itself exceeds the policy's [limits]
    verdicts : the cases in which all that the receiver would hold exceeds its limits, the worst first
    """

    code = "release.refused"

    def __init__(self, to: str, alone: Sequence[str], verdicts: Sequence[Verdict]) -> None:
        problems = [*alone, *(text for v in verdicts for text in v.problems)]
        super().__init__(f"{to} may not have this release: {'; '.join(problems)}")
        self.alone, self.verdicts = alone, verdicts


def told_by(report: Any, cells: int | None = None) -> dict[str, Any]:
    """What a ledger's line keeps of an audit: figures by sensitive attribute, never a value.

    `cells` is how many values the release can have, where it is finite.
    """
    if report is None:
        return {}
    out: dict[str, Any] = {}
    for name, result in report.leakage.items():
        c = report.certificate.get(name)
        # odds of the releases that were seen alone say nothing of the others
        odds = None if c is None or c.odds is None or c.odds.cells is not None else c.odds.bound
        out[name] = {
            "status": report.status(name),
            "audited": float(result.high),
            "guessing": float(result.guessing),
            "bound": None if c is None else float(c.bound),
            "odds": None if odds is None or math.isinf(odds) else float(odds),
            "cells": cells,
            "epsilon": getattr(c, "epsilon", None),
            "n_classes": c.n_classes if c is not None else round(1 / result.guessing) if result.guessing else OF_NUMBER,
            "delta": 0.05 if c is None else float(c.delta),
        }
    return out


def mechanism_id(manifest: Mapping[str, Any], key: bytes | None = None, way: str = "") -> str:
    """What makes two releases of a record the same: graph, schema, noise, the noise key, and the way.

    The table that `tacit fit` writes has its rows of the fit from parts that never saw them: another way than the
    bundle's.
    """
    told = {name: manifest[name] for name in ("input", "output", "noise")}
    told["model"] = manifest["members"]["model.onnx"]["sha256"]
    told["key"] = None if key is None else hashlib.sha256(b"tacit ledger key" + key).hexdigest()
    return hashlib.sha256(json.dumps([told, way], sort_keys=True).encode()).hexdigest()


def mechanism_ids(manifest: Mapping[str, Any], key: bytes | None = None) -> tuple[str, str]:
    """Of what a bundle releases, and of the table that its fit wrote."""
    return mechanism_id(manifest, key), mechanism_id(manifest, key, "fit")


def find_policy(ledger: Ledger) -> Policy | None:
    """The policy beside a ledger, or the nearest one above that names it, where there is one."""
    home = ledger.path.resolve().parent
    for folder in (home, *home.parents):
        if (folder / NAME).exists():
            policy = read_policy(folder)
            named = policy.ledger is not None and policy.place(policy.ledger.file).resolve() == ledger.path.resolve()
            if folder == home or named:
                return policy
    return None


def record(
    ledger: Ledger, body: Mapping[str, Any], pairs: np.ndarray | None, by_unit: bool, policy: Policy | None = None
) -> Line:
    """Write a release down before it is made, or refuse it where the policy would be exceeded.

    Parameters
    ----------
    body : kind, by, what, to, rows, bundle, mechanism, bounds
    pairs : of people and records (`people_of`); None where nobody knows whose records they are
    by_unit : whether people were told apart by their units; else every row is taken for a person of its own, who may
        be in any other release too
    policy : beside the ledger, without it

    Raises
    ------
    ReleaseRefused : the receiver would hold more than the policy allows
    """
    policy = policy or find_policy(ledger)
    _need_units(policy, pairs, by_unit)
    told = {**body, "people": None if pairs is None else write_people(ledger.folder, pairs, by_unit)}
    known = pairs if by_unit or (pairs is not None and not len(pairs)) else None

    def admit(lines: list[Line]) -> Mapping[str, Any]:
        if policy is None:
            return {"policy": None, "verdicts": []}
        verdicts = what_if(lines, ledger.folder, told, known, policy)
        alone = _beyond(told["bounds"], policy.limits)
        if alone or not all(v.good for v in verdicts):
            raise ReleaseRefused(str(body["to"]), alone, [v for v in verdicts if not v.good])
        return {
            "policy": hashlib.sha256(policy.text.encode()).hexdigest(),
            "verdicts": [_plain(v) for v in verdicts],
        }

    return ledger.append(told, admit)


def _beyond(bounds: Mapping[str, Any], limits: Limits) -> list[str]:
    """Where a release by itself exceeds the policy's [limits], by what its bundle's audit says of it."""
    found = []
    for name, most in limits.leakage.items():
        told = bounds.get(name) or {}
        upper = told.get("bound") if told.get("bound") is not None or limits.certified else told.get("audited")
        if upper is None or upper > most:
            what = "not certified" if upper is None else f"at most {upper:.3f}"
            found.append(f"{name}: leakage {what}, and [limits] allows {most:g} of one release (tacit check says more)")
    for name, most in limits.odds.items():
        odds = (bounds.get(name) or {}).get("odds")
        if odds is None or odds > most:
            what = "not certified" if odds is None else f"at most {odds:.2f}"
            found.append(f"{name}: odds {what}, and [limits] allows {most:g}; a codebook with max_odds keeps it")
    return found


def what_if(
    lines: Sequence[Line], folder: Path, body: Mapping[str, Any], pairs: np.ndarray | None, policy: Policy
) -> list[Verdict]:
    """What the receiver would hold of the people of this release, case by case; the worst first.

    Whoever may read what this receiver gets, and holds something already, would hold more too: their limits count.
    """
    to = str(body["to"])
    policy.receiver(to)
    holding = {line.body["to"] for line in lines if line.kind == "release"}
    also = [name for name, r in policy.receivers.items() if to in r.with_ and name != to and name in holding]
    found = [v for name in (to, *also) for v in _would_hold(name, lines, folder, body, pairs, policy)]
    return sorted(found, key=lambda v: (v.good, -v.composed.bound))


def _would_hold(
    name: str, lines: Sequence[Line], folder: Path, body: Mapping[str, Any], pairs: np.ndarray | None, policy: Policy
) -> list[Verdict]:
    """What one receiver would hold of these people, with all who share with them."""
    receiver, holder = policy.receiver(name), "" if name == body["to"] else name
    circle = {name, *receiver.with_}
    held = [line.body for line in lines if line.kind == "release" and line.body["to"] in circle]
    earlier = [_people(folder, b["people"]) for b in held]
    if pairs is not None and not len(pairs):  # a filter that is handed over, and no record
        cases = [Holding({str(body["mechanism"]): 1}, True, 0)]
    else:
        known = [p for p in earlier if p is not None] if pairs is None else [pairs]
        cases = _cases([*held, body], [*earlier, pairs], joined(known)[:, 0], folder)
    return _verdicts([*receiver.leakage, *receiver.odds], cases, [*held, body], lines, receiver, holder)


def holdings(lines: Sequence[Line], folder: Path, to: str, policy: Policy | None) -> list[Verdict]:
    """What a receiver holds already, case by case."""
    held = [line.body for line in lines if line.kind == "release" and line.body["to"] == to]
    receiver = policy.receivers.get(to, Receiver()) if policy else Receiver()
    pairs = [_people(folder, b["people"]) for b in held]
    cases = _cases(held, pairs, joined([p for p in pairs if p is not None])[:, 0], folder)
    found = _verdicts([n for b in held for n in b["bounds"]], cases, held, lines, receiver)
    return sorted(found, key=lambda v: (v.good, -v.composed.bound))


def _people(folder: Path, stored: Mapping[str, Any] | None) -> np.ndarray | None:
    """The people and records of a line; None where people were not named.

    Another bundle reads other columns, so the same person without a unit has another hash there.
    """
    return None if stored is None or stored["by"] != "unit" else read_people(folder, stored)


@dataclass(frozen=True)
class Holding:
    """What one kind of people has in a receiver's hands.

    Attributes
    ----------
    records : how many different records of a person each mechanism released
    one_record : whether all mechanisms released one and the same record, as bundles that read the same columns tell
    people : of this kind
    """

    records: Mapping[str, int]
    one_record: bool
    people: int

    @property
    def total(self) -> int:
        return sum(self.records.values())


def _verdicts(
    attributes: Sequence[str],
    cases: Sequence[Holding],
    bodies: Sequence[Mapping[str, Any]],
    lines: Sequence[Line],
    receiver: Receiver,
    holder: str = "",
) -> list[Verdict]:
    """What each case tells of each attribute, and what the receiver may be told."""
    counted = [line.body for line in lines if line.kind == "together"]
    return [
        Verdict(name, case.people, case.total, _composed(case, bodies, counted, name, receiver),
                receiver.leakage.get(name), receiver.odds.get(name), holder)
        for name in dict.fromkeys(attributes) for case in cases
    ]  # fmt: skip


def _cases(
    bodies: Sequence[Mapping[str, Any]],
    pairs: Sequence[np.ndarray | None],
    persons: np.ndarray,
    folder: Path | None = None,
) -> list[Holding]:
    """The kinds of these people. A release of nobody knows whom may be of everybody, as often as its line says."""
    known = len(persons) > 0
    persons = np.unique(persons) if known else np.zeros(1, dtype="<u8")  # one person stands for anyone
    names = list(dict.fromkeys(str(b["mechanism"]) for b in bodies))
    counts = np.zeros((len(persons), len(names) + 1), dtype=np.int64)
    record = np.zeros(len(persons), dtype="<u8")  # of the first mechanism that released one
    counts[:, -1] = 1
    for i, name in enumerate(names):
        own = [(b, p) for b, p in zip(bodies, pairs, strict=True) if b["mechanism"] == name]
        rows = joined([p for _, p in own if p is not None])
        rows = rows[np.isin(rows[:, 0], persons)]
        at = np.searchsorted(persons, rows[:, 0])
        counts[:, i] += np.bincount(at, minlength=len(persons))
        counts[at, -1] &= (record[at] == 0) | (record[at] == rows[:, 1])
        record[at] = rows[:, 1]
        counts[:, i] += _of_anybody([b for b, p in own if p is None], folder)
    if any(p is None for p in pairs) and not _of_one_table(bodies, folder):
        counts[:, -1] = 0
    kinds, sizes = np.unique(counts, axis=0, return_counts=True)
    found = [{name: int(c) for name, c in zip(names, kind[:-1], strict=True) if c} for kind in kinds]
    return [Holding(f, bool(k[-1]), int(n) if known else 0) for f, k, n in zip(found, kinds, sizes, strict=True) if f]


def _of_one_table(bodies: Sequence[Mapping[str, Any]], folder: Path | None) -> bool:
    """Whether releases that say nothing of people are all of the rows of one table."""
    told = [b["people"] for b in bodies if (b.get("people") or {}).get("by") == "record"]
    if folder is None or len(told) < len(bodies):
        return False
    rows = [read_people(folder, t)[:, 1] for t in told]
    largest = max(rows, key=len)
    return all(np.isin(r, largest).all() for r in rows)


def _of_anybody(bodies: Sequence[Mapping[str, Any]], folder: Path | None) -> int:
    """How many records of one person these releases of one mechanism may hold, whose people nobody knows.

    Every row of a table is a person's, who may have another row in every other table: tables add up, but for those
    whose rows are all in another one. What a service takes is as much as its line says, however often it was started.
    """
    most = max([int(b.get("records_per_person", 1)) for b in bodies if b.get("people") is None], default=0)
    tables = {b["people"]["prints"]: b["people"] for b in bodies if b.get("people") is not None}
    if len(tables) < 2 or folder is None:
        return most + len(tables)
    left = sorted((read_people(folder, told)[:, 1] for told in tables.values()), key=len)
    return most + sum(not any(np.isin(x, y).all() for y in left[i + 1 :]) for i, x in enumerate(left))


def _need_units(policy: Policy | None, pairs: np.ndarray | None, by_unit: bool) -> None:
    """Where the policy says which rows belong together, no row passes for a person of its own."""
    unit = None if policy is None or policy.data is None else policy.data.unit
    if unit is not None and pairs is not None and not by_unit:
        raise InputError(
            f"the policy says that rows with the same {unit!r} are of one person, and this release does not say whose "
            f"its rows are: each would pass for a person of its own. Pass --unit {unit} (units=)"
        )


def _composed(
    holding: Holding,
    bodies: Sequence[Mapping[str, Any]],
    counted: Sequence[Mapping[str, Any]],
    attribute: str,
    receiver: Receiver,
) -> Composed:
    """What is known of all these releases together about one attribute. What was counted is of one record."""
    case = holding.records
    told = {str(b["mechanism"]): b["bounds"].get(attribute) for b in bodies}
    m = next((t["n_classes"] for t in told.values() if t is not None), 2)
    known = {name: Known.from_dict(told[name], m) for name in case}
    single = all(n == 1 for n in case.values())
    usable = counted if single and holding.one_record else ()
    sets = {frozenset(names): c["bounds"].get(attribute) for c in usable for names in c["sets"]}
    fits = [Known.from_dict(t, m) for names, t in sets.items() if names >= set(case) and t is not None]
    if len(case) > 1 and fits:
        best = min(fits, key=lambda k: k.part.bound)
        return _alone(best, receiver, len(case), COUNTED)
    if len(case) == 1 and single:
        return _alone(next(iter(known.values())), receiver, 1, "")
    left, parts = set(case), []
    for names, t in sorted(sets.items(), key=lambda pair: -len(pair[0])):
        if t is not None and len(names) > 1 and names <= left:
            parts.append(Known.from_dict(t, m).part)
            left -= names
    parts += [replace(known[name].part, records=case[name]) for name in case if name in left]
    return replace(compose(parts, receiver.independent), releases=sum(case.values()))


def _alone(known: Known, receiver: Receiver, releases: int, how: str) -> Composed:
    """One release, or several counted as one; the audit of one counts where the policy asks for no certificate."""
    found = compose([known.part])
    if not known.certified and known.audited is not None and not receiver.certified and releases == 1:
        return replace(found, bound=known.audited, how=AUDITED)
    return replace(found, how=how or found.how, releases=releases)


def _plain(verdict: Verdict) -> dict[str, Any]:
    told = {k: v for k, v in asdict(verdict).items() if k != "composed"}
    told |= asdict(verdict.composed)
    told["odds"] = None if math.isinf(verdict.composed.odds) else verdict.composed.odds
    return {**told, "good": verdict.good}


def check_receiver(name: str) -> str:
    """A name that stands in a ledger for whoever receives."""
    if not name or not name.isprintable() or len(name) > 200:
        raise InputError(f"a receiver is a short name, such as analyst; found {name!r}")
    return name
