"""Several releases of the same records counted as one: the only way to certify what they tell together.

The product of finite codes is a finite code, and its certificate bounds whoever holds them all, whatever the law.
Where one of them is not finite, attackers read all side by side, and that is audited.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tacit.auditing.audit import audit
from tacit.auditing.received import plain_frame
from tacit.auditing.trial import released_parts
from tacit.errors import InputError
from tacit.ledger.account import mechanism_ids, told_by
from tacit.ledger.chain import Ledger, Line
from tacit.noise.support import Finite
from tacit.records.dataset import Dataset
from tacit.release.runtime import Release
from tacit.report.report import Report


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
    >>> report = audit_together(codes, attack, test, attackers="logistic", floor=False, power=False, breadth=False)
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
    return audit(tuple(tables), attack, test, **{"name": name, **options})


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
