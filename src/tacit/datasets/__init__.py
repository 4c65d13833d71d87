"""Data sets by name: those of scikit-learn and synthetic ones. `papers.data` of a checkout adds those of the papers."""

from __future__ import annotations

import difflib
from typing import Any

from tacit.datasets.registry import LOADERS as LOADERS
from tacit.datasets.registry import register as register
from tacit.errors import InputError
from tacit.records.dataset import Dataset


def load_dataset(name: str, **options: Any) -> Dataset:
    """Load a data set by name.

    The names are circles, diabetes, digits, gaussians, octants and quadrants. In a checkout, ``import papers.data``
    adds the data sets of the papers (Adult, MotionSense and others), whose files you prepare yourself.

    Examples
    --------
    >>> import tacit
    >>> tacit.load_dataset("quadrants", n=400).X.shape
    (400, 2)
    """
    from tacit.datasets import builtin, synthetic  # noqa: F401  (late: `import tacit` stays quick; each registers its sets)

    if name not in LOADERS:
        near = difflib.get_close_matches(name, LOADERS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"no data set is called {name!r}; {hint}The names are {', '.join(sorted(LOADERS))}. Those of the papers "
            f"are known after `import papers.data`, in a checkout"
        )
    try:
        return LOADERS[name](**options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise InputError(f"data set {name!r}: {error}; see help on tacit.datasets") from error
        raise
