"""Which certificate a release can have, for every sensitive attribute and for their product, and why not where none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.certificate import (
    certify,
    certify_local_privacy,
    joint_units,
    look_delta,
)
from tacit.auditing.columns_certificate import MAX_SETS, certify_columns
from tacit.auditing.gaussian import certify_gaussian
from tacit.auditing.looks import count_look, release_digest
from tacit.auditing.odds import check_odds
from tacit.auditing.population import independent_units
from tacit.auditing.received import plain_frame, receiver_cells
from tacit.auditing.trial import Trial, has_noise
from tacit.filters.mechanism import mechanism_of, sees_sensitive
from tacit.labels import MISSING, joint_codes
from tacit.noise.keyed import Finite, Noise
from tacit.records.dataset import PRODUCT
from tacit.report.certificates import AnyCertificate, ColumnsCertificate

VACUOUS = 0.99  # a bound above this tells of epsilon, not of the release


@dataclass(frozen=True)
class Certified:
    """Per sensitive attribute (and for the product of several) a certificate or None, and the two-sided upper end."""

    certificate: dict[str, AnyCertificate | None]
    bound: dict[str, float | None]
    notes: list[str]
    look: int | None = None  # which look at these rows it was; None where nothing was certified
    pairs: dict[str, ColumnsCertificate] = field(default_factory=dict)  # for whoever reads few columns alone


@dataclass(frozen=True)
class Terms:
    """What certificates are made under: confidence, candidates fixed beforehand, and whose average is meant.

    `look` says which look at these rows it is, where that was counted before; None: it is counted here.
    """

    level: float
    candidates: int = 1
    seed: int = 0
    per: str = "unit"
    max_unit_size: int | None = None
    look: int | None = None

    @property
    def average(self) -> dict[str, Any]:
        return {"per": self.per, "max_unit_size": self.max_unit_size}


def certify_trial(trial: Trial, terms: Terms) -> Certified:
    """Certify every sensitive attribute on all fresh rows (attackers never touch the filter, so both parts may count).

    The largest bound over a trial's versions counts. Each certificate pays for the earlier looks at its rows.
    """
    names, versions = list(trial.test.sensitive.columns), trial.versions()
    if crossing := versions[0].crossing:
        note = (
            f"{crossing} units are in both `attack` and `test`, so attackers have met the people they are tested "
            f"on and nothing can be certified; split by unit (Dataset.split does)"
        )
        return Certified(dict.fromkeys(names), dict.fromkeys(names), [note])
    # columns beside the release carry no noise: then only counting can certify
    release = None if trial.settings.alongside else trial.release
    named = statements(certified_names(trial))
    out = Certified(dict.fromkeys([*names, *named]), dict.fromkeys([*names, *named]), [])
    evidence = _evidence(release, trial, versions)
    if any(e is None for e in evidence):
        kind = "this kind of noise" if has_noise(release) else "a deterministic continuous release"
        out.notes.append(f"no certificate exists for {kind}: audited, not certified")
        return out
    if not named:
        return out
    number = terms.look or count_look(trial.attack, trial.test, release_digest(*trial.Z))
    delta = look_delta(1 - terms.level, number) / len(named)  # the statements hold together
    for name, columns in named.items():
        found: list[list[AnyCertificate]] = [[], []]
        reason: str | None = None
        for made, version in zip(evidence, versions, strict=True):
            assert made is not None
            who = _who(version, columns, getattr(mechanism_of(release), "sensitive_classes", {}))
            reason = reason or made.shared_noise(who)
            if reason is None:
                for side, share in zip(found, (delta, delta / 2), strict=True):
                    side.append(made.certificate(who, share, terms))
        if reason is None:
            one_sided, two_sided = (max(side, key=lambda c: c.bound) for side in found)
            one_sided = replace(one_sided, odds=max(found[0], key=lambda c: c.worst_odds).odds)
            reason = two_sided.useless()
            if reason is None:
                assert evidence[0] is not None
                evidence[0].check_on_test(name, one_sided, _who(versions[0], columns, {}), versions[0], terms)
                out.certificate[name], out.bound[name] = one_sided, two_sided.bound
                continue
        out.notes.append(f"{name}: {reason}")
    out.notes.extend(look_notes(number, terms.level))
    return Certified(out.certificate, out.bound, out.notes, number)


def look_notes(number: int, level: float) -> list[str]:
    """What an earlier look at the same rows costs, in words."""
    if number == 1:
        return []
    return [
        f"look {number} on these rows: {number - 1} other releases were certified on them before, so this "
        f"certificate spends {look_delta(1 - level, number):.2g} of the {1 - level:.2g} that all of them share; "
        f"new rows would make it tighter"
    ]


def certify_few_columns(trial: Trial, terms: Terms, size: int) -> Certified:
    """Certify whoever reads any `size` released columns, for every sensitive attribute, on all fresh rows.

    It says nothing of whoever reads more of them, and stands beside the certificates of the whole release, not among
    them. Statements, looks and versions of the rows share the error as in `certify_trial`.
    """
    versions = trial.versions()
    out, named = Certified({}, {}, []), statements(certified_names(trial))
    released = [str(c) for c in plain_frame(trial.Z[0]).columns]
    if not named or versions[0].crossing or comb(len(released), min(size, len(released))) > MAX_SETS:
        return out
    number = terms.look or count_look(trial.attack, trial.test, release_digest(*trial.Z))
    delta = look_delta(1 - terms.level, number) / len(named)
    fitted = getattr(mechanism_of(trial.release), "sensitive_classes", {})
    cells = [receiver_cells(*version.Z) for version in versions]
    for name, columns in named.items():
        found = []
        for version, values in zip(versions, cells, strict=True):
            who = _who(version, columns, fitted)
            common = {"units": who.units, "candidates": terms.candidates, **terms.average, "names": released}
            found.append(certify_columns(values[who.known], who.codes, who.n_classes, size, delta, **common))
        largest = max(found, key=lambda c: c.bound)
        if largest.bound < 1:
            out.pairs[name] = largest
        else:
            out.notes.append(f"{name}: nothing is certified for {largest.whom} either ({largest.n_units:,} units)")
    return Certified({}, {}, out.notes, number, out.pairs)


def columns_to_certify(trial: Trial) -> int:
    """Return how many columns an attacker of few columns sees; 0 where that is not certified."""
    wanted = trial.settings.wanted("few_columns")
    return trial.settings.few_columns if wanted or (wanted is None and sees_sensitive(trial.release)) else 0


def statements(names: list[str]) -> dict[str, Sequence[int]]:
    """What is certified, each sensitive column and the product of all, and which columns that is."""
    named: dict[str, Sequence[int]] = {name: [i] for i, name in enumerate(names)}
    return named | ({" x ".join(names): range(len(names))} if len(names) > 1 else {})


def certified_names(trial: Trial) -> list[str]:
    """What is certified of each sensitive column: of a number, its classes of about equal size.

    Where classes are cut at order statistics of the rows themselves, the rows between two cuts are still independent
    draws of the people between them.
    """
    labels = trial.labels["sensitive"]
    return [
        name if labels.number(i) is None else f"{name} in {labels.n_classes(i)} classes"
        for i, name in enumerate(trial.test.sensitive.columns)
    ]


def certify_cells(trial: Trial, column: int, cells: np.ndarray, terms: Terms) -> float | None:
    """What any attacker on one sensitive column is certified at who sees these cells of both parts; None: nothing."""
    who = _who(trial, [column], {})
    delta = look_delta(1 - terms.level, terms.look or 1)
    made = _Evidence(cells=cells)
    two_sided = made.certificate(who, delta / 2, terms)
    return None if two_sided.useless() else made.certificate(who, delta, terms).bound


@dataclass(frozen=True)
class _Who:
    """One sensitive attribute, or the product of several, over both parts."""

    known: np.ndarray  # rows whose label is known
    codes: np.ndarray  # of these rows
    n_classes: int  # declared, whether or not a row has them
    units: np.ndarray | None


@dataclass(frozen=True)
class _Evidence:
    """What a certificate of one release rests on: its cells, or its codes and the noise that is really drawn."""

    cells: np.ndarray | None = None
    n_cells: int | None = None  # different releases that there can be, where the mechanism says so
    codes: np.ndarray | None = None
    noise: Noise | None = None
    epsilon: float | None = None
    draws: np.ndarray | None = None  # a number for each distinct draw

    def take(self, rows: np.ndarray) -> _Evidence:
        """The same for some of the rows."""
        some = {k: None if v is None else v[rows] for k, v in (("codes", self.codes), ("draws", self.draws))}
        return replace(self, **some)

    def shared_noise(self, who: _Who) -> str | None:
        """Why a certificate by noise would not hold: two people have the same draw, and a release can be looked up."""
        if self.draws is None:
            return None
        draws = self.draws[who.known]
        unit = np.arange(len(draws)) if who.units is None else np.unique(who.units, return_inverse=True)[1].ravel()
        people = np.unique(np.column_stack([draws, unit]), axis=0)[:, 0]
        shared = float((np.bincount(people, minlength=draws.max() + 1) > 1)[draws].mean())
        if shared == 0:
            return None
        return (
            f"{shared:.1%} of these records share their noise with an equal record of somebody else, whose release "
            f"tells theirs: audited, not certified. Say whose record each is (units=, --unit) and every person gets "
            f'noise of their own; units="rows" says that every record is another person\'s'
        )

    def check_on_test(self, name: str, found: AnyCertificate, who: _Who, trial: Trial, terms: Terms) -> None:
        """Refuse odds that are contradicted by counting the part that attackers are measured on."""
        test = who.known >= len(trial.attack)
        if self.cells is None or not test.any() or terms.per != "unit":
            return
        units = None if who.units is None else who.units[test]
        sample = independent_units(who.codes[test], who.n_classes, units)
        check_odds(name, found.odds, self.cells[who.known[test]], who.codes[test], sample, 1 - terms.level)

    def certificate(self, who: _Who, delta: float, terms: Terms) -> AnyCertificate:
        common = {"units": who.units, **terms.average}
        if self.epsilon is not None:
            return certify_local_privacy(self.epsilon, who.codes, who.n_classes, delta, **common)
        if self.codes is not None and self.noise is not None:
            return certify_gaussian(
                self.codes[who.known], who.codes, who.n_classes, self.noise.scale, 0.8 * delta, 0.2 * delta,
                seed=terms.seed, candidates=terms.candidates, **common,
            )  # fmt: skip
        assert self.cells is not None
        common |= {"candidates": terms.candidates, "n_cells": self.n_cells}
        return certify(self.cells[who.known], who.codes, who.n_classes, delta, **common)


def _evidence(release: Any, trial: Trial, versions: Sequence[Trial]) -> list[_Evidence | None]:
    """Local privacy where a release declares it, counting where it is finite, Gaussian noise on a code; or none.

    Codes and draws are those of the whole release, whichever rows of it a version has.
    """
    mechanism = mechanism_of(release)
    noise: Noise | None = None if mechanism is None else mechanism.noise
    if noise is None:
        support = getattr(mechanism, "support", None)
        n_cells = support.cells if isinstance(support, Finite) else None
        return [None if v.cells is None else _Evidence(cells=v.cells, n_cells=n_cells) for v in versions]
    gaussian = noise.added and noise.distribution == "normal"
    if mechanism.epsilon is None and not gaussian:
        return [None] * len(versions)
    names = [n for d in trial.data for n in mechanism.draw_names(d.X, d.units_of())]
    draws = pd.factorize(np.array(names, dtype=object))[0]
    codes = None if mechanism.epsilon is not None else [mechanism.noiseless(d.X) for d in trial.data]
    whole = _Evidence(
        noise=noise, epsilon=mechanism.epsilon, draws=draws, codes=None if codes is None else np.concatenate(codes)
    )
    rows = np.concatenate(trial.seen)
    return [whole if v is trial else whole.take(~rows) for v in versions]


def _who(trial: Trial, columns: Sequence[int], fitted: Mapping[str, Sequence[Any]]) -> _Who:
    """One sensitive column, or the product of several, with every class that was declared or occurs."""
    labels = trial.labels["sensitive"]
    names = [trial.test.sensitive.columns[i] for i in columns]
    name = names[0] if len(names) == 1 else PRODUCT
    declared = [*trial.attack.classes_of(name), *trial.test.classes_of(name), *fitted.get(name, [])]
    place = {c: i for i, c in enumerate(dict.fromkeys(declared))}
    codes = labels.codes[:, list(columns)]
    known = np.flatnonzero((codes != MISSING).all(axis=1))
    group = joint_codes(codes[known])
    first = np.unique(group, return_index=True)[1]
    values = [tuple(labels.classes[i][c] for i, c in zip(columns, row, strict=True)) for row in codes[known][first]]
    if any(labels.number(i) is not None for i in columns):  # its classes are those of these rows
        found = labels.classes[columns[0]].tolist() if len(columns) == 1 else values
        place = {c: i for i, c in enumerate(found)}
    number = np.array([place[v[0] if len(columns) == 1 else v] for v in values], dtype=np.int64)
    units = None
    if trial.attack.units is not None:
        units = joint_units([pd.factorize(np.concatenate([d.units_of(n) for d in trial.data]))[0] for n in names])
    return _Who(known, number[group], len(place), None if units is None else units[known])
