"""Record releases: of a file by a bundle, of a table by a fit, of a bundle, of a service, and several counted as one.

The product of finite codes is a finite code, and its certificate bounds every attacker who holds them all. Where one of
them is not finite, attackers read all releases side by side, and the result is an audit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.audit import audit
from tacit.auditing.received import plain_frame
from tacit.auditing.trial import released_parts
from tacit.errors import InputError
from tacit.files import parquet_files
from tacit.ledger.composition import check_receiver, mechanism_id, mechanism_ids, record, told_by
from tacit.ledger.ledger import NOBODY, Ledger, Line, joined, people_of
from tacit.noise.keyed import Finite
from tacit.options import AuditOptions
from tacit.records.dataset import Dataset
from tacit.release.bulk import sensitive_names
from tacit.release.pictures import Pictures, pictures_in
from tacit.release.record_files import Reader, open_reader
from tacit.release.runtime import Release, load
from tacit.report.report import Report

ROWS = 65536  # read at a time


def entry(release: Release, by: str, what: str, to: str, rows: int | None, way: str = "") -> dict[str, Any]:
    """What a line says of a release beside the people: who made it, for whom, by what, under which bound."""
    if by != "serve" and release.noise is not None and release.noise_key is None:  # a service never has the key
        raise InputError(
            f"{release.name} adds noise under a key, and none was given: with a fresh key each run is another release, "
            f"and they add up. Pass the one key (--noise-key FILE; tacit release key noise makes one)"
        )
    support = release.support
    spent = release.manifest["parameters"].get("dp")  # of the people of the fit, where it was differentially private
    return {
        "kind": "release",
        "by": by,
        "what": what,
        "to": check_receiver(to),
        "rows": rows,
        "bundle": release.name,
        "mechanism": mechanism_id(release.manifest, release.noise_key, way),
        "bounds": told_by(release.report, support.codes if isinstance(support, Finite) else None),
        **({"fit_privacy": spent} if isinstance(spent, dict) else {}),
    }


def record_rows(
    ledger: Ledger, release: Release, data: Any, by: str, what: str, to: str, way: str = "", units: Any = None
) -> Line:
    """Write down that these records (a `tacit.Dataset`) are released."""
    beside = {"sensitive_features": data.sensitive, "y": data.y} if release.sees_sensitive else {}
    good, prints = release.prints(data.X, **beside)
    named = None if units is None else np.asarray(units)[good]
    pairs = people_of(prints, named, ledger.secret)
    return record(ledger, entry(release, by, what, to, len(data), way), pairs, units is not None)


def record_service(ledger: Ledger, release: Release, what: str, to: str, records_per_person: int) -> Line:
    """Write down that a service takes releases: of whom, nobody knows, and of how many records at most, you say."""
    body = {**entry(release, "serve", what, to, None), "records_per_person": records_per_person}
    return record(ledger, body, None, by_unit=False)


def record_file(
    ledger: Ledger,
    to: str,
    bundle: str | Path,
    source: str | Path,
    target: str | Path,
    unit: str | None = None,
    sensitive: Sequence[str] = (),
    *,
    by: str = "apply",
    way: str = "",
    **opening: Any,
) -> Line:
    """Write down that `tacit.release.apply` will release a file; the file is read for whose records it has.

    `opening` is how the bundle is loaded: options of `tacit.load`.

    A run that was killed and started again is written down twice, and counts once: it is the same release.
    """
    release = load(bundle, **opening)
    pairs, rows = people_in(ledger, release, Path(source), unit, sensitive)
    return record(ledger, entry(release, by, Path(target).name, to, rows, way), pairs, unit is not None)


def people_in(
    ledger: Ledger, release: Release, source: Path, unit: str | None, sensitive: Sequence[str] = ()
) -> tuple[np.ndarray, int]:
    """Whose records a file holds, under the ledger's key, and how many of them fit the bundle."""
    parts, rows = [NOBODY], 0
    for batch in _reader(source, release, unit, sensitive):
        good, prints = release.prints(batch.read()[0] if isinstance(batch, Pictures) else batch)
        units = getattr(batch, "units", None)
        parts.append(people_of(prints, None if units is None else [units[i] for i in good], ledger.secret))
        rows += len(good)
    return joined(parts), rows


def _reader(source: Path, release: Release, unit: str | None, sensitive: Sequence[str]) -> Any:
    if source.is_dir() and not parquet_files(source):
        pictures = pictures_in(source, release)
        return Reader(pictures.parts(ROWS), len(pictures))
    if not source.exists():
        raise InputError(f"no file or folder {source}; check the path")
    return open_reader(source, release.manifest, ROWS, unit, sensitive_names(release, sensitive))


def audit_together(releases: Sequence[Any], attack: Dataset, test: Dataset, **options: Any) -> Report:
    """Audit several releases of the same records as one release.

    Parameters
    ----------
    releases : filters or bundles
    attack, test : rows that none of them was fitted on; rows that one of them knows from its fit are left out
    options : of `tacit.audit`

    Examples
    --------
    >>> import tacit
    >>> train, attack, test = tacit.load_dataset("gaussians", n=2000).split()
    >>> codes = [tacit.CodebookFilter(n_codes=k, random_state=0) for k in (2, 4)]
    >>> codes = [f.fit(train.X, train.y, sensitive_features=train.sensitive) for f in codes]
    >>> report = audit_together(codes, attack, test, attackers="logistic", measurements=["no-baseline", "no-breadth"])
    >>> report.certificate["shape"].cells <= 8
    True
    """
    if len(releases) < 2:
        raise InputError("one release is no several; pass at least two")
    attack, test = _unseen(releases, attack), _unseen(releases, test)
    released = [released_parts(r, (attack, test)) for r in releases]
    tables = [pd.concat([plain_frame(Z[i]) for Z in released], axis=1) for i in (0, 1)]
    tables = [t.set_axis([str(i) for i in range(t.shape[1])], axis=1) for t in tables]
    name = " + ".join(getattr(r, "name", type(r).__name__) for r in releases)
    options["options"] = replace(options.get("options") or AuditOptions(), name=name)
    return audit(tuple(tables), attack, test, **options)


def record_together(ledger: Ledger, releases: Sequence[Release], report: Report) -> Line:
    """Write down what these bundles tell together, so that an account can use it."""
    supports = [r.support for r in releases]
    codes = [s.codes for s in supports if isinstance(s, Finite) and s.codes is not None]
    cells = math.prod(codes) if len(codes) == len(releases) else None
    ids = [mechanism_ids(r.manifest, r.noise_key) for r in releases]
    return ledger.append(
        {
            "kind": "together",
            "bundles": [r.name for r in releases],
            # a table that a fit wrote has its rows of the fit from other parts: another mechanism, certified alike
            "sets": [sorted(names) for names in itertools.product(*ids)],
            "bounds": told_by(report, cells),
        }
    )


def _unseen(releases: Sequence[Any], data: Dataset) -> Dataset:
    """The rows that no release knows from its fit."""
    seen = np.zeros(len(data), dtype=bool)
    for release in releases:
        if hasattr(release, "seen"):
            seen |= release.seen(data.X, data.units_of())
    return data.take(np.flatnonzero(~seen)) if seen.any() else data
