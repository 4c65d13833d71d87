"""Which certificate a release can have, for every sensitive attribute and for their product, and why not where none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tacit.audit.certificate import (
    certify,
    certify_local_privacy,
    joint_units,
    look_delta,
    release_cells,
    units_needed,
)
from tacit.audit.gaussian import certify_gaussian
from tacit.audit.looks import count_look, release_digest
from tacit.audit.received import receiver_cells
from tacit.audit.released import has_noise
from tacit.errors import InputError
from tacit.filters.mechanism import mechanism_of
from tacit.noise.keyed import Noise
from tacit.records.dataset import PRODUCT, Dataset
from tacit.report.certificates import AnyCertificate

Version = tuple[Any, Dataset, Any, Dataset]  # release of attack, attack, release of test, test


@dataclass(frozen=True)
class Certified:
    """Per sensitive attribute (and for the product of several) a certificate or None, and the two-sided upper end."""

    certificate: dict[str, AnyCertificate | None]
    bound: dict[str, float | None]
    notes: list[str]
    look: int | None = None  # which look at these rows it was; None where nothing was certified


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


def certify_release(release: Any, versions: Sequence[Version], terms: Terms) -> Certified:
    """Certify every sensitive attribute on all fresh rows (attackers never touch the filter, so both parts may count).

    The largest bound over versions counts. Each certificate pays for the earlier looks at its rows.
    """
    names = list(versions[0][1].sensitive.columns)
    asked = [*names, " x ".join(names)] if len(names) > 1 else names
    out = Certified(dict.fromkeys(asked), dict.fromkeys(asked), [])
    evidence = [_Evidence.of(release, version) for version in versions]
    if any(e is None for e in evidence):
        kind = "this kind of noise" if has_noise(release) else "a deterministic continuous release"
        out.notes.append(f"no certificate exists for {kind}: audited, not certified")
        return out
    if not asked:
        return out
    Za, attack, Zt, test = versions[-1]
    number = terms.look or count_look(attack, test, release_digest(Za, Zt))
    delta = look_delta(1 - terms.level, number) / len(asked)  # the statements hold together
    for name in asked:
        columns = names if name not in names else [name]
        found: list[list[AnyCertificate]] = [[], []]
        reason: str | None = None
        for made, (_, attack, _, test) in zip(evidence, versions, strict=True):
            assert made is not None
            who = _who(attack, test, columns, getattr(release, "sensitive_classes_", {}))
            reason = reason or made.shared_noise(who)
            if reason is None:
                for side, share in zip(found, (delta, delta / 2), strict=True):
                    side.append(made.certificate(who, share, terms))
        if reason is None:
            one_sided, two_sided = (max(side, key=lambda c: c.bound) for side in found)
            reason = two_sided.useless()
            if reason is None:
                out.certificate[name], out.bound[name] = one_sided, two_sided.bound
                continue
            reason += _plan(evidence[0], _who(versions[0][1], versions[0][3], columns, {}), terms)
        out.notes.append(f"{name}: {reason}")
    if number > 1:
        out.notes.append(
            f"look {number} on these rows: {number - 1} other releases were certified on them before, so this "
            f"certificate spends {delta * len(asked):.2g} of the {1 - terms.level:.2g} that all of them share; "
            f"new rows would make it tighter"
        )
    return Certified(out.certificate, out.bound, out.notes, number)


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
    codes: np.ndarray | None = None
    noise: Noise | None = None
    epsilon: float | None = None
    draws: np.ndarray | None = None  # a number for each distinct draw

    @classmethod
    def of(cls, release: Any, version: Version) -> _Evidence | None:
        """Local privacy where a release declares it, counting where it is finite, Gaussian noise on a code; or none."""
        Za, attack, Zt, test = version
        mechanism = mechanism_of(release)
        noise: Noise | None = None if mechanism is None else mechanism.noise
        if noise is None:
            cells = release_cells(receiver_cells(Za, Zt))
            return None if cells is None else cls(cells=cells)
        names = [n for d in (attack, test) for n in mechanism.draw_names(d.X, d.units_of())]
        draws = pd.factorize(np.array(names, dtype=object))[0]
        if mechanism.epsilon is not None:
            return cls(noise=noise, epsilon=mechanism.epsilon, draws=draws)
        if noise.added and noise.distribution == "normal":
            codes = np.concatenate([mechanism.noiseless(attack.X), mechanism.noiseless(test.X)])
            return cls(noise=noise, codes=codes, draws=draws)
        return None

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
        return certify(self.cells[who.known], who.codes, who.n_classes, delta, candidates=terms.candidates, **common)


def _who(attack: Dataset, test: Dataset, columns: list[str], fitted: Mapping[str, Sequence[Any]]) -> _Who:
    name = columns[0] if len(columns) == 1 else PRODUCT
    declared = [*attack.classes_of(name), *test.classes_of(name), *fitted.get(name, [])]
    place = {c: i for i, c in enumerate(dict.fromkeys(declared))}
    labels = pd.concat([attack.sensitive[columns], test.sensitive[columns]], ignore_index=True)
    known = np.flatnonzero(labels.notna().all(axis=1).to_numpy())
    values = labels.iloc[known]
    each = values.iloc[:, 0] if len(columns) == 1 else values.itertuples(index=False, name=None)
    codes = np.fromiter((place[v] for v in each), dtype=np.int64, count=len(known))
    units = None
    if attack.units is not None:
        units = joint_units([pd.factorize(np.concatenate([d.units_of(c) for d in (attack, test)]))[0] for c in columns])
    return _Who(known, codes, len(place), None if units is None else units[known])


def _plan(made: _Evidence | None, who: _Who, terms: Terms) -> str:
    """How many units a useful certificate would take, in words."""
    if made is None or made.cells is None:
        return ""
    aim = (1 + 1 / who.n_classes) / 2
    try:
        needed = units_needed(made.cells[who.known], who.codes, who.n_classes, aim, 1 - terms.level, who.units)
    except InputError:
        return ""
    return "" if needed is None else f"; a bound of {aim:.2f} would take about {needed:,} units a class"
