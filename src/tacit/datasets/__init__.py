"""The data sets Tacit knows, by name. A data set is a declaration: see any module beside this one."""

from __future__ import annotations

import difflib
from typing import Any

from tacit.datasets.declaration import REGISTRY, Declaration
from tacit.errors import InputError
from tacit.records.dataset import Dataset


def load_dataset(name: str, **options: Any) -> Dataset:
    """Load a data set by name.

    Embedded and synthetic sets need nothing; real ones are looked up in ``TACIT_DATA``, then in the
    cache, then downloaded where the publisher allows. ``tacit data list`` shows all.

    Examples
    --------
    >>> import tacit
    >>> tacit.load_dataset("quadrants", n=400).X.shape
    (400, 2)
    """
    declarations()
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, REGISTRY, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"no data set is called {name!r}; {hint}The names are {', '.join(sorted(REGISTRY))}")
    try:
        return REGISTRY[name].load(**options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise InputError(f"data set {name!r}: {error}; see help on tacit.datasets") from error
        raise


def declarations() -> dict[str, Declaration]:
    """Every declared data set, by name."""
    # late, so that `import tacit.datasets` stays quick
    from tacit.datasets import (  # noqa: F401  (each registers its sets)
        celebrities,
        embedded,
        faces,
        hospital,
        motion,
        people_tables,
        signals_and_images,
        speech,
        synthetic,
    )

    return REGISTRY
