"""`tacit.certify`: the certificate of a release that an engine has counted.

A group-by is all that a certificate needs: how many records have each release, each sensitive class and, where people
have several records, each (hashed) unit. Equal rows add up, so the counts of partitions and days are merged by putting
one below the other; a unit that occurs in several of them is one unit.

The certificate is that of the records themselves, sorted by unit, release and class: which record of a unit speaks for
it is drawn by a coin that falls in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.certificate import MAX_CELLS
from tacit.auditing.certificate import certify as certify_rows
from tacit.auditing.certification import Certified, look_notes, statements
from tacit.auditing.looks import count_look_at, release_digest
from tacit.auditing.population import look_delta
from tacit.errors import InputError, RequirementNotMet
from tacit.labels import MISSING, encode_labels, joint_codes
from tacit.report.certificates import AnyCertificate
from tacit.report.results import at_most, percent, shown

FRESH = "counts do not tell whether the filter was fitted on these rows: count rows that it never saw"
ALONE = "without a unit every record counts as another person's: where people have several, count them by a hashed unit"


@dataclass(frozen=True)
class CountedCertificates(Certified):
    """What is certified of counts, by sensitive column, and what the reader must know.

    `releases` has the columns of every release that was counted; a certificate names one by its row there.
    """

    level: float = 0.95
    releases: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __getitem__(self, name: str) -> AnyCertificate | None:
        if name not in self.certificate:
            raise InputError(f"the counts have no attribute {name!r}; they have {', '.join(self.certificate)}")
        return self.certificate[name]

    def __str__(self) -> str:
        lines, level = [], percent(self.level)
        for name, found in self.certificate.items():
            if found is None:
                lines.append(f"{name}: none; see the notes")
                continue
            lines += [
                f"{name}: leakage at most {at_most(found.bound)} ({level}), guessing {shown(found.guessing)}, "
                "certified",
                *([] if found.odds is None else [f"{name}: {found.odds.sentence(level)}"]),
                f"{name}: {found.explain(level)}",
            ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Bounds, certificates and notes as plain data."""
        told = {name: None if c is None else c.to_dict() for name, c in self.certificate.items()}
        bounds = {name: None if c is None else c.bound for name, c in self.certificate.items()}
        return {"confidence_level": self.level, "bound": bounds, "certificate": told, "notes": list(self.notes)}

    def require(
        self, leakage: Mapping[str, float] | None = None, odds: Mapping[str, float] | None = None
    ) -> CountedCertificates:
        """Raise unless every bound, and every bound on single releases' odds, is at most what is asked."""
        problems = []
        for word, asked in (("bound", leakage or {}), ("worst_odds", odds or {})):
            for name, most in asked.items():
                found = self[name]
                if found is None:
                    problems.append(f"{name}: no certificate exists for these counts")
                elif getattr(found, word) > most:
                    what = "leakage" if word == "bound" else "a release's odds"
                    told = f"{name}: {what} may be as high as {getattr(found, word):.3f} (certified)"
                    problems.append(f"{told}, allowed {most:.3f}")
        if problems:
            raise RequirementNotMet("; ".join(problems))
        return self


def certify(
    counts: Any,
    sensitive: str | Sequence[str] = "sensitive",
    *,
    unit: str | None = None,
    n: str = "n",
    classes: Mapping[str, Sequence[Any]] | None = None,
    n_cells: int | None = None,
    candidates: int = 1,
    confidence_level: float = 0.95,
    per: str = "unit",
    max_unit_size: int | None = None,
) -> CountedCertificates:
    """Bound any attacker on a finite release from counts that an engine made, without the records.

    Parameters
    ----------
    counts : a DataFrame, Arrow table or dict of columns: `n`, the sensitive columns, the unit where there is one; all
        other columns together are the release. Rows may repeat, as those of several partitions or days do
    sensitive : the sensitive column or columns; a missing value leaves the record out for that column
    unit : column of (hashed) units; None: the column "unit" where there is one, else every record is a unit
    n : column with the number of records
    classes : by sensitive column, classes that the population may have, whether or not they occur here
    n_cells : how many different releases there can be, where that is known: the odds are then of all
    candidates, confidence_level, per, max_unit_size : as for `tacit.audit`

    Examples
    --------
    >>> import tacit
    >>> from tacit.auditing.looks import new_project
    >>> day = {"z0": [0, 0, 1, 1], "sex": ["f", "m", "f", "m"], "n": [5000, 4900, 5100, 5200]}
    >>> with new_project():
    ...     found = tacit.certify(day, "sex")
    >>> round(found["sex"].plugin, 3), round(found["sex"].bound, 3), found["sex"].n
    (0.505, 0.514, 20200)
    """
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    table = _merged(counts, names, unit, n)
    unit = unit or ("unit" if "unit" in table else None)
    released = [c for c in table.columns if c not in (*names, unit, n)]
    cells = table.groupby(released, dropna=False, sort=True, observed=True).ngroup().to_numpy()
    _check_releases(int(cells.max()) + 1, released, n_cells)
    labels = encode_labels(table[names], "sensitive", len(table), _declared(table, names, classes or {}))
    prints = pd.util.hash_pandas_object(table, index=False).to_numpy()
    look = count_look_at(_who(table, names, unit, n), release_digest(np.array(table.columns, dtype=object), prints))
    named = statements(names)
    delta = look_delta(1 - confidence_level, look) / len(named)  # the statements hold together
    releases = table.loc[np.unique(cells, return_index=True)[1], released].reset_index(drop=True)
    out = CountedCertificates({}, {}, [FRESH], look, level=confidence_level, releases=releases)
    out.notes.extend([*([ALONE] if unit is None else []), *look_notes(look, confidence_level)])
    for name, columns in named.items():
        codes = labels.codes[:, list(columns)]
        known = (codes != MISSING).all(axis=1)
        sizes = [labels.n_classes(i) for i in columns]
        code = codes[known][:, 0] if len(sizes) == 1 else joint_codes(codes[known])
        n_classes = sizes[0] if len(sizes) == 1 else int(code.max()) + 1
        units = None if unit is None else table[unit].to_numpy()[known]
        terms = (units, candidates, per, max_unit_size, n_cells, table[n].to_numpy()[known])
        one, two = (certify_rows(cells[known], code, n_classes, share, *terms) for share in (delta, delta / 2))
        reason = two.useless()
        out.certificate[name], out.bound[name] = (one, two.bound) if reason is None else (None, None)
        out.notes.extend([] if reason is None else [f"{name}: {reason}"])
    return out


def _merged(counts: Any, sensitive: list[str], unit: str | None, n: str) -> pd.DataFrame:
    """The counts as a table in which every release, class and unit occurs once, in sorted order."""
    table = counts.to_pandas() if hasattr(counts, "to_pandas") else pd.DataFrame(counts)
    absent = [c for c in (*sensitive, unit, n) if c is not None and c not in table]
    if absent:
        raise InputError(
            f"the counts have no column {absent[0]!r}; they have {', '.join(map(str, table.columns))}. Pass "
            f"sensitive=, unit= and n= with the names of your columns"
        )
    number = pd.to_numeric(table[n], errors="coerce")
    bad = ~(number >= 0) | (number % 1 != 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"column {n!r}, row {row}: {str(table[n].iloc[row])!r} is not a number of records; expected 0, 1, ..."
        )
    table = table.assign(**{n: number.astype(np.int64)})[number.to_numpy() > 0]
    if len(table) == 0:
        raise InputError("the counts are empty; count at least one record of each class")
    keys = [c for c in table.columns if c != n]
    released = [c for c in keys if c not in (*sensitive, unit or "unit")]
    if not released:
        raise InputError(
            f"the counts have no column of the release beside {', '.join(keys)}; group by what is released"
        )
    by = [c for c in (unit or "unit", *released, *sensitive) if c in table]
    if (u := by[0]) not in released and table[u].isna().any():
        raise InputError(f"column {u!r}: a unit is missing; every record needs its unit")
    return table.groupby(by, dropna=False, sort=True, observed=True)[n].sum().reset_index()


def _check_releases(found: int, columns: list[str], n_cells: int | None) -> None:
    if found > MAX_CELLS:
        raise InputError(
            f"the counts have {found:,} different releases (columns {', '.join(columns)}); at most {MAX_CELLS:,} can "
            f"be certified by counting. Name the column of units (unit=), and leave out what is not released"
        )
    if n_cells is not None and found > n_cells:
        raise InputError(
            f"n_cells={n_cells} but the counts have {found:,} different releases (columns {', '.join(columns)}); pass "
            f"how many there can be, or leave it out"
        )


def _declared(table: pd.DataFrame, names: list[str], classes: Mapping[str, Sequence[Any]]) -> list[np.ndarray]:
    found = [pd.Series([*table[c].dropna().unique(), *classes.get(c, ())], name=c) for c in names]
    return [np.asarray(encode_labels(column, "sensitive", len(column)).classes[0]) for column in found]


def _who(table: pd.DataFrame, names: list[str], unit: str | None, n: str) -> Any:
    """What these rows are known by at another look: their units; else how many have each sensitive class."""
    if unit is not None:
        return table[unit].to_numpy()
    return [f"{c}: {table.groupby(c)[n].sum().to_dict()}" for c in names]
